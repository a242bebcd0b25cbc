"""Early intent: what a call's arguments say while they are still being written (W9, W11).

`WatchedCalls` is the assembler with a scanner for each call beside it. It tells each finished member of the arguments
once, and for each fragment the size so far and what the string being written has gained. Raw fragments stay inside, and
nothing that is told here can be run: the call's end, the schema and the policy decide that.
"""

from __future__ import annotations

from collections.abc import Callable, Container

from sluice.values.deltas import CallArgument, CallProgress, Delta
from sluice.wire.assembler import CallAssembler, PartialCall
from sluice.wire.json_scan import JsonScanner, Member
from sluice.wire.surrogates import storable


class WatchedCalls(CallAssembler):
    """A `CallAssembler` that also says what is known of the arguments. Costs under 2 µs a fragment more."""

    __slots__ = ("_done", "_scanners")

    def __init__(
        self, max_calls: int, max_bytes: int, count: Callable[[str], None], used_ids: Container[str] = ()
    ) -> None:
        super().__init__(max_calls, max_bytes, count, used_ids)
        self._scanners: dict[int, JsonScanner] = {}  # by position
        self._done: list[Member] = []

    def add(self, index: int | None, id: str | None, name: str | None, arguments: str | None, out: list[Delta]) -> None:
        """See `CallAssembler.add`."""
        super().add(index, id, name, arguments, out)
        call = self._last
        if not arguments or call is None:
            return
        self._watch(call, arguments, out)

    def close_call(self, call: PartialCall, out: list[Delta]) -> None:
        """See `CallAssembler.close_call`. Arguments that came in the dialect's last word alone are told here."""
        if not call.closed and call.position not in self._scanners and call.fragments:
            self._close_name(call, out)
            self._watch(call, "".join(call.fragments), out)
        super().close_call(call, out)

    def _watch(self, call: PartialCall, arguments: str, out: list[Delta]) -> None:
        position = call.position
        if call.kind == "custom":
            if position not in self._scanners:
                self._scanners[position] = JsonScanner(keep=False)
            out.append(CallProgress(position, call.size, storable(arguments), ""))
            return
        scanner = self._scanners.get(position)
        if scanner is None or (scanner.end == 2 and scanner.size == 2):
            # The first fragment, or `{}` that stood in the place of the arguments.
            scanner = self._scanners[position] = JsonScanner(keep=False)
        done = self._done
        tail = scanner.feed(arguments, done)
        if done:
            for member in done:
                out.append(CallArgument(position, member.name, member.value))
            done.clear()
        out.append(CallProgress(position, call.size, tail, scanner.name if tail else ""))
