"""What Sluice keeps on this disk, and how many bytes of it: sessions, pre-images, the audit log.

Counted by looking at every file of the data folder and the state folder. That takes a moment where there are many
pre-images, so the figures are written down (`kept.json` in the state folder), to be believed for a while.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

import msgspec

from sluice.session.state_file import opened, parsed

NOTED = "kept.json"
_NOTED_BYTES = 64 * 1024  # that are read of it; it has a few hundred, and a path
_AUDIT = re.compile(r"audit(-\d+)?\.jsonl")


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes on the disk. `largest` is the largest store and its bytes; `damaged` are stores that a repair kept aside."""

    sessions: int = 0
    preimages: int = 0
    audit: int = 0
    damaged: int = 0
    other: int = 0
    stores: int = 0
    largest: tuple[str, int] | None = None

    @property
    def total(self) -> int:
        """All of it."""
        return self.sessions + self.preimages + self.audit + self.damaged + self.other


class _Noted(msgspec.Struct, frozen=True):
    at: float
    kept: Kept


def measured(data: Path, state: Path) -> Kept:
    """Looks at every file. What cannot be looked at does not count. Links are not followed."""
    counts = {"sessions": 0, "preimages": 0, "audit": 0, "damaged": 0, "other": 0}
    stores: dict[str, int] = {}
    for root in _roots(data, state):
        for parts, size in _files(str(root), ()):
            kind = _kind(parts)
            counts[kind] += size
            if kind == "sessions":
                store = os.path.join(root, *parts[: parts.index("projects") + 2])
                stores[store] = stores.get(store, 0) + size
    largest = max(stores.items(), key=lambda one: one[1], default=None)
    return Kept(**counts, stores=len(stores), largest=largest)


def note(state: Path, kept: Kept, at: float) -> None:
    """Writes the figures down, whole or not at all. Not being able to costs the next one who asks a look of his own."""
    new = state / f".{NOTED}.{secrets.token_hex(4)}"
    with contextlib.suppress(OSError):
        try:
            fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with open(fd, "wb") as file:
                file.write(msgspec.json.encode(_Noted(at, kept)))
            os.replace(new, state / NOTED)
        finally:
            new.unlink(missing_ok=True)


def noted(state: Path, now: float, seconds: float) -> Kept | None:
    """The figures that were written down, if that is no longer ago than `seconds`."""
    try:
        with opened(str(state / NOTED)) as file:
            found = parsed(file.read(_NOTED_BYTES), _Noted)
    except OSError:
        return None
    return found.kept if found is not None and 0 <= now - found.at <= seconds else None


def _roots(data: Path, state: Path) -> list[Path]:
    """The two folders, each file once: on some systems they are one, and either may hold the other."""
    first, second = (Path(os.path.realpath(folder)) for folder in (data, state))
    if second.is_relative_to(first):
        return [first]
    return [second] if first.is_relative_to(second) else [first, second]


def _files(folder: str, parts: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], int]]:
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    yield from _files(entry.path, (*parts, entry.name))
                elif entry.is_file(follow_symlinks=False):
                    status = entry.stat(follow_symlinks=False)
                    yield (*parts, entry.name), max(status.st_size, status.st_blocks * 512)


def _kind(parts: tuple[str, ...]) -> str:
    if "projects" in parts[:-2]:
        return "damaged" if ".damaged-" in parts[-1] else "sessions"
    if "blobs" in parts[:-1] or parts[-1] == "changes.jsonl":
        return "preimages"
    return "audit" if _AUDIT.fullmatch(parts[-1]) else "other"
