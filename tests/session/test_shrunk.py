"""The shrunk form of a conversation: what a resumed session sends, beside rows that stay as they are."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest
from session_world import broken, opened, rows_of, run, store, tampered

from sluice.errors import StoreError
from sluice.session.disk import migrate, migrations
from sluice.session.memory import MemoryStore
from sluice.session.opening import Wish
from sluice.session.store import SqliteStore
from sluice.testing.store_kit import asks
from sluice.values.messages import AssistantMessage, Conversation, ImagePart, TextPart, ToolMessage, Usage, UserMessage
from sluice.values.notices import AlsoUsed, Summarised

SUMMARY = UserMessage("[Summary] what was done", origin="host")


def result(id: str, content: str = "saw it") -> ToolMessage:
    return ToolMessage(call_id=id, name="look", content=content)


async def _talked(s: SqliteStore | MemoryStore, name: str = "r") -> None:
    await s.started(name, UserMessage("look at it"))
    for turn in (1, 2, 3):
        await s.reply_began(name, turn)
        await s.append(name, asks(f"{name}{turn}"))
        await s.append(name, result(f"{name}{turn}", "long " * 100))


async def _sent(
    path: Path, how: str = "continue", id: str = "", upto: int | None = None
) -> tuple[Conversation, Conversation]:
    opening = await opened(path, Wish(how=how, id=id, upto=upto))  # type: ignore[arg-type]
    try:
        return await opening.store.sent(), await opening.store.history()
    finally:
        await opening.store.close()


SHORT: Conversation = (SUMMARY, asks("r3"), result("r3", "short"))


async def _shrunk(path: Path) -> None:
    async with store(path) as s:
        await _talked(s)
        await s.shrank(SHORT)
        await s.append("r", AssistantMessage(content="done"))
        await s.finished("r", "completed")


def test_a_reopened_session_sends_the_shrunk_form_and_what_came_after_it_and_keeps_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    run(_shrunk(path))
    sent, history = run(_sent(path))
    assert sent == (*SHORT, AssistantMessage(content="done"))
    assert len(history) == 8
    assert broken(path) == []


def test_the_last_form_counts_and_without_one_everything_is_sent(tmp_path: Path) -> None:
    async def body(s: SqliteStore | MemoryStore) -> None:
        await _talked(s)
        assert await s.sent() == await s.history()
        await s.shrank(SHORT)
        await s.append("r", AssistantMessage(content="more"))
        await s.shrank((SUMMARY,))
        assert await s.sent() == (SUMMARY,)
        await s.finished("r", "completed")
        await s.started("q", UserMessage("and now?"))
        assert await s.sent() == (SUMMARY, UserMessage("and now?"))

    async def both() -> None:
        await body(MemoryStore())
        async with store(tmp_path / "s.db") as s:
            await body(s)

    run(both())


def test_every_kind_of_message_comes_back_equal(tmp_path: Path) -> None:
    image = UserMessage((TextPart("see"), ImagePart(media_type="image/png", data="aGk=")))
    odd = result("r3", "a\ud800b")

    async def body() -> Conversation:
        async with store(tmp_path / "s.db") as s:
            await _talked(s)
            await s.shrank((image, asks("r3"), odd))
            return await s.sent()

    sent = run(body())
    assert sent[:2] == (image, asks("r3"))
    assert isinstance(sent[2], ToolMessage)
    assert "\ud800" not in sent[2].content


def test_recovered_results_come_behind_the_shrunk_form(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def body() -> None:
        async with store(path) as s:
            await _talked(s)
            await s.shrank(SHORT)
            await s.append("r", asks("x", "y"))

    run(body())
    sent, _history = run(_sent(path))
    assert [m.call_id for m in sent if isinstance(m, ToolMessage)] == ["r3", "x", "y"]


def test_a_reply_that_was_given_up_is_not_counted(tmp_path: Path) -> None:
    """The provider found the request too long: its reply's row is there already, and is dropped."""
    path = tmp_path / "s.db"

    async def body() -> None:
        async with store(path) as s:
            await _talked(s)
            await s.reply_began("r", 4)
            await s.shrank(SHORT)
            await s.reply_began("r", 4)
            await s.append("r", AssistantMessage(content="done"))
            await s.finished("r", "completed")

    run(body())
    assert run(_sent(path))[0] == (*SHORT, AssistantMessage(content="done"))


@pytest.mark.parametrize("body", ["[]x", '[{"role": "nobody"}]', None])
def test_a_damaged_form_is_passed_over_and_said_by_check(body: str | None, tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    run(_shrunk(path))
    with tampered(path) as connection:
        if body is None:
            connection.execute("UPDATE shrunk SET crc = crc + 1")
        else:
            connection.execute("UPDATE shrunk SET body = ?", (body,))
    sent, history = run(_sent(path))
    assert sent == history
    assert [b.promise for b in broken(path)] == ["F2"]


@pytest.mark.parametrize(("upto", "shrunk"), [(None, True), (8, True), (7, True), (5, False), (1, False)])
def test_a_fork_sends_the_shrunk_form_if_it_holds_all_that_it_stands_for(
    upto: int | None, shrunk: bool, tmp_path: Path
) -> None:
    path = tmp_path / "s.db"
    run(_shrunk(path))
    (source,) = rows_of(path, "SELECT id FROM session")[0]
    sent, history = run(_sent(path, "fork", source, upto))
    assert (sent[0] == SUMMARY) is shrunk
    assert history[0] == UserMessage("look at it")


def test_rows_that_a_fork_leaves_out_do_not_shift_it(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def body() -> str:
        async with store(path) as s:
            await s.started("q", UserMessage("first"))
            await s.reply_began("q", 1)
            await s.finished("q", "cancelled")  # the begun reply is dropped, and its number stays taken
            await _talked(s)
            await s.shrank(SHORT)
            await s.append("r", AssistantMessage(content="done"))
            await s.finished("r", "completed")
            return s.session

    source = run(body())
    assert run(_sent(path, "fork", source))[0] == (*SHORT, AssistantMessage(content="done"))


def test_a_reply_that_is_arriving_comes_behind_the_shrunk_form(tmp_path: Path) -> None:
    async def body() -> Conversation:
        async with store(tmp_path / "s.db") as s:
            await _talked(s)
            await s.reply_began("r", 4)
            await s.shrank(SHORT)
            await s.append("r", AssistantMessage(content="done"))
            return await s.sent()

    assert run(body()) == (*SHORT, AssistantMessage(content="done"))


@pytest.mark.parametrize("named", ["r", ""])
def test_what_a_summary_used_is_kept_with_its_run_as_turn_0(named: str, tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    usage = Usage(input_tokens=100, output_tokens=10)

    async def body() -> None:
        async with store(path) as s:
            await _talked(s, "q")
            await s.finished("q", "completed")
            await _talked(s)
            await s.noted(named, Summarised(before=9, after=1, usage=usage, cost=0.5))
            await s.noted(named, Summarised(before=9, after=1))
            await s.finished("r", "completed")

    run(body())
    assert rows_of(path, "SELECT run, turn, cost FROM usage") == [("r", 0, 0.5)]
    assert len(rows_of(path, "SELECT * FROM notice WHERE run = 'r'")) == 2


def test_what_was_used_beside_a_reply_is_kept_as_a_turn_below_0(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    usage = Usage(input_tokens=100)

    async def body() -> None:
        async with store(path) as s:
            await _talked(s)
            await s.noted("r", AlsoUsed(turn=2, by="attempt", usage=usage, cost=0.5))
            await s.finished("r", "completed")

    run(body())
    assert rows_of(path, "SELECT run, turn, cost FROM usage") == [("r", -2, 0.5)]


def test_before_the_first_run_a_notice_has_no_place(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def body() -> None:
        async with store(path) as s:
            await s.noted("", Summarised(before=9, after=1))
            await s.started("r", UserMessage("x"))
            await s.finished("r", "completed")

    run(body())
    assert rows_of(path, "SELECT * FROM notice") == []


def test_nothing_can_be_shrunk_before_there_is_anything(tmp_path: Path) -> None:
    async def body() -> None:
        async with store(tmp_path / "s.db") as s:
            with pytest.raises(StoreError):
                await s.shrank(SHORT)

    run(body())


def test_removing_a_session_takes_it_along(tmp_path: Path) -> None:
    from sluice.session.database import Database
    from sluice.session.removal import remove_now

    path = tmp_path / "s.db"
    run(_shrunk(path))
    (session,) = rows_of(path, "SELECT id FROM session")[0]
    database = Database(path)
    remove_now(database, [session])
    database.close()
    assert rows_of(path, "SELECT * FROM shrunk") == []


def test_the_end_of_a_conversation_can_be_had_alone(tmp_path: Path) -> None:
    async def body(s: SqliteStore | MemoryStore) -> None:
        await _talked(s)
        history = await s.history()
        assert await s.last_exchanges(1) == history[-2:]
        assert await s.last_exchanges(2) == history[-4:]
        assert await s.last_exchanges(3) == history[1:]
        assert await s.last_exchanges(10) == history

    async def both() -> None:
        await body(MemoryStore())
        async with store(tmp_path / "s.db") as s:
            await body(s)

    run(both())


def test_a_store_of_the_first_schema_gets_its_table_and_can_be_checked_before_that(tmp_path: Path) -> None:
    path, old = tmp_path / "s.db", tmp_path / "old.db"
    run(_shrunk(path))
    connection = sqlite3.connect(old, isolation_level=None)
    migrate(connection, migrations()[:1])
    connection.execute("ATTACH ? AS new", (str(path),))
    for table in ("session", "run", "message", "part"):
        connection.execute(f"INSERT INTO main.{table} SELECT * FROM new.{table}")
    connection.close()
    shutil.copyfile(old, path)  # the mode stays
    assert broken(path) == []
    sent, history = run(_sent(path))
    assert sent == history
    assert len(history) == 8
