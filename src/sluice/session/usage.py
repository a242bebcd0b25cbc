"""What the replies of a session used, as it was stored with them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import msgspec

from sluice.values.messages import Usage


def replies(connection: sqlite3.Connection, session: str) -> Iterator[tuple[int, int, Usage, float | None]]:
    """Number of the run in its session, turn, tokens, and US dollars if known: of every reply, oldest first."""
    for run, turn, usage, cost in connection.execute(
        "SELECT r.number, u.turn, u.usage, u.cost FROM usage u JOIN run r ON r.id = u.run WHERE r.session = ? "
        "ORDER BY r.number, u.number",
        (session,),
    ):
        yield run, turn, msgspec.json.decode(usage, type=Usage | None) or Usage(), cost
