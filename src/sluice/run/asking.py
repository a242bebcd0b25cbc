"""Asks the person in front of a face: the question is an event, the answer a request (P3)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from sluice.run.grants import SessionGrants
from sluice.run.interaction import Allowed, ApprovalSettled, ApprovalWanted, Event
from sluice.run.question import GUTTER, Escaped, in_one_line, shown_arguments, why_asked
from sluice.values.calls import ToolSpec, call_digest
from sluice.values.ports import Audit

MAX_WORDS = 1000  # characters of a person's word to the model


class Place(Protocol):
    """Where calls run now."""

    def place(self) -> str:
        """The digest of folder and environment names, as in `Grant`."""
        ...

    def details(self, spec: ToolSpec, arguments: str) -> tuple[str, ...]:
        """Lines about what the call would run, where its arguments do not say it."""
        ...


class FaceApprover:
    """Implements `values.ports.Approver` with events: `tell` takes them, `answer` brings the answer.

    A question that a grant of the session covers is answered by it. Each answer, a person's or a grant's, is recorded
    before it counts; one that cannot be recorded is no. Being cancelled takes the question back. Never raises anything
    but what the audit raises, which is no as well.
    """

    def __init__(
        self, tell: Callable[[Event], None], escaped: Escaped, *, folder: str, where: Place, audit: Audit
    ) -> None:
        self.grants = SessionGrants()
        self._tell = tell
        self._escaped = escaped
        self._folder = folder
        self._where = where
        self._audit = audit
        self._last = 0
        self._open: dict[int, tuple[asyncio.Future[tuple[Allowed, str]], bool]] = {}

    async def ask(self, spec: ToolSpec, arguments: str, reason: str) -> tuple[bool, str]:
        """See `Approver.ask`."""
        place = self._where.place()
        if self.grants.covers(spec, arguments, reason, place):
            self._record("session grant", "session", spec, arguments)
            return True, ""
        self._last += 1
        number = self._last
        wanted = self._wanted(number, spec, arguments, reason)
        future: asyncio.Future[tuple[Allowed, str]] = asyncio.get_running_loop().create_future()
        self._open[number] = future, wanted.session_words is not None
        self._tell(wanted)
        try:
            allowed, words = await future
        except asyncio.CancelledError:
            self._tell(ApprovalSettled(number=number, decision="withdrawn"))
            raise
        finally:
            del self._open[number]
        self._tell(ApprovalSettled(number=number, decision=allowed))
        self._record("person", allowed, spec, arguments)
        if allowed == "session":
            self.grants.allow(spec, arguments, reason, place)
        return allowed != "deny", _plain(words) if allowed == "deny" else ""

    def answer(self, number: int, allowed: Allowed, words: str = "") -> bool:
        """The person's answer; false if the question is not asked any more. "session" is "once" where it is not offered."""
        found = self._open.get(number)
        if found is None or found[0].done():
            return False
        future, for_session = found
        if allowed == "session" and not for_session:
            allowed = "once"
        if allowed not in ("once", "session"):  # whatever a face says that is no yes
            allowed = "deny"
        future.set_result((allowed, words))
        return True

    def _wanted(self, number: int, spec: ToolSpec, arguments: str, reason: str) -> ApprovalWanted:
        lines, total, notes = [], 0, []
        for shown in shown_arguments(arguments, self._escaped):
            total += shown.characters
            lines.append(shown.heading)
            lines += [GUTTER + line for line in shown.text.split("\n")]
            if shown.odd:
                notes.append(f"{shown.heading.partition(':')[0]}: {shown.odd}")
        behind = self._where.details(spec, arguments)
        if behind:
            notes.append("as the project stands now, it runs:")
            notes += [GUTTER + in_one_line(line, self._escaped) for line in behind]
        return ApprovalWanted(
            number=number,
            tool=in_one_line(spec.name, self._escaped),
            category=spec.category,
            folder=in_one_line(self._folder, self._escaped),
            text="\n".join(lines),
            characters=total,
            reason=in_one_line(why_asked(reason), self._escaped),
            session_words=self.grants.offer(spec, reason),
            arguments=arguments,
            details=tuple(notes),
        )

    def _record(self, by: str, allowed: Allowed, spec: ToolSpec, arguments: str) -> None:
        digest = call_digest(spec.name, arguments)
        self._audit.record("approval", by=by, decision=allowed, tool=spec.name, digest=digest)


def _plain(words: str) -> str:
    """The words without what no person types: control characters, and halves of characters."""
    return "".join(char for char in words[:MAX_WORDS] if char.isprintable() or char in "\n\t").strip()
