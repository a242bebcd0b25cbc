"""Taking back what runs changed: one after another, in their own folder, and never under a run that goes on."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from run_world import end_of

from sluice.errors import StoreError
from sluice.run.config import Settings, Wish
from sluice.run.store_places import store_path
from sluice.run.undoing import Undone, undone
from sluice.run.wiring import open_agent, state_folder
from sluice.session.check import check
from sluice.session.database import Database
from sluice.session.disk import reading
from sluice.session.locks import SessionLock
from sluice.values import notices as n


def _settings(folder: Path, *messages: dict[str, Any], **more: Any) -> Settings:
    workspace = folder / "work"
    workspace.mkdir(exist_ok=True)
    fixture = folder / "fixture.json"
    fixture.write_text(json.dumps([{"role": "assistant", **m} for m in messages]))
    more = {"allow_mutating_tools": True, "session_store": str(folder / "s.db"), "workspace": str(workspace), **more}
    return Settings(mode="mock", mock_fixture=str(fixture), **more)


def _call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"function": {"name": name, "arguments": arguments}}]}


def _run(settings: Settings, how: str = "new", id: str = "") -> str:
    """One run; returns its session."""

    async def body() -> list[n.Notice]:
        async with open_agent(msgspec.structs.replace(settings, session=Wish(how=how, id=id))) as agent:  # type: ignore[arg-type]
            return [x async for x in agent.run("change it")]

    return str(end_of(asyncio.run(body())).extra["session"])


def _writes(
    folder: Path, how: str = "new", id: str = "", *, work: Path | None = None, session_store: Any = "", **files: str
) -> str:
    """A run that reads and then writes these files (`a` is `a.txt`)."""
    work = work or folder / "work"
    work.mkdir(exist_ok=True)
    there = [_call("read_file_safe", path=f"{name}.txt") for name in files if (work / f"{name}.txt").exists()]
    changes = [
        _call("write_file_safe", path=f"{name}.txt", content=content, mode="replace")
        if (work / f"{name}.txt").exists()
        else _call("write_file_safe", path=f"{name}.txt", content=content)
        for name, content in files.items()
    ]
    more = {"workspace": str(work), **({} if session_store == "" else {"session_store": session_store})}
    session = _run(_settings(folder, *there, *changes, {"content": "done"}, **more), how, id)
    assert {name: (work / f"{name}.txt").read_text() for name in files} == files
    return session


def _undo(folder: Path, wanted: str = "", *, work: Path | None = None, **more: Any) -> Undone:
    return undone(_settings(folder, workspace=str(work or folder / "work")), wanted, state_folder(), **more)


def _sound(folder: Path) -> None:
    with reading(folder / "s.db") as connection:
        assert check(connection, folder / "s.db").broken == ()


def _names(steps: tuple[Any, ...]) -> list[str]:
    return [step.path for step in steps]


def test_what_a_run_changed_is_given_back_and_what_it_does_not_touch_is_named(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("old\n")
    (work / "b.txt").write_text("old b\n")
    (work / "a.txt").chmod(0o640)
    settings = _settings(
        tmp_path,
        _call("read_file_safe", path="a.txt"),
        _call("read_file_safe", path="b.txt"),
        _call("write_file_safe", path="a.txt", content="new\n", mode="replace"),
        _call("write_file_safe", path="a.txt", content="newer\n", mode="replace"),
        _call("write_file_safe", path="b.txt", content="new b\n", mode="replace"),
        _call("write_file_safe", path="sub/c.txt", content="made\n"),
        {"content": "done"},
    )
    session = _run(settings)
    (work / "b.txt").write_text("by hand\n")
    would = _undo(tmp_path, dry=True)
    assert (work / "a.txt").read_text() == "newer\n"
    assert [re.sub(r"\d{4}-\S* \S*:$", "NOW:", line) for line in would.lines(True)] == [
        f"run 1 of session {session}, begun NOW:",
        "would remove sub/c.txt",
        "would restore a.txt",
        "left b.txt: it was changed since the run",
    ]
    done = _undo(tmp_path)
    assert (done.restored, done.left, done.run) == (would.restored, would.left, 1)
    assert list(done.lines())[1:] == [
        "removed sub/c.txt",
        "restored a.txt",
        "left b.txt: it was changed since the run",
        "sub is empty now, and stays: whether the run made it is not known",
        "what was left can be tried again with --run 1",
    ]
    assert (work / "a.txt").read_text() == "old\n"
    assert (work / "a.txt").stat().st_mode & 0o777 == 0o640
    assert not (work / "sub" / "c.txt").exists()
    assert (work / "b.txt").read_text() == "by hand\n"
    done = _undo(tmp_path)
    assert list(done.lines()) == [
        f"nothing to undo in session {done.session}; `sluice sessions undo ID` looks into another one"
    ]
    (work / "b.txt").write_text("new b\n")
    again = _undo(tmp_path, number=1)
    assert (_names(again.restored), _names(again.unchanged)) == (["b.txt"], ["sub/c.txt", "a.txt"])
    _sound(tmp_path)


def test_a_removed_file_gets_its_permissions_back_but_no_others_rights(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "run.sh").write_text("echo\n")
    (work / "run.sh").chmod(0o4750)
    delete = _call("apply_patch", patch="*** Begin Patch\n*** Delete File: run.sh\n*** End Patch\n")
    _run(_settings(tmp_path, _call("read_file_safe", path="run.sh"), delete, {"content": "done"}))
    assert not (work / "run.sh").exists()
    assert _names(_undo(tmp_path).restored) == ["run.sh"]
    assert (work / "run.sh").stat().st_mode & 0o7777 == 0o750


def test_a_run_whose_change_failed_does_not_hide_the_one_before(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("old\n")
    (work / "b.txt").write_text("b\n")
    (work / "b.txt").chmod(0o444)
    _writes(tmp_path, a="new\n")
    patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-new\n+newer\n*** Delete File: b.txt\n*** End Patch\n"
    reads = [_call("read_file_safe", path="a.txt"), _call("read_file_safe", path="b.txt")]
    _run(_settings(tmp_path, *reads, _call("apply_patch", patch=patch), {"content": "could not"}), "continue")
    assert (work / "a.txt").read_text() == "new\n"
    assert _names(_undo(tmp_path).restored) == ["a.txt"]
    assert (work / "a.txt").read_text() == "old\n"


def test_each_undo_takes_back_the_run_before(tmp_path: Path) -> None:
    file = tmp_path / "work" / "a.txt"
    session = _writes(tmp_path, a="A")
    for content in "BAB":  # what a run made before is made again, so the files alone do not tell how far an undo came
        _writes(tmp_path, "resume", session, a=content)
    for number, content in ((4, "A"), (3, "B"), (2, "A"), (1, None)):
        done = _undo(tmp_path)
        assert (done.run, done.left, done.earlier) == (number, (), number - 1 or None)
        assert (file.read_text() if file.exists() else None) == content
    done = _undo(tmp_path)
    assert list(done.lines()) == [
        f"nothing to undo in session {done.session}; `sluice sessions undo ID` looks into another one"
    ]
    _writes(tmp_path, "resume", session, a="C")
    assert _undo(tmp_path).run == 5
    assert _undo(tmp_path).run is None
    _sound(tmp_path)


def test_a_run_that_was_undone_by_hand_is_passed_once(tmp_path: Path) -> None:
    session = _writes(tmp_path, a="A")
    _writes(tmp_path, "resume", session, a="B")
    (tmp_path / "work" / "a.txt").write_text("A")
    by_hand = _undo(tmp_path)
    assert (by_hand.run, by_hand.restored, by_hand.left) == (2, (), ())
    assert list(by_hand.lines())[1:] == ["a.txt holds already what it held before the run"]
    assert _undo(tmp_path).run == 1
    assert not (tmp_path / "work" / "a.txt").exists()


def test_where_nothing_can_be_given_back_the_run_before_is_not_touched_unasked(tmp_path: Path) -> None:
    session = _writes(tmp_path, a="A", b="1")
    _writes(tmp_path, "resume", session, a="B")
    (tmp_path / "work" / "a.txt").write_text("by hand")
    for _again in range(2):
        left = _undo(tmp_path)
        assert (left.run, _names(left.left), left.restored) == (2, ["a.txt"], ())
        assert list(left.lines())[-1] == "nothing was given back; --run 1 takes back the run before"
        assert (tmp_path / "work" / "b.txt").exists()
    asked = _undo(tmp_path, number=1)
    assert (_names(asked.restored), _names(asked.left)) == (["b.txt"], ["a.txt"])
    with pytest.raises(StoreError, match=f"run 7 of session {session} changed no file"):
        _undo(tmp_path, number=7)


def test_a_pre_image_that_is_gone_leaves_its_file_and_no_other(tmp_path: Path) -> None:
    session = _writes(tmp_path, a="A", b="1")
    _writes(tmp_path, "resume", session, a="B", b="2")
    (gone,) = [p for p in (state_folder() / "blobs").iterdir() if p.read_bytes() == b"A"]
    gone.unlink()
    done = _undo(tmp_path)
    assert _names(done.restored) == ["b.txt"]
    assert [line for line in done.lines() if "a.txt" in line] == [
        f"left a.txt: what it held before is not kept any more ({str(gone)!r})"
    ]
    assert (tmp_path / "work" / "a.txt").read_text() == "B"


def test_a_session_of_two_folders_is_taken_back_in_each_by_itself(tmp_path: Path) -> None:
    """The same path is another file there: the content of one must never be written into the other."""
    one, two = tmp_path / "work", tmp_path / "two"
    session = _writes(tmp_path, a="one", work=one)
    (two).mkdir()
    (two / "a.txt").write_text("private")
    _writes(tmp_path, "resume", session, work=two, a="one")
    first = _undo(tmp_path, session, work=one)
    assert (first.run, _names(first.restored)) == (1, ["a.txt"])
    assert not (one / "a.txt").exists()
    assert list(first.lines())[-1] == f"the session changed files of {two} too: undo those with -w {two}"
    (one / "a.txt").write_text("one")
    for wanted in ("", session):
        nothing = _undo(tmp_path, wanted, work=one)
        assert (nothing.run, list(nothing.elsewhere)) == (None, [str(two)])
    assert (one / "a.txt").read_text() == "one"
    there = _undo(tmp_path, work=two)
    assert (there.session, there.run, _names(there.restored), there.elsewhere) == (session, 2, ["a.txt"], {})
    assert (two / "a.txt").read_text() == "private"
    with pytest.raises(StoreError, match="no session"):
        _undo(tmp_path, work=tmp_path)
    _sound(tmp_path)


def test_how_to_undo_elsewhere_names_the_store_where_that_needs_it(tmp_path: Path) -> None:
    two = tmp_path / "two folders"
    own = _settings(tmp_path, session_store=None)
    store = str(store_path(own))
    session = _writes(tmp_path, a="one", session_store=None)
    _writes(tmp_path, "resume", session, work=two, a="two", session_store=store)
    with pytest.raises(StoreError, match="belongs to the project"):
        undone(_settings(tmp_path, session_store=None, workspace=str(two)), session, state_folder())
    with pytest.raises(StoreError, match="no session is named"):
        undone(own, "nope", state_folder())
    found = undone(own, session, state_folder(), dry=True)
    assert found.elsewhere == {str(two): f"-w '{two}' --session-store {store}"}


@pytest.mark.parametrize("dry", [False, True])
def test_nothing_is_taken_back_under_a_run_that_goes_on(dry: bool, tmp_path: Path) -> None:
    session = _writes(tmp_path, a="A")
    lock = SessionLock(tmp_path / "s.db.locks", session)
    try:
        with pytest.raises(StoreError, match=f"session {session} is in use by process {os.getpid()}") as said:
            _undo(tmp_path, dry=dry)
        assert said.value.kind == "held"
        assert (tmp_path / "work" / "a.txt").exists()
        assert _undo(tmp_path, holding=True).run == 1
    finally:
        lock.close()
    assert not list((tmp_path / "s.db.locks").iterdir())


def test_nobody_begins_to_work_while_files_are_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = _writes(tmp_path, a="A")
    held = []

    def change_all(*_given: Any, **_more: Any) -> None:
        with pytest.raises(StoreError, match="in use"):
            SessionLock(tmp_path / "s.db.locks", session)
        held.append(session)

    monkeypatch.setattr("sluice.tools.workspace.Workspace.change_all", change_all)
    _undo(tmp_path)
    assert held == [session]


def test_a_store_that_takes_nothing_is_said_and_the_files_are_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _writes(tmp_path, a="A")

    def refuse(*_given: Any) -> None:
        raise StoreError("read_only", "it may not be written")

    monkeypatch.setattr(Database, "write_now", refuse)
    done = _undo(tmp_path)
    assert (_names(done.restored), done.unmarked) == (["a.txt"], "it may not be written")
    assert not (tmp_path / "work" / "a.txt").exists()
    monkeypatch.undo()
    assert _names(_undo(tmp_path).unchanged) == ["a.txt"]
    assert _undo(tmp_path).run is None


def test_where_no_lock_can_be_made_only_a_disk_for_reading_does_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _writes(tmp_path, a="A")

    def refuse(kind: int) -> Any:
        def lock(*_given: Any) -> None:
            raise OSError(kind, os.strerror(kind))

        return lock

    monkeypatch.setattr("sluice.session.locks.SessionLock", refuse(errno.ENOSPC))
    with pytest.raises(
        StoreError, match=r"locked in '.*s\.db\.locks': No space left on device; nothing was undone"
    ) as said:
        _undo(tmp_path)
    assert said.value.kind == "full"
    monkeypatch.setattr("sluice.session.locks.SessionLock", refuse(errno.EACCES))
    with pytest.raises(StoreError, match="Permission denied"):
        _undo(tmp_path)
    monkeypatch.setattr("sluice.session.locks.SessionLock", refuse(errno.EROFS))
    assert _names(_undo(tmp_path).restored) == ["a.txt"]
