"""Values that no column of ours holds, as an editing hand leaves them: one line from each reader, a finding of `check`."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from session_world import broken, opened, run, store, tampered

from sluice.errors import StoreError
from sluice.session import catalog, export
from sluice.session.disk import reading
from sluice.session.kinds import wrong_kinds
from sluice.session.opening import Wish
from sluice.session.usage import replies
from sluice.testing.store_kit import allowed, asks, well
from sluice.values.calls import CallKey
from sluice.values.messages import ToolMessage, Usage, UserMessage
from sluice.values.notices import TurnFinished

Reader = Callable[[sqlite3.Connection, Path], object]
READERS: dict[str, Reader] = {
    "list": lambda connection, path: list(catalog.listed(connection, path)),
    "json": lambda connection, _path: list(export.as_json(connection, "ses")),
    "md": lambda connection, _path: list(export.as_markdown(connection, "ses")),
    "usage": lambda connection, _path: sum(turn for _run, turn, _usage, _cost in replies(connection, "ses")),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with a session, a fork of it, and a row in every table that a run of one call leaves."""
    path = tmp_path / "s.db"

    async def body() -> None:
        async with store(path, new_id=lambda: "ses") as s:
            await s.started("r", UserMessage("hello"))
            await s.reply_began("r", 1)
            await s.delta("r", "text", "so")
            await s.append("r", asks("a", text="so"))
            key = CallKey("r", 1, 0)
            await s.asked(key, "look", allowed("r").verdict.digest)
            await s.answered(key, True)
            await s.call_started(allowed("r"))
            await s.call_ended(allowed("r"), well())
            await s.append("r", ToolMessage("a", "look", "seen"))
            used = Usage(input_tokens=1, output_tokens=1)
            await s.noted("r", TurnFinished(turn=1, stop_reason="stop", usage=used))
            await s.finished("r", "completed")
        async with store(path, "fork", "ses", new_id=lambda: "fork"):
            pass

    run(body())
    assert broken(path) == []
    return path


def _columns(path: Path) -> Iterator[tuple[str, str]]:
    with reading(path) as connection:
        for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            if connection.execute(f"SELECT 1 FROM {table}").fetchone():
                yield from ((table, row[1]) for row in connection.execute(f"PRAGMA table_info({table})"))


def test_every_column_is_held_to_its_kind_and_no_reader_breaks_over_it(path: Path) -> None:
    sound, seen = path.read_bytes(), 0
    for table, column in list(_columns(path)):
        path.write_bytes(sound)
        with tampered(path) as connection:
            connection.execute("PRAGMA ignore_check_constraints = ON")
            if (table, column) == ("migration", "version"):
                continue  # the number of the row itself: SQLite holds that to its kind
            if not connection.execute(f"UPDATE OR IGNORE {table} SET {column} = x'ff00'").rowcount:
                continue
        seen += 1
        assert any(b.promise == "F2" and f"{table}.{column}" == b.where for b in broken(path)), column
        for use in READERS.values():
            with contextlib.suppress(StoreError), reading(path) as connection:
                use(connection, path)
    assert seen > 30


@pytest.mark.parametrize(
    ("reader", "edit", "where"),
    [
        ("list", "UPDATE session SET id = NULL WHERE id = 'fork'", "session.id"),
        ("list", "UPDATE session SET created_at = 'x'", ""),
        ("list", "UPDATE run SET outcome = x'00'", ""),
        ("md", "UPDATE session SET project = x'ff'", "session.project"),
        ("md", "UPDATE session SET parent = x'ff'", "session.parent"),
        ("json", "UPDATE message SET seq = 'x' WHERE seq = 3", ""),
        ("usage", "UPDATE usage SET turn = 'x'", "usage.turn"),
        ("usage", "UPDATE usage SET usage = '['", ""),
    ],
)
def test_what_a_reader_stumbles_over_is_one_line(reader: str, edit: str, where: str, path: Path) -> None:
    with tampered(path) as connection:
        connection.execute(edit)
    with pytest.raises(StoreError) as caught, reading(path) as connection:
        READERS[reader](connection, path)
    assert caught.value.kind == "damaged"
    assert where in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("parent", ["", "@", "ses@", "@1", "ses@x", "ses@-1", "ses@²", f"ses@{10**30}"])
def test_an_odd_parent_is_a_finding_that_says_what_it_is(parent: str, path: Path) -> None:
    with tampered(path) as connection:
        connection.execute("UPDATE session SET parent = ? WHERE id = 'fork'", (parent,))
    assert [(b.promise, b.where) for b in broken(path)] == [("K1", "fork")]
    assert repr(parent[:80]) in broken(path)[0].words


@pytest.mark.parametrize("edit", ["UPDATE run SET duration_ns = 'x'", "UPDATE usage SET usage = '['"])
def test_a_checker_that_stumbles_is_a_finding(edit: str, path: Path) -> None:
    with tampered(path) as connection:
        connection.execute(edit)
    assert "F2" in {b.promise for b in broken(path)}


def test_a_fault_of_our_own_stays_one(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TypeError, match="ours"), reading(path):
        raise TypeError("ours")

    def stumbles(_view: Any) -> Any:
        raise TypeError("ours")

    monkeypatch.setitem(__import__("sluice.session.check", fromlist=["PROMISES"]).PROMISES, "D1", stumbles)
    with pytest.raises(TypeError, match="ours"):
        broken(path)


def test_going_on_in_such_a_session_is_one_line_or_works(path: Path) -> None:
    for edit in ("UPDATE message SET seq = 'x' WHERE seq = 3", "UPDATE message SET head = '['"):
        with tampered(path) as connection:
            connection.execute(edit)

        async def body() -> None:
            opening = await opened(path, Wish(how="resume", id="ses"))
            try:
                await opening.store.history()
            finally:
                await opening.store.close()

        with contextlib.suppress(StoreError):
            run(body())


def test_columns_of_no_kind_and_odd_names_are_passed_over() -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute('CREATE TABLE "a ""b" (any, "c""d" TEXT, blob BLOB)')
    connection.execute("""INSERT INTO "a ""b" VALUES (x'00', 'x', x'00')""")
    assert list(wrong_kinds(connection)) == []
    connection.execute("""UPDATE "a ""b" SET "c""d" = x'00'""")
    assert list(wrong_kinds(connection)) == [('a "b.c"d', "a value in it is of the kind blob, and should be text")]
    connection.close()
