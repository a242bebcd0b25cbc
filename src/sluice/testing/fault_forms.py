"""The classes of faults that come from outside the program: clocks that jump, stores of other versions, odd transcripts."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from sluice.errors import StoreError
from sluice.run.parts import RandomIds
from sluice.run.result_text import result_text
from sluice.session.catalog import listed
from sluice.session.check import check
from sluice.session.database import Database
from sluice.session.disk import VERSION, reading
from sluice.session.opening import open_session
from sluice.session.wish import Wish
from sluice.testing.fault_agent import FAULTY, PROJECT, REFUSED
from sluice.testing.fault_harness import Harness
from sluice.values.messages import AssistantMessage, ImagePart, Reasoning, TextPart, ToolCall, ToolMessage, UserMessage

_MADE_IN = {
    2: "DROP TABLE shrunk",
    3: "DROP INDEX open_message",
    4: "DROP INDEX message_by_run",
    5: "ALTER TABLE preimage DROP COLUMN workspace; ALTER TABLE preimage DROP COLUMN undone",
}  # version of the schema: what takes it back to the one before
_VERSION_AT = 60  # of the file: where SQLite keeps the version, four bytes


def clock(driver: Harness) -> None:
    """The time of day jumps while agents run, by up to a year either way, and one of them sleeps for a while."""
    store = driver.store(fresh=True)
    driver.figures.injected["clock"] += 1
    good = True
    for _ in range(3):
        pause = driver.dice.uniform(0.0, driver.run_seconds) if driver.dice.random() < 0.5 else None
        job = driver.job(
            store, wish=Wish(how="continue"), jumps=driver.dice.randrange(2**31), pause=pause, kill_after=30.0
        )
        ended = driver.agents(job)[0]
        if ended.exit_code != 0:
            good = False
            driver.broken("clock", f"exit code {ended.exit_code} after {ended.seconds:.1f} s")
    with reading(store) as connection:
        (found,) = listed(connection, store)  # three runs of one session, whatever the clock said
    if found.runs != 3:
        good = False
        driver.broken("clock", f"the session that was used last has {found.runs} runs of 3")
    driver.count("clock", driver.judge("clock", store) and good)


def schema(driver: Harness) -> None:
    """A store of an earlier version goes on; one of a later version is refused in words, can be read, and stays as it is."""
    store = driver.store(fresh=True)
    driver.agents(driver.job(store))
    driver.figures.injected["schema"] += 1
    old = driver.dice.random() < 0.5
    to = driver.dice.randrange(1, VERSION) if old else VERSION + driver.dice.randint(1, 2**20)
    if old:
        _older(store, to)
        good = driver.agents(driver.job(store, wish=Wish(how="continue")))[0].exit_code == 0
        if not good:
            driver.broken("schema", f"a store of schema {to} cannot be gone on with")
        driver.count("schema", driver.judge("schema", store, go_on=True) and good)
        return
    data = bytearray(store.read_bytes())
    data[_VERSION_AT : _VERSION_AT + 4] = to.to_bytes(4, "big")
    store.write_bytes(data)
    ended = driver.agents(driver.job(store, wish=Wish(how="continue")))[0]
    with reading(store) as connection:
        found = list(listed(connection, store))
        said = {broken.promise for broken in check(connection, store).broken}
    good = ended.exit_code == REFUSED and len(found) == 1 and said == {"F2"} and store.read_bytes() == data
    if not good:
        driver.broken("schema", f"schema {to}: exit code {ended.exit_code}, {len(found)} sessions, {sorted(said)}")
    driver.count("schema", good)


HARM = ("500", "529", "429", "cut", "reset", "garbage", "empty", "html")  # to an answer that comes after a result


def retry(driver: Harness) -> None:
    """The provider fails when tools have run and their results are sent: nothing runs again, however often it is asked."""
    store, dice, name = driver.store(fresh=True), driver.dice, "retry"
    driver.figures.injected[name] += 1
    driver.provider.harm = [dice.choice(HARM) for _ in range(dice.randint(1, 4))]
    words, harm = ", ".join(driver.provider.harm), len(driver.provider.harm)
    ended = driver.agents(driver.job(store, wish=Wish(how="new")))[0]
    good = ended.exit_code not in (FAULTY, -9) and len(driver.provider.harm) < harm
    driver.provider.harm = []
    if not good:
        driver.broken(name, f"{words}: exit code {ended.exit_code} after {ended.seconds:.1f} s")
    driver.count(name, driver.judge(name, store, go_on=True) and good)
    driver.forget(store)


def _older(store: Path, version: int) -> None:
    database = Database(store)
    try:
        for number in range(VERSION, version, -1):
            for step in _MADE_IN[number].split("; "):
                database.write_now(lambda connection, step=step: connection.execute(step) and None)  # type: ignore[misc]
        database.write_now(lambda connection: connection.execute(f"PRAGMA user_version = {version}") and None)
        database.write_now(
            lambda connection: connection.execute("DELETE FROM migration WHERE version > ?", (version,)) and None
        )
    finally:
        database.close()


# -- transcripts that others found their sessions broken by


def transcripts() -> list[dict[str, Any]]:
    """The shared vectors with messages; empty where they are not beside the checkout (see `SLUICE_SHARED`)."""
    shared = Path(os.environ.get("SLUICE_SHARED", "../shared"))
    path = shared / "vectors" / "sessions" / "transcripts.jsonl"
    if not path.is_file():
        return []
    return [v for v in map(json.loads, path.read_text("utf-8").splitlines()) if v.get("messages")]


def messages(vector: dict[str, Any]) -> list[AssistantMessage | ToolMessage | UserMessage]:
    """The messages of a vector in our words."""
    made: list[AssistantMessage | ToolMessage | UserMessage] = []
    for message in vector["messages"]:
        blocks = message.get("content", [])
        if message.get("role") == "assistant":
            made.append(_assistant(blocks))
            continue
        for block in blocks:
            if block["type"] == "tool_result":
                made.append(ToolMessage(block["tool_use_id"], "bash", block["content"], not block["is_error"]))
            elif block["type"] == "text":
                made.append(UserMessage((TextPart(block["text"]),)))
            else:
                made.append(UserMessage((ImagePart(block["media_type"], block["data"]),)))
    return made


def _assistant(blocks: list[dict[str, Any]]) -> AssistantMessage:
    texts = [block["text"] for block in blocks if block["type"] == "text"]
    calls = [
        ToolCall(
            id=block["id"],
            name=block["name"],
            arguments=block.get("input_json", json.dumps(block.get("input", {}))),
            index=at,
            status="cut" if "input_json" in block else "whole",
        )
        for at, block in enumerate(block for block in blocks if block["type"] == "tool_use")
    ]
    thoughts = (Reasoning(text=block["thinking"]) for block in blocks if block["type"] == "thinking")
    return AssistantMessage(
        content="".join(texts) if texts else None, reasoning=tuple(thoughts), tool_calls=tuple(calls)
    )


async def _kept(store: Path, given: list[AssistantMessage | ToolMessage | UserMessage]) -> None:
    """A session whose process died after all that could be stored of a transcript was."""
    opening = await open_session(store, PROJECT, Wish(), new_id=lambda: RandomIds().new("ses"), words=result_text)
    try:
        await opening.store.started("odd", UserMessage("begin"))
        for message in given:
            try:
                await opening.store.append("odd", message)
            except StoreError as error:
                if error.kind != "refused":
                    raise
    finally:
        await opening.store.close()


def transcript(driver: Harness) -> None:
    """A transcript that broke others' sessions is stored, and the session gone on with, twice."""
    vectors = transcripts()
    if not vectors:
        driver.figures.left_out["transcript"] = "the shared transcripts are not there; SLUICE_SHARED names their folder"
        return
    at = driver.figures.injected["transcript"]
    vector = vectors[at % len(vectors)]
    driver.figures.injected["transcript"] += 1
    store = driver.store(fresh=True)
    asyncio.run(_kept(store, messages(vector)))
    good = True
    for _ in range(2):
        ended = driver.agents(driver.job(store, wish=Wish(how="continue")))[0]
        if ended.exit_code != 0:
            good = False
            driver.figures.bricked += 1
            driver.broken("transcript", f"{vector['id']} {vector['name']}: exit code {ended.exit_code}")
    with reading(store) as connection:
        for found in check(connection, store).broken:
            if found.promise != "P1":  # what was put in is what is wrong with it; it is made right when it is sent
                good = False
                driver.broken("transcript", f"{vector['id']}: {found.promise} {found.where}: {found.words}")
    driver.count("transcript", good)
