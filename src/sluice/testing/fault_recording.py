"""What a process did to files, read from the log of strace: each making, write, sync, renaming and removal, with its bytes.

The log holds every call that could change a file. One that this module does not know how to read is an error, not a gap.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

_MOST_BYTES = 64 * 1024 * 1024  # of one write
_READ = tuple(
    name
    for names in (
        "openat open creat close write pwrite64 ftruncate truncate fsync fdatasync",
        "rename renameat renameat2 link linkat unlink unlinkat rmdir mkdir mkdirat",
    )
    for name in names.split()
)
_SYNCS = ("fsync", "fdatasync")
_NOT_READ = ("writev", "pwritev", "pwritev2", "fallocate", "copy_file_range", "symlink", "symlinkat")
_HEX = r"(?:\\x[0-9a-f]{2})*"
_LINE = re.compile(r"(\d+) +(\d+\.\d+) (.*)$")
_CALL = re.compile(r"(\w+)\((.*)\) += (\S+)")
_RESUMED = re.compile(r"<\.\.\. \w+ resumed>(.*)$")
_FD = re.compile(rf"(?:(\d+)|AT_FDCWD)<({_HEX})>(\(deleted\))?")
_TEXT = re.compile(rf'"({_HEX})"(\.\.\.)?')
_UNFINISHED = " <unfinished ...>"
NEVER = float("inf")


class Event(NamedTuple):
    """One change. `began` and `ended` are moments in nanoseconds: it is done at some time between the two.

    `kind` is `make` (a file), `folder`, `write`, `cut` (to `at` bytes), `rename`, `link`, `remove`, `sync` or `no sync` (one
    that failed); `to` is the second path. A write without a place (`at` none) goes to the end.
    """

    began: int
    ended: float
    kind: str
    path: str
    to: str = ""
    at: int | None = None
    data: bytes = b""


def recording(log: Path) -> tuple[str, ...]:
    """The words for strace that write down in `log` all that `events` reads."""
    calls = ",".join(f"?{name}" for name in (*_READ, *_NOT_READ))
    return (
        "-y", "-xx", "-s", str(_MOST_BYTES), "-e", f"trace={calls}", "-e", "signal=none",
        "--absolute-timestamps=format:unix,precision:ns", "-o", str(log),
    )  # fmt: skip


def events(log: Path, below: str) -> list[Event]:
    """What one process did to files in the folder `below`, in the order in which it began. Raises `ValueError`."""
    files = _Open(below)
    calls = sorted(_calls(log.read_text("ascii", "replace").splitlines()))
    return sorted(event for call in calls for event in files.change(call))


class _Call(NamedTuple):
    began: int
    ended: float
    name: str
    arguments: str
    answer: str


def _calls(lines: Sequence[str]) -> Iterator[_Call]:
    """The calls that succeeded, or were under way when their process died."""
    unfinished: dict[str, tuple[int, str]] = {}
    for line in lines:
        if not (match := _LINE.match(line)):
            continue
        thread, at, words = match[1], int(match[2].replace(".", "")), match[3]
        began = at
        if words.endswith(_UNFINISHED):
            unfinished[thread] = (at, words.removesuffix(_UNFINISHED))
            continue
        if resumed := _RESUMED.match(words):
            began, before = unfinished.pop(thread, (at, ""))
            words = before + resumed[1]
        call = _CALL.match(words)
        if call is None or (call[3] == "-1" and call[1] not in _SYNCS):
            continue
        if call[3] == "?":
            unfinished[thread] = (began, f"{call[1]}({call[2]}")
        else:
            yield _Call(began, at, call[1], call[2], call[3])
    for began, words in unfinished.values():
        name, _, arguments = words.partition("(")
        if name in ("write", "pwrite64"):  # nobody knows how much of it was done
            yield _Call(began, NEVER, name, arguments, "-")


class _Open:
    """The open files of a process: where each of them goes on."""

    def __init__(self, below: str) -> None:
        self._below = below.rstrip("/") + "/"
        self._places: dict[str, int | None] = {}  # descriptor: the place of its next write, none for the end

    def change(self, call: _Call) -> Iterator[Event]:
        """What a call changed of the files that are watched."""
        if call.name == "close":
            self._places.pop(call.arguments.partition("<")[0], None)
            return
        paths = [path for path in _paths(call) if f"{path}/".startswith(self._below)]
        if not paths:
            return
        if call.name in _NOT_READ:
            raise ValueError(f"{call.name} changed {paths[0]}, and cannot be read")
        path = paths[0]
        match call.name:
            case "openat" | "open" | "creat":
                yield from self._opened(call, path)
            case "write" | "pwrite64":
                yield self._wrote(call, path)
            case "ftruncate" | "truncate":
                yield _event(call, "cut", path, at=int(call.arguments.rpartition(", ")[2]))
            case name if name in _SYNCS:
                yield _event(call, "no sync" if call.answer == "-1" else "sync", path)
            case "mkdir" | "mkdirat":
                yield _event(call, "folder", path)
            case "unlink" | "unlinkat" | "rmdir":
                yield _event(call, "remove", path)
            case _:
                if len(paths) != 2:
                    raise ValueError(f"{call.name} between {paths} and a place that is not watched")
                kind = "link" if call.name.startswith("link") else "rename"
                yield _event(call, kind, paths[0], paths[1])

    def _opened(self, call: _Call, path: str) -> Iterator[Event]:
        flags = call.arguments
        if not re.search(r"O_WRONLY|O_RDWR|O_CREAT", flags):
            return
        self._places[call.answer.partition("<")[0]] = None if "O_APPEND" in flags else 0
        if "O_CREAT" in flags:
            yield _event(call, "make", path)
        if "O_TRUNC" in flags:
            yield _event(call, "cut", path, at=0)

    def _wrote(self, call: _Call, path: str) -> Event:
        data = _bytes(call.arguments)
        if call.answer != "-":
            data = data[: int(call.answer)]
        if call.name == "pwrite64":
            return _event(call, "write", path, at=int(call.arguments.rpartition(", ")[2]), data=data)
        fd = call.arguments.partition("<")[0]
        at = self._places.get(fd)
        if at is not None:
            self._places[fd] = at + len(data)
        return _event(call, "write", path, at=at, data=data)


def _event(call: _Call, kind: str, path: str, to: str = "", at: int | None = None, data: bytes = b"") -> Event:
    return Event(call.began, call.ended, kind, path, to, at, data)


def _bytes(arguments: str) -> bytes:
    match = _TEXT.search(arguments)
    if match is None or match[2]:
        raise ValueError(f"the bytes of a write are not there: {arguments[:200]}")
    return _unescaped(match[1])


def _paths(call: _Call) -> list[str]:
    """The whole paths that a call names, by descriptor, by text, or by a text that begins at a descriptor."""
    if call.name in ("write", "pwrite64", "ftruncate", *_SYNCS, *_NOT_READ):
        return [_path(match[2]) for match in _FD.finditer(_without_texts(call)) if not match[3]]
    found: list[str] = []
    folder = ""
    for match in re.finditer(rf"{_FD.pattern}|{_TEXT.pattern}", call.arguments):
        if match[4] is None:
            folder = _path(match[2])
        else:
            found.append(os.path.normpath(os.path.join(folder, _path(match[4]))))
    return found


def _without_texts(call: _Call) -> str:
    return _TEXT.sub("", call.arguments)


def _path(escaped: str) -> str:
    return os.fsdecode(_unescaped(escaped))


def _unescaped(escaped: str) -> bytes:
    return bytes.fromhex(escaped.replace("\\x", ""))
