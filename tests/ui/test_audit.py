"""`sluice audit`: shown without controls, verified with an exit code."""

from __future__ import annotations

import json

import pytest

from sluice.run.audit_log import audit_file
from sluice.session.audit import AuditLog
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
