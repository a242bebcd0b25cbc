"""What a disk may hold after the power failed: built from what was done to files, and from which of it was synced.

The rules are the weakest that POSIX gives. A write may be on disk or not until its file is synced; of one that is not,
any of its sectors may be there, in any order with other writes, or its length without its bytes. A name made, changed or
removed may be so on disk or not until its folder is synced; syncing a file does nothing for its name, and a folder whose
name is not on disk is not there with all that is in it. One name changes at once, never by half. What a failed sync was
to put on disk may never come there, whatever later syncs say: that is how Linux has it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sluice.testing.fault_recording import NEVER, Event

SECTORS = (512, 4096)


@dataclass
class _File:
    data: bytes = b""
    size: int = 0  # as it is while the process runs
    done: list[Change] = field(default_factory=list)


@dataclass
class _Folder:
    names: dict[str, _File | _Folder] = field(default_factory=dict)  # as they are before the first event
    now: dict[str, _File | _Folder] = field(default_factory=dict)  # as they are while the process runs
    done: list[Change] = field(default_factory=list)


@dataclass
class Change:
    """One write or change of names. `synced`: from which moment on it is on disk whatever happens."""

    number: int
    path: str
    began: float
    ended: float
    synced: float = NEVER
    at: int = 0
    data: bytes | None = None  # none: the file is cut to `at`
    names: tuple[tuple[str, _File | _Folder | None], ...] = ()  # name: what it stands for from now on
    given_up: bool = False  # a sync of it failed


Chosen = Callable[
    [Change], int
]  # of a change that is not synced: 0 nothing, 1 all, 2 its length only, 512 and 4096 torn


class Disk:
    """A folder, and what events did to it. Of its names only the `watched` count; `outside` no power failure touches."""

    def __init__(self, folder: Path, watched: Sequence[str], outside: Sequence[str]) -> None:
        """What the folder holds now is taken as synced."""
        self._folder = str(folder)
        self._watched, self._outside = tuple(watched), frozenset(outside)
        self._root = _Folder()
        self.changes: list[Change] = []
        self.moments: list[float] = []  # when a sync had been done, or something outside had been told
        self.told: list[float] = []  # those of the second kind
        for name in watched:
            if (folder / name).exists():
                self._root.names[name] = _there(folder / name)
        self._root.now.update(self._root.names)

    def apply(self, events: Sequence[Event]) -> None:
        """Notes what was done, in order of beginning."""
        for event in events:
            parts = event.path.removeprefix(self._folder).strip("/").split("/")
            if event.kind in ("sync", "no sync") and parts == [""]:
                self._synced(self._root, event)
            elif parts[0] in self._watched:
                self._apply(event, parts)

    def _apply(self, event: Event, parts: list[str]) -> None:
        parent, name = self._at(parts[:-1]), parts[-1]
        if not isinstance(parent, _Folder):
            raise ValueError(f"the folder of {event.path} was not seen to be made")
        there = parent.now.get(name)
        match event.kind:
            case "make":
                if there is None:
                    self._named(parent, event, (name, _File()))
            case "folder":
                self._named(parent, event, (name, _Folder()))
            case "remove":
                self._named(parent, event, (name, None))
            case "rename" | "link":
                to = event.to.removeprefix(self._folder).strip("/").split("/")
                if to[:-1] != parts[:-1] or there is None:
                    raise ValueError(f"{event.kind} of {event.path} to {event.to} is more than one folder can tell")
                gone = ((name, None),) if event.kind == "rename" else ()
                self._named(parent, event, *gone, (to[-1], there))
            case "sync" | "no sync":
                if there is not None:
                    self._synced(there, event)
            case _:
                if not isinstance(there, _File):
                    raise ValueError(f"{event.path} was not seen to be made")
                self._written(there, event)
        if parts[0] in self._outside:
            self.moments.append(event.ended)
            self.told.append(event.ended)

    def _at(self, parts: Sequence[str]) -> _File | _Folder | None:
        place: _File | _Folder | None = self._root
        for part in parts:
            place = place.now.get(part) if isinstance(place, _Folder) else None
        return place

    def _named(self, parent: _Folder, event: Event, *names: tuple[str, _File | _Folder | None]) -> None:
        self._note(parent, Change(len(self.changes), event.path, event.began, event.ended, names=names))
        for name, what in names:
            if what is None:
                parent.now.pop(name, None)
            else:
                parent.now[name] = what

    def _written(self, file: _File, event: Event) -> None:
        at = file.size if event.at is None else event.at
        data = event.data if event.kind == "write" else None
        file.size = at if data is None else max(file.size, at + len(data))
        self._note(file, Change(len(self.changes), event.path, event.began, event.ended, at=at, data=data))

    def _note(self, where: _File | _Folder, change: Change) -> None:
        where.done.append(change)
        self.changes.append(change)

    def _synced(self, what: _File | _Folder, event: Event) -> None:
        # SQLite takes no notice of a folder whose sync failed, and so neither do we: else nothing after it would hold.
        failed = event.kind == "no sync" and isinstance(what, _File)
        for change in what.done:
            if failed:
                change.given_up = change.given_up or change.synced == NEVER
            elif change.ended <= event.began and not change.given_up:
                change.synced = min(change.synced, event.ended)
        self.moments.append(event.ended)

    def words(self, moment: float) -> str:
        """Where in the course of things a moment is, for people."""
        done = sum(change.began <= moment for change in self.changes)
        return f"after {done} of {len(self.changes)} changes, {len(self.unsynced(moment))} of them not synced"

    def unsynced(self, moment: float) -> list[Change]:
        """What had been begun at a moment and may be on disk or not."""
        outside = {id(change) for name in self._outside for change in _all(self._root.now.get(name))}
        return [c for c in self.changes if c.began <= moment < c.synced and id(c) not in outside]

    def write(self, to: Path, moment: float, chosen: Chosen, dice: random.Random, rename: Callable[[str], str]) -> None:
        """Writes the disk as it is if the power fails at `moment`, and of what is not synced as much came to it as was
        `chosen`. `rename` gives the names of the watched in `to`."""
        names = dict(self._root.names)
        for change in self._root.done:
            outside = change.names[-1][0] in self._outside
            if change.began <= moment and (outside or change.synced <= moment or chosen(change)):
                _rename(names, change)
        for name, what in names.items():
            kept = (lambda _change: 1) if name in self._outside else chosen
            _put(to / rename(name), what, moment, kept, dice)


def _there(path: Path) -> _File | _Folder:
    if path.is_dir():
        names = {entry.name: _there(entry) for entry in path.iterdir() if entry.is_dir() or entry.is_file()}
        return _Folder(names=names, now=dict(names))
    data = path.read_bytes()
    return _File(data=data, size=len(data))


def _all(what: _File | _Folder | None) -> Iterator[Change]:
    if what is not None:
        yield from what.done
        if isinstance(what, _Folder):
            for inner in what.now.values():
                yield from _all(inner)


def _rename(names: dict[str, _File | _Folder], change: Change) -> None:
    for name, what in change.names:
        if what is None:
            names.pop(name, None)
        else:
            names[name] = what


def _put(path: Path, what: _File | _Folder, moment: float, chosen: Chosen, dice: random.Random) -> None:
    if isinstance(what, _Folder):
        path.mkdir(mode=0o700)
        names = dict(what.names)
        for change in what.done:
            if change.began <= moment and (change.synced <= moment or chosen(change)):
                _rename(names, change)
        for name, inner in names.items():
            _put(path / name, inner, moment, chosen, dice)
        return
    path.touch(0o600)
    path.write_bytes(_content(what, moment, chosen, dice))


def _content(file: _File, moment: float, chosen: Chosen, dice: random.Random) -> bytes:
    data = bytearray(file.data)
    for change in file.done:
        if change.began > moment:
            continue
        how = 1 if change.synced <= moment else chosen(change)
        if not how:
            continue
        if change.data is None:
            data[change.at :] = bytes(max(change.at - len(data), 0))
            continue
        end = change.at + len(change.data)
        data.extend(bytes(max(end - len(data), 0)))
        if how == 1:
            data[change.at : end] = change.data
        elif how in SECTORS:
            for begin in range(change.at - change.at % how, end, how):
                if dice.random() < 0.5:
                    first, last = max(begin, change.at), min(begin + how, end)
                    data[first:last] = change.data[first - change.at : last - change.at]
    return bytes(data)
