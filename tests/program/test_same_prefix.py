"""The real command, twice: what one process sent is what the next one sends first, byte for byte, so that a provider's
cache of it still holds (L8)."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import msgspec
import pytest
from program_world import asks, says, sluice

from sluice.testing.replay_server import ReplayServer

READS = asks(("read_file", {"path": "a.py"}), ("list_files_bounded", {}), say="I look.")
DATE = re.compile(rb"- Date: (\d{4}-\d{2}-\d{2})\\n")


def parts(body: bytes) -> tuple[list[bytes], dict[str, bytes]]:
    """The messages, and everything else, as they were sent."""
    fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    messages = msgspec.json.decode(bytes(fields.pop("messages")), type=list[msgspec.Raw])
    return [bytes(one) for one in messages], {name: bytes(value) for name, value in fields.items()}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.py").write_text("print('é')\n")
    (folder / "AGENTS.md").write_text("Use tabs.\n")
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=folder, check=True)
    return folder


def bodies(work: Path, *between: list[str]) -> list[bytes]:
    """Two processes, one session, and a command between them: what was sent."""
    allowed = ("--allow-mutating-tools", "--allow-execution-tools")
    with ReplayServer([READS, says("done"), says("again")]) as server:
        for number, prompt in enumerate(("look at a.py", "and now?")):
            env = {"PYTHONHASHSEED": str(number + 1)}
            shown = sluice("-e", prompt, "--continue", "--base-url", server.url, *allowed, cwd=work, env=env)
            assert shown.code == 0, shown
            if number == 0:
                for command in between:
                    subprocess.run(command, cwd=work, check=True)
        return [request.body for request in server.requests]


def test_a_session_that_goes_on_in_another_process_sends_what_was_sent_byte_for_byte(work: Path) -> None:
    first, second, third = map(parts, bodies(work))
    assert first[1] == second[1] == third[1], "tools, options: the same, and in the same order"
    assert second[0][: len(first[0])] == first[0]
    assert third[0][: len(second[0])] == second[0]
    assert len(third[0]) == len(second[0]) + 2, "the answer and the new prompt are all that is new"
    assert b"Use tabs." in third[0][1]


def test_what_the_system_text_tells_changes_it_once_and_nothing_behind_it(work: Path) -> None:
    _first, (before, head), (after, again) = map(parts, bodies(work, ["git", "checkout", "-q", "-b", "other"]))
    assert after[0] == before[0].replace(b"on branch main", b"on branch other") != before[0]
    assert (after[1 : len(before)], again) == (before[1:], head)


def test_nothing_in_the_system_text_is_finer_than_a_day(work: Path) -> None:
    with ReplayServer([says("done")]) as server:
        assert sluice("-e", "go", "--base-url", server.url, cwd=work).code == 0
        (system, *_rest), _ = parts(server.requests[0].body)
    assert DATE.search(system)
    assert not re.search(rb"\d\d:\d\d", system)
