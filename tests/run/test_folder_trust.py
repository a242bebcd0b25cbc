"""A person answers once for the files of a folder; a file that changes asks again, and nothing is read before."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from interaction_face import open_face, run
from run_world import FakeTransport, text

from sluice.limits import Limits
from sluice.run.folder_trust import FolderTrust
from sluice.run.instructions import read_instructions
from sluice.values import notices as n


def trust(folder: Path, state: Path) -> FolderTrust:
    return FolderTrust(str(folder), read_instructions(str(folder), Limits()), state)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    (made / "AGENTS.md").write_text("Use tabs.")
    return made


def test_an_answer_is_remembered_for_these_very_files(folder: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    assert trust(folder, state).answer is None
    for read in (True, False):
        trust(folder, state).remember(read)
        assert trust(folder, state).answer is read
    (folder / "AGENTS.md").write_text("Use blanks.")
    assert trust(folder, state).answer is None
    trust(folder, state).remember(True)
    (folder / ".sluice").mkdir()
    (folder / ".sluice" / "config.toml").write_text("max_turns = 3\n")
    assert trust(folder, state).answer is None
    assert [file.path for file in trust(folder, state).files()] == ["AGENTS.md", ".sluice/config.toml"]
    other = tmp_path / "other"
    other.mkdir()
    (other / "AGENTS.md").write_text("Use tabs.")
    assert trust(other, state).answer is None, "an answer is for one folder"


def test_what_is_remembered_is_for_the_user_alone(folder: Path, tmp_path: Path) -> None:
    trust(folder, tmp_path / "state").remember(True)
    (kept,) = (tmp_path / "state" / "folders").iterdir()
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b'{"folder": 1}', b"\xff" * 100, b"x" * 200_000])
def test_a_damaged_memory_asks_again(folder: Path, tmp_path: Path, raw: bytes) -> None:
    trust(folder, tmp_path / "state").remember(True)
    (kept,) = (tmp_path / "state" / "folders").iterdir()
    kept.write_bytes(raw)
    assert trust(folder, tmp_path / "state").answer is None


def test_a_link_or_a_pipe_in_place_of_the_memory_asks_again(folder: Path, tmp_path: Path) -> None:
    trust(folder, tmp_path / "state").remember(True)
    (kept,) = (tmp_path / "state" / "folders").iterdir()
    kept.rename(tmp_path / "moved")
    kept.symlink_to(tmp_path / "moved")
    assert trust(folder, tmp_path / "state").answer is None
    kept.unlink()
    os.mkfifo(kept)
    assert trust(folder, tmp_path / "state").answer is None


# -- in an interaction


def test_the_model_gets_the_files_once_a_person_says_so(folder: Path, tmp_path: Path) -> None:
    async def work() -> None:
        transport = FakeTransport([text("one"), text("two"), text("three")])
        async with open_face(tmp_path, transport=transport) as face:
            (file,) = face.interaction.unknown_files()
            assert (file.path, file.bytes) == ("AGENTS.md", 9)
            await face.said("a")
            face.interaction.trust(True)
            assert face.interaction.unknown_files() == ()
            await face.said("b")
            await face.interaction.open_session(None)
            await face.said("c")
        assert ["Use tabs." in str(body) for body in transport.bodies] == [False, True, True]
        warned = [event.message for event in face.of(n.Warned)]
        assert warned[0] == "AGENTS.md (9 bytes) is given to the model as untrusted text"
        assert face.of(n.Warned)[0].expected

        again = FakeTransport([text("four")])
        async with open_face(tmp_path, transport=again) as face:
            assert face.interaction.unknown_files() == ()
            await face.said("d")
        assert "Use tabs." in str(again.bodies)

    run(work)


def test_a_no_is_remembered_as_well_and_a_changed_file_asks_again(folder: Path, tmp_path: Path) -> None:
    async def work() -> None:
        async with open_face(tmp_path) as face:
            face.interaction.trust(False)
        transport = FakeTransport([text("one")])
        async with open_face(tmp_path, transport=transport) as face:
            assert face.interaction.unknown_files() == ()
            await face.said("a")
        assert "Use tabs." not in str(transport.bodies)
        (folder / "AGENTS.md").write_text("Use blanks.")
        async with open_face(tmp_path) as face:
            assert len(face.interaction.unknown_files()) == 1
        async with open_face(tmp_path, no_agents_md=True) as face:
            assert face.interaction.unknown_files() == ()

    run(work)


def test_an_answer_that_cannot_be_kept_counts_until_the_end(folder: Path, tmp_path: Path, own_home: Path) -> None:
    async def work() -> None:
        transport = FakeTransport([text("one")])
        async with open_face(tmp_path, transport=transport) as face:
            state = own_home / "state" / "sluice"
            state.mkdir(parents=True, exist_ok=True)
            (state / "folders").write_text("in the way")
            face.interaction.trust(True)
            await face.said("a")
        assert "cannot be remembered" in face.of(n.Warned)[0].message
        assert "Use tabs." in str(transport.bodies)

    run(work)


@pytest.mark.parametrize("another", [False, True])
def test_a_file_that_cannot_be_read_is_said_once_before_anything_is_asked(
    folder: Path, tmp_path: Path, another: bool
) -> None:
    (folder / "AGENTS.md").unlink()
    (folder / "AGENTS.md").symlink_to(tmp_path / "elsewhere")
    if another:
        (tmp_path / ".git").mkdir()
        (tmp_path / "AGENTS.md").write_text("Use tabs.")

    async def work() -> None:
        async with open_face(tmp_path) as face:
            warned = await face.until(n.Warned)
            assert warned.message.startswith("AGENTS.md is not read: ")
            assert not warned.expected
            asked = [file.path for file in face.interaction.unknown_files()]
            assert asked == (["../AGENTS.md"] if another else [])
            if another:
                face.interaction.trust(True)
                told = await face.until(n.Warned, lambda event: event.expected)
                assert told.message.startswith("../AGENTS.md (9 bytes) is given")
            lines = [event.message for event in face.of(n.Warned)]
            assert len([line for line in lines if line.startswith("AGENTS.md is not read")]) == 1

    run(work)
