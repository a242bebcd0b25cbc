"""docs/headless.md names every notice with its fields, and every exit code."""

from __future__ import annotations

import re
import typing
from pathlib import Path

import msgspec
import pytest

from sluice.turn.outcomes import exit_code
from sluice.values.notices import Notice

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "headless.md").read_text("utf-8")
ROWS = dict(re.findall(r"^\| `(\w+)` \| .* \| ((?:`\w+` ?)+)\|$", PAGE, re.MULTILINE))


@pytest.mark.parametrize("kind", typing.get_args(Notice), ids=lambda kind: str(kind.__name__))
def test_every_notice_is_there_with_its_fields(kind: type[msgspec.Struct]) -> None:
    assert set(re.findall(r"`(\w+)`", ROWS[str(kind.__struct_config__.tag)])) == set(kind.__struct_fields__) - {"v"}


def test_no_row_names_what_is_no_notice() -> None:
    assert set(ROWS) == {kind.__struct_config__.tag for kind in typing.get_args(Notice)}


def test_the_exit_codes_are_those_of_the_outcomes() -> None:
    table = PAGE.split("## Exit codes")[1].split("##")[0]
    for code, outcomes in re.findall(r"^\| (\d+) \| (.*?) \|", table, re.MULTILINE):
        for outcome in re.findall(r"`([\w:<>]+)`", outcomes):
            assert exit_code(outcome.replace("<name>", "turns")) == int(code)
