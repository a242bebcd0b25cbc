"""The flags of a headless run, in the whole program without a network: what they send, and one line for garbage."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from sluice.ui.cli import main, sluice

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b55"
    "0000000a49444154789c636800000082008177cd72b60000000049454e44ae426082"
)
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.chdir(tmp_path)

    def call(*argv: str) -> tuple[int, str, str]:
        code = main(argv)
        return code, *capsys.readouterr()

    return call


def _request(run: Run, *argv: str) -> dict[str, Any]:
    code, out, err = run("-e", "hi", "--dry-run", *argv)
    assert (code, err) == (0, "")
    body: dict[str, Any] = json.loads(out)["request"]["body"]
    return body


def test_images_stand_before_the_words(run: Run, tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        (tmp_path / name).write_bytes(PNG)
    content = _request(run, "--image", "a.png", "--image", "b.png")["messages"][1]["content"]
    assert [part["type"] for part in content] == ["image_url", "image_url", "text"]
    assert content[2]["text"] == "hi"


def test_words_are_put_behind_the_system_prompt(run: Run, tmp_path: Path) -> None:
    usual = _request(run)["messages"][0]["content"]
    more = _request(run, "--append-system-prompt", "Be\nkind.")["messages"][0]["content"]
    assert more == usual.rstrip() + "\n\nBe\nkind.\n"
    (tmp_path / "own.md").write_text("Own words.")
    own = _request(run, "--system-prompt-file", "own.md", "--append-system-prompt", "Be kind.")["messages"][0][
        "content"
    ]
    assert own == "Own words.\n\nBe kind.\n"


def test_effort_and_tools_are_sent(run: Run) -> None:
    assert _request(run, "--reasoning-effort", "low")["reasoning_effort"] == "low"
    named = [tool["function"]["name"] for tool in _request(run, "--tools", "git_diff,read_file_safe")["tools"]]
    assert named == ["read_file_safe", "git_diff"]
    assert "tools" not in _request(run, "--no-tools")
    assert '"name": "git_diff"' not in json.dumps(_request(run, "--exclude-tools", "git_diff")["tools"])


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("--image", "absent.png"), "image 'absent.png' cannot be read: No such file or directory"),
        (("--image", "text.png"), "image 'text.png' is no PNG, JPEG, GIF or WebP file"),
        (("--image", ""), "image '' cannot be read"),
        (("--image", "text.png", "--set", "max_image_bytes=2"), "is larger than the 2 bytes of max_image_bytes"),
        (("--image", "a", "--image", "b", "--set", "max_images=1"), "2 images are more than the 1 of max_images"),
        (("--append-system-prompt", "a\udcff"), "append_system_prompt cannot be"),
        (("--reasoning-effort", "a\nb"), "reasoning_effort cannot be"),
        (("--tools", "a b"), "tools cannot be 'a b'; expected names separated by commas"),
        (("--tools", "nonsense"), "no tool is named 'nonsense'"),
        (("--max-calls-per-minute", "0"), "max_calls_per_minute cannot be '0'; expected a whole number of at least 1"),
        (("--max-cost", "-1"), "max_cost cannot be '-1'"),
        (("--max-seconds", "soon"), "max_seconds cannot be 'soon'"),
        (("--api-key-file", "absent"), "api_key_file"),
        (("--system-prompt-file", "absent"), "system_prompt_file"),
    ],
)
def test_garbage_is_one_line_and_exit_code_2(run: Run, tmp_path: Path, argv: tuple[str, ...], words: str) -> None:
    (tmp_path / "text.png").write_text("text")
    code, out, err = run("-e", "hi", *argv)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert words in err


def test_an_image_goes_with_no_command(run: Run) -> None:
    assert run("--image", "a.png", "config", "show")[0] == 2


def test_tools_beside_no_tools_are_said_to_have_no_effect(run: Run) -> None:
    code, _out, err = run("-e", "hi", "--dry-run", "--no-tools", "--tools", "git_diff")
    assert (code, err) == (0, "warning: tools has no effect beside no_tools, which offers none\n")


GARBAGE = [
    "",
    " ",
    "-1",
    "NaN",
    "1e999",
    "a\nb",
    "\x1b[2J",
    "a\udcffb",
    "٣",
    "x" * 100_000,
    "--",
    "=",
    "../../..",
    "a,,b",
]
VALUED = [
    option.opts[-1]
    for option in sluice.params
    if isinstance(option, click.Option) and not option.is_flag and option.opts[-1] not in ("--record",)
]


@pytest.mark.parametrize("flag", VALUED)
def test_no_garbage_in_a_flag_is_more_than_one_line(run: Run, flag: str) -> None:
    for value in GARBAGE:
        code, out, err = run("-e", "hi", "--dry-run", f"{flag}={value}")
        errors = [line for line in err.splitlines() if not line.startswith("warning: ")]
        assert code in (0, 2), (value, err)
        assert len(errors) == (1 if code else 0), (value, err)
        assert all(len(line) <= 1100 for line in err.splitlines())
        assert "\x1b" not in err + out
        assert (out == "") is (code == 2)
