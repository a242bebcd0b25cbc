"""A session as one JSON object, or as Markdown to read.

The JSON holds everything that is stored of the session; it is read in one transaction, message by message, so a session
of any length can be exported. Control characters are in the Markdown as they were: whoever prints it makes them visible.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

import msgspec

from sluice.errors import StoreError
from sluice.session import markdown_quotes as quotes
from sluice.session import rows
from sluice.session.waiting import asked_keys
from sluice.values.messages import AssistantMessage, ImagePart, SystemMessage, ToolMessage, UserMessage

FORMAT = 1  # of the exported JSON


def as_json(connection: sqlite3.Connection, session: str) -> Iterator[bytes]:
    """Pieces of one JSON object: `sluice_session` (the format), `session`, `runs`, `waiting` (the calls that wait for a
    person's approval), `messages`. Raises `StoreError`."""
    about = _one(connection, session)
    connection.execute("BEGIN")  # one view of it all, whoever writes meanwhile
    try:
        yield b'{"sluice_session":%d,"session":%s,"runs":[' % (FORMAT, _dump(about))
        found = connection.execute("SELECT id FROM run WHERE session = ? ORDER BY number", (session,)).fetchall()
        for at, (run,) in enumerate(found):
            yield (b",\n" if at else b"\n") + _dump(_run(connection, run))
        waiting = [
            {"run": key.run, "turn": key.turn, "position": key.position, "tool": tool}
            for key, tool in asked_keys(connection, session)
        ]
        yield b'\n],"waiting":%s,"messages":[' % _dump(waiting)
        for at, stored in enumerate(rows.stored_messages(connection, session, all_states=True)):
            place = {"seq": stored.seq, "run": stored.run, "turn": stored.turn, "state": stored.state}
            yield (b",\n" if at else b"\n") + _dump({**place, "message": stored.message})
        yield b"\n]}\n"
    finally:
        connection.execute("COMMIT")


def _dump(value: object) -> bytes:
    return msgspec.json.encode(value)


def _one(connection: sqlite3.Connection, session: str) -> dict[str, Any]:
    found = _rows(connection, "SELECT id, project, created_at, parent FROM session WHERE id = ?", session)
    if not found:
        raise StoreError("refused", f"no session is named {session!r}")
    return found[0]


def _rows(connection: sqlite3.Connection, query: str, *given: object) -> list[dict[str, Any]]:
    cursor = connection.execute(query, given)
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]


def _run(connection: sqlite3.Connection, run: str) -> dict[str, Any]:
    about = _rows(connection, "SELECT id, number, started_at, duration_ns, outcome FROM run WHERE id = ?", run)[0]
    calls = _rows(
        connection,
        "SELECT turn, position, tool, digest, rule, started_at, status, result FROM call WHERE run = ?",
        run,
    )
    for call in calls:
        call["result"] = None if call["result"] is None else msgspec.Raw(call["result"].encode())
    usage = _rows(connection, "SELECT turn, usage, cost FROM usage WHERE run = ? ORDER BY number", run)
    for used in usage:
        used["usage"] = msgspec.Raw(used["usage"].encode())
    notices = _rows(connection, "SELECT body FROM notice WHERE run = ? ORDER BY number", run)
    return {
        **about,
        "calls": calls,
        "usage": usage,
        "approvals": _rows(connection, "SELECT turn, position, tool, digest, granted FROM approval WHERE run = ?", run),
        "changes": _rows(
            connection,
            "SELECT handle, turn, position, path, sha256, mode, ended, after FROM preimage WHERE run = ? ORDER BY number",
            run,
        ),
        "notices": [msgspec.Raw(row["body"].encode()) for row in notices],
    }


def as_markdown(connection: sqlite3.Connection, session: str) -> Iterator[str]:
    """Pieces of a Markdown text, in which each message stays between its own heading and the next. Raises `StoreError`."""
    about = _one(connection, session)
    yield f"# Session {session}\n\nProject: {quotes.code(about['project'])}\n"
    if about["parent"]:
        yield f"Forked at: {quotes.name(about['parent'])}\n"
    waiting = {key for key, _tool in asked_keys(connection, session)}
    for stored in rows.stored_messages(connection, session, all_states=True):
        mark = "" if stored.state == "whole" else f" ({stored.state})"
        yield f"\n## {stored.seq} · {_who(stored.message)}{mark}\n"
        waits = {key.position for key in waiting if (key.run, key.turn) == (stored.run, stored.turn)}
        yield from _shown(stored.message, waits)


def _who(message: object) -> str:
    match message:
        case UserMessage(origin="host"):
            return "Host"
        case UserMessage():
            return "User"
        case AssistantMessage():
            return f"Assistant{f' ({quotes.name(message.model)})' if message.model else ''}"
        case ToolMessage():
            return f"Result of {quotes.name(message.name)}{'' if message.ok else ', not ok'}"
    return "System"


def _shown(message: object, waits: set[int]) -> Iterator[str]:
    """The message's text; `waits` are the positions of its calls that a person has to decide about."""
    match message:
        case SystemMessage(content=text) | UserMessage(content=str(text)):
            yield quotes.said(text)
        case UserMessage():
            for piece in message.content:
                if isinstance(piece, ImagePart):
                    yield f"\n[{quotes.name(piece.media_type)}]\n"
                else:
                    yield quotes.said(getattr(piece, "text", ""))
        case ToolMessage():
            yield quotes.fenced(message.content, "text")
        case AssistantMessage():
            for block in message.reasoning:
                if block.text:
                    yield quotes.quoted(block.text)
            if message.content:
                yield quotes.said(message.content)
            for position, call in enumerate(message.tool_calls):
                status = "" if call.status == "whole" else f", {call.status}"
                status = ", waiting for your approval" if position in waits else status
                yield f"\nCall of {quotes.code(call.name)}{status}\n" + quotes.fenced(call.arguments, "json")
