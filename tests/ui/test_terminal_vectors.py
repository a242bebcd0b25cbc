"""`vectors/terminal` through everything that a run shows: no control sequence of a model, a file or a command comes out.

Each vector stands in every text of every notice that there is, and of those that are yet to be made.
"""

from __future__ import annotations

import base64
import io
import json
import os
import subprocess
import sys
import types
import typing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sluice.ui.json_stream import as_json
from sluice.ui.text import TextFace
from sluice.values.messages import Usage
from sluice.values.notices import Notice
from sluice.values.results import Blocked, ErrorInfo, ToolResult

NOTICES: tuple[Any, ...] = typing.get_args(Notice)


def vectors(shared: Path) -> dict[str, str]:
    lines = (shared / "vectors/terminal/strings.jsonl").read_text().splitlines()
    cases = [json.loads(line) for line in lines]
    return {case["name"]: base64.b64decode(case["data_b64"]).decode("utf-8", "replace") for case in cases}


def controls(shown: str) -> set[str]:
    """What a terminal may obey: C0 but for line ends, DEL and C1, and marks that turn the direction of text or hide it."""
    marks = "\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff"
    return {c for c in shown if (ord(c) < 32 and c not in "\n\r\t") or 127 <= ord(c) < 160 or c in marks}


def filled(kind: Any, raw: str) -> Any:
    """A notice of this kind whose every text is `raw`."""
    values = {}
    hints = typing.get_type_hints(kind)
    for field in msgspec.structs.fields(kind):
        if field.name != "v":
            values[field.encode_name] = _value(hints[field.name], raw)
    return kind(**values)


def _value(hint: Any, raw: str) -> Any:
    origin, members = typing.get_origin(hint), typing.get_args(hint)
    if hint is ToolResult:
        error = ErrorInfo(raw, raw, raw)
        blocked = Blocked(category=raw, missing=(raw,), how_to_allow=raw)
        return ToolResult(
            ok=False,
            status="failed",
            tool=raw,
            content=raw,
            error=error,
            blocked=blocked,
            facts={"diff": f"+{raw}\n-{raw}\n"},
        )
    if origin in (typing.Union, types.UnionType):
        return _value(next(member for member in members if member is not type(None)), raw)
    if origin is tuple:
        return (_value(members[0], raw),)
    if origin is dict:
        return {raw: _value(members[1], raw)}
    if origin is typing.Literal:
        return members[0]
    plain: dict[Any, Any] = {str: raw, int: 1, float: 1.0, bool: False, Usage: Usage(), Any: raw}
    return plain.get(hint, raw)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_no_notice_shows_a_control_sequence(shared: Path) -> None:
    assert len(NOTICES) >= 15
    cases = vectors(shared)
    assert len(cases) >= 50
    for name, raw in cases.items():
        for kind in NOTICES:
            for debug in (False, True):
                out, err = Terminal(), Terminal()
                face = TextFace(out, err, debug=debug, live=True)
                face.show(filled(kind, raw))
                face.close()
                found = controls(out.getvalue() + err.getvalue())
                assert not found, (name, kind.__name__, found)


def test_the_search_for_controls_finds_those_of_the_vectors(shared: Path) -> None:
    """A search that finds nothing would prove nothing."""
    found = [name for name, raw in vectors(shared).items() if controls(raw)]
    assert len(found) > 30


def test_what_json_says_is_no_control_sequence_of_old_terminals(shared: Path) -> None:
    for raw in vectors(shared).values():
        for kind in NOTICES:
            assert not [c for c in as_json(filled(kind, raw)).decode() if ord(c) < 32 and c != "\n"]


@pytest.mark.parametrize("output", ["text", "json"])
def test_a_whole_program_shows_none(output: str, shared: Path, tmp_path: Path) -> None:
    """Model text, arguments, names and contents of files, what a command prints, and the audit log read back."""
    evil = "".join(raw for raw in vectors(shared).values() if "\0" not in raw)
    work = tmp_path / "work"
    work.mkdir()
    (work / "evil.txt").write_text(evil)
    (work / "\x1b[2Jname").write_text("x")
    calls = [
        ("read_file_safe", {"path": "evil.txt"}),
        ("list_files_bounded", {}),
        ("rg_search", {"query": "."}),
        ("read_file_safe", {"path": evil[:200]}),
        ("bash_execute_safe", {"command": "cat evil.txt; exit 3"}),
        (evil[:60], {}),
    ]
    made = [{"function": {"name": name, "arguments": arguments}} for name, arguments in calls]
    fixture = tmp_path / "fixture.json"
    fixture.write_text(
        json.dumps([{"role": "assistant", "tool_calls": made}, {"role": "assistant", "content": f"done {evil}"}])
    )
    words = [
        sys.executable,
        "-m",
        "sluice",
        "-e",
        "go",
        "-w",
        str(work),
        "--mode",
        "mock",
        "--mock-fixture",
        str(fixture),
    ]
    env = {key: value for key, value in os.environ.items() if key.startswith(("HOME", "XDG", "TMPDIR", "PATH"))}
    ran = subprocess.run(
        [*words, "--output", output, "--allow-execution-tools"], capture_output=True, env=env, timeout=60, check=False
    )
    audit = subprocess.run(
        [sys.executable, "-m", "sluice", "audit", "show"], capture_output=True, env=env, timeout=60, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert audit.returncode == 0, audit.stderr
    assert b"done" in ran.stdout
    shown = [ran.stderr, audit.stdout, audit.stderr, *([ran.stdout] if output == "text" else [])]
    assert not controls(b"".join(shown).decode("utf-8", "replace"))
