"""Tokens and costs of a run: counted, told, and bounded between turns and before calls."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from run_world import DONE, Answer, Gate, World, calls, done, event, text

from sluice.errors import TransportError
from sluice.run.prices import ModelEntry
from sluice.session.memory import MemoryStore
from sluice.values import notices as n
from sluice.values.messages import ImagePart, TextPart, Usage, UserMessage
from sluice.wire.dialects import DIALECTS

PRICED = ModelEntry(input=100.0, output=1000.0)


def used(body: list[bytes], given: int, told: int, **more: Any) -> list[bytes]:
    usage = {"prompt_tokens": given, "completion_tokens": told, "total_tokens": given + told, **more}
    return [
        *body[:-1],
        b'data: {"id":"c","model":"m","choices":[],"usage":' + str(usage).replace("'", '"').encode() + b"}\n\n",
        DONE,
    ]


def of(notices: list[n.Notice], kind: type) -> list[Any]:
    return [notice for notice in notices if isinstance(notice, kind)]


def test_costs_of_turns_and_run_are_told() -> None:
    world = World(used(calls("look"), 1000, 10), used(text("fine"), 2000, 20), model=PRICED)
    notices = world.run("go")
    assert [turn.cost for turn in of(notices, n.TurnFinished)] == pytest.approx([0.11, 0.22])
    (end,) = of(notices, n.RunFinished)
    assert end.cost == pytest.approx(0.33)
    assert (end.usage.input_tokens, end.usage.output_tokens) == (3000, 30)


def test_an_unknown_price_is_unknown() -> None:
    world = World(used(calls("look"), 1000, 10), used(text("fine"), 2000, 20))
    notices = world.run("go")
    assert [turn.cost for turn in of(notices, n.TurnFinished)] == [None, None]
    assert of(notices, n.RunFinished)[0].cost is None


@pytest.mark.parametrize(
    ("limits", "outcome"),
    [({"max_cost": 0.1}, "limit:cost"), ({"max_tokens_total": 1010}, "limit:tokens_total")],
)
def test_a_bound_that_is_reached_stops_before_calls(limits, outcome) -> None:
    world = World(used(calls("look"), 1000, 10), used(text("never"), 1, 1), model=PRICED, limits=limits)
    (end,) = of(world.run("go"), n.RunFinished)
    assert (end.outcome, end.exit_code) == (outcome, 3)
    assert world.tools.ran == []
    assert len(world.transport.bodies) == 1


@pytest.mark.parametrize("limits", [{"max_cost": 0.12}, {"max_tokens_total": 1011}, {"max_cost": 0.0}])
def test_a_bound_that_is_not_reached_stops_nothing(limits) -> None:
    model = PRICED if limits.get("max_cost") else ModelEntry(input=0.0, output=0.0)
    world = World(used(calls("look"), 1000, 10), used(text("fine"), 1, 1), model=model, limits=limits)
    (end,) = of(world.run("go"), n.RunFinished)
    assert end.outcome == "completed"
    assert world.tools.ran == ["look"]


def test_a_whole_answer_is_no_limit_even_where_it_used_the_last_of_it() -> None:
    world = World(used(text("fine"), 1000, 10), model=PRICED, limits={"max_cost": 0.01})
    assert of(world.run("go"), n.RunFinished)[0].outcome == "completed"


# -- what broke, or was refused, is paid for all the same


def counted(given: int, told: int, **more: Any) -> bytes:
    """An event that says what was used, before the end of the reply."""
    usage = {"prompt_tokens": given, "completion_tokens": told, "total_tokens": given + told, **more}
    return event({}, usage=usage)


def before_a_summary(*scripts: Any, **limits: Any) -> World:
    """A run whose fourth request is one for a summary: three looks that fill the context."""

    async def look(arguments: dict[str, Any], cancel: Any) -> Any:
        return done("look", arguments["path"] * 3000)

    looks = [used(calls(("look", f'{{"path": "{at}"}}')), 10, 1) for at in range(3)]
    return World(
        *looks,
        *scripts,
        tools={"look": ("read_only", look)},
        model=PRICED,
        limits={"max_context_bytes": 8_300, "max_attempts": 1, **limits},
    )


ASKED = 3 * (10 * 100 + 1 * 1000) / 1e6  # what the three looks cost
BROKEN_SUMMARIES = {
    "cut stream": [event({"content": "Task"}), counted(5000, 30)],
    "error after usage": [
        event({"content": "T"}),
        counted(5000, 30),
        b'data: {"error": {"message": "overloaded"}}\n\n',
    ],
    "error before text": [counted(5000, 30), b'data: {"error": {"message": "overloaded"}}\n\n'],
    "empty": used(text(" "), 5000, 30),
    "larger": used(text("z" * 50_000), 5000, 30),
    "cut at its length": used(text("half", "length"), 5000, 30),
    "asks for a call": used(calls("look"), 5000, 30),
    "connection lost": [event({"content": "T"}), counted(5000, 30), TransportError("broken", "gone")],
}


@pytest.mark.parametrize("kind", BROKEN_SUMMARIES)
def test_a_summary_that_is_none_counts_for_the_run(kind: str) -> None:
    world = before_a_summary(BROKEN_SUMMARIES[kind])
    notices = world.run()
    (told,) = of(notices, n.Summarised)
    assert not told.ok
    assert told.usage is not None
    assert (told.usage.input_tokens, told.usage.output_tokens) == (5000, 30)
    assert told.cost == pytest.approx(0.53)
    assert told.message
    end = notices[-1]
    assert isinstance(end, n.RunFinished)
    assert (end.usage.input_tokens, end.usage.output_tokens, end.usage.estimated) == (5030, 33, False)
    assert end.cost == pytest.approx(ASKED + 0.53)
    assert end.turns == 3
    assert end.outcome == "limit:context", "one failed attempt ends in a named outcome"


@pytest.mark.parametrize(
    ("limits", "outcome"), [({"max_cost": 0.5}, "limit:cost"), ({"max_tokens_total": 5000}, "limit:tokens_total")]
)
@pytest.mark.parametrize("kind", BROKEN_SUMMARIES)
def test_a_summary_that_is_none_counts_for_the_limits(kind: str, limits: dict[str, Any], outcome: str) -> None:
    (end,) = of(before_a_summary(BROKEN_SUMMARIES[kind], **limits).run(), n.RunFinished)
    assert end.outcome == outcome


def test_a_broken_summary_of_which_nothing_was_counted_is_estimated() -> None:
    notices = before_a_summary([event({"content": "T" * 400})]).run()
    (told,) = of(notices, n.Summarised)
    assert told.usage is not None
    assert told.usage.estimated
    assert told.usage.output_tokens == 100
    assert told.usage.input_tokens > 1000
    assert notices[-1].usage.estimated  # type: ignore[union-attr]


def test_a_summary_that_no_server_began_costs_nothing() -> None:
    (told,) = of(before_a_summary(Answer(b"no", status=500)).run(), n.Summarised)
    assert (told.ok, told.usage, told.cost) == (False, None, None)


def test_each_attempt_at_a_summary_is_priced_by_itself() -> None:
    """What one attempt cost by the provider's word is not the price of another."""
    broken = [counted(1000, 0), TransportError("broken", "gone")]
    world = before_a_summary(broken, used(text("S"), 2000, 10, cost=0.07), used(text("fine"), 1, 1), max_attempts=2)
    notices = world.run()
    (told,) = of(notices, n.Summarised)
    assert told.ok
    assert told.usage.input_tokens == 3000
    assert told.usage.cost is None, "the provider told only a part of it"
    assert told.cost == pytest.approx(0.1 + 0.07)


def test_a_summary_that_takes_too_long_is_stopped_and_counts() -> None:
    world = before_a_summary(max_seconds=0.05)
    gate = Gate()
    script = [event({"content": "S" * 40}), counted(5000, 30), lambda: world.clock.advance(1), gate]
    world.transport._scripts = iter([*world.transport._scripts, script])

    async def go() -> list[n.Notice]:
        async with asyncio.timeout(10):
            notices = [notice async for notice in world.agent().run("go")]
        world.check(notices)
        return notices

    notices = asyncio.run(go())
    (end,) = of(notices, n.RunFinished)
    assert end.outcome == "limit:seconds"
    assert end.usage.input_tokens == 5030
    (also,) = of(notices, n.AlsoUsed)
    assert (also.by, also.cost) == ("stopped", pytest.approx(0.53))


def test_a_reply_that_was_stopped_before_anything_was_shown_counts_what_was_told() -> None:
    gate = Gate()
    world = World([counted(5000, 0), gate], model=PRICED)

    async def go() -> list[n.Notice]:
        agent = world.agent()

        async def stop() -> None:
            await gate.reached.wait()
            agent.cancel()

        stopper = asyncio.create_task(stop())
        async with asyncio.timeout(10):
            notices = [notice async for notice in agent.run("go")]
        await stopper
        world.check(notices)
        return notices

    notices = asyncio.run(go())
    assert [(also.by, also.turn, also.cost) for also in of(notices, n.AlsoUsed)] == [("stopped", 1, 0.5)]
    assert of(notices, n.RunFinished)[0].cost == pytest.approx(0.5)
    assert not of(notices, n.TurnFinished)


@pytest.mark.parametrize("tried_again", [True, False])
def test_an_attempt_of_which_nothing_was_shown_counts(tried_again: bool) -> None:
    """A model may have thought for long, unseen, before the connection broke."""
    broken = [counted(4000, 900), TransportError("broken", "gone")]
    attempts = [broken, used(text("fine"), 1000, 10)] if tried_again else [broken]
    world = World(*attempts, model=PRICED, limits={"max_attempts": len(attempts)})
    notices = world.run()
    (also,) = of(notices, n.AlsoUsed)
    assert (also.by, also.turn, also.usage.input_tokens, also.cost) == ("attempt", 1, 4000, pytest.approx(1.3))
    (end,) = of(notices, n.RunFinished)
    assert end.cost == pytest.approx(1.3 + (0.11 if tried_again else 0))
    assert end.turns == 1
    assert [turn.usage.input_tokens for turn in of(notices, n.TurnFinished)] == ([1000] if tried_again else [])


@pytest.mark.parametrize(
    ("limits", "outcome"), [({"max_cost": 1.0}, "limit:cost"), ({"max_tokens_total": 4900}, "limit:tokens_total")]
)
def test_an_attempt_of_which_nothing_was_shown_counts_for_the_limits(limits: dict[str, Any], outcome: str) -> None:
    broken = [counted(4000, 900), TransportError("broken", "gone")]
    world = World(broken, used(calls("look"), 1, 1), model=PRICED, limits=limits)
    notices = world.run()
    (end,) = of(notices, n.RunFinished)
    assert (end.outcome, end.usage.input_tokens) == (outcome, 4000)
    assert end.message.endswith("are allowed; gone")
    assert len(world.transport.bodies) == 1, "another attempt would be another request"
    assert not of(notices, n.Waiting)


def test_an_attempt_that_leaves_something_to_spend_is_made_again_and_counts() -> None:
    broken = [counted(4000, 900), TransportError("broken", "gone")]
    world = World(broken, used(calls("look"), 1, 1), model=PRICED, limits={"max_tokens_total": 4901})
    (end,) = of(world.run(), n.RunFinished)
    assert end.outcome == "limit:tokens_total"
    assert world.tools.ran == [], "it is met before the calls"


def test_an_attempt_that_was_begun_and_told_nothing_is_estimated_and_one_that_was_refused_is_not() -> None:
    begun = [event({"role": "assistant", "content": ""}), TransportError("broken", "gone")]
    refused = [b'data: {"error": {"message": "overloaded"}}\n\n']
    world = World(begun, refused, used(text("fine"), 1, 1), model=PRICED)
    (also,) = of(world.run(), n.AlsoUsed)
    once = len(json.dumps(world.transport.bodies[0], separators=(",", ":"))) // 4
    assert also.usage == Usage(input_tokens=once, estimated=True)


def test_the_store_knows_what_is_sent_before_it_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    world, told = World(used(text("fine"), 1, 1)), list[tuple[int, int]]()

    async def began(self: MemoryStore, run: str, turn: int, sent: int = 0) -> None:
        told.append((sent, len(world.transport.bodies)))
        self._open = run

    monkeypatch.setattr(MemoryStore, "reply_began", began)
    world.run()
    assert told == [(len(json.dumps(world.transport.bodies[0], separators=(",", ":"))), 0)]


def test_a_reply_that_broke_off_counts_what_arrived_where_that_is_more_than_was_told() -> None:
    """Some providers count at the beginning, and again only at the end."""
    broken = [counted(5000, 1), event({"content": "x" * 4000})]
    notices = World(broken, used(text("fine"), 1, 1), model=PRICED).run()
    first, _second = of(notices, n.TurnFinished)
    assert (first.usage.input_tokens, first.usage.output_tokens, first.usage.estimated) == (5000, 1000, True)
    assert first.cost == pytest.approx(1.5)


@pytest.mark.parametrize("limits", [{"max_cost": 1.4}, {"max_tokens_total": 6000}])
def test_a_reply_that_broke_off_counts_for_the_limits(limits: dict[str, Any]) -> None:
    broken = [counted(5000, 1), event({"content": "x" * 4000})]
    (end,) = of(World(broken, model=PRICED, limits=limits).run(), n.RunFinished)
    assert end.outcome.startswith("limit:")


@pytest.mark.parametrize(
    ("limits", "words"),
    [({"max_cost": 0.02}, "cost about $"), ({"max_tokens_total": 20}, "used about ")],
    ids=["cost", "tokens"],
)
@pytest.mark.parametrize("broke", [False, True])
def test_a_limit_that_is_met_by_what_was_estimated_is_marked(limits: dict[str, Any], words: str, broke: bool) -> None:
    reply = [event({"content": "x" * 400})] if broke else calls("look", say="x" * 400)
    (end,) = of(World(reply, model=PRICED, limits=limits).run(), n.RunFinished)
    assert end.outcome.startswith("limit:")
    assert words in end.message
    assert end.usage.estimated
    counting = World(used(calls("look"), 1000, 10), model=PRICED, limits=limits).run()
    assert "about" not in of(counting, n.RunFinished)[0].message, "where the provider counted, nothing is about"


def test_a_cost_that_the_provider_told_is_not_estimated_though_other_tokens_are() -> None:
    script = [used(calls("look"), 1000, 10, cost=0.3), calls("look", say="x")]
    (end,) = of(World(*script, limits={"max_cost": 0.3}).run(), n.RunFinished)
    assert end.message == "the run cost $0.3000 and $0.3 are allowed"


# -- nothing may be paid


@pytest.mark.parametrize("prices", [{"input": 100.0, "output": 1000.0}, {"input": 0.0, "output": 5.0}])
def test_where_nothing_may_be_paid_nothing_with_a_price_is_sent(prices: dict[str, float]) -> None:
    world = World(text("never"), model=ModelEntry(**prices), limits={"max_cost": 0.0})
    (end,) = of(world.run(), n.RunFinished)
    assert (end.outcome, end.exit_code, end.turns, end.cost) == ("limit:cost", 3, 0, None)
    assert end.message.startswith("a request would cost about $0.")
    assert end.message.endswith(" or more, and $0 are allowed")
    assert world.transport.bodies == []


@pytest.mark.parametrize("model", [ModelEntry(input=0.0, output=0.0), ModelEntry()])
def test_where_nothing_may_be_paid_what_costs_nothing_or_has_no_known_price_is_sent(model: ModelEntry) -> None:
    world = World(used(text("fine"), 1000, 10), model=model, limits={"max_cost": 0.0})
    assert of(world.run(), n.RunFinished)[0].outcome == "completed"


# -- whose word counts


def test_what_the_provider_says_that_it_cost_goes_before_the_table() -> None:
    notices = World(used(text("fine"), 1000, 10, cost=0.02), model=PRICED).run()
    assert of(notices, n.TurnFinished)[0].cost == 0.02
    assert of(notices, n.RunFinished)[0].cost == 0.02
    free = World(used(text("fine"), 1000, 10, cost=0), model=PRICED).run()
    assert of(free, n.RunFinished)[0].cost == 0


@pytest.mark.parametrize("word", [-1.0, True, "0.02", None, float("1e300")])
def test_a_cost_that_is_none_does_not_count(word: Any) -> None:
    body = used(text("fine"), 1000, 10)
    body[-2] = event({}, usage={"prompt_tokens": 1000, "completion_tokens": 10, "cost": word})
    assert of(World(body, model=PRICED).run(), n.RunFinished)[0].cost == pytest.approx(0.11)


def test_one_unknown_part_makes_the_whole_unknown_and_the_known_part_still_stops() -> None:
    calling = used(calls("look"), 1000, 10, cost=0.3)
    notices = World(calling, used(calls("look"), 1000, 10), used(text("never"), 1, 1), limits={"max_cost": 0.4}).run()
    assert [turn.cost for turn in of(notices, n.TurnFinished)] == [0.3, None, None]
    (end,) = of(notices, n.RunFinished)
    assert (end.outcome, end.cost, end.usage.cost) == ("completed", None, None)
    stopped = World(calling, calling, limits={"max_cost": 0.4}).run()
    assert of(stopped, n.RunFinished)[0].outcome == "limit:cost"


def test_an_image_is_estimated_by_what_it_takes_and_not_by_its_file() -> None:
    image = ImagePart("image/png", "A" * 2_000_000)
    world = World(text("a picture"), limits={"max_tokens_total": 100_000})
    notices = world.run(UserMessage((TextPart("what is this?"), image)))  # type: ignore[arg-type]
    (end,) = of(notices, n.RunFinished)
    assert end.usage.estimated
    assert end.usage.input_tokens < 5000


def _said(kind: str, **more: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **more})}\n\n".encode()


ANTHROPIC = [
    _said("message_start", message={"id": "m", "model": "c", "usage": {"input_tokens": 5000, "output_tokens": 1}}),
    _said("content_block_start", index=0, content_block={"type": "text", "text": ""}),
]
OVERLOADED = _said("error", error={"type": "overloaded_error", "message": "Overloaded"})


@pytest.mark.parametrize(
    ("shown", "told"),
    [(0, (5000, 1, False)), (4000, (5000, 1000, True))],
    ids=["before the first word", "in the middle"],
)
def test_a_provider_that_counts_at_the_beginning_is_believed_as_far_as_it_counted(
    shown: int, told: tuple[int, int, bool]
) -> None:
    delta = {"type": "text_delta", "text": "x" * shown}
    words = [_said("content_block_delta", index=0, delta=delta)] if shown else []
    limits = {"max_attempts": 1}
    world = World([*ANTHROPIC, *words, OVERLOADED], dialect=DIALECTS["anthropic_messages"], model=PRICED, limits=limits)
    (end,) = of(world.run(), n.RunFinished)
    assert (end.usage.input_tokens, end.usage.output_tokens, end.usage.estimated) == told
    assert end.cost == pytest.approx(0.5 + told[1] / 1000)
    assert end.outcome == "provider_error"
