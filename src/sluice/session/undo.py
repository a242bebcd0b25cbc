"""Taking back what a run changed in files: which of them can be, and what is to be done to each.

A file is given back only if it holds what the run's last change of it left. Anything else (a person's edit since, a call
that was killed in the middle) is named and not touched. Nothing here opens a file of the workspace: the caller reads and
writes through its wall.
"""

from __future__ import annotations

import hashlib
import os
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path

import msgspec

from sluice.errors import StoreError


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done to one file. `now` is the SHA-256 it must hold (`None`: it must be absent).

    `before` is the SHA-256 of what it held before the run (`None`: there was no file), `mode` its permissions then.
    `refusal`, if not empty, says why it is not touched.
    """

    path: str
    before: str | None
    mode: int | None
    now: str | None
    refusal: str = ""


def plan(connection: sqlite3.Connection, run: str, digest: Callable[[str], str | None]) -> list[Step]:
    """The steps that take a run's changes back, the last changed file first.

    `digest` returns the SHA-256 of what a workspace file holds now, `None` if there is none, and raises `OSError` or
    `ValueError` with the reason if it cannot be read.
    """
    found = connection.execute(
        "SELECT path, sha256, mode, ended, after FROM preimage WHERE run = ? ORDER BY number", (run,)
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
        return msgspec.structs.replace(step, refusal="it holds already what it held before the run")
    if not ended:
        return msgspec.structs.replace(step, refusal="it is not known what the interrupted call left of it")
    if now != after:
        how = "removed" if now is None else "changed"
        return msgspec.structs.replace(step, refusal=f"it was {how} since the run")
    return step


def preimage(folder: Path, sha256: str) -> bytes:
    """What a file held, from the blobs below `folder`. Raises `StoreError` if that is not there whole."""
    if not re.fullmatch(r"[0-9a-f]{64}", sha256):
        raise StoreError("damaged", f"{sha256!r} names no pre-image")
    try:
        fd = os.open(folder / "blobs" / sha256, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as file:  # raises for a folder; of a pipe in its place there is nothing to read
            data = file.read() or b""
    except OSError as error:
        raise StoreError("io", f"the pre-image {sha256[:12]} cannot be read: {error.strerror or error}") from None
    if hashlib.sha256(data).hexdigest() != sha256:
        raise StoreError("damaged", f"the pre-image {sha256[:12]} is damaged; the file was left as it is")
    return data


def last_changing_run(connection: sqlite3.Connection, session: str) -> str | None:
    """The last run of the session that changed a file. A change that failed, and left all as it was, is none."""
    found = connection.execute(
        "SELECT r.id FROM run r WHERE r.session = ? AND EXISTS (SELECT 1 FROM preimage p WHERE p.run = r.id "
        "AND (NOT p.ended OR p.after IS NOT p.sha256)) "
        "ORDER BY r.number DESC LIMIT 1",
        (session,),
    ).fetchone()
    return None if found is None else str(found[0])
