"""Giving the disk back what removed sessions took. SQLite keeps the pages of removed rows for the rows to come."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

from sluice.errors import StoreError
from sluice.session.disk import open_writing, store_error
from sluice.session.file_systems import on_network
from sluice.session.locks import FileLock

_LEAST_BYTES = 1024 * 1024  # that must be free; less is soon used again
_LEAST_PART = 8  # and no less than one part in so many, because all the rest is copied
_WAIT_SECONDS = 2.0  # for whoever is just writing


def used_bytes(connection: sqlite3.Connection) -> int:
    """Bytes of the store without the pages that removed rows have left free."""
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    free = connection.execute("PRAGMA freelist_count").fetchone()[0]
    return int(connection.execute("PRAGMA page_size").fetchone()[0]) * (int(pages) - int(free))


def give_back(path: Path) -> int:
    """Makes the file of the store at `path` smaller, if much of it is free and nobody else has it open.

    Returns by how many bytes. Done by SQLite in one transaction: killed or on a full disk, the file is as it was. Raises
    `StoreError`.
    """
    try:
        with contextlib.ExitStack() as stack:
            before = os.stat(path).st_size
            users = stack.enter_context(contextlib.closing(FileLock(Path(f"{path}.users"))))
            turn = stack.enter_context(contextlib.closing(FileLock(Path(f"{path}.turn"))))
            if not users.try_exclusive() or not turn.wait(_WAIT_SECONDS):
                return 0
            connection = open_writing(path, check=False, network=on_network(path))
            stack.callback(connection.close)
            connection.execute(f"PRAGMA busy_timeout = {int(_WAIT_SECONDS * 1000)}")
            _vacuum(connection)
            return max(before - os.stat(path).st_size, 0)
    except (StoreError, sqlite3.Error, OSError) as error:
        found = store_error(error, path)
        if found.kind == "busy":  # somebody reads it
            return 0
        raise found from None


def _vacuum(connection: sqlite3.Connection) -> None:
    size = int(connection.execute("PRAGMA page_size").fetchone()[0])
    pages = int(connection.execute("PRAGMA page_count").fetchone()[0])
    free = int(connection.execute("PRAGMA freelist_count").fetchone()[0])
    if free * size < _LEAST_BYTES or free * _LEAST_PART < pages:
        return
    mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
    if mode == "wal" and connection.execute("PRAGMA journal_mode = delete").fetchone()[0] != "delete":
        return  # somebody has it open; and the log would grow to the size of the file
    try:
        connection.execute("VACUUM")
    finally:
        if mode == "wal":
            with contextlib.suppress(sqlite3.Error):  # whoever writes next sets it too
                connection.execute("PRAGMA journal_mode = wal").fetchone()
