"""The promises about calls: one result each, a true one, one start as judged and approved, and an end."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from sluice.session import rows
from sluice.session.check_view import Found, View
from sluice.session.waiting import waiting as wait_for_a_person
from sluice.turn.failures import class_of, guided
from sluice.turn.repeats import output_digest
from sluice.values.calls import call_digest
from sluice.values.healed import HealedArguments, healed_digest
from sluice.values.messages import AssistantMessage, ToolCall, ToolMessage
from sluice.values.results import ToolResult


def calls_have_one_result(view: View) -> Found:
    """P1: each call has exactly one result, directly behind its reply and in order.

    Only at the end of a session none may be there yet: where its last run may go on, or could not store them, or was
    interrupted while a person was asked about the very call that is the first without one.
    """
    for session in view.sessions:
        waiting: list[ToolCall] = []
        for stored in rows.stored_messages(view.connection, session):
            message = stored.message
            if isinstance(message, ToolMessage):
                if not waiting or waiting[0].id != message.call_id:
                    yield f"{session}@{stored.seq}", "a result without its call"
                else:
                    waiting.pop(0)
                continue
            if waiting:
                yield f"{session}@{stored.seq}", f"{len(waiting)} calls before it have no result"
            waiting = list(message.tool_calls) if isinstance(message, AssistantMessage) else []
        # Without an end the session is at work, or awaits its recovery.
        lawful = not waiting or session in view.unended or view.unsaved(session)
        if not lawful and wait_for_a_person(view.connection, session) is None:
            yield session, f"{len(waiting)} calls at its end have no result"


def results_are_true(view: View) -> Found:
    """P2: a result says what became of its call, and of nothing that was started that it did not run."""
    for place, position, key, said in _answered(view):
        started = view.query("SELECT result FROM call WHERE run = ? AND turn = ? AND position = ?", *key)
        if not started:
            continue
        if started[0][0] is None and said.status == "skipped":
            yield place, f"call {position} was started, and its result says it was not"
        elif started[0][0] is not None and not _is_told(said, str(started[0][0])):
            yield place, f"the result of call {position} is not what the call came to"


def _is_told(said: ToolMessage, stored: str) -> bool:
    result = msgspec.json.decode(stored, type=ToolResult)
    if said.status == "unknown_outcome":
        return True  # nobody could read what it came to
    same = said.ok == result.ok and (said.status or "ok") == result.status
    # What cannot be stored as text is another character in one of the two.
    if not same or not said.digest or "\ufffd" in stored:
        return same
    advised = guided(result, class_of(result))  # as it was told, unless the run ended by it
    return said.digest in (output_digest(result), output_digest(advised))


def _answered(view: View) -> Iterator[tuple[str, int, tuple[str, int, int], ToolMessage]]:
    """Message, position, key (run, turn, position) and result of every call that has one."""
    for session, seq, run, turn, position in _calls(view):
        found = view.query(
            "SELECT body FROM part WHERE session = ? AND answers_seq = ? ORDER BY answers_position LIMIT 1 OFFSET ?",
            session,
            seq,
            position,
        )
        if found:
            said = msgspec.json.decode(str(found[0][0]), type=ToolMessage)
            yield f"{session}@{seq}", position, (run, turn, position), said


def calls_start_as_judged(view: View) -> Found:
    """X1: a call starts at most once, what started is what the reply asked for, and nothing ran without its start."""
    for where, asked, key, said in _answered(view):
        # A result of ours says in a digest what its call came to; that of a conversation that was taken over does not.
        started = "SELECT 1 FROM call WHERE run = ? AND turn = ? AND position = ?"
        if said.ok and said.digest and not view.query(started, *key):
            yield where, f"call {asked} ran, and its start is not there"
    by_key = {(run, turn, position): (session, seq) for session, seq, run, turn, position in _calls(view)}
    for run, turn, position, tool, digest, rule, result in view.query(
        "SELECT run, turn, position, tool, digest, rule, result FROM call"
    ):
        place = by_key.get((str(run), int(str(turn)), int(str(position))))
        if place is None:
            yield str(run), f"call {turn}/{position} was started and no reply asked for it"
            continue
        calls = view.query(
            "SELECT body FROM part WHERE session = ? AND seq = ? AND kind = 'call' ORDER BY position", *place
        )
        call = msgspec.json.decode(str(calls[int(str(position))][0]), type=ToolCall)
        fits = call_digest(call.name, call.arguments) == digest
        if str(rule).startswith("healed:"):
            fits = call.status == "cut" and (result is None or _healed(call, str(result)) == digest)
        if not fits or tool != call.name:
            yield f"{place[0]}@{place[1]}", f"call {position} started with other arguments than the reply holds"


def _healed(call: ToolCall, result: str) -> str:
    """The digest of a call that was cut and ran with the closed arguments that its result names (W9)."""
    facts = msgspec.json.decode(result, type=dict).get("facts", {})
    text = facts.get("healed") if isinstance(facts, dict) else None
    return healed_digest(call.name, HealedArguments(written=call.arguments, text=text)) if isinstance(text, str) else ""


def _calls(view: View) -> Iterator[tuple[str, int, str, int, int]]:
    """Session, message, run, turn and position of every call that a run asked for."""
    for session, seq, run, turn, count in view.query(
        "SELECT m.session, m.seq, m.run, m.turn, count(*) FROM message m JOIN part p "
        "ON p.session = m.session AND p.seq = m.seq AND p.kind = 'call' "
        "WHERE m.run IS NOT NULL AND m.turn IS NOT NULL GROUP BY m.session, m.seq"
    ):
        for position in range(int(str(count))):
            yield str(session), int(str(seq)), str(run), int(str(turn)), position


def approvals_bind(view: View) -> Found:
    """X2: an approval covers the call that started, and no call started on a no or on no answer."""
    for run, turn, position, granted, same in view.query(
        "SELECT a.run, a.turn, a.position, a.granted, a.digest = c.digest FROM approval a JOIN call c "
        "ON c.run = a.run AND c.turn = a.turn AND c.position = a.position"
    ):
        if not granted or not same:
            yield str(run), f"call {turn}/{position} started without an approval of just this call"
    for run, turn, position in view.query(
        "SELECT run, turn, position FROM call c WHERE rule LIKE 'granted:%' AND NOT EXISTS (SELECT 1 FROM approval a "
        "WHERE a.run = c.run AND a.turn = c.turn AND a.position = c.position)"
    ):
        yield str(run), f"call {turn}/{position} started as approved, and nobody was asked"


def ended_runs_run_nothing(view: View) -> Found:
    """C1: in a run that has ended every started call has its end, but for one that a later run took up and that runs now,
    and for one whose end could not be stored."""
    for run, tool, session in view.query(
        "SELECT c.run, c.tool, r.session FROM call c JOIN run r ON r.id = c.run "
        "WHERE r.outcome IS NOT NULL AND c.status IS NULL AND NOT (r.outcome = ? AND EXISTS "
        "(SELECT 1 FROM run l WHERE l.session = r.session AND l.number > r.number "
        "AND l.outcome IS NULL) AND EXISTS (SELECT 1 FROM approval a WHERE a.run = c.run AND a.turn = c.turn "
        "AND a.position = c.position AND a.granted = 1))",
        rows.INTERRUPTED,
    ):
        if str(run) not in view.unsaved(str(session)):
            yield str(run), f"a call of {tool} has no end, and its run has"
