"""What is sent in place of a conversation that outgrew the model's window, kept so that a resumed session sends the same.

It is made from the rows and stands beside them: the rows stay, and are what is shown, exported and forked. A shrunk form
that cannot be read is passed over, and the whole conversation is sent (and shrunk) again.
"""

from __future__ import annotations

import itertools
import sqlite3

import msgspec

from sluice.errors import StoreError
from sluice.session import rows
from sluice.session.waiting import waiting
from sluice.values.messages import Conversation, Message

SHRUNK_SINCE = 2  # the schema that has its table


def keep(connection: sqlite3.Connection, session: str, messages: Conversation) -> None:
    """Keeps what is sent from here on in place of every message that is stored so far. The last one counts."""
    upto = connection.execute(
        "SELECT max(seq) FROM message WHERE session = ? AND state IN ('whole', 'interrupted')", (session,)
    ).fetchone()[0]
    if upto is None:
        raise StoreError("refused", f"session {session} has no message that could be shrunk")
    body = rows.to_json(tuple(rows.join(*rows.split(message)) for message in messages))
    connection.execute(
        "INSERT OR REPLACE INTO shrunk (session, upto, body, crc) VALUES (?, ?, ?, ?)",
        (session, upto, body, rows.crc(body)),
    )


def sent(connection: sqlite3.Connection, session: str) -> Conversation:
    """The conversation as it is sent: the shrunk form and what came after it, or all of it. Raises `StoreError`."""
    upto, first = found(connection, session) or (0, ())
    later = (stored.message for stored in rows.stored_messages(connection, session, after=upto))
    return rows.paired(itertools.chain(first, later), open_end=waiting(connection, session) is not None)


def found(connection: sqlite3.Connection, session: str) -> tuple[int, Conversation] | None:
    """The last message that the shrunk form stands for, and the form; `None` if there is none, or it is damaged."""
    row = connection.execute("SELECT upto, body, crc FROM shrunk WHERE session = ?", (session,)).fetchone()
    if row is None or rows.crc(row[1]) != row[2]:
        return None
    try:
        return int(row[0]), msgspec.json.decode(row[1], type=tuple[Message, ...])
    except msgspec.MsgspecError:
        return None


def last_exchanges(connection: sqlite3.Connection, session: str, replies: int) -> Conversation:
    """The end of the stored conversation, from its last-but-`replies` reply on; all of it if it has fewer."""
    first = connection.execute(
        "SELECT seq FROM message WHERE session = ? AND role = 'assistant' AND state IN ('whole', 'interrupted') "
        "ORDER BY seq DESC LIMIT 1 OFFSET ?",
        (session, replies - 1),
    ).fetchone()
    stored = rows.stored_messages(connection, session, after=first[0] - 1 if first else 0)
    return rows.paired((one.message for one in stored), open_end=waiting(connection, session) is not None)


def copy(connection: sqlite3.Connection, source: str, target: str, kept: list[int]) -> None:
    """Gives a fork the shrunk form of its source, if all that it stands for was copied. `kept`: the seqs that were."""
    shrunk = found(connection, source)
    if shrunk is None or not kept or kept[-1] < shrunk[0]:
        return
    upto = sum(seq <= shrunk[0] for seq in kept)
    connection.execute(
        "INSERT INTO shrunk SELECT ?, ?, body, crc FROM shrunk WHERE session = ?", (target, upto, source)
    )
