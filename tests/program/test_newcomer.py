"""A stranger's first minutes: an empty home, the installed command, and the commands that the README shows."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from program_world import environment, says

from sluice.testing.replay_server import ReplayServer

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text("utf-8")
SHOWN = [line.split("  #")[0].strip() for line in re.findall(r"^    (sluice .*|git diff \| sluice.*)$", README, re.M)]
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b55"
    "0000000a49444154789c636800000082008177cd72b60000000049454e44ae426082"
)
Shell = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """Runs a line in a project of the stranger's, with the installed `sluice` in the path and no setting at all."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "README.md").write_text("# A project\n")
    (project / "recorded.sse").write_bytes(says("Recorded."))
    (project / "screen.png").write_bytes(PIXEL)

    def run(line: str, **more: str) -> subprocess.CompletedProcess[str]:
        kept: Mapping[str, str] = environment(more)
        env = {name: value for name, value in kept.items() if not name.startswith("XDG_")}
        env["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        done = subprocess.run(
            ["/bin/sh", "-c", line],
            cwd=project,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=40,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done

    return run


def test_every_command_of_the_readme_does_what_is_said_there(shell: Shell) -> None:
    tried = []
    with ReplayServer([says("It says hello.")]) as server:
        for line in SHOWN:
            if (
                line == "sluice"
                or "--model anthropic" in line
                or "replay-server" in line
                or "|" in line
                or "ID" in line
            ):
                continue  # wants a terminal, asks a provider, does not end, lists words: each has a test of its own
            address = server.url.rstrip("/")
            line = line.replace("http://127.0.0.1:8080/v1", address)
            done = shell(line, SLUICE_BASE_URL=address)
            assert done.returncode == 0, (line, done.stderr)
            if " -e " in line:
                assert "It says hello." in done.stdout, line
            else:
                assert done.stdout, line
            tried.append(line.split()[1])
    assert {"-e", "decode", "tool", "schema"} <= set(tried)
    assert len(tried) >= 8


def test_every_word_after_a_listed_command_is_one(shell: Shell) -> None:
    lists = [line for line in SHOWN if line.startswith("sluice sessions") and "|" in line]
    assert lists
    for line in lists:
        known = shell("sluice sessions --help").stdout
        for word in line.removeprefix("sluice sessions ").split(" | "):
            assert re.search(rf"^  {word}\b", known, re.M), word


def test_a_prompt_from_standard_input_is_answered(shell: Shell) -> None:
    with ReplayServer([says("A small change.")]) as server:
        done = shell("echo '-a +b' | sluice", SLUICE_BASE_URL=server.url)
        assert (done.returncode, done.stdout) == (0, "A small change.\n")
        assert shell("sluice -e hi | head -c 1", SLUICE_BASE_URL=server.url).stdout == "A"


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("sluice -e hi", 2, ["no API key", "OPENAI_API_KEY", "--model", "--base-url"]),
        ("sluice -e hi --model anthropic:claude-sonnet-4-5", 2, ["no API key", "ANTHROPIC_API_KEY"]),
        ("TERM=dumb sluice", 2, ["prompt"]),
        ("sluice hello", 2, ["hello", "sluice -e"]),
        ("sluice init && sluice init", 2, ["is there already", "edit it"]),
        ("sluice -e hi --base-url http://127.0.0.1:1/v1 --model m --set max_attempts=1", 1, ["is the server running?"]),
        ("HOME=/dev/null sluice -e hi --base-url http://127.0.0.1:1/v1", 2, ["session store", "--session-store"]),
        ("mkdir .sluice; echo 'max_turnz = 3' >.sluice/config.toml; sluice -e hi", 2, ["did you mean max_turns?"]),
        ("echo 'max_turns = \"x' >c.toml; sluice --config c.toml -e hi", 2, ["c.toml", "line 1"]),
    ],
)
def test_what_goes_wrong_says_what_to_do(shell: Shell, line: str, code: int, words: list[str]) -> None:
    done = shell(line)
    assert done.returncode == code, done.stderr
    assert all(word in done.stderr for word in words), done.stderr
    assert len([said for said in done.stderr.splitlines() if said.startswith("error: ")]) == 1


@pytest.mark.parametrize(
    ("fault", "words"), [("401", "check the API key"), ("404", "check the base URL and the model")]
)
def test_a_server_that_says_no_is_told_with_what_to_look_at(shell: Shell, fault: str, words: str) -> None:
    with ReplayServer([says("never")], fault=fault) as server:
        done = shell("sluice -e hi --model m --base-url " + shlex.quote(server.url))
    assert done.returncode == 1
    assert words in done.stderr


@pytest.mark.parametrize("group", ["audit", "sessions"])
def test_a_group_of_commands_without_one_shows_its_help(shell: Shell, group: str) -> None:
    done = shell(f"sluice {group}")
    assert (done.returncode, done.stdout) == (2, "")
    assert "error:" not in done.stderr
    assert "Commands:" in done.stderr
