"""Each checker finds what it is for: a sound store breaks no promise, and each spoilt one breaks just its own."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from session_world import broken, run, store, tampered

from sluice.session.catalog import lock_folder
from sluice.session.check import PROMISES, check
from sluice.session.disk import reading
from sluice.session.locks import SessionLock
from sluice.testing.store_kit import allowed, asks, well
from sluice.turn.repeats import output_digest
from sluice.values.calls import CallKey, ToolSpec, Verdict
from sluice.values.healed import HealedArguments, allow_healed, healed_digest
from sluice.values.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from sluice.values.results import ToolResult

SECRET = "sk-very-secret-key"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with one session of two runs and one fork of it."""
    path = tmp_path / "s.db"

    async def body() -> None:
        async with store(path, new_id=lambda: "ses") as s:
            for name in ("q", "r"):
                await s.started(name, UserMessage("hello"))
                await s.reply_began(name, 1)
                for piece in ("so ", "it ", "is"):
                    await s.delta(name, "text", piece)
                await s.append(name, asks("a", "b", text="so it is"))
                for at, id in enumerate("ab"):
                    key, digest = CallKey(name, 1, at), allowed(name).verdict.digest
                    await s.asked(key, "look", digest)
                    await s.answered(key, True)
                    await s.call_started(allowed(name, position=at))
                    await s.call_ended(allowed(name, position=at), well())
                    await s.append(name, ToolMessage(id, "look", "seen"))
                await s.append(name, AssistantMessage(content="done"))
                await s.finished(name, "completed")
        async with store(path, "fork", "ses", new_id=lambda: "fork"):
            pass

    run(body())
    assert broken(path, secrets=[SECRET]) == []
    return path


def test_how_much_was_checked_is_told(path: Path) -> None:
    with reading(path) as connection:
        report = check(connection, path)
    assert (report.sessions, report.runs, report.broken) == (2, 2, ())


def unended(path: Path) -> tuple[str, ...]:
    with reading(path) as connection:
        return check(connection, path).unended


SPOILT = {
    "D1": "UPDATE run SET chunks = chunks + 1 WHERE id = 'q'",
    "D2": "UPDATE message SET first_chunk = first_chunk + 5, next_chunk = next_chunk + 5 WHERE run = 'q' AND seq = 2",
    "D3": "UPDATE message SET told_crc = told_crc + 1 WHERE run = 'q' AND seq = 2",
    "D4": "UPDATE run SET outcome = NULL, duration_ns = NULL WHERE id = 'q'",
    "P1": "UPDATE message SET state = 'dropped' WHERE run = 'r' AND role = 'tool'",
    "P2": 'UPDATE part SET body = replace(body, \'"seen"\', \'"no","ok":false,"status":"skipped"\') '
    "WHERE session = 'ses' AND seq = 3",
    "X1": "UPDATE call SET digest = 'other' WHERE run = 'q' AND position = 1",
    "X2": "UPDATE approval SET granted = 0 WHERE run = 'q' AND position = 0",
    "O1": "UPDATE run SET outcome = NULL",
    "F1": "DELETE FROM part WHERE session = 'ses' AND seq = 1",
    "F2": "UPDATE part SET body = body || 'x' WHERE session = 'ses' AND seq = 5 AND kind = 'text'",
    "C1": "UPDATE call SET status = NULL WHERE run = 'q' AND position = 0",
    "T1": "UPDATE run SET duration_ns = -1 WHERE id = 'q'",
    "K1": "DELETE FROM message WHERE session = 'fork' AND seq = 3",
}
ALSO = {  # what else breaks when that breaks
    "P2": {"F2", "K1"},
    "P1": {"K1"},
    "O1": {"D4"},
    "F1": {"K1"},
    "F2": {"K1"},
    "K1": {"P1", "T1", "F1"},
    "X1": {"X2"},
}


@pytest.mark.parametrize("promise", SPOILT)
def test_each_spoilt_store_breaks_its_promise(promise: str, path: Path) -> None:
    with tampered(path) as connection:
        connection.execute(SPOILT[promise])
    found = {b.promise for b in broken(path)}
    assert promise in found
    assert found <= {promise} | ALSO.get(promise, set())


@pytest.mark.parametrize(
    ("promise", "spoilt"),
    [
        ("X1", "UPDATE call SET tool = 'other' WHERE run = 'q' AND position = 0"),
        ("P2", "UPDATE call SET result = replace(result, '\"ok\":true', '\"ok\":false') WHERE run = 'q'"),
        ("P2", 'UPDATE call SET result = replace(result, \'"status":"ok"\', \'"status":"failed"\') WHERE run = \'q\''),
        (
            "D4",
            'INSERT INTO notice SELECT id, 50 + n, \'{"type":"run_finished"}\' FROM run, (SELECT 1 n UNION SELECT 2)',
        ),
    ],
)
def test_what_was_taken_away_or_added_is_found(promise: str, spoilt: str, path: Path) -> None:
    with tampered(path) as connection:
        assert connection.execute(spoilt).rowcount
    assert {b.promise for b in broken(path)} == {promise}


def test_a_result_that_is_not_what_the_call_came_to_is_found(tmp_path: Path) -> None:
    result = well()

    async def body() -> None:
        async with store(tmp_path / "s.db", new_id=lambda: "ses") as s:
            await s.started("r", UserMessage("hello"))
            await s.append("r", asks("a"))
            await s.call_started(allowed("r"))
            await s.call_ended(allowed("r"), result)
            await s.append("r", ToolMessage("a", "look", "seen", digest=output_digest(result)))
            await s.finished("r", "completed")

    run(body())
    assert broken(tmp_path / "s.db") == []
    with tampered(tmp_path / "s.db") as connection:
        changed = connection.execute("SELECT result FROM call").fetchone()[0]
        other = msgspec.json.encode(
            msgspec.structs.replace(msgspec.json.decode(changed, type=ToolResult), content="new")
        )
        connection.execute("UPDATE call SET result = ?", (other.decode(),))
    assert {b.promise for b in broken(tmp_path / "s.db")} == {"P2"}
    with tampered(tmp_path / "s.db") as connection:
        connection.execute("DELETE FROM call")
    assert {b.words for b in broken(tmp_path / "s.db")} == {"call 0 ran, and its start is not there"}


@pytest.mark.parametrize("stored", [True, False])
def test_only_its_status_says_that_a_call_was_not_started(stored: bool, tmp_path: Path) -> None:
    """A tool may say what it likes: the words of ours in its output mean nothing. Without an end, its outcome is unknown."""
    path, result = tmp_path / "s.db", well(content="[not_started] said the test runner")

    async def body() -> None:
        async with store(path, new_id=lambda: "ses") as s:
            await s.started("r", UserMessage("hello"))
            await s.append("r", asks("a"))
            await s.call_started(allowed("r"))
            if stored:
                await s.call_ended(allowed("r"), result)
            await s.append("r", ToolMessage("a", "look", result.content))
            await s.finished("r", "completed")

    run(body())
    with tampered(path) as connection:
        connection.execute("UPDATE call SET status = 'unknown_outcome' WHERE status IS NULL")
    assert broken(path) == []
    with tampered(path) as connection:
        connection.execute('UPDATE part SET body = replace(body, \'}\', \',"ok":false,"status":"skipped"}\'), crc = 0')
    assert "P2" in {one.promise for one in broken(path)}


def test_every_promise_is_spoilt_somewhere() -> None:
    assert set(PROMISES) == set(SPOILT) | {"R1", "S1"}


def test_an_approved_start_without_a_question_is_found(path: Path) -> None:
    with tampered(path) as connection:
        connection.execute("UPDATE call SET rule = 'granted:not_approved' WHERE run = 'q' AND position = 0")
        connection.execute("DELETE FROM approval WHERE run = 'q' AND position = 0")
    assert {b.promise for b in broken(path)} == {"X2"}


def test_files_open_to_others_and_secrets_are_found(path: Path) -> None:
    with tampered(path) as connection:
        connection.execute("UPDATE session SET project = ?", (f"/x/{SECRET}",))
    assert {b.words for b in broken(path, secrets=[SECRET])} == {"it holds an API key"}
    lock_folder(path).chmod(0o755)
    assert {b.promise for b in broken(path)} == {"S1"}


def test_a_log_that_grew_is_found(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice.session.check.MOST_LOG", -1)
    assert {b.promise for b in broken(path)} == {"R1"}


def test_a_run_that_goes_on_breaks_nothing(path: Path) -> None:
    async def body() -> None:
        async with store(path, "resume", "ses") as s:
            await s.started("t", UserMessage("more"))
            await s.append("t", asks("x", "y"))
            await s.call_started(allowed("t"))
            assert broken(path) == []

    run(body())
    assert (broken(path), unended(path)) == ([], ("ses",))
    lock = SessionLock(lock_folder(path), "ses")
    assert (broken(path), unended(path)) == ([], ())
    lock.close()


def test_an_unreadable_row_is_a_finding_and_no_failure(path: Path) -> None:
    with tampered(path) as connection:
        connection.execute("UPDATE part SET body = '{' WHERE kind = 'call'")
    found = {b.promise for b in broken(path)}
    assert {"P1", "F2"} <= found


def test_a_call_that_ran_with_closed_arguments_is_known_by_them(tmp_path: Path) -> None:
    """What started is what the result names, and only for a call that was cut (W9)."""
    closed = HealedArguments(written='{"path":"a","l', text='{"path":"a"}')
    spec = ToolSpec(name="look", description="", parameters={}, category="read_only", accepts_healed=True)
    key = CallKey("r", 1, 0)
    verdict = Verdict(key=key, digest=healed_digest("look", closed), decision="allow", rule="healed:read_only")
    call = allow_healed(spec, key, closed, verdict, switched_on=True, schema_valid=True)
    cut = ToolCall(id="a", name="look", arguments=closed.written, status="cut")

    async def body() -> None:
        async with store(tmp_path / "s.db", new_id=lambda: "ses") as s:
            await s.started("r", UserMessage("hello"))
            await s.reply_began("r", 1)
            await s.append("r", AssistantMessage(tool_calls=(cut,)))
            await s.call_started(call)
            await s.call_ended(call, msgspec.structs.replace(well(), facts={"healed": closed.text}))
            await s.append("r", ToolMessage("a", "look", "seen"))
            await s.finished("r", "completed")

    run(body())
    assert broken(tmp_path / "s.db") == []
    for spoilt in (
        "UPDATE call SET rule = 'read_only'",
        "UPDATE call SET result = replace(result, 'path', 'pith')",
        "UPDATE call SET result = '{}'",
    ):
        with tampered(tmp_path / "s.db") as connection:
            before = connection.execute("SELECT rule, result FROM call").fetchone()
            connection.execute(spoilt)
        assert "X1" in {one.promise for one in broken(tmp_path / "s.db")}
        with tampered(tmp_path / "s.db") as connection:
            connection.execute("UPDATE call SET rule = ?, result = ?", before)
