"""A session as one JSON object, or as Markdown to read.

The JSON holds everything that is stored of the session. It is read in short steps up to the message that was the last one
at the beginning, so a session of any length can be exported, and each step is over before anything of it is given out:
whoever takes the pieces may pause between them (a pager does) and keeps no log from being emptied. Control characters are
in the Markdown as they were: whoever prints it makes them visible.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from sluice.errors import StoreError
from sluice.session import markdown_quotes as quotes
from sluice.session import rows
from sluice.session.folding import arriving
from sluice.session.unsaved import Unsaved, placed
from sluice.session.waiting import asked_keys
from sluice.values.messages import (
    AssistantMessage,
    Conversation,
    ImagePart,
    Message,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from sluice.wire.surrogates import storable

FORMAT = 1  # of the exported JSON
_MARKS = {"whole": "", "open": " (open: as far as it has arrived)", "unsaved": " (not in the store)"}
_STEP_MESSAGES = 100  # that are read at a time, at most
_STEP_BYTES = 1024 * 1024  # of their JSON; a longer message is a step of its own


def as_json(connection: sqlite3.Connection, session: str, unsaved: Sequence[Unsaved] = ()) -> Iterator[bytes]:
    """Pieces of one JSON object: `sluice_session` (the format), `session`, `runs`, `waiting` (the calls that wait for a
    person's approval), `messages`. Those that are in memory only have the state `unsaved` and no number. Raises
    `StoreError`."""
    with _moment(connection):
        about, end = _one(connection, session), _end(connection, session)
        runs = connection.execute("SELECT id FROM run WHERE session = ? ORDER BY number", (session,)).fetchall()
        waiting = [
            {"run": key.run, "turn": key.turn, "position": key.position, "tool": tool}
            for key, tool in asked_keys(connection, session)
        ]
    yield b'{"sluice_session":%d,"session":%s,"runs":[' % (FORMAT, _dump(about))
    for at, (run,) in enumerate(runs):
        with _moment(connection):
            piece = _dump(_run(connection, session, run))
        yield (b",\n" if at else b"\n") + piece
    yield b'\n],"waiting":%s,"messages":[' % _dump(waiting)
    yield from _listed(_with_unsaved(_messages(connection, session, end), unsaved))
    yield b"\n]}\n"


def memory_as_json(
    session: str, project: str, messages: Conversation, unsaved: Sequence[Unsaved] = ()
) -> Iterator[bytes]:
    """The same form from memory alone, where the store cannot be read: `source` is `memory`, of runs it knows nothing, and
    a conversation that was made smaller is as it is sent."""
    about = {"id": session, "project": storable(project), "created_at": None, "parent": None}
    yield b'{"sluice_session":%d,"source":"memory","session":%s,"runs":[],' % (FORMAT, _dump(about))
    yield b'"waiting":[],"messages":['
    yield from _listed(_in_memory(messages, unsaved))
    yield b"\n]}\n"


def _listed(messages: Iterator[rows.Stored]) -> Iterator[bytes]:
    for at, stored in enumerate(messages):
        place = {"seq": stored.seq or None, "run": stored.run, "turn": stored.turn, "state": stored.state}
        yield (b",\n" if at else b"\n") + _dump({**place, "message": stored.message})


def _with_unsaved(messages: Iterator[rows.Stored], unsaved: Sequence[Unsaved]) -> Iterator[rows.Stored]:
    """What is in memory only stands before the first message of the run that came next."""
    left = list(unsaved)
    for stored in messages:
        while left and left[0].before and left[0].before == stored.run:
            yield _not_stored(left.pop(0))
        yield stored
    yield from map(_not_stored, left)


def _not_stored(one: Unsaved) -> rows.Stored:
    return rows.Stored(0, one.run, None, "unsaved", _as_stored(one.message))


def _in_memory(messages: Conversation, unsaved: Sequence[Unsaved]) -> Iterator[rows.Stored]:
    for message, mark in placed(messages, unsaved):
        yield rows.Stored(0, None, None, "whole", _as_stored(message)) if mark is None else _not_stored(mark)


def _as_stored(message: Message) -> Message:
    """The message as it would come out of a store: all of its text can be written."""
    return rows.join(*rows.split(message))


@contextlib.contextmanager
def _moment(connection: sqlite3.Connection) -> Iterator[None]:
    """One view of the store, whoever writes meanwhile. Nothing is given out inside it. What is read in it may be damaged,
    a number no number and a text none: that is a `StoreError`."""
    connection.execute("BEGIN")
    try:
        yield
    except (ValueError, TypeError, AttributeError, KeyError, IndexError) as error:
        raise StoreError(
            "damaged", f"a stored row cannot be read ({type(error).__name__}: {error}); see `sluice sessions repair`"
        ) from None
    finally:
        connection.execute("COMMIT")


def _end(connection: sqlite3.Connection, session: str) -> int:
    return int(
        connection.execute("SELECT coalesce(max(seq), 0) FROM message WHERE session = ?", (session,)).fetchone()[0]
    )


def _messages(connection: sqlite3.Connection, session: str, end: int) -> Iterator[rows.Stored]:
    """The messages up to `end`; of one that is still arriving, what has arrived. Raises `StoreError`."""
    after = 0
    while after < end:
        found = _step(connection, session, after, end)
        if not found:
            raise _gone(session)
        yield from found
        after = found[-1].seq


def _step(connection: sqlite3.Connection, session: str, after: int, end: int) -> list[rows.Stored]:
    found: list[rows.Stored] = []
    size = 0
    stored = rows.stored_messages(connection, session, after=after, upto=end, all_states=True)
    with _moment(connection), contextlib.closing(stored):
        for one in stored:
            if one.state == "open":
                one = one._replace(message=arriving(connection, session, one.seq))
            found.append(one)
            size += len(_dump(one.message))
            if len(found) >= _STEP_MESSAGES or size >= _STEP_BYTES:
                break
    return found


def _gone(session: str) -> StoreError:
    return StoreError("refused", f"session {session} was removed while it was being read")


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


def _json(stored: object) -> object:
    """JSON as it is stored; what is none any more comes as a text, and what is no text as nothing."""
    if not isinstance(stored, str):
        return None
    try:
        msgspec.json.decode(stored)
    except msgspec.DecodeError:
        return stored
    return msgspec.Raw(stored.encode())


def _run(connection: sqlite3.Connection, session: str, run: str) -> dict[str, Any]:
    found = _rows(connection, "SELECT id, number, started_at, duration_ns, outcome FROM run WHERE id = ?", run)
    if not found:
        raise _gone(session)
    calls = _rows(
        connection,
        "SELECT turn, position, tool, digest, rule, started_at, status, result FROM call WHERE run = ?",
        run,
    )
    for call in calls:
        call["result"] = _json(call["result"])
    usage = _rows(connection, "SELECT turn, usage, cost FROM usage WHERE run = ? ORDER BY number", run)
    for used in usage:
        used["usage"] = _json(used["usage"])
    changes = _rows(connection, "SELECT * FROM preimage WHERE run = ? ORDER BY number", run)
    for change in changes:  # all there is of it: an older store has fewer columns
        del change["run"], change["number"]
    notices = _rows(connection, "SELECT body FROM notice WHERE run = ? ORDER BY number", run)
    return {
        **found[0],
        "calls": calls,
        "usage": usage,
        "approvals": _rows(connection, "SELECT turn, position, tool, digest, granted FROM approval WHERE run = ?", run),
        "changes": changes,
        "notices": [_json(row["body"]) for row in notices],
    }


def as_markdown(connection: sqlite3.Connection, session: str, unsaved: Sequence[Unsaved] = ()) -> Iterator[str]:
    """Pieces of a Markdown text, in which each message stays between its own heading and the next. Raises `StoreError`."""
    with _moment(connection):
        about, end = _one(connection, session), _end(connection, session)
        waiting = {key for key, _tool in asked_keys(connection, session)}
    yield f"# Session {session}\n\nProject: {quotes.code(about['project'])}\n"
    if about["parent"]:
        yield f"Forked at: {quotes.name(about['parent'])}\n"
    for stored in _with_unsaved(_messages(connection, session, end), unsaved):
        waits = {key.position for key in waiting if (key.run, key.turn) == (stored.run, stored.turn)}
        yield _heading(stored)
        yield from _shown(stored.message, waits, arrives=stored.state == "open")


def memory_as_markdown(
    session: str, project: str, messages: Conversation, unsaved: Sequence[Unsaved] = ()
) -> Iterator[str]:
    """The same from memory alone, as in `memory_as_json`."""
    yield f"# Session {session}\n\nProject: {quotes.code(storable(project))}\n\nFrom memory: the store could not be read.\n"
    for stored in _in_memory(messages, unsaved):
        yield _heading(stored)
        yield from _shown(stored.message, set())


def _heading(stored: rows.Stored) -> str:
    mark = _MARKS.get(stored.state, f" ({stored.state})")
    return f"\n## {stored.seq or '–'} · {_who(stored.message)}{mark}\n"


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


def _shown(message: object, waits: set[int], *, arrives: bool = False) -> Iterator[str]:
    """The message's text; `waits` are the positions of its calls that a person has to decide about. One that `arrives` has
    no call that is whole."""
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
                status = "" if call.status == "whole" else f", {'arriving' if arrives else call.status}"
                status += f" ({call.problem})" if call.problem else ""
                status = ", waiting for your approval" if position in waits else status
                yield f"\nCall of {quotes.code(call.name)}{status}\n" + quotes.fenced(call.arguments, "json")
