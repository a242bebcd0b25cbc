"""Tool calls from fragments (W5): interleaved, split, renamed, repeated, as providers really send them.

Which call a fragment belongs to:

1. an integer index ≥ 0 names the call; but a *named* fragment with another non-empty id at a used index opens a new call
   (parallel calls that all say index 0 were recorded; a nameless fragment with a new id was recorded as the same call);
2. without a usable index its id names the call; an unknown id with a name opens a new call;
3. without either, a named fragment after argument bytes opens a new call, any other goes to the last open call; if there
   is none it is ignored and counted.

Each departure from the documents is a tolerance: a rule name with a count in `Reply.tolerances`. The rules here rest on
recorded streams; where recordings contradict each other the choice is the one that never glues two calls together.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from itertools import pairwise
from typing import Literal

from sluice.errors import ArgumentsError
from sluice.values.deltas import CallClosed, CallOpened, Delta
from sluice.values.messages import CallStatus, ToolCall
from sluice.wire.pieces import Pieces
from sluice.wire.strict_json import is_unfinished, parse_arguments
from sluice.wire.surrogates import is_torn, rejoined, storable

_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:/")
_MAX_NAME = 128
_NEVER_WHOLE = frozenset({"max_tokens", "content_filter"})
_TRUSTED = frozenset({"end_turn", "tool_use", "refusal", "pause"})


class Bound(Exception):
    """A bound of `sluice.limits` was passed."""

    def __init__(self, bound: str, limit: int, seen: int, unit: str) -> None:
        super().__init__(f"{bound} is {limit} {unit}, seen: {seen}")
        self.bound = bound


class PartialCall:
    """One call while it arrives. `fragments` are joined once, at the end."""

    __slots__ = (
        "announced",
        "blank",
        "closed",
        "fragments",
        "id",
        "index",
        "kind",
        "name",
        "named",
        "position",
        "problem",
        "size",
        "verdict",
    )

    def __init__(self, position: int, index: int | None) -> None:
        self.position = position
        self.index = position if index is None else index
        self.kind: Literal["function", "custom"] = "function"  # `custom`: free text in place of a JSON object
        self.id = ""
        self.name = ""
        self.named = False  # the name is closed
        self.fragments = Pieces()
        self.size = 0  # bytes of arguments
        self.closed = False  # the dialect itself said that the call is complete
        self.announced = False  # its end was told to the watcher, once
        self.blank = False  # its empty arguments were counted, once
        self.problem: str | None = None
        self.verdict: tuple[str, CallStatus, str | None] | None = None


class CallAssembler:
    """The calls of one reply, by arrival. `count` is told the name of each tolerance as it is used."""

    __slots__ = ("_by_id", "_by_index", "_count", "_last", "_max_bytes", "_max_calls", "_used_ids", "calls")

    def __init__(
        self, max_calls: int, max_bytes: int, count: Callable[[str], None], used_ids: Container[str] = ()
    ) -> None:
        self.calls: list[PartialCall] = []
        self._by_index: dict[int, PartialCall] = {}
        self._by_id: dict[str, PartialCall] = {}
        self._last: PartialCall | None = None
        self._max_calls = max_calls
        self._max_bytes = max_bytes
        self._count = count
        self._used_ids = used_ids

    def add(self, index: int | None, id: str | None, name: str | None, arguments: str | None, out: list[Delta]) -> None:
        """Takes one fragment; deltas that become known by it go to `out`. Raises `Bound`."""
        # Nearly every fragment has an index and nothing else.
        call = None if id or name or index is None else self._by_index.get(index)
        if call is None:
            call = self._find(index, id, name, out)
            if call is None:
                return
            if id and not call.id:
                call.id = id
                self._by_id.setdefault(id, call)
            if name:
                self._name(call, name)
        self._last = call
        if arguments:
            if not call.named:
                self._close_name(call, out)
            call.fragments.append(arguments)
            call.verdict = None
            call.size += len(arguments) if arguments.isascii() else len(arguments.encode("utf-8", "surrogatepass"))
            if call.size > self._max_bytes:
                raise Bound("max_arguments_bytes", self._max_bytes, call.size, "bytes")

    def extend(self, call: PartialCall, arguments: str, out: list[Delta]) -> None:
        """The next fragment of a call that the dialect knows, and whose name is closed. Raises `Bound`."""
        self._last = call
        call.fragments.append(arguments)
        call.verdict = None
        call.size += len(arguments) if arguments.isascii() else len(arguments.encode("utf-8", "surrogatepass"))
        if call.size > self._max_bytes:
            raise Bound("max_arguments_bytes", self._max_bytes, call.size, "bytes")

    @property
    def max_bytes(self) -> int:
        """How many bytes of arguments one call may have."""
        return self._max_bytes

    def open_call(self, index: int, id: str | None, name: str | None, out: list[Delta]) -> PartialCall:
        """A call that the dialect itself opens, with its whole name: always a new one. `add` at `index` goes to it.

        Raises `Bound`.
        """
        call = self._open(index, out)
        if id:
            call.id = id
            self._by_id.setdefault(id, call)
        call.name = name or ""
        self._close_name(call, out)
        self._last = call
        return call

    def identify(self, call: PartialCall, id: str | None, name: str | None, out: list[Delta]) -> None:
        """The dialect's last word on a call's id and name. Another name than the one that was told makes it malformed."""
        if id and id != call.id:
            if call.id:
                self._count("changing_id")
            call.id = id
            self._by_id.setdefault(id, call)
        if name and not call.name:
            call.name, call.named, call.verdict = name, False, None
            self._close_name(call, out)
        elif name:
            self._name(call, name)

    def replace_arguments(self, call: PartialCall, arguments: str) -> None:
        """The dialect's last word on a call's arguments, in place of its fragments. Raises `Bound`."""
        call.fragments.replace(arguments)
        call.verdict = None
        call.size = len(arguments.encode("utf-8", "surrogatepass"))
        if call.size > self._max_bytes:
            raise Bound("max_arguments_bytes", self._max_bytes, call.size, "bytes")

    def close_call(self, call: PartialCall, out: list[Delta]) -> None:
        """The dialect said that this call is complete.

        Its end is told at once if no stop reason can change it, else with the end of the reply.
        """
        if call.closed:
            return
        self._close_name(call, out)
        call.closed = True
        if not call.announced and self.settle(call, "max_tokens")[1] == "whole":
            self._announce(call, "tool_use", out)

    def reopen(self, call: PartialCall) -> None:
        """More of a call came after its end was said: then that end proves nothing."""
        call.closed = False

    def at(self, index: int) -> PartialCall | None:
        """The open call at a provider's index, for dialects that close calls."""
        return self._by_index.get(index)

    def finish(self, stop_reason: str | None, out: list[Delta]) -> None:
        """The dialect's terminal mark: every name is closed and every call comes to its end.

        May be called again for calls that arrived after the mark.
        """
        for call in self.calls:
            if not call.announced:
                self._close_name(call, out)
                self._announce(call, stop_reason, out)

    def tool_calls(self, stop_reason: str | None) -> tuple[ToolCall, ...]:
        """The calls in their order: by index, equal ones by arrival. `stop_reason` is `None` for a reply that broke."""
        made = []
        given = {call.id for call in self.calls}
        taken: set[str] = set()
        for call in self._in_order():
            arguments, status, problem = self.settle(call, stop_reason)
            id = call.id or f"call_{call.index}"
            fresh, n = id, 1
            # A provider's own id is kept; one that is made up gives way to every id that is given or was used.
            while fresh in taken or (fresh != call.id and (fresh in given or fresh in self._used_ids)):
                n += 1
                fresh = f"{id}_{n}"
            taken.add(fresh)
            made.append(
                ToolCall(
                    id=fresh,
                    name=call.name,
                    arguments=arguments,
                    index=call.index,
                    status=status,
                    problem=problem,
                    kind=call.kind,
                )
            )
        return tuple(made)

    def arrivals(self) -> tuple[int, ...]:
        """The position by arrival of each of `tool_calls`."""
        return tuple(call.position for call in self._in_order())

    def _in_order(self) -> list[PartialCall]:
        return sorted(self.calls, key=lambda c: (c.index, c.position))

    def fold(self) -> None:
        """Lets go of the memory that many short fragments cost."""
        for call in self.calls:
            self._drop_placeholder(call.fragments)
            call.fragments.fold()

    def settle(self, call: PartialCall, stop_reason: str | None) -> tuple[str, CallStatus, str | None]:
        """Arguments, status and problem of a call under this stop reason. Joined and parsed once per change."""
        if call.verdict is None:
            call.verdict = self._judge_text(call)
        arguments, status, problem = call.verdict
        if status == "malformed":
            return call.verdict
        if stop_reason is None and not call.closed:
            return arguments, "cut", problem or "the reply broke off before its end"
        if call.closed and status == "whole" and not arguments and stop_reason not in _TRUSTED and call is self._last:
            return arguments, "cut", "the reply stopped before any argument of this call came"
        if call.closed or stop_reason in _TRUSTED:
            if status == "whole" and not arguments:
                if not call.blank:
                    call.blank = True
                    self._count("empty_arguments")
                return "{}", "whole", None
            return call.verdict
        if stop_reason not in _NEVER_WHOLE:
            return arguments, "cut", f"the reply stopped with {stop_reason!r}, which does not say that it is complete"
        # Stopped in the middle: only a call that another one followed is known to have come to its end.
        if status == "whole" and arguments and call is not self._last:
            return call.verdict
        return arguments, "cut", f"the reply stopped ({stop_reason}) inside this call or right after it"

    def _judge_text(self, call: PartialCall) -> tuple[str, CallStatus, str | None]:
        fragments = call.fragments
        self._drop_placeholder(fragments)
        text = "".join(fragments)
        if is_torn(text):
            text = rejoined(text)
            self._count("torn_surrogate")
        if call.problem is None and not (call.name and len(call.name) <= _MAX_NAME and _NAME.issuperset(call.name)):
            call.problem = (
                f"the call's name {call.name[:64]!r} cannot be a tool's" if call.name else "the call has no name"
            )
        if call.problem is None and call.kind == "custom":
            call.problem = "the call carries free text, and no tool that takes free text was offered"
        if call.problem is not None:
            return storable(text), "malformed", call.problem
        blank = text.strip()
        if not blank or blank == "null":
            return "", "whole", None
        if not fragments[-1].lstrip().startswith("{"):  # else it may be all of them, sent again
            fragments.replace(text)
        try:
            parse_arguments(text)
        except ArgumentsError as error:
            again = self._resent(fragments)
            if again is not None:
                return again, "whole", None
            where = f"{error.reason} at position {error.position}"
            if is_unfinished(text):
                return storable(text), "cut", f"the arguments stop in the middle ({where})"
            return storable(text), "malformed", f"call {call.index}: {where}; the arguments end with {error.tail!r}"
        fragments.replace(text)
        return text, "whole", None

    def _drop_placeholder(self, fragments: Pieces) -> None:
        if len(fragments) > 1 and fragments[0] == "{}":
            self._count("placeholder_arguments")
            del fragments[0]

    def _resent(self, fragments: Pieces) -> str | None:
        """Arguments that the server sent again as they grew, or once more at the end; only when the join is no JSON."""
        last = fragments[-1]
        if len(fragments) < 2:
            return None
        try:
            parse_arguments(last)
        except ArgumentsError:
            return None
        if "".join(fragments[:-1]) == last:
            self._count("repeated_arguments")
        elif all(later.startswith(earlier) for earlier, later in pairwise(fragments)):
            self._count("cumulative_arguments")
        else:
            return None
        fragments.replace(last)
        return last

    def _find(self, index: int | None, id: str | None, name: str | None, out: list[Delta]) -> PartialCall | None:
        if index is not None and index >= 0:
            call = self._by_index.get(index)
            if call is None:
                if index > len(self.calls):
                    self._count("index_gap")
                return self._open(index, out)
            if id and call.id and id != call.id:
                if name:
                    self._count("same_index_new_id")
                    return self._open(index, out)
                self._count("changing_id")
            return call
        self._count("missing_index")
        if id and id in self._by_id:
            return self._by_id[id]
        last = self._last
        if name and (id or last is None or last.fragments):
            return self._open(None, out)
        if last is None:
            self._count("orphan_fragment")
        return last

    def _open(self, index: int | None, out: list[Delta]) -> PartialCall:
        if len(self.calls) >= self._max_calls:
            raise Bound("max_calls_per_reply", self._max_calls, len(self.calls) + 1, "calls")
        if self._last is not None:
            self._close_name(self._last, out)
        call = PartialCall(len(self.calls), index)
        self.calls.append(call)
        self._by_index[call.index] = call
        return call

    def _name(self, call: PartialCall, name: str) -> None:
        if not call.name and not call.named:
            call.name = name
        elif name == call.name:
            pass  # an equal repeat says nothing new
        elif call.named:
            call.problem = f"the call was first named {call.name[:64]!r} and then {name[:64]!r}"
            call.verdict = None
        else:
            self._count("split_name")
            if len(call.name) <= _MAX_NAME:  # longer is no tool's name, and must not grow with the stream
                call.name += name

    def _announce(self, call: PartialCall, stop_reason: str | None, out: list[Delta]) -> None:
        call.announced = True
        _, status, _ = self.settle(call, stop_reason)
        out.append(CallClosed(call.position, call.id, call.name, status))

    def _close_name(self, call: PartialCall, out: list[Delta]) -> None:
        if call.named:
            return
        call.named = True
        if call.name:
            out.append(CallOpened(call.position, call.id, call.name))
