"""What comes back too often: the same work (L5), the same cut call (W7), the same words inside one reply (L5)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from sluice.values.results import ToolResult

LOOP_WINDOW = 10  # turns that are looked back on
LOOP_REPEATS = 5  # turns of the window that may hold the same signature
CUT_REPEATS = 3  # the cut call that ends the run
CUT_HEAD = 256  # characters of the arguments by which a cut call is known again
_SPILL = re.compile(r"\bspill:\d+")
TEXT_TAIL = 4096  # characters at the end of a reply in which repetition is looked for
TEXT_SPAN = 400  # characters that must be repetition
TEXT_TIMES = 8  # how often the unit must stand in them


def output_of(result: ToolResult) -> str:
    """What a call came to, as one text for its signature: status, content, and the error if there is one.

    The number of a spilled output is no part of it: the same output gets another one each time.
    """
    error = f"{result.error.code}: {result.error.message}" if result.error else ""
    return f"{result.status}\n{error}\n{_SPILL.sub('spill:', result.content)}"


def output_digest(result: ToolResult) -> str:
    """SHA-256, in hex, of what a call came to."""
    return hashlib.sha256(output_of(result).encode("utf-8", "surrogatepass")).hexdigest()


def signature(calls: Iterable[tuple[str, str, str]]) -> str:
    """SHA-256, in hex, over name NUL input NUL output NUL of each (name, input, output), in order."""
    digest = hashlib.sha256()
    for words in calls:
        for word in words:
            digest.update(word.encode("utf-8", "surrogatepass"))
            digest.update(b"\0")
    return digest.hexdigest()


class LoopWatch:
    """Remembers the signatures of the last `LOOP_WINDOW` turns."""

    def __init__(self) -> None:
        self._turns: tuple[frozenset[str], ...] = ()
        self.near = False  # one turn more like the last ends the run

    def answered(self) -> None:
        """The model gave an answer: what comes after it is another piece of work."""
        self._turns, self.near = (), False

    def turn_over(self, calls: list[tuple[str, str, ToolResult]]) -> bool:
        """Closes a turn with (name, arguments, result as the tool gave it) of its calls, in call order.

        True if one call, or the turn as a whole, now stands in more than `LOOP_REPEATS` of the last `LOOP_WINDOW` turns.
        Equal calls inside one turn count once. A skipped call did no work and has no signature of its own.
        """
        return self.note_turn(
            [(name, arguments, output_digest(result), result.status == "skipped") for name, arguments, result in calls]
        )

    def note_turn(self, calls: list[tuple[str, str, str, bool]]) -> bool:
        """The same with (name, arguments, `output_digest` of the result, whether the call was skipped)."""
        now = {signature([call[:3] for call in calls])} if calls else set()
        now |= {signature([call[:3]]) for call in calls if not call[3]}
        self._turns = (*self._turns, frozenset(now))[-LOOP_WINDOW:]
        most = max((sum(one in turn for turn in self._turns) for one in now), default=0)
        self.near = most == LOOP_REPEATS
        return most > LOOP_REPEATS

    def copy(self) -> LoopWatch:
        """An independent copy."""
        other = LoopWatch()
        other._turns, other.near = self._turns, self.near
        return other

    def snapshot(self) -> tuple[object, ...]:
        """The whole state as plain values, for comparing."""
        return tuple(tuple(sorted(turn)) for turn in self._turns)


class CutWatch:
    """Counts cut calls that are the same call again.

    A cut call is known again by its tool and the first `CUT_HEAD` characters of its arguments, or as many as both have:
    the same call may be cut at another place next time.
    """

    def __init__(self) -> None:
        self._seen: tuple[tuple[str, str, int], ...] = ()

    def note(self, name: str, arguments: str) -> bool:
        """Counts one cut call; true if it has now come `CUT_REPEATS` times."""
        head = arguments[:CUT_HEAD]
        known, seen = False, []
        for tool, before, count in self._seen:
            shared = min(len(before), len(head))
            if tool == name and before[:shared] == head[:shared]:
                known = True
                before, count = max(before, head, key=len), count + 1
            seen.append((tool, before, count))
        if not known:
            seen.append((name, head, 1))
        self._seen = tuple(seen)
        return any(count >= CUT_REPEATS for _, _, count in self._seen)

    def copy(self) -> CutWatch:
        """An independent copy."""
        other = CutWatch()
        other._seen = self._seen
        return other

    def snapshot(self) -> tuple[object, ...]:
        """The whole state as plain values, for comparing."""
        return self._seen


def repeated_text(text: str) -> bool:
    """Whether a reply ends in the same piece over and over: at least `TEXT_TIMES` times, over `TEXT_SPAN` characters.

    Looks at the last `TEXT_TAIL` characters only, in time linear in them. Trailing white space is not repetition.
    """
    backwards = text[-TEXT_TAIL:].rstrip()[::-1]
    border = [0] * len(backwards)  # of each prefix: the longest proper prefix that is also its suffix
    for at in range(1, len(backwards)):
        length = border[at - 1]
        while length and backwards[at] != backwards[length]:
            length = border[length - 1]
        border[at] = length + (backwards[at] == backwards[length])
        span = at + 1
        if span >= TEXT_SPAN and span >= TEXT_TIMES * (span - border[at]):
            return True
    return False
