"""What is written of a session: a reply that has not ended, and a reader who takes his time."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from session_world import killed, opened, run, store, tampered

from sluice.errors import StoreError
from sluice.session import export
from sluice.session.disk import reading
from sluice.session.opening import Wish
from sluice.session.unsaved import Unsaved
from sluice.testing.store_kit import asks
from sluice.values.messages import AssistantMessage, Message, ToolMessage, UserMessage

Form = Callable[[sqlite3.Connection, str], Iterator[Any]]
FORMS = pytest.mark.parametrize("form", [export.as_json, export.as_markdown])


def _both(path: Path) -> tuple[dict[str, Any], str]:
    with reading(path) as connection:
        found = json.loads(b"".join(export.as_json(connection, "ses")))
        return found, "".join(export.as_markdown(connection, "ses"))


def test_from_memory_each_message_is_in_its_place_and_can_be_written() -> None:
    said: list[Message] = [
        UserMessage("a"),
        AssistantMessage(content="one"),
        UserMessage("a"),
        AssistantMessage(content="two"),
    ]
    lost = AssistantMessage(content="cut \ud800")
    before = UserMessage("of a context that was made smaller since")
    result = ToolMessage("call_1", "look", "seen", True)
    unsaved = [
        Unsaved(run="r0", message=before, behind=UserMessage("gone")),
        Unsaved(run="r1", message=lost, behind=said[2]),
        Unsaved(run="r1", message=UserMessage("first"), behind=None),
        Unsaved(run="r2", message=result, behind=said[3]),
    ]
    given = ("ses", "/work \udcff", (*said, result), unsaved)
    found = json.loads(b"".join(export.memory_as_json(*given)))
    assert [(m["message"]["content"], m["state"], m["run"]) for m in found["messages"]] == [
        (before.content, "unsaved", "r0"),
        ("first", "unsaved", "r1"),
        ("a", "whole", None),
        ("one", "whole", None),
        ("a", "whole", None),
        ("cut \ufffd", "unsaved", "r1"),
        ("two", "whole", None),
        ("seen", "unsaved", "r2"),
    ]
    shown = "".join(export.memory_as_markdown(*given))
    assert shown.encode().count(b"(not in the store)") == 4


@pytest.mark.parametrize("dead", [False, True])
def test_what_has_arrived_of_a_reply_is_shown(dead: bool, tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def body() -> tuple[dict[str, Any], str]:
        s = (await opened(path, Wish(), new_id=lambda: "ses")).store
        await s.started("r", UserMessage("go"))
        await s.reply_began("r", 1)
        await s.delta("r", "reasoning", "a thought")
        await s.delta("r", "text", "word " * 3)
        await s.delta("r", "text", "and more")
        await s.delta("r", "call", "write")
        await s.call_grew("r", 0, 120)
        await s.history()  # committed with it
        if dead:
            await killed(s)
            return _both(path)
        found = _both(path)
        await s.finished("r", "aborted")
        await s.close()
        return found

    found, shown = run(body())
    message = found["messages"][1]
    assert (message["state"], message["message"]["content"]) == ("open", "word word word and more")
    assert message["message"]["reasoning"][0]["text"] == "a thought"
    assert "## 2 · Assistant (open: as far as it has arrived)\n\n> a thought\n\nword word word and more\n" in shown
    assert "Call of `write`, arriving (not whole yet: 120 bytes of its arguments have arrived)\n" in shown


def _long(path: Path, count: int) -> None:
    async def body() -> None:
        async with store(path, new_id=lambda: "ses") as s:
            for number in range(count):
                await s.started(f"r{number}", UserMessage("x" * (2 * 1024 * 1024 if number == 1 else 10)))
                await s.append(f"r{number}", asks("a"))
                await s.append(f"r{number}", ToolMessage("a", "look", f"result {number}"))
                await s.finished(f"r{number}", "completed")

    run(body())


@FORMS
def test_who_reads_slowly_keeps_no_log_from_being_emptied(form: Form, tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    _long(path, 8)
    writer = sqlite3.connect(path, isolation_level=None)
    with reading(path) as connection:
        for number, _piece in enumerate(form(connection, "ses")):
            writer.execute("UPDATE run SET started_at = ?", (number,))
            (busy, *_sizes) = writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            assert not busy, f"after piece {number} the reader holds a view of the store"
    writer.close()
    assert number > 8


@FORMS
def test_the_steps_do_not_show(form: Form, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s.db"
    _long(path, 4)
    with reading(path) as connection:
        whole = list(form(connection, "ses"))
        monkeypatch.setattr(export, "_STEP_MESSAGES", 1)
        assert list(form(connection, "ses")) == whole
        monkeypatch.setattr(export, "_STEP_BYTES", 100)
        monkeypatch.setattr(export, "_STEP_MESSAGES", 1000)
        assert list(form(connection, "ses")) == whole


@FORMS
def test_it_ends_where_the_session_ended_when_it_began(form: Form, tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    _long(path, 2)

    async def more() -> None:
        async with store(path, "resume", "ses") as s:
            await s.started("later", UserMessage("came later"))
            await s.finished("later", "completed")

    with reading(path) as connection:
        pieces = form(connection, "ses")
        first = next(pieces)
        run(more())
        rest = list(pieces)
    assert "came later" not in str([first, *rest])
    assert "result 1" in str(rest)


@FORMS
def test_a_session_that_is_removed_meanwhile_is_said(form: Form, tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    _long(path, 4)
    with reading(path) as connection:
        pieces = form(connection, "ses")
        next(pieces)
        with tampered(path) as other:
            for table, column in (("part", "session"), ("message", "session"), ("run", "session"), ("session", "id")):
                other.execute(f"DELETE FROM {table} WHERE {column} = 'ses'")
        with pytest.raises(StoreError, match="removed while"):
            list(pieces)


def test_what_is_damaged_in_a_run_is_no_fault_of_the_export(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def body() -> None:
        async with store(path, id="", new_id=lambda: "ses") as s:
            await s.started("r", UserMessage("go"))
            await s.finished("r", "completed")

    run(body())
    with tampered(path) as connection:
        connection.execute("INSERT INTO usage VALUES ('r', 0, 1, x'00', NULL)")
        connection.execute("INSERT INTO notice VALUES ('r', 90, '{\"torn')")
    found, text = _both(path)
    assert found["runs"][0]["usage"][0]["usage"] is None
    assert found["runs"][0]["notices"][-1] == '{"torn'
    assert "go" in text


@FORMS
def test_a_number_that_is_none_any_more_is_said_in_one_line(form: Form, tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def body() -> None:
        async with store(path, id="", new_id=lambda: "ses") as s:
            await s.started("r", UserMessage("go"))
            await s.finished("r", "completed")

    run(body())
    with tampered(path) as connection:
        connection.execute("UPDATE message SET seq = 'ses'")
    with reading(path) as connection, pytest.raises(StoreError, match="sluice sessions repair"):
        list(form(connection, "ses"))
