"""The wall: the only way in which a file tool reaches a file.

Codes of `PathError`, all of them things that a model can act on:

- the path's words: `empty_path`, `nul_in_path`, `not_utf8`, `absolute_path`, `home_path`, `uri_path`, `parent_path`,
  `path_too_long`, `control_in_path`, `spill_handle`;
- what stands there: `not_found`, `exists`, `is_directory`, `not_directory`, `not_regular`, `symlink`,
  `outside_workspace`, `hard_link`, `too_large`, `protected`, `permission`, `busy`;
- what happened since: `stale`;
- what the machine said: `no_space`, `io_error`, `journal`.

Reading is free inside the workspace, `.git` included: a command that the model may run reads it as well, and what keeps
secrets from a command is the sandbox. Only writing is refused there, because a written hook or config runs later.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import unicodedata
from collections.abc import Sequence

import msgspec

from sluice.errors import ConfigurationError, PathError
from sluice.tools import beneath, changing, protected, replacing
from sluice.tools.relative_path import file_parts, relative_parts, visible
from sluice.tools.spill import spill_number
from sluice.values.ports import Journal

_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
_MAX_NEW_DEPTH = 100  # folders above a new file where some must be made: each is held open until the file is there
_BIDI_CONTROLS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


class FileContent(msgspec.Struct, frozen=True):
    """A whole file as read through one descriptor: its bytes, their SHA-256 in hex, permission bits, count of links."""

    data: bytes
    digest: str
    mode: int
    links: int


class Workspace:
    """One folder, opened once. Everything is opened beneath its descriptor, so renaming the folder changes nothing.

    `root` is the folder as a person gave it; the links in it are theirs and are followed once, here. `private` are
    absolute paths of ours (state, configuration): what of them lies in the workspace is neither read nor written, for keys
    and other conversations may be in it. `allowed` are the
    groups of `protected` that the user's own rules open. `kernel=False` uses the descriptor walk also where `openat2`
    is there. Raises `ConfigurationError`. Not bound to a thread; `close` it, or use it as a context manager.
    """

    def __init__(
        self,
        root: str,
        *,
        private: Sequence[str] = (),
        allowed: Sequence[protected.Group] = (),
        kernel: bool = True,
    ) -> None:
        try:
            self.fd = os.open(root, beneath.PATH_ONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except NotADirectoryError:
            raise ConfigurationError(f"the workspace {visible(root)} is not a folder") from None
        except (OSError, ValueError) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or "the path cannot be used"
            raise ConfigurationError(f"the workspace {visible(root)} cannot be opened: {reason}") from None
        self.root = os.path.realpath(root)
        self._allowed = frozenset(allowed) - protected.NEVER_ALLOWED
        inside = tuple(filter(None, map(self._inside, private)))
        self.private = inside
        self._private = tuple(map(protected.folded_parts, inside))
        self._open = beneath.opener(self.fd, kernel=kernel)

    def __enter__(self) -> Workspace:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Gives the descriptor back; closing twice is fine, and nothing can be opened afterwards."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def open_read(self, path: str) -> int:
        """A descriptor of the regular file at `path`, open for reading; the caller closes it. Raises `PathError`.

        A pipe, socket or device is looked at but never opened, so nothing hangs and no device is touched.
        """
        parts = file_parts(path)
        self._refuse_private(parts, path)
        try:
            self._refuse_other_kinds(parts, path)
            opened = self._open(self.fd, parts, _READ)
        except OSError as error:
            raise beneath.path_error(error, path) from None
        problem = beneath.kind_error(os.fstat(opened), path)
        if problem is not None:
            os.close(opened)
            raise problem
        return opened

    def open_directory(self, path: str = ".") -> int:
        """A descriptor of the folder at `path` (`.`: the workspace), to list or to run in; the caller closes it."""
        parts = relative_parts(path)
        self._refuse_private(parts, path)
        try:
            return self._open(self.fd, parts, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise beneath.path_error(error, path) from None

    def read(self, path: str, max_bytes: int) -> FileContent:
        """The whole file, at most `max_bytes`; raises `PathError` (`too_large` beyond that, whatever its size says)."""
        opened = self.open_read(path)
        try:
            status = os.fstat(opened)
            data = replacing.read_at_most(opened, status.st_size, max_bytes)
        except OSError as error:
            raise beneath.path_error(error, path) from None
        finally:
            os.close(opened)
        if data is None:
            raise replacing.too_large(path, max_bytes)
        return FileContent(data, hashlib.sha256(data).hexdigest(), status.st_mode & 0o7777, status.st_nlink)

    def read_to_change(self, path: str, max_bytes: int) -> FileContent | None:
        """The file that a write to `path` would replace, or None if nothing is there.

        Raises `PathError` for what must not be written at all, so that a tool fails before it works.
        """
        self.writable_parts(path)
        try:
            found = self.read(path, max_bytes)
        except PathError as error:
            if error.code == "not_found":
                return None
            raise
        if found.links > 1:
            raise replacing.hard_linked(path, found.links)
        return found

    def writable_parts(self, path: str) -> tuple[str, ...]:
        """The components of a path that may be written by its name; raises `PathError` (`protected` and the words)."""
        parts = file_parts(path)
        if spill_number(path) is not None:
            raise PathError("spill_handle", f"{path} is the handle of a kept output; it can only be read", path)
        found = protected.protection("/".join(parts), self._private)
        if found is None or found.group in self._allowed:
            return parts
        shown = visible(path)
        if found.group in protected.NEVER_ALLOWED:
            how = "no tool may write it"
        else:
            how = f"another program obeys it later; only a person's own rule for the group '{found.group}' allows it"
        raise PathError("protected", f"{shown} is protected ({found.name}): {how}", shown)

    def replace(
        self, path: str, data: bytes, *, expected: str | None, max_bytes: int, journal: Journal | None = None
    ) -> replacing.Written:
        """Puts `data` in place of the file at `path`, whole or not at all, durable when this returns.

        `expected` is the SHA-256 of the bytes that are replaced; None says that there is no file, and missing folders
        are then made. It is compared on the file itself, at the start and once more right before the rename. The old
        bytes go to `journal` before anything changes. Mode is kept, owner and extended attributes where the system
        lets us. After any error the old file is whole and neither a temporary file nor a new folder is left.
        Raises `PathError`.
        """
        parts = self.writable_parts(path)
        self._refuse_data(path, data, expected, max_bytes)
        with contextlib.ExitStack() as descriptors:
            made: list[tuple[int, str]] = []
            try:
                folder = self._folder(parts[:-1], expected is None, descriptors, made)
                place = replacing.Place(folder, parts[-1], "/".join(parts))
                return replacing.replace(place, data, expected, max_bytes, journal)
            except BaseException as error:
                _unmake(made)
                if isinstance(error, OSError):
                    if expected is not None and error.errno == errno.ENOENT:
                        raise replacing.stale(path, "its folder is gone") from None
                    raise beneath.path_error(error, path) from None
                raise

    def change_all(
        self, changes: Sequence[changing.Change], *, max_bytes: int, journal: Journal | None = None
    ) -> tuple[replacing.Written, ...]:
        """Makes all of `changes` or none; what that means exactly is said in `changing`. Each path may be there once.

        As `replace`: missing folders are made for new files, old bytes go to `journal` first, `expected` is compared at
        the start and right before the names change, and after any error every file is as it was. Folders that become
        empty stay. Raises `PathError`.
        """
        for change in changes:
            if change.data is not None:
                self._refuse_data(change.path, change.data, change.expected, max_bytes)
        with contextlib.ExitStack() as descriptors:
            made: list[tuple[int, str]] = []
            folders: dict[tuple[str, ...], int] = {}
            at: changing.Change | None = None
            try:
                places = []
                for change in changes:
                    at = change
                    *above, name = self.writable_parts(change.path)
                    where = tuple(above)
                    if where not in folders:
                        folders[where] = self._folder(where, change.expected is None, descriptors, made)
                    places.append((change, replacing.Place(folders[where], name, "/".join((*where, name)))))
                return changing.change_all(places, max_bytes, journal)
            except BaseException as error:
                _unmake(made)
                if isinstance(error, OSError) and at is not None:
                    if at.expected is not None and error.errno == errno.ENOENT:
                        raise replacing.stale(at.path, "its folder is gone") from None
                    raise beneath.path_error(error, at.path) from None
                raise

    def _refuse_data(self, path: str, data: bytes, expected: str | None, max_bytes: int) -> None:
        shown = visible(path)
        if len(data) > max_bytes:
            raise replacing.too_large(path, max_bytes)
        if expected is None and any(map(_is_control, path)):
            raise PathError("control_in_path", f"the name {shown} holds control characters", shown)

    def _folder(
        self, parts: tuple[str, ...], make: bool, descriptors: contextlib.ExitStack, made: list[tuple[int, str]]
    ) -> int:
        flags = os.O_RDONLY | os.O_DIRECTORY
        try:
            folder = self._open(self.fd, parts, flags)
        except FileNotFoundError:
            if not make:
                raise
        else:
            descriptors.callback(os.close, folder)
            return folder
        if len(parts) > _MAX_NEW_DEPTH:
            shown = visible("/".join(parts))
            raise PathError("path_too_long", f"{shown} is new and over {_MAX_NEW_DEPTH} folders deep", shown)
        at = self._open(self.fd, (), flags)
        descriptors.callback(os.close, at)
        for part in parts:
            try:
                below = beneath.walk(at, (part,), flags)
            except FileNotFoundError:
                os.mkdir(part, 0o777, dir_fd=at)
                made.append((at, part))
                below = beneath.walk(at, (part,), flags)
                descriptors.callback(os.close, below)
                replacing.make_durable(at)
            else:
                descriptors.callback(os.close, below)
            at = below
        return at

    def _refuse_other_kinds(self, parts: tuple[str, ...], path: str) -> None:
        if beneath.PATH_ONLY == os.O_RDONLY:
            return  # no O_PATH here: the non-blocking open and the check on its descriptor must do
        looked = self._open(self.fd, parts, beneath.PATH_ONLY)
        try:
            problem = beneath.kind_error(os.fstat(looked), path)
        finally:
            os.close(looked)
        if problem is not None:
            raise problem

    def _refuse_private(self, parts: tuple[str, ...], path: str) -> None:
        if self._private and protected.is_private("/".join(parts), self._private):
            shown = visible(path)
            raise PathError("private", f"{shown} is Sluice's own (configuration or state); no tool reads it", shown)

    def _inside(self, path: str) -> str | None:
        relative = os.path.relpath(os.path.realpath(path), self.root)
        outside = relative.split(os.sep)[0] == os.pardir
        return None if outside or relative == os.curdir else relative


def _unmake(made: list[tuple[int, str]]) -> None:
    """Removes the folders that were made on the way to a file that did not come about, innermost first."""
    for parent, name in reversed(made):
        with contextlib.suppress(OSError):
            os.rmdir(name, dir_fd=parent)


def _is_control(character: str) -> bool:
    return character in _BIDI_CONTROLS or unicodedata.category(character) in ("Cc", "Zl", "Zp")
