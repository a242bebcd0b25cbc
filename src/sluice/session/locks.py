"""Locks that the operating system keeps, so that they die with their holder.

A lock is `flock` on a file of its own. What the file holds (who has it) is for people only; a file left behind locks
nothing. The descriptor is closed on exec, so no command that a tool starts keeps a lock alive.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import time
from pathlib import Path

from sluice.errors import StoreError

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_ID = re.compile(r"[\w-][\w.-]{0,200}", re.ASCII)
_LONGEST_PAUSE = 0.02  # seconds between two tries


class FileLock:
    """A lock between processes (and between openings in one process). Not for several threads at once.

    `path` is made with mode 0600 and stays. Raises `OSError` when the file cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, _FLAGS, 0o600)

    def try_exclusive(self) -> bool:
        """Takes the lock alone, if that can be had at once."""
        return self._try(fcntl.LOCK_EX)

    def _try(self, kind: int) -> bool:
        try:
            fcntl.flock(self._fd, kind | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                return False
            raise
        return True

    def wait(self, seconds: float, *, shared: bool = False) -> bool:
        """Takes the lock, alone or shared, waiting at most `seconds`; says whether it has it."""
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        if self._try(kind):  # almost always
            return True
        until, pause = time.monotonic() + seconds, 0.0005
        while time.monotonic() < until:
            time.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
            if self._try(kind):
                return True
        return False

    def release(self) -> None:
        """Lets the lock go; it can be taken again."""
        fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Lets the lock go for good. Closing twice is fine."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def may_be_ours(session: str) -> bool:
    """Whether this may be the id of a session of ours."""
    return _ID.fullmatch(session) is not None


def _lock_file(folder: Path, session: str) -> Path:
    """The lock's file of a session. A store may come from anywhere, and an id in it may lead out of the folder."""
    if not may_be_ours(session):
        raise StoreError(
            "damaged", f"the session store holds a session with the id {session[:80]!r}, which is none of ours"
        )
    return folder / f"{session}.lock"


class SessionLock:
    """One writer for one session (S5). Held from the making of this object to `close`.

    `folder` holds one file for each session that is in use. Raises `StoreError` of the kind `held`, naming the holder's
    process, when another one has it.
    """

    def __init__(self, folder: Path, session: str) -> None:
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        self.session = session
        self._path = _lock_file(folder, session)
        self._fd = self._taken()
        with contextlib.suppress(OSError):  # a full disk has no room for it; the lock holds without
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, json.dumps({"pid": os.getpid(), "since": int(time.time())}).encode(), 0)

    def _taken(self) -> int:
        while True:
            fd = os.open(self._path, _FLAGS, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # The last holder may have removed the name between our opening and our locking.
                if os.path.lexists(self._path) and os.path.samestat(os.fstat(fd), os.stat(self._path)):
                    return fd
            except OSError as error:
                os.close(fd)
                if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                    raise
                raise in_use(self._path.parent, self.session) from None
            os.close(fd)

    def close(self) -> None:
        """Lets the session go. Closing twice is fine."""
        if self._fd >= 0:
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)
            os.close(self._fd)
            self._fd = -1


def in_use(folder: Path, session: str) -> StoreError:
    """That another process works with this session, and which."""
    found = holder(folder, session)
    who = f"process {found}" if found else "another process"
    return StoreError(
        "held", f"session {session} is in use by {who}; wait for it, or work on a copy with --fork {session}"
    )


def holder(folder: Path, session: str) -> int | None:
    """The process that works with this session now, 0 if it cannot be told, `None` if there is none."""
    try:
        fd = os.open(_lock_file(folder, session), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    except (OSError, StoreError):
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except OSError:
        try:
            return int(json.loads(os.pread(fd, 200, 0))["pid"])
        except (ValueError, KeyError, TypeError):
            return 0
    finally:
        os.close(fd)
