"""Real recordings of many providers, against what at least two official clients agree on.

For each Chat file where the answers are `exact`: complete and with whole arguments, the same text and calls; not
complete, `incomplete` with that text; arguments not whole, no such call whole. Whole, in 1-byte and in 7-byte pieces.
Files of other agreement are only held to be the same under every split.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from chat_streams import Reading
from naive_reader import naive_read

from sluice.testing.splits import in_pieces

pytestmark = pytest.mark.corpus

# Where we say otherwise than the recorded answer, by the end of the file's name, and why. A row that is no deviation any
# more fails the test.
MARKED = "finish_reason came and [DONE] did not: the terminal mark of W6 is finish_reason, so the reply is whole"
EMPTY = "no byte of arguments came before the reply was cut for length: the clients' '{}' is invented, the call is cut"
NULL = "arguments 'null' of a clean reply are no arguments, so '{}' (W5)"
DEVIATIONS = {
    "ai-sdk-provider__inline__src_tests_stream-usage-accounting__L20__.sse": MARKED,
    "langchaingo__tools_perplexity_testdata_TestPerplexityTool__0.sse": MARKED,
    "langchaingo__tools_perplexity_testdata_TestTool_Integration__0.sse": MARKED,
    "mistral-vibe__inline__backend_test_backend__L437__test-backend-user-agent-when-streaming.sse": MARKED,
    "rig__cassettes_perplexity_raw_stream_capture_matrix_stream_raw_exposes_terminal_usage_and_object__0.sse": MARKED,
    "rig__cassettes_perplexity_raw_stream_capture_matrix_stream_raw_round_trips_terminal_type__0.sse": MARKED,
    "rig__cassettes_perplexity_streaming_streaming_smoke__0.sse": MARKED,
    "sentry-python__inline__integrations_huggingface_hub_test_huggingface_hub__L393__"
    "mock-hf-chat-completion-api-streaming.sse": MARKED,
    "sentry-python__inline__integrations_huggingface_hub_test_huggingface_hub__L446__"
    "mock-hf-chat-completion-api-streaming-tools.sse": MARKED,
    "rig__cassettes_deepseek_truncation_matrix_agent_streaming_empty_arguments_on_length_are_not_invoked__0.sse": EMPTY,
    "rig__cassettes_deepseek_truncation_matrix_streaming_budget_16_empty_arguments_are_dropped_on_length__0.sse": EMPTY,
    "rig__cassettes_mistral_tool_truncation_matrix_streaming_ministral_3b_low_agent__0.sse": EMPTY,
    "rig__cassettes_mistral_tool_truncation_matrix_streaming_ministral_3b_low_model__0.sse": EMPTY,
    "rig__cassettes_mistral_tool_truncation_matrix_streaming_mistral_small_low_agent__0.sse": EMPTY,
    "rig__cassettes_mistral_tool_truncation_matrix_streaming_mistral_small_low_model__0.sse": EMPTY,
    "rig__cassettes_groq_agent_tool_sessions_parallel_tool_calls_single_turn_streaming__0.sse": NULL,
}


@pytest.fixture(scope="module")
def rows(shared: Path) -> list[dict[str, Any]]:
    path = shared / "corpus" / "expected.jsonl"
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return [row for row in rows if row["dialect"] == "openai-chat"]


def body_of(shared: Path, row: dict[str, Any]) -> bytes:
    return (shared / "corpus" / row["file"]).read_bytes()


def value_of(arguments: str) -> Any:
    """Arguments as a JSON value; text that is none stays text."""
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def answer(reading: Reading, row: dict[str, Any]) -> str:
    """Empty if the reading is what the recorded answer wants, else what is not."""
    reply = reading.reply
    calls = [(c.name, value_of(c.arguments)) for c in reply.tool_calls]
    wanted = [(c["name"], value_of(c["arguments"])) for c in row["tool_calls"]]
    if not row["complete"]:
        return "" if reading.kind == "incomplete" and reply.text == row["text"] else "incomplete was wanted"
    if reply.text != row["text"]:
        return "another text"
    if row["arguments_whole"]:
        if reading.kind or calls != wanted:
            return "other calls, or an error"
        return "" if all(c.status == "whole" for c in reply.tool_calls) else "a call is not whole"
    broken = [
        place
        for place, c in enumerate(row["tool_calls"])
        if not isinstance(value_of(c["arguments"]), dict)
    ]  # fmt: skip
    return "a broken call is whole" if any(reply.tool_calls[p].status == "whole" for p in broken) else ""


def test_every_exact_answer_is_ours_or_a_named_deviation(shared: Path, rows: list[dict[str, Any]]) -> None:
    exact = [row for row in rows if row.get("agreement") == "exact"]
    assert len(exact) > 700
    wrong = {}
    for row in exact:
        said = answer(Reading([body_of(shared, row)]), row)
        if said:
            wrong[row["file"].removeprefix("openai-chat/")] = said
    assert wrong.keys() - DEVIATIONS.keys() == set(), wrong
    assert DEVIATIONS.keys() - wrong.keys() == set(), "these are deviations no more"


def test_the_deviations_are_what_their_reasons_say(shared: Path, rows: list[dict[str, Any]]) -> None:
    by_name = {row["file"].removeprefix("openai-chat/"): row for row in rows}
    for name, reason in DEVIATIONS.items():
        row = by_name[name]
        reading = Reading([body_of(shared, row)])
        assert reading.reply.text == row["text"], name
        statuses = {c.status for c in reading.reply.tool_calls}
        arguments = {c.arguments for c in reading.reply.tool_calls}
        if reason == MARKED:
            assert reading.whole is not None, name
            assert b"[DONE]" not in body_of(shared, row)
        elif reason == EMPTY:
            assert (statuses, arguments, reading.reply.stop_reason) == ({"cut"}, {""}, "max_tokens"), name
        else:
            assert (statuses, arguments) == ({"whole"}, {"{}"}), name


@pytest.mark.timeout(300)  # ten million reads of one byte
@pytest.mark.parametrize("size", [1, 7])
def test_pieces_change_nothing(shared: Path, rows: list[dict[str, Any]], size: int) -> None:
    for row in rows:
        body = body_of(shared, row)
        assert Reading(in_pieces(body, size)).result == Reading([body]).result, row["file"]


def test_a_naive_reader_agrees_wherever_it_has_an_opinion(shared: Path, rows: list[dict[str, Any]]) -> None:
    opinions = 0
    for row in rows:
        body = body_of(shared, row)
        naive = naive_read(body)
        if naive is None:
            continue
        opinions += 1
        reply = Reading([body]).reply
        assert (reply.text, reply.reasoning, reply.stop_reason) == (naive["text"], naive["reasoning"], naive["stop"])
        got = [(c.name, c.arguments) for c in reply.tool_calls]
        for (name, arguments), (_, naive_name, naive_arguments) in zip(got, naive["calls"], strict=True):
            assert name == naive_name
            assert arguments == naive_arguments or (arguments, naive_arguments.strip()) in (("{}", ""), ("{}", "null"))
    assert opinions > 600


def test_bodies_that_are_no_streams_are_told_apart(shared: Path) -> None:
    bodies = sorted((shared / "corpus" / "nonstream-replies").iterdir())
    assert bodies
    for path in bodies:
        body = path.read_bytes()
        for pieces in ([body], in_pieces(body, 1), in_pieces(body, 7)):
            reading = Reading(pieces)
            assert reading.kind == "not_a_stream", path.name
            assert reading.reply.text == ""
            assert reading.reply.tool_calls == ()


def test_every_streams_own_prefix_is_never_a_short_success(shared: Path, rows: list[dict[str, Any]]) -> None:
    for row in rows[::5]:
        body = body_of(shared, row)
        for part in (3, 2):
            reading = Reading([body[: len(body) // part]])
            mark = reading.whole is None or reading.whole.stop_reason is not None
            assert mark, row["file"]
            assert reading.kind is None or all(c.status != "whole" for c in reading.partial.tool_calls)
