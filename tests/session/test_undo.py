"""Undo: which run is taken back, of which folder, and which of its files can be."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from session_world import PROJECT, broken, rows_of, run, store, tampered

from sluice.errors import StoreError
from sluice.session import undo
from sluice.session.disk import migrate, reading
from sluice.session.export import as_json
from sluice.session.repair import repair
from sluice.session.store import SqliteStore
from sluice.testing.store_kit import allowed, asks, well
from sluice.values.messages import ToolMessage, UserMessage


def _digest(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()


async def _changes(s: SqliteStore, name: str, *, before: str, after: str, path: str = "a.txt") -> None:
    """A run with one call that changed one file."""
    await s.started(name, UserMessage("x"))
    await s.append(name, asks("a"))
    await s.call_started(allowed(name))
    s.keep_preimage(f"h_{name}", path, _digest(before), 0o644)
    s.seen = lambda: {path: _digest(after)}
    await s.call_ended(allowed(name), well())
    await s.append(name, ToolMessage("a", "look", "seen"))
    await s.finished(name, "completed")


def _number(connection: sqlite3.Connection, session: str, workspace: str, **more: Any) -> int | None:
    found = undo.changing_run(connection, session, workspace, **more)
    return None if found is None else found.number


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Session `ses` of the project: run 1 and 2 there, run 3 in another folder; session `b` is used after it."""
    path = tmp_path / "s.db"

    async def body() -> None:
        async with store(path, new_id=lambda: "ses") as s:
            await _changes(s, "r1", before="A", after="B")
            await _changes(s, "r2", before="B", after="C")
        async with store(path, "resume", "ses", project="/other") as s:
            await _changes(s, "r3", before="X", after="Y")
        async with store(path, new_id=lambda: "b") as s:
            await s.started("r4", UserMessage("x"))
            await s.finished("r4", "completed")

    run(body())
    return path


def test_a_run_is_taken_back_in_the_folder_that_it_changed(path: Path) -> None:
    with reading(path) as connection:
        assert _number(connection, "ses", PROJECT) == 2
        assert _number(connection, "ses", "/other") == 3
        assert undo.elsewhere(connection, "ses", PROJECT, after=2) == ["/other"]
        assert undo.elsewhere(connection, "ses", "/other", after=3) == []
        assert undo.plan(connection, "r3", PROJECT, lambda _name: _digest("Y")) == []
        (step,) = undo.plan(connection, "r3", "/other", lambda _name: _digest("Y"))
        assert (step.before, step.refusal) == (_digest("X"), "")
        assert undo.latest_here(connection, "/other") == "ses"
        assert undo.latest_here(connection, PROJECT) == "b"
        assert undo.latest_here(connection, "/nowhere") is None
    assert rows_of(path, "SELECT run, workspace FROM preimage ORDER BY run") == [
        ("r1", None),
        ("r2", None),
        ("r3", "/other"),
    ]
    assert broken(path) == []


def test_what_was_taken_back_is_passed_over_but_for_who_names_it(path: Path) -> None:
    with tampered(path) as connection:
        undo.mark(connection, "r2", "/other")
        assert _number(connection, "ses", PROJECT) == 2
        undo.mark(connection, "r2", PROJECT)
        undo.mark(connection, "r3", "/other")
    with reading(path) as connection:
        assert _number(connection, "ses", PROJECT) == 1
        assert _number(connection, "ses", PROJECT, number=2) == 2
        assert _number(connection, "ses", PROJECT, number=3) is None
        assert _number(connection, "ses", PROJECT, before=1) is None
        assert _number(connection, "ses", "/other") is None
        assert undo.elsewhere(connection, "ses", PROJECT, after=0) == []
        assert undo.plan(connection, "r2", PROJECT, lambda _name: _digest("C")) == []
        assert len(undo.plan(connection, "r2", PROJECT, lambda _name: _digest("C"), again=True)) == 1
    assert broken(path) == []


def test_the_export_holds_of_which_folder_a_change_is_and_what_was_taken_back(path: Path) -> None:
    with tampered(path) as connection:
        undo.mark(connection, "r3", "/other")
    with reading(path) as connection:
        runs = json.loads(b"".join(as_json(connection, "ses")))["runs"]
    assert [(c["path"], c["workspace"], c["undone"]) for run in runs for c in run["changes"]] == [
        ("a.txt", None, 0),
        ("a.txt", None, 0),
        ("a.txt", "/other", 1),
    ]
    assert "run" not in runs[0]["changes"][0]
    _of_before(path)
    with reading(path) as connection:
        (change,) = json.loads(b"".join(as_json(connection, "ses")))["runs"][0]["changes"]
    assert (change["handle"], "undone" in change) == ("h_r1", False)


def _of_before(path: Path) -> None:
    """Takes the store back to the schema that knew no folders and no marks."""
    with tampered(path) as connection:
        for column in ("workspace", "undone"):
            connection.execute(f"ALTER TABLE preimage DROP COLUMN {column}")
        connection.execute("DELETE FROM migration WHERE version >= ?", (undo.MARKED_SINCE,))
        connection.execute(f"PRAGMA user_version = {undo.MARKED_SINCE - 1}")


def test_a_store_of_before_counts_all_changes_as_those_of_its_project(path: Path) -> None:
    _of_before(path)
    with reading(path) as connection:
        assert _number(connection, "ses", PROJECT) == 3
        assert _number(connection, "ses", "/other") is None
        assert len(undo.plan(connection, "r3", PROJECT, lambda _name: _digest("Y"))) == 1
        assert undo.latest_here(connection, PROJECT) == "b"


def test_repair_saves_the_pre_images_of_a_store_of_before(path: Path) -> None:
    _of_before(path)
    with tampered(path) as connection:
        connection.execute("UPDATE part SET body = body || '!' WHERE session = 'ses' AND seq = 1")
    done = repair(path, PROJECT)
    assert done.aside is not None
    assert not [line for line in done.lost if "preimage" in line]
    assert rows_of(path, "SELECT run, workspace, undone FROM preimage ORDER BY run") == [
        ("r1", None, 0),
        ("r2", None, 0),
        ("r3", None, 0),
    ]


def test_what_can_be_taken_back_and_what_cannot(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    seen: dict[str, str] = {}

    async def body() -> None:
        async with store(path, new_id=lambda: "ses") as s:
            s.seen = lambda: seen
            await s.started("r", UserMessage("x"))
            await s.append("r", asks("a", "b"))
            await s.call_started(allowed("r", position=0))
            for name in ("new", "edited", "twice", "removed", "since", "same", "gone", "odd"):
                before = None if name == "new" else _digest(f"{name} before")
                s.keep_preimage(f"h_{name}", name, before, 0o644)
                seen[name] = _digest(f"{name} after")
            del seen["removed"]
            await s.call_ended(allowed("r", position=0), well())
            await s.append("r", ToolMessage("a", "look", ""))
            await s.call_started(allowed("r", position=1))
            s.keep_preimage("h_2", "twice", _digest("twice after"), 0o600)
            s.keep_preimage("h_3", "broken", _digest("broken before"), 0o600)
            seen["twice"] = _digest("twice again")

    run(body())
    now = {"new": "new after", "edited": "edited after", "since": "by hand", "same": "same before", "broken": "half"}

    def digest(name: str) -> str | None:
        if name == "odd":
            raise ValueError("no file")
        return _digest(now[name]) if name in now else None

    with reading(path) as connection:
        assert _number(connection, "ses", PROJECT) == 1
        steps = {step.path: step for step in undo.plan(connection, "r", PROJECT, digest)}
    assert steps["new"].before is None
    assert {name for name, step in steps.items() if not step.refusal} == {"new", "edited", "removed", "same"}
    assert steps["same"].now == steps["same"].before
    assert "changed since" in steps["since"].refusal
    assert "removed since" in steps["gone"].refusal
    assert "not known" in steps["broken"].refusal
    assert "not known" in steps["twice"].refusal
    assert "cannot be read" in steps["odd"].refusal
    assert steps["twice"].before == _digest("twice before"), "what it held before the run, not before the last call"


def test_a_pre_image_that_is_not_whole_is_refused(tmp_path: Path) -> None:
    (tmp_path / "blobs").mkdir()
    name = _digest("good")
    (tmp_path / "blobs" / name).write_text("good")
    assert undo.preimage(tmp_path, name) == b"good"
    (tmp_path / "blobs" / name).write_text("bad")
    for wanted, words in ((name, "is damaged"), ("0" * 64, "is not kept any more"), ("../x", "names no pre-image")):
        with pytest.raises(StoreError, match=words):
            undo.preimage(tmp_path, wanted)
    assert stat.S_ISREG((tmp_path / "blobs" / name).stat().st_mode)
    (tmp_path / "blobs" / name).unlink()
    os.mkfifo(tmp_path / "blobs" / name)  # is waited for by nobody
    with pytest.raises(StoreError):
        undo.preimage(tmp_path, name)


CONTENTS = st.one_of(st.none(), st.sampled_from("ABC"))
OPERATIONS = st.lists(
    st.one_of(st.just("undo"), st.dictionaries(st.sampled_from(["a", "b"]), CONTENTS, min_size=1)), max_size=12
)


@given(OPERATIONS)
@settings(max_examples=150, deadline=None)
def test_undoing_is_the_way_back_whatever_runs_came_between(operations: list[Any]) -> None:
    """Where nobody else writes, each undo gives exactly the files of before the last run that was not undone."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrate(connection)
    connection.execute("INSERT INTO session (id, project, created_at) VALUES ('s', '/p', 0)")
    files: dict[str, str | None] = {"a": None, "b": "A"}
    before: list[dict[str, str | None]] = []
    for number, operation in enumerate(operations, 1):
        if operation == "undo":
            found = undo.changing_run(connection, "s", "/p")
            assert (found is None) == (not before)
            if found is not None:
                steps = undo.plan(connection, found.id, "/p", files.get)
                assert not any(step.refusal for step in steps)
                files |= {step.path: step.before for step in steps}
                assert files == before.pop()
                undo.mark(connection, found.id, "/p")
            continue
        connection.execute(
            "INSERT INTO run (id, session, number, started_at, began_ns) VALUES (?, 's', ?, 0, 0)",
            (str(number), number),
        )
        if any(files[name] != content for name, content in operation.items()):
            before.append(dict(files))
        for at, (name, content) in enumerate(operation.items()):
            connection.execute(
                "INSERT INTO preimage (handle, run, turn, position, number, path, sha256, ended, after) "
                "VALUES (?, ?, 1, 0, ?, ?, ?, 1, ?)",
                (f"{number}{name}", str(number), at, name, files[name], content),
            )
            files[name] = content
    connection.close()
