"""Sessions that are looked for in the wrong place: of another project, of a folder that was moved, in no store at all."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from pathlib import Path

import msgspec
import pytest
from run_world import end_of

from sluice.errors import ConfigurationError, StoreError
from sluice.run import sessions
from sluice.run.config import Settings, Wish, load
from sluice.run.elsewhere import adopted
from sluice.run.session_check import checked
from sluice.run.store_places import data_folder, project_stores, store_path
from sluice.run.undoing import undone
from sluice.run.wiring import open_agent, state_folder
from sluice.session import adopting
from sluice.values import notices as n


def _settings(workspace: Path, **more: object) -> Settings:
    workspace.mkdir(exist_ok=True, parents=True)
    fixture = workspace.parent / "fixture.json"
    fixture.write_text(json.dumps([{"role": "assistant", "content": "hi"}]))
    return Settings(workspace=str(workspace), mode="mock", mock_fixture=str(fixture), **more)  # type: ignore[arg-type]


def _run(settings: Settings, how: str = "new", id: str = "") -> tuple[str, str]:
    """The session of one run, and what was warned of."""
    settings = msgspec.structs.replace(settings, session=Wish(how=how, id=id))  # type: ignore[arg-type]

    async def body() -> list[n.Notice]:
        async with open_agent(settings) as agent:
            return [x async for x in agent.run("go")]

    found = asyncio.run(body())
    warned = " ".join(x.message for x in found if isinstance(x, n.Warned))
    return str(end_of(found).extra["session"]), warned


def test_a_session_of_another_project_is_answered_with_the_way_to_it(tmp_path: Path) -> None:
    there, here = _settings(tmp_path / "there it is"), _settings(tmp_path / "here")
    id, _warned = _run(there)
    way = rf"session {id} belongs to the project {there.workspace}; give -w '{there.workspace}'"
    for how in ("resume", "fork"):
        with pytest.raises(ConfigurationError, match=way):
            _run(here, how, id[:9])
    with pytest.raises(StoreError, match=way):
        b"".join(sessions.exported(here, id, "json"))
    with pytest.raises(StoreError, match=way):
        sessions.removed(here, [id])
    with pytest.raises(StoreError, match=r"no session is named 'nope'.*list --all"):
        sessions.removed(here, ["nope"])


def test_a_session_in_another_store_is_answered_with_that_store(tmp_path: Path) -> None:
    here = _settings(tmp_path / "here")
    id, _warned = _run(here)
    chosen = msgspec.structs.replace(here, session_store=str(tmp_path / "other.db"))
    _run(chosen)
    with pytest.raises(ConfigurationError, match=rf"-w {here.workspace} --session-store {store_path(here)}"):
        _run(chosen, "resume", id)


def test_what_is_wrong_with_a_session_that_is_there_is_said_as_it_is(tmp_path: Path) -> None:
    here = _settings(tmp_path / "here")
    other = _settings(tmp_path / "other")
    for one in (here, here, other):
        _run(one)
    with pytest.raises(ConfigurationError, match="begins more than one session: "):
        _run(here, "resume", "ses_")
    shared = msgspec.structs.replace(here, session_store=str(tmp_path / "s.db"))
    id, _warned = _run(shared)
    with pytest.raises(ConfigurationError, match="has no message 99"):
        asyncio.run(_open(msgspec.structs.replace(shared, workspace=other.workspace), Wish(how="fork", id=id, upto=99)))


async def _open(settings: Settings, wish: Wish) -> None:
    async with open_agent(msgspec.structs.replace(settings, session=wish)):
        pass


def test_a_folder_that_was_moved_is_named_with_what_takes_its_sessions_along(tmp_path: Path) -> None:
    old = _settings(tmp_path / "a" / "work")
    ids = [_run(old)[0] for _ in range(2)]
    (tmp_path / "b").mkdir()
    os.rename(old.workspace, tmp_path / "b" / "work")
    new = _settings(tmp_path / "b" / "work")
    command = f"sluice sessions adopt {old.workspace}"
    assert command in sessions.none_words(new, False)
    assert str(store_path(new)) in sessions.none_words(new, False)
    with pytest.raises(ConfigurationError, match=f"not there any more.*{command}"):
        _run(new, "resume", ids[0])
    begun, warned = _run(new, "continue")
    assert command in warned
    assert adopted(new, old.workspace) == ids
    assert [one.id for one in sessions.listed(new, False)] == [begun, ids[1], ids[0]]
    assert all(one.project == new.workspace and one.messages == 2 for one in sessions.listed(new, True))
    assert _run(new, "resume", ids[0])[0] == ids[0]
    found = checked(new, True, state=state_folder(), environ={})
    assert (found.broken, found.sessions) == ((), 3)
    with pytest.raises(StoreError, match="no session of"):
        adopted(new, old.workspace)


def test_what_is_taken_along_can_be_undone_in_the_new_folder(tmp_path: Path) -> None:
    old = _settings(tmp_path / "old", allow_mutating_tools=True)
    write = {"function": {"name": "write_file_safe", "arguments": {"path": "a.txt", "content": "made"}}}
    said = [{"role": "assistant", "tool_calls": [write]}, {"role": "assistant", "content": "done"}]
    Path(str(old.mock_fixture)).write_text(json.dumps(said))
    _run(old)
    os.rename(old.workspace, tmp_path / "new")
    new = msgspec.structs.replace(old, workspace=str(tmp_path / "new"))
    adopted(new, old.workspace)
    assert (tmp_path / "new" / "a.txt").read_text() == "made"
    assert [step.path for step in undone(new, "", state_folder()).restored] == ["a.txt"]
    assert not (tmp_path / "new" / "a.txt").exists()


def test_what_was_removed_after_a_death_is_not_taken_along_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = _settings(tmp_path / "old")
    gone, stays = (_run(old)[0] for _ in range(2))
    os.rename(old.workspace, tmp_path / "new")
    new, other = _settings(tmp_path / "new"), _settings(tmp_path / "other")
    _run(other)

    def dies(*_: object) -> None:
        raise RuntimeError("dead")

    with monkeypatch.context() as patching:
        patching.setattr(adopting, "begin", dies)  # behind the copy, before the removal
        with pytest.raises(StoreError, match="dead"):
            adopted(new, old.workspace)
    assert len(sessions.listed(new, True)) == 5
    assert sessions.removed(new, [gone]) == [gone]
    assert adopted(new, old.workspace) == [stays]
    assert [one.id for one in sessions.listed(new, False)] == [stays]
    assert len(sessions.listed(new, True)) == 2


def test_a_copy_of_a_store_is_removed_from_by_itself(tmp_path: Path) -> None:
    """Also where the folder is gone, or not there just now: the session itself stays."""
    old = _settings(tmp_path / "old")
    id, _warned = _run(old)
    store = store_path(old)
    assert store is not None
    copy = tmp_path / "copy.db"
    shutil.copy(store, copy)
    os.rename(old.workspace, tmp_path / "new")
    here = _settings(tmp_path / "new")
    assert sessions.removed(msgspec.structs.replace(here, session_store=str(copy)), [id], everywhere=True) == [id]
    assert [one.id for one in sessions.listed(here, True)] == [id]


def test_what_a_session_of_another_folder_changed_can_be_undone_where_the_folder_is_now(tmp_path: Path) -> None:
    first = _settings(tmp_path / "first", allow_mutating_tools=True, session_store=str(tmp_path / "s.db"))
    old = msgspec.structs.replace(first, workspace=str(tmp_path / "old"))
    new = msgspec.structs.replace(first, workspace=str(tmp_path / "new"))
    Path(old.workspace).mkdir()
    id, _warned = _run(first)
    write = {"function": {"name": "write_file_safe", "arguments": {"path": "a.txt", "content": "made"}}}
    said = [{"role": "assistant", "tool_calls": [write]}, {"role": "assistant", "content": "done"}]
    Path(str(old.mock_fixture)).write_text(json.dumps(said))
    _run(old, "resume", id)
    os.rename(old.workspace, new.workspace)
    assert adopted(new, old.workspace) == []
    assert [one.project for one in sessions.listed(new, True)] == [first.workspace]
    done = undone(new, id, state_folder())
    assert [step.path for step in done.restored] == ["a.txt"]
    assert not done.elsewhere
    with pytest.raises(StoreError, match="no session of"):
        adopted(new, old.workspace)


def test_a_folder_that_was_renamed_is_named_when_going_on_finds_nothing(tmp_path: Path) -> None:
    old = _settings(tmp_path / "old name")
    _run(old)
    os.rename(old.workspace, tmp_path / "new name")
    assert f"sluice sessions adopt '{old.workspace}'" in _run(_settings(tmp_path / "new name"), "continue")[1]


def test_a_folder_of_another_name_elsewhere_is_named_by_the_list_only(tmp_path: Path) -> None:
    old = _settings(tmp_path / "old name")
    _run(old)
    os.rename(old.workspace, tmp_path / "gone")
    new = _settings(tmp_path / "place" / "new name")
    assert f"sluice sessions adopt '{old.workspace}'" in sessions.none_words(new, False)
    assert "adopt" not in _run(new, "continue")[1]


def test_one_store_for_several_folders_keeps_what_is_taken_along(tmp_path: Path) -> None:
    old = _settings(tmp_path / "old", session_store=str(tmp_path / "s.db"))
    id, _warned = _run(old)
    os.rename(old.workspace, tmp_path / "new")
    new = msgspec.structs.replace(old, workspace=str(tmp_path / "new"))
    assert adopted(new, old.workspace) == [id]
    assert [one.id for one in sessions.listed(new, False)] == [id]


def test_what_is_still_there_or_in_use_stays(tmp_path: Path) -> None:
    old = _settings(tmp_path / "old")
    id, _warned = _run(old)
    new = _settings(tmp_path / "new")
    with pytest.raises(ConfigurationError, match="still there"):
        adopted(new, old.workspace)

    async def body() -> None:
        async with open_agent(msgspec.structs.replace(old, session=Wish(how="resume", id=id))):
            os.rename(old.workspace, tmp_path / "moved")
            with pytest.raises(StoreError, match="in use by process"):
                adopted(new, old.workspace)

    asyncio.run(body())
    assert [one.project for one in sessions.listed(new, True)] == [old.workspace]


@pytest.mark.parametrize("everywhere", [False, True])
def test_a_store_that_was_chosen_and_is_not_there_is_no_empty_one(everywhere: bool, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    for name, word in (
        ("no.db", "there is no session store at"),
        ("folder", "there is no"),
        ("fifo", "no regular file"),
    ):
        settings = _settings(tmp_path / "work", session_store=str(tmp_path / name))
        for act in (
            lambda settings=settings: sessions.listed(settings, everywhere),
            lambda settings=settings: sessions.removed(settings, [], everywhere, 0),
            lambda settings=settings: checked(settings, everywhere, state=state_folder(), environ={}),
            lambda settings=settings: b"".join(sessions.exported(settings, "x", "md", everywhere)),
            lambda settings=settings: sessions.repaired(settings),
        ):
            with pytest.raises(StoreError, match=word):
                act()
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(("no", "fo", "fi"))) == [
        "fifo",
        "fixture.json",
        "folder",
    ]


def test_where_a_session_would_be_is_said(tmp_path: Path) -> None:
    settings = _settings(tmp_path / "work")
    assert sessions.none_words(settings, True) == f"no sessions in {data_folder() / 'projects'}"
    assert ":memory:" in sessions.none_words(msgspec.structs.replace(settings, session_store=":memory:"), False)
    with pytest.raises(StoreError, match="there is no folder"):
        sessions.none_words(msgspec.structs.replace(settings, workspace=str(tmp_path / "gone")), False)
    assert project_stores() == []


def test_a_folder_for_the_store_may_be_one_that_is_not_there_yet(tmp_path: Path) -> None:
    flags = {"session_store": "new/", "workspace": str(tmp_path)}
    found = load(flags, {}, cwd=tmp_path, user_config=tmp_path / "none.toml").settings
    assert store_path(found) == tmp_path / "new" / "sessions.db"
