"""The facade behind `sluice decode`: whole, cut, no stream; the same whatever the size of a read."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from run_world import DONE, call, event, text

from sluice.errors import ConfigurationError
from sluice.limits import Limits
from sluice.run.decoding import decode_file
from sluice.values.deltas import TextDelta
from sluice.wire import DIALECTS


def _file(folder: Path, body: bytes) -> str:
    (folder / "stream.sse").write_bytes(body)
    return str(folder / "stream.sse")


@pytest.mark.parametrize("chunk_bytes", [1, 7, 65536])
@pytest.mark.parametrize("dialect", ["auto", "openai_chat"])
def test_a_whole_stream(tmp_path: Path, chunk_bytes: int, dialect: str) -> None:
    body = b"".join([event({"content": "Hé"}), call("look", '{"a": 1}'), event({}, "tool_calls"), DONE])
    code, found, deltas = decode_file(_file(tmp_path, body), dialect, chunk_bytes)
    assert (code, found["ok"], found["text"], found["stop_reason"]) == (0, True, "Hé", "tool_use")
    assert found["tool_calls"][0]["arguments"] == '{"a": 1}'
    assert "".join(d.text for _, d in deltas if isinstance(d, TextDelta)) == "Hé"
    assert all(0 < seen <= len(body) for seen, _ in deltas)


def test_deltas_come_at_the_byte_that_makes_them_known(tmp_path: Path) -> None:
    first = event({"content": "a"})
    _, _, deltas = decode_file(_file(tmp_path, first + b"".join(text("b"))), "auto", 1)
    assert deltas[0] == (len(first), TextDelta("a"))


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"".join(text("half", None)), "incomplete"),
        (b"", "incomplete"),
        (b"<html>no</html>", "not_a_stream"),
        (b'{"error": {"message": "no"}}', "not_a_stream"),
        (event({"content": "a"}) + b"data: rubbish\n\n", "malformed_event"),
        (event({"content": "a"}) + b'data: {"error": {"message": "busy", "code": "x"}}\n\n', "provider_error"),
        (b"data: " + b"x" * 5000, "limit"),
    ],
)
def test_what_is_not_whole_is_exit_code_1_with_what_had_arrived(tmp_path: Path, body: bytes, kind: str) -> None:
    limits = Limits(max_event_bytes=1000, max_arguments_bytes=1000, max_stream_bytes=4000)
    code, found, _ = decode_file(_file(tmp_path, body), "auto", 100, limits)
    assert (code, found["ok"], found["error"]["kind"]) == (1, False, kind)
    assert found["error"]["message"]
    assert found["partial"]["text"] == {"incomplete": "half" if body else ""}.get(
        kind, "a" if body.startswith(b"data: {") else ""
    )


def test_what_cannot_be_read_or_is_no_dialect_is_the_users_to_correct(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"openai_chat"):
        decode_file(_file(tmp_path, b""), "klingon", 10)
    for path in (str(tmp_path / "absent"), str(tmp_path)):
        with pytest.raises(ConfigurationError, match="cannot be read"):
            decode_file(path, "auto", 10)


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"".join(text("hi")))))
    assert decode_file("-", "auto", 5)[1]["text"] == "hi"


@pytest.mark.parametrize("chunk_bytes", [1, 65536])
@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        ("openai_chat", b"".join(text("hi"))),
        ("ollama", b'{"model":"m","message":{"role":"assistant","content":"hi"},"done":true,"done_reason":"stop"}\n'),
        (
            "gemini",
            b'data: {"candidates":[{"content":{"parts":[{"text":"hi"}],"role":"model"},"finishReason":"STOP"}]}\n\n',
        ),
        (
            "anthropic_messages",
            b'data: {"type":"message_start","message":{"id":"m","content":[]}}\n\n'
            b'data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}\n\n'
            b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}\n\n'
            b'data: {"type":"content_block_stop","index":0}\n\n'
            b'data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}\n\n'
            b'data: {"type":"message_stop"}\n\n',
        ),
    ],
)
def test_the_dialect_is_told_by_the_bytes_and_a_wrong_one_is_the_users_to_correct(
    tmp_path: Path, chunk_bytes: int, dialect: str, body: bytes
) -> None:
    path = _file(tmp_path, body)
    code, found, _ = decode_file(path, "auto", chunk_bytes)
    assert (code, found["text"], found["dialect"]) == (0, "hi", dialect)
    for other in DIALECTS:
        if other != dialect:
            with pytest.raises(ConfigurationError, match=f"look like {dialect}; use --dialect {dialect}"):
                decode_file(path, other, chunk_bytes)
