"""Calls that wait for a person: what makes a call one of them, who may start it, and that nothing else is let through."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from session_world import broken, end_told, opened, rows_of, run, store, tampered

from sluice.errors import StoreError
from sluice.session.disk import reading
from sluice.session.export import as_json, as_markdown
from sluice.session.opening import Wish
from sluice.session.repair import repair
from sluice.session.resume import NOT_ANSWERED, NOT_STARTED, UNKNOWN
from sluice.session.store import SqliteStore
from sluice.testing.store_kit import allowed, asks, pairs_hold, refused, well
from sluice.values.calls import CallKey, call_digest
from sluice.values.messages import ToolMessage, UserMessage

DIGEST = call_digest("look", "{}")
KEY = CallKey("r", 1, 0)


async def _asked_about(s: SqliteStore, *ids: str, position: int = 0, digest: str = DIGEST) -> None:
    """A run that asks for these calls, and a person about the one at `position`."""
    await s.started("r", UserMessage("x"))
    await s.reply_began("r", 1)
    await s.append("r", asks(*(ids or ("a",))))
    await s.asked(CallKey("r", 1, position), "look", digest)


def _left(path: Path, *ids: str, **more: Any) -> Any:
    """The same, and then its process dies and the session is opened again; what waits."""

    async def body() -> Any:
        async with store(path, new_id=lambda: "ses") as s:
            await _asked_about(s, *ids, **more)
        async with store(path, "continue") as s:
            return await s.waiting()

    return run(body())


def test_what_was_asked_about_waits_with_all_that_stands_behind_it(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    waiting = _left(path, "a", "b", "c", position=1)
    assert (waiting.run, waiting.turn, waiting.first, waiting.stop_reason) == ("r", 1, 1, "tool_use")
    assert [call.id for call in waiting.calls] == ["b", "c"]
    assert waiting.results == (None, None)
    assert rows_of(path, "SELECT run, turn, role FROM message ORDER BY seq") == [
        ("r", None, "user"),
        ("r", 1, "assistant"),
        ("r", None, "tool"),
    ]
    assert broken(path) == []


def _tampering(sql: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        with tampered(path) as connection:
            connection.execute(sql)

    return change


NOT_WAITING = {
    "another call was asked about": "UPDATE approval SET digest = 'x'",
    "the person had said no": "UPDATE approval SET granted = 0",
    "nobody was asked": "DELETE FROM approval",
    "it had started": f"INSERT INTO call VALUES ('r', 1, 0, 'look', '{DIGEST}', 'granted:x', 0, 'unknown_outcome', NULL)",
    "its reply broke off": "UPDATE message SET state = 'interrupted' WHERE role = 'assistant'",
    "something stands behind it": "INSERT INTO message VALUES ('ses', 3, 'r', NULL, 'user', 'whole', "
    """'{"plain":true,"origin":"user"}', NULL, NULL, NULL)""",
    "its run ended by itself": "UPDATE run SET outcome = 'failed', duration_ns = 1",
    "its run is not known": "UPDATE message SET run = NULL",
}


@pytest.mark.parametrize("why", NOT_WAITING)
def test_an_open_call_is_lawful_only_where_it_waits(why: str, tmp_path: Path) -> None:
    """P1 stays strict: the checker speaks up, and the next opening gives the call its one result."""
    path = tmp_path / "s.db"
    assert _left(path) is not None
    _tampering(NOT_WAITING[why])(path)
    assert "P1" in {one.promise for one in broken(path)}

    async def body() -> Any:
        async with store(path, "continue") as s:
            assert await s.waiting() is None
            return await s.history()

    history = run(body())
    if why == "something stands behind it":
        return  # what was never written by us is not put in order; it is sent in pairs all the same
    pairs_hold(history)
    assert [m.content for m in history if isinstance(m, ToolMessage)] == [
        {
            "it had started": UNKNOWN,
            "its run is not known": UNKNOWN,
            "another call was asked about": NOT_ANSWERED,
            "its reply broke off": NOT_ANSWERED,
            "its run ended by itself": NOT_ANSWERED,
        }.get(why, NOT_STARTED)
    ]
    assert [one for one in broken(path) if one.promise != "X2"] == []


def test_a_yes_without_a_start_is_no_answer(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def body() -> None:
        async with store(path) as s:
            await _asked_about(s)
            await s.answered(KEY, True)
        async with store(path, "continue") as s:
            assert await s.waiting() is not None
            await s.started("q", None)
            await refused(s.call_started(allowed("r")))
            await s.asked(KEY, "look", DIGEST)
            await refused(s.call_started(allowed("r")))
            await s.answered(KEY, False)
            await refused(s.call_started(allowed("r")))

    run(body())
    assert rows_of(path, "SELECT count(*) FROM call") == [(0,)]


def test_who_may_start_a_call_of_a_run_that_has_ended(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def body() -> None:
        async with store(path) as s:
            await _asked_about(s, "a", "b")
        async with store(path, "continue") as s:
            await refused(s.asked(KEY, "look", DIGEST)), "no run goes on"
            await refused(s.call_started(allowed("r")))
            await s.started("q", None)
            await refused(s.asked(KEY, "look", "another digest"))
            await refused(s.asked(CallKey("r", 1, 2), "look", DIGEST))
            await refused(s.asked(CallKey("r", 2, 0), "look", DIGEST))
            await refused(s.asked(CallKey("unknown", 1, 0), "look", DIGEST))
            await s.asked(KEY, "look", DIGEST)
            await s.answered(KEY, True)
            await refused(s.call_started(allowed("r", arguments='{"other": 1}')))
            await refused(s.call_started(allowed("r", position=1)))
            await s.call_started(allowed("r"))
            await refused(s.call_started(allowed("r")))
            await refused(s.asked(KEY, "look", DIGEST))
            await s.call_ended(allowed("r"), well())
            await s.append("q", ToolMessage("a", "look", "seen"))
            await refused(s.asked(KEY, "look", DIGEST))
            await s.append("q", ToolMessage("b", "look", "[skipped] no", False, status="skipped"))
            await s.append("q", UserMessage("the prompt"))
            await s.finished("q", "completed")
            await refused(s.call_started(allowed("r", position=1)))
            assert await s.waiting() is None
            pairs_hold(await s.history())

    run(body())
    assert broken(path) == []


def test_a_prompt_that_does_not_take_it_up_gives_it_up(tmp_path: Path) -> None:
    """A store keeps its promises whoever drives it: nothing stands behind a call without its result."""
    path = tmp_path / "s.db"

    async def body() -> Any:
        async with store(path) as s:
            await _asked_about(s, "a", "b")
        async with store(path, "continue") as s:
            await s.started("q", UserMessage("something else"))
            assert await s.waiting() is None
            await refused(s.call_started(allowed("r")))
            await s.finished("q", "completed")
            return await s.history()

    history = run(body())
    assert [m.content for m in history if isinstance(m, ToolMessage)] == [NOT_ANSWERED, NOT_STARTED]
    assert history[-1] == UserMessage("something else")
    assert broken(path) == []


def test_a_session_at_work_is_no_session_that_waits(tmp_path: Path) -> None:
    """The question is open in another process: it is listed, nothing of it is taken up or copied, and it is held."""
    path = tmp_path / "s.db"

    async def body() -> None:
        async with store(path) as s:
            await _asked_about(s)
            assert await s.waiting() is None
            assert broken(path) == []
            with pytest.raises(StoreError, match="in use"):
                await opened(path, Wish(how="continue"))
            copy = await opened(path, Wish(how="fork", id=s.session))
            assert await copy.store.history() == (UserMessage("x"),)
            await copy.store.close()

    run(body())


def test_a_fork_copies_what_became_of_the_others(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    assert _left(path, "a", "b", "c") is not None
    body = '{"ok":true,"status":"ok","tool":"look","content":"what it saw"}'
    for position, result in ((1, f"'{body}'"), (2, "NULL")):
        status = "ok" if position == 1 else "unknown_outcome"
        _tampering(f"INSERT INTO call VALUES ('r', 1, {position}, 'look', '{DIGEST}', 'x', 0, '{status}', {result})")(
            path
        )

    async def forked() -> Any:
        async with store(path, "fork", id="ses") as s:
            assert await s.waiting() is None
            return await s.history()

    history = run(forked())
    pairs_hold(history)
    told = [m.content for m in history if isinstance(m, ToolMessage)]
    assert told[0].startswith("[not_started] This call waits for a person in the session")
    assert told[1:] == ["[ok] what it saw", UNKNOWN]
    assert broken(path) == []


def test_what_is_exported_says_that_it_waits(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    assert _left(path, "a", "b", position=1) is not None
    with reading(path) as connection:
        text = "".join(as_markdown(connection, "ses"))
        data = b"".join(as_json(connection, "ses")).decode()
    assert text.count("waiting for your approval") == 1
    assert "Call of `look`, waiting for your approval" in text
    assert '"waiting":[{"run":"r","turn":1,"position":1,"tool":"look"}]' in data


def test_a_repaired_store_keeps_what_waits(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    assert _left(path) is not None
    with tampered(path) as connection:
        connection.execute("UPDATE part SET body = 'y' WHERE kind = 'text'")
    done = repair(path, "/project")
    assert done.left == ()
    assert "message 1 (user) is lost" in " ".join(done.lost)

    async def body() -> Any:
        async with store(path, "continue") as s:
            return await s.waiting()

    assert run(body()).tools == ("look",)
    assert broken(path) == []


def test_what_a_disk_without_room_left_open_of_a_taken_up_call_is_made_right(tmp_path: Path) -> None:
    """The run that took it up ended, and neither the call's end nor its result could be stored before that."""
    path = tmp_path / "s.db"

    async def body() -> Any:
        async with store(path) as s:
            await _asked_about(s, "a", "b")
        async with store(path, "continue") as s:
            await s.started("q", None)
            await s.asked(KEY, "look", DIGEST)
            await s.answered(KEY, True)
            await s.call_started(allowed("r"))
            await s.finished("q", "failed")
            await s.noted("q", end_told("q", saved=False))
        assert broken(path) == []
        async with store(path, "continue") as s:
            return await s.history()

    told = [m.content for m in run(body()) if isinstance(m, ToolMessage)]
    assert told == [UNKNOWN, NOT_STARTED]
    assert broken(path) == []
