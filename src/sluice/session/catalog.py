"""Which sessions there are, and taking one away. Reading never blocks whoever writes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from sluice.errors import StoreError
from sluice.session.locks import holder
from sluice.session.waiting import asked_tools

_TITLE = 80  # characters of the first prompt that stand for a session


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """One session as a list shows it. `created_at` in seconds since the epoch, `held_by` the process at work on it.

    `outcome` is that of the last run; `None` while it goes on, or if it was interrupted and not opened since. `pending`
    names the tools of the calls that a person has to decide about.
    """

    id: str
    project: str
    created_at: float
    last_run_at: float
    runs: int
    messages: int
    title: str
    outcome: str | None
    held_by: int | None = None
    parent: str | None = None
    pending: tuple[str, ...] = ()


def lock_folder(path: Path) -> Path:
    """Where the locks of the sessions of the store at `path` are."""
    return Path(f"{path}.locks")


def listed(
    connection: sqlite3.Connection, path: Path, project: str | None = None, most: int | None = None
) -> Iterator[Listed]:
    """The sessions of a project, or of all, the one used last first; at most `most` of them."""
    where, given = ("", ()) if project is None else ("WHERE s.project = ?", (project,))
    found = connection.execute(
        "SELECT s.id, s.project, s.created_at, s.parent, "  # noqa: S608 - `where` is one of two words of ours
        "(SELECT max(started_at) FROM run WHERE session = s.id), (SELECT count(*) FROM run WHERE session = s.id), "
        "(SELECT count(*) FROM message WHERE session = s.id), "
        "(SELECT outcome FROM run WHERE session = s.id ORDER BY number DESC LIMIT 1) "
        f"FROM session s {where} ORDER BY s.last DESC LIMIT ?",
        (*given, -1 if most is None else most),
    ).fetchall()
    for id, of, created, parent, started, runs, messages, outcome in found:
        yield Listed(
            id=id,
            project=of,
            created_at=created,
            last_run_at=started or created,
            runs=runs,
            messages=messages,
            title=_title(connection, id),
            outcome=outcome,
            held_by=holder(lock_folder(path), id),
            parent=parent,
            pending=asked_tools(connection, id),
        )


def _title(connection: sqlite3.Connection, session: str) -> str:
    found = connection.execute(
        "SELECT substr(p.body, 1, 400) FROM message m JOIN part p ON p.session = m.session AND p.seq = m.seq "
        "WHERE m.session = ? AND m.role = 'user' AND p.kind = 'text' ORDER BY m.seq, p.position LIMIT 1",
        (session,),
    ).fetchone()
    words = " ".join(found[0].split()) if found else ""
    return words if len(words) <= _TITLE else words[: _TITLE - 1] + "…"


def latest(connection: sqlite3.Connection, project: str) -> str | None:
    """The session of the project that was used last; order is by a counter, not by any clock."""
    found = connection.execute(
        "SELECT id FROM session WHERE project = ? ORDER BY last DESC LIMIT 1", (project,)
    ).fetchone()
    return None if found is None else str(found[0])


def matching(connection: sqlite3.Connection, wanted: str, project: str | None = None) -> list[str]:
    """Some of the ids that `wanted` is, or begins: that very one if it is there, and more than one if there are."""
    where, given = ("", ()) if project is None else (" AND project = ?", (project,))
    found = connection.execute(
        f"SELECT id FROM session WHERE substr(id, 1, ?) = ?{where} ORDER BY id != ?, last DESC LIMIT 4",  # noqa: S608
        (len(wanted), wanted, *given, wanted),
    ).fetchall()
    return [str(id) for (id,) in found]


def chosen(ids: Sequence[str], wanted: str) -> str:
    """The one that `wanted` names of the ids that it matches. Raises `StoreError` (`refused`)."""
    if wanted in ids:
        return wanted
    if len(ids) == 1:
        return ids[0]
    if ids:
        raise StoreError("refused", f"{wanted!r} begins more than one session: {', '.join(ids)}")
    raise StoreError("refused", f"no session is named {wanted!r}; `sluice sessions list` shows those there are")


def find(connection: sqlite3.Connection, wanted: str, project: str | None = None) -> str:
    """The id that `wanted` names, whole or by a beginning that only one has. Raises `StoreError` (`refused`)."""
    return chosen(matching(connection, wanted, project), wanted)


def remove(connection: sqlite3.Connection, session: str) -> int:
    """Takes one session away, inside the caller's transaction; returns how many messages it had. The caller holds its
    lock."""
    count = connection.execute("SELECT count(*) FROM message WHERE session = ?", (session,)).fetchone()[0]
    connection.execute("DELETE FROM part WHERE session = ?", (session,))
    connection.execute("DELETE FROM message WHERE session = ?", (session,))
    connection.execute("DELETE FROM session WHERE id = ?", (session,))
    return int(count)


def older_than(connection: sqlite3.Connection, project: str | None, before: float) -> list[str]:
    """The sessions whose last run began before this moment (seconds since the epoch), oldest first."""
    where, given = ("", ()) if project is None else (" AND s.project = ?", (project,))
    found = connection.execute(
        "SELECT s.id FROM session s WHERE coalesce((SELECT max(started_at) FROM run WHERE session = s.id), "  # noqa: S608
        f"s.created_at) < ?{where} ORDER BY s.last",
        (before, *given),
    ).fetchall()
    return [id for (id,) in found]
