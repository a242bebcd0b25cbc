"""Messages as rows: a head and its parts, and back again, equal.

What the model wrote stands in the parts, byte for byte; the head holds the rest of the message as JSON. Each part carries
a CRC-32, because SQLite does not notice a byte that changed on disk.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Generator, Iterable
from typing import Any, NamedTuple

import msgspec

from sluice.errors import StoreError
from sluice.values.messages import (
    AssistantMessage,
    Conversation,
    ImagePart,
    Message,
    Reasoning,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from sluice.wire.surrogates import storable

INTERRUPTED = "interrupted"  # the outcome of a run whose process died
_PIECE = 1024 * 1024  # characters


class Part(NamedTuple):
    """One part of a message: its kind (`text`, `image`, `reasoning`, `call`, `result`) and its body."""

    kind: str
    body: str


class _UserHead(msgspec.Struct):
    plain: bool
    origin: Any


_user_head = msgspec.json.Decoder(_UserHead).decode
_assistant_head = msgspec.json.Decoder(AssistantMessage).decode
_reasoning = msgspec.json.Decoder(Reasoning).decode
_call = msgspec.json.Decoder(ToolCall).decode
_result = msgspec.json.Decoder(ToolMessage).decode


class Stored(NamedTuple):
    """A message with its place: `seq` in the session, the run it belongs to, if any, and how it came to its end."""

    seq: int
    run: str | None
    turn: int | None
    state: str
    message: Message


def crc(text: str, before: int = 0) -> int:
    """The CRC-32 of a text in UTF-8, going on from that of what stood `before` it. A long text is not copied whole."""
    for at in range(0, len(text), _PIECE):
        before = zlib.crc32(text[at : at + _PIECE].encode("utf-8"), before)
    return before


def to_json(value: Any) -> str:
    """JSON text of a struct or of plain values."""
    return msgspec.json.encode(value).decode()


def split(message: Message) -> tuple[str, str, list[Part]]:
    """Role, head (JSON) and parts of a message."""
    match message:
        case SystemMessage():
            return "system", "{}", [Part("text", storable(message.content))]
        case UserMessage():
            plain = isinstance(message.content, str)
            pieces = (TextPart(message.content),) if isinstance(message.content, str) else message.content
            parts = [
                Part("text", storable(p.text)) if isinstance(p, TextPart) else Part("image", to_json(p)) for p in pieces
            ]
            return "user", to_json({"plain": plain, "origin": message.origin}), parts
        case ToolMessage():
            return "tool", "{}", [Part("result", to_json(_without_surrogates(message)))]
    parts = [Part("reasoning", _safe_json(block)) for block in message.reasoning]
    if message.content is not None:
        parts.append(Part("text", storable(message.content)))
    parts += [Part("call", _safe_json(call)) for call in message.tool_calls]
    rest = msgspec.structs.replace(message, content=None, reasoning=(), tool_calls=())
    return "assistant", _safe_json(rest), parts


def _safe_json(value: Any) -> str:
    try:
        return to_json(value)
    except UnicodeEncodeError:
        cleaned = {
            name: storable(found) if isinstance(found, str) else found
            for name, found in ((f.name, getattr(value, f.name)) for f in msgspec.structs.fields(value))
        }
        return to_json(type(value)(**cleaned))


def _without_surrogates(message: ToolMessage) -> ToolMessage:
    return msgspec.structs.replace(
        message,
        call_id=storable(message.call_id),
        name=storable(message.name),
        content=storable(message.content),
        spilled="",  # the handle dies with its process
    )


def join(role: str, head: str, parts: Iterable[Part]) -> Message:
    """The message of these rows. Raises `StoreError` (`damaged`) for rows that make none."""
    found = list(parts)
    try:
        match role:
            case "tool":
                return _result(found[0].body)
            case "assistant":
                return _assistant(head, found)
            case "user":
                return _user(head, found)
            case "system":
                return SystemMessage("".join(p.body for p in found))
    except (msgspec.MsgspecError, IndexError, KeyError, TypeError, AttributeError, UnicodeError) as error:
        raise StoreError(
            "damaged",
            f"a stored message cannot be read ({type(error).__name__}: {error}); see `sluice sessions repair`",
        ) from None
    raise StoreError("damaged", f"a stored message has the unknown role {role!r}")


def _user(head: str, parts: list[Part]) -> UserMessage:
    about = _user_head(head)
    if about.plain:
        return UserMessage("".join([p.body for p in parts]), origin=about.origin)
    pieces = tuple(TextPart(p.body) if p.kind == "text" else msgspec.json.decode(p.body, type=ImagePart) for p in parts)
    return UserMessage(pieces, origin=about.origin)


def _assistant(head: str, parts: list[Part]) -> AssistantMessage:
    text: list[str] = []
    reasoning: list[Reasoning] = []
    calls: list[ToolCall] = []
    for kind, body in parts:
        if kind == "text":
            text.append(body)
        elif kind == "reasoning":
            reasoning.append(_reasoning(body))
        elif kind == "call":
            calls.append(_call(body))
    return msgspec.structs.replace(
        _assistant_head(head),
        content="".join(text) if text else None,
        reasoning=tuple(reasoning),
        tool_calls=tuple(calls),
    )


def put(
    connection: sqlite3.Connection,
    session: str,
    seq: int,
    message: Message,
    *,
    run: str | None,
    turn: int | None = None,
    state: str = "whole",
    answers: tuple[int, int] | None = None,
) -> None:
    """Writes one message at `seq`. `answers`: message and position of the call whose result it is."""
    role, head, parts = split(message)
    connection.execute(
        "INSERT INTO message (session, seq, run, turn, role, state, head) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (session, seq, run, turn, role, state, head),
    )
    put_parts(connection, session, seq, parts, answers, separate=isinstance(message, UserMessage))


def put_parts(
    connection: sqlite3.Connection,
    session: str,
    seq: int,
    parts: list[Part],
    answers: tuple[int, int] | None = None,
    *,
    separate: bool = False,
) -> None:
    """Writes the parts of a message whose row is there. A long text becomes several rows, so that no more than a piece of
    it is copied at a time; they are one text again when they are read."""
    to, position = answers or (None, None)
    at = 0
    for part in parts:
        long = part.kind == "text" and len(part.body) > _PIECE and not separate
        for begin in range(0, len(part.body) if long else 1, _PIECE):
            body = part.body[begin : begin + _PIECE] if long else part.body
            connection.execute(
                "INSERT INTO part VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (session, seq, at, part.kind, body, crc(body), to, position),
            )
            at += 1


def next_seq(connection: sqlite3.Connection, session: str) -> int:
    """The place of the next message of a session, from 1."""
    found = connection.execute("SELECT max(seq) FROM message WHERE session = ?", (session,)).fetchone()[0]
    return int(found or 0) + 1


def stored_messages(
    connection: sqlite3.Connection, session: str, *, after: int = 0, upto: int | None = None, all_states: bool = False
) -> Generator[Stored, None, None]:
    """The messages of a session in order. Without `all_states` only those that count: no open and no dropped ones."""
    states = ("whole", "interrupted", "open", "dropped") if all_states else ("whole", "interrupted")
    marks = ",".join("?" * len(states))
    span = (session, after, 2**62 if upto is None else upto)
    where = "WHERE session = ? AND seq > ? AND seq <= ?"
    heads = connection.execute(
        f"SELECT seq, run, turn, state, role, head FROM message {where} AND state IN ({marks}) ORDER BY seq",  # noqa: S608 - words of ours, values are bound
        (*span, *states),
    )
    # Side by side they take half of what a join does. While the first is open, the second sees what it sees.
    pieces = connection.execute(f"SELECT seq, kind, body FROM part {where} ORDER BY seq, position", span)  # noqa: S608 - words of ours, values are bound
    piece = next(pieces, None)
    for seq, run, turn, state, role, head in heads:
        while piece is not None and piece[0] < seq:
            piece = next(pieces, None)
        parts: list[Part] = []
        while piece is not None and piece[0] == seq:
            parts.append(Part(piece[1], piece[2]))
            piece = next(pieces, None)
        yield Stored(seq, run, turn, state, join(role, head, parts))


def paired(messages: Iterable[Message], *, open_end: bool = False) -> Conversation:
    """The conversation as it may be sent (P1): orphan and double results are left out, missing ones are put in.

    Each reply's results stand directly behind it, in call order. A reply whose calls have no stored result gets one that
    says so; nothing here changes what is stored. With `open_end` the calls at the end that have none stay so: they wait.
    """
    found: list[Message] = []
    waiting: list[ToolCall] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            at = next((i for i, call in enumerate(waiting) if call.id == message.call_id), None)
            if at is not None:
                found += [no_result(call) for call in waiting[:at]]
                found.append(message)
                del waiting[: at + 1]
            continue
        found += [no_result(call) for call in waiting]
        waiting = []
        found.append(message)
        if isinstance(message, AssistantMessage):
            waiting = list(message.tool_calls)
    if not open_end:
        found += [no_result(call) for call in waiting]
    return tuple(found)


def no_result(call: ToolCall) -> ToolMessage:
    """The result of a call of which nothing is known any more."""
    words = "[unknown_outcome] The result of this call is not stored; the call may or may not have run."
    return ToolMessage(call_id=call.id, name=call.name, content=words, ok=False)
