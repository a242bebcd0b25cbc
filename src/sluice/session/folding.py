"""The end of a reply that arrived in pieces: its rows of deltas become the parts of its message, in one transaction.

A call that arrives has a row of its name, and further rows that say how many bytes of its arguments there were.
"""

from __future__ import annotations

import sqlite3

import msgspec

from sluice.session import rows
from sluice.values.messages import AssistantMessage, Reasoning, ToolCall


def drop_open(connection: sqlite3.Connection, session: str) -> None:
    """A reply that was begun and never kept: what arrived of it stays in storage, and is no part of the conversation."""
    found = connection.execute(
        "SELECT seq FROM message INDEXED BY open_message WHERE session = ? AND state = 'open' ORDER BY seq", (session,)
    ).fetchall()
    for (seq,) in found:
        fold(connection, session, seq, None, "dropped")


def fold(
    connection: sqlite3.Connection,
    session: str,
    seq: int,
    message: AssistantMessage | None,
    state: str,
    *,
    all_told: bool = True,
) -> AssistantMessage:
    """Ends an open message: its chunk rows become its parts, or `message` if that is given. Returns what it holds now.

    A reply that was never given whole is made of its chunks: the text, the reasoning, and a `cut` call for each name.
    `all_told`: the rows hold all that was told of it.
    """
    run, first = connection.execute(
        "SELECT run, first_chunk FROM message WHERE session = ? AND seq = ? AND state = 'open'", (session, seq)
    ).fetchone()
    count, told, chunks = 0, 0, []
    for kind, body in connection.execute(
        "SELECT kind, body FROM chunk WHERE run = ? AND seq >= ? ORDER BY seq", (run, first)
    ):
        count += 1
        if kind == "text":
            told = rows.crc(body, told)
        if message is None:
            chunks.append((kind, body))
    if message is None:
        message = _arrived(chunks)
    _role, head, parts = rows.split(message)
    rows.put_parts(connection, session, seq, parts)
    connection.execute(
        "UPDATE message SET state = ?, head = ?, next_chunk = ?, told_crc = ? WHERE session = ? AND seq = ?",
        (state, head, first + count, told if all_told else None, session, seq),
    )
    # Never fewer than were counted: an older version counted each row as it was written, and one may be lost since.
    connection.execute("UPDATE run SET chunks = max(chunks, ?) WHERE id = ?", (first + count, run))
    connection.execute("DELETE FROM chunk WHERE run = ? AND seq >= ?", (run, first))
    return message


def arriving(connection: sqlite3.Connection, session: str, seq: int) -> AssistantMessage:
    """What has arrived so far of an open message, to be shown. A call of it is `cut`: it is not whole yet."""
    chunks = connection.execute(
        "SELECT c.kind, c.body FROM message m JOIN chunk c ON c.run = m.run AND c.seq >= m.first_chunk "
        "WHERE m.session = ? AND m.seq = ? ORDER BY c.seq",
        (session, seq),
    ).fetchall()
    return msgspec.structs.replace(_arrived(chunks, live=True), stop_reason=None)


def _arrived(chunks: list[tuple[str, str]], *, live: bool = False) -> AssistantMessage:
    text = "".join(body for kind, body in chunks if kind == "text")
    reasoning = "".join(body for kind, body in chunks if kind == "reasoning")
    names: list[str] = []
    sizes: dict[int, int] = {}
    for kind, body in chunks:
        if kind == "call":
            grown = size_in(body)
            if grown is None:
                names.append(body)
            else:
                sizes[grown[0]] = grown[1]
    return AssistantMessage(
        content=text or None,
        reasoning=(Reasoning(text=reasoning),) if reasoning else (),
        tool_calls=tuple(
            ToolCall(
                id=f"cut_{at}", name=name, arguments="", index=at, status="cut", problem=_problem(sizes.get(at), live)
            )
            for at, name in enumerate(names)
        ),
        stop_reason="aborted",
    )


def size_row(call: int, size: int) -> str:
    """The body of a row of the kind `call` that says how many bytes of a call's arguments have arrived.

    `call` is its number in the order of the rows of names. No name begins with a tab.
    """
    return f"\t{call} {size}"


def size_in(body: str) -> tuple[int, int] | None:
    """Number and size of such a row; `None` for the row of a name. A damaged one says nothing: number -1."""
    if not body.startswith("\t"):
        return None
    call, _, size = body[1:].partition(" ")
    return (int(call), int(size)) if call.isdecimal() and size.isdecimal() else (-1, 0)


def _problem(size: int | None, live: bool) -> str:
    """Why a call is not whole, in words. Of one that still arrives nobody can say that it is cut."""
    if live:
        return "not whole yet" + ("" if size is None else f": {size} bytes of its arguments have arrived")
    return "its reply broke off" + ("" if size is None else f", cut after {size} bytes of its arguments")
