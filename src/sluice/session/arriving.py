"""The reply that arrives now: its deltas wait for a commit, and then are rows of their own until the reply ends.

One row for each run of one kind that a commit takes, numbered here, so that writing one is a single statement. The event
loop adds, and the writing thread takes; what a failing disk did not take stays, and is tried again with the next commit.
"""

from __future__ import annotations

import sqlite3
import threading

from sluice.errors import StoreError
from sluice.session import rows
from sluice.session.database import GROUP_BYTES, Database
from sluice.session.folding import size_row
from sluice.values.ports import ChunkKind
from sluice.wire.surrogates import storable

COUNTED_ROWS = 64  # rows of an arriving reply between two counts of them in the run
_INSERT = "INSERT INTO chunk VALUES (?, ?, ?, ?, ?)"
_AGAIN = "INSERT OR REPLACE INTO chunk VALUES (?, ?, ?, ?, ?)"  # after a failure: they may be on the disk after all

_Taken = tuple[int, int, dict[int, int]]  # how many deltas, how many rows, and the sizes of calls


class ArrivingReply:
    """What was told of the reply that arrives and no commit has taken yet. Used again for each reply.

    `seq` is its message, 0 between two replies. `lost`: the last commit of its deltas failed. `gap`: a delta was refused
    after that, so the rows lack it for good. `size` is what waits, in characters.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._run = ""
        self._goes_on = False
        self.seq = 0
        self._next = 0  # the number of its next row
        self._waiting: list[tuple[ChunkKind, str]] = []
        self.size = 0
        self._sizes: dict[int, int] = {}  # bytes of arguments of each call, and those that are kept
        self._kept_sizes: dict[int, int] = {}
        self._scheduled = False
        self._guard = threading.Lock()
        self._failure: StoreError | None = None
        self.lost = False
        self.gap = False

    def begin(self, run: str, seq: int, first: int) -> None:
        """A reply begins: its run, its message, the number of its first row."""
        self._run, self._goes_on, self.gap = run, True, False
        self.seq, self._next = seq, first
        self.forget()  # what a failing disk did not take of an earlier reply is no part of this one

    def end(self) -> tuple[int, bool]:
        """No more of it comes; what waits is put before what follows. Returns its message, and whether it has a gap."""
        seq, self.seq, self._goes_on = self.seq, 0, False
        with self._guard:
            self._sizes.clear()  # the calls are whole now, or are dropped
        self.schedule()
        return seq, self.gap

    def forget(self) -> None:
        """What still waits is kept elsewhere, or is not wanted any more."""
        with self._guard:
            self._waiting.clear()
            self._sizes.clear()
            self._kept_sizes.clear()
            self.size = 0

    def add(self, run: str, kind: ChunkKind, text: str) -> None:
        """The next delta. Raises `StoreError` if an earlier one could not be kept."""
        self._check(run)
        if kind == "call":
            text = text.lstrip("\t")  # what begins so is the size of a call
        with self._guard:
            self._waiting.append((kind, text))
            self.size += _bytes(text)
        self.schedule()
        self._database.grew(_bytes(text))

    def grew(self, run: str, call: int, size: int) -> None:
        """The arguments of its call number `call`, in the order of their names, have `size` bytes.

        That goes with the next commit of deltas; only 4 KiB more than what is kept ask for one. Raises as `add` does.
        """
        self._check(run)
        with self._guard:
            self._sizes[call] = size
            wanted = size - self._kept_sizes.get(call, 0) >= GROUP_BYTES and not self._scheduled
            self._scheduled = self._scheduled or wanted
        if wanted:
            self._database.later(self._flush, self._flushed, begins=True)

    def _check(self, run: str) -> None:
        if self._failure is not None:
            failure, self._failure = self._failure, None
            self.gap = True
            raise failure
        if run != self._run or not self._goes_on:
            raise StoreError("refused", f"run {run} has no reply that is arriving")

    def schedule(self) -> None:
        """Puts the deltas that wait into the next commit, once: before whatever is asked for after this."""
        with self._guard:
            wanted = bool(self._waiting) and not self._scheduled
            self._scheduled = self._scheduled or wanted
        if wanted:
            self._database.later(self._flush, self._flushed, begins=True)

    def _flush(self, connection: sqlite3.Connection) -> _Taken:
        """Writes what waits, one row for each run of one kind, and the sizes of calls that have grown."""
        with self._guard:
            self._scheduled = False  # what comes from here on asks for a flush of its own
            waiting, run, first = list(self._waiting), self._run, self._next
            sizes = {call: size for call, size in self._sizes.items() if size != self._kept_sizes.get(call)}
        again, self.lost = self.lost, True
        found = [*_together(waiting), *(("call", size_row(call, size)) for call, size in sizes.items())]
        end = first + len(found)
        counted = end // COUNTED_ROWS > first // COUNTED_ROWS
        if (len(found) > 1 or counted) and not connection.in_transaction:
            connection.execute("BEGIN IMMEDIATE")
        for at, (kind, text) in enumerate(found, first):
            body = storable(text)
            connection.execute(_AGAIN if again else _INSERT, (run, at, kind, body, rows.crc(body)))
        if counted:
            # All of them are counted when they are folded: a second page in every commit costs a third of it.
            connection.execute("UPDATE run SET chunks = max(chunks, ?) WHERE id = ?", (end, run))
        self.lost = False
        return len(waiting), len(found), sizes

    def _flushed(self, taken: _Taken | None, error: StoreError | None) -> None:
        with self._guard:
            if error is not None:
                self._failure = error
                self._scheduled, self.lost = False, True
            if taken:  # what a failing disk did not take stays, and goes with the next commit that works
                deltas, written, sizes = taken
                del self._waiting[:deltas]
                self.size = sum(_bytes(text) for _kind, text in self._waiting)
                self._next += written
                self._kept_sizes.update(sizes)


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _together(waiting: list[tuple[ChunkKind, str]]) -> list[tuple[ChunkKind, str]]:
    """One row for each run of one kind; each call has one of its own."""
    found: list[tuple[ChunkKind, list[str]]] = []
    for kind, text in waiting:
        if found and kind != "call" and found[-1][0] == kind:
            found[-1][1].append(text)
        else:
            found.append((kind, [text]))
    return [(kind, "".join(texts)) for kind, texts in found]
