"""What bytes look like: told from the first events, never told wrong, and said when they were read as something else."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.errors import StreamError
from sluice.testing.splits import in_pieces
from sluice.wire import DIALECTS, read_reply
from sluice.wire.recognise import recognise

CHAT = b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":null}]}\n\n'
STREAMS = {
    "openai_chat": CHAT,
    "anthropic_messages": b'event: message_start\ndata: {"type":"message_start","message":{"id":"m","content":[]}}\n\n',
    "openai_responses": b'data: {"type":"response.created","response":{"id":"r","status":"in_progress"}}\n\n',
    "gemini": b'data: {"candidates":[{"content":{"parts":[{"text":"hi"}],"role":"model"},"index":0}]}\r\n\r\n',
    "ollama": b'{"model":"m","created_at":"t","message":{"role":"assistant","content":"hi"},"done":false}\n',
}
FOLDERS = {
    "openai-chat": "openai_chat",
    "anthropic-messages": "anthropic_messages",
    "openai-responses": "openai_responses",
    "gemini": "gemini",
    "ollama-ndjson": "ollama",
}


def test_every_dialect_has_a_stream_here() -> None:
    assert set(STREAMS) == set(DIALECTS) == set(FOLDERS.values())


@pytest.mark.parametrize("name", STREAMS)
def test_each_dialect_is_told_also_behind_what_says_nothing(name: str) -> None:
    body = STREAMS[name]
    assert recognise(body) == name
    assert recognise(b"\xef\xbb\xbf\r\n" + body) == name
    if name != "ollama":
        for before in (b": keep-alive\n\n" * 20, b"retry: 10\n\n", b"event: x\ndata: {}\n\n", b"data: [DONE]\n\n"):
            assert recognise(before + body) == name


@pytest.mark.parametrize("name", STREAMS)
def test_an_event_that_is_cut_in_the_middle_still_tells(name: str) -> None:
    long = STREAMS[name].rstrip().replace(b'"id"', b'"pad":"' + b"x" * 2000 + b'","id"')
    cut = long.replace(b'"hi"', b'"' + b"y" * 3000)[:1024]
    assert recognise(cut) in (name, None)
    assert recognise(STREAMS[name].rstrip()[:-4]) == name


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\n\n",
        b"<html>",
        b"data: [DONE]\n\n",
        b"event: error\n",
        b'data: {"error":{"message":"no"}}\n\n',
        b"data: null\n\n",
        b'{"choices":[{"message":{"content":"a plain reply"}}]}',
        b'{"error":"no such model"}\n',
        b'[{"candidates":[]}]',
        b"data: " + b"[" * 100_000,
        b'data: {"model":"m","done":true}\n\n',
    ],
)
def test_what_is_no_stream_or_tells_nothing_is_none(body: bytes) -> None:
    assert recognise(body) is None


@given(st.binary(max_size=300) | st.lists(st.sampled_from([*STREAMS.values(), b"\n", b"data:", b"{"])).map(b"".join))
def test_any_bytes_are_told_or_not(body: bytes) -> None:
    assert recognise(body) in (None, *DIALECTS)


@pytest.mark.parametrize("given_name", STREAMS)
@pytest.mark.parametrize("true_name", STREAMS)
def test_a_wrong_dialect_is_named_in_the_error(given_name: str, true_name: str) -> None:
    with pytest.raises(StreamError) as caught:
        read_reply([STREAMS[true_name]] * 3, given_name)
    words = str(caught.value)
    assert (f"like {true_name}" in words) is (given_name != true_name)
    if given_name != true_name:
        assert caught.value.kind in ("malformed_event", "not_a_stream", "incomplete")


@pytest.mark.corpus
def test_no_recording_is_told_wrong_and_nearly_all_are_told(shared: Path) -> None:
    looked, untold = 0, 0
    wrong = []
    for folder, name in FOLDERS.items():
        for path in sorted((shared / "corpus" / folder).iterdir()):
            body = path.read_bytes()
            for head in (body[:1024], body[:65536]):
                found = recognise(head)
                looked += 1
                untold += found is None
                if found not in (name, None):
                    wrong.append((path.name, found))
    assert not wrong
    assert looked > 1000
    assert untold / looked < 0.02


@pytest.mark.parametrize("size", [1, 7, 64])
@pytest.mark.parametrize("given_name", STREAMS)
@pytest.mark.parametrize("true_name", STREAMS)
def test_the_words_are_the_same_under_every_split(given_name: str, true_name: str, size: int) -> None:
    body = STREAMS[true_name]
    with pytest.raises(StreamError) as whole:
        read_reply([body], given_name)
    with pytest.raises(StreamError) as torn:
        read_reply(in_pieces(body, size), given_name)
    assert str(torn.value) == str(whole.value)
