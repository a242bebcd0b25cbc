"""The prompts that were given in a workspace before, for going through them again. Readable by their owner alone.

One JSON string a line, the newest last, in the state folder. It is a convenience: a file that is damaged, too long or
cannot be written costs old prompts, never a run.
"""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

import msgspec

from sluice.run.config import Settings
from sluice.run.store_places import IN_MEMORY
from sluice.run.wiring import state_folder
from sluice.session.private_folder import make_private_folder
from sluice.session.state_file import parsed

MAX_PROMPTS = 1000  # kept for one workspace
MAX_PROMPT_CHARACTERS = 16 * 1024  # a longer one is kept while the program runs, and not written
_MAX_FILE_BYTES = 1024 * 1024  # then only the newest half is kept
_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class PromptHistory:
    """Prompts, oldest first. With `path` they outlive the process; with `None` they do not. For one thread.

    `fault` is one line about why prompts cannot be kept, once something was wrong; empty while all is well.
    """

    def __init__(self, path: Path | None) -> None:
        self.fault = ""
        self._path = path
        self._prompts = self._read()[-MAX_PROMPTS:]

    def prompts(self) -> tuple[str, ...]:
        """All that are known, oldest first, each of them once in a row."""
        return tuple(self._prompts)

    def add(self, text: str) -> None:
        """Keeps a prompt, unless it is empty or the same as the one before it. Never raises for the file's sake."""
        if not text.strip() or (self._prompts and self._prompts[-1] == text):
            return
        self._prompts.append(text)
        del self._prompts[:-MAX_PROMPTS]
        if self._path is None or len(text) > MAX_PROMPT_CHARACTERS:
            return
        try:
            self._append(self._path, _line(text))
        except OSError as error:
            self.fault = f"prompts are not kept for next time: {error.strerror or error}"

    def _append(self, path: Path, line: bytes) -> None:
        make_private_folder(path.parent)
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | _FLAGS, 0o600)
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                raise OSError(0, f"{path.name} is no regular file")
            if found.st_mode & 0o077:
                os.fchmod(fd, 0o600)
            if found.st_size and os.pread(fd, 1, found.st_size - 1) != b"\n":
                line = b"\n" + line  # the one before was cut, by a kill or a full disk
            if found.st_size + len(line) <= _MAX_FILE_BYTES:
                os.write(fd, line)
                return
        finally:
            os.close(fd)
        self._rewrite(path)

    def _rewrite(self, path: Path) -> None:
        """Puts the newest prompts, at most half of the bound, in the file's place, whole or not at all."""
        kept: list[bytes] = []
        room = _MAX_FILE_BYTES // 2
        for text in reversed(self._prompts):
            line = _line(text)
            room -= len(line)
            if room < 0:
                break
            if len(text) <= MAX_PROMPT_CHARACTERS:
                kept.append(line)
        new = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(b"".join(reversed(kept)))
            os.replace(new, path)
        finally:
            new.unlink(missing_ok=True)

    def _read(self) -> list[str]:
        if self._path is None:
            return []
        try:
            fd = os.open(self._path, os.O_RDONLY | _FLAGS)
        except FileNotFoundError:
            return []
        except OSError as error:
            self.fault = f"earlier prompts cannot be read: {error.strerror or error}"
            return []
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                self.fault = f"earlier prompts cannot be read: {self._path.name} is no regular file"
                return []
            data = os.read(fd, 2 * _MAX_FILE_BYTES)
        finally:
            os.close(fd)
        return [text for line in data.split(b"\n") if (text := _text(line))]


def open_history(settings: Settings) -> PromptHistory:
    """The history of the workspace; one that is not kept where sessions are not kept either."""
    if settings.session_store == IN_MEMORY:
        return PromptHistory(None)
    digest = hashlib.sha256(os.fsencode(settings.workspace)).hexdigest()[:16]
    return PromptHistory(state_folder() / "prompts" / f"{digest}.jsonl")


def _line(text: str) -> bytes:
    return msgspec.json.encode(text.encode("utf-8", "replace").decode()) + b"\n"


def _text(line: bytes) -> str:
    """The prompt in a line; empty if it holds none, such as one that was cut by a crash."""
    return parsed(line, str) or ""
