"""Server-sent events: the rules, what servers really send, exact bounds, and one answer under every split."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.testing.splits import every_split, in_pieces, two_way_splits
from sluice.wire.sse import MAX_IDLE_LINES, Event, EventDecoder, EventTooLarge, NoEventsError

BOUND = 1 << 20
BOM = b"\xef\xbb\xbf"


def decode(pieces: list[bytes], bound: int = BOUND) -> list[Event]:
    decoder = EventDecoder(bound)
    events = [event for piece in pieces for event in decoder.feed(piece)]
    return events + decoder.close()


def data_of(pieces: list[bytes]) -> list[bytes]:
    return [data for _, data, _ in decode(pieces)]


def plain_decode(body: bytes) -> list[Event]:
    """The standard's text, line by line over the whole body, and our one addition: the end of input ends an event."""
    lines = re.split(rb"\r\n|\n|\r", body.removeprefix(BOM))
    events: list[Event] = []
    data: list[bytes] = []
    name = last_id = None
    for line in [*lines, b""]:
        field, _, value = line.partition(b":")
        value = value[1:] if value.startswith(b" ") else value
        if not line:
            if data:
                events.append((name, b"\n".join(data), last_id))
            data, name = [], None
        elif field == b"data":
            data.append(value)
        elif field == b"event":
            name = value.decode("utf-8", "replace") or None
        elif field == b"id" and b"\0" not in value:
            last_id = value.decode("utf-8", "replace")
    return events


# Bodies that reports from the field name, with the data that is right.
FIELD = {
    "no space after the colon": (b'data:{"a":1}\n\n', [b'{"a":1}']),
    "only one space is taken": (b"data:  x\n\n", [b" x"]),
    "a space on its own": (b"data: \n\n", [b""]),
    "no colon at all": (b"data\n\n", [b""]),
    "several data lines": (b"data: a\ndata: b\ndata\n\n", [b"a\nb\n"]),
    "crlf": (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
    "lone cr": (b"data: a\rdata: b\r\rdata: c\r\r", [b"a\nb", b"c"]),
    "mixed line ends": (b"data: a\r\ndata: b\n\rdata: c\n\n", [b"a\nb", b"c"]),
    "an event closed by a lone cr at the end": (b"data: x\n\r", [b"x"]),
    "no blank line at the end": (b"data: a\n\ndata: b", [b"a", b"b"]),
    "comments and keep-alives": (b": hi\n\n:\n\ndata: a\n: in between\ndata: b\n\n", [b"a\nb"]),
    "an event name without data": (b"event: ready\n\ndata: a\n\n", [b"a"]),
    "an unknown field": (b"foo: 1\ndata: a\n data: b\nDATA: c\n\n", [b"a"]),
    "one byte order mark": (BOM + b"data: a\n\n", [b"a"]),
    "two byte order marks": (BOM + BOM + b"data: a\n\ndata: b\n\n", [b"b"]),
    "a byte order mark later on": (b"data: a\n\n" + BOM + b"data: b\n\n", [b"a"]),
    "other line ends of Unicode": (
        "data: a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\n\n".encode(),
        ["a\u2028b\u2029c\x85d\x0be\x0cf\x1cg".encode()],
    ),
    "bytes that are no UTF-8": (b"data: \xff\xfe\n\n", [b"\xff\xfe"]),
    "a colon in the value": (b"data: a: b\n\n", [b"a: b"]),
    "nothing": (b"", []),
    "only line ends": (b"\n\r\n\r\n\n", []),
}


@pytest.mark.parametrize("name", FIELD)
def test_what_servers_send_means_the_same_under_every_split(name: str) -> None:
    body, right = FIELD[name]
    for pieces in every_split(body):
        assert data_of(pieces) == right


def test_names_and_ids() -> None:
    body = b"event: a\nid: 1\ndata: x\n\ndata: y\n\nid\nevent\ndata: z\n\nid: n\0l\nevent: b\nevent: c\ndata: w\n\n"
    right = [("a", b"x", "1"), (None, b"y", "1"), (None, b"z", ""), ("c", b"w", "")]
    for pieces in every_split(body):
        assert decode(pieces) == right


def test_retry_comments_and_strange_lines_are_told() -> None:
    decoder = EventDecoder(BOUND)
    decoder.feed(b"retry: 3000\nretry: 1s\nretry:\n: one\n:two\nfoo\nbar: 1\n\n")
    assert (decoder.retry, decoder.comments, decoder.strange) == (3000, 2, 2)


def test_a_torn_byte_order_mark_that_is_none_is_data() -> None:
    assert data_of([b"\xef", b"\xbb", b"data: a\n\ndata: b\n\n"]) == [b"b"]
    assert data_of([b"\xef"]) == []


def test_an_event_is_out_with_the_last_byte_of_its_blank_line() -> None:
    for end in (b"\n\n", b"\r\r", b"\r\n\r"):  # the LF after CR CR only completes what is already known
        decoder = EventDecoder(BOUND)
        *before, last = in_pieces(b"data: x" + end, 1)
        assert [event for piece in before for event in decoder.feed(piece)] == []
        assert [data for _, data, _ in decoder.feed(last)] == [b"x"]


# Where a vector of another client is not followed, and why.
OTHERS_ALONE = {
    "sse_anthropic_python-0003": "an event without data lines is no event (the standard)",
    "sse_anthropic_python-0004": "an event without data lines is no event (the standard)",
    "sse_openai_python-0003": "an event without data lines is no event (the standard)",
    "sse_openai_python-0004": "an event without data lines is no event (the standard)",
    "sse_httpx_sse-0008": "an event without data lines is no event (the standard)",
}
# The one addition to the standard (W1): end of input ends an event that has no blank line.
UNENDED = "dispatched at the end of input"


def _vector_files(shared: Path) -> list[dict[str, Any]]:
    names = ["sse_wpt", "sse_eventsource_parser", "sse_httpx_sse", "sse_openai_python", "sse_anthropic_python"]
    return [
        json.loads(line)
        for name in names
        for line in (shared / "vectors" / "stream" / f"{name}.jsonl").read_text("utf-8").splitlines()
    ]


def test_the_vectors_of_other_clients_and_of_the_standard(shared: Path) -> None:
    unended = []
    checked = 0
    for row in _vector_files(shared):
        if row.get("raises"):
            continue  # what other clients refuse (their own bounds, their own errors) is not the standard's
        body = base64.b64decode(row["input_b64"])
        right = [((e["event"] or "message"), e["data"]) for e in row["expected"]]
        as_sent = [base64.b64decode(piece) for piece in row["chunks_b64"]]
        for pieces in ([body], as_sent, in_pieces(body, 1) if len(body) < 100_000 else [body]):
            got = [(name or "message", data.decode("utf-8", "replace")) for name, data, _ in decode(pieces)]
            if row["id"] in OTHERS_ALONE:
                assert got != right, f"{row['id']} is no difference any more"
            elif got[: len(right)] == right and len(got) == len(right) + 1:
                assert not body.endswith((b"\n\n", b"\r\r", b"\r\n\r\n")), row["id"]
                unended.append(row["id"])
            else:
                assert got == right, row["id"]
        checked += 1
    assert checked > 120
    assert unended, f"no vector shows the addition any more ({UNENDED})"


lines = st.sampled_from(
    [b"data: a", b"data:b", b"data", b"data:  c", b"event: e", b"event:", b"id: 7", b"id", b"retry: 1", b": c", b"x: y",
     b"\xef\xbb\xbfdata: d", b" data: f", b"", b"", b"", "data: \u2028é🍸\x85".encode(), b"data: \xff"]
)  # fmt: skip
ends = st.sampled_from([b"\n", b"\r\n", b"\r"])


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    parts = draw(st.lists(st.tuples(lines, ends), max_size=12))
    start = draw(st.sampled_from([b"", BOM]))
    return start + b"".join(line + end for line, end in parts) + draw(st.sampled_from([b"", b"data: tail", b"dat"]))


@given(bodies(), st.data())
@settings(max_examples=300, deadline=None)
def test_a_plain_decoder_of_the_whole_body_gives_the_same_events(body: bytes, data: st.DataObject) -> None:
    right = plain_decode(body)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=8)))
    pieces = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    assert decode([body]) == decode(in_pieces(body, 1)) == decode(pieces) == right


def outcome(pieces: list[bytes], bound: int) -> tuple[list[Event], bool]:
    decoder = EventDecoder(bound)
    events: list[Event] = []
    try:
        for piece in pieces:
            events += decoder.feed(piece)
        return events + decoder.close(), False
    except EventTooLarge as large:
        return events + large.events, large.seen > bound


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\r\r", b""])
def test_the_bound_is_exact_under_every_split(end: bytes) -> None:
    fits = b"data: " + b"x" * 26
    for body, too_large in (
        (fits + end, False),
        (fits + b"x" + end, True),
        (b"data: ok\n\n" + fits + b"x" + end, True),
        (b"data: 1\n\n" * 20 + fits + end, False),
        (b"data: 123\ndata: 456\ndata: " + b"x" * 18 + end, False),
        (b"data: 123\ndata: 456\ndata: " + b"x" * 19 + end, True),
        (b": " + b"c" * 31 + end, True),
    ):
        events = b"data: " in body and outcome([body], 32)[0]
        for pieces in every_split(body, rounds=10):
            assert outcome(pieces, 32) == (events or [], too_large)


def test_empty_data_lines_count_too() -> None:
    with pytest.raises(EventTooLarge):
        decode([b"data:\n" * 100], 64)


def test_events_before_an_oversized_one_are_not_lost() -> None:
    for pieces in two_way_splits(b"data: one\n\ndata: two\n\ndata: " + b"x" * 100):
        events, too_large = outcome(pieces, 32)
        assert too_large
        assert [data for _, data, _ in events] == [b"one", b"two"]


def test_what_is_held_is_the_unfinished_event_and_nothing_more() -> None:
    decoder = EventDecoder(BOUND)
    for piece in in_pieces(b"data: 0123456789\n\n" * 1000, 100):
        decoder.feed(piece)
        assert decoder.unfinished < 20
    decoder.feed(b"data: abc\ndata: d")
    assert decoder.unfinished == 4 + 7


class Counting(bytes):
    """Bytes that count how many of them were looked through for a line end."""

    looked = 0

    def __contains__(self, item: Any) -> bool:
        Counting.looked += len(self)
        return super().__contains__(item)


def test_no_byte_is_scanned_again_because_a_read_ended_early() -> None:
    costs = []
    for size in (20_000, 200_000):
        decoder = EventDecoder(BOUND)
        Counting.looked = 0
        for piece in in_pieces(b"data: " + b"x" * size, 64):
            decoder.feed(Counting(piece))
        costs.append(Counting.looked)
        assert Counting.looked <= 3 * (size + 6)
    assert costs[1] <= 11 * costs[0]


def test_lines_that_give_nothing_are_bounded_between_two_events() -> None:
    rubbish = b"x\n" * MAX_IDLE_LINES
    for lines in (rubbish, b":\n" * MAX_IDLE_LINES, b"id: 1\n" * MAX_IDLE_LINES):
        assert EventDecoder(9).feed(lines + b"data: a\n\n" + lines + b"data: b\n\n" + lines) != []
        with pytest.raises(NoEventsError) as stop:
            EventDecoder(9).feed(lines + b"?\n")
        assert (stop.value.events, stop.value.before) == ([], False)


def test_too_many_such_lines_stop_at_the_same_one_under_every_split() -> None:
    event = b"data: a\n\n"
    body = event + b"x\n" * (MAX_IDLE_LINES + 1) + event
    with pytest.raises(NoEventsError) as stop:
        EventDecoder(9).feed(body)
    assert (stop.value.events, stop.value.before) == ([(None, b"a", None)], True)
    at = len(event) + 2 * (MAX_IDLE_LINES + 1)
    decoder = EventDecoder(9)
    assert decoder.feed(body[:3]) == []
    assert decoder.feed(body[3 : at - 1]) == [(None, b"a", None)]
    with pytest.raises(NoEventsError):
        decoder.feed(body[at - 1 : at])
    decoder = EventDecoder(9)
    decoder.feed(body[: at - 1])
    with pytest.raises(NoEventsError):
        decoder.close()


def test_what_was_seen_of_an_event_too_large_is_its_data_and_the_line() -> None:
    with pytest.raises(EventTooLarge) as stop:
        EventDecoder(12).feed(b"data: 12345\ndata: 6\n\n")
    assert stop.value.seen == len("12345\n") + len("data: 6")
