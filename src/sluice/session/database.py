"""One writing connection in one thread: what is to be written goes in, and comes back when it is on disk.

Work that nobody waits for (deltas, notices) is committed with the next work that somebody does, or 20 ms later, or at
4 KiB. Work that is waited for is committed at once, together with all that came before it, in the order it came. A commit
that holds a start, an end or a finish is synced to the disk; one of deltas alone is not: a killed process loses none of
it, a power cut may lose the last of it.

Processes take turns by a lock of ours around each transaction, so SQLite's own "database is locked" does not arise; nor
do two processes ever write and empty the log at the same time.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import queue
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from sluice.errors import StoreError
from sluice.session.disk import WAL_BYTES, empty_log, make_private, open_writing, store_error
from sluice.session.durable import write_again
from sluice.session.file_systems import on_network
from sluice.session.locks import FileLock

GROUP_SECONDS = 0.02  # how long work may wait for a commit
GROUP_BYTES = 4096  # how much of it may wait
TURN_SECONDS = 10.0  # how long another process may keep the store before that is said
_UNSEEN_BYTES = 256 * 1024  # what deltas may add to the log before its size is asked for again
_COMMIT_BYTES = 3 * 4096  # what a commit of deltas adds at most, beside the deltas themselves

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]
Done = Callable[[Any, StoreError | None], None]

_REOPEN = {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FULL}


_ELSEWHERE = "; --session-store FILE names another, :memory: keeps nothing"


class _Item:
    __slots__ = ("begins", "done", "error", "full", "result", "work")

    def __init__(self, work: Work[Any], full: bool, done: Done, begins: bool = False) -> None:
        self.work = work
        self.full = full
        self.done = done
        self.begins = begins
        self.result: Any = None
        self.error: StoreError | None = None


class _Bell:
    """Wakes the one thread that waits for it; a ring that nobody waits for yet counts for the next wait.

    A `Condition` does the same with three times the code, and a live delta runs all of it with cold caches.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def ring(self) -> None:
        with contextlib.suppress(RuntimeError):  # it has been rung
            self._lock.release()

    def wait(self, seconds: float) -> None:
        """Returns when it is rung, or after so many seconds; negative: however long it takes."""
        self._lock.acquire(timeout=seconds)


class Database:
    """A session store's file, open for writing. `warnings` says what a person should know about it.

    Open and close it in one thread; `write`, `write_now` and `later` may be called from any. After `close` nothing of it
    is left: no thread, no descriptor, and no log beside the file if no other process has it open.
    """

    def __init__(self, path: Path) -> None:
        """Opens the store, or makes it. Raises `StoreError`, and then leaves what it found as it was."""
        self.path = path
        self.warnings: list[str] = []
        self._network = on_network(path)
        self._connection: sqlite3.Connection | None = None
        self._broken = False
        self._unsynced = False  # a sync may have failed, and the log has not been emptied since
        self._full = True  # whether a commit is synced to the disk, as the connection is set now
        self._items: list[_Item] = []
        self._urgent = 0
        self._waiting_bytes = 0
        self._since = 0.0
        self._closing = False
        self._file: os.stat_result | None = None
        self._unseen = 0  # bytes by which the log may have grown since its size was last asked for
        self._guard = threading.Lock()
        self._bell = _Bell()
        opened: queue.SimpleQueue[StoreError | None] = queue.SimpleQueue()
        self._users, self._turn = self._locks()
        self._ours = _Turn(self._turn, self.path)
        self._thread = threading.Thread(target=self._serve, args=(opened,), name="sluice-store", daemon=True)
        self._thread.start()
        failure = opened.get()
        if failure is not None:
            self._thread.join()
            self._close_locks()
            raise failure
        if self._network:
            self.warnings.append(
                f"the session store {str(path)!r} lies on a network file system ({self._network}): it works, slower, and "
                "only one machine may use it at a time; --session-store chooses another place"
            )

    def _locks(self) -> tuple[FileLock, FileLock]:
        made: list[FileLock] = []
        try:
            make_private(self.path)
            for ending in (".users", ".turn"):
                made.append(FileLock(Path(f"{self.path}{ending}")))
        except OSError as error:
            for lock in made:
                lock.close()
            if error.errno in (errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.ELOOP):
                raise StoreError(
                    "io", f"the session store {str(self.path)!r} cannot be used: {error.strerror}{_ELSEWHERE}"
                ) from None
            found = store_error(error, self.path)
            raise StoreError(found.kind, f"{found}{_ELSEWHERE if found.kind == 'read_only' else ''}") from None
        return made[0], made[1]

    def _close_locks(self) -> None:
        self._users.close()
        self._turn.close()

    # -- giving work

    async def write(self, work: Work[T], *, full: bool = True) -> T:
        """What `work` returns, once it is committed, and before or with it all work that came before. Raises `StoreError`.

        Earlier work that failed by itself (a row that is refused) is not among it: that is told to its own `done`, and
        takes nobody with it. Being cancelled takes nothing back. `full` syncs the commit to the disk.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def tell(result: T, error: StoreError | None) -> None:
            if future.cancelled():
                return
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

        def done(result: T, error: StoreError | None) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is gone, and with it whoever waited
                loop.call_soon_threadsafe(tell, result, error)

        self._put(_Item(work, full, done), urgent=True)
        return await future

    def write_now(self, work: Work[T], *, full: bool = True) -> T:
        """The same for callers that are not coroutines; blocks for the commit."""
        ready = threading.Event()
        answer: list[tuple[Any, StoreError | None]] = []

        def done(result: T, error: StoreError | None) -> None:
            answer.append((result, error))
            ready.set()

        self._put(_Item(work, full, done), urgent=True)
        ready.wait()
        result, error = answer[0]
        if error is not None:
            raise error
        return result  # type: ignore[no-any-return]

    def later(self, work: Work[Any], done: Done, *, begins: bool = False) -> None:
        """Work for the next commit. `done` is called in the writing thread. Raises `StoreError` after `close`.

        `begins`: outside a transaction the work is one statement, or begins a transaction itself (`BEGIN IMMEDIATE`).
        """
        self._put(_Item(work, False, done, begins), urgent=False)

    def grew(self, size: int) -> None:
        """The work that waits grew by `size` bytes."""
        self._waiting_bytes += size  # a lost update of this hint costs some milliseconds at most
        if self._waiting_bytes >= GROUP_BYTES:
            self._bell.ring()

    def _put(self, item: _Item, *, urgent: bool) -> None:
        with self._guard:
            if self._closing:
                raise StoreError("io", f"the session store {str(self.path)!r} is closed")
            first = not self._items
            if first:
                self._since = time.monotonic()
            self._items.append(item)
            self._urgent += urgent
        if urgent or first:
            self._bell.ring()

    def close(self) -> None:
        """Commits what waits and ends the thread. Closing twice is fine."""
        with self._guard:
            if self._closing:
                return
            self._closing = True
        self._bell.ring()
        self._thread.join()
        self._close_locks()

    # -- the writing thread

    def _serve(self, opened: queue.SimpleQueue[StoreError | None]) -> None:
        failure = self._first_opening()
        opened.put(failure)
        if failure is not None:
            return
        while True:
            batch = self._next_batch()
            if not batch:
                break
            self._commit(batch)
        with contextlib.suppress(StoreError, sqlite3.Error, OSError):
            if self._turn.wait(TURN_SECONDS) and self._connection is not None:
                self._connection.close()  # under the lock: the last one out empties the log
                self._turn.release()
        if self._connection is not None:
            self._connection.close()

    def _first_opening(self) -> StoreError | None:
        try:
            alone = self._users.try_exclusive()
            log = Path(f"{self.path}-wal")
            unclean = alone and log.exists() and log.stat().st_size > 0
            with self._ours:
                self._connection = open_writing(self.path, check=unclean, network=self._network)
                self._file = os.stat(self.path)
                if unclean and not self._network:  # whoever died may have died of a failed sync
                    with contextlib.suppress(StoreError, sqlite3.Error, OSError):
                        empty_log(self._connection, self.path)
            if not self._users.wait(TURN_SECONDS, shared=True):
                raise StoreError("busy", f"another process keeps the session store {str(self.path)!r} for itself")
        except Exception as error:
            if self._connection is not None:
                self._connection.close()
            return store_error(error, self.path)
        return None

    def _in_place(self) -> None:
        """Raises `StoreError` if the file was removed or replaced: what is written to it then is kept nowhere."""
        with contextlib.suppress(FileNotFoundError):
            found = os.stat(self.path)
            if self._network is not None or self._file is None or os.path.samestat(found, self._file):
                return
        raise StoreError("io", f"the session store {str(self.path)!r} was removed or replaced while it was in use")

    def _next_batch(self) -> list[_Item]:
        while True:
            with self._guard:
                left = -1.0
                if self._items:
                    left = self._since + GROUP_SECONDS - time.monotonic()
                    if left <= 0 or self._urgent or self._waiting_bytes >= GROUP_BYTES:
                        return self._taken()
                if self._closing:
                    return self._taken()
            self._bell.wait(left)

    def _taken(self) -> list[_Item]:
        batch, self._items = self._items, []
        self._unseen += self._waiting_bytes + _COMMIT_BYTES
        if self._urgent:
            self._unseen = _UNSEEN_BYTES  # it may write much
        self._urgent = self._waiting_bytes = 0
        return batch

    def _commit(self, batch: list[_Item]) -> None:
        try:
            with self._ours:
                try:
                    full = self._network is not None or any(item.full for item in batch)
                    if full:
                        self._in_place()
                    connection = self._usable()
                    self._sync(connection, full)
                    self._transact(connection, batch)
                except Exception as error:
                    self._roll_back(error)
                    raise
                if self._unseen >= _UNSEEN_BYTES:
                    self._bound_log(connection)
        except Exception as error:
            failure = store_error(error, self.path)
            for item in batch:
                item.error = item.error or failure
        for item in batch:
            item.done(None if item.error else item.result, item.error)

    def _transact(self, connection: sqlite3.Connection, batch: list[_Item]) -> None:
        alone = len(batch) == 1
        if not (alone and batch[0].begins):
            connection.execute("BEGIN IMMEDIATE")
        if alone:
            batch[0].result = batch[0].work(connection)
        else:
            for item in batch:
                self._do(connection, item)
        if connection.in_transaction:
            connection.execute("COMMIT")

    def _sync(self, connection: sqlite3.Connection, full: bool) -> None:
        if self._full is not full:
            connection.execute(f"PRAGMA synchronous = {'FULL' if full else 'NORMAL'}")
            self._full = full

    def _do(self, connection: sqlite3.Connection, item: _Item) -> None:
        """Does one work of several. One that fails by itself takes back its own rows and nobody else's."""
        connection.execute("SAVEPOINT work")
        try:
            item.result = item.work(connection)
        except Exception as error:
            if not connection.in_transaction:  # a full or failing disk has ended the whole transaction
                raise
            connection.execute("ROLLBACK TO work")
            item.error = store_error(error, self.path)
        connection.execute("RELEASE work")

    def _usable(self) -> sqlite3.Connection:
        if self._broken or self._connection is None:
            # After a failed sync nobody knows what of the log is on disk: a new connection reads it afresh.
            if self._unsynced:
                write_again(f"{self.path}-wal")  # before it is emptied: that may be done in closing
            if self._connection is not None:
                self._connection.close()
                self._connection = None
            self._connection = open_writing(self.path, check=False, network=self._network)
            self._full = True
            if self._unsynced and not self._network:
                empty_log(self._connection, self.path)
            self._broken = self._unsynced = False
        return self._connection

    def _roll_back(self, error: Exception) -> None:
        if isinstance(error, sqlite3.Error):
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            self._broken = self._broken or code in _REOPEN
            self._unsynced = self._unsynced or code == sqlite3.SQLITE_IOERR
        if self._connection is not None:
            try:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
            except sqlite3.Error:
                self._broken = True
        if self._unsynced:
            with contextlib.suppress(StoreError, sqlite3.Error, OSError):  # before another process adds to the log
                self._usable()

    def _bound_log(self, connection: sqlite3.Connection) -> None:
        """Empties a log that grew because somebody reads for long. One who still reads is not waited for."""
        self._unseen = 0
        if self._network:
            return
        try:
            if os.stat(f"{self.path}-wal").st_size < WAL_BYTES:
                return
            self._unseen = _UNSEEN_BYTES  # the next commit looks again
            connection.execute("PRAGMA busy_timeout = 0")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            connection.execute(f"PRAGMA busy_timeout = {int(TURN_SECONDS * 1000)}")
        except (OSError, sqlite3.Error):
            return  # the rows are committed; the next commit tries again


class _Turn:
    """The lock around one transaction."""

    def __init__(self, lock: FileLock, path: Path) -> None:
        self._lock = lock
        self._path = path

    def __enter__(self) -> None:
        if not self._lock.wait(TURN_SECONDS):
            raise StoreError("busy", f"another process keeps the session store {str(self._path)!r}; try again")

    def __exit__(self, *_: object) -> None:
        self._lock.release()
