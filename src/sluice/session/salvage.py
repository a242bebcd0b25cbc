"""Reading what a damaged store still holds, row by row, into a new one that keeps the promises."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Iterator
from typing import Any

import msgspec

from sluice.errors import StoreError
from sluice.session import rows
from sluice.session.locks import may_be_ours
from sluice.session.resume import UNKNOWN
from sluice.values.calls import call_digest
from sluice.values.messages import AssistantMessage, ToolCall, ToolMessage

_SALVAGED = "salvaged"  # the rule of a start whose own record, or approval, is lost
_MOST_WORDS = 50  # lines about what was lost
_BY_RUN = {
    "call": "turn, position",
    "approval": "turn, position",
    "usage": "number",
    "notice": "number",
    "preimage": "number",
}
_JSON = {"usage": ("usage",), "notice": ("body",)}  # columns that hold JSON
_BY_SESSION = {"seen": "path", "shrunk": "session"}


class _Row(dict[str, Any]):
    """A row by column. One whose column lost its name has nothing there."""

    def __missing__(self, name: str) -> None:
        return None


class Salvage:
    """Takes rows from `old` (a copy that may be damaged anywhere) into `new` (empty, with our schema)."""

    def __init__(self, old: sqlite3.Connection, new: sqlite3.Connection, project: str, now: float) -> None:
        self._old, self._new = old, new
        self._project, self._now = project, now
        self._unread: set[str] = set()  # tables of which a part could not be read
        self._columns = {
            table: [str(row[1]) for row in new.execute(f"PRAGMA table_info({table})")]
            for table in ("session", "run", "message", "part", "chunk", *_BY_RUN, *_BY_SESSION)
        }
        self.lost: list[str] = []
        self.sessions = 0
        self.messages = 0

    def take(self) -> None:
        """Takes all there is, inside the caller's transaction."""
        kept = {row["id"]: row for row in self._rows("session", "", (), "last") if isinstance(row["id"], str)}
        runs: dict[str, list[dict[str, Any]]] = {}
        for row in self._rows("run", "", (), "session, number"):
            if isinstance(row["id"], str) and isinstance(row["session"], str):
                runs.setdefault(row["session"], []).append(row)
        known = [*kept, *(id for id in runs if id not in kept)]
        known += [id for id in self._sessions_of_messages() if id not in known]
        self._order = itertools.count(1)
        for session in known:
            if not may_be_ours(session):
                self._say(f"a session of which the id is damaged ({session[:40]!r}) cannot be kept")
                continue
            self._session(session, kept.get(session), runs.get(session, []))

    def _say(self, words: str) -> None:
        if len(self.lost) < _MOST_WORDS:
            self.lost.append(words)
        elif len(self.lost) == _MOST_WORDS:
            self.lost.append("… and more")

    # -- reading what may be damaged

    def _rows(self, table: str, where: str, given: tuple[Any, ...], order: str) -> list[dict[str, Any]]:
        """The rows that can be read: from the front up to the damage, and from the back down to it."""
        columns, keys = self._known(table), where.split()[1:2]
        found: dict[tuple[Any, ...], dict[str, Any]] = {}
        whole = False
        for way in ("", " DESC"):
            ordered = ", ".join(f"{name}{way}" for name in order.split(", "))
            sql = f"SELECT {', '.join(columns)} FROM {table} {where} ORDER BY {ordered}"  # noqa: S608 - words of ours
            try:
                for row in self._old.execute(sql, given):
                    # A row among those that were asked for is one of them, though its key be damaged.
                    values = found.setdefault(row, _Row(zip(columns, row, strict=True)))
                    values.update(zip(keys, given, strict=True))
                whole = True
            except (sqlite3.Error, UnicodeDecodeError):
                if table not in self._unread:
                    self._unread.add(table)
                    self._say(f"a part of the table {table} cannot be read")
                continue
            if whole:
                break
        return sorted(found.values(), key=lambda row: tuple(_sortable(row[name]) for name in order.split(", ")))

    def _known(self, table: str) -> list[str]:
        """The columns that can be asked for: a store of an older version has not all of them."""
        try:
            there = {row[1] for row in self._old.execute(f"PRAGMA table_info({table})")}
        except (sqlite3.Error, UnicodeDecodeError):
            there = set()
        return [name for name in self._columns[table] if name in there] or self._columns[table]

    def _sessions_of_messages(self) -> list[str]:
        try:
            found = self._old.execute("SELECT DISTINCT session FROM message").fetchall()
        except (sqlite3.Error, UnicodeDecodeError):
            return []
        return [id for (id,) in found if isinstance(id, str)]

    # -- writing

    def _put(self, table: str, row: dict[str, Any], **changed: Any) -> bool:
        """Writes a row; one that breaks a rule (a number that is none, a row of nothing) is lost."""
        values = {**row, **changed}
        columns = [name for name in self._columns[table] if name in values]
        marks = ", ".join("?" * len(columns))
        self._new.execute("SAVEPOINT row")
        try:
            sql = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"  # noqa: S608 - words of ours
            self._new.execute(sql, [values[name] for name in columns])
        except (sqlite3.IntegrityError, sqlite3.InterfaceError, sqlite3.ProgrammingError, OverflowError):
            self._new.execute("ROLLBACK TO row")
            return False
        finally:
            self._new.execute("RELEASE row")
        return True

    def _session(self, session: str, row: dict[str, Any] | None, runs: list[dict[str, Any]]) -> None:
        messages = self._rows("message", "WHERE session = ?", (session,), "seq")
        if row is None:
            row = {"id": session, "project": self._project, "created_at": self._now, "parent": None}
            self._say(f"session {session}: its own row is gone; it counts as one of this project")
        if not self._put("session", row, last=next(self._order)):
            self._say(f"session {session} cannot be kept")
            return
        self.sessions += 1
        ids = set()
        for number, run in enumerate(runs, 1):
            chunks = self._rows("chunk", "WHERE run = ?", (run["id"],), "seq")
            whole = _unbroken(chunks)
            still_open = run["outcome"] is None and any(
                m["state"] == "open" and m["run"] == run["id"] for m in messages
            )
            kept = whole if still_open else []
            if run["outcome"] is not None and run["duration_ns"] is None:
                run["duration_ns"] = 0  # nobody knows any more
            if self._put("run", run, number=number, chunks=len(kept)):
                ids.add(run["id"])
                for at, chunk in enumerate(kept):
                    self._put("chunk", chunk, seq=at)
        self._messages(session, messages, ids, {r["id"] for r in runs if r["outcome"] is None})
        self._rest(session, runs, ids)

    def _messages(self, session: str, found: list[dict[str, Any]], runs: set[str], going_on: set[str]) -> None:
        by_seq = {m["seq"]: m for m in found if isinstance(m["seq"], int) and 0 < m["seq"] < 10**9}
        parts: dict[int, list[dict[str, Any]]] = {}
        for part in self._rows("part", "WHERE session = ?", (session,), "seq, position"):
            parts.setdefault(part["seq"], []).append(part)
        last = max([*by_seq, *(seq for seq in parts if isinstance(seq, int) and 0 < seq < 10**9)], default=0)
        waiting: list[tuple[int, int, ToolCall]] = []  # message and part of each call that has no result yet
        for seq in range(1, last + 1):
            row = by_seq.get(seq)
            if row is not None and row["state"] == "open" and row["run"] in runs & going_on and seq == last:
                self._put("message", row, first_chunk=0, next_chunk=None, told_crc=None)
                break
            message = None if row is None else self._message(row, parts.get(seq, []))
            if waiting and not self._is_result(message, waiting[0][2]):
                if message is None:
                    self._result(session, seq, waiting.pop(0), _run(row, runs))
                    continue
                waiting = []
            if message is None or (isinstance(message, ToolMessage) and not waiting):
                self._place(
                    session,
                    seq,
                    row,
                    lost=message is not None or row is None or row["state"] in ("whole", "interrupted"),
                )
                continue
            assert row is not None
            answers = waiting[0][:2] if isinstance(message, ToolMessage) else None
            if not self._keep(row, parts.get(seq, []), _run(row, runs), answers):
                if answers is not None:
                    self._result(session, seq, waiting.pop(0), _run(row, runs))
                else:
                    self._place(session, seq, row, lost=True)
                continue
            if isinstance(message, ToolMessage):
                waiting.pop(0)
            elif isinstance(message, AssistantMessage):
                at = [p["position"] for p in parts[seq] if p["kind"] == "call"] if message.tool_calls else []
                waiting = [(seq, place, call) for place, call in zip(at, message.tool_calls, strict=True)]
        if self._unread & {
            "call",
            "message",
            "part",
        }:  # whether they were started cannot be told: the next opening must not
            for more, call in enumerate(waiting, 1):
                self._result(session, last + more, call, None)

    def _message(self, row: dict[str, Any], parts: list[dict[str, Any]]) -> Any:
        """The message of these rows; `None` if it is not there whole, or is none that counts."""
        if row["state"] not in ("whole", "interrupted"):
            return None
        good = [p for p in parts if isinstance(p["body"], str) and rows.crc(p["body"]) == p["crc"]]
        positions = [p["position"] for p in parts]
        if len(good) != len(parts) or positions != list(range(len(parts))):
            return None
        try:
            message = rows.join(row["role"], row["head"], [rows.Part(p["kind"], p["body"]) for p in parts])
        except StoreError:
            return None
        return message if parts or isinstance(message, AssistantMessage) else None

    @staticmethod
    def _is_result(message: Any, call: ToolCall) -> bool:
        return isinstance(message, ToolMessage) and message.call_id == call.id

    def _keep(
        self,
        row: dict[str, Any],
        parts: list[dict[str, Any]],
        run: str | None,
        answers: tuple[int, int] | None,
    ) -> bool:
        """Whether the message could be written, with all of its parts; if not, nothing of it is."""
        to, position = answers or (None, None)
        self._new.execute("SAVEPOINT message")
        kept = self._put("message", row, run=run, first_chunk=None, next_chunk=None, told_crc=None) and all(
            self._put("part", part, answers_seq=to, answers_position=position) for part in parts
        )
        if not kept:
            self._new.execute("ROLLBACK TO message")
        self._new.execute("RELEASE message")
        self.messages += kept
        return kept

    def _place(self, session: str, seq: int, row: dict[str, Any] | None, *, lost: bool) -> None:
        """An empty place where a message was, so that the others keep their numbers."""
        role = row["role"] if row is not None and isinstance(row["role"], str) else "user"
        self._new.execute(
            "INSERT INTO message (session, seq, role, state) VALUES (?, ?, ?, 'dropped')", (session, seq, role)
        )
        if lost:
            self._say(f"session {session}: message {seq} ({role}) is lost")

    def _result(self, session: str, seq: int, call: tuple[int, int, ToolCall], run: str | None) -> None:
        to, position, asked = call
        result = ToolMessage(call_id=asked.id, name=asked.name, content=UNKNOWN, ok=False, status="unknown_outcome")
        rows.put(self._new, session, seq, result, run=run, answers=(to, position))
        self._say(
            f"session {session}: message {seq}, the result of {asked.name}, is lost; it is marked unknown outcome"
        )

    def _rest(self, session: str, runs: list[dict[str, Any]], ids: set[str]) -> None:
        ended = {r["id"] for r in runs if r["outcome"] is not None}
        asked = self._asked(session)
        for run in ids:
            granted = set()
            for table, order in _BY_RUN.items():
                if table == "call":
                    continue
                for row in self._rows(table, "WHERE run = ?", (run,), order):
                    if not all(_is_json(row[name]) for name in _JSON.get(table, ())):
                        self._say(f"session {session}: a row of the table {table} is lost")
                    elif self._put(table, row) and table == "approval":
                        granted.add((row["turn"], row["position"]))
            for row in self._rows("call", "WHERE run = ?", (run,), _BY_RUN["call"]):
                key = (row["turn"], row["position"])
                if (run, *key) not in asked:
                    self._say(
                        f"session {session}: the record of a start of {row['tool']} stands alone, and was left out"
                    )
                    continue
                changed: dict[str, Any] = (
                    {"status": "unknown_outcome"} if row["status"] is None and run in ended else {}
                )
                if row["result"] is not None and not _is_json(row["result"]):
                    changed["result"] = None  # the message that tells it is looked after by itself
                    self._say(f"session {session}: what a call of {row['tool']} came to is lost")
                if str(row["rule"]).startswith("granted:") and key not in granted:
                    changed["rule"] = _SALVAGED
                    self._say(f"session {session}: the approval of a call of {row['tool']} that started is lost")
                self._put("call", row, **changed)
        self._lost_starts(session)
        for table, order in _BY_SESSION.items():
            for row in self._rows(table, "WHERE session = ?", (session,), order):
                if table != "shrunk" or (isinstance(row["body"], str) and rows.crc(row["body"]) == row["crc"]):
                    self._put(table, row)

    def _lost_starts(self, session: str) -> None:
        """Whatever has a result that says it ran has started: a record of that is made again, so that it stays so."""
        lost = 0
        last, position = 0, -1
        for seq, run, turn, asked, told, started_at in self._new.execute(
            "SELECT c.seq, m.run, m.turn, c.body, a.body, r.started_at FROM part c "
            "JOIN message m ON m.session = c.session AND m.seq = c.seq AND m.turn IS NOT NULL JOIN run r ON r.id = m.run "
            "LEFT JOIN part a ON a.session = c.session AND a.answers_seq = c.seq AND a.answers_position = c.position "
            "WHERE c.session = ? AND c.kind = 'call' ORDER BY c.seq, c.position",
            (session,),
        ).fetchall():
            last, position = seq, position + 1 if seq == last else 0
            result = None if told is None else msgspec.json.decode(told, type=ToolMessage)
            if result is None or not (result.ok and result.digest):
                continue
            call = msgspec.json.decode(asked, type=ToolCall)
            row = {"run": run, "turn": turn, "position": position, "tool": call.name, "rule": _SALVAGED, "status": "ok"}
            row |= {"digest": call_digest(call.name, call.arguments), "started_at": started_at, "result": None}
            lost += self._put("call", row)
        if lost:
            self._say(f"session {session}: the records of {lost} starts are lost; the results say that they ran")

    def _asked(self, session: str) -> set[tuple[str, int, int]]:
        """Run, turn and position of every call of a reply that was kept."""
        return set(self._asked_rows(session))

    def _asked_rows(self, session: str) -> Iterator[tuple[str, int, int]]:
        for run, turn, count in self._new.execute(
            "SELECT m.run, m.turn, count(*) FROM message m JOIN part p ON p.session = m.session AND p.seq = m.seq "
            "WHERE m.session = ? AND p.kind = 'call' AND m.run IS NOT NULL AND m.turn IS NOT NULL GROUP BY m.seq",
            (session,),
        ).fetchall():
            for position in range(count):
                yield run, turn, position


def _is_json(stored: object) -> bool:
    try:
        msgspec.json.decode(stored if isinstance(stored, str) else b"")
    except msgspec.DecodeError:
        return False
    return True


def _run(row: dict[str, Any] | None, runs: set[str]) -> str | None:
    return row["run"] if row is not None and row["run"] in runs else None


def _unbroken(chunks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of deltas from the first on, up to one that is missing or has changed."""
    for at, chunk in enumerate(chunks):
        body = chunk["body"]
        if not isinstance(body, str) or rows.crc(body) != chunk["crc"] or chunk["seq"] != chunks[0]["seq"] + at:
            return chunks[:at]
    return chunks


def _sortable(value: Any) -> tuple[str, Any]:
    return type(value).__name__, "" if value is None else value
