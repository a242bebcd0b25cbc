"""Recorded streams of Anthropic Messages, against what the official client and another one agree on.

Every body is read whole, in 1-byte, 7-byte and 1,460-byte pieces (1-byte pieces are left out for bodies over 200 KB: there
is one). One body is one message: fixtures that hold several replies, one after the other, are read up to the end of the
first, whatever clients that do not stop there make of the rest.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from messages_streams import naive_read, reading_of

from sluice.testing.splits import in_pieces
from sluice.wire import DIALECTS

pytestmark = pytest.mark.corpus

FOLDER = "anthropic-messages/"
ONE_BYTE_UP_TO = 200_000

SEVERAL = (
    "several replies in one body: clients glue their blocks together by index; ours ends at the first message_stop"
)
NO_MARK = "message_stop never came; [DONE] says only that the server stopped sending (W6)"

# (kind of the error, stop reason, names and statuses of calls, the beginning of the text), and why. Every file without
# an agreed answer is here, and every one where ours is another.
OURS: dict[str, tuple[str | None, str | None, list[tuple[str, str]], str, str]] = {
    "vercel-ai__anthropic_src___fixtures___anthropic-tool-search-bm25.1.chunks__0.sse": (
        None, "tool_use", [("get_weather", "whole")], "I'll search for a weather-related tool", SEVERAL),
    "vercel-ai__anthropic_src___fixtures___anthropic-tool-search-regex.1.chunks__0.sse": (
        None, "tool_use", [("get_temp_data", "whole")], "Great! I found a weather tool.", SEVERAL),
    "vercel-ai__anthropic_src___fixtures___anthropic-tool-search-deferred-bm25.chunks__0.sse": (
        None, "tool_use", [("readNoteTree", "whole")], "I'll help you with this task.", SEVERAL),
    "vercel-ai__anthropic_src___fixtures___anthropic-tool-search-deferred-regex.chunks__0.sse": (
        None, "tool_use", [("readNoteTree", "whole")], "I'll help you with this task.", SEVERAL),
    "vercel-ai__anthropic_src___fixtures___anthropic-programmatic-tool-calling.1.chunks__0.sse": (
        None, "tool_use", [("rollDie", "whole")], "I'll help you simulate this game", SEVERAL),
    "vercel-ai__anthropic_src___fixtures___spliced-message-start.chunks__0.sse": (
        "malformed_event", None, [("test-tool", "cut")], "",
        "a second message_start with another id in the middle of a call: one client invents the value 'Spark{', the other "
        "glues both names together; nothing of this can be trusted"),
    "anthropic-sdk-typescript__lib_fixtures_incomplete_partial_json_response__0.sse": (
        None, "max_tokens", [("make_file", "cut")], "I'll create a comprehensive tax guide",
        "cut for length inside a string: the official client heals the arguments and drops the last line; ours stay raw"),
    "anthropic-sdk-typescript__inline__middleware-streaming__L548__pass-through-preserves-SSE-fields-the-decoder-does-"
    "not-model.sse": ("incomplete", None, [], "", NO_MARK),
    "claude-code-router__inline__core_test_integration_observability_request-log-store__L24__request-log-model-summaries-"
    "support-routed-paths-and-streame.sse": (
        "incomplete", None, [], "", "message_stop without any stop_reason: no mark, no reason (W16)"),
    "claude-code-router__inline__core_test_unit_gateway_anthropic-response-model__L120__gateway-pipeline-preserves-Claude-"
    "Code-hex-model-id-in-Anthr.sse": ("incomplete", None, [], "", NO_MARK),
    "claude-code-router__inline__st_integration_observability_request-log-pricing-transaction__L194__RequestLogStore-"
    "prices-Anthropic-5m-and-1h-cache-writes-sepa.sse": ("incomplete", None, [], "", NO_MARK),
    "rig__cassettes_anthropic_streaming_gateway_message_delta_metadata__0.sse": (
        None, "max_tokens", [], "A solar eclipse occurs when",
        "a gateway adds [DONE] after message_stop, which the official client cannot read; the reply was over by then"),
    "vercel-ai__inline__anthropic_src_anthropic-language-model__L10715__should-forward-overloaded-error-during-"
    "streaming.sse": ("provider_error", None, [], "", "an error in the stream wins"),
    "vercel-ai__inline__anthropic_src_anthropic-language-model__L8137__should-forward-error-chunks.sse": (
        "provider_error", None, [], "", "an error in the stream wins"),
    "vercel-ai__inline__anthropic_src_anthropic-language-model__L9630__should-include-caller-info-when-tool-use-has-"
    "caller-field-fr.sse": ("incomplete", None, [("query_database", "whole")], "", NO_MARK),
    "vercel-ai__inline__anthropic_src_anthropic-language-model__L9676__should-include-caller-info-when-tool-use-has-"
    "direct-caller-t.sse": ("incomplete", None, [("get_weather", "whole")], "", NO_MARK),
    "vercel-ai__inline__anthropic_src_anthropic-language-model__L9721__should-use-non-empty-input-from-content-block-"
    "start-for-defe.sse": ("incomplete", None, [("query_database", "whole")], "", NO_MARK),
    "vercel-ai__inline__anthropic_src_anthropic-language-model__L9766__should-NOT-prepend-empty-input-when-deltas-follow-"
    "content-bl.sse": ("incomplete", None, [("get_weather", "whole")], "", NO_MARK),
}  # fmt: skip


@pytest.fixture(scope="module")
def rows(shared: Path) -> list[dict[str, Any]]:
    lines = (shared / "corpus" / "expected.jsonl").read_text("utf-8").splitlines()
    return [row for row in map(json.loads, lines) if row["dialect"] == "anthropic-messages"]


@pytest.fixture(scope="module")
def bodies(shared: Path, rows: list[dict[str, Any]]) -> dict[str, bytes]:
    return {row["file"].removeprefix(FOLDER): (shared / "corpus" / row["file"]).read_bytes() for row in rows}


def value_of(arguments: str) -> Any:
    """Arguments as a JSON value; text that is none stays text."""
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def test_every_agreed_answer_is_ours(rows: list[dict[str, Any]], bodies: dict[str, bytes]) -> None:
    checked = 0
    for row in rows:
        name = row["file"].removeprefix(FOLDER)
        if name in OURS:
            continue
        assert row.get("agreement") in ("exact", "single-oracle"), name
        assert row["complete"], name
        reading = reading_of([bodies[name]])
        reply = reading.reply
        assert reading.kind is None, name
        assert reply.text == row["text"], name
        got = [(c.name, value_of(c.arguments)) for c in reply.tool_calls]
        assert got == [(c["name"], value_of(c["arguments"])) for c in row["tool_calls"]], name
        for call in reply.tool_calls:
            assert (call.status == "whole") == isinstance(value_of(call.arguments), dict), name
        checked += 1
    assert checked > 260


def test_every_other_file_has_a_reasoned_answer_of_ours(rows: list[dict[str, Any]], bodies: dict[str, bytes]) -> None:
    assert OURS.keys() <= bodies.keys()
    for row in rows:
        name = row["file"].removeprefix(FOLDER)
        if name in OURS:
            kind, reason, calls, beginning, why = OURS[name]
            reading = reading_of([bodies[name]])
            reply = reading.reply
            assert reading.kind == kind, (name, why)
            assert reply.stop_reason == reason, (name, why)
            assert [(c.name, c.status) for c in reply.tool_calls] == calls, (name, why)
            assert reply.text.startswith(beginning), (name, why)


def test_errors_keep_the_providers_code_and_words(bodies: dict[str, bytes]) -> None:
    name = next(name for name in bodies if "L10715" in name)
    error = reading_of([bodies[name]]).error
    assert error is not None
    assert (error.code, "Overloaded" in str(error)) == ("overloaded_error", True)


@pytest.mark.timeout(300)  # three million reads of one byte
@pytest.mark.parametrize("size", [1, 7, 1460])
def test_pieces_change_nothing(bodies: dict[str, bytes], size: int) -> None:
    left_out = 0
    for name, body in bodies.items():
        if size == 1 and len(body) > ONE_BYTE_UP_TO:
            left_out += 1
            continue
        assert reading_of(in_pieces(body, size)).result == reading_of([body]).result, name
    assert left_out <= 1


def test_a_naive_reader_agrees_wherever_it_has_an_opinion(bodies: dict[str, bytes]) -> None:
    opinions = 0
    for name, body in bodies.items():
        naive = naive_read(body)
        if naive is None or name in OURS:
            continue
        opinions += 1
        reply = reading_of([body]).reply
        got = {
            "text": reply.text,
            "reasoning": reply.reasoning,
            "signed": [(b.text, b.signature) for b in reply.blocks if b.redacted is None],
            "calls": [(c.id, c.name, c.arguments) for c in reply.tool_calls],
            "stop": reply.stop_reason,
        }
        assert got == naive, name
    assert opinions > 250


def test_the_tolerances_that_recordings_need_are_few(bodies: dict[str, bytes]) -> None:
    used: dict[str, int] = {}
    for body in bodies.values():
        for rule in reading_of([body]).reply.tolerances:
            used[rule] = used.get(rule, 0) + 1
    assert used == {
        "empty_arguments": used["empty_arguments"],
        "repeated_message_start": 1,
        "unstopped_block": 3,
        "delta_of_other_kind": 1,
        "delta_after_stop": 1,
    }


def test_no_file_of_any_dialect_ends_in_anything_but_a_reply_or_one_of_our_errors(shared: Path) -> None:
    read = 0
    for path in sorted((shared / "corpus").rglob("*")):
        if path.is_file() and path.parent.parent.name == "corpus" and path.parent.name + "/" != FOLDER:
            reading = reading_of([path.read_bytes()])
            assert reading.error is not None, f"{path.name} is no Messages stream"
            assert reading.error.kind in ("malformed_event", "incomplete", "not_a_stream", "provider_error"), path.name
            read += 1
    assert read > 1000


@pytest.mark.parametrize("folder", ["openai-chat", "openai-responses", "gemini"])
def test_the_wrong_dialect_is_named(shared: Path, folder: str) -> None:
    looks = {"openai-chat": "openai_chat", "openai-responses": "openai_responses", "gemini": "gemini"}[folder]
    named = 0
    paths = sorted((shared / "corpus" / folder).iterdir())
    for path in paths:
        error = reading_of([path.read_bytes()]).error
        named += error is not None and f"looks like {looks}" in str(error)
    assert named > len(paths) * 0.8


def test_exchanges_with_a_local_server(shared: Path) -> None:
    folder = shared / "local-model" / "exchanges"
    text, calls, cut = (
        reading_of([(folder / f"{name}.sse").read_bytes()]).reply
        for name in ("21_anthropic_text", "22_anthropic_tool", "23_anthropic_cut")
    )
    assert (text.stop_reason, text.text[:16]) == ("end_turn", "Hello there, Bob")
    assert text.usage is not None
    assert (text.usage.input_tokens, text.usage.cached_tokens, text.usage.output_tokens) == (23, 5, 32)
    assert [(c.name, c.status, value_of(c.arguments)) for c in calls.tool_calls] == [
        ("read_file", "whole", {"path": "src/app.py", "offset": 0})
    ] * 2
    assert calls.tolerances == {}, "the second block began before the first was stopped: that is allowed"
    assert [(c.arguments, c.status) for c in cut.tool_calls] == [("{", "cut")], "its block was stopped all the same"
    assert cut.stop_reason == "max_tokens"


def test_the_dialect_is_in_the_table() -> None:
    assert DIALECTS["anthropic_messages"].name == "anthropic_messages"
