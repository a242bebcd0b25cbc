"""The audit log for faces: where it is, what is in it, whether its chain holds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from sluice.errors import ConfigurationError
from sluice.run.wiring import state_folder
from sluice.session.audit import records, verify


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """Whether every line is in the chain, how many are before the first that is not, and its number (from 1)."""

    path: str
    whole: bool
    good: int
    broken_at: int | None


def audit_file() -> Path:
    """The log that runs of this user write."""
    return state_folder() / "audit.jsonl"


def audit_records(last: int | None = None) -> Iterator[dict[str, Any]]:
    """The records, oldest first; only the `last` ones if given. Raises `ConfigurationError` if there is no log."""
    path = _existing()
    yield from records(str(path), last)


def audit_checked() -> Checked:
    """Follows the chain of the log. Raises `ConfigurationError` if there is none, `OSError` if it cannot be read."""
    path = str(_existing())
    whole, good, broken_at = verify(path)
    return Checked(path=path, whole=whole, good=good, broken_at=broken_at)


def _existing() -> Path:
    path = audit_file()
    if not path.is_file():
        raise ConfigurationError(f"there is no audit log yet: {str(path)!r}")
    return path
