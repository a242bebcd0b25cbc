"""Recorded streams of Gemini, against what one official client makes of them.

Every body is read whole, in 1-byte, 7-byte and 1,460-byte pieces; none is over 200 KB. The one client's answer
(`single-oracle`) stands for every file that has one; the others are in `OURS`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gemini_streams import naive_read, reading_of

from sluice.testing.splits import in_pieces

pytestmark = pytest.mark.corpus

FOLDER = "gemini/"

ARRAY = "a JSON array, as the API sends it without alt=sse: told apart, with the remedy"

# (kind of the error, stop reason, the text), and why. Every file without an agreed answer is here.
OURS: dict[str, tuple[str | None, str | None, str, str]] = {
    "langchaingo__llms_googleai_testdata_TestGoogleAIGenerateContentWithMultipleMessages__0.json": (
        "not_a_stream", None, "", ARRAY),
    "langchaingo__llms_googleai_testdata_TestGoogleAIGenerateContentWithSystemMessage__0.json": (
        "not_a_stream", None, "", ARRAY),
    "langchaingo__llms_googleai_testdata_TestGoogleAIToolCallResponse__1.json": ("not_a_stream", None, "", ARRAY),
    "langchaingo__llms_googleai_testdata_TestGoogleAIWithStreaming__0.json": ("not_a_stream", None, "", ARRAY),
    "vercel-ai__inline__google_src_google-language-model__L5907__should-stream-server-side-toolCall-and-toolResponse-"
    "parts-to.sse": (
        None, "end_turn", "It is sunny.", "a tool that the server runs is kept in the native parts and is no call of ours"),
}  # fmt: skip

# Recorded replies whose server marks the end after its own code and once more after the code's result.
TWO_MARKS = 4


@pytest.fixture(scope="module")
def rows(shared: Path) -> list[dict[str, Any]]:
    lines = (shared / "corpus" / "expected.jsonl").read_text("utf-8").splitlines()
    return [row for row in map(json.loads, lines) if row["dialect"] == "gemini"]


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
            assert "agreement" not in row, name
            continue
        assert row["agreement"] in ("exact", "single-oracle"), name
        reading = reading_of([bodies[name]])
        reply = reading.reply
        assert reading.kind is None, name
        assert reply.text == row["text"], name
        got = [(c.name, value_of(c.arguments)) for c in reply.tool_calls]
        assert got == [(c["name"], value_of(c["arguments"])) for c in row["tool_calls"]], name
        assert all(call.status == "whole" for call in reply.tool_calls), name
        checked += 1
    assert checked == 182


def test_every_other_file_has_a_reasoned_answer_of_ours(bodies: dict[str, bytes]) -> None:
    for name, (kind, reason, text, why) in OURS.items():
        reading = reading_of([bodies[name]])
        assert (reading.kind, reading.reply.stop_reason, reading.reply.text) == (kind, reason, text), (name, why)
        if kind is not None:
            assert "alt=sse" in str(reading.error)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("size", [1, 7, 1460])
def test_pieces_change_nothing(bodies: dict[str, bytes], size: int) -> None:
    for name, body in bodies.items():
        assert len(body) <= 200_000
        assert reading_of(in_pieces(body, size)).result == reading_of([body]).result, name


def test_a_naive_reader_agrees_wherever_it_has_an_opinion(bodies: dict[str, bytes]) -> None:
    opinions = 0
    for name, body in bodies.items():
        naive = naive_read(body)
        if naive is None or name in OURS:
            continue
        opinions += 1
        reply = reading_of([body]).reply
        native = json.loads(reply.native or "[]")
        got = {
            "text": reply.text,
            "reasoning": reply.reasoning,
            "signatures": [p["thoughtSignature"] for p in native if "thoughtSignature" in p],
            "calls": [(c.name, value_of(c.arguments)) for c in reply.tool_calls],
            "stop": reply.stop_reason,
        }
        assert got == naive, name
    assert opinions > 170


def test_the_tolerances_that_recordings_need_are_few(bodies: dict[str, bytes]) -> None:
    used: dict[str, int] = {}
    for body in bodies.values():
        for rule in reading_of([body]).reply.tolerances:
            used[rule] = used.get(rule, 0) + 1
    assert used == {"finish_before_result": TWO_MARKS}


def test_native_parts_say_what_the_reply_says(bodies: dict[str, bytes]) -> None:
    natives = 0
    for name, body in bodies.items():
        reply = reading_of([body]).reply
        if reply.native is not None:
            natives += 1
            parts = json.loads(reply.native)
            assert "".join(p.get("text", "") for p in parts if not p.get("thought")) == reply.text, name
            assert "".join(p.get("text", "") for p in parts if p.get("thought")) == reply.reasoning, name
            assert [p["functionCall"]["name"] for p in parts if "functionCall" in p] == [
                c.name for c in reply.tool_calls
            ], name
    assert natives > 60


def test_any_prefix_up_to_the_last_mark_is_incomplete(bodies: dict[str, bytes]) -> None:
    for name, body in bodies.items():
        if name in OURS:
            continue
        last = body.rstrip().rfind(b"data:")
        for cut in {0, 1, last // 3, last // 2, max(last - 1, 0), last}:
            reading = reading_of([body[:cut]])
            assert reading.kind == "incomplete", (name, cut)


def test_no_file_of_any_dialect_ends_in_anything_but_a_reply_or_one_of_our_errors(shared: Path) -> None:
    read = 0
    for path in sorted((shared / "corpus").rglob("*")):
        if path.is_file() and path.parent.parent.name == "corpus" and path.parent.name + "/" != FOLDER:
            reading = reading_of([path.read_bytes()])
            if path.parent.name != "nonstream-replies":
                assert reading.error is not None, f"{path.name} is no stream of Gemini"
                kinds = ("malformed_event", "incomplete", "not_a_stream", "provider_error")
                assert reading.error.kind in kinds, path.name
            read += 1
    assert read > 1000


@pytest.mark.parametrize("folder", ["openai-chat", "openai-responses", "anthropic-messages"])
def test_the_wrong_dialect_is_named(shared: Path, folder: str) -> None:
    named = 0
    paths = sorted((shared / "corpus" / folder).iterdir())
    for path in paths:
        error = reading_of([path.read_bytes()]).error
        named += error is not None and f"looks like {folder.replace('-', '_')}" in str(error)
    assert named > len(paths) * 0.8
