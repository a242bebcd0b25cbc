"""What must hold of every store, each promise a checker that reads only the database and the files around it.

`sluice sessions check` runs them all. A session that somebody works with now is checked too: what may be unfinished in
it (its last run, its last reply) is left out.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec

from sluice.errors import StoreError
from sluice.session import rows
from sluice.session.catalog import lock_folder
from sluice.session.check_calls import (
    approvals_bind,
    calls_have_one_result,
    calls_start_as_judged,
    ended_runs_run_nothing,
    results_are_true,
)
from sluice.session.check_files import open_to_others, preimages_are_there, secrets_in
from sluice.session.check_view import Found, View
from sluice.session.disk import VERSION
from sluice.session.folding import size_in
from sluice.session.kinds import wrong_kinds
from sluice.session.shrunk import SHRUNK_SINCE
from sluice.values.messages import Usage

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
    yield from wrong_kinds(view.connection)
    for run, used in view.query("SELECT run, usage FROM usage"):
        try:
            msgspec.json.decode(str(used), type=Usage | None)
        except msgspec.MsgspecError as error:
            yield str(run), f"what it used cannot be read: {error}"
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
        if not (source and seq.isascii() and seq.isdigit() and len(seq) < 19):
            yield str(session), f"it says that it was forked at {str(parent)[:80]!r}, which names no message"
            continue
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
                for where, words in PROMISES[name](view):  # what was found stays, also where it then cannot go on
                    broken.append(Broken(name, where, words))
            except (sqlite3.Error, StoreError, ValueError, msgspec.MsgspecError) as error:
                broken.append(Broken(name, str(path), f"{UNREADABLE}: {error}"))
            except (TypeError, LookupError, AttributeError) as error:
                if next(wrong_kinds(connection), None) is None:
                    raise
                broken.append(Broken(name, str(path), f"{UNREADABLE}: {error}"))
        unended = tuple(session for session in view.unended if session not in view.held)
        return Report(len(view.sessions), len(view.runs), tuple(broken), unended)
    except (sqlite3.Error, UnicodeDecodeError) as error:  # damage can make a text of bytes that are none
        return Report(0, 0, (Broken("F2", str(path), f"{UNREADABLE}: {error}"),))
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
