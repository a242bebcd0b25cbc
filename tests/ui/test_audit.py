"""`sluice audit`: shown without controls, verified with an exit code."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from sluice.run.audit_log import audit_file
from sluice.session.audit import AuditLog
from sluice.session.audit_files import closed_files
from sluice.ui.cli import main


@pytest.fixture
def log() -> None:
    made = AuditLog(str(audit_file()))
    made.record("verdict", tool="bash", decision="deny", rule="deny:*[rm *]", words="rm x")
    made.record("call_started", tool="read\x1b[2J\n\u202e", arguments="{}")
    made.close()


def test_no_log_is_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "verify"]) == 2
    assert "no audit log" in capfd.readouterr().err


def test_it_shows_the_records(log: None, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "show"]) == 0
    out = capfd.readouterr().out
    assert len(out.splitlines()) == 2
    assert "bash deny deny:*[rm *] words=rm x" in out
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert main(["audit", "show", "--last", "1", "--output", "json"]) == 0
    assert json.loads(capfd.readouterr().out)["n"] == 2


def test_it_verifies_the_chain(log: None, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "verify"]) == 0
    assert "2 records" in capfd.readouterr().out
    audit_file().write_text(audit_file().read_text().replace("rm x", "ls x"))
    assert main(["audit", "verify"]) == 1
    assert "line 2 breaks" in capfd.readouterr().out


def _of_several_files() -> None:
    made = AuditLog(str(audit_file()), max_bytes=300, now=lambda: 1000.0)
    for number in range(6):
        made.record("verdict", tool=f"t{number}")
    made.close()


def test_a_log_of_several_files_is_shown_and_verified_as_one(capfd: pytest.CaptureFixture[str]) -> None:
    _of_several_files()
    closed = closed_files(str(audit_file()))
    assert main(["audit", "verify"]) == 0
    assert f"in {len(closed) + 1} files, every one in the chain" in capfd.readouterr().out
    assert main(["audit", "show"]) == 0
    out = capfd.readouterr().out
    assert [f"t{number}" in out for number in range(6)] == [True] * 6
    assert f"follows={closed[0].name}" in out
    Path(closed[1].path).write_bytes(Path(closed[1].path).read_bytes().replace(b"verdict", b"vordict"))
    assert main(["audit", "verify"]) == 1
    assert closed[1].name in capfd.readouterr().out
    os.unlink(closed[1].path)
    assert main(["audit", "verify"]) == 1
    assert f"{closed[1].name}, which is missing" in capfd.readouterr().out


def test_old_files_are_removed_and_the_log_says_so(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "prune", "--older-than", "30"]) == 2
    assert "no audit log" in capfd.readouterr().err
    _of_several_files()
    count = len(closed_files(str(audit_file())))
    assert main(["audit", "prune", "--older-than", "1e5"]) == 0
    assert f"there are {count}" in capfd.readouterr().err
    assert main(["audit", "prune", "--older-than", "30"]) == 0
    assert f"removed {count} files" in capfd.readouterr().out
    assert main(["audit", "verify"]) == 0
    assert f"begins after {count} files that were removed" in capfd.readouterr().out
    assert main(["audit", "show"]) == 0
    assert "audit_removed file=audit-000001.jsonl" in capfd.readouterr().out
