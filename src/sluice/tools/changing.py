"""Changing several files as one: all of the changes are made, or none is seen.

What that means exactly. First everything is prepared: each file is compared with what was read, its pre-image is durable
in the journal, and its new bytes stand synced under hidden names beside it. An error up to here changes nothing. Then the
names are changed one after another, each in one step, with the old file kept under a hidden name; an error in the middle
(a file that changed meanwhile, a full disk, an interrupt) gives every file its old self back, the same inode. So a call
that answers has done all or nothing. Two things are not promised, because no file system offers them: another program that
looks while the names change may see some files new and others old; and after a crash or power cut in that moment some
may be new and others old, each of them whole, with all pre-images in the journal.

If a file cannot be given back, because another program wrote there in that moment, the error says which and where the old
one stands.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence

import msgspec

from sluice.errors import PathError
from sluice.tools import replacing
from sluice.tools.beneath import path_error
from sluice.tools.relative_path import visible
from sluice.tools.replacing import Before, Place, Prepared, Written
from sluice.values.ports import Journal


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One file of several: `data` becomes its content, or None removes it.

    `expected` is the SHA-256 of what stands there, None if nothing does. `moved_from` names the file of an earlier change
    whose mode, owner and attributes this one takes over. `mode` is the permissions of a file that was not there.
    """

    path: str
    data: bytes | None
    expected: str | None
    moved_from: str | None = None
    mode: int | None = None


class _Done(msgspec.Struct, frozen=True):
    """A change whose names were changed; `old` is the hidden name of the file before, None if there was none."""

    prepared: Prepared
    old: str | None


def change_all(changes: Sequence[tuple[Change, Place]], max_bytes: int, journal: Journal | None) -> tuple[Written, ...]:
    """Makes all changes, each in its opened folder. Raises `PathError` or `OSError`, and then none is made."""
    ready: list[Prepared] = []
    done: list[_Done] = []
    try:
        before: dict[str, Before | None] = {}
        for change, place in changes:
            like = before.get(change.moved_from) if change.moved_from is not None else None
            with _named(place):
                prepared = replacing.prepare(place, change.data, change.expected, max_bytes, journal, like, change.mode)
            ready.append(prepared)
            before[change.path] = prepared.before
        for prepared in ready:
            with _named(prepared.place):
                _make(prepared, max_bytes, done)
        for folder in {prepared.place.folder for prepared in ready}:
            replacing.make_durable(folder)
    except BaseException as error:
        lost = [words for one in reversed(done) if (words := _restored(one)) is not None]
        for prepared in ready:
            with contextlib.suppress(OSError):
                replacing.discard(prepared)
        for folder in {one.prepared.place.folder for one in done}:
            with contextlib.suppress(OSError):
                replacing.make_durable(folder)
        if lost:
            where = error.path if isinstance(error, PathError) else ""
            raise PathError("io_error", f"{error}; and not all could be undone: {'; '.join(lost)}", where) from error
        raise
    for one in done:
        if one.old is not None:
            with contextlib.suppress(OSError):
                replacing.remove(one.prepared.place.folder, one.old)
    return tuple(prepared.written() for prepared in ready)


@contextlib.contextmanager
def _named(place: Place) -> Iterator[None]:
    """Says of which of the files a fault of the machine speaks."""
    try:
        yield
    except OSError as error:
        raise path_error(error, place.path) from None


def _make(prepared: Prepared, max_bytes: int, done: list[_Done]) -> None:
    place = prepared.place
    replacing.check_unchanged(prepared, max_bytes)
    if prepared.before is None:
        if prepared.temporary is not None:
            replacing.put_in_place(prepared)
        done.append(_Done(prepared, None))
        return
    old = replacing.hidden_name()
    if prepared.temporary is None:
        os.rename(place.name, old, src_dir_fd=place.folder, dst_dir_fd=place.folder)
        done.append(_Done(prepared, old))
        return
    try:
        os.link(place.name, old, src_dir_fd=place.folder, dst_dir_fd=place.folder, follow_symlinks=False)
    except OSError as error:
        if error.errno not in replacing.NO_LINKS_HERE:
            raise
        # Without hard links the name is gone for a moment, as it is when the old file is given back.
        os.rename(place.name, old, src_dir_fd=place.folder, dst_dir_fd=place.folder)
        done.append(_Done(prepared, old))
        replacing.put_in_place(prepared)
        return
    try:
        replacing.put_in_place(prepared)
    except BaseException:
        replacing.remove(place.folder, old)
        raise
    done.append(_Done(prepared, old))


def _restored(one: _Done) -> str | None:
    """Gives a file its old self back; None if that worked, else where the old one stands."""
    place, old = one.prepared.place, one.old
    shown = visible(place.path)
    try:
        if old is not None:
            os.rename(old, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
        elif one.prepared.temporary is not None:
            os.unlink(place.name, dir_fd=place.folder)
    except OSError as error:
        kept = f"; what it held stands beside it as {old}" if old is not None else ""
        return f"{shown} ({error.strerror or error}){kept}"
    return None
