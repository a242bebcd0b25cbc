"""What must hold of every store, each promise a checker that reads only the database and the files around it.

`sluice sessions check` runs them all. A session that somebody works with now is checked too: what may be unfinished in
it (its last run, its last reply) is left out.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec

from sluice.errors import StoreError
from sluice.session import rows
from sluice.session.catalog import REMOVED, lock_folder
from sluice.session.check_files import open_to_others, preimages_are_there, secrets_in
from sluice.session.disk import VERSION
from sluice.session.folding import size_in
from sluice.session.locks import holder
from sluice.session.shrunk import SHRUNK_SINCE
from sluice.session.waiting import waiting as wait_for_a_person
from sluice.turn.failures import class_of, guided
from sluice.turn.repeats import output_digest
from sluice.values.calls import call_digest
from sluice.values.healed import HealedArguments, healed_digest
from sluice.values.messages import AssistantMessage, ToolCall, ToolMessage
from sluice.values.results import ToolResult

UNREADABLE = "it cannot be read"
MOST_LOG = 64 * 1024 * 1024  # bytes of the write-ahead log


class Broken(msgspec.Struct, frozen=True):
    """One promise that does not hold: its name, where, and what was found."""

    promise: str
    where: str
    words: str


class Report(msgspec.Struct, frozen=True):
    """How much was checked, and what was found. `unended` are sessions whose last run has no end, and nobody is at work on
    it: its process died, and it gets its end when the session is opened."""

    sessions: int
    runs: int
    broken: tuple[Broken, ...]
    unended: tuple[str, ...] = ()


class View:
    """What a checker reads. `secrets` are words that may be in no file of the store; `state` is the folder of pre-images,
    where those of runs begun before `since` may be gone."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: Path,
        secrets: Sequence[str] = (),
        state: Path | None = None,
        since: float | None = None,
    ) -> None:
        self.connection = connection
        self.path = path
        self.secrets = secrets
        self.state = state
        self.since = since
        alive = "FROM session WHERE project != ?"  # the rest is being removed, from its end on
        self.sessions = [str(id) for (id,) in connection.execute(f"SELECT id {alive} ORDER BY last", (REMOVED,))]
        self.held = {id for id in self.sessions if holder(lock_folder(path), id) is not None}
        self.runs = connection.execute(
            "SELECT id, session, outcome, duration_ns, chunks FROM run "  # noqa: S608
            f"WHERE session IN (SELECT id {alive}) ORDER BY session, number",
            (REMOVED,),
        ).fetchall()
        last = {session: run for run, session, *_ in self.runs}
        self.unended = {s: r for r, s, outcome, *_ in self.runs if outcome is None and last[s] == r}

    def query(self, sql: str, *given: object) -> list[tuple[object, ...]]:
        """All rows of a query."""
        return self.connection.execute(sql, given).fetchall()


Found = Iterator[tuple[str, str]]
Checker = Callable[[View], Found]


def every_row_is_there(view: View) -> Found:
    """D1: no delta that was committed is missing: rows counted are rows folded, and rows left of a reply that arrives.

    The rows of an arriving reply are counted when it ends, and each 64 of them before that.
    """
    for run, session, _outcome, _duration, chunks in view.runs:
        folded = view.query("SELECT coalesce(sum(next_chunk - first_chunk), 0) FROM message WHERE run = ?", run)[0][0]
        left = view.query("SELECT count(*) FROM chunk WHERE run = ?", run)[0][0]
        arriving = view.query("SELECT 1 FROM message WHERE run = ? AND state = 'open'", run)
        written = int(str(folded)) + int(str(left))
        if chunks != written and not (arriving and int(str(folded)) <= chunks <= written):
            yield f"{session} {run}", f"{chunks} rows of deltas were written, {folded} folded and {left} are left"


def deltas_are_a_prefix(view: View) -> Found:
    """D2: a run's deltas are 0..k with no gap and no repeat, and a call that arrives only grows."""
    for run, session, *_ in view.runs:
        at = 0
        for first, after in view.query(
            "SELECT first_chunk, next_chunk FROM message WHERE run = ? AND next_chunk IS NOT NULL ORDER BY seq", run
        ):
            if first != at:
                yield f"{session} {run}", f"deltas {at} to {first} are missing or there twice"
            at = int(str(after))
        sizes: list[int] = []
        for seq, kind, body in view.query("SELECT seq, kind, body FROM chunk WHERE run = ? ORDER BY seq", run):
            if seq != at:
                yield f"{session} {run}", f"delta {at} is missing"
            at = int(str(seq)) + 1
            grown = size_in(str(body)) if kind == "call" else None
            if grown is None:
                sizes += [0] if kind == "call" else []
            elif not 0 <= grown[0] < len(sizes) or grown[1] < sizes[grown[0]]:
                yield f"{session} {run}", f"delta {seq} is the size of no call, or a smaller one than before"
            else:
                sizes[grown[0]] = grown[1]


def text_is_what_was_told(view: View) -> Found:
    """D3: the text of a reply is the text that was told while it arrived."""
    for session, seq, crc, first, after in view.query(
        "SELECT session, seq, told_crc, first_chunk, next_chunk FROM message "
        "WHERE told_crc IS NOT NULL AND state IN ('whole', 'interrupted')"
    ):
        if first == after:
            continue  # nothing was told: the reply came in one piece
        found = 0
        for (text,) in view.connection.execute(
            "SELECT body FROM part WHERE session = ? AND seq = ? AND kind = 'text' ORDER BY position", (session, seq)
        ):
            found = rows.crc(str(text), found)
        if found != crc:
            yield f"{session}@{seq}", "its text is not what was told while it arrived"


def one_end(view: View) -> Found:
    """D4: every run has one end, and nothing of it comes after. A session's last run may have none yet."""
    for run, session, outcome, *_ in view.runs:
        if outcome is None and view.unended.get(session) != run:
            yield f"{session} {run}", "it has no end, and a later run has begun"
        if outcome is not None and view.query("SELECT 1 FROM message WHERE run = ? AND state = 'open'", run):
            yield f"{session} {run}", "a reply is open after the end"
    for run, count in view.query(
        "SELECT run, count(*) FROM notice WHERE body LIKE '%\"run_finished\"%' "
        "AND json_extract(body, '$.type') = 'run_finished' GROUP BY run HAVING count(*) > 1"
    ):
        yield str(run), f"its end was told {count} times"
    for session in view.sessions:
        order = [run for (run,) in view.query("SELECT run FROM message WHERE session = ? ORDER BY seq", session)]
        changes = [after for before, after in pairwise(order) if before != after and after is not None]
        if len(changes) != len(set(changes)):
            yield session, "messages of one run stand behind those of a later one"


def calls_have_one_result(view: View) -> Found:
    """P1: each call has exactly one result, directly behind its reply and in order.

    Only at the end of a session none may be there yet: where its last run may go on, or was interrupted while a person was
    asked about the very call that is the first without one.
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
        if waiting and session not in view.unended and wait_for_a_person(view.connection, session) is None:
            yield session, f"{len(waiting)} calls at its end have no result"


def results_are_true(view: View) -> Found:
    """P2: a result says what became of its call, and of nothing that was started that it did not run."""
    for place, position, key, said in _answered(view):
        started = view.query("SELECT result FROM call WHERE run = ? AND turn = ? AND position = ?", *key)
        if not started:
            continue
        if said.content.startswith("[not_started]"):
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


def one_writer(view: View) -> Found:
    """O1: at most one run of a session goes on."""
    for session, count in view.query("SELECT session, count(*) FROM run WHERE outcome IS NULL GROUP BY session"):
        if int(str(count)) > 1:
            yield str(session), f"{count} runs have no end: two processes worked on one session"


def log_is_bounded(view: View) -> Found:
    """R1: the write-ahead log stays small."""
    log = Path(f"{view.path}-wal")
    if log.exists() and log.stat().st_size > MOST_LOG:
        yield str(log), f"it has {log.stat().st_size} bytes: another program has been reading for very long"


def saved_is_saved(view: View) -> Found:
    """F1: what is marked as kept is there: every message its parts, every reference its row, every pre-image its bytes."""
    for session, seq in view.query(
        "SELECT m.session, m.seq FROM message m WHERE m.state = 'whole' AND m.role IN ('user', 'tool') AND NOT EXISTS "
        "(SELECT 1 FROM part p WHERE p.session = m.session AND p.seq = m.seq)"
    ):
        yield f"{session}@{seq}", "it is marked as kept and has no content"
    for table, *_ in view.query("PRAGMA foreign_key_check"):
        yield str(table), "a row belongs to nothing"
    if view.state is not None:
        yield from preimages_are_there(view.connection, view.state, view.since or 0.0)


def rows_are_undamaged(view: View) -> Found:
    """F2: the file is sound, its schema is known, every part is as it was written."""
    version = int(str(view.query("PRAGMA user_version")[0][0]))
    if version > VERSION:
        yield str(view.path), f"it was written by a later version (schema {version})"
    for (words,) in view.query("PRAGMA quick_check(10)"):
        if words != "ok":
            yield str(view.path), str(words)
    tables = [("part", "session || '@' || seq"), ("chunk", "run")]
    if version >= SHRUNK_SINCE:
        tables.append(("shrunk", "session"))
    for table, place in tables:
        cursor = view.connection.execute(f"SELECT {place}, body, crc FROM {table}")  # noqa: S608 - words of ours
        for where, body, crc in cursor:
            if not isinstance(body, str) or rows.crc(body) != crc:
                yield str(where), "a byte of it changed on disk"


def nothing_is_open_to_others(view: View) -> Found:
    """S1: files are for their owner only, and no secret is in any of them."""
    files = [Path(f"{view.path}{e}") for e in ("", "-wal", "-shm", "-journal", ".users", ".turn")]
    yield from open_to_others([*files, lock_folder(view.path)])
    yield from secrets_in(files, view.secrets)


def ended_runs_run_nothing(view: View) -> Found:
    """C1: in a run that has ended every started call has its end, but for one that a later run took up and that runs now."""
    for run, tool in view.query(
        "SELECT c.run, c.tool FROM call c JOIN run r ON r.id = c.run WHERE r.outcome IS NOT NULL AND c.status IS NULL "
        "AND NOT (r.outcome = ? AND EXISTS (SELECT 1 FROM run l WHERE l.session = r.session AND l.number > r.number "
        "AND l.outcome IS NULL) AND EXISTS (SELECT 1 FROM approval a WHERE a.run = c.run AND a.turn = c.turn "
        "AND a.position = c.position AND a.granted = 1))",
        rows.INTERRUPTED,
    ):
        yield str(run), f"a call of {tool} has no end, and its run has"


def order_is_by_number(view: View) -> Found:
    """T1: messages and runs are numbered without a gap, and no duration is negative."""
    for session, count, last in view.query("SELECT session, count(*), max(seq) FROM message GROUP BY session"):
        if count != last:
            yield str(session), f"{count} messages with numbers up to {last}"
    for session, count, last in view.query("SELECT session, count(*), max(number) FROM run GROUP BY session"):
        if count != last:
            yield str(session), f"{count} runs with numbers up to {last}"
    for run, session, outcome, duration, _chunks in view.runs:
        if (duration is not None and duration < 0) or (duration is None and outcome not in (None, "interrupted")):
            yield f"{session} {run}", f"it ended and took {duration} ns"


def old_rows_stay(view: View) -> Found:
    """K1: a fork begins with what its source holds."""
    for session, parent in view.query("SELECT id, parent FROM session WHERE parent IS NOT NULL"):
        source, _, seq = str(parent).rpartition("@")
        theirs = [s.message for s in rows.stored_messages(view.connection, source, upto=int(seq))]
        if theirs:
            own = [s.message for s in rows.stored_messages(view.connection, str(session), upto=len(theirs))]
            if own != theirs:
                yield str(session), f"it does not begin with what {source} holds up to message {seq}"


PROMISES: dict[str, Checker] = {
    "D1": every_row_is_there,
    "D2": deltas_are_a_prefix,
    "D3": text_is_what_was_told,
    "D4": one_end,
    "P1": calls_have_one_result,
    "P2": results_are_true,
    "X1": calls_start_as_judged,
    "X2": approvals_bind,
    "O1": one_writer,
    "R1": log_is_bounded,
    "F1": saved_is_saved,
    "F2": rows_are_undamaged,
    "S1": nothing_is_open_to_others,
    "C1": ended_runs_run_nothing,
    "T1": order_is_by_number,
    "K1": old_rows_stay,
}


def check(
    connection: sqlite3.Connection,
    path: Path,
    *,
    secrets: Sequence[str] = (),
    state: Path | None = None,
    since: float | None = None,
    promises: Sequence[str] = tuple(PROMISES),
) -> Report:
    """Checks a whole store. `connection` may be a reading one. A checker that cannot read says so as a finding.

    With `state`, the folder of pre-images, each that the store refers to is read too, if its run began after `since`
    (seconds since the epoch).
    """
    broken: list[Broken] = []
    connection.execute("BEGIN")
    try:
        view = View(connection, path, secrets, state, since)
        for name in promises:
            try:
                broken += [Broken(name, where, words) for where, words in PROMISES[name](view)]
            except (sqlite3.Error, StoreError, ValueError, msgspec.MsgspecError) as error:
                broken.append(Broken(name, str(path), f"{UNREADABLE}: {error}"))
        unended = tuple(session for session in view.unended if session not in view.held)
        return Report(len(view.sessions), len(view.runs), tuple(broken), unended)
    except (sqlite3.Error, UnicodeDecodeError) as error:  # damage can make a text of bytes that are none
        return Report(0, 0, (Broken("F2", str(path), f"{UNREADABLE}: {error}"),))
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
