"""Lists, forks, exports, removal, retention."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from session_world import broken, opened, rows_of, run, store

from sluice.errors import StoreError
from sluice.run.spending import Spending, Spent
from sluice.session import catalog
from sluice.session.disk import reading
from sluice.session.export import as_json, as_markdown
from sluice.session.opening import Wish
from sluice.session.usage import replies
from sluice.testing.store_kit import allowed, asks, pairs_hold, well
from sluice.values.calls import CallKey, call_digest
from sluice.values.messages import AssistantMessage, Conversation, ToolMessage, Usage, UserMessage
from sluice.values.notices import TurnFinished


async def _turns(s: object, run: str, prompt: str = "hello") -> None:
    await s.started(run, UserMessage(prompt))  # type: ignore[attr-defined]
    await s.append(run, asks("a", "b"))  # type: ignore[attr-defined]
    for at, id in enumerate("ab"):
        await s.call_started(allowed(run, position=at))  # type: ignore[attr-defined]
        await s.call_ended(allowed(run, position=at), well())  # type: ignore[attr-defined]
        await s.append(run, ToolMessage(id, "look", "seen"))  # type: ignore[attr-defined]
    await s.append(run, AssistantMessage(content="```\ndone\n```"))  # type: ignore[attr-defined]
    await s.finished(run, "completed")  # type: ignore[attr-defined]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "s.db"

    async def body() -> None:
        for id, project in (("ses_aa", "/project"), ("ses_ab", "/project"), ("ses_c", "/other")):
            async with store(path, new_id=lambda id=id: id, project=project) as s:
                await _turns(s, f"run_{id}", f"prompt  of\n{id}")

    run(body())
    return path


def test_the_list_is_of_the_project_and_begins_with_the_last(path: Path) -> None:
    with reading(path) as connection:
        assert [one.id for one in catalog.listed(connection, path, "/project")] == ["ses_ab", "ses_aa"]
        (all_of_it, *_rest) = catalog.listed(connection, path)
        assert (all_of_it.id, all_of_it.title, all_of_it.messages) == ("ses_c", "prompt of ses_c", 5)
        assert (all_of_it.runs, all_of_it.outcome, all_of_it.held_by) == (1, "completed", None)


def test_who_holds_a_session_is_listed(path: Path) -> None:
    async def body() -> None:
        async with store(path, "resume", "ses_aa"):
            with reading(path) as connection:
                held = {one.id: one.held_by for one in catalog.listed(connection, path, "/project")}
            assert held == {"ses_aa": os.getpid(), "ses_ab": None}

    run(body())


def test_a_session_is_named_by_a_beginning_that_only_one_has(path: Path) -> None:
    with reading(path) as connection:
        assert catalog.find(connection, "ses_aa") == "ses_aa"
        assert catalog.find(connection, "ses_c") == "ses_c"
        with pytest.raises(StoreError, match="more than one"):
            catalog.find(connection, "ses_a")
        for wanted in ("nope", "%", "ses_c"):
            with pytest.raises(StoreError, match="no session is named"):
                catalog.find(connection, wanted, "/project")


def test_continue_takes_the_last_one_of_the_project_and_says_when_it_begins_one(tmp_path: Path, path: Path) -> None:
    async def body() -> list[tuple[str, tuple[str, ...]]]:
        found = []
        for project in ("/project", "/new"):
            opening = await opened(path, Wish(how="continue"), project=project, new_id=lambda: "fresh")
            found.append((opening.store.session, opening.news))
            await opening.store.close()
        return found

    (first, said), (second, news) = run(body())
    assert (first, said) == ("ses_ab", ())
    assert second == "fresh"
    assert "began one" in news[0]


async def _forked(path: Path, upto: int | None) -> Conversation:
    opening = await opened(path, Wish(how="fork", id="ses_aa", upto=upto), new_id=lambda: f"fork{upto}")
    try:
        return await opening.store.history()
    finally:
        await opening.store.close()


@pytest.mark.parametrize(("upto", "count"), [(None, 5), (1, 1), (2, 4), (3, 4), (4, 4), (5, 5)])
def test_a_fork_never_parts_a_call_from_its_result_and_leaves_its_source_alone(
    upto: int | None, count: int, path: Path
) -> None:
    before = rows_of(path, "SELECT * FROM part WHERE session = 'ses_aa' ORDER BY seq, position")
    history = run(_forked(path, upto))
    assert len(history) == count
    pairs_hold(history)
    assert rows_of(path, "SELECT * FROM part WHERE session = 'ses_aa' ORDER BY seq, position") == before
    assert rows_of(path, "SELECT parent FROM session WHERE id LIKE 'fork%'") == [(f"ses_aa@{count}",)]
    assert broken(path) == []


def test_a_fork_goes_its_own_way(path: Path) -> None:
    async def body() -> None:
        async with store(path, "fork", "ses_aa", new_id=lambda: "mine") as s:
            await _turns(s, "run_mine")
        async with store(path, "resume", "mine") as s:
            assert len(await s.history()) == 10

    run(body())
    assert broken(path) == []


def test_a_session_in_use_can_be_forked_as_far_as_it_is_whole(path: Path) -> None:
    async def body() -> Conversation:
        async with store(path, "resume", "ses_aa") as s:
            await s.started("more", UserMessage("more"))
            await s.append("more", asks("x"))
            return await _forked(path, None)

    history = run(body())
    assert len(history) == 6
    pairs_hold(history)


def test_a_copy_of_a_part_has_seen_no_file(tmp_path: Path) -> None:
    """What was read after the cut is not in the copy, so it may not be overwritten there."""
    path = tmp_path / "s.db"

    async def body() -> list[dict[str, str]]:
        async with store(path, new_id=lambda: "ses_aa") as s:
            s.seen = lambda: {"a.txt": "1" * 64}
            await _turns(s, "r")
            await s.started("more", UserMessage("read b.txt"))
            await s.append("more", asks("x"))
            s.seen = lambda: {"a.txt": "1" * 64, "b.txt": "2" * 64}
            await s.call_started(allowed("more"))
            await s.call_ended(allowed("more"), well())
            at_work = await _seen_in_a_fork(path, None)
            await s.append("more", ToolMessage("x", "look", "seen"))
            await s.finished("more", "completed")
        return [at_work, *[await _seen_in_a_fork(path, upto) for upto in (4, 7, 8, None)]]

    both = {"a.txt": "1" * 64, "b.txt": "2" * 64}
    assert run(body()) == [{}, {}, both, both, both]


async def _seen_in_a_fork(path: Path, upto: int | None) -> dict[str, str]:
    opening = await opened(path, Wish(how="fork", id="ses_aa", upto=upto))
    try:
        return await opening.store.seen_files()
    finally:
        await opening.store.close()


@pytest.mark.parametrize("upto", [0, 99])
def test_a_fork_at_no_message_is_refused(upto: int, path: Path) -> None:
    with pytest.raises(StoreError, match="no message"):
        run(_forked(path, upto))


def test_the_exported_json_holds_it_all(path: Path) -> None:
    with reading(path) as connection:
        found = json.loads(b"".join(as_json(connection, "ses_aa")))
        assert (found["sluice_session"], found["session"]["id"], len(found["messages"])) == (1, "ses_aa", 5)
        assert found["runs"][0]["calls"][1]["result"]["content"] == "seen"
        assert found["messages"][0]["message"]["content"] == "prompt  of\nses_aa"
        with pytest.raises(StoreError):
            b"".join(as_json(connection, "nope"))


def test_the_exported_markdown_can_be_read(path: Path) -> None:
    with reading(path) as connection:
        found = "".join(as_markdown(connection, "ses_aa"))
    assert "## 2 · Assistant" in found
    assert "Call of `look`" in found
    assert "Result of look" in found
    assert "done" in found


def test_removing_takes_every_row_and_spares_what_is_in_use(path: Path) -> None:
    from sluice.session.database import Database
    from sluice.session.removal import remove_now

    async def body() -> None:
        async with store(path, "resume", "ses_aa"):
            database = Database(path)
            gone, held = remove_now(database, ["ses_aa", "ses_ab"])
            assert gone == ["ses_ab"]
            assert "in use" in str(held["ses_aa"])
            database.close()

    run(body())
    for table in ("session", "message", "part", "run", "seen"):
        column = "id" if table == "session" else "session"
        assert rows_of(path, f"SELECT count(*) FROM {table} WHERE {column} = 'ses_ab'") == [(0,)]
    assert rows_of(path, "SELECT count(*) FROM call WHERE run = 'run_ses_ab'") == [(0,)]
    assert broken(path) == []


DAY = 86_400
_number = iter(range(10**9))


async def _used(path: Path, at: float, wish: Wish | None = None, **more: Any) -> tuple[str, ...]:
    """One run at this time of day; what was told at the opening."""
    opening = await opened(path, wish or Wish(), now=lambda: at, **more)
    name = f"run {next(_number)}"
    await opening.store.started(name, UserMessage("x"))
    await opening.store.finished(name, "completed")
    await opening.store.close()
    return opening.news


def _ids(path: Path) -> list[str]:
    return [id for (id,) in rows_of(path, "SELECT id FROM session ORDER BY last")]


def test_old_sessions_go_and_the_cap_is_kept_with_a_word(path: Path) -> None:
    async def body() -> tuple[str, ...]:
        await _used(path, 4e9 - 3 * DAY, new_id=lambda: "lately")
        opening = await opened(path, Wish(), keep_days=30, now=lambda: 4e9)
        await opening.store.close()
        with pytest.raises(StoreError, match=r"session_store_bytes.*--older-than"):
            await opened(path, Wish(), max_bytes=1)
        return opening.news

    assert "2 sessions" in run(body())[0]
    assert _ids(path) == ["ses_c", "lately"]


def test_a_clock_that_jumped_ahead_removes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def body() -> list[tuple[str, ...]]:
        for day in range(3):
            await _used(path, (1000 + day) * DAY, new_id=lambda day=day: f"s{day}")  # type: ignore[misc]
        told = [await _used(path, 9000 * DAY, keep_days=30, new_id=lambda: "ahead") for _ in range(2)]
        assert _ids(path) == ["s0", "s1", "s2", "ahead"]
        assert await _used(path, 1004 * DAY, keep_days=30, new_id=lambda: "right") == ()
        told.append(await _used(path, 1040 * DAY, keep_days=30, new_id=lambda: "back"))  # after a long holiday
        told.append(await _used(path, 1042 * DAY, keep_days=30, new_id=lambda: "next"))
        return told

    first, second, holiday, after = run(body())
    assert all("the clock may be wrong" in one[0] for one in (first, second, holiday))
    assert after == ("5 sessions unused for 30 days were removed (session_days)",)
    assert _ids(path) == ["back", "next"]


def test_it_is_said_that_calls_waited_in_what_goes(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def body() -> tuple[str, ...]:
        await _used(path, 1000 * DAY, new_id=lambda: "done")
        for id in ("asked", "asked_too", "spared"):
            s = (await opened(path, Wish(), now=lambda: 1000 * DAY, new_id=lambda id=id: id)).store  # type: ignore[misc]
            await s.started(f"run_{id}", UserMessage("x"))
            await s.append(f"run_{id}", asks("a"))
            await s.asked(CallKey(f"run_{id}", 1, 0), "look", call_digest("look", "{}"))
            await s.close()  # it died at the question
        await _used(path, 1039 * DAY, new_id=lambda: "lately")
        opening = await opened(path, Wish(how="resume", id="spared"), keep_days=30, now=lambda: 1041 * DAY)
        await opening.store.close()
        return opening.news

    told = run(body())
    words = "3 sessions unused for 30 days were removed (session_days); in 2 of them calls waited for your approval"
    assert told[0] == words
    assert _ids(path) == ["spared", "lately"]


def test_a_clock_that_stood_at_its_beginning_makes_no_session_old(tmp_path: Path) -> None:
    """As on a machine without a clock of its own, before it asked the network for the time."""
    path = tmp_path / "s.db"

    async def body() -> None:
        await _used(path, 900 * DAY, new_id=lambda: "old")
        await _used(path, 1000 * DAY, new_id=lambda: "new")
        await _used(path, 0, new_id=lambda: "just_now")
        await _used(path, 1002 * DAY, new_id=lambda: "then", keep_days=30)

    run(body())
    assert _ids(path) == ["new", "just_now", "then"]


@pytest.mark.parametrize("wish", [Wish(how="continue"), Wish(how="resume", id="old_"), Wish(how="fork", id="old_one")])
def test_the_session_that_is_wished_for_is_never_too_old(wish: Wish, tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def body() -> None:
        await _used(path, 1000 * DAY, new_id=lambda: "older")
        await _used(path, 1001 * DAY, new_id=lambda: "old_one")
        await _used(path, 1098 * DAY, new_id=lambda: "elsewhere", project="/another")
        await _used(path, 1100 * DAY, wish, keep_days=30, new_id=lambda: "new")

    run(body())
    assert "old_one" in _ids(path)
    assert "older" not in _ids(path)


def test_what_each_reply_used_is_read_by_run_and_turn(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def body() -> None:
        async with store(path, id="a") as s:
            for number in (1, 2):
                await s.started(f"r{number}", UserMessage("x"))
                for turn in (1, 2):
                    used = Usage(input_tokens=10 * number + turn, output_tokens=turn)
                    cost = None if number == 2 else 0.5
                    await s.noted(f"r{number}", TurnFinished(turn=turn, stop_reason="end_turn", usage=used, cost=cost))
                await s.finished(f"r{number}", "completed")

    run(body())
    with reading(path) as connection:
        (session,) = connection.execute("SELECT id FROM session").fetchone()
        found = list(replies(connection, session))
    assert [(number, turn, used.input_tokens, cost) for number, turn, used, cost in found] == [
        (1, 1, 11, 0.5),
        (1, 2, 12, 0.5),
        (2, 1, 21, None),
        (2, 2, 22, None),
    ]
    assert [line.split(":")[0].strip() for line in Spending(Spent(*one) for one in found).lines()] == [
        "run 1",
        "run 2",
        "turn 1",
        "turn 2",
        "session",
    ]
