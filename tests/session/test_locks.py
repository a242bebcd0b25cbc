"""The lock of a session: the operating system's, whatever can be written about it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from sluice.errors import StoreError
from sluice.session.locks import SessionLock, holder


def test_a_lock_holds_where_a_full_disk_has_no_room_to_say_whose_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_given: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    folder = tmp_path / "locks"
    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", full)
        lock = SessionLock(folder, "ses")
    try:
        assert holder(folder, "ses") == 0
        with pytest.raises(StoreError, match="in use by another process"):
            SessionLock(folder, "ses")
    finally:
        lock.close()
    assert holder(folder, "ses") is None
    lock.close()
    assert list(folder.iterdir()) == []
