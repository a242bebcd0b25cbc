"""One model call: attempts at an exchange, each read by a reader of its own.

Nothing is tried again once a delta was shown (T2): what a person has seen is never taken back by a second answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container, Sequence
from typing import Protocol

import msgspec

from sluice.errors import StreamError, TransportError
from sluice.limits import KIB, Limits
from sluice.transport.retry import next_wait
from sluice.transport.status import error_of, is_success
from sluice.values.calls import ToolSpec
from sluice.values.deltas import Delta
from sluice.values.messages import Reply, Usage
from sluice.values.ports import Clock, Transport
from sluice.values.requests import Request
from sluice.wire import ReplyReader
from sluice.wire.dialects.base import Dialect
from sluice.wire.dialects.faults import CONTEXT_OVERFLOW, any_json, provider_error

_IN_A_REPLY = frozenset({"incomplete", "limit"})  # faults before which the provider was at work on a reply
_REFUSALS = frozenset({400, 413, 422})
_REFUSAL_CODES = frozenset({*map(str, _REFUSALS), "invalid_request_error"})  # of an error inside a stream
FEED_BYTES = 32 * KIB  # read at a time: what is in them is shown well under a millisecond after they came


Enough = Callable[[Sequence[Usage | None]], tuple[str, str] | None]


def _never(_lost: Sequence[Usage | None]) -> tuple[str, str] | None:
    return None


class ReplyWatcher(Protocol):
    """Who is told what arrives. A watcher that raises stops the reply; its error comes out of `ModelCall.run`."""

    async def deltas(self, deltas: list[Delta]) -> None:
        """What one read of the body made known; never empty."""
        ...

    async def sizes(self, sizes: dict[int, int]) -> None:
        """How many bytes of arguments the calls have after a read, by position; told after what the read made known."""
        ...

    async def waiting(self, attempt: int, seconds: float, reason: str) -> None:
        """Attempt number `attempt` failed before anything was shown; another one follows after `seconds`."""
        ...


class BrokenReply(msgspec.Struct, frozen=True, kw_only=True):
    """A model call that failed for good. `kind` is a `StreamFault` or a `TransportFault`.

    `partial` is what had arrived if anything of it was shown, else `None`. `bound` names the limit that was passed. `code`
    is the provider's own word, or `context_overflow` where it found the request too long. `refused`: it does not take this
    request as it is, for another reason than that, and would not take it the next time either.
    """

    kind: str
    message: str
    partial: Reply | None = None
    bound: str | None = None
    code: str | None = None
    refused: bool = False


class ModelCall:
    """Attempts at one request. `run` may be called once. `intent`, `inline` and `specs` are those of `ReplyReader`.

    `lost` holds, for each attempt that the provider had begun to answer and of which nothing was shown, what the provider
    said that it used: `None` where it said nothing. Such an attempt is paid for like any other, so before another one
    `enough` is asked whether they have met a limit: its name (a field of `Limits`) and one line, or `None`.
    """

    def __init__(
        self,
        transport: Transport,
        dialect: Dialect,
        request: Request,
        watcher: ReplyWatcher,
        *,
        limits: Limits,
        clock: Clock,
        random: Callable[[], float],
        used_ids: Container[str] = (),
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        intent: bool = False,
        inline: str | None = None,
        specs: Sequence[ToolSpec] = (),
        enough: Enough = _never,
    ) -> None:
        self._transport = transport
        self._dialect = dialect
        self._request = request
        self._watcher = watcher
        self._limits = limits
        self._clock = clock
        self._random = random
        self._used_ids = used_ids
        self._sleep = sleep
        self._intent = intent
        self._inline = inline
        self._specs = specs
        self._enough = enough
        self._shown = False
        self.lost: list[Usage | None] = []
        self._reader = self._new_reader()

    async def run(self) -> Reply | BrokenReply:
        """The whole reply, or why there is none. Being cancelled closes the connection and answers kind `aborted`.

        Raises only what the watcher raised.
        """
        attempt = 0
        try:
            while True:
                attempt += 1
                self._reader = self._new_reader()
                try:
                    return await self._attempt(self._reader)
                except (TransportError, StreamError) as error:
                    if self._shown:
                        return self._broken(error)
                    wait = next_wait(error, attempt, self._limits, random=self._random())
                    if wait is None:
                        return self._broken(error)
                    if (met := self._enough(self.lost)) is not None:
                        return BrokenReply(kind="limit", message=f"{met[1]}; {error}", bound=met[0])
                    await self._watcher.waiting(attempt, wait, str(error))
                await self._sleep(wait)
        except asyncio.CancelledError:
            return BrokenReply(kind="aborted", message="the reply was stopped", partial=self.partial())

    def partial(self) -> Reply | None:
        """What had arrived of a reply that goes no further, if anything of it was shown. Ends the reading."""
        return self._reader.abort() if self._shown else None

    async def _attempt(self, reader: ReplyReader) -> Reply:
        try:
            return await self._exchange(reader)
        except BaseException as error:
            if not self._shown:
                self._lose(reader, error)
            raise

    def _lose(self, reader: ReplyReader, error: BaseException) -> None:
        usage = reader.abort().usage
        answered = reader.events and not (isinstance(error, StreamError) and error.kind not in _IN_A_REPLY)
        if usage is not None or answered:
            self.lost.append(usage)

    async def _exchange(self, reader: ReplyReader) -> Reply:
        exchange = await self._transport.send(self._request)
        try:
            if not is_success(exchange.status):
                raise await error_of(exchange, self._limits)
            alive = self._clock.monotonic_ns()
            while not reader.ended:
                try:
                    chunk = await exchange.read()
                except TransportError:
                    if reader.terminal:  # the reply is whole; what broke is only its farewell
                        break
                    raise
                if not chunk:
                    break
                before = reader.events
                for start in range(0, len(chunk), FEED_BYTES):
                    await self._show(reader.feed(chunk[start : start + FEED_BYTES]))
                if sizes := reader.sizes:
                    await self._watcher.sizes(sizes)
                if reader.events != before:
                    alive = self._clock.monotonic_ns()
                elif self._clock.monotonic_ns() - alive > self._limits.keepalive_seconds * 1e9:
                    raise TransportError(
                        "idle_timeout",
                        f"the server sent only keep-alives for {self._limits.keepalive_seconds:g} s (keepalive_seconds)",
                    )
            return await self._close(reader)
        finally:
            await exchange.close()

    async def _close(self, reader: ReplyReader) -> Reply:
        """The whole reply, after what only the end of input made known was shown."""
        try:
            reply = reader.close()
        except StreamError:
            if self._shown:  # else nothing was, and another attempt may follow
                await self._show(reader.closing)
            raise
        await self._show(reader.closing)
        return reply

    async def _show(self, deltas: Sequence[Delta]) -> None:
        if deltas:
            self._shown = True
            await self._watcher.deltas(list(deltas))

    def _new_reader(self) -> ReplyReader:
        return ReplyReader(
            self._dialect,
            limits=self._limits,
            used_ids=self._used_ids,
            intent=self._intent,
            inline=self._inline,
            specs=self._specs,
        )

    def _broken(self, error: TransportError | StreamError) -> BrokenReply:
        if isinstance(error, StreamError):
            partial = error.partial if self._shown else None
            return BrokenReply(
                kind=error.kind,
                message=str(error),
                partial=partial,
                bound=error.bound,
                code=error.code,
                refused=not self._shown and error.kind == "provider_error" and error.code in _REFUSAL_CODES,
            )
        if error.kind == "too_large":
            return BrokenReply(kind="limit", message=str(error), partial=self.partial(), bound="max_stream_bytes")
        if self._shown:
            return BrokenReply(kind="incomplete", message=str(error), partial=self.partial())
        code = _code_in(error)
        refused = error.status in _REFUSALS and code != CONTEXT_OVERFLOW
        return BrokenReply(kind=error.kind, message=str(error), code=code, refused=refused)


def _code_in(error: TransportError) -> str | None:
    """The provider's word in the body of an error response; servers say there that a request is too long, most of all."""
    if error.kind != "status" or not error.body:
        return None
    return provider_error(any_json(error.body.encode("utf-8", "replace"))).code
