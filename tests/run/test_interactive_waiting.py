"""A session whose process died while its person was asked: the face asks again, at once, about what is there now."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from interaction_face import Face, open_face, run

from sluice.errors import ConfigurationError
from sluice.run.interaction import ApprovalSettled, ApprovalWanted, PromptBegan, SessionOpened
from sluice.session.wish import Wish
from sluice.testing.scripted_model import asks
from sluice.values import notices as n

_KILLED = """
import asyncio, json, sys
from sluice.run.config import Settings
from sluice.run.interactive import open_interaction
from sluice.testing.scripted_model import scripted_model

async def main():
    model = scripted_model(*json.loads(sys.argv[2]))
    settings = Settings(workspace=sys.argv[1], mode="mock")
    async with open_interaction(settings, escaped=str, transport=model) as ask:
        ask.trust(False)
        ask.submit("begin")
        async for event in ask.events():
            if type(event).__name__ == "ApprovalWanted":
                print(ask.situation().session, flush=True)

asyncio.run(main())
"""


def killed_while_asked(folder: Path, *replies: dict[str, Any]) -> str:
    """The id of a session in the workspace below `folder` whose process died at its person's question."""
    work = folder / "work"
    work.mkdir(exist_ok=True)
    process = subprocess.Popen(
        [sys.executable, "-c", _KILLED, str(work.resolve()), json.dumps(replies)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(folder)},  # what is killed leaves its private folders behind
    )
    try:
        assert process.stdout is not None
        return process.stdout.readline().strip()
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=20)


async def answered(face: Face, word: Any, words: str = "") -> ApprovalWanted:
    wanted: ApprovalWanted = await face.until(ApprovalWanted)
    assert face.interaction.answer(wanted.number, word, words)
    return wanted


WRITE = asks("write_file_safe", path="new.txt", content="hello")
CONTINUE = {"session": Wish(how="continue")}


def test_the_question_is_there_at_once_and_a_yes_runs_what_was_asked_for(tmp_path: Path) -> None:
    killed_while_asked(tmp_path, WRITE)

    async def work() -> None:
        async with open_face(tmp_path, "It is written.", **CONTINUE) as face:
            opened = face.of(SessionOpened)[0]
            assert opened.history[-1].tool_calls[0].name == "write_file_safe", "it stands there without a result"
            assert any("waiting for your approval: write_file_safe" in w.message for w in face.of(n.Warned))
            wanted = await answered(face, "once")
            assert "the process ended while you were asked about it" in wanted.reason
            assert (await face.until(n.RunFinished)).text == "It is written."
            assert not face.of(PromptBegan)

    run(work)
    assert (tmp_path / "work" / "new.txt").read_text() == "hello"


def test_what_is_asked_about_is_what_is_there_now(tmp_path: Path) -> None:
    """X2: the answer is to the script as it is at the question, not as it was when the model asked."""
    makefile = tmp_path / "work" / "Makefile"
    makefile.parent.mkdir()
    makefile.write_text("build:\n\techo before\n")
    killed_while_asked(tmp_path, asks("build_project_safe"))
    makefile.write_text("build:\n\techo afterwards\n")

    async def work() -> None:
        async with open_face(tmp_path, "As you like.", **CONTINUE) as face:
            wanted = await answered(face, "deny", "not like this")
            details = "\n".join(wanted.details)
            assert "echo afterwards" in details
            assert "echo before" not in details
            assert (await face.until(n.RunFinished)).outcome == "completed"

    run(work)


def test_a_yes_for_the_session_covers_the_next_call_of_its_kind(tmp_path: Path) -> None:
    killed_while_asked(tmp_path, WRITE)

    async def work() -> None:
        other = asks("write_file_safe", path="two.txt", content="x")
        async with open_face(tmp_path, other, "Done.", **CONTINUE) as face:
            await answered(face, "session")
            assert (await face.until(n.RunFinished)).outcome == "completed"
            assert len(face.of(ApprovalWanted)) == 1

    run(work)
    assert (tmp_path / "work" / "two.txt").exists()


def test_whether_the_folders_words_are_read_is_asked_first(tmp_path: Path) -> None:
    killed_while_asked(tmp_path, WRITE)
    (tmp_path / "work" / "AGENTS.md").write_text("Be brief.")

    async def work() -> None:
        async with open_face(tmp_path, "Done.", **CONTINUE) as face:
            assert face.interaction.unknown_files()
            await face.idle_for_a_while()
            assert not face.of(n.RunStarted)
            face.interaction.trust(True)
            await answered(face, "once")
            assert (await face.until(n.RunFinished)).outcome == "completed"

    run(work)


def test_a_prompt_that_is_typed_meanwhile_waits_and_nothing_else_is_done(tmp_path: Path) -> None:
    killed_while_asked(tmp_path, WRITE)

    async def work() -> None:
        async with open_face(tmp_path, "Done.", "And that.", **CONTINUE) as face:
            wanted = await face.until(ApprovalWanted)
            with pytest.raises(ConfigurationError, match="a run is going"):
                await face.interaction.compact()
            face.interaction.submit("and then this")
            assert face.interaction.answer(wanted.number, "once")
            ends = [(await face.until(n.RunFinished)).text for _ in range(2)]
            assert ends == ["Done.", "And that."]

    run(work)


def test_a_cancel_of_the_question_gives_the_call_up(tmp_path: Path) -> None:
    killed_while_asked(tmp_path, WRITE)

    async def work() -> None:
        async with open_face(tmp_path, "Yes?", **CONTINUE) as face:
            await face.until(ApprovalWanted)
            face.interaction.cancel()
            assert (await face.until(n.RunFinished)).outcome == "cancelled"
            assert [s.decision for s in face.of(ApprovalSettled)] == ["withdrawn"]
            assert (await face.said("what now?")).text == "Yes?"
            assert len(face.of(ApprovalWanted)) == 1

    run(work)
    assert not (tmp_path / "work" / "new.txt").exists()


def test_undo_takes_back_what_it_did_with_the_run_that_asked_for_it(tmp_path: Path) -> None:
    killed_while_asked(tmp_path, WRITE)

    async def work() -> None:
        async with open_face(tmp_path, "It is written.", **CONTINUE) as face:
            await answered(face, "once")
            await face.until(n.RunFinished)
            await face.idle()
            assert (tmp_path / "work" / "new.txt").exists()
            assert await face.interaction.undo() == (("new.txt",), ())

    run(work)
    assert not (tmp_path / "work" / "new.txt").exists()


def test_leaving_it_for_another_session_and_coming_back(tmp_path: Path) -> None:
    """Nothing is decided by opening a new session; only the question's own end is an answer."""
    session = killed_while_asked(tmp_path, WRITE)

    async def work() -> None:
        async with open_face(tmp_path, "Done.") as face:
            assert not face.of(ApprovalWanted), "another session is open"
            assert [row.waits for row in face.interaction.sessions()] == [True]
            await face.interaction.open_session(session)
            await answered(face, "once")
            assert (await face.until(n.RunFinished)).text == "Done."
            await face.idle()
            assert [row.waits for row in face.interaction.sessions()] == [False]

    run(work)
