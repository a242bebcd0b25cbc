"""What a person has answered about the files of a folder: remembered until one of these files is another."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

import msgspec

from sluice.run.config import PROJECT_FILE
from sluice.run.instructions import NO_INSTRUCTIONS, Instructions
from sluice.run.interaction import UntrustedFile
from sluice.session.private_folder import make_private_folder
from sluice.session.state_file import parsed

_MAX_BYTES = 64 * 1024  # of a remembered answer, and of what is looked at of a project's config
_INSTRUCTIONS = "notes for agents: given to the model as untrusted text, if you say so"
_CONFIG = "configuration: it can only narrow what is allowed, whatever you say"


class _Answer(msgspec.Struct, frozen=True):
    folder: str
    digest: str
    read: bool


class FolderTrust:
    """The answer about one folder (absolute), kept in a file of its own below `state`, for the user alone.

    `answer` is whether the files are given to the model, `None` while nobody has said so of these very files.
    """

    def __init__(self, folder: str, instructions: Instructions, state: Path) -> None:
        self._folder = folder
        self._instructions = instructions
        self._config = _at_most(Path(folder) / PROJECT_FILE)
        name = hashlib.sha256(os.fsencode(folder)).hexdigest()
        self._path = state / "folders" / f"{name}.json"
        self._digest = self._digest_now()
        self.answer = self._remembered()

    def files(self) -> tuple[UntrustedFile, ...]:
        """The files that a person should know of before they count for the model."""
        found = [UntrustedFile(path=f.path, bytes=f.bytes, purpose=_INSTRUCTIONS) for f in self._instructions.files]
        if self._config is not None:
            found.append(UntrustedFile(path=str(PROJECT_FILE), bytes=self._config[0], purpose=_CONFIG))
        return tuple(found)

    def problems(self) -> tuple[str, ...]:
        """A line for each file that is there and cannot be read, for as long as nobody has answered."""
        return self._instructions.problems if self.answer is None else ()

    def given(self) -> Instructions:
        """What the model is given of these files: nothing until somebody has said so."""
        return self._instructions if self.answer else NO_INSTRUCTIONS

    def remember(self, read: bool) -> None:
        """Keeps the answer. Raises `OSError` if that cannot be done; it counts here all the same."""
        self.answer = read
        raw = msgspec.json.encode(_Answer(os.fsencode(self._folder).decode("utf-8", "replace"), self._digest, read))
        make_private_folder(self._path.parent)
        new = self._path.with_suffix(f".{os.getpid()}.new")
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
            with open(os.open(new, flags, 0o600), "wb") as file:
                file.write(raw)
            os.replace(new, self._path)
        except OSError:
            with contextlib.suppress(OSError):
                new.unlink()
            raise

    def _remembered(self) -> bool | None:
        found = _at_most(self._path)
        if found is None:
            return None
        answer = parsed(found[1], _Answer)
        return answer.read if answer is not None and answer.digest == self._digest else None

    def _digest_now(self) -> str:
        whole = hashlib.sha256(os.fsencode(self._folder))
        for file in self._instructions.files:
            whole.update(f"\0{file.path}\0{file.digest}".encode("utf-8", "surrogateescape"))
        if self._config is not None:
            whole.update(b"\0config\0" + hashlib.sha256(self._config[1]).digest())
        return whole.hexdigest()


def _at_most(path: Path) -> tuple[int, bytes] | None:
    """Size and first bytes of a regular file that is no link; `None` for anything else."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with contextlib.suppress(OSError), open(fd, "rb") as file:
        return os.fstat(fd).st_size, file.read(_MAX_BYTES)
    return None
