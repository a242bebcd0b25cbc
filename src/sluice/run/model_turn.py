"""The model's side of a turn: the request made ready, the context shrunk, the reply asked for, watched and kept."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Literal, TypedDict

import msgspec

from sluice.run.guarded_hooks import GuardedHooks
from sluice.run.images import overweight
from sluice.run.metering import Charge, usage_of
from sluice.run.model_call import BrokenReply, ModelCall
from sluice.run.refusals import LEFT_OUT, REFUSED, images_in_question, way_out
from sluice.run.scope import HOOK_SECONDS, RunScope, StoppedError, words_of
from sluice.run.shrinking import keep_shrunk, shrink
from sluice.run.tool_calls import healed_calls
from sluice.run.watching import TurnWatcher
from sluice.turn import facts as f
from sluice.values import notices as n
from sluice.values.messages import AssistantMessage, Reply, ToolCall, Usage, UserMessage, plain_text
from sluice.values.requests import Request


class ModelTurns:
    """The model calls of one run.

    Each method that is started as a task answers its command with one fact, also when it is stopped; `failed` gives the
    answer in place of one that broke. `arrived` takes the calls of each stored reply.
    """

    def __init__(self, scope: RunScope, arrived: Callable[[int, tuple[ToolCall, ...]], None]) -> None:
        self._scope = scope
        self._hooks = GuardedHooks(scope.parts.hooks)
        self._arrived = arrived
        self._request: Request | None = None
        self._sent = 0  # bytes of that request, as they count for the context
        self._answered = 0  # the last turn whose CallModel got its answer
        self.turns = 0
        self.last_text = ""
        self._goes_on = False  # the last reply was an answer that was cut at its length
        self.last_id = ""

    async def prepare(self, command: f.Prepare) -> None:
        """Asks the hooks, stores the notes, makes the request. Being stopped it has no answer: none is waited for."""
        scope, hooks = self._scope, self._hooks
        if command.turn > 1:
            words = await scope.until_stopped(hooks.stop_when(command.turn - 1))
            if words is not None:
                scope.tell(f.HostStopped(at=scope.now(), outcome="completed", message=words))
                return
        for note in command.notes:
            await scope.keep(UserMessage(note, origin="host"))
        await self._give_steering(command.turn)
        added = await scope.until_stopped(hooks.prepare_turn(command.turn, scope.talk.messages))
        scope.talk.extra = tuple(added)
        size = self._make_request()
        if (refusal := scope.meter.refusal(size)) is not None:
            scope.tell(f.HostStopped(at=scope.now(), outcome=refusal[0], message=refusal[1]))
            return
        scope.tell(f.Prepared(at=scope.now(), turn=command.turn, context_bytes=size))

    async def _give_steering(self, turn: int) -> None:
        """Puts what a person said meanwhile into the conversation, before this turn's request."""
        scope = self._scope
        while (ticket := scope.steering.first()) is not None and not scope.stopping.is_set():
            ticket.state = "given"  # from here on it cannot be taken back
            try:
                id = await scope.keep(ticket.message)
            except Exception:
                ticket.state = "waiting"
                raise
            await scope.emit(n.Steered(turn=turn, text=plain_text(ticket.message), message_id=id))

    def _make_request(self) -> int:
        """Builds the request of this turn from the conversation as it stands; returns its size in bytes.

        An image counts for what it takes of the context, not for its file.
        """
        parts, conversation = self._scope.parts, self._scope.talk.to_send()
        self._request = parts.dialect.request(conversation, parts.executor.specs(), parts.options)
        self._sent = len(self._request.body) - overweight(conversation)
        return self._sent

    async def summarise(self, command: f.Summarise) -> None:
        """Shrinks the context."""
        scope = self._scope
        before, ok, charge = self._make_request(), False, Charge()
        used: list[Usage] = []
        try:
            try:
                shrunk = await scope.until_stopped(
                    shrink(scope.talk, scope.parts, self._make_request, command.max_bytes, used, may_ask=self._may_ask)
                )
            finally:
                charge = scope.meter.count(used)
        except StoppedError:  # the fact below answers StopModel
            after = self._make_request()
            await self._tell_used(self.turns, "stopped", charge)
        else:
            ok, after = shrunk.ok, self._make_request()
            usage = charge.usage if used else None
            told = n.Summarised(
                before=before, after=after, ok=ok, usage=usage, cost=charge.cost, message=shrunk.message
            )
            await scope.emit(told)
        if ok:
            await keep_shrunk(scope)
        at = scope.now()
        scope.tell(f.Summarised(at=at, ok=ok, context_bytes=after, **_for_limits(charge)))

    def _may_ask(self, sent: int) -> str:
        refusal = self._scope.meter.refusal(sent)
        return refusal[1] if refusal is not None else ""

    async def _tell_used(self, turn: int, by: Literal["attempt", "stopped"], charge: Charge) -> None:
        """Says what was used and belongs to nothing that is kept."""
        if charge.tokens:
            await self._scope.emit(n.AlsoUsed(turn=turn, by=by, usage=charge.usage, cost=charge.cost))

    def _used(self, attempts: Iterable[Usage | None]) -> list[Usage]:
        return [usage_of(Reply(usage=one), self._sent, whole=False) for one in attempts]

    async def _lost(self, turn: int, attempts: Iterable[Usage | None], stopped: bool) -> Charge:
        """Counts and tells what attempts used of which nothing was shown."""
        charge = self._scope.meter.count(self._used(attempts))
        await self._tell_used(turn, "stopped" if stopped else "attempt", charge)
        return charge

    def summary_failed(self, error: Exception) -> None:
        """Answers for a `summarise` that raised."""
        self._scope.host_failed(error)
        size = len(self._request.body) if self._request else 0
        self._scope.tell(f.Summarised(at=self._scope.now(), ok=False, context_bytes=size))

    async def call(self, turn: int) -> None:
        """Asks for a reply, and stores what came of it whether it is whole, broken or stopped."""
        scope, parts = self._scope, self._scope.parts
        again = self.turns == turn  # the request was too long, and is asked again after it was shrunk
        self.turns, self._answered = turn, turn - 1
        request = self._request
        assert request is not None
        await parts.store.reply_began(scope.run, turn, self._sent)
        if not again:
            await scope.emit(n.TurnStarted(run=scope.run, turn=turn, continues=self._goes_on))
        keep, grew = (functools.partial(way, scope.run) for way in (parts.store.delta, parts.store.call_grew))
        specs = parts.executor.specs()
        watcher = TurnWatcher(turn, scope.emit, self._hooks, keep, grew, specs=specs, clock=parts.clock)
        call = ModelCall(
            parts.transport,
            parts.dialect,
            request,
            watcher,
            limits=parts.limits,
            clock=parts.clock,
            random=parts.random,
            sleep=parts.sleep,
            used_ids=scope.talk.call_ids,
            intent=parts.intent,
            inline=parts.inline,
            specs=specs,
            enough=lambda lost: scope.meter.enough(self._used(lost)),
        )
        answer: Reply | BrokenReply | None = None
        try:
            answer = await scope.until_stopped(call.run())
            await scope.until_stopped(watcher.close(), grace=HOOK_SECONDS)
        except StoppedError:
            answer = answer or BrokenReply(kind="aborted", message="the reply was stopped", partial=call.partial())
        except Exception as error:  # a hook, or a transport that breaks its contract
            scope.host_failed(error)
            answer = answer or BrokenReply(kind="aborted", message=words_of(error), partial=call.partial())
        lost = await self._lost(turn, call.lost, stopped=not isinstance(answer, Reply) and answer.kind == "aborted")
        if isinstance(answer, Reply):
            await self._replied(turn, answer, lost)
        else:
            await self._broke(turn, answer, lost, watcher)

    def failed(self, turn: int, error: Exception) -> None:
        """Answers for a `call` that raised: the machine gets its answer to `CallModel`, once."""
        self._scope.host_failed(error)
        if self._answered < turn:
            self._answer(f.ModelFailed(at=self._scope.now(), turn=turn, kind="aborted", message=words_of(error)))

    def _answer(self, fact: f.Replied | f.ModelFailed) -> None:
        self._answered = fact.turn
        self._scope.tell(fact)

    async def _replied(self, turn: int, reply: Reply, lost: Charge) -> None:
        scope = self._scope
        message, charge = await self._keep(turn, reply, whole=True)
        try:
            await scope.until_stopped(self._hooks.turn_finished(turn, message, charge.cost), grace=HOOK_SECONDS)
        except StoppedError:
            pass
        except Exception as error:  # the reply is stored, so its calls need their results all the same
            scope.host_failed(error)
        parts = scope.parts
        healed = healed_calls(reply, parts.executor.specs()) if parts.policy.accept_healed else ()
        used = _for_limits(charge, lost, await scope.used_inside(turn))
        self._answer(f.Replied(at=scope.now(), turn=turn, reply=reply, healed=healed, **used))

    async def _broke(self, turn: int, broken: BrokenReply, lost: Charge, watcher: TurnWatcher) -> None:
        scope = self._scope
        if broken.kind != "aborted" or not scope.stopping.is_set():  # that a wish to stop was followed is no error
            await scope.emit(n.Failed(kind=broken.kind, message=broken.message))
        partial, charge = broken.partial, Charge()
        if partial is not None and (partial.text or partial.tool_calls or partial.reasoning or partial.refusal):
            _message, charge = await self._keep(turn, partial, whole=False)
        else:
            if partial is not None:
                charge = await self._lost(turn, [partial.usage], stopped=broken.kind == "aborted")
                partial = None
            await watcher.withdraw_all(broken.message)
        if broken.refused:
            await self._refused()
        used = _for_limits(charge, lost, await scope.used_inside(turn))
        self._answer(
            f.ModelFailed(
                at=scope.now(),
                turn=turn,
                kind=broken.kind,
                message=broken.message,
                partial=partial,
                bound=broken.bound,
                code=broken.code,
                **used,
            )
        )

    async def _refused(self) -> None:
        """Sees to it that what was refused spoils no later request, as far as it can be told, and says so."""
        scope = self._scope
        if images_in_question(scope.talk.messages):
            await scope.keep(REFUSED)
            await scope.emit(n.Warned(message=LEFT_OUT))
        elif (words := way_out(scope.talk.messages, scope.parts.store.session)) is not None:
            await scope.emit(n.Warned(message=words))

    async def _keep(self, turn: int, reply: Reply, *, whole: bool) -> tuple[AssistantMessage, Charge]:
        """Stores a reply and tells of it: its calls by position, its end with usage. Returns what it used, too."""
        scope = self._scope
        charge = scope.meter.count([usage_of(reply, self._sent, whole=whole)])
        message = msgspec.structs.replace(
            reply.message(), provider=scope.parts.provider, model=reply.model or scope.parts.options.model
        )
        self.last_text = (self.last_text if self._goes_on else "") + (reply.text or reply.refusal)
        # Where a turn follows this one, it goes on with this text.
        self._goes_on = (
            whole and reply.stop_reason == "max_tokens" and not reply.tool_calls and bool(reply.text.strip())
        )
        specs = scope.parts.executor.specs()
        self.last_id = await scope.keep(message)
        self._arrived(turn, reply.tool_calls)
        arrivals = reply.arrivals or range(len(reply.tool_calls))
        for position, (arrival, call) in enumerate(zip(arrivals, reply.tool_calls, strict=True)):
            await scope.emit(
                n.CallArrived(
                    turn=turn,
                    position=position,
                    arrival=arrival,
                    id=call.id,
                    tool=call.name,
                    arguments=call.arguments,
                    status=call.status,
                    subject=scope.talk.subject(call, specs),
                )
            )
            if call.status != "whole" or not whole:
                reason = call.problem or "its reply did not arrive whole"
                withdrawn = n.CallWithdrawn(
                    turn=turn, arrival=arrival, tool=call.name, reason=reason, position=position
                )
                await scope.emit(withdrawn)
        await scope.emit(
            n.TurnFinished(
                turn=turn,
                stop_reason=reply.stop_reason,
                usage=charge.usage,
                cost=charge.cost,
                tolerances=reply.tolerances,
            )
        )
        return message, charge


class _Spent(TypedDict):
    tokens: int
    cost: float | None
    estimated: bool


def _for_limits(*charges: Charge) -> _Spent:
    """Tokens and US dollars as the limits count them: what is not known adds nothing."""
    known = [one.cost for one in charges if one.cost is not None]
    estimated = any(one.usage.estimated for one in charges)
    return {"tokens": sum(one.tokens for one in charges), "cost": sum(known) if known else None, "estimated": estimated}
