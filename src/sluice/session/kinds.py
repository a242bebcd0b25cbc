"""Values of another kind than their column's: SQLite stores them all the same, and a store may have been edited by hand."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

_KINDS = {"TEXT": ("text",), "INTEGER": ("integer",), "REAL": ("real", "integer")}  # by declared type, as typeof says


def wrong_kinds(connection: sqlite3.Connection) -> Iterator[tuple[str, str]]:
    """The columns of the store with a value that is none of theirs, each with what was found; one value of a table."""
    tables = connection.execute("SELECT name FROM main.sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'")
    for (table,) in tables.fetchall():
        columns = [
            (name, kinds, bool(needed or key))
            for _at, name, declared, needed, _default, key in connection.execute(
                f"PRAGMA main.table_info({_quoted(table)})"
            )
            if (kinds := _KINDS.get(declared))
        ]
        if not columns:
            continue
        kinds_of = ", ".join(f"typeof({_quoted(name)})" for name, _kinds, _needed in columns)
        wrong = " OR ".join(
            f"typeof({_quoted(name)}) NOT IN ({_listed(kinds, needed)})" for name, kinds, needed in columns
        )
        found = connection.execute(
            f"SELECT {kinds_of} FROM main.{_quoted(table)} WHERE {wrong} LIMIT 1"  # noqa: S608 - names of columns, quoted
        ).fetchone()
        for (name, kinds, needed), kind in zip(columns, found or (), strict=False):
            if kind not in kinds and (needed or kind != "null"):
                yield f"{table}.{name}", f"a value in it is of the kind {kind}, and should be {kinds[0]}"


def _listed(kinds: tuple[str, ...], needed: bool) -> str:
    return ", ".join(f"'{kind}'" for kind in (*kinds, *(() if needed else ("null",))))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
