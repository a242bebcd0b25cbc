"""A session of very many messages: opening it looks at its end only, and reading it takes memory in proportion."""

from __future__ import annotations

import sqlite3
import tracemalloc
from pathlib import Path

import pytest
from session_world import run, store, words

from sluice.session import rows
from sluice.session.disk import open_writing
from sluice.session.resume import recover
from sluice.session.shrunk import sent
from sluice.values.messages import AssistantMessage, ToolCall, UserMessage


def _filled(path: Path, count: int) -> None:
    """A session of so many messages whose last run died with a call that had not started."""

    async def body() -> None:
        async with store(path) as s:
            await s.started("first", UserMessage("go"))
            await s.finished("first", "completed")
            await s.database.write(lambda connection: fill(connection, s.session))
            await s.started("last", UserMessage("go on"))
            await s.append("last", AssistantMessage(tool_calls=(ToolCall(id="a", name="look", arguments="{}"),)))

    def fill(connection: sqlite3.Connection, session: str) -> None:
        for seq in range(2, count):
            message = UserMessage(f"prompt {seq}") if seq % 2 else AssistantMessage(content=f"answer {seq} " * 5)
            rows.put(connection, session, seq, message, run="first")

    run(body())


def _steps(path: Path) -> int:
    """Steps of SQLite's machine that making the session right takes, in hundreds."""
    connection = open_writing(path, check=False, network=None)
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    try:
        (session,) = connection.execute("SELECT id FROM session").fetchone()
        connection.set_progress_handler(count, 100)
        found = recover(connection, session, words)
        assert [one.not_started for one in found] == [("look",)]
        return steps
    finally:
        connection.close()


def test_recovery_does_not_read_the_whole_session(tmp_path: Path) -> None:
    _filled(tmp_path / "short.db", 300)
    _filled(tmp_path / "long.db", 6000)
    assert _steps(tmp_path / "long.db") <= _steps(tmp_path / "short.db") * 2 + 10


@pytest.mark.timeout(120)
def test_a_long_history_takes_memory_in_proportion(tmp_path: Path) -> None:
    """Ten thousand messages take less than a tenth of what a hundred thousand may: 300 MB."""
    path = tmp_path / "s.db"
    _filled(path, 10_000)
    connection = open_writing(path, check=False, network=None)
    try:
        (session,) = connection.execute("SELECT id FROM session").fetchone()
        tracemalloc.start()
        assert len(sent(connection, session)) > 9_000
        assert tracemalloc.get_traced_memory()[1] < 25 * 2**20
    finally:
        tracemalloc.stop()
        connection.close()
