"""What the replies of a session used, as it was stored with them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import msgspec

from sluice.errors import StoreError
from sluice.session import rows
from sluice.values.messages import Usage
from sluice.values.notices import AlsoUsed, Summarised, TurnFinished


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


def last_run(connection: sqlite3.Connection, session: str) -> str:
    """The run that was started last. Raises `StoreError` (`refused`) if none was."""
    found = connection.execute(
        "SELECT id FROM run WHERE session = ? ORDER BY number DESC LIMIT 1", (session,)
    ).fetchone()
    if found is None:
        raise StoreError("refused", "no run of this session has been started")
    return str(found[0])
