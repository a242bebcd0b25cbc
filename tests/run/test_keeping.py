"""One bound over all that is kept: measured rarely, made room for by what was allowed, and then said in one line."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sluice.errors import ConfigurationError
from sluice.run import keeping, sessions
from sluice.run.config import Settings, Wish
from sluice.run.keeping import in_words, kept_lines, kept_now, kept_within
from sluice.run.parts import RandomIds
from sluice.run.result_text import result_text
from sluice.run.store_places import data_folder, store_path
from sluice.run.wiring import open_agent, state_folder
from sluice.session.audit import AuditLog
from sluice.session.audit_files import closed_files
from sluice.session.audit_reading import verify
from sluice.session.blobs import BlobJournal
from sluice.session.catalog import lock_folder
from sluice.session.kept import Kept
from sluice.session.locks import SessionLock
from sluice.session.opening import open_session
from sluice.testing.store_kit import asks
from sluice.ui.cli import main
from sluice.values.calls import CallKey, call_digest
from sluice.values.messages import AssistantMessage, UserMessage

MIB = 2**20
DAY = 86_400


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "work").mkdir()
    (tmp_path / "fixture.json").write_text('[{"role": "assistant", "content": "hi"}]')
    return Settings(workspace=str(tmp_path / "work"), mode="mock", mock_fixture=str(tmp_path / "fixture.json"))


def session(
    settings: Settings, size: int = 10, workspace: str | None = None, days_ago: float = 0.0, *, waits: bool = False
) -> str:
    """A session of so many bytes in the store of a workspace, used so many days ago. One that `waits` died at a question."""
    if workspace is not None:
        settings = msgspec.structs.replace(settings, workspace=workspace)
    path = store_path(settings)
    assert path is not None
    at = time.time() - days_ago * DAY

    async def body() -> str:
        id = RandomIds().new("ses")
        opening = await open_session(
            path, settings.workspace, Wish(), new_id=lambda: id, words=result_text, now=lambda: at
        )
        store = opening.store
        await store.started(f"run_{id}", UserMessage("x" * size))
        if waits:
            await store.append(f"run_{id}", asks("a"))
            await store.asked(CallKey(f"run_{id}", 1, 0), "look", call_digest("look", "{}"))
        else:
            await store.append(f"run_{id}", AssistantMessage(content="done"))
            await store.finished(f"run_{id}", "completed")
        await store.close()
        return id

    return asyncio.run(body())


def within(settings: Settings, now: float | None = None, **changes: Any) -> list[str]:
    wanted = msgspec.structs.replace(settings, **changes)
    return asyncio.run(kept_within(wanted, state_folder(), now=lambda: now or time.time()))


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows with each look at every file."""
    found: list[int] = []
    real = keeping.kept_now
    monkeypatch.setattr(keeping, "kept_now", lambda state: found.append(1) or real(state))
    return found


def audit(files: int, at: float = 1000.0) -> None:
    log = AuditLog(str(state_folder() / "audit.jsonl"), max_bytes=100, now=lambda: at)
    for n in range(files + 1):
        log.record("x", n=n)
    log.close()
    assert len(closed_files(str(state_folder() / "audit.jsonl"))) == files


def recorded(days_ago: float) -> None:
    """A line that goes into the file that is written now."""
    log = AuditLog(str(state_folder() / "audit.jsonl"), now=lambda: time.time() - days_ago * DAY)
    log.record("x")
    log.close()


def test_everything_is_counted_under_what_it_is(settings: Settings) -> None:
    session(settings, 2 * MIB)
    BlobJournal(str(state_folder())).keep("a", b"x" * MIB, 0o600)
    audit(2)
    store = store_path(settings)
    assert store is not None
    Path(f"{store}.damaged-20200101-000000").write_bytes(b"x" * 3 * MIB)
    (state_folder() / "prompts").mkdir()
    (state_folder() / "prompts" / "a.jsonl").write_bytes(b"x" * MIB)
    found = kept_now(state_folder())
    for size, least in ((found.sessions, 2), (found.preimages, 1), (found.damaged, 3), (found.other, 1)):
        assert least * MIB <= size < (least + 1) * MIB
    assert 0 < found.audit < MIB
    assert found.stores == 1
    assert found.largest == (str(store.parent), found.sessions)
    real = sum(p.stat().st_size for top in (data_folder(), state_folder()) for p in top.rglob("*") if p.is_file())
    assert real <= found.total < real + 100_000  # a small file takes a block
    lines = list(kept_lines(found, 8 * 2**30))
    assert "at most 8.0 GiB: kept_bytes" in lines[0]
    assert any("pre-images" in line for line in lines)


def test_nothing_kept_is_nothing(settings: Settings) -> None:
    assert kept_now(state_folder()) == Kept()
    assert within(settings) == []
    assert not state_folder().exists()


def test_one_folder_for_both_is_counted_once(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    session(settings, MIB)
    once = kept_now(state_folder()).total
    assert kept_now(data_folder()).total == kept_now(data_folder().parent).total == once
    assert kept_now(data_folder() / "projects").sessions == once


def test_it_is_looked_at_once_an_hour_while_there_is_room(settings: Settings, looks: list[int]) -> None:
    session(settings)
    state_folder().mkdir(parents=True, exist_ok=True)
    assert [within(settings, now=at) for at in (1000.0, 1001.0, 4599.0)] == [[], [], []]
    assert len(looks) == 1
    within(settings, now=4601.0)
    within(settings, now=10.0)  # a clock that went back makes nothing true for ever
    assert len(looks) == 3
    (state_folder() / "kept.json").write_bytes(b"\xff no figures")
    within(settings, now=4602.0)
    assert len(looks) == 4
    assert (state_folder() / "kept.json").stat().st_mode & 0o777 == 0o600


def test_nothing_is_looked_at_where_nothing_is_bound_or_kept(settings: Settings, looks: list[int]) -> None:
    session(settings)
    assert within(settings, kept_bytes=None) == []
    assert within(settings, kept_bytes=1, session_store=":memory:") == []
    assert looks == []


def test_near_the_bound_a_run_is_told_and_goes_on(settings: Settings, looks: list[int]) -> None:
    session(settings, 2 * MIB)
    bound = int(kept_now(state_folder()).total * 1.05)
    for _ in range(2):
        (line,) = within(settings, kept_bytes=bound)
        assert f"of the {in_words(bound)} that kept_bytes allows" in line
        assert "sluice sessions rm --all --older-than 30" in line
    assert len(looks) == 2
    assert "\n" not in line


def test_over_the_bound_no_session_is_opened_and_one_line_says_what_makes_room(settings: Settings) -> None:
    other = session(settings, 3 * MIB, "/some/other")
    session(settings)

    async def go(**changes: Any) -> None:
        async with open_agent(msgspec.structs.replace(settings, **changes)) as agent:
            assert [x async for x in agent.run("go")]

    with pytest.raises(ConfigurationError) as caught:
        asyncio.run(go(kept_bytes=MIB))
    words = str(caught.value)
    assert "\n" not in words
    for part in (
        "Sluice keeps 3.",
        "kept_bytes allows (1.0 MiB)",
        "/projects/other-",
        "sessions rm --all --older-than",
    ):
        assert part in words
    for wish in (Wish(how="continue"), Wish(how="resume", id=other)):
        with pytest.raises(ConfigurationError, match="kept_bytes"):
            asyncio.run(go(kept_bytes=MIB, session=wish))
    asyncio.run(go(kept_bytes=MIB, session_store=":memory:"))
    assert len(sessions.listed(settings, True)) == 2  # all that reads goes on
    assert sessions.removed(settings, [other], everywhere=True) == [other]
    assert keeping.given_back(settings, True) > 2 * MIB
    asyncio.run(go(kept_bytes=MIB))  # at once: nobody believes an old figure


def test_a_session_that_is_open_goes_on(settings: Settings) -> None:
    async def body() -> list[str]:
        async with open_agent(settings) as agent:
            (data_folder() / "projects" / "big").mkdir()
            (data_folder() / "projects" / "big" / "sessions.db").write_bytes(b"x" * MIB)
            return [type(x).__name__ async for x in agent.run("go")]

    (settings,) = (msgspec.structs.replace(settings, kept_bytes=MIB),)
    assert asyncio.run(body())[-1] == "RunFinished"


@pytest.mark.parametrize("waits", [False, True])
def test_what_the_user_allowed_to_go_goes_first(waits: bool, settings: Settings) -> None:
    old = session(settings, 3 * MIB, "/some/other", days_ago=40, waits=waits)
    new = session(settings, days_ago=2)
    BlobJournal(str(state_folder())).keep("a", b"x" * MIB, 0o600)
    for blob in (state_folder() / "blobs").iterdir():
        os.utime(blob, (time.time() - 40 * DAY,) * 2)
    with pytest.raises(ConfigurationError):
        within(settings, kept_bytes=MIB)  # nobody said that sessions may go
    assert kept_now(state_folder()).preimages < MIB  # no session needs it, and it is old
    assert {one.id for one in sessions.listed(settings, True)} == {old, new}
    told = within(settings, kept_bytes=MIB, session_days=30)
    of_them = "; in it calls waited for your approval" if waits else ""
    assert told == [f"1 session unused for 30 days was removed (session_days){of_them}"]
    assert [one.id for one in sessions.listed(settings, True)] == [new]


def test_a_clock_that_jumped_removes_nothing(settings: Settings) -> None:
    for workspace in ("/some/other", settings.workspace):
        session(settings, 2 * MIB, workspace, days_ago=40)
    with pytest.raises(ConfigurationError, match="kept_bytes"):
        within(settings, kept_bytes=MIB, session_days=30)
    session(settings, days_ago=0.01)  # by the clock that may be wrong
    with pytest.raises(ConfigurationError, match="kept_bytes"):
        within(settings, kept_bytes=MIB, session_days=30)
    assert len(sessions.listed(settings, True)) == 3


@pytest.mark.parametrize("how", ["continue", "resume", "fork"])
def test_the_session_that_is_wished_for_stays(how: Any, settings: Settings) -> None:
    session(settings, 3 * MIB, days_ago=41)
    wished = session(settings, days_ago=40)
    session(settings, workspace="/some/other", days_ago=2)
    wish = Wish(how=how, id="" if how == "continue" else wished)
    assert within(settings, kept_bytes=MIB, session_days=30, session=wish)[0].startswith("1 session unused")
    assert [one.id for one in sessions.listed(settings, False)] == [wished]


def test_a_store_that_cannot_be_read_stays_and_stops_nothing(settings: Settings) -> None:
    session(settings, 3 * MIB, "/some/other", days_ago=40)
    session(settings, days_ago=2)
    broken = data_folder() / "projects" / "a" / "sessions.db"
    broken.parent.mkdir()
    broken.write_bytes(b"no database, and kept as it is")
    assert len(within(settings, kept_bytes=MIB, session_days=30)) == 1
    assert broken.read_bytes() == b"no database, and kept as it is"


def test_the_kind_that_takes_most_says_what_makes_room(settings: Settings) -> None:
    audit(3)
    with pytest.raises(ConfigurationError, match="sluice audit prune --older-than 30"):
        within(settings, kept_bytes=10)
    (data_folder() / "projects" / "a").mkdir(parents=True)
    (data_folder() / "projects" / "a" / "sessions.db.damaged-1").write_bytes(b"x" * MIB)
    with pytest.raises(ConfigurationError, match=r"sessions\.db\.damaged-…"):
        within(settings, kept_bytes=10)


def test_old_files_of_the_audit_log_go_if_the_user_said_so(settings: Settings) -> None:
    audit(3)
    recorded(2)
    path = str(state_folder() / "audit.jsonl")
    assert within(settings) == []
    assert within(settings, audit_days=1e9) == []
    assert len(closed_files(path)) == 3
    assert within(settings, audit_days=30) == ["3 files of the audit log older than 30 days were removed (audit_days)"]
    assert closed_files(path) == []
    assert verify(path).whole
    assert verify(path).removed == 3


def test_an_audit_log_that_cannot_be_shortened_is_told_and_stops_nothing(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit(2)
    recorded(2)

    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "unlink", refused)
    (line,) = within(settings, audit_days=30)
    assert "Permission denied" in line


def test_a_wrong_clock_takes_nothing_of_the_audit_log(settings: Settings) -> None:
    audit(3, time.time() - 5)
    path, ahead = str(state_folder() / "audit.jsonl"), time.time() + 365 * DAY
    for days in (90.0, 1.0, 0.5):
        (line,) = within(settings, ahead, audit_days=days)
        assert "the clock may be wrong" in line
    assert len(closed_files(path)) == 3
    recorded(-363.5)  # a day later by that clock it still says so, and a record of the day before bears it out
    assert within(settings, ahead, audit_days=90) == [
        "3 files of the audit log older than 90 days were removed (audit_days)"
    ]
    assert verify(path).whole


@pytest.mark.parametrize(
    ("size", "words"), [(0, "0 bytes"), (1024, "1.0 KiB"), (3 * 2**29, "1.5 GiB"), (5 * MIB, "5.0 MiB")]
)
def test_sizes_are_told_in_words(size: int, words: str) -> None:
    assert in_words(size) == words


def test_the_command_that_makes_room_names_what_stays_because_it_is_in_use(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = [session(settings, 10, days_ago=40) for _ in range(2)]
    path = store_path(settings)
    assert path is not None
    with contextlib.closing(SessionLock(lock_folder(path), ids[0])):
        assert main(["-w", settings.workspace, "sessions", "rm", "--older-than", "30"]) == 0
    told = capsys.readouterr()
    assert told.out.startswith(f"removed 1 session: {ids[1]}")
    assert told.err == f"1 session in use stayed: {ids[0]}\n"


def test_the_command_that_makes_room_gives_it_back_and_goes_past_a_broken_store(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = session(settings, 3 * MIB, "/some/other")
    assert main(["sessions", "rm", "--all", "--older-than", "0"]) == 0
    out = capsys.readouterr().out
    assert gone in out
    assert re.search(r"the disk has 3\.\d MiB of sessions back", out)
    broken = data_folder() / "projects" / "a" / "sessions.db"
    broken.parent.mkdir()
    broken.write_bytes(b"no database, and kept as it is")
    gone = session(settings)
    assert main(["sessions", "rm", "--all", "--older-than", "0"]) != 0
    told = capsys.readouterr()
    assert str(broken) in told.err
    assert f"(removed: {gone})" in told.err
    assert sessions.listed(settings, False) == []
