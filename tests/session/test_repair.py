"""Repair: what can be read is saved into a new file, what is lost is said, and the old file is kept as it was."""

from __future__ import annotations

import asyncio
import os
import random
import stat
from pathlib import Path

import pytest
from session_world import broken, opened, rows_of, run, store, tampered

from sluice.errors import StoreError
from sluice.session.disk import VERSION, reading
from sluice.session.opening import Wish
from sluice.session.repair import repair
from sluice.session.resume import UNKNOWN
from sluice.session.rows import stored_messages
from sluice.testing.store_kit import allowed, asks, pairs_hold, well
from sluice.values.messages import AssistantMessage, Conversation, ToolMessage, UserMessage

SESSIONS = 6


async def _filled(path: Path, id: str) -> None:
    opening = await opened(path, Wish(), new_id=lambda: id)
    s = opening.store
    try:
        await s.started(f"{id}r1", UserMessage(f"prompt of {id}"))
        await s.reply_began(f"{id}r1", 1)
        await s.delta(f"{id}r1", "text", "let me look")
        await s.append(f"{id}r1", asks("a", "b", text="let me look"))
        for position, call in enumerate("ab"):
            await s.call_started(allowed(f"{id}r1", position=position))
            await s.call_ended(allowed(f"{id}r1", position=position), well(content="x" * 3000))
            await s.append(f"{id}r1", ToolMessage(call, "look", "x" * 3000))
        await s.append(f"{id}r1", AssistantMessage(content="done " * 300))
        await s.finished(f"{id}r1", "completed")
    finally:
        await s.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    where = tmp_path / "s.db"
    for number in range(SESSIONS):
        run(_filled(where, f"ses{number}"))
    return where


def _history(path: Path, id: str) -> Conversation:
    async def body() -> Conversation:
        async with store(path, "resume", id) as s:
            return await s.history()

    return run(body())


def test_a_sound_store_is_left_as_it_is(path: Path) -> None:
    before = path.read_bytes()
    assert repair(path, "/project").aside is None
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir() if "damaged" in p.name or "repair" in p.name] == []


def test_what_a_repair_that_died_left_is_taken_away_and_what_is_kept_is_private(path: Path) -> None:
    def dying(_path: Path, folder: Path, *_: object) -> None:
        folder.with_name(f"{folder.name}_left").mkdir()  # what a death leaves, as nobody cleans up behind it
        (folder.with_name(f"{folder.name}_left") / "copy.db").write_bytes(b"a copy")
        raise SystemExit

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sluice.session.repair._repaired", dying)
        for _ in range(2):
            with pytest.raises(SystemExit):
                repair(path, "/project")
            assert len(list(path.parent.glob(".repair-*"))) == 1
    other = path.parent / ".repair-of-another-store"
    other.mkdir()
    with tampered(path) as database:
        database.execute("UPDATE part SET crc = 0 WHERE kind = 'result'")
    path.chmod(0o644)
    aside = repair(path, "/project").aside
    assert aside is not None
    assert aside.stat().st_mode & 0o777 == 0o600
    assert list(path.parent.glob(".repair-*")) == [other]


def test_a_lost_result_becomes_unknown_and_the_rest_stays(path: Path) -> None:
    whole = {id: _history(path, id) for id in ("ses0", "ses1")}
    with tampered(path) as connection:
        connection.execute("UPDATE part SET body = body || '!' WHERE session = 'ses0' AND seq = 3")
    before = path.read_bytes()
    done = repair(path, "/project")
    assert done.aside is not None
    assert done.aside.read_bytes() == before
    assert (done.sessions, done.left) == (SESSIONS, ())
    assert any("ses0" in line and "message 3" in line for line in done.lost)
    assert _history(path, "ses1") == whole["ses1"]
    history = _history(path, "ses0")
    pairs_hold(history)
    assert history[2] == ToolMessage("a", "look", UNKNOWN, ok=False, status="unknown_outcome")
    assert (*history[:2], *history[3:]) == (*whole["ses0"][:2], *whole["ses0"][3:])
    assert broken(path) == []
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_lost_reply_takes_its_results_with_it(path: Path) -> None:
    with tampered(path) as connection:
        connection.execute("UPDATE part SET crc = crc + 1 WHERE session = 'ses2' AND seq = 2")
    done = repair(path, "/project")
    assert done.left == ()
    assert [type(m).__name__ for m in _history(path, "ses2")] == ["UserMessage", "AssistantMessage"]
    assert rows_of(path, "SELECT count(*) FROM call WHERE run = 'ses2r1'") == [(0,)]
    assert len(_history(path, "ses3")) == 5


def test_a_reply_that_was_arriving_is_gone_on_with(path: Path) -> None:
    async def body() -> None:
        opening = await opened(path, Wish(how="resume", id="ses4"))
        try:
            await opening.store.started("late", UserMessage("more"))
            await opening.store.reply_began("late", 1)
            await opening.store.delta("late", "text", "half an ans")
        finally:
            await opening.store.close()

    run(body())
    with tampered(path) as connection:
        connection.execute("UPDATE part SET crc = crc + 1 WHERE session = 'ses5' AND seq = 1")
    assert repair(path, "/project").left == ()
    assert _history(path, "ses4")[-1] == AssistantMessage(content="half an ans", stop_reason="aborted")


def test_a_call_whose_start_may_be_lost_is_not_said_not_to_have_run(path: Path) -> None:
    """P2: where the table of starts cannot be read whole, recovery may not say that nothing was done."""

    async def body() -> None:
        opening = await opened(path, Wish(how="resume", id="ses4"))
        try:
            await opening.store.started("late", UserMessage("more"))
            await opening.store.append("late", asks("z"))
            await opening.store.call_started(allowed("late"))
        finally:
            await opening.store.close()

    run(body())
    with reading(path) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'call'").fetchone()
    data = bytearray(path.read_bytes())
    data[(page - 1) * 4096 : page * 4096] = b"\x55" * 4096
    path.write_bytes(data)
    done = repair(path, "/project")
    assert "a part of the table call cannot be read" in done.lost
    assert _history(path, "ses4")[-1] == ToolMessage("z", "look", UNKNOWN, ok=False, status="unknown_outcome")


@pytest.mark.parametrize("size", [16, 100, 4096])
def test_a_destroyed_beginning_loses_nothing(path: Path, size: int) -> None:
    whole = {f"ses{n}": _history(path, f"ses{n}") for n in range(SESSIONS)}
    data = bytearray(path.read_bytes())
    data[:size] = random.Random(1).randbytes(size)
    path.write_bytes(data)
    with pytest.raises(StoreError, match="sluice sessions repair"):
        _history(path, "ses0")
    done = repair(path, "/project")
    assert (done.sessions, done.lost, done.left) == (SESSIONS, (), ())
    assert {id: _history(path, id) for id in whole} == whole


def test_a_destroyed_page_costs_what_stood_on_it_at_most(path: Path) -> None:
    """Whichever page it is: the new file keeps its promises, goes on, and the old one is there byte for byte."""
    good = path.read_bytes()
    kept = []
    for page in range(1, len(good) // 4096):
        where = path.parent / f"page{page}" / "s.db"
        where.parent.mkdir()
        data = bytearray(good)
        data[page * 4096 : (page + 1) * 4096] = bytes(4096)
        where.write_bytes(data)
        done = repair(where, "/project")
        if done.aside is None:
            continue  # a page that nothing stands on
        assert done.aside.read_bytes() == data
        assert done.left == (), page
        with reading(where) as connection:
            ids = [id for (id,) in connection.execute("SELECT id FROM session ORDER BY last")]
            kept.append(sum(1 for id in ids for _ in stored_messages(connection, id)))
        for id in ids[:1]:
            pairs_hold(_history(where, id))
    assert sum(kept) / len(kept) > SESSIONS * 5 * 0.7


def test_what_is_in_use_newer_or_not_ours_is_not_touched(path: Path, tmp_path: Path) -> None:
    async def body() -> None:
        async with store(path, "resume", "ses0"):
            with pytest.raises(StoreError) as error:
                await asyncio.to_thread(repair, path, "/project")
            assert error.value.kind == "held"

    run(body())
    with tampered(path) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    with pytest.raises(StoreError) as error:
        repair(path, "/project")
    assert error.value.kind == "newer"
    with tampered(path) as connection:
        connection.execute("PRAGMA application_id = 7")
    with pytest.raises(StoreError) as error:
        repair(path, "/project")
    assert error.value.kind == "foreign"
    with pytest.raises(StoreError, match="there is no session store"):
        repair(tmp_path / "absent.db", "/project")


def test_where_nothing_can_be_read_nothing_is_done(path: Path) -> None:
    """It may be no store at all: a file that was named by mistake stays where it is."""
    path.write_bytes(b"\x01" * 20_000)
    with pytest.raises(StoreError, match=r"nothing of .* can be read"):
        repair(path, "/project")
    assert path.read_bytes() == b"\x01" * 20_000
    assert [p.name for p in path.parent.iterdir() if "damaged" in p.name or "repair" in p.name] == []


def test_a_session_of_which_only_the_messages_are_left_is_kept(path: Path) -> None:
    whole = _history(path, "ses1")
    with tampered(path) as connection:
        connection.execute("DELETE FROM session WHERE id = 'ses1'")
    done = repair(path, "/project")
    assert done.left == ()
    assert any("ses1" in line for line in done.lost)
    assert _history(path, "ses1") == whole


def test_a_message_whose_session_is_damaged_in_its_row_stays_where_it_stands(path: Path) -> None:
    before = _history(path, "ses3")
    data = path.read_bytes()
    assert data.count(b"ses3\x03ses3r1") == 1
    path.write_bytes(data.replace(b"ses3\x03ses3r1", b"se\x153\x03ses3r1"))
    repair(path, "/project")
    assert broken(path) == []
    assert _history(path, "ses3") == before


def test_a_session_whose_id_is_none_any_more_is_left_out_and_the_store_can_be_used(path: Path) -> None:
    with tampered(path) as connection:
        connection.execute("UPDATE session SET id = 'ses 2' WHERE id = 'ses2'")
    repaired = repair(path, "/project")
    assert any("a session of which the id is damaged" in line for line in repaired.lost)
    assert broken(path) == []

    async def body() -> None:
        async with store(path, "continue"):
            pass

    run(body())


def test_a_column_that_lost_its_name_is_no_fault_of_the_program(path: Path) -> None:
    with tampered(path) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "UPDATE sqlite_schema SET sql = replace(sql, 'crc INTEGER', 'cRx INTEGER') WHERE name = 'part'"
        )
    repaired = repair(path, "/project")
    assert repaired.aside is not None
    assert not repaired.lost, "it can be read under our own names"
    assert broken(path) == []


def test_the_old_log_is_out_of_the_way_on_disk_before_the_new_file_is_there(path: Path, monkeypatch) -> None:
    done: list[str] = []
    rename, sync = os.rename, os.fsync

    def renamed(old: object, new: object) -> None:
        done.append("log aside" if str(old).endswith("-wal") else "new file")
        rename(str(old), str(new))

    def synced(fd: int) -> None:
        done.append("folder" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file")
        sync(fd)

    with tampered(path) as connection:
        connection.execute("UPDATE part SET crc = crc + 1 WHERE session = 'ses1' AND seq = 1")
    Path(f"{path}-wal").write_bytes(b"a log of which nothing can be read")
    monkeypatch.setattr(os, "rename", renamed)
    monkeypatch.setattr(os, "fsync", synced)
    assert repair(path, "/project").aside is not None
    assert done[-5:] == ["file", "log aside", "folder", "new file", "folder"]


def test_a_message_of_which_a_part_cannot_be_written_is_lost_as_a_whole(path: Path) -> None:
    with tampered(path) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute("UPDATE part SET kind = 'rexult' WHERE session = 'ses1' AND seq = 3")
    repaired = repair(path, "/project")
    assert any("message 3" in line for line in repaired.lost)
    assert broken(path) == []
    pairs_hold(_history(path, "ses1"))


def test_a_lost_index_or_column_is_damage(path: Path) -> None:
    with tampered(path) as connection:
        connection.execute("DROP INDEX open_message")
    assert repair(path, "/project").aside is not None
    with tampered(path) as connection:
        connection.execute("ALTER TABLE approval RENAME COLUMN granted TO grented")
    assert repair(path, "/project").aside is not None
    assert repair(path, "/project").aside is None
    assert broken(path) == []


def test_a_run_that_lost_its_duration_ended_all_the_same(path: Path) -> None:
    with tampered(path) as connection:
        connection.execute("UPDATE run SET duration_ns = NULL WHERE session = 'ses1'")
        connection.execute("UPDATE part SET crc = crc + 1 WHERE session = 'ses5' AND seq = 1")
    repair(path, "/project")
    assert broken(path) == []
