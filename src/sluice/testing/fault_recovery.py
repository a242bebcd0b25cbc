"""The classes of faults around recovery: killed at each edge of a run, and again and again while that is made right."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from sluice.errors import StoreError
from sluice.session.disk import reading
from sluice.session.wish import Wish
from sluice.testing.fault_calls import Scripts
from sluice.testing.fault_harness import Harness, opened

EDGES = {  # the notice at which it dies: what its run is then, once it is opened again
    "run_started": "interrupted",
    "turn_started": "interrupted",
    "text": "interrupted",
    "call_intended": "interrupted",
    "call_arrived": "interrupted",
    "call_judged": "interrupted",
    "call_started": "interrupted",
    "call_finished": "interrupted",
    "turn_finished": "interrupted",
    "run_finished": "completed",
}
_TABLES = {
    "message": "SELECT session, seq, run, turn, role, state, head, first_chunk, next_chunk, told_crc FROM message "
    "ORDER BY session, seq",
    "part": "SELECT session, seq, position, kind, body, answers_seq, answers_position FROM part ORDER BY 1, 2, 3",
    "call": "SELECT run, turn, position, digest, status, result FROM call ORDER BY 1, 2, 3",
    "run": "SELECT id, number, outcome, chunks FROM run ORDER BY session, number",
    "notice": "SELECT run, number, body FROM notice ORDER BY 1, 2",
    "chunk": "SELECT run, seq, kind, body FROM chunk ORDER BY 1, 2",
}
_LATEST_KILL = 0.03  # seconds: by then a session that is only opened is open


def edge(driver: Harness) -> None:
    """The agent dies at the first notice of some kind: what is stored is what that notice said."""
    store, name = driver.store(fresh=True), "edge"
    at = tuple(EDGES)[driver.figures.injected[name] % len(EDGES)]
    driver.figures.injected[name] += 1
    before = len(driver.figures.faults)
    if driver.dice.random() < 0.5:
        driver.agents(driver.job(store))
    ended = driver.agents(driver.job(store, wish=Wish(how="continue"), dies_at=at))[0]
    if not ended.killed:
        driver.broken(name, f"it did not come to {at}: exit code {ended.exit_code}")
    driver.judge(name, store)
    rows = _rows(store)
    run, _number, outcome, _chunks = rows["run"][-1]
    if outcome != EDGES[at]:
        driver.broken(name, f"it died at {at}, and its run is {outcome}")
    started = sum(row[0] == run for row in rows["call"])
    if at in ("run_started", "turn_started", "text", "call_intended", "call_arrived", "call_judged") and started:
        driver.broken(name, f"it died at {at}, and {started} calls have a start")
    if at in ("call_started", "call_finished") and not started:
        driver.broken(name, f"it died at {at}, and no call has a start")
    driver.count(name, driver.judge(name, store, go_on=True) and len(driver.figures.faults) == before)
    driver.forget(store)


def recovery(driver: Harness, scripts: Scripts) -> None:
    """An agent dies, and so do up to five that open its session; then it is what it is without those five deaths.

    Opening it once more changes nothing.
    """
    store, name = scripts.copy("recover"), "recovery"
    driver.figures.injected[name] += 1
    before = len(driver.figures.faults)
    twin = driver.store(fresh=True)
    shutil.copytree(store.parent, twin.parent, dirs_exist_ok=True)
    expected = _opened(driver, name, twin)
    for _ in range(driver.dice.randint(1, 5)):
        how: dict[str, object] = {"kill_after": driver.dice.uniform(0.0, _LATEST_KILL)}
        if not scripts.missing and driver.dice.random() < 0.6:
            how = {"strace": scripts.killing_one(store), "kill_after": 30.0}
        ended = driver.agents(driver.job(store, wish=Wish(how="continue"), prompts=0, **how))[0]
        driver.figures.recoveries += ended.killed
    for time in ("five deaths", "the next opening"):
        found = _opened(driver, name, store)
        for table, rows in expected.items():
            if found.get(table) != rows:
                driver.broken(name, f"after {time} {table} is {found.get(table)}, and {rows} without them")
    driver.count(name, driver.judge(name, store, go_on=True) and len(driver.figures.faults) == before)
    driver.forget(store)
    driver.forget(twin)


def _opened(driver: Harness, name: str, store: Path) -> dict[str, list[tuple[object, ...]]]:
    error = asyncio.run(opened(store, Wish(how="continue")))
    if error:
        driver.figures.bricked += 1
        driver.broken(name, f"it cannot be opened: {error}")
    return _rows(store)


def _rows(store: Path) -> dict[str, list[tuple[object, ...]]]:
    """All that is stored of runs and messages, but for moments."""
    try:
        with reading(store) as connection:
            return {table: connection.execute(query).fetchall() for table, query in _TABLES.items()}
    except StoreError as error:
        return {"run": [("", 0, str(error), 0)], "call": []}
