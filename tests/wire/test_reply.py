"""A reply's life: whole, incomplete, failed, bounded or aborted; the same under every split; nothing left behind."""

from __future__ import annotations

import collections
import gc
import json
import tracemalloc
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from chat_streams import DONE, Reading, call, calls, chunk, event, read, text
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_reader import naive_read

from sluice.errors import ArgumentsError, StreamError
from sluice.limits import DEFAULT_LIMITS, Limits
from sluice.testing.splits import every_split, in_pieces, random_splits, two_way_splits
from sluice.values.deltas import CallClosed, CallOpened, TextDelta
from sluice.values.messages import Reply
from sluice.wire import ReplyReader, parse_arguments, read_reply

STOP = chunk({}, "stop")
GOOD = (
    chunk({"role": "assistant", "content": ""})
    + chunk({"reasoning_content": "hm"})
    + text("Hé 🍸", " you")
    + calls(call(0, "a", "f", ""), call(1, "b", "g", ""))
    + calls(call(1, None, None, '{"y":'))
    + calls(call(0, None, None, '{"x":"é"'), call(1, None, None, "2}"))
    + calls(call(0, None, None, "}"))
)
FINISH = chunk({}, "tool_calls")
FAREWELL = event({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}) + DONE


def limits(**changes: Any) -> Limits:
    return msgspec.structs.replace(DEFAULT_LIMITS, **changes)


# -- whole or not -------------------------------------------------------------------------------------------------------


def test_a_good_stream_is_whole_under_every_split() -> None:
    right = Reading([GOOD + FINISH + FAREWELL])
    assert right.whole is not None
    assert [(c.id, c.status) for c in right.whole.tool_calls] == [("a", "whole"), ("b", "whole")]
    for pieces in every_split(GOOD + FINISH + FAREWELL, rounds=10):
        assert Reading(pieces).result == right.result


def test_a_prefix_before_the_terminal_mark_is_incomplete_and_one_after_it_is_whole() -> None:
    mark = len(GOOD + FINISH) - 2  # the mark's event is known before its line ends: end of input closes it
    for cut in range(len(GOOD + FINISH + FAREWELL) + 1):
        got = Reading([(GOOD + FINISH + FAREWELL)[:cut]])
        if cut < mark:
            assert got.kind == "incomplete", cut
            assert all(c.status != "whole" for c in got.partial.tool_calls)
            assert got.partial.text.startswith(got.shown_text)
        else:
            assert got.whole is not None, cut
            assert [c.status for c in got.whole.tool_calls] == ["whole", "whole"]


def test_deltas_come_out_with_the_byte_that_completes_their_event() -> None:
    reader = ReplyReader("openai_chat")
    for piece in ("a", "b"):
        *before, last = in_pieces(text(piece), 1)
        assert [reader.feed(b) for b in before] == [[]] * len(before)
        assert reader.feed(last) == [TextDelta(piece)]


def test_what_only_the_end_of_input_makes_known_is_in_closing() -> None:
    got = Reading([text("a") + chunk({"content": "b"}, "stop").rstrip(b"\n")])
    assert got.whole is not None
    assert got.reader.closing == (TextDelta("b"),)
    assert got.whole.text == got.shown_text == "ab"
    broken = Reading([text("a") + text("b").rstrip(b"\n")])
    assert broken.kind == "incomplete"
    assert broken.partial.text == broken.shown_text == "ab"


def test_an_error_after_deltas_in_one_read_comes_after_the_deltas() -> None:
    reader = ReplyReader("openai_chat")
    assert reader.feed(text("a") + b"data: {bad\n\n" + text("b")) == [TextDelta("a")]
    assert reader.ended
    for again in (lambda: reader.feed(text("c")), lambda: reader.feed(b""), reader.close):
        with pytest.raises(StreamError, match="event 2 is no JSON"):
            again()
    assert reader.abort().text == "a"


def test_an_error_alone_is_raised_at_once() -> None:
    with pytest.raises(StreamError) as caught:
        ReplyReader("openai_chat").feed(b"data: {bad\n\n")
    assert caught.value.kind == "malformed_event"


def test_closing_twice_gives_the_same_reply_and_feeding_then_changes_nothing() -> None:
    reader = ReplyReader("openai_chat")
    reader.feed(text("a") + STOP)
    assert (reader.terminal, reader.ended, reader.events) == (True, False, 2)
    reply = reader.close()
    assert reader.ended
    assert reader.feed(text("b")) == []
    assert reader.close() is reply


@pytest.mark.parametrize("cut", [0, 1, len(GOOD) // 2, len(GOOD), len(GOOD + FINISH)])
def test_an_aborted_reply_is_partial_and_stays_so(cut: int) -> None:
    reader = ReplyReader("openai_chat")
    reader.feed((GOOD + FINISH)[:cut])
    partial = reader.abort()
    assert all(c.status == "cut" for c in partial.tool_calls)
    assert reader.ended
    assert reader.abort() == partial
    with pytest.raises(StreamError) as caught:
        reader.close()
    assert (caught.value.kind, caught.value.partial) == ("aborted", partial)


def test_an_unknown_dialect_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        ReplyReader("morse")


def test_read_reply_stops_asking_once_the_reply_is_over() -> None:
    def source() -> Iterator[bytes]:
        yield text("a") + STOP
        yield DONE
        raise AssertionError("nothing was to be read after the end")

    assert read_reply(source(), "openai_chat").text == "a"
    with pytest.raises(StreamError, match="not one byte"):
        read_reply([], "openai_chat")


def test_ids_used_before_are_not_made_up_again() -> None:
    reader = ReplyReader("openai_chat", used_ids=frozenset({"call_0"}))
    reader.feed(calls(call(0, None, "f", "{}"), finish="tool_calls"))
    assert reader.close().tool_calls[0].id == "call_0_2"


def test_a_torn_farewell_is_named_and_does_no_harm() -> None:
    got = Reading([text("a") + STOP + b'data: {"choices":[],"usage":{"prompt_to'])
    assert got.whole is not None
    assert got.whole.tolerances == {"torn_last_event": 1}
    late = Reading([text("a") + STOP + b'data: {"error":{"message":"late"}}'])
    assert late.kind == "provider_error", "an error that can be read wins, even unended"


def test_strange_lines_beside_events_are_no_reason_to_call_it_no_stream() -> None:
    assert read(b"foo: 1\nbar\n\n", text("a")).kind == "incomplete"
    assert read(b"foo: 1\nbar\n\n", text("a"), STOP).whole is not None


def test_nothing_after_the_end_is_read_even_in_one_large_read() -> None:
    got = Reading([text("a") + STOP + DONE + text("never") * 2000 + b"data: {bad\n\n"])
    assert got.whole is not None
    assert got.whole.text == got.shown_text == "a"
    assert got.reader.events == 2


# -- bodies that are no streams -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        (b"", "incomplete", "not one byte"),
        (b"\n\n", "incomplete", "after 0 events"),
        (b": ping\n\n" * 3, "incomplete", "after 0 events"),
        (b"<!DOCTYPE html><html>", "not_a_stream", "web page"),
        (b"\xef\xbb\xbf \r\n<html>", "not_a_stream", "web page"),
        (
            b'{"error":{"message":"no key","code":"invalid_api_key"}}',
            "not_a_stream",
            "plain JSON, not a stream: no key",
        ),
        (b'\xef\xbb\xbf{"detail":"Not Found"}', "not_a_stream", "Not Found"),
        (b'{"error":"words"}', "not_a_stream", "words"),
        (b'{"object":"chat.completion","choices":[{"message":{"content":"x"}}]}', "not_a_stream", "plain JSON"),
        (b'{"object":"chat.completion"}data: [DONE]\n\n', "not_a_stream", "plain JSON or text"),
        (b'[{"error":1}]', "not_a_stream", "plain JSON"),
        (b"{" * 70_000, "not_a_stream", "plain JSON or text"),
        (b'{"a":' * 5000, "not_a_stream", "plain JSON or text"),
        (b'{"error":{"message":"half \\ud800"}}', "not_a_stream", "half \ufffd"),
        (b"\x1f\x8b\x08\x00\x00", "not_a_stream", "gzip"),
        (b"Not Found", "not_a_stream", "no event stream"),
        (b"Internal Server Error\n", "not_a_stream", "no event stream"),
        (b"\n" * 3000 + b'{"error":1}', "not_a_stream", "no event stream"),
    ],
)
def test_other_bodies_are_told_apart(body: bytes, kind: str, words: str) -> None:
    got = Reading([body])
    assert got.kind == kind
    assert words in str(got.error)
    assert "\n" not in str(got.error)
    assert got.partial == Reply(dialect="openai_chat")
    splits = two_way_splits(body) if len(body) < 500 else [in_pieces(body, 1), in_pieces(body, 777)]
    for pieces in splits:
        assert str(Reading(pieces).error) == str(got.error)


def test_the_code_of_a_plain_json_error_is_kept() -> None:
    for code, right in (("invalid_api_key", "invalid_api_key"), (401, "401"), (None, None)):
        got = read(json.dumps({"error": {"message": "m", "code": code}}).encode())
        assert got.error is not None
        assert got.error.code == right


# -- bounds, exact under every split ------------------------------------------------------------------------------------


def test_the_bound_on_a_stream_is_exact_under_every_split() -> None:
    body = text("a", "b") + STOP
    for bound, kind in ((len(body), None), (len(body) - 1, "limit"), (len(text("a")), "limit"), (1, "limit")):
        right = Reading([body], limits=limits(max_stream_bytes=bound))
        assert right.kind == kind
        for pieces in every_split(body, rounds=5):
            got = Reading(pieces, limits=limits(max_stream_bytes=bound))
            assert got.result == right.result
            if kind:
                assert f"max_stream_bytes is {bound} bytes, seen: " in str(got.error)


def test_bytes_after_the_end_do_not_count() -> None:
    body = text("a") + STOP + DONE
    for pieces in ([body + b"x" * 1000], [body, b"x" * 1000]):
        assert Reading(pieces, limits=limits(max_stream_bytes=len(body))).whole is not None


def test_the_bound_on_an_event_is_exact_and_earlier_events_count_under_every_split() -> None:
    small = limits(max_event_bytes=100, max_arguments_bytes=1)
    bound = 1 + 64 * 1024  # never less than the arguments' bound and 64 KiB
    big = chunk({"content": "x" * (bound - len(chunk({"content": ""})) + 2)})
    assert len(big) - 2 == bound
    for body, kind in (
        (text("a") + big + STOP, None),
        (text("a") + b"data:  " + big[6:] + STOP, "limit"),
        (text("a") + DONE + b"data:  " + big[6:], "incomplete"),
    ):
        results = [Reading(p, limits=small).result for p in ([body], in_pieces(body, 7), in_pieces(body, 4096))]
        assert [r[0] for r in results] == [kind] * 3
        assert results[0] == results[1] == results[2]
        assert results[0][1].text.startswith("a")
    over = Reading([text("a") + b"data:  " + big[6:]], limits=small)
    assert f"max_event_bytes is {bound} bytes, seen: {bound + 1}" in str(over.error)
    assert over.error is not None
    assert over.error.bound == "max_event_bytes"


def test_the_bounds_on_calls_name_themselves() -> None:
    many = b"".join(calls(call(i, f"i{i}", "f", "{}")) for i in range(3))
    got = Reading([text("a") + many], limits=limits(max_calls_per_reply=2))
    assert (got.kind, got.shown_text, len(got.partial.tool_calls)) == ("limit", "a", 2)
    assert got.error is not None
    assert got.error.bound == "max_calls_per_reply"
    long = Reading([calls(call(0, "a", "f", '{"x":"' + "y" * 100))], limits=limits(max_arguments_bytes=50))
    assert "max_arguments_bytes is 50 bytes, seen: 106" in str(long.error)
    at_the_end = Reading([calls(call(0, "a", "f", "x" * 60)).rstrip(b"\n")], limits=limits(max_arguments_bytes=50))
    assert at_the_end.kind == "limit"


# -- a second reader, and damage ----------------------------------------------------------------------------------------

words = st.text(st.sampled_from('ab "\\{}[]:,é\u2028🍸\n\x85'), max_size=6)


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """A stream of the documented form: text, reasoning and interleaved calls, perhaps without its end."""
    out = []
    sent = [json.dumps(draw(st.dictionaries(words, words, max_size=2))) for _ in range(draw(st.integers(0, 3)))]
    rest = list(sent)
    begun: set[int] = set()
    for _ in range(draw(st.integers(0, 14))):
        delta: dict[str, Any] = {}
        if draw(st.booleans()):
            delta["content"] = draw(st.none() | words)
        if draw(st.integers(0, 3)) == 0:
            delta["reasoning_content"] = draw(words)
        for index in draw(st.lists(st.sampled_from(range(len(sent))), max_size=2)) if sent else []:
            size = draw(st.integers(0, len(rest[index])))
            entry = call(index, None, None, rest[index][:size])
            if index not in begun:
                entry |= {"id": f"id{index}", "type": "function"}
                entry["function"]["name"] = f"tool_{index}"
                begun.add(index)
            rest[index] = rest[index][size:]
            delta.setdefault("tool_calls", []).append(entry)
        out.append(event({"id": "c", "choices": [{"index": 0, "delta": delta}]}, ascii_only=draw(st.booleans())))
    finish = draw(st.sampled_from(["stop", "tool_calls", "length", None]))
    out += [chunk({}, finish)] if finish else []
    out += [DONE] if draw(st.booleans()) else []
    return b"".join(out)


def agrees(reading: Reading, naive: dict[str, Any]) -> None:
    reply = reading.reply
    assert (reply.text, reply.reasoning, reply.stop_reason) == (naive["text"], naive["reasoning"], naive["stop"])
    assert (reading.whole is not None) is (naive["stop"] is not None)
    assert [c.name for c in reply.tool_calls] == [name for _, name, _ in naive["calls"]]
    for got, (id, _, arguments) in zip(reply.tool_calls, naive["calls"], strict=True):
        assert got.id == (id or f"call_{got.index}")
        if got.status == "whole" and not arguments.strip():
            assert got.arguments == "{}"
        elif "placeholder_arguments" not in reply.tolerances:
            assert got.arguments == arguments


def consistent(reading: Reading) -> None:
    """What holds for every reading of any bytes at all."""
    reply = reading.reply
    assert reading.shown_text == reply.text
    assert reading.shown_reasoning == reply.reasoning
    for got in reply.tool_calls:
        if got.status == "whole":
            assert reading.kind is None
            assert isinstance(parse_arguments(got.arguments), dict)
            assert reply.stop_reason is not None
        else:
            assert got.problem
    opened = [d.position for d in reading.deltas if isinstance(d, CallOpened)]
    closed = [d.position for d in reading.deltas if isinstance(d, CallClosed)]
    assert len(set(opened)) == len(opened)
    assert len(set(closed)) == len(closed)
    assert len({c.id for c in reply.tool_calls}) == len(reply.tool_calls)
    if reading.whole is not None:
        assert sorted(closed) == list(range(len(reply.tool_calls)))
    assert msgspec.json.decode(msgspec.json.encode(reply), type=Reply) == reply


@given(streams(), st.integers(0, 2**32))
@settings(max_examples=200, deadline=None)
def test_a_naive_reader_of_the_whole_body_agrees(body: bytes, seed: int) -> None:
    reading = Reading([body])
    naive = naive_read(body)
    assert naive is not None
    agrees(reading, naive)
    consistent(reading)
    for pieces in (in_pieces(body, 1), *random_splits(body, seed=seed, rounds=2)):
        assert Reading(pieces).result == reading.result


@given(streams(), st.data())
@settings(max_examples=300, deadline=None)
def test_a_damaged_stream_ends_in_a_reply_or_a_stream_error(body: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(body)))
    damage = data.draw(st.sampled_from(["flip", "drop", "add", "cut"]))
    byte = bytes([data.draw(st.integers(0, 255))])
    damaged = {
        "flip": body[:at] + byte + body[at + 1 :],
        "drop": body[:at] + body[at + 1 :],
        "add": body[:at] + byte + body[at:],
        "cut": body[:at],
    }[damage]
    reading = Reading([damaged])
    consistent(reading)
    assert Reading(in_pieces(damaged, 3)).result == reading.result


@given(st.lists(st.sampled_from([b"data: ", b"event: error", b"\n", b"\r", b"{", b"}", b'"choices":[', b'{"delta":{', b"]",
                                 b'"content":"x"', b'"tool_calls":[', b'"index":0', b",", b"[DONE]", b"\xef\xbb\xbf",
                                 b'"finish_reason":"stop"', b"null", b"<", b":", b"\xff", b" "]), max_size=30))  # fmt: skip
@settings(max_examples=300, deadline=None)
def test_any_bytes_end_in_a_reply_or_a_stream_error(parts: list[bytes]) -> None:
    body = b"".join(parts)
    reading = Reading([body])
    consistent(reading)
    assert Reading(in_pieces(body, 1)).result == reading.result


def test_a_call_is_whole_only_if_its_arguments_are_an_object() -> None:
    for arguments in ('{"x":1}', '{"x":1', "{}", "[]", "", "x", '{"x":1}{"x":1}', '{"x":01}', '{"x":1,"x":1}', "nul"):
        got = read(calls(call(0, "a", "f", arguments)), FINISH)
        assert got.whole is not None
        (made,) = got.whole.tool_calls
        try:
            parse_arguments(made.arguments)
            parses = True
        except ArgumentsError:
            parses = False
        assert (made.status == "whole") is parses
        assert got.deltas[-1] == CallClosed(0, "a", "f", made.status)


# -- memory -------------------------------------------------------------------------------------------------------------


def peak_of(pieces: Iterator[bytes], **options: Any) -> tuple[int, Reply]:
    """The peak of memory, in bytes, that reading takes beside the piece being read; and the reply."""
    reader = ReplyReader("openai_chat", **options)
    gc.collect()
    tracemalloc.start()
    try:
        for piece in pieces:
            reader.feed(piece)
        reply = reader.close()
        return tracemalloc.get_traced_memory()[1], reply
    finally:
        tracemalloc.stop()


def many(events: int, each: bytes) -> Iterator[bytes]:
    for _ in range(0, events, 50):
        yield each * 50
    yield STOP


def test_a_long_stream_that_is_not_kept_takes_little_memory() -> None:
    each = chunk({"content": "word " * 100})
    events = 20 * 1024 * 1024 // len(each)
    peak, reply = peak_of(many(events, each), keep=False)
    assert (reply.text, reply.reasoning, reply.kept) == ("", "", False)
    assert reply.stop_reason == "end_turn"
    assert peak < 512 * 1024
    thought, _ = peak_of(many(events // 10, chunk({"reasoning_content": "word " * 100})), keep=False)
    assert thought < 512 * 1024


def test_short_pieces_cost_little_more_than_the_text_they_make() -> None:
    peak, reply = peak_of(many(100_000, text("abcd")))
    assert len(reply.text) == 400_000
    assert peak < 2 * len(reply.text) + 1024 * 1024  # one string for each piece would be 6 MB
    begun = [calls(call(0, "a", "f", '{"x":"'))]
    peak, reply = peak_of(iter([*begun, *many(100_000, calls(call(0, None, None, "abcd")))]))
    assert len(reply.tool_calls[0].arguments) == 400_006
    assert peak < 3 * 400_000 + 1024 * 1024


def test_one_large_read_is_not_held_in_parts_all_at_once() -> None:
    body = calls(call(0, "a", "f", '{"x":"')) + calls(call(0, None, None, "y" * 400)) * 20_000
    small = limits(max_arguments_bytes=1 << 24)
    peak, _ = peak_of(iter([body + calls(call(0, None, None, '"}')) + FINISH]), limits=small)
    assert len(body) > 10_000_000
    assert peak < 3.2 * 20_000 * 400  # fragments, their join, its parse; no copy of the read in lines


def test_ten_thousand_readers_leave_nothing() -> None:
    endings: list[list[bytes]] = [
        [GOOD + FINISH + FAREWELL],
        [GOOD],
        [GOOD, b"data: {bad\n\n"],
        [b"<html>"],
        [b'{"error":{"message":"m"}}'],
        [GOOD + b"data: " + b"x" * 100],
    ]

    def use(count: int) -> None:
        for n in range(count):
            reader = ReplyReader("openai_chat")
            try:
                for piece in endings[n % len(endings)]:
                    reader.feed(piece)
                if n % 4:
                    reader.close()
                else:
                    reader.abort()
            except StreamError:
                continue

    tracemalloc.start()
    try:
        use(1_000)  # what the interpreter keeps for itself is there by now
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        use(10_000)
        gc.collect()
        left = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert left < 64 * 1024  # the smallest object kept for each reader would be 160 KB or more


def test_an_idle_reader_is_small() -> None:
    gc.collect()
    tracemalloc.start()
    try:
        readers = [ReplyReader("openai_chat") for _ in range(100)]
        each = tracemalloc.get_traced_memory()[0] // 100
    finally:
        tracemalloc.stop()
    assert len(readers) == 100
    assert each < 4096


def test_deltas_are_in_the_order_of_their_events() -> None:
    got = read(text("a"), calls(call(0, "i", "f", "{}")), text("b"), chunk({"reasoning": "r"}), FINISH)
    kinds = [type(d).__name__ for d in got.deltas]
    assert kinds == ["TextDelta", "CallOpened", "TextDelta", "ReasoningDelta", "CallClosed"]
    assert all(a is not b for a, b in pairwise(got.deltas))


# -- bodies that are no stream, and what is said of a stream that just stopped ------------------------------------------


def test_rubbish_ends_early_and_says_what_it_is() -> None:
    rubbish = b"xyz\n" * (4 * 1024 * 1024)
    for size in (len(rubbish), 1460):
        reader = ReplyReader("openai_chat")
        starts = iter(range(0, len(rubbish), size))
        with pytest.raises(StreamError) as stop:
            collections.deque((reader.feed(rubbish[start : start + size]) for start in starts), maxlen=0)
        assert (stop.value.kind, "16,384 lines in a row" in str(stop.value)) == ("not_a_stream", True)
        assert next(starts, len(rubbish)) <= max(size, 4 * 16_384 + 2 * 1460)
        assert reader.ended


def test_rubbish_behind_an_event_leaves_what_came_before_it() -> None:
    body = text("a") + b"xyz\n" * 16_385 + text("never") + STOP
    whole, parts = Reading([body]), Reading(list(in_pieces(body, 4096)))
    assert whole.result == parts.result
    assert (whole.kind, whole.shown_text) == ("malformed_event", "a")
    last = Reading([text("a") + b"xyz\n" * 16_384 + b"x"])
    assert last.kind == "malformed_event"


@pytest.mark.parametrize(
    ("dialect", "mark"),
    [
        ("openai_chat", "finish_reason"),
        ("openai_responses", "response.completed"),
        ("anthropic_messages", "message_stop"),
        ("gemini", "finishReason"),
        ("ollama", '"done": true'),
    ],
)
def test_done_alone_is_told_in_the_words_of_the_dialect(dialect: str, mark: str) -> None:
    reader = ReplyReader(dialect)
    line = b'{"message":{"content":"a"},"done":false}\n[DONE]\n'
    reader.feed(line if dialect == "ollama" else b"data: [DONE]\n\n")
    with pytest.raises(StreamError, match=r"said \[DONE\] without") as stop:
        reader.close()
    assert mark in str(stop.value)


def test_a_large_body_that_is_no_stream_is_refused_before_its_end() -> None:
    reader = ReplyReader("openai_chat")
    body = b'{"error":{"message":"' + b"x" * 70_000
    with pytest.raises(StreamError, match="plain JSON or text") as stop:
        reader.feed(body)
    assert (stop.value.kind, reader.ended) == ("not_a_stream", True)
    assert ReplyReader("openai_chat").feed(body[:60_000]) == []


def test_a_stream_that_stops_between_two_events_was_not_in_the_middle_of_one() -> None:
    assert "in the middle" not in str(read(text("a")).error)
    assert "in the middle of an event (7 bytes of it had come)" in str(read(text("a"), b"data: {").error)
