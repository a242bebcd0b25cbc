"""The session store: one session of a SQLite file, open for writing. Implements `values.ports.Store`.

What a loss of power can cost: starts and ends of runs and calls are synced to the disk before they are acknowledged;
deltas are not, so the last of an arriving reply may be lost then. A killed process loses at most 20 ms or 4 KiB of them.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from sluice.errors import StoreError
from sluice.session import rows, shrunk, usage, waiting
from sluice.session.arriving import ArrivingReply
from sluice.session.database import Database
from sluice.session.folding import drop_open, fold
from sluice.session.locks import SessionLock
from sluice.session.run_order import alive, awaiting, next_turn
from sluice.values.calls import CallKey
from sluice.values.healed import StartedCall
from sluice.values.messages import (
    AssistantMessage,
    Conversation,
    Message,
    ToolMessage,
    UserMessage,
)
from sluice.values.notices import AlsoUsed, Notice, Summarised, TurnFinished
from sluice.values.ports import ChunkKind
from sluice.values.results import ToolResult
from sluice.values.waiting import WaitingCalls
from sluice.wire.surrogates import storable

_MOST_WAITING = 8 * 1024 * 1024  # bytes of deltas that a disk which does not keep up may hold back


class SqliteStore:
    """One session. Every method may be called from the event loop only; `keep_preimage` from any thread.

    `session` is its id; the session's row is written with its first run. `lock` is let go and `database` closed by
    `close`. `seen` tells which files the session has seen (path to SHA-256), to be kept with the end of each call. `mend`
    makes right what the run before could not store (the disk was full); a new run begins with it. It is told whether calls
    that wait for a person stay open. `room` raises `StoreError` where the store holds so much that no reply may begin.
    `meanwhile` is done beside all that, and ends with `close` at the latest.
    """

    def __init__(
        self,
        database: Database,
        session: str,
        project: str,
        lock: SessionLock,
        *,
        seen: Callable[[], Mapping[str, str]] = dict,
        now: Callable[[], float] = time.time,
        mend: Callable[[sqlite3.Connection, bool], object] = lambda _connection, _keep_waiting: None,
        room: Callable[[sqlite3.Connection], None] = lambda _connection: None,
        meanwhile: Coroutine[Any, Any, None] | None = None,
    ) -> None:
        self.database = database
        self.session = session
        self._project = project
        self._lock = lock
        self.seen = seen
        self._now = now
        self._mend = mend
        self._room = room
        self._meanwhile = None if meanwhile is None else asyncio.create_task(meanwhile)
        self._known: dict[str, str] = {}
        self._arriving = ArrivingReply(database)
        self._call: CallKey | None = None  # the changing call that runs now, for its pre-images

    async def close(self) -> None:
        """Commits what waits, closes the database and lets the session go."""
        try:
            if self._meanwhile is not None:
                self._meanwhile.cancel()
                await asyncio.wait([self._meanwhile])
        finally:
            try:
                self.database.close()
            finally:
                self._lock.close()

    # -- a run and its messages

    async def started(self, run: str, prompt: UserMessage | None) -> None:
        """See `Store.started`."""
        began, at = time.monotonic_ns(), self._now()

        def work(connection: sqlite3.Connection) -> None:
            self._mend(connection, prompt is None)
            connection.execute(
                "INSERT INTO session (id, project, created_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                (self.session, self._project, at),
            )
            connection.execute(
                "UPDATE session SET last = (SELECT max(last) FROM session) + 1 WHERE id = ?", (self.session,)
            )
            number = connection.execute(
                "SELECT coalesce(max(number), 0) + 1 FROM run WHERE session = ?", (self.session,)
            ).fetchone()[0]
            try:
                connection.execute(
                    "INSERT INTO run (id, session, number, started_at, began_ns) VALUES (?, ?, ?, ?, ?)",
                    (run, self.session, number, at, began),
                )
            except sqlite3.IntegrityError:
                raise StoreError("refused", f"run {run} has been started before") from None
            if prompt is not None:
                rows.put(connection, self.session, rows.next_seq(connection, self.session), prompt, run=run)

        await self.database.write(work)

    async def reply_began(self, run: str, turn: int, sent: int = 0) -> None:
        """See `Store.reply_began`."""

        def work(connection: sqlite3.Connection) -> tuple[int, int]:
            alive(connection, run)
            self._room(connection)
            drop_open(connection, self.session)
            seq = rows.next_seq(connection, self.session)
            first = connection.execute(
                "INSERT INTO message (session, seq, run, turn, role, state, head, first_chunk) "
                "SELECT ?, ?, id, ?, 'assistant', 'open', ?, chunks FROM run WHERE id = ? RETURNING first_chunk",
                (self.session, seq, turn, f'{{"sent":{sent}}}' if sent else "{}", run),
            ).fetchone()[0]
            return seq, first

        seq, first = await self.database.write(work, full=False)
        self._arriving.begin(run, seq, first)

    async def delta(self, run: str, kind: ChunkKind, text: str) -> None:
        """See `Store.delta`."""
        self._arriving.add(run, kind, text)
        if self._arriving.size > _MOST_WAITING:
            await self.database.write(lambda _connection: None, full=False)

    async def call_grew(self, run: str, call: int, size: int) -> None:
        """See `Store.call_grew`."""
        self._arriving.grew(run, call, size)

    async def append(self, run: str, message: Message) -> str:
        """See `Store.append`."""
        seq, gap = self._arriving.end()

        def work(connection: sqlite3.Connection) -> int:
            alive(connection, run)
            if isinstance(message, AssistantMessage) and seq:
                fold(connection, self.session, seq, message, "whole", all_told=not (gap or self._arriving.lost))
                return seq
            drop_open(connection, self.session)
            answers = awaiting(connection, self.session, message) if isinstance(message, ToolMessage) else None
            new = rows.next_seq(connection, self.session)
            turn = next_turn(connection, run) if isinstance(message, AssistantMessage) else None
            rows.put(connection, self.session, new, message, run=run, turn=turn, answers=answers)
            return new

        place = await self.database.write(work, full=isinstance(message, ToolMessage))
        self._arriving.forget()  # the message holds all of it
        return f"{self.session}@{place}"

    # -- calls

    async def asked(self, key: CallKey, tool: str, digest: str) -> None:
        """See `Store.asked`."""
        await self.database.write(lambda connection: waiting.ask(connection, self.session, key, tool, digest))

    async def answered(self, key: CallKey, granted: bool) -> None:
        """See `Store.answered`."""
        await self.database.write(
            lambda connection: (
                connection.execute(
                    "UPDATE approval SET granted = ? WHERE run = ? AND turn = ? AND position = ? AND granted IS NULL",
                    (int(granted), key.run, key.turn, key.position),
                ).rowcount
            )
        )

    async def call_started(self, call: StartedCall) -> None:
        """See `Store.call_started`."""
        key, verdict = call.key, call.verdict
        row = (key.run, key.turn, key.position, storable(call.tool), verdict.digest, verdict.rule, self._now())

        def work(connection: sqlite3.Connection) -> None:
            waiting.may_start(connection, self.session, key, verdict.digest)
            try:
                connection.execute(
                    "INSERT INTO call (run, turn, position, tool, digest, rule, started_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
                    row,
                )
            except sqlite3.IntegrityError:
                raise StoreError("refused", f"call {key} has been started before") from None

        await self.database.write(work)
        self._call = key

    async def call_ended(self, call: StartedCall, result: ToolResult) -> None:
        """See `Store.call_ended`. With it goes what the session has seen of files, and what the call left of them."""
        key, seen = call.key, dict(self.seen())
        body = rows.to_json(result)

        def work(connection: sqlite3.Connection) -> None:
            ended = connection.execute(
                "UPDATE call SET status = ?, result = ? WHERE run = ? AND turn = ? AND position = ? AND status IS NULL",
                (result.status, body, key.run, key.turn, key.position),
            )
            if not ended.rowcount:
                raise StoreError("refused", f"call {key} is not running")
            _keep_seen(connection, self.session, self._known, seen)
            _left_behind(connection, key, seen)

        await self.database.write(work)
        self._known = seen

    def keep_preimage(self, handle: str, path: str, sha256: str | None, mode: int | None) -> None:
        """Keeps which pre-image belongs to the changing call that runs now. Blocks until it is on disk.

        Raises `StoreError`: then nothing may change.
        """
        key = self._call
        if key is None:
            raise StoreError("refused", "no call is running that could change a file")

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(
                "INSERT INTO preimage (handle, run, turn, position, number, path, sha256, mode, workspace) "
                "SELECT ?1, ?2, ?3, ?4, count(*), ?5, ?6, ?7, nullif(?8, (SELECT project FROM session WHERE id = ?9)) "
                "FROM preimage WHERE run = ?2",
                (handle, key.run, key.turn, key.position, plain_path(path), sha256, mode, self._project, self.session),
            )

        self.database.write_now(work)

    # -- the rest

    async def noted(self, run: str, notice: Notice) -> None:
        """See `Store.noted`. Of others than those of usage nothing is told if they cannot be kept."""
        at = self._now()

        def work(connection: sqlite3.Connection) -> None:
            of = run or usage.last_run(connection, self.session)
            if of is None:  # a fork in which nothing was run yet
                if not isinstance(notice, (Summarised, AlsoUsed)) or notice.usage is None:
                    return
                of = usage.run_of_its_own(connection, self.session, at)
            if isinstance(notice, TurnFinished):
                usage.keep(connection, of, notice.turn, notice)
                return
            if isinstance(notice, Summarised) and notice.usage is not None:
                usage.keep(connection, of, 0, notice)
            if isinstance(notice, AlsoUsed):
                usage.keep(connection, of, -notice.turn, notice)
            connection.execute(
                "INSERT INTO notice SELECT ?, count(*), ? FROM notice WHERE run = ?",
                (of, storable(rows.to_json(notice)), of),
            )

        if isinstance(notice, (TurnFinished, Summarised, AlsoUsed)):
            await self.database.write(work, full=False)  # money that is not kept is told
        else:
            self.database.later(work, lambda _result, _error: None)

    async def finished(self, run: str, outcome: str) -> None:
        """See `Store.finished`."""
        self._arriving.end()

        def work(connection: sqlite3.Connection) -> None:
            alive(connection, run)
            drop_open(connection, self.session)
            connection.execute(
                "UPDATE run SET outcome = ?, duration_ns = max(0, ? - began_ns) WHERE id = ?",
                (outcome, time.monotonic_ns(), run),
            )

        await self.database.write(work)
        self._arriving.forget()

    async def history(self) -> Conversation:
        """See `Store.history`."""

        def work(connection: sqlite3.Connection) -> tuple[list[Message], bool]:
            found = [stored.message for stored in rows.stored_messages(connection, self.session)]
            return found, waiting.waiting(connection, self.session) is not None

        found, open_end = await self.database.write(work, full=False)
        return rows.paired(found, open_end=open_end)

    async def waiting(self) -> WaitingCalls | None:
        """See `Store.waiting`."""
        return await self.database.write(lambda connection: waiting.waiting(connection, self.session), full=False)

    async def shrank(self, messages: Conversation) -> None:
        """See `Store.shrank`."""
        await self.database.write(lambda connection: shrunk.keep(connection, self.session, messages))

    async def sent(self) -> Conversation:
        """See `Store.sent`."""
        return await self.database.write(lambda connection: shrunk.sent(connection, self.session), full=False)

    async def last_exchanges(self, replies: int) -> Conversation:
        """See `Store.last_exchanges`."""
        return await self.database.write(
            lambda connection: shrunk.last_exchanges(connection, self.session, replies), full=False
        )

    async def broken_off(self) -> bool:
        """See `Store.broken_off`."""

        def work(connection: sqlite3.Connection) -> bool:
            last = "SELECT outcome FROM run WHERE session = ? ORDER BY number DESC LIMIT 1"
            found = connection.execute(last, (self.session,)).fetchone()
            return found is not None and found[0] in (rows.INTERRUPTED, "terminated")

        return await self.database.write(work, full=False)

    async def seen_files(self) -> dict[str, str]:
        """Path to SHA-256 of the files that the session had seen when its last call ended."""

        def work(connection: sqlite3.Connection) -> dict[str, str]:
            return dict(connection.execute("SELECT path, sha256 FROM seen WHERE session = ?", (self.session,)))

        self._known = await self.database.write(work, full=False)
        return dict(self._known)


def plain_path(path: str) -> str:
    """A workspace path by its components: `./a` is `a`."""
    return "/".join(part for part in path.split("/") if part not in ("", "."))


def _keep_seen(connection: sqlite3.Connection, session: str, before: Mapping[str, str], now: Mapping[str, str]) -> None:
    changed: list[tuple[Any, ...]] = [
        (session, path, digest) for path, digest in now.items() if before.get(path) != digest
    ]
    connection.executemany("INSERT OR REPLACE INTO seen VALUES (?, ?, ?)", changed)
    gone = [(session, path) for path in before if path not in now]
    connection.executemany("DELETE FROM seen WHERE session = ? AND path = ?", gone)


def _left_behind(connection: sqlite3.Connection, key: CallKey, seen: Mapping[str, str]) -> None:
    """What the call left of each file whose pre-image was kept: a tool marks what it writes as seen."""
    paths = connection.execute(
        "SELECT handle, path FROM preimage WHERE run = ? AND turn = ? AND position = ?",
        (key.run, key.turn, key.position),
    ).fetchall()
    connection.executemany(
        "UPDATE preimage SET ended = 1, after = ? WHERE handle = ?",
        [(seen.get(path), handle) for handle, path in paths],
    )
