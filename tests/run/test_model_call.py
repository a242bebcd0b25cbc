"""Attempts at one model call: when one is made again, what is shown, what counts as whole."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from run_world import DONE, Answer, FakeClock, FakeTransport, Gate, World, call, calls, end_of, event, shown, text

from sluice.errors import TransportError
from sluice.limits import Limits
from sluice.run.model_call import FEED_BYTES, BrokenReply, ModelCall
from sluice.values import notices as n
from sluice.values.deltas import Delta, TextDelta
from sluice.values.messages import Reply
from sluice.values.requests import Request
from sluice.wire.dialects import DIALECTS


class Watcher:
    def __init__(self, fail: Exception | None = None) -> None:
        self.seen: list[Delta] = []
        self.waits: list[tuple[int, float, str]] = []
        self.told_sizes: list[dict[int, int]] = []
        self._fail = fail

    async def deltas(self, deltas: list[Delta]) -> None:
        assert deltas
        self.seen += deltas
        if self._fail:
            raise self._fail

    async def waiting(self, attempt: int, seconds: float, reason: str) -> None:
        self.waits.append((attempt, seconds, reason))

    async def sizes(self, sizes: dict[int, int]) -> None:
        self.told_sizes.append(sizes)

    @property
    def text(self) -> str:
        return "".join(d.text for d in self.seen if isinstance(d, TextDelta))


class Played:
    def __init__(self, *scripts: Any, watcher: Watcher | None = None, clock: FakeClock | None = None, **limits: Any):
        self.transport = FakeTransport(scripts)
        self.watcher = watcher or Watcher()
        self.slept: list[float] = []
        self.call = ModelCall(
            self.transport,
            DIALECTS["openai_chat"],
            Request(dialect="openai_chat", path="x", body=b"{}"),
            self.watcher,
            limits=Limits(**limits),
            clock=clock or FakeClock(),
            random=lambda: 0.0,
            sleep=self._sleep,
        )

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def run(self) -> Reply | BrokenReply:
        answer = asyncio.run(self.call.run())
        assert self.transport.open == 0
        return answer


def _status(status: int, body: bytes = b"", **headers: str) -> Answer:
    return Answer(body, status=status, headers={k.replace("_", "-"): v for k, v in headers.items()})


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529])
def test_a_status_that_may_pass_is_tried_again_and_the_wait_is_told(status: int) -> None:
    played = Played(_status(status), _status(status), text("there"))
    answer = played.run()
    assert isinstance(answer, Reply)
    assert answer.text == "there"
    assert played.slept == [0.5, 1.0]
    assert [(a, s) for a, s, _ in played.watcher.waits] == [(1, 0.5), (2, 1.0)]
    assert str(status) in played.watcher.waits[0][2]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422, 301])
def test_a_status_that_will_not_pass_is_not_tried_again(status: int) -> None:
    answer = Played(_status(status, b'{"error": {"message": "no such thing"}}')).run()
    assert isinstance(answer, BrokenReply)
    assert answer.kind == "status"
    assert str(status) in answer.message
    assert "no such thing" in answer.message


def test_three_attempts_and_no_more() -> None:
    played = Played(*[_status(503)] * 3)
    assert isinstance(played.run(), BrokenReply)
    assert len(played.transport.bodies) == 3


def test_retry_after_is_honoured_up_to_its_bound() -> None:
    played = Played(_status(429, retry_after="7"), text("ok"))
    played.run()
    assert played.slept == [7.0]
    played = Played(_status(429, retry_after="61"))
    assert isinstance(played.run(), BrokenReply)
    assert played.slept == []


@pytest.mark.parametrize(
    ("fault", "attempts"),
    [("refused", 2), ("first_byte_timeout", 2), ("connect", 3), ("broken", 3), ("tls", 1), ("total_timeout", 1)],
)
def test_each_fault_before_the_first_delta_has_its_number_of_attempts(fault: Any, attempts: int) -> None:
    played = Played(*[TransportError(fault, "no")] * attempts)
    answer = played.run()
    assert isinstance(answer, BrokenReply)
    assert answer.kind == fault
    assert len(played.transport.bodies) == attempts


@pytest.mark.parametrize(
    "script",
    [
        [],
        [b": hello\n\n"],
        [b'data: {"error": {"message": "overloaded"}}\n\n'],
        [TransportError("broken", "gone")],
        [event({"role": "assistant", "content": ""})],
    ],
)
def test_a_stream_broken_before_its_first_delta_is_tried_again(script: Any) -> None:
    played = Played(script, text("ok"))
    answer = played.run()
    assert isinstance(answer, Reply)
    assert len(played.watcher.waits) == 1


@pytest.mark.parametrize(
    ("items", "kind"),
    [
        ([], "incomplete"),
        ([TransportError("broken", "gone")], "incomplete"),
        ([TransportError("idle_timeout", "silence")], "incomplete"),
        ([b'data: {"error": {"message": "overloaded"}}\n\n'], "provider_error"),
        ([b"data: nonsense\n\n"], "malformed_event"),
    ],
)
def test_nothing_is_tried_again_once_something_was_shown(items: Any, kind: str) -> None:
    played = Played([event({"content": "so far"}), *items])
    answer = played.run()
    assert isinstance(answer, BrokenReply)
    assert answer.kind == kind
    assert answer.partial is not None
    assert answer.partial.text == played.watcher.text == "so far"
    assert len(played.transport.bodies) == 1


def test_a_finish_and_then_a_broken_connection_is_whole() -> None:
    answer = Played([event({"content": "all"}), event({}, "stop"), TransportError("broken", "gone")]).run()
    assert isinstance(answer, Reply)
    assert (answer.text, answer.stop_reason) == ("all", "end_turn")


def test_what_only_the_end_of_input_makes_known_is_shown_too() -> None:
    last = event({"content": " end"}, "stop").rstrip(b"\n")  # no blank line after the last event
    played = Played([event({"content": "the"}), last])
    answer = played.run()
    assert isinstance(answer, Reply)
    assert answer.text == played.watcher.text == "the end"


def test_a_server_that_sends_only_keep_alives_is_given_up() -> None:
    clock = FakeClock()
    beat = [lambda: clock.advance(50), b": ping\n\n"] * 20
    answer = Played([*beat], *[[*beat]] * 2, clock=clock, keepalive_seconds=300, max_attempts=1).run()
    assert isinstance(answer, BrokenReply)
    assert answer.kind == "idle_timeout"
    assert "keep-alives for 300 s" in answer.message
    assert clock.ns == 350 * 10**9


def test_keep_alives_between_events_do_no_harm() -> None:
    clock = FakeClock()
    pieces: list[Any] = []
    for _ in range(20):
        pieces += [lambda: clock.advance(100), b": ping\n\n", lambda: clock.advance(100), event({"content": "x"})]
    answer = Played([*pieces, event({}, "stop"), DONE], clock=clock, keepalive_seconds=300).run()
    assert isinstance(answer, Reply)
    assert answer.text == "x" * 20


def test_the_bound_on_the_body_is_a_limit_whoever_meets_it() -> None:
    answer = Played([event({"content": "a"}), TransportError("too_large", "over")]).run()
    assert isinstance(answer, BrokenReply)
    assert (answer.kind, answer.bound) == ("limit", "max_stream_bytes")
    answer = Played([event({"content": "a" * 200})] * 9, max_stream_bytes=300).run()
    assert isinstance(answer, BrokenReply)
    assert (answer.kind, answer.bound) == ("limit", "max_stream_bytes")


@pytest.mark.parametrize("body", [b"<html>no</html>", b'{"error": {"message": "no stream here"}}'])
def test_what_is_no_stream_is_said_and_not_tried_again(body: bytes) -> None:
    played = Played([body])
    answer = played.run()
    assert isinstance(answer, BrokenReply)
    assert answer.kind == "not_a_stream"
    assert played.watcher.waits == []


def test_what_a_watcher_raises_comes_out_and_the_connection_is_closed() -> None:
    played = Played(text("hi"), watcher=Watcher(ValueError("I do not like it")))
    with pytest.raises(ValueError, match="do not like"):
        played.run()
    assert played.transport.open == 0
    partial = played.call.partial()
    assert partial is not None
    assert partial.text == "hi"


@pytest.mark.parametrize("shown_first", [True, False])
def test_a_cancelled_call_closes_the_connection_and_answers_aborted(shown_first: bool) -> None:
    async def go() -> None:
        gate = Gate()
        played = Played([event({"content": "so"}), gate] if shown_first else [gate])
        task = asyncio.create_task(played.call.run())
        await gate.reached.wait()
        task.cancel()
        answer = await task
        assert isinstance(answer, BrokenReply)
        assert answer.kind == "aborted"
        assert (answer.partial is not None) is shown_first
        assert played.transport.open == 0

    asyncio.run(go())


def test_in_a_run_a_retry_is_told_and_is_no_turn() -> None:
    world = World(TransportError("connect", "no way there"), Answer(status=503), text("ok"))
    notices = world.run()
    waits = [x for x in notices if isinstance(x, n.Waiting)]
    assert [(x.turn, x.attempt) for x in waits] == [(1, 1), (1, 2)]
    assert waits[0].reason == "no way there"
    assert [x.seconds for x in waits] == world.waits
    assert (end_of(notices).turns, shown(notices)) == (1, "ok")


@pytest.mark.parametrize(
    ("script", "outcome"),
    [
        (Answer(b"denied", status=401), "provider_error"),
        ([b"<html></html>"], "provider_error"),
        (TransportError("tls", "certificate"), "provider_error"),
        (TransportError("no_recording", "no answer more"), "provider_error"),
    ],
)
def test_in_a_run_a_failed_call_is_told_once_and_ends_it(script: Any, outcome: str) -> None:
    notices = World(script).run()
    assert (end_of(notices).outcome, end_of(notices).exit_code) == (outcome, 1)
    errors = [x for x in notices if isinstance(x, n.Failed)]
    assert len(errors) == 1
    assert errors[0].message == end_of(notices).message


def test_in_a_run_a_call_announced_and_lost_is_withdrawn() -> None:
    world = World([*calls("look", finish=None)], text("ok"))
    notices = world.run()
    assert any(isinstance(x, n.CallIntended) for x in notices)
    assert any(isinstance(x, n.CallWithdrawn) for x in notices)
    assert world.tools.ran == []


def test_a_large_read_is_shown_in_parts_and_nothing_of_it_is_lost() -> None:
    body = b"".join(event({"content": f"{at:04d}" * 100}) for at in range(200)) + b"".join(text(""))
    assert len(body) > 3 * FEED_BYTES
    reads = []

    class Counting(Watcher):
        async def deltas(self, deltas: list[Delta]) -> None:
            reads.append(len(deltas))
            await super().deltas(deltas)

    played = Played([body], watcher=Counting())
    answer = played.run()
    assert isinstance(answer, Reply)
    assert answer.text == played.watcher.text == "".join(f"{at:04d}" * 100 for at in range(200))
    assert len(reads) > 2
    assert max(reads) < 150


def test_the_size_of_a_call_is_told_after_each_read_that_it_came_in() -> None:
    first = call("look", '{"path":')
    second = event({"tool_calls": [{"index": 0, "function": {"arguments": '"a"}'}}]})
    played = Played([event({"content": "hi"}), first, second, event({}, "tool_calls"), DONE])
    assert isinstance(played.run(), Reply)
    assert played.watcher.told_sizes[:2] == [{0: 8}, {0: 12}]
