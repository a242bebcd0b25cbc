"""What a reply used whose process died: estimated from the size of its request, which is there before its first delta."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from session_world import broken, killed, opened, rows_of, run, tampered

from sluice.session.opening import Wish
from sluice.values.messages import UserMessage


def died(path: Path, sent: int, told: str) -> None:
    async def body() -> None:
        s = (await opened(path, Wish())).store
        await s.started("r", UserMessage("x" * 400))
        await s.reply_began("r", 1, sent)
        if told:
            await s.delta("r", "text", told)
        await killed(s)

    run(body())


async def reopened(path: Path) -> None:
    await (await opened(path, Wish(how="continue"))).store.close()


def counted(path: Path) -> list[dict[str, object]]:
    for _ in range(2):
        run(reopened(path))
    assert broken(path) == []
    return [json.loads(one) for (one,) in rows_of(path, "SELECT usage FROM usage")]


@pytest.mark.parametrize(("told", "tokens"), [("", 0), ("words" * 20, 25)])
def test_the_first_reply_counts_all_that_was_sent(told: str, tokens: int, tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    died(path, 24_000, told)
    (usage,) = counted(path)
    assert (usage["input_tokens"], usage.get("output_tokens", 0), usage["estimated"]) == (6000, tokens, True)


@pytest.mark.parametrize("head", ["{}", '{"sent":-5}', '{"sent":"many"}', '{"sent":1e99}', "rubbish"])
def test_a_size_that_is_not_told_or_damaged_is_taken_from_the_messages(head: str, tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    died(path, 24_000, "words" * 20)
    with tampered(path) as connection:
        connection.execute("UPDATE message SET head = ? WHERE state = 'open'", (head,))
    (usage,) = counted(path)
    assert usage["input_tokens"] == 100
