"""What is told of a call's arguments while they arrive."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.errors import StreamError
from sluice.values.deltas import CallArgument, CallClosed, CallOpened, CallProgress, Delta
from sluice.wire.intent import WatchedCalls
from sluice.wire.json_scan import JsonScanner
from sluice.wire.reply import ReplyReader


def _event(*calls: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"tool_calls": list(calls)} if calls else {}, "finish_reason": finish}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


def _piece(index: int, arguments: str, **more: Any) -> dict[str, Any]:
    function = {"arguments": arguments} | {k: v for k, v in more.items() if k == "name"}
    return {"index": index, "function": function} | {k: v for k, v in more.items() if k == "id"}


def _read(body: bytes, **how: Any) -> tuple[list[Delta], Any]:
    reader = ReplyReader("openai_chat", **how)
    deltas = reader.feed(body)
    reply = reader.close()
    return deltas + list(reader.closing), reply


def test_members_and_progress_in_order() -> None:
    body = (
        _event(_piece(0, "", id="a", name="write_file"))
        + _event(_piece(0, '{"path": "a.py", "con'))
        + _event(_piece(0, 'tent": "one\\ntw'))
        + _event(_piece(0, 'o", "n": 1'))
        + _event(_piece(0, "2}"))
        + _event(finish="tool_calls")
    )
    deltas, reply = _read(body, intent=True)
    assert deltas == [
        CallOpened(0, "a", "write_file"),
        CallArgument(0, "path", "a.py"),
        CallProgress(0, 21, "", ""),
        CallProgress(0, 36, "one\ntw", "content"),
        CallArgument(0, "content", "one\ntwo"),
        CallProgress(0, 46, "", ""),
        CallArgument(0, "n", 12),
        CallProgress(0, 48, "", ""),
        CallClosed(0, "a", "write_file", "whole"),
    ]
    assert reply.tool_calls[0].status == "whole"


def test_without_intent_nothing_of_it_is_told() -> None:
    body = _event(_piece(0, '{"path": "a"}', id="a", name="f")) + _event(finish="tool_calls")
    deltas, reply = _read(body)
    assert deltas == [CallOpened(0, "a", "f"), CallClosed(0, "a", "f", "whole")]
    told, with_intent = _read(body, intent=True)
    assert with_intent == reply
    assert [d for d in told if not isinstance(d, (CallArgument, CallProgress))] == deltas


def test_interleaved_calls_are_told_apart() -> None:
    body = (
        _event(_piece(0, '{"a":"x', id="1", name="f"), _piece(1, '{"b":', id="2", name="g"))
        + _event(_piece(1, '"y"}'), _piece(0, 'x"}'))
        + _event(finish="tool_calls")
    )
    deltas, _ = _read(body, intent=True)
    assert [d for d in deltas if isinstance(d, CallArgument)] == [CallArgument(1, "b", "y"), CallArgument(0, "a", "xx")]


def test_a_placeholder_does_not_spoil_what_follows() -> None:
    body = _event(_piece(0, "{}", id="1", name="f")) + _event(_piece(0, '{"a":1}')) + _event(finish="tool_calls")
    deltas, reply = _read(body, intent=True)
    assert CallArgument(0, "a", 1) in deltas
    assert reply.tool_calls[0].arguments == '{"a":1}'


def test_arguments_sent_again_are_told_once() -> None:
    pieces = ['{"a":1,', '{"a":1,"b":2}', '{"a":1,"b":2}']
    body = b"".join(
        _event(_piece(0, p, **({"id": "1", "name": "f"} if not i else {}))) for i, p in enumerate(pieces)
    ) + _event(finish="tool_calls")
    deltas, _ = _read(body, intent=True)
    told = Counter(d.name for d in deltas if isinstance(d, CallArgument))
    assert told == {"a": 1}
    assert sum(isinstance(d, CallProgress) for d in deltas) == 3


def test_malformed_arguments_are_told_up_to_the_fault() -> None:
    body = _event(_piece(0, '{"a":"x","b":"\\q","c":1}', id="1", name="f")) + _event(finish="tool_calls")
    deltas, reply = _read(body, intent=True)
    assert [d.name for d in deltas if isinstance(d, CallArgument)] == ["a"]
    assert reply.tool_calls[0].status == "malformed"


def test_a_cut_call_was_told_and_is_cut() -> None:
    reader = ReplyReader("openai_chat", intent=True)
    deltas = reader.feed(_event(_piece(0, '{"path":"a","content":"beg', id="1", name="f")))
    assert deltas[-1] == CallProgress(0, 26, "beg", "content")
    with pytest.raises(StreamError) as caught:
        reader.close()
    assert caught.value.partial.tool_calls[0].status == "cut"


def test_free_text_of_a_call_without_members_is_its_own_tail() -> None:
    calls = WatchedCalls(4, 1000, lambda rule: None)
    out: list[Delta] = []
    calls.open_call(0, "1", "patch", out).kind = "custom"
    calls.add(0, None, None, '{"not json', out)
    assert out[-1] == CallProgress(0, 10, '{"not json', "")


def test_arguments_in_the_last_word_alone_are_told_before_the_end() -> None:
    calls = WatchedCalls(4, 1000, lambda rule: None)
    out: list[Delta] = []
    call = calls.open_call(0, "1", "f", out)
    calls.replace_arguments(call, '{"path":"a"}')
    calls.close_call(call, out)
    assert out[1:] == [CallArgument(0, "path", "a"), CallProgress(0, 12, ""), CallClosed(0, "1", "f", "whole")]
    calls.close_call(call, out)
    assert len(out) == 4


def test_arguments_in_fragments_are_not_told_again_at_the_end() -> None:
    calls = WatchedCalls(4, 1000, lambda rule: None)
    out: list[Delta] = []
    call = calls.open_call(0, "1", "f", out)
    calls.add(0, None, None, '{"path":"a"}', out)
    calls.close_call(call, out)
    assert sum(isinstance(d, CallArgument) for d in out) == 1


def test_no_half_of_a_surrogate_pair_gets_out() -> None:
    body = _event(_piece(0, '{"a":"\\ud83d', id="1", name="f")) + _event(_piece(0, '\\ude00"}')) + _event(finish="stop")
    deltas, reply = _read(body, intent=True)
    assert CallArgument(0, "a", "\N{GRINNING FACE}") in deltas
    for delta in deltas:
        if isinstance(delta, CallProgress):
            delta.tail.encode()
    assert reply.tool_calls[0].status == "whole"


_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(
    st.dictionaries(_TEXTS, _TEXTS | st.integers(0, 10**9) | st.lists(_TEXTS, max_size=2), min_size=1, max_size=4),
    st.lists(st.integers(0, 10**6), max_size=10),
)
def test_what_is_told_is_what_is_run(arguments: dict[str, Any], at: list[int]) -> None:
    """Every member is told once, in order, and tails are beginnings of their values, however the text is cut."""
    text = json.dumps(arguments)
    places = [0, *sorted(a % len(text) for a in at), len(text)]
    body = _event(_piece(0, "", id="1", name="f"))
    body += b"".join(_event(_piece(0, text[a:b])) for a, b in pairwise(places) if a < b)
    deltas, reply = _read(body + _event(finish="tool_calls"), intent=True)
    told = {d.name: d.value for d in deltas if isinstance(d, CallArgument)}
    assert list(told.items()) == list(arguments.items())
    assert json.loads(reply.tool_calls[0].arguments) == told
    tails: dict[str, str] = {}
    sizes = []
    for delta in deltas:
        if isinstance(delta, CallProgress):
            sizes.append(delta.size)
            if delta.tail:
                tails[delta.name] = tails.get(delta.name, "") + delta.tail
    assert all(told[name].startswith(tail) for name, tail in tails.items())
    assert sizes == sorted(sizes)
    assert sizes[-1] == len(text)


_MESSAGES_OPEN = {"type": "tool_use", "id": "1", "name": "f", "input": {}}
_RESPONSES_OPEN = {"type": "function_call", "id": "i", "call_id": "1", "name": "f", "arguments": ""}


def _messages_piece(text: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": text}}


def _responses_piece(text: str) -> dict[str, Any]:
    return {"type": "response.function_call_arguments.delta", "item_id": "i", "output_index": 0, "delta": text}


@pytest.mark.parametrize(
    ("dialect", "piece", "first"),
    [
        (
            "anthropic_messages",
            _messages_piece,
            [
                {"type": "message_start", "message": {"id": "m", "role": "assistant", "content": []}},
                {"type": "content_block_start", "index": 0, "content_block": _MESSAGES_OPEN},
            ],
        ),
        (
            "openai_responses",
            _responses_piece,
            [
                {"type": "response.created", "response": {"id": "r", "status": "in_progress", "output": []}},
                {"type": "response.output_item.added", "output_index": 0, "item": _RESPONSES_OPEN},
            ],
        ),
    ],
)
def test_a_dialect_that_knows_its_open_calls_tells_each_fragment_as_it_comes(
    dialect: str, piece: Any, first: list[dict[str, Any]]
) -> None:
    reader = ReplyReader(dialect, intent=True)
    for event in first:
        reader.feed(b"data: " + json.dumps(event).encode() + b"\n\n")
    told = [
        reader.feed(b"data: " + json.dumps(piece(text)).encode() + b"\n\n")
        for text in ('{"path":"a.py","con', 'tent":"one', " two")
    ]
    assert told == [
        [CallArgument(0, "path", "a.py"), CallProgress(0, 19, "", "")],
        [CallProgress(0, 29, "one", "content")],
        [CallProgress(0, 33, " two", "content")],
    ]


def _told(pieces: list[str]) -> list[Delta]:
    calls = WatchedCalls(4, 100_000, lambda rule: None)
    out: list[Delta] = []
    calls.open_call(0, "1", "f", out)
    for piece in pieces:
        calls.add(0, None, None, piece, out)
        calls.fold()
    return out[1:]


def _told_by_the_scanner(pieces: list[str]) -> list[Delta]:
    """The same without waiting for anything."""
    scanner, size = JsonScanner(keep=False), 0
    out: list[Delta] = []
    for piece in pieces:
        if scanner.end == scanner.size == 2:
            scanner = JsonScanner(keep=False)
        size += len(piece.encode())
        done: list[Any] = []
        tail = scanner.feed(piece, done)
        out += [CallArgument(0, member.name, member.value) for member in done]
        out.append(CallProgress(0, size, tail, scanner.name if tail else ""))
    return out


_NESTED = st.recursive(
    _TEXTS | st.sampled_from(["]", "}", '"]', "\\", "[{", "\n"]) | st.integers(-9, 9) | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(_TEXTS, _NESTED, max_size=3),
    st.lists(st.integers(0, 10**6), max_size=20),
    st.none() | st.tuples(st.integers(0, 10**6), st.sampled_from('"{}[],:x0')),
)
def test_what_waits_for_its_bracket_is_told_no_later(
    arguments: dict[str, Any], at: list[int], spoilt: tuple[int, str] | None
) -> None:
    text = json.dumps(arguments, ensure_ascii=False)
    if spoilt is not None:
        place = spoilt[0] % len(text)
        text = text[:place] + spoilt[1] + text[place + 1 :]
    places = [0, *sorted(a % len(text) for a in at), len(text)]
    for pieces in ([text[a:b] for a, b in pairwise(places) if a < b], list(text)):
        assert _told(pieces) == _told_by_the_scanner(pieces)


def test_a_list_in_small_pieces_is_scanned_once_and_held_in_few() -> None:
    calls = WatchedCalls(4, 1_000_000, lambda rule: None)
    out: list[Delta] = []
    calls.open_call(0, "1", "f", out)
    text = '{"edits":[' + ",".join(['{"line":1,"text":"x y z"}'] * 4_000)
    for i in range(0, len(text), 5):
        calls.add(0, None, None, text[i : i + 5], out)
        if i % 5_000 == 0:
            calls.fold()
    (watched,) = calls._watched.values()
    assert watched.scanner.size <= 15, "text inside the list was scanned before it could tell anything"
    assert len(watched.waiting) < 3_200
    calls.add(0, None, None, "]", out)
    assert out[-2].value == [{"line": 1, "text": "x y z"}] * 4_000  # type: ignore[union-attr]
    assert not watched.waiting
