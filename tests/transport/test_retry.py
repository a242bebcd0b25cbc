from __future__ import annotations

from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.errors import StreamError, TransportError
from sluice.limits import Limits
from sluice.transport.retry import next_wait, parse_retry_after, retry_after_of
from sluice.values.messages import Reply

LIMITS = Limits()


def status(code: int, retry_after: float | None = None) -> TransportError:
    return TransportError("status", "", status=code, retry_after=retry_after)


@pytest.mark.parametrize("code", [408, 409, 429, 500, 502, 503, 529])
def test_these_statuses_are_tried_three_times(code: int) -> None:
    waits = [next_wait(status(code), attempt, LIMITS, random=0.999) for attempt in (1, 2, 3)]
    assert waits[2] is None
    assert waits[0] is not None
    assert 0.5 <= waits[0] <= 1
    assert waits[1] is not None
    assert 1 <= waits[1] <= 2


@pytest.mark.parametrize("code", [301, 400, 401, 403, 404, 413, 422])
def test_these_statuses_are_final(code: int) -> None:
    assert next_wait(status(code), 1, LIMITS, random=0) is None


@pytest.mark.parametrize(
    ("kind", "attempts"),
    [
        ("resolve", 3),
        ("connect", 3),
        ("connect_timeout", 3),
        ("broken", 3),
        ("idle_timeout", 3),
        ("refused", 2),
        ("first_byte_timeout", 2),
        ("tls", 1),
        ("total_timeout", 1),
        ("too_large", 1),
        ("protocol", 1),
        ("no_recording", 1),
    ],
)
def test_faults_of_the_network_get_their_number_of_attempts(kind: str, attempts: int) -> None:
    made = 1
    while next_wait(TransportError(kind, ""), made, LIMITS, random=0.5) is not None:  # type: ignore[arg-type]
        made += 1
    assert made == attempts


@pytest.mark.parametrize(
    ("kind", "again"),
    [("incomplete", True), ("provider_error", True), ("limit", False), ("malformed_event", False), ("aborted", False)],
)
def test_a_stream_that_broke_before_its_first_delta(kind: str, again: bool) -> None:
    failure = StreamError(kind, "", Reply())  # type: ignore[arg-type]
    assert (next_wait(failure, 1, LIMITS, random=0) is not None) is again


def test_a_servers_wish_counts_if_it_is_longer_and_not_too_long() -> None:
    assert next_wait(status(429, 7), 1, LIMITS, random=0.5) == 7
    assert next_wait(status(429, 60), 1, LIMITS, random=0.5) == 60
    assert next_wait(status(429, 60.1), 1, LIMITS, random=0.5) is None
    wait = next_wait(status(429, 0), 1, LIMITS, random=0)
    assert wait is not None
    assert wait > 0


@given(st.floats(0, 1, exclude_max=True), st.integers(1, 500))
def test_a_wait_is_never_negative_and_never_long(random: float, attempt: int) -> None:
    wait = next_wait(status(500), attempt, Limits(max_attempts=1000), random=random)
    assert wait is not None
    assert 0 < wait <= 64


def test_retry_after_is_seconds_or_a_date() -> None:
    assert parse_retry_after(" 2.5 ", 0) == 2.5
    assert parse_retry_after(formatdate(1_000_030, usegmt=True), 1_000_000) == 30
    assert parse_retry_after(formatdate(999_000, usegmt=True), 1_000_000) == 0


@given(st.text())
def test_retry_after_of_any_text_is_sane(text: str) -> None:
    seconds = parse_retry_after(text, 0)
    assert seconds is None or seconds >= 0


@pytest.mark.parametrize("text", ["", "soon", "-1", "nan", "inf", "Mon, 99 Foo"])
def test_an_unusable_retry_after_is_none(text: str) -> None:
    assert parse_retry_after(text, 0) is None


def test_milliseconds_go_first() -> None:
    assert retry_after_of({"retry-after-ms": "1500", "retry-after": "9"}, 0) == 1.5
    assert retry_after_of({"retry-after-ms": "x", "retry-after": "9"}, 0) == 9
    assert retry_after_of({}, 0) is None
