"""Recorded streams of Ollama, against expectations of our own.

No client's answer was recorded for them. Ours follow from the API's reference: all `content`, all `thinking` and all
entries of `tool_calls` up to `done: true`. They are written down here for what matters (reason, calls, beginning of the
text, size of both texts), and a second plain reader says the rest. Every body is read whole, in 1-byte, 7-byte and
1,460-byte pieces (1-byte pieces are left out for bodies over 200 KB: there is one).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ollama_streams import naive_read, reading_of

from sluice.testing.splits import in_pieces

pytestmark = pytest.mark.corpus

FOLDER = "ollama-ndjson/"
ONE_BYTE_UP_TO = 200_000

# Stop reason, calls, the beginning of the text, characters of text and of reasoning.
EXPECTED: dict[str, tuple[str, list[tuple[str, Any]], str, int, int]] = {
    "langchaingo__llms_ollama_internal_ollamaclient_testdata_TestClient_GenerateChatStream__0": (
        "end_turn", [], 'Okay, here we go!\n\n1, 2,', 33, 0),
    "langchaingo__llms_ollama_internal_ollamaclient_testdata_TestClient_GenerateChatWithThink__0": (
        "end_turn", [], '2 + 2 = 4\n\n**Reasoning:*', 184, 0),
    "langchaingo__llms_ollama_internal_ollamaclient_testdata_TestClient_GenerateChat__0": (
        "max_tokens", [], 'Hello there! I’m doing w', 185, 0),
    "langchaingo__llms_ollama_internal_ollamaclient_testdata_TestClient_GenerateStream__0": (
        "end_turn", [], 'Okay, here we go!\n\n1, 2,', 33, 0),
    "langchaingo__llms_ollama_testdata_TestGenerateContent__0": (
        "end_turn", [], 'Okay, this is a surprisi', 677, 0),
    "langchaingo__llms_ollama_testdata_TestWithFormat__0": (
        "end_turn", [], '{"answer": "600"}', 17, 0),
    "langchaingo__llms_ollama_testdata_TestWithKeepAlive__0": (
        "end_turn", [], 'Okay, this is a surprisi', 688, 0),
    "langchaingo__llms_ollama_testdata_TestWithPullModel__1": (
        "end_turn", [], 'Hello there! How can I h', 40, 0),
    "langchaingo__llms_ollama_testdata_TestWithStreaming__0": (
        "end_turn", [], 'Okay, this is a surprisi', 677, 0),
    "langchaingo__llms_ollama_testdata_TestWithThink__0": (
        "end_turn", [], "Okay, let's break down 2", 325, 0),
    "rig__cassettes_ollama_agentic_streaming_structured_output_with_tools__0": (
        "end_turn", [('get_weather', {'city': 'Tokyo'})], "Okay, let's see. The use", 1264, 0),
    "rig__cassettes_ollama_agentic_streaming_structured_output_with_tools__1": (
        "end_turn", [('final_result', {'summary': "Tokyo's current weather is sunny with light clouds, 72°F (22°C), 45% "
                     "humidity, and a 8 mph northwest wind.", 'city': 'Tokyo'})],
        "Okay, let's see. The use", 4036, 0),
    "rig__cassettes_ollama_raw_capture_agent_matrix_hooks_observe_raw_streamed__0": (
        "max_tokens", [], 'Hmm, the user just asked', 306, 0),
    "rig__cassettes_ollama_raw_capture_agent_matrix_multi_turn_tool_run_records_distinct_raw_streamed__0": (
        "end_turn", [('add', {'y': 3, 'x': 2})], 'Okay, the user wants me ', 4560, 0),
    "rig__cassettes_ollama_raw_capture_agent_matrix_multi_turn_tool_run_records_distinct_raw_streamed__1": (
        "end_turn", [], 'Okay, let me go through ', 538, 0),
    "rig__cassettes_ollama_raw_stream_capture_matrix_stream_raw_exposes_terminal_durations__0": (
        "max_tokens", [], 'Hmm, the user wants me t', 277, 0),
    "rig__cassettes_ollama_raw_stream_capture_matrix_stream_raw_terminal_round_trips_provider_type__0": (
        "max_tokens", [], 'Hmm, the user just asked', 284, 0),
    "rig__cassettes_ollama_reasoning_roundtrip_streaming__0": (
        "end_turn", [], 'To determine when the tw', 1371, 4914),
    "rig__cassettes_ollama_reasoning_tool_roundtrip_streaming__0": (
        "end_turn", [('get_weather', {'city': 'Tokyo'})], '', 0, 2142),
    "rig__cassettes_ollama_reasoning_tool_roundtrip_streaming__1": (
        "end_turn", [], 'The current weather in T', 230, 1837),
    "rig__cassettes_ollama_streaming_grammar_chat_sourced_history_replay__0": (
        "end_turn", [], "Okay, let's see. The use", 1264, 0),
    "rig__cassettes_ollama_streaming_grammar_parallel_tool_calls__0": (
        "end_turn", [('lookup_harbor_label', {}), ('lookup_orchard_label', {})], 'Okay, the user wants me ', 1904, 0),
    "rig__cassettes_ollama_streaming_grammar_same_tool_twice__0": (
        "end_turn", [('add', {'x': 2, 'y': 3}), ('add', {'x': 10, 'y': 20})] * 2, 'Okay, let me try to figu', 1772, 0),
    "rig__cassettes_ollama_streaming_grammar_thinking_and_tool_call__0": (
        "end_turn", [('lookup_harbor_label', {})], '', 0, 2472),
    "rig__cassettes_ollama_streaming_streaming_smoke__0": (
        "end_turn", [], 'Hmm, the user wants a co', 1328, 0),
    "rig__cassettes_ollama_streaming_tools_streaming_tools_smoke__0": (
        "end_turn", [('subtract', {'x': 2, 'y': 5})], 'Okay, the user wants me ', 1067, 0),
    "rig__cassettes_ollama_streaming_tools_streaming_tools_smoke__1": (
        "end_turn", [], 'Okay, let me go through ', 692, 0),
}  # fmt: skip

OLDER = "langchaingo__llms_ollama_internal_ollamaclient_testdata_TestClient_GenerateStream__0"
"""A recording of the older `/api/generate`: `response` in place of `message`."""


@pytest.fixture(scope="module")
def bodies(shared: Path) -> dict[str, bytes]:
    lines = (shared / "corpus" / "expected.jsonl").read_text("utf-8").splitlines()
    files = [row["file"] for row in map(json.loads, lines) if row["dialect"] == "ollama-ndjson"]
    return {f.removeprefix(FOLDER).removesuffix(".ndjson"): (shared / "corpus" / f).read_bytes() for f in files}


def test_every_file_has_an_expectation_and_meets_it(bodies: dict[str, bytes]) -> None:
    assert bodies.keys() == EXPECTED.keys()
    for name, body in bodies.items():
        reading = reading_of([body])
        reply = reading.reply
        reason, calls, beginning, text, reasoning = EXPECTED[name]
        assert (reading.kind, reply.stop_reason) == (None, reason), name
        assert [(c.name, json.loads(c.arguments)) for c in reply.tool_calls] == calls, name
        assert all(c.status == "whole" for c in reply.tool_calls), name
        assert reply.text.startswith(beginning), name
        assert (len(reply.text), len(reply.reasoning)) == (text, reasoning), name
        assert reply.tolerances == ({"response_for_message": 22} if name == OLDER else {}), name


@pytest.mark.timeout(300)
@pytest.mark.parametrize("size", [1, 7, 1460])
def test_pieces_change_nothing(bodies: dict[str, bytes], size: int) -> None:
    left_out = 0
    for name, body in bodies.items():
        if size == 1 and len(body) > ONE_BYTE_UP_TO:
            left_out += 1
            continue
        assert reading_of(in_pieces(body, size)).result == reading_of([body]).result, name
    assert left_out <= 1


def test_a_naive_reader_agrees(bodies: dict[str, bytes]) -> None:
    for name, body in bodies.items():
        if name == OLDER:
            continue
        reply = reading_of([body]).reply
        assert reply.usage is not None
        assert naive_read(body) == {
            "text": reply.text,
            "reasoning": reply.reasoning,
            "calls": [(c.name, json.loads(c.arguments)) for c in reply.tool_calls],
            "stop": reply.stop_reason,
            "tokens": (reply.usage.input_tokens, reply.usage.output_tokens),
        }, name


def test_any_prefix_before_the_last_line_is_incomplete(bodies: dict[str, bytes]) -> None:
    for name, body in bodies.items():
        last = body.rstrip().rfind(b"\n") + 1
        for cut in {0, 1, last // 3, last // 2, max(last - 1, 0), last, last + 20, len(body.rstrip()) - 1}:
            assert reading_of([body[:cut]]).kind == "incomplete", (name, cut)


def test_no_file_of_any_dialect_ends_in_anything_but_a_reply_or_one_of_our_errors(shared: Path) -> None:
    read = 0
    for path in sorted((shared / "corpus").rglob("*")):
        if path.is_file() and path.parent.parent.name == "corpus" and path.parent.name + "/" != FOLDER:
            reading = reading_of([path.read_bytes()])
            if path.parent.name != "nonstream-replies":
                assert reading.error is not None, f"{path.name} is no stream of Ollama"
                kinds = ("malformed_event", "incomplete", "not_a_stream", "provider_error")
                assert reading.error.kind in kinds, path.name
            read += 1
    assert read > 1000


@pytest.mark.parametrize("folder", ["openai-chat", "openai-responses", "anthropic-messages", "gemini"])
def test_an_event_stream_is_named(shared: Path, folder: str) -> None:
    named = 0
    paths = sorted((shared / "corpus" / folder).glob("*.sse"))
    for path in paths:
        named += "is an event stream's" in str(reading_of([path.read_bytes()]).error)
    assert named > len(paths) * 0.8
