"""The witnesses of the fault driver: what was said and done outside the database, held against what the database says."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from sluice.errors import StoreError
from sluice.session.disk import reading
from sluice.session.undo import preimage
from sluice.testing.fault_provider import NOTE, in_order, whole_note

Said = Iterator[tuple[str, str]]


def acknowledged(store: Path, acks: Path) -> Said:
    """What was acknowledged and is not there (`lost`), or is not what was sent, or ended otherwise than was told."""
    told_by, ends = Counter[tuple[str, int]](), dict[str, str]()
    began, called = set[str](), set[tuple[str, int, int]]()
    for line in _lines(acks):
        run, turn, *rest = line.split()
        if turn == "end":
            ends[run] = rest[0] if rest[1] == "saved" else ""
        elif turn == "called":
            called.add((run, int(rest[0]), int(rest[1])))
        elif turn == "began":
            began.add(run)
        else:
            told_by[run, int(turn)] = max(told_by[run, int(turn)], int(rest[0]))
    with reading(store) as connection:
        texts: dict[tuple[str, int], str] = {}
        for run, turn, text in connection.execute(
            "SELECT m.run, m.turn, p.body FROM message m JOIN part p ON p.session = m.session AND p.seq = m.seq "
            "WHERE m.role = 'assistant' AND p.kind = 'text' ORDER BY m.session, m.seq, p.position"
        ):
            texts[run, turn] = texts.get((run, turn), "") + text
        outcomes = dict(connection.execute("SELECT id, outcome FROM run").fetchall())
        statuses = {
            (run, turn, position): status
            for run, turn, position, status in connection.execute("SELECT run, turn, position, status FROM call")
        }
    for reply, told in told_by.items():
        if len(texts.get(reply, "")) < told:
            yield "lost", f"{told} characters of {reply} were acknowledged, {len(texts.get(reply, ''))} are there"
    for reply, text in texts.items():
        if reply[0] is not None and not in_order(text):
            yield "", f"the text of {reply} is not what was sent: {text[:200]!r}"
    for run in began - set(outcomes):
        yield "lost", f"run {run} was told to have begun, and is not there"
    for key in called:
        if statuses.get(key) in (None, "unknown_outcome"):
            yield "lost", f"call {key} was told to have ended; the store says {statuses.get(key)}"
    for run, outcome in ends.items():
        if outcome and outcomes.get(run) != outcome:
            yield "", f"run {run} was told to be {outcome} and saved; it is {outcomes.get(run)}"


def effects(store: Path, ledger: Path) -> Said:
    """Calls that had their effect more than once (`twice`), or whose start is not stored."""
    done = Counter(" ".join(line.split()[:3]) for line in _lines(ledger))
    with reading(store) as connection:
        rows = connection.execute("SELECT run || ' ' || turn || ' ' || position, status FROM call").fetchall()
    calls = dict(rows)
    for key, count in done.items():
        if count > 1:
            yield "twice", f"call {key} had its effect {count} times"
        if key not in calls:
            yield "", f"call {key} had its effect and no start is stored"
        elif calls[key] in ("not_started", "skipped", "blocked"):
            yield "", f"call {key} had its effect, and the store says {calls[key]}"


def changes(store: Path, work: Path, state: Path) -> Iterator[str]:
    """What is wrong with a workspace that the runs of this store wrote in, and with the pre-images of it."""
    if not work.is_dir():
        return
    note = work / NOTE
    with reading(store) as connection:
        started = connection.execute("SELECT count(*) FROM call").fetchone()[0]
        kept = connection.execute("SELECT path, sha256 FROM preimage").fetchall()
    if note.exists():
        if not whole_note(note.read_text("utf-8")):
            yield f"half of a file was written ({note.stat().st_size} bytes)"
        if not started or not kept:
            yield "a file was written, and the start of the call or its pre-image is not stored"
    for path, sha256 in kept:
        if sha256 is not None:
            try:
                preimage(state, sha256)
            except StoreError as error:
                yield f"what {path} held before is gone: {error}"
    left = sorted(set(os.listdir(work)) - {NOTE})
    if len(left) > 1:  # one name of a file that was being written when its process died may stay
        yield f"the workspace holds {left}"


def _lines(path: Path) -> list[str]:
    return path.read_text("ascii").splitlines() if path.exists() else []


def sessions_of(store: Path) -> list[str]:
    """The sessions of a store, the one used last at the end."""
    with reading(store) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'session'").fetchone():
            return []
        return [str(id) for (id,) in connection.execute("SELECT id FROM session ORDER BY last")]


def reply_arriving(store: Path) -> bool:
    """Whether a reply was arriving when the store was written last; false if it cannot be read."""
    try:
        with reading(store) as connection:
            return connection.execute("SELECT 1 FROM message WHERE state = 'open'").fetchone() is not None
    except StoreError:
        return False


def runs_of(store: Path) -> int:
    """How many runs a store knows of; 0 if it cannot be read."""
    try:
        with reading(store) as connection:
            return int(connection.execute("SELECT count(*) FROM run").fetchone()[0])
    except StoreError:
        return 0
