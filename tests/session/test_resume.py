"""A session whose process died is made right, once, in storage: nothing is run again, nothing is said that is not so."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from session_world import broken, end_told, opened, rows_of, run, store, tampered, words

from sluice.errors import StoreError
from sluice.session.opening import Opening, Wish
from sluice.session.resume import NOT_ANSWERED, NOT_STARTED, UNKNOWN, recover
from sluice.session.rows import paired
from sluice.testing.store_kit import allowed, asks, pairs_hold, well
from sluice.values.calls import CallKey
from sluice.values.messages import AssistantMessage, Conversation, ToolMessage, Usage, UserMessage
from sluice.values.notices import TurnFinished


async def _reopened(path: Path, how: str = "continue", **more: Any) -> tuple[Opening, Conversation]:
    opening = await opened(path, Wish(how=how, **more))  # type: ignore[arg-type]
    try:
        return opening, await opening.store.history()
    finally:
        await opening.store.close()


def test_a_started_call_is_unknown_an_ended_one_keeps_its_result_and_the_rest_did_not_start(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def body() -> tuple[Opening, Conversation]:
        async with store(path) as s:
            await s.started("r", UserMessage("x"))
            await s.reply_began("r", 1)
            await s.append("r", asks("a", "b", "c", "d"))
            await s.call_started(allowed("r", position=0))
            await s.call_ended(allowed("r", position=0), well(content="what it printed"))
            await s.call_started(allowed("r", position=1))
            await s.asked(CallKey("r", 1, 2), "look", "of another call")
        assert broken(path) == []
        return await _reopened(path)

    opening, history = run(body())
    said = [(m.call_id, m.content, m.ok) for m in history if isinstance(m, ToolMessage)]
    assert said == [
        ("a", "[ok] what it printed", True),
        ("b", UNKNOWN, False),
        ("c", NOT_ANSWERED, False),
        ("d", NOT_STARTED, False),
    ]
    (found,) = opening.recovered
    assert (found.unknown, found.pending, found.not_started) == (("look",), (), ("look", "look"))
    assert "interrupted" in opening.news[0]
    assert rows_of(path, "SELECT outcome FROM run") == [("interrupted",)]
    assert rows_of(path, "SELECT status FROM call ORDER BY position") == [("ok",), ("unknown_outcome",)]
    assert broken(path) == []


def test_results_that_are_there_stay_and_only_the_rest_is_added(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def body() -> Conversation:
        async with store(path) as s:
            await s.started("r", UserMessage("x"))
            await s.append("r", asks("a", "b"))
            await s.append("r", ToolMessage("a", "look", "x"))
        return (await _reopened(path))[1]

    history = run(body())
    assert [m.content for m in history[2:] if isinstance(m, ToolMessage)] == ["x", NOT_STARTED]
    assert broken(path) == []


def test_recovery_happens_once(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def body() -> list[tuple[Opening, Conversation]]:
        async with store(path) as s:
            await s.started("r", UserMessage("x"))
            await s.append("r", asks("a"))
            await s.call_started(allowed("r"))
        return [await _reopened(path), await _reopened(path)]

    (first, one), (second, two) = run(body())
    assert one == two
    assert (len(first.recovered), len(second.recovered)) == (1, 0)
    assert second.news == ()


def test_a_death_in_the_middle_of_recovery_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    def dying(connection: Any) -> None:
        recover(connection, "ses", words)
        raise RuntimeError("killed")

    async def body() -> Conversation:
        async with store(path, new_id=lambda: "ses") as s:
            await s.started("r", UserMessage("x"))
            await s.append("r", asks("a"))
            await s.call_started(allowed("r"))
        async with store(path) as other:
            with pytest.raises(StoreError):
                await other.database.write(dying)
        assert rows_of(path, "SELECT outcome FROM run") == [(None,)]
        return (await _reopened(path, "resume", id="ses"))[1]

    pairs_hold(run(body()))
    assert broken(path) == []


def test_a_reply_that_was_arriving_is_kept_as_far_as_it_came_with_its_calls_cut(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def body() -> Conversation:
        async with store(path) as s:
            await s.started("r", UserMessage("x"))
            await s.reply_began("r", 1)
            await s.delta("r", "reasoning", "I ")
            await s.delta("r", "reasoning", "think")
            await s.delta("r", "text", "so ")
            await s.delta("r", "text", "it")
            await s.delta("r", "call", "write_file_safe")
        return (await _reopened(path))[1]

    history = run(body())
    reply = history[1]
    assert isinstance(reply, AssistantMessage)
    assert (reply.content, reply.reasoning[0].text, reply.stop_reason) == ("so it", "I think", "aborted")
    assert [(c.name, c.status, c.arguments) for c in reply.tool_calls] == [("write_file_safe", "cut", "")]
    pairs_hold(history)
    assert broken(path) == []


@pytest.mark.parametrize("kind", [None, "reasoning"])
def test_a_reply_with_nothing_to_send_back_is_no_part(kind: Any, tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def body() -> Conversation:
        async with store(path) as s:
            await s.started("r", UserMessage("x"))
            await s.reply_began("r", 1)
            if kind:
                await s.delta("r", kind, "hm")
        return (await _reopened(path))[1]

    assert run(body()) == (UserMessage("x"),)
    assert broken(path) == []


_CHILD = """
import asyncio, os, sys
from pathlib import Path
sys.path[:0] = {path!r}
from session_world import opened
from sluice.session.opening import Wish
from sluice.testing.store_kit import allowed, asks, well
from sluice.values.messages import ToolMessage, UserMessage

async def main():
    opening = await opened(Path(sys.argv[1]), Wish(how=sys.argv[2]))
    s, ledger = opening.store, os.open(sys.argv[3], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    name = f"run_{{os.getpid()}}"
    await s.started(name, UserMessage("x"))
    for turn in range(1, 10**6):
        await s.reply_began(name, turn)
        words = ""
        for word in range(30):
            await s.delta(name, "text", f"{{word}} ")
            words += f"{{word}} "
        await s.append(name, asks(f"c{{turn}}", text=words))
        call = allowed(name, turn)
        await s.call_started(call)
        os.write(ledger, f"{{name}} {{turn}}\\n".encode())
        await s.call_ended(call, well())
        await s.append(name, ToolMessage(f"c{{turn}}", "look", "seen"))
        print(turn, flush=True)

asyncio.run(main())
"""


def _until_killed(path: Path, how: str, ledger: Path, after: int) -> int:
    """A process that works on the session and is killed once it has acknowledged so many turns; the last of them."""
    code = _CHILD.format(path=[str(Path(__file__).parent)])
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(path), how, str(ledger)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert child.stdout is not None
    acknowledged = 0
    with child.stdout:
        for line in child.stdout:
            acknowledged = int(line)
            if acknowledged >= after:
                break
        child.send_signal(signal.SIGKILL)
        for line in child.stdout:  # what it had said before it died
            acknowledged = int(line)
    assert child.wait() == -signal.SIGKILL
    return acknowledged


def test_a_killed_process_loses_nothing_that_was_acknowledged_and_runs_nothing_twice(tmp_path: Path) -> None:
    """D1, X1, P1: kill -9 in the middle of work, three times on one session."""
    path, ledger = tmp_path / "s.db", tmp_path / "ledger"
    said: list[int] = []
    for at, after in enumerate((3, 1, 6)):
        said.append(_until_killed(path, "continue" if at else "new", ledger, after))
    _opening, history = run(_reopened(path))
    pairs_hold(history)
    assert broken(path) == []
    runs = rows_of(path, "SELECT id FROM run ORDER BY number")
    for (name,), acknowledged in zip(runs, said, strict=True):
        ended = [row[0] for row in rows_of(path, "SELECT turn FROM call WHERE run = ? AND status = 'ok'", name)]
        assert set(range(1, acknowledged + 1)) <= set(ended)
    effects = ledger.read_text().split("\n")[:-1]
    assert len(effects) == len(set(effects)), "a call ran twice"
    started = {f"{r} {t}" for r, t in rows_of(path, "SELECT run, turn FROM call")}
    assert set(effects) <= started, "something ran whose start is not stored"


def test_an_unclean_end_is_noticed_and_the_file_is_read_through(tmp_path: Path) -> None:
    """A damaged file is not written to after a crash; S6, F2."""
    path = tmp_path / "s.db"
    _until_killed(path, "new", tmp_path / "ledger", 8)
    assert Path(f"{path}-wal").stat().st_size > 0
    run(_reopened(path))
    assert not Path(f"{path}-wal").exists()


# -- what may be sent


def _vectors(shared: Path) -> list[dict[str, Any]]:
    lines = (shared / "vectors" / "sessions" / "transcripts.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def _messages(vector: dict[str, Any]) -> list[Any]:
    """The messages of a vector in our words."""
    from sluice.values.messages import ImagePart, Reasoning, TextPart, ToolCall

    made: list[Any] = []
    for message in vector["messages"]:
        blocks = message.get("content", [])
        if message.get("role") == "assistant":
            calls = [b for b in blocks if b["type"] == "tool_use"]
            texts = [b["text"] for b in blocks if b["type"] == "text"]
            made.append(
                AssistantMessage(
                    content="".join(texts) if texts else None,
                    reasoning=tuple(Reasoning(text=b["thinking"]) for b in blocks if b["type"] == "thinking"),
                    tool_calls=tuple(
                        ToolCall(
                            id=b["id"],
                            name=b["name"],
                            arguments=b.get("input_json", json.dumps(b.get("input", {}))),
                            index=at,
                            status="cut" if "input_json" in b else "whole",
                        )
                        for at, b in enumerate(calls)
                    ),
                )
            )
            continue
        for b in blocks:
            if b["type"] == "tool_result":
                made.append(ToolMessage(b["tool_use_id"], "bash", b["content"], not b["is_error"]))
            else:
                piece = TextPart(b["text"]) if b["type"] == "text" else ImagePart(b["media_type"], b["data"])
                made.append(UserMessage((piece,)))
    return made


def test_every_transcript_can_be_stored_reopened_and_sent(shared: Path, tmp_path: Path) -> None:
    """However broken a transcript is: a session of it opens, its pairs hold, and every dialect can send it."""
    from sluice.values.requests import ModelOptions
    from sluice.wire.dialects import DIALECTS

    for vector in _vectors(shared):
        path = tmp_path / f"{vector['id']}.db"
        given = _messages(vector)

        async def body(path: Path = path, given: list[Any] = given) -> Conversation:
            async with store(path) as s:
                await s.started("r", UserMessage("begin"))
                for message in given:
                    try:
                        await s.append("r", message)
                    except StoreError as error:
                        assert error.kind == "refused"  # noqa: PT017
            return (await _reopened(path))[1]

        history = run(body())
        pairs_hold(history)
        assert [b for b in broken(path) if b.promise != "P1" or "at its end" in b.words] == []
        assert pairs_hold(paired(given)) is None
        for dialect in DIALECTS.values():
            for conversation in (history, paired((UserMessage("begin"), *given))):
                dialect.request(conversation, (), ModelOptions(model="m"))


def test_orphans_are_dropped_from_what_is_sent_and_not_from_the_store(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def body() -> None:
        async with store(path) as s:
            await s.started("r", UserMessage("x"))
            await s.append("r", asks("a"))
            await s.append("r", ToolMessage("a", "look", "seen"))
            await s.append("r", AssistantMessage(content="done"))
            await s.finished("r", "completed")

    run(body())
    with tampered(path) as connection:
        connection.execute("DELETE FROM message WHERE seq = 2")
        connection.execute("DELETE FROM part WHERE seq = 2")
    _opening, history = run(_reopened(path))
    assert history == (UserMessage("x"), AssistantMessage(content="done"))
    assert rows_of(path, "SELECT count(*) FROM part WHERE kind = 'result'") == [(1,)]


def test_a_missing_result_is_put_into_what_is_sent(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def body() -> None:
        async with store(path) as s:
            await s.started("r", UserMessage("x"))
            await s.append("r", asks("a", "b"))
            await s.append("r", ToolMessage("a", "look", "1"))
            await s.append("r", ToolMessage("b", "look", "2"))
            await s.finished("r", "completed")

    run(body())
    with tampered(path) as connection:
        connection.execute("DELETE FROM message WHERE seq = 3")
        connection.execute("DELETE FROM part WHERE seq = 3")
    _opening, history = run(_reopened(path))
    pairs_hold(history)
    assert "unknown_outcome" in str(history[2])


def test_a_lock_dies_with_its_holder(tmp_path: Path) -> None:
    """O1: the file that a dead process leaves behind locks nothing, whatever it says."""
    path = tmp_path / "s.db"
    _until_killed(path, "new", tmp_path / "ledger", 1)
    left = list(Path(f"{path}.locks").iterdir())
    assert len(left) == 1
    left[0].write_text(json.dumps({"pid": os.getpid()}))
    asyncio.run(_reopened(path))
    assert list(Path(f"{path}.locks").iterdir()) == []


@pytest.mark.parametrize("saved", [None, False, True])
def test_a_run_that_ended_with_results_unstored_gets_them_and_keeps_its_end(saved: bool | None, tmp_path: Path) -> None:
    """A disk that was full for a while: the results found no room, the end of the run did. That breaks no promise, but
    where the run said that all of it was kept."""
    path = tmp_path / "s.db"

    async def body() -> tuple[Opening, Conversation]:
        async with store(path) as s:
            await s.started("r", UserMessage("x"))
            await s.reply_began("r", 1)
            await s.append("r", asks("a", "b"))
            await s.call_started(allowed("r", position=0))
            await s.finished("r", "failed")
            if saved is not None:
                await s.noted("r", end_told("r", saved=saved))
        assert {b.promise for b in broken(path)} == ({"P1", "C1"} if saved else set())
        return await _reopened(path)

    opening, history = run(body())
    assert [m.content for m in history if isinstance(m, ToolMessage)] == [UNKNOWN, NOT_STARTED]
    (found,) = opening.recovered
    assert found.ended
    assert "ended" in found.words()
    assert rows_of(path, "SELECT outcome FROM run") == [("failed",)]
    assert broken(path) == []
    assert run(_reopened(path))[0].recovered == ()


def test_what_a_full_disk_left_open_is_made_right_by_the_next_run_of_the_same_process(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def body() -> Conversation:
        async with store(path) as s:
            await s.started("r", UserMessage("x"))
            await s.append("r", asks("a", "b"))
            await s.call_started(allowed("r", position=0))
            await s.finished("r", "failed")
            await s.started("q", UserMessage("again"))
            await s.finished("q", "completed")
            return await s.history()

    history = run(body())
    assert [m.content for m in history if isinstance(m, ToolMessage)] == [UNKNOWN, NOT_STARTED]
    assert history[-1] == UserMessage("again")
    assert broken(path) == []


def test_a_reply_of_which_a_delta_was_refused_is_not_held_to_its_deltas(tmp_path: Path) -> None:
    """D3 speaks of what was told and stored; after a failure the message itself is what counts."""
    path = tmp_path / "s.db"

    async def body() -> Conversation:
        async with store(path) as s:
            await s.started("r", UserMessage("x"))
            await s.reply_began("r", 1)
            await s.delta("r", "text", "a")
            s._arriving._failure = StoreError("full", "the disk is full")
            with pytest.raises(StoreError):
                await s.delta("r", "text", "b")
            await s.append("r", AssistantMessage(content="ab"))
            await s.reply_began("r", 2)
            await s.delta("r", "text", "whole again")
            await s.append("r", AssistantMessage(content="whole again"))
            await s.finished("r", "completed")
            return await s.history()

    assert [m.content for m in run(body())] == ["x", "ab", "whole again"]
    assert broken(path) == []
    assert rows_of(path, "SELECT told_crc IS NULL FROM message WHERE role = 'assistant' ORDER BY seq") == [(1,), (0,)]


def test_a_run_that_died_is_told_to_have_ended_once(tmp_path: Path) -> None:
    """L9: the notice that the dead process could not give is kept with the run when its session is opened."""
    path = tmp_path / "s.db"

    async def body() -> None:
        async with store(path) as s:
            await s.started("r", UserMessage("x"))
            await s.reply_began("r", 1)
            await s.delta("r", "text", "half an ans")

    run(body())
    for _ in range(3):
        run(_reopened(path))
    told = [json.loads(body) for (body,) in rows_of(path, "SELECT body FROM notice WHERE run = 'r' ORDER BY number")]
    ends = [one for one in told if one["type"] == "run_finished"]
    assert [(one["outcome"], one["text"], one["turns"], one["saved"]) for one in ends] == [
        ("interrupted", "half an ans", 1, True)
    ]
    assert told[-1] is ends[0]


@pytest.mark.parametrize("counted", [True, False])
def test_a_reply_that_was_arriving_is_counted_as_estimated_and_its_price_is_not_known(
    counted: bool, tmp_path: Path
) -> None:
    path = tmp_path / "s.db"

    async def body() -> None:
        async with store(path) as s:
            await s.started("r", UserMessage("x" * 400))
            if counted:
                await s.reply_began("r", 1)
                await s.append("r", asks("a"))
                used = Usage(input_tokens=1000, output_tokens=50)
                await s.noted("r", TurnFinished(turn=1, stop_reason="tool_use", usage=used, cost=0.5))
                await s.append("r", ToolMessage("a", "look", "x"))
            await s.reply_began("r", 2)
            await s.delta("r", "reasoning", "think" * 20)
            await s.delta("r", "text", "words" * 20)
            await s.delta("r", "call", "write_file")
        for _ in range(2):
            await _reopened(path)

    run(body())
    found = [json.loads(one) for (one,) in rows_of(path, "SELECT usage FROM usage WHERE cost IS NULL")]
    assert found == [{"input_tokens": 1050 if counted else 100, "output_tokens": 50, "estimated": True}]
    assert rows_of(path, "SELECT turn FROM usage ORDER BY number") == ([(1,), (2,)] if counted else [(2,)])
    (said,) = [json.loads(one) for (one,) in rows_of(path, "SELECT body FROM notice")]
    assert said["usage"]["output_tokens"] == (100 if counted else 50)
    assert broken(path) == []


def test_a_reply_of_which_nothing_had_arrived_is_not_counted(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def body() -> None:
        async with store(path) as s:
            await s.started("r", UserMessage("x"))
            await s.reply_began("r", 1)
        await _reopened(path)

    run(body())
    assert rows_of(path, "SELECT * FROM usage") == []


def test_of_reasoning_alone_what_it_used_counts_beside_the_replies(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def body() -> None:
        async with store(path) as s:
            await s.started("r", UserMessage("x" * 400))
            await s.reply_began("r", 1)
            await s.delta("r", "reasoning", "think" * 20)
        await _reopened(path)

    run(body())
    assert rows_of(path, "SELECT turn, cost FROM usage") == [(-1, None)]
