"""Taking back what a run changed in files: which run that is, which of the files can be given back, and how.

A file is given back only if it holds what the run's last change of it left. Anything else (a person's edit since, a call
that was killed in the middle) is named and not touched. A run changed files of one folder, and its changes are taken back
there only: a session can be gone on with in another folder, and a path means another file there. What was taken back is
marked, so that the next undo goes on to the run before; files alone cannot tell, since a run may have made what another
one made before it. Nothing here opens a file of the workspace: the caller reads and writes through its wall.
"""

from __future__ import annotations

import hashlib
import os
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from sluice.errors import StoreError
from sluice.session.catalog import REMOVED

MARKED_SINCE = 5  # the schema that knows of which folder a pre-image is, and what was taken back
_CHANGES = "(NOT p.ended OR p.after IS NOT p.sha256)"  # one that failed, and left all as it was, is none


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done to one file. `now` is the SHA-256 of what it holds (`None`: it is absent).

    `before` is the SHA-256 of what it held before the run (`None`: there was no file), `mode` its permissions then.
    `refusal`, if not empty, says why it is not touched. Where `now` is `before` there is nothing to do.
    """

    path: str
    before: str | None
    mode: int | None
    now: str | None
    refusal: str = ""


class ChangingRun(NamedTuple):
    """A run that changed files: its id, its number in the session, and when it began (seconds since the epoch)."""

    id: str
    number: int
    began: float


def changing_run(
    connection: sqlite3.Connection,
    session: str,
    workspace: str,
    *,
    number: int | None = None,
    before: int | None = None,
) -> ChangingRun | None:
    """The last run of the session that changed a file of `workspace` and was not taken back; `None` if there is none.

    With `before` only runs with a lower number are looked at. With `number` it is that very run, taken back or not.
    """
    folder, marked = _marks(connection)
    marked = "0" if number is not None else marked
    found = connection.execute(
        "SELECT r.id, r.number, r.started_at FROM run r JOIN session s ON s.id = r.session WHERE r.session = ? "  # noqa: S608 - words of ours, values are bound
        "AND r.number >= ? AND r.number <= ? AND EXISTS "
        f"(SELECT 1 FROM preimage p WHERE p.run = r.id AND {folder} = ? AND NOT {marked} AND {_CHANGES}) "
        "ORDER BY r.number DESC LIMIT 1",
        (session, number or 0, number or (2**62 if before is None else before - 1), workspace),
    ).fetchone()
    return None if found is None else ChangingRun(*found)


def elsewhere(connection: sqlite3.Connection, session: str, workspace: str, *, after: int) -> list[str]:
    """The other folders in which runs of the session with a higher number than `after` changed files that were not taken
    back."""
    folder, marked = _marks(connection)
    found = connection.execute(
        f"SELECT DISTINCT {folder} FROM run r JOIN session s ON s.id = r.session JOIN preimage p ON p.run = r.id "  # noqa: S608 - words of ours, values are bound
        f"WHERE r.session = ? AND r.number > ? AND {folder} != ? AND NOT {marked} AND {_CHANGES} ORDER BY 1",
        (session, after, workspace),
    ).fetchall()
    return [str(place) for (place,) in found]


def latest_here(connection: sqlite3.Connection, workspace: str) -> str | None:
    """The session that was used last, of those of this project and those that changed files of this folder."""
    folder, _marked = _marks(connection)
    found = connection.execute(
        "SELECT s.id FROM session s WHERE s.project != ? AND (s.project = ? OR EXISTS "  # noqa: S608 - words of ours, values are bound
        f"(SELECT 1 FROM run r JOIN preimage p ON p.run = r.id WHERE r.session = s.id AND {folder} = ?)) "
        "ORDER BY s.last DESC LIMIT 1",
        (REMOVED, workspace, workspace),
    ).fetchone()
    return None if found is None else str(found[0])


def changed_from_elsewhere(connection: sqlite3.Connection, workspace: str) -> bool:
    """Whether sessions of other projects changed files of this folder."""
    if _marks(connection)[1] == "0":
        return False
    found = connection.execute("SELECT 1 FROM preimage WHERE workspace = ? LIMIT 1", (workspace,))
    return found.fetchone() is not None


def mark(connection: sqlite3.Connection, run: str, workspace: str) -> None:
    """Keeps that the run's changes in this folder were taken back, inside the caller's transaction."""
    connection.execute(
        "UPDATE preimage SET undone = 1 WHERE run = ? AND coalesce(workspace, "
        "(SELECT s.project FROM run r JOIN session s ON s.id = r.session WHERE r.id = preimage.run)) = ?",
        (run, workspace),
    )


def _marks(connection: sqlite3.Connection) -> tuple[str, str]:
    """How to ask for a pre-image's folder, and for whether it was taken back. A store of before knows neither."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return ("coalesce(p.workspace, s.project)", "p.undone") if version >= MARKED_SINCE else ("s.project", "0")


def plan(
    connection: sqlite3.Connection,
    run: str,
    workspace: str,
    digest: Callable[[str], str | None],
    *,
    again: bool = False,
) -> list[Step]:
    """The steps that take a run's changes in `workspace` back, the last changed file first.

    `digest` returns the SHA-256 of what a workspace file holds now, `None` if there is none, and raises `OSError` or
    `ValueError` with the reason if it cannot be read. With `again` those that were taken back before count as well.
    """
    folder, marked = _marks(connection)
    found = connection.execute(
        "SELECT p.path, p.sha256, p.mode, p.ended, p.after FROM preimage p JOIN run r ON r.id = p.run "  # noqa: S608 - words of ours, values are bound
        f"JOIN session s ON s.id = r.session WHERE p.run = ? AND {folder} = ? AND NOT {'0' if again else marked} "
        "ORDER BY p.number",
        (run, workspace),
    ).fetchall()
    first: dict[str, tuple[str | None, int | None]] = {}
    last: dict[str, tuple[bool, str | None]] = {}
    for path, sha256, mode, ended, after in found:
        first.setdefault(path, (sha256, mode))
        last.pop(path, None)
        last[path] = (bool(ended), after)
    return [_step(path, *first[path], *last[path], digest) for path in reversed(last)]


def _step(
    path: str,
    before: str | None,
    mode: int | None,
    ended: bool,
    after: str | None,
    digest: Callable[[str], str | None],
) -> Step:
    try:
        now = digest(path)
    except (OSError, ValueError) as error:
        return Step(path=path, before=before, mode=mode, now=None, refusal=f"it cannot be read: {error}")
    step = Step(path=path, before=before, mode=mode, now=now)
    if now == before:
        return step
    if not ended:
        return msgspec.structs.replace(step, refusal="it is not known what the interrupted call left of it")
    if now != after:
        how = "removed" if now is None else "changed"
        return msgspec.structs.replace(step, refusal=f"it was {how} since the run")
    return step


def preimage(folder: Path, sha256: str) -> bytes:
    """What a file held, from the blobs below `folder`. Raises `StoreError`, in words about the file, if it is not there
    whole."""
    if not re.fullmatch(r"[0-9a-f]{64}", sha256):
        raise StoreError("damaged", f"the session names no pre-image of it but {sha256[:80]!r}")
    where = folder / "blobs" / sha256
    try:
        fd = os.open(where, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as file:  # raises for a folder; of a pipe in its place there is nothing to read
            data = file.read() or b""
    except FileNotFoundError:
        raise StoreError("io", f"what it held before is not kept any more ({str(where)!r})") from None
    except OSError as error:
        why = error.strerror or error
        raise StoreError("io", f"what it held before cannot be read ({str(where)!r}: {why})") from None
    if hashlib.sha256(data).hexdigest() != sha256:
        raise StoreError("damaged", f"what it held before is damaged ({str(where)!r})")
    return data
