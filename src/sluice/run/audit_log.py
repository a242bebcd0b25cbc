"""The audit log for faces: where it is, what is in it, whether its chain holds, and taking old files of it away."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from sluice.errors import ConfigurationError
from sluice.run.wiring import state_folder
from sluice.session.audit import AuditLog
from sluice.session.audit_files import closed_files
from sluice.session.audit_reading import records, verify


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """Whether every line is in the chain, how many are before the first that is not, and where that one is.

    `removed` files before the first of `files` were taken away, and the log says so. `fault` says in words what is wrong
    with line `broken_at` (from 1) of the file `path`, which is otherwise the one that is written.
    """

    path: str
    whole: bool
    good: int
    files: int
    removed: int
    broken_at: int | None
    fault: str


class Pruned(msgspec.Struct, frozen=True, kw_only=True):
    """How many closed files were removed and their bytes, and how many stay."""

    removed: int
    bytes: int
    left: int


def audit_file() -> Path:
    """The file that runs of this user write now."""
    return state_folder() / "audit.jsonl"


def audit_records(last: int | None = None) -> Iterator[dict[str, Any]]:
    """The records, oldest first; only the `last` ones if given. Raises `ConfigurationError` if there is no log."""
    yield from records(_existing(), last)


def audit_checked() -> Checked:
    """Follows the chain of the log. Raises `ConfigurationError` if there is none, `OSError` if it cannot be read."""
    path = _existing()
    found = verify(path)
    return Checked(
        path=found.file or path,
        whole=found.whole,
        good=found.good,
        files=found.files,
        removed=found.removed,
        broken_at=found.line or None,
        fault=found.fault,
    )


def audit_pruned(days: float) -> Pruned:
    """Removes closed files of the log whose last line is older than `days`. Raises `ConfigurationError`, `AuditError`."""
    path = _existing()
    log = AuditLog(path)
    try:
        removed, size = log.remove_closed(time.time() - days * 86_400)
    finally:
        log.close()
    return Pruned(removed=removed, bytes=size, left=len(closed_files(path)))


def _existing() -> str:
    path = audit_file()
    if not path.is_file() and not closed_files(str(path)):
        raise ConfigurationError(f"there is no audit log yet: {str(path)!r}")
    return str(path)
