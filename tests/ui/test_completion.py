"""Completion in a shell: the scripts, and what the program answers when a shell asks it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sluice.ui.cli import main

CODE = "import sys; from sluice.ui.cli import main; sys.exit(main())"


def _offered(shell: str, tmp_path: Path, *words: str) -> list[str]:
    asked = {"_SLUICE_COMPLETE": f"{shell}_complete", "COMP_WORDS": " ".join(["sluice", *words])}
    asked["COMP_CWORD"] = words[-1] if shell == "fish" else str(len(words))
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), **asked},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return [line for line in done.stdout.splitlines() if line]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("--outp",), ["plain,--output"]),
        (("--output", "s"), ["plain,stream-json"]),
        (("mode",), ["plain,models"]),
        (("sessions", "un"), ["plain,undo"]),
        (("--image", "a"), ["file,a"]),
        (("-w", "a"), ["dir,a"]),
        (("-e", "wor"), []),
    ],
)
def test_what_a_shell_is_offered(tmp_path: Path, words: tuple[str, ...], offered: list[str]) -> None:
    assert _offered("bash", tmp_path, *words) == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_asks_the_program(shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert f"_SLUICE_COMPLETE={shell}_complete" in script
    if shutil.which(shell) is not None:
        (tmp_path / "script").write_text(script)
        subprocess.run([shell, "-n", str(tmp_path / "script")], check=True, timeout=20)


def test_an_unknown_shell_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    for argv in (["completion", "csh"], ["completion"]):
        assert main(argv) == 2
        err = capsys.readouterr().err
        assert len(err.splitlines()) == 1
        assert "␊" not in err
