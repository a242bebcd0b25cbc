"""Stores for tests: opened at a path, closed for certain, and killed as a process would be."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from sluice.session.check import Broken, check
from sluice.session.disk import reading
from sluice.session.opening import Opening, Wish, open_session
from sluice.session.store import SqliteStore
from sluice.values.messages import Usage
from sluice.values.notices import RunFinished
from sluice.values.results import ToolResult

PROJECT = "/project"
T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def words(result: ToolResult) -> str:
    return f"[{result.status}] {result.content}"


_count = iter(range(10**9))


async def opened(path: Path, wish: Wish, **more: Any) -> Opening:
    number = next(_count)
    more = {"new_id": lambda: f"ses_{number}", "words": words, **more}
    return await open_session(path, more.pop("project", PROJECT), wish, **more)


@asynccontextmanager
async def store(path: Path, how: str = "new", id: str = "", **more: Any) -> AsyncIterator[SqliteStore]:
    opening = await opened(path, Wish(how=how, id=id), **more)  # type: ignore[arg-type]
    try:
        yield opening.store
    finally:
        await opening.store.close()


async def killed(open_store: SqliteStore) -> None:
    """The process of this store dies: what is committed stays, its locks are gone, nothing is said good-bye to."""
    await open_store.close()


def end_told(run: str, *, saved: bool) -> RunFinished:
    """The notice of a run's end that says whether all of it was kept."""
    return RunFinished(
        run=run,
        outcome="failed",
        exit_code=1,
        message="",
        text="",
        message_id="",
        turns=1,
        tool_calls=1,
        usage=Usage(),
        saved=saved,
    )


def broken(path: Path, **more: Any) -> list[Broken]:
    with reading(path) as connection:
        return list(check(connection, path, **more).broken)


@contextmanager
def tampered(path: Path) -> Iterator[sqlite3.Connection]:
    """The database by hand, past all of our own rules."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA foreign_keys = OFF")
    try:
        yield connection
        connection.commit()
    finally:
        connection.close()


def rows_of(path: Path, query: str, *given: object) -> list[tuple[Any, ...]]:
    with reading(path) as connection:
        return connection.execute(query, given).fetchall()
