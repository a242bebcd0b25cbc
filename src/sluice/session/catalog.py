"""Which sessions there are, and taking one away. Reading never blocks whoever writes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from sluice.errors import StoreError
from sluice.session.locks import holder
from sluice.session.waiting import asked_tools

REMOVED = ""  # the project of sessions that are being removed: of none
_TITLE = 80  # characters of the first prompt that stand for a session


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """One session as a list shows it. `created_at` in seconds since the epoch, `held_by` the process at work on it.

    `outcome` is that of the last run; `None` while it goes on, or if it was interrupted and not opened since. `pending`
    names the tools of the calls that a person has to decide about, `store` is the file that the session is in.
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
    store: str = ""


def lock_folder(path: Path) -> Path:
    """Where the locks of the sessions of the store at `path` are."""
    return Path(f"{path}.locks")


def listed(
    connection: sqlite3.Connection, path: Path, project: str | None = None, most: int | None = None
) -> Iterator[Listed]:
    """The sessions of a project, or of all, the one used last first; at most `most` of them."""
    where, given = _of(project)
    found = connection.execute(
        "SELECT s.id, s.project, s.created_at, s.parent, "  # noqa: S608 - `where` is one of two words of ours
        "(SELECT max(started_at) FROM run WHERE session = s.id), (SELECT count(*) FROM run WHERE session = s.id), "
        "(SELECT count(*) FROM message WHERE session = s.id), "
        "(SELECT outcome FROM run WHERE session = s.id ORDER BY number DESC LIMIT 1) "
        f"FROM session s WHERE {where} ORDER BY s.last DESC LIMIT ?",
        (*given, -1 if most is None else most),
    ).fetchall()
    for id, of, created, parent, started, runs, messages, outcome in found:
        one = Listed(
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
            store=str(path),
        )
        msgspec.convert(msgspec.structs.asdict(one), Listed)  # a value of another kind is damage, and not to be shown
        yield one


def _of(project: str | None) -> tuple[str, tuple[str]]:
    """The condition that holds of the sessions of this project, or of all that are not being removed; its value."""
    return ("s.project != ?", (REMOVED,)) if project is None else ("s.project = ?", (project,))


def project_of(connection: sqlite3.Connection, session: str) -> str:
    """The folder whose session it is."""
    return str(connection.execute("SELECT project FROM session WHERE id = ?", (session,)).fetchone()[0])


def projects(connection: sqlite3.Connection) -> list[str]:
    """The folders that have sessions in this store."""
    found = connection.execute("SELECT DISTINCT project FROM session WHERE project != ? ORDER BY 1", (REMOVED,))
    return [str(project) for (project,) in found]


def there(connection: sqlite3.Connection, session: str) -> bool:
    """Whether there is such a session, and nobody removes it."""
    found = connection.execute("SELECT 1 FROM session WHERE id = ? AND project != ?", (session, REMOVED)).fetchone()
    return found is not None


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
    where, given = _of(project)
    found = connection.execute(
        f"SELECT id FROM session s WHERE substr(id, 1, ?) = ? AND {where} ORDER BY id != ?, last DESC LIMIT 4",  # noqa: S608 - words of ours, values are bound
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
    raise StoreError(
        "refused", f"no session is named {wanted!r}; `sluice sessions list --all` shows those of every project"
    )


def find(connection: sqlite3.Connection, wanted: str, project: str | None = None) -> str:
    """The id that `wanted` names, whole or by a beginning that only one has. Raises `StoreError` (`refused`)."""
    return chosen(matching(connection, wanted, project), wanted)


def older_than(connection: sqlite3.Connection, project: str | None, before: float, now: float) -> list[str]:
    """The sessions whose last run began before this moment (seconds since the epoch, as `now` is), oldest first.

    Clocks jump, and the order of use does not: a session is no older than one that was used before it, and a time that
    has not come yet says nothing.
    """
    where, given = _of(project)
    found = connection.execute(
        "WITH used AS (SELECT id, project, last, "  # noqa: S608 - `where` is one of two words of ours
        "coalesce((SELECT max(started_at) FROM run WHERE session = session.id), created_at) AS at FROM session), "
        "known AS (SELECT id, project, last, max(CASE WHEN at <= ? THEN at END) OVER (ORDER BY last) AS at FROM used) "
        f"SELECT id FROM known s WHERE at < ? AND {where} ORDER BY last",
        (now, before, *given),
    ).fetchall()
    return [id for (id,) in found]


def waiting(connection: sqlite3.Connection, ids: Sequence[str]) -> set[str]:
    """Those of these sessions in which a person has to decide about calls."""
    return {id for id in ids if asked_tools(connection, id)}


def ran_between(connection: sqlite3.Connection, after: float, before: float) -> bool:
    """Whether any run of the store began between these moments."""
    found = connection.execute("SELECT 1 FROM run WHERE started_at > ? AND started_at < ? LIMIT 1", (after, before))
    return found.fetchone() is not None
