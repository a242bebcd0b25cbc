"""What the replies of a session used, as it was stored with them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import msgspec

from sluice.session import rows
from sluice.session.folding import size_in
from sluice.values.messages import Usage
from sluice.values.notices import AlsoUsed, Summarised, TurnFinished


class _Began(msgspec.Struct, frozen=True):
    sent: int = 0


def replies(connection: sqlite3.Connection, session: str) -> Iterator[tuple[int, int, Usage, float | None]]:
    """Number of the run in its session, turn, tokens, and US dollars if known: of every reply, oldest first.

    Turn 0 is a summary; a turn below 0 is what was used in that turn beside its reply.
    """
    for run, turn, usage, cost in connection.execute(
        "SELECT r.number, u.turn, u.usage, u.cost FROM usage u JOIN run r ON r.id = u.run WHERE r.session = ? "
        "ORDER BY r.number, u.number",
        (session,),
    ):
        yield run, turn, msgspec.json.decode(usage, type=Usage | None) or Usage(), cost


def keep(connection: sqlite3.Connection, run: str, turn: int, notice: TurnFinished | Summarised | AlsoUsed) -> None:
    """What a reply used, a summary (turn 0), or what else did (turn below 0)."""
    connection.execute(
        "INSERT INTO usage SELECT ?, count(*), ?, ?, ? FROM usage WHERE run = ?",
        (run, turn, rows.to_json(notice.usage), notice.cost, run),
    )


def estimate(connection: sqlite3.Connection, session: str, seq: int, kept: bool) -> None:
    """Counts the reply that was arriving as message `seq` when its process died: nobody has said what it used.

    What was sent is what the reply before it had sent and got, or its own request by the size that stands in its head; what
    arrived is counted from its rows. Its price is not known. `kept`: the reply stays in the conversation. Older versions
    wrote no size: then it is that of the messages before it, and nothing is counted where nothing had arrived.
    """
    run, turn, first, head = connection.execute(
        "SELECT run, turn, first_chunk, head FROM message WHERE session = ? AND seq = ?", (session, seq)
    ).fetchone()
    arrived = connection.execute(
        "SELECT kind, body FROM chunk WHERE run = ? AND seq >= ? ORDER BY seq", (run, first)
    ).fetchall()
    sent = _sent(head)
    if not arrived and not sent:
        return
    sizes = dict(found for kind, body in arrived if kind == "call" and (found := size_in(body)) is not None)
    told = sum(len(body) for kind, body in arrived if kind != "call") + sum(sizes.values())
    before = connection.execute(
        "SELECT u.usage FROM usage u JOIN run r ON r.id = u.run WHERE r.session = ? AND u.turn > 0 "
        "ORDER BY r.number DESC, u.number DESC LIMIT 1",
        (session,),
    ).fetchone()
    if before is not None:
        last = msgspec.json.decode(before[0], type=Usage | None) or Usage()
        given = last.input_tokens + last.output_tokens
    elif sent:
        given = sent // 4
    else:
        (size,) = connection.execute(
            "SELECT coalesce(sum(length(body)), 0) FROM part WHERE session = ? AND seq < ?", (session, seq)
        ).fetchone()
        given = size // 4
    usage = Usage(input_tokens=given, output_tokens=told // 4, estimated=True)
    number = max(int(turn or 1), 1)
    keep(connection, run, number if kept else -number, AlsoUsed(turn=number, by="stopped", usage=usage))


def _sent(head: str) -> int:
    """The bytes of its request, from the head of a reply that arrives; 0 if they are not told."""
    try:
        return max(msgspec.json.decode(head, type=_Began).sent, 0)
    except msgspec.MsgspecError:
        return 0  # damaged


def run_of_its_own(connection: sqlite3.Connection, session: str, now: float) -> str:
    """Makes a run that has ended, for what was used in a fork before anything was run there; returns its id.

    A summary between two runs counts with the run before it. A fork has none, and the runs of its source have their own.
    """
    run = f"run_of_{session}"
    connection.execute(
        "INSERT INTO run (id, session, number, started_at, began_ns, duration_ns, outcome) "
        "VALUES (?, ?, 1, ?, 0, 0, 'completed')",
        (run, session, now),
    )
    return run


def last_run(connection: sqlite3.Connection, session: str) -> str | None:
    """The run that was started last, if any was."""
    found = connection.execute(
        "SELECT id FROM run WHERE session = ? ORDER BY number DESC LIMIT 1", (session,)
    ).fetchone()
    return None if found is None else str(found[0])
