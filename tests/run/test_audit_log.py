"""The audit log through its facade: read, cut to the last, followed, missing."""

from __future__ import annotations

import pytest

from sluice.errors import ConfigurationError
from sluice.run.audit_log import audit_checked, audit_file, audit_records
from sluice.session.audit import AuditLog


def test_there_is_none_yet() -> None:
    with pytest.raises(ConfigurationError):
        audit_checked()
    with pytest.raises(ConfigurationError):
        list(audit_records())


def test_records_are_read_and_the_chain_followed() -> None:
    log = AuditLog(str(audit_file()))
    for number in range(3):
        log.record("verdict", tool=f"t{number}")
    log.close()
    assert [record["fields"]["tool"] for record in audit_records()] == ["t0", "t1", "t2"]
    assert [record["fields"]["tool"] for record in audit_records(1)] == ["t2"]
    assert (audit_checked().whole, audit_checked().good) == (True, 3)
    text = audit_file().read_text()
    audit_file().write_text(text.replace("t1", "tX") + "no record\n")
    assert audit_checked().whole is False
    assert audit_checked().broken_at == 3
    assert list(audit_records())[-1]["event"] == "unreadable"
