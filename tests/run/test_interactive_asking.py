"""A person decides: what is asked, what a yes covers, what is recorded, and when a question is taken back."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from interaction_face import Face, open_face, run

from sluice.policy.rules import Rule, Rules
from sluice.run.interaction import Allowed, ApprovalSettled, ApprovalWanted, Situation
from sluice.testing.scripted_model import asks
from sluice.values import notices as n

RUN = {"sandbox": "off"}


def write(name: str, words: str = "x") -> dict[str, Any]:
    return asks("write_file_safe", path=name, content=words)


def command(line: str) -> dict[str, Any]:
    return asks("bash_execute_safe", command=line)


async def answered(face: Face, allowed: Allowed, words: str = "") -> ApprovalWanted:
    wanted: ApprovalWanted = await face.until(ApprovalWanted)
    assert face.interaction.answer(wanted.number, allowed, words)
    return wanted


def records(home: Path) -> list[tuple[str, dict[str, Any]]]:
    lines = (home / "state" / "sluice" / "audit.jsonl").read_text().splitlines()
    return [(line["event"], line["fields"]) for line in map(json.loads, lines)]


def test_once_covers_one_call(tmp_path: Path, own_home: Path) -> None:
    async def work() -> None:
        async with open_face(tmp_path, write("a.txt"), write("b.txt"), "done") as face:
            face.interaction.submit("go")
            first = await answered(face, "once")
            assert not face.interaction.answer(first.number, "once"), "a question is answered once"
            second = await answered(face, "deny", "\x1b\udc80 not this one " + "!" * 5000)
            await face.until(n.RunFinished)
            assert second.number == first.number + 1
        assert (first.tool, first.category) == ("write_file_safe", "mutating")
        assert first.folder == str(tmp_path / "work")
        assert first.reason == "mutating tools are not allowed in this run"
        assert first.session_words is not None
        assert json.loads(first.arguments) == {"path": "a.txt", "content": "x"}
        results = [event.result for event in face.of(n.CallFinished)]
        assert [result.ok for result in results] == [True, False]
        assert results[1].error is not None
        assert "not this one !!" in results[1].error.message
        assert "\x1b" not in results[1].error.message
        assert len(results[1].error.message) < 1200
        assert [s.decision for s in face.of(ApprovalSettled)] == ["once", "deny"]

    run(work)
    assert sorted(os.listdir(tmp_path / "work")) == ["a.txt"]
    told = [(f["by"], f["decision"]) for event, f in records(own_home) if event == "approval"]
    assert told == [("person", "once"), ("person", "deny")]


@pytest.mark.parametrize("word", ["yes", "allow", "", None, "Once", "denied"])
def test_a_word_that_is_no_answer_is_no(tmp_path: Path, word: Any) -> None:
    async def work() -> None:
        async with open_face(tmp_path, write("a.txt"), "done") as face:
            face.interaction.submit("go")
            await answered(face, word)
            await face.until(n.RunFinished)
            assert [event.result.ok for event in face.of(n.CallFinished)] == [False]
            assert [s.decision for s in face.of(ApprovalSettled)] == ["deny"]
        assert not (tmp_path / "work" / "a.txt").exists()

    run(work)


def test_what_is_asked_is_shown_whole_and_cannot_look_like_ours(tmp_path: Path) -> None:
    line = "echo a\n  │ Allow this? y\r\x1b[2Kfoo\u202e" + "z" * 5000

    async def work() -> None:
        async with open_face(tmp_path, command(line), "done") as face:
            face.interaction.submit("go")
            wanted = await answered(face, "deny")
            await face.until(n.RunFinished)
        heading, *lines = wanted.text.split("\n")
        assert heading == f"command: {len(line):,} characters, 2 lines"
        assert wanted.characters == len(line)
        assert all(shown.startswith("│ ") for shown in lines)
        assert "\n".join(shown[2:] for shown in lines).endswith("<U+202E>" + "z" * 5000)
        assert not any(ord(char) < 32 and char != "\n" for char in wanted.text)
        assert any("no ASCII" in detail for detail in wanted.details)

    run(work)


def test_for_the_session_a_tool_that_changes_files_is_asked_about_no_more(tmp_path: Path, own_home: Path) -> None:
    async def work() -> None:
        async with open_face(tmp_path, write("a.txt"), write("b.txt"), "done", command("touch c"), "done") as face:
            face.interaction.submit("go")
            wanted = await answered(face, "session")
            await face.until(n.RunFinished)
            assert (
                wanted.session_words == "every call of write_file_safe inside the workspace, until this session is left"
            )
            assert f"allowed for this session: every call of {wanted.tool} inside the workspace" in (
                face.interaction.policy_lines()
            )
            states = {name: state for name, _category, state in face.interaction.tools()}
            assert (states["write_file_safe"], states["apply_patch"]) == ("allowed", "asked")
            await face.idle()
            face.interaction.submit("and run")
            assert (await answered(face, "deny")).tool == "bash_execute_safe", "a grant is for its tool alone"
            await face.until(n.RunFinished)
            await face.idle()
            await face.interaction.open_session(None)
            assert not any("for this session" in line for line in face.interaction.policy_lines())

    run(work)
    assert sorted(os.listdir(tmp_path / "work")) == ["a.txt", "b.txt"]
    approvals = [(f["by"], f["decision"]) for event, f in records(own_home) if event == "approval"]
    assert approvals == [("person", "session"), ("session grant", "session"), ("person", "deny")]
    rules = [f["rule"] for event, f in records(own_home) if event == "verdict" and f["decision"] == "allow"]
    assert rules == ["granted:not_approved"] * 2


def test_for_the_session_a_command_is_allowed_word_for_word(tmp_path: Path) -> None:
    lines = ["echo x >>out", "echo x >>out", "echo y >>out", "echo x >>out"]

    async def work() -> None:
        async with open_face(tmp_path, *map(command, lines), "done", **RUN) as face:
            face.interaction.submit("go")
            await answered(face, "session")
            other = await answered(face, "deny", "go on")
            assert "echo y" in other.text
            await face.until(n.RunFinished)
            assert len(face.of(ApprovalWanted)) == 2

    run(work)
    assert (tmp_path / "work" / "out").read_text() == "x\n" * 3


RULES = [
    Rule("ask", "write_file_safe"),
    Rule("ask", "*", "echo *"),
    Rule("deny", "*", "echo x"),
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.named())
def test_a_rule_that_asks_or_might_deny_asks_each_time(tmp_path: Path, rule: Rule) -> None:
    call = write("a.txt") if rule.command is None else command("echo $HOME")

    async def work() -> None:
        async with open_face(tmp_path, call, call, "done", rules=Rules((rule,)), **RUN) as face:
            face.interaction.submit("go")
            for _ in range(2):
                wanted = await answered(face, "session")
                assert wanted.session_words is None
            await face.until(n.RunFinished)
        assert [s.decision for s in face.of(ApprovalSettled)] == ["once", "once"]

    run(work)


def test_no_grant_covers_what_a_rule_denies(tmp_path: Path) -> None:
    """The grant is for the whole tool; the rule comes with it into one session."""

    async def work() -> None:
        deny = Rules((Rule("deny", "*", "touch *"),))
        async with open_face(tmp_path, command("touch a"), "done", rules=deny, **RUN) as face:
            face.interaction.submit("go")
            await face.until(n.RunFinished)
        assert not face.of(ApprovalWanted)
        assert [event.decision for event in face.of(n.CallJudged)] == ["deny"]

    run(work)
    assert not (tmp_path / "work" / "a").exists()


def test_a_cancel_takes_the_question_back(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_face(tmp_path, write("a.txt"), "done") as face:
            face.interaction.submit("go")
            wanted = await face.until(ApprovalWanted)
            face.interaction.cancel()
            assert (await face.until(n.RunFinished)).outcome == "cancelled"
            assert not face.interaction.answer(wanted.number, "once")
            assert not face.interaction.answer(77, "once")
        assert [s.decision for s in face.of(ApprovalSettled)] == ["withdrawn"]

    run(work)
    assert not (tmp_path / "work" / "a.txt").exists()


def test_an_answer_that_cannot_be_recorded_is_no(tmp_path: Path, own_home: Path) -> None:
    async def work() -> None:
        async with open_face(tmp_path, write("a.txt"), "done") as face:
            face.interaction.submit("go")
            wanted = await face.until(ApprovalWanted)
            log = own_home / "state" / "sluice" / "audit.jsonl"
            log.unlink()
            log.mkdir()
            face.interaction.answer(wanted.number, "session")
            await face.until(n.RunFinished)
            assert not any("for this session" in line for line in face.interaction.policy_lines())

    run(work)
    assert not (tmp_path / "work" / "a.txt").exists()


def test_what_a_build_would_run_is_told(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "Makefile").write_text("all:\n\ttouch built\n")

    async def work() -> None:
        async with open_face(tmp_path, asks("build_project_safe"), "done") as face:
            face.interaction.submit("go")
            wanted = await answered(face, "deny")
            await face.until(n.RunFinished)
        assert wanted.details[0] == "as the project stands now, it runs:"
        assert all(line.startswith("│ ") for line in wanted.details[1:])
        assert any("make" in line for line in wanted.details)
        assert wanted.session_words is None or "exactly" in wanted.session_words

    run(work)


def test_a_command_that_runs_can_be_moved_to_the_background(tmp_path: Path) -> None:
    line = "touch began; while ! test -e go; do sleep 0.01; done; echo late"

    async def work() -> None:
        async with open_face(tmp_path, command(line), "done", allow_execution_tools=True, **RUN) as face:
            assert not face.interaction.to_background()
            face.interaction.submit("go")
            await face.until(Situation, lambda event: event.job)
            assert face.interaction.to_background()
            await face.until(Situation, lambda event: not event.job)
            finished = await face.until(n.CallFinished)
            assert "job:1" in finished.result.content
            assert (await face.until(n.RunFinished)).outcome == "completed"

    run(work)
