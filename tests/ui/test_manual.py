"""The manual page names every command, flag, variable and exit code, and roff takes it without a word."""

from __future__ import annotations

import re
import shutil
import subprocess

import click
import pytest

from sluice.ui.cli import main, sluice
from sluice.ui.manual import _escaped, manual
from sluice.ui.options import ENVIRONMENT, EXAMPLES, EXIT_CODES

PAGE = manual(sluice)


def _plain() -> str:
    return re.sub(r"\\f[BIR]|\\&", "", PAGE).replace(r"\-", "-").replace(r"\(aq", "'").replace(r"\(ga", "`")


def _flags(command: click.Command) -> set[str]:
    own = {name for one in command.params if isinstance(one, click.Option) for name in one.opts}
    inner = command.commands.values() if isinstance(command, click.Group) else ()
    return own.union(*(_flags(one) for one in inner))


def test_it_names_everything() -> None:
    plain = _plain()
    assert {flag for flag in _flags(sluice) if flag not in plain} == set()
    assert isinstance(sluice, click.Group)
    for name in sluice.commands:
        assert f".SS sluice {name}" in plain
    for names, _words in (*ENVIRONMENT, *EXIT_CODES):
        assert names in plain
    assert len(EXAMPLES) > 5


def test_it_is_plain_ascii_and_nothing_in_it_is_taken_for_a_macro() -> None:
    assert PAGE.isascii()
    known = {".TH", ".SH", ".SS", ".TP", ".PP", ".B", ".br", ".nf", ".fi"}
    assert {line.split()[0] for line in PAGE.splitlines() if line.startswith(".")} <= known
    assert _escaped(".TH\\x-'") == r"\&.TH\ex\-\(aq"


@pytest.mark.skipif(shutil.which("groff") is None, reason="NOT CHECKED: the manual page needs groff")
def test_roff_takes_it() -> None:
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-z"], input=PAGE, capture_output=True, text=True, check=True, timeout=20
    )
    assert done.stderr == ""


def test_the_command_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["man"]) == 0
    assert capsys.readouterr().out == PAGE
