"""Real recordings of the Responses API by many providers, against what official clients make of them.

Files on which two clients agree, and those that one client alone could read, are held to its answer; every file where
clients differ or that none could read has its expectation here, with the reason.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from responses_streams import Reading, naive_read, reading_of

from sluice.testing.splits import in_pieces
from sluice.values.deltas import ReasoningDelta, TextDelta
from sluice.wire import DIALECTS

pytestmark = pytest.mark.corpus

V = "vercel-ai__inline__"
RESPONSES = V + "openai_src_responses_openai-responses-language-model__"
FACE = V + "ggingface_src_responses_huggingface-responses-language-model__"
FIXTURE = "vercel-ai__openai_src_responses___fixtures___"

# Where we say otherwise than the recorded answer. A row that is no deviation any more fails the test.
JOINED = "the file holds several replies one after the other; a reply ends with its terminal mark, and is the first"
LATE = "the text stands in the end of the item alone; the client reads only deltas or the end of the reply"
RAN = "the server ran the call itself and shows its output: the call is there, and never to be run"
DEVIATIONS = {
    "vercel-ai__azure_src___fixtures___azure-reasoning-encrypted-content.1.chunks__0.sse": JOINED,
    FIXTURE + "openai-reasoning-encrypted-content.1.chunks__0.sse": JOINED,
    FIXTURE + "openai-shell-tool.1.chunks__0.sse": JOINED,
    V + "azure_src_azure-openai-provider__L1804__"
    "should-handle-file-citation-annotations-without-optional-fie.sse": LATE,
    RESPONSES + "L10066__should-handle-file-path-annotations-in-streaming.sse": LATE,
    RESPONSES + "L9621__should-handle-both-url-citation-and-file-citation-annotation.sse": LATE,
    RESPONSES + "L9733__should-handle-file-citation-annotations-without-optional-fie.sse": LATE,
    RESPONSES + "L9848__should-handle-container-file-citation-annotations-in-streami.sse": LATE,
    "zed-industries-codex__codex-rs_core_tests_cli_responses_fixture__0.sse": LATE,
    "zed-industries-codex__codex-rs_exec_tests_fixtures_cli_responses_fixture__0.sse": LATE,
    FACE + "L972__should-stream-tool-calls.sse": RAN,
}

# Where clients differ: whose answer is ours, and why. All others that differ are of the kind EMPTY.
EMPTY = ("pydantic-ai", "response.completed has an empty `output`; one client believes it and drops the whole reply")
DIFFER = {
    "pydantic-ai__cassettes_test_tool_search_test_openai_client_tool_search_streaming__0.sse": (
        "openai-python",
        "a tool_search_call is no function call and nothing that we offer: it is kept, never run",
    ),
    FIXTURE + "openai-custom-tool.1.chunks__0.sse": (
        "openai-python",
        "a call with free text is a call; one client drops it. It is malformed here: no such tool was offered",
    ),
    FIXTURE + "openai-phase.1.chunks__0.sse": (
        "openai-python",
        "deltas were cut out of the recording; the end of the item goes on where they stop, so the rest is handed out",
    ),
    FIXTURE + "openai-shell-container.1.chunks__0.sse": (
        "pydantic-ai",
        "deltas and the end of the item say different things; what was shown stands, and that is counted",
    ),
    "vercel-ai__xai_src_responses___fixtures___xai-x-search-tool.chunks__0.sse": (
        "openai-python",
        "free-text calls, as above; that the server runs them itself cannot be seen. None is ever run by us",
    ),
}

# Files without a recorded answer: kind of error (or none), text, calls, stop reason, and why.
NONE: dict[str, tuple[str | None, str | None, list[Any], str | None, str]] = {
    "claude-code-router__inline__core_test_unit_agents_context-archive__L842__"
    "Codex-CLI-compaction-item-exposes-archive-access-that-can-re.sse": (
        None, "Codex summary intentionally omits the deploy key.", [], "end_turn", "deltas without item or start"),
    "claude-code-router__inline__core_test_unit_gateway_codex-patch-bridge__L157__"
    "Codex-compact-compat-rewrites-compaction-trigger-without-con.sse": (
        None, "Trigger summary", [], "end_turn", "the same"),
    "langwatch__services_aigateway_adapters_providers_testdata_openai_responses_error_event__0.sse": (
        "provider_error", "", [], None, "an error event, then response.failed: the first is raised"),
    FIXTURE + "openai-error.1.chunks__0.sse": ("provider_error", "", [], None, "the same"),
    RESPONSES + "L8345__should-throw-an-api-error-for-documented-top-level-error-eve.sse": (
        "provider_error", "", [], None, "the documented error event, without a member `error`"),
    RESPONSES + "L8418__should-throw-an-api-error-when-response-failed-arrives-befor.sse": (
        "provider_error", "", [], None, "response.failed alone"),
    RESPONSES + "L8439__should-expose-raw-finish-reason-from-late-response-failed-in.sse": (
        "provider_error", "", [], None, "an error event after an item began"),
    "pi-mono__inline__ai_test_openai-codex-stream__L87__streams-SSE-responses-into-AssistantMessageEventStream.sse": (
        None, "Hello", [], "end_turn", "no indices and no ids in deltas: the last open message speaks"),
    FACE + "L1268__should-stream-reasoning-content.sse": (
        None, "The solution is simple.", [], "end_turn", "no `output` at the end: what was streamed stands"),
    FACE + "L586__should-handle-streaming-without-usage.sse": (None, "Hi!", [], "end_turn", "the same, without a start"),
    FACE + "L624__should-handle-non-message-item-types.sse": (None, "", [], "end_turn", "a list of tools and no words"),
    FACE + "L649__should-handle-streaming-errors.sse": ("malformed_event", "", [], None, "an event that is no JSON"),
    FACE + "L678__should-send-correct-streaming-request.sse": (None, "", [], "end_turn", "a terminal mark and no more"),
    V + "open-responses_src_responses_open-responses-language-model__L1160__"
    "should-close-unfinished-reasoning-items-with-their-original.sse": (
        None, "", [], "max_tokens", "reasoning was cut by the limit; nothing was said"),
    V + "open-responses_src_responses_open-responses-language-model__L1222__"
    "should-not-pollute-Object-prototype-from-tool-call-item-ids.sse": (
        None, "", [("", "polluted", "malformed")], "tool_use", "arguments of a call that was never opened: no name"),
    RESPONSES + "L7472__should-use-the-final-tool-search-call-id-when-the-streamed-p.sse": (
        None, "", [], "end_turn", "tool search is kept and never run"),
    FIXTURE + "openai-client-tool-search.1.chunks__0.sse": (None, "", [], "end_turn", "the same"),
    RESPONSES + "L8573__should-handle-reasoning-with-summary.sse": (
        None, "answer text", [], "end_turn", "ends of items name the item and nothing in it"),
    RESPONSES + "L8913__should-handle-encrypted-content-with-summary.sse": (
        None, "answer text", [], "end_turn", "the same"),
    RESPONSES + "L9292__should-handle-multiple-reasoning-blocks.sse": (
        None, "Let me think about this step by step.Based on my analysis, here is the solution.", [], "end_turn",
        "two messages in one reply are joined as they came"),
}  # fmt: skip


@pytest.fixture(scope="module")
def rows(shared: Path) -> list[dict[str, Any]]:
    path = shared / "corpus" / "expected.jsonl"
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return [row for row in rows if row["dialect"] == "openai-responses"]


def body_of(shared: Path, row: dict[str, Any]) -> bytes:
    return (shared / "corpus" / row["file"]).read_bytes()


def name_of(row: dict[str, Any]) -> str:
    return str(row["file"].removeprefix("openai-responses/"))


def value_of(arguments: str) -> Any:
    """Arguments as a JSON value; text that is none stays text."""
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def calls_of(reading: Reading) -> list[tuple[str, Any]]:
    return [(c.name, value_of(c.arguments)) for c in reading.reply.tool_calls]


def answer(reading: Reading, row: dict[str, Any]) -> str:
    """Empty if the reading is what the recorded answer wants, else what is not."""
    if reading.reply.text != row["text"]:
        return "another text"
    if reading.kind or calls_of(reading) != [(c["name"], value_of(c["arguments"])) for c in row["tool_calls"]]:
        return "other calls, or an error"
    whole = {c.status == "whole" for c in reading.reply.tool_calls}
    return "" if whole <= {row["arguments_whole"]} else "whole and broken calls are mixed up"


def test_every_answer_of_agreeing_or_lone_clients_is_ours_or_a_named_deviation(
    shared: Path, rows: list[dict[str, Any]]
) -> None:
    checked = [row for row in rows if row.get("agreement") in ("exact", "single-oracle")]
    assert len(checked) > 240
    wrong = {}
    for row in checked:
        said = answer(reading_of([body_of(shared, row)]), row)
        if said:
            wrong[name_of(row)] = said
    assert wrong.keys() - DEVIATIONS.keys() == set(), wrong
    assert DEVIATIONS.keys() - wrong.keys() == set(), "these are deviations no more"


def test_the_deviations_are_what_their_reasons_say(shared: Path, rows: list[dict[str, Any]]) -> None:
    by_name = {name_of(row): row for row in rows}
    for name, reason in DEVIATIONS.items():
        body = body_of(shared, by_name[name])
        reading = reading_of([body])
        assert reading.whole is not None, name
        if reason == JOINED:
            assert body.count(b'"type":"response.completed"') > 1, name
            first = body[: body.index(b"\n\n", body.index(b'"type":"response.completed"')) + 2]
            assert reading_of([first]).result == reading.result, name
        elif reason == LATE:
            assert b"output_text.delta" not in body, name
            assert reading.reply.text, name
            assert reading.reply.tolerances["text_only_at_end"] == 1, name
        else:
            assert [c.status for c in reading.reply.tool_calls] == ["malformed"], name
            assert "itself" in str(reading.reply.tool_calls[0].problem)


def test_every_disagreement_of_clients_has_our_answer(shared: Path, rows: list[dict[str, Any]]) -> None:
    differing = [row for row in rows if row.get("agreement") == "differ"]
    assert len(differing) == 30
    seen = set()
    for row in differing:
        reading = reading_of([body_of(shared, row)])
        assert reading.whole is not None, row["file"]
        side, reason = DIFFER.get(name_of(row), EMPTY)
        seen.add(name_of(row))
        theirs = row["by_oracle"][side]
        wanted = [(name, value_of(arguments.removeprefix("RAW:"))) for name, arguments in theirs["tools"]]
        assert (reading.reply.text, calls_of(reading)) == (theirs["text"], wanted), (row["file"], reason)
        if (side, reason) == EMPTY:
            assert reading.reply.tolerances["output_missing_at_end"] == 1, row["file"]
            assert all(c.status == "whole" for c in reading.reply.tool_calls)
        else:
            assert all((c.kind, c.status) == ("custom", "malformed") for c in reading.reply.tool_calls)
    assert DIFFER.keys() <= seen


def test_every_file_without_an_answer_has_ours(shared: Path, rows: list[dict[str, Any]]) -> None:
    lone = {name_of(row): row for row in rows if row.get("agreement") is None}
    assert lone.keys() == NONE.keys()
    for name, (kind, text, calls, stop, why) in NONE.items():
        reading = reading_of([body_of(shared, lone[name])])
        got = [(c.name, c.arguments, c.status) for c in reading.reply.tool_calls]
        assert (reading.kind, reading.reply.text, got, reading.reply.stop_reason) == (kind, text, calls, stop), why


@pytest.mark.timeout(300)
@pytest.mark.parametrize("size", [1, 7, 1460])
def test_pieces_change_nothing(shared: Path, rows: list[dict[str, Any]], size: int) -> None:
    for row in rows:
        body = body_of(shared, row)
        if size == 1 and len(body) > 200 * 1024:
            continue  # a call for each byte; no body of this dialect is so large today
        assert reading_of(in_pieces(body, size)).result == reading_of([body]).result, row["file"]


def test_a_naive_reader_agrees_wherever_it_has_an_opinion(shared: Path, rows: list[dict[str, Any]]) -> None:
    opinions = 0
    for row in rows:
        naive = naive_read(body_of(shared, row))
        if naive is None:
            continue
        opinions += 1
        reading = reading_of([body_of(shared, row)])
        reply = reading.reply
        got = (reply.text, reply.reasoning, reply.stop_reason)
        assert got == (naive["text"], naive["reasoning"], naive["stop"]), row["file"]
        assert [(c.id, c.name, c.arguments or "{}") for c in reply.tool_calls] == [
            (id, name, arguments or "{}") for id, name, arguments in naive["calls"]
        ], row["file"]
        assert reply.text == "".join(d.text for d in reading.deltas if isinstance(d, TextDelta))
        assert reply.reasoning == "".join(d.text for d in reading.deltas if isinstance(d, ReasoningDelta))
    assert opinions > 240


def test_no_prefix_is_a_short_success(shared: Path, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        body = body_of(shared, row)
        for part in range(1, 6):
            reading = reading_of([body[: len(body) * part // 6]])
            if reading.whole is None:
                assert all(c.status != "whole" or b"output_item.done" in body for c in reading.partial.tool_calls)
            else:
                cut = body[: len(body) * part // 6]
                assert any(f'"response.{w}"'.encode() in cut for w in ("completed", "incomplete")), row["file"]


def test_captured_exchanges_of_a_real_server(shared: Path) -> None:
    folder = shared / "local-model" / "exchanges"
    said = reading_of([(folder / "24_responses_text.sse").read_bytes()])
    assert said.whole is not None
    assert said.whole.text.startswith("Hello there, Bob!")
    assert said.whole.tolerances == {"missing_output_index": 1}
    called = reading_of([(folder / "25_responses_tool.sse").read_bytes()])
    assert called.whole is not None
    assert called.whole.stop_reason == "tool_use"
    first = called.whole.tool_calls[0]
    assert (first.name, value_of(first.arguments)) == ("read_file", {"path": "src/app.py", "offset": 0})
    assert first.status == "whole"


def test_files_of_every_dialect_end_in_a_reply_or_one_of_our_errors(shared: Path) -> None:
    for folder in sorted((shared / "corpus").iterdir()):
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            reading = reading_of([path.read_bytes()])
            if folder.name != "openai-responses":
                assert reading.whole is None, path.name
    assert "openai_responses" in DIALECTS
