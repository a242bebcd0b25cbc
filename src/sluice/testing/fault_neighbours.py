"""The classes of faults that come from other processes: one that stands still while it holds a session, one that reads for
long."""

from __future__ import annotations

import os
from pathlib import Path

from sluice.session.catalog import lock_folder
from sluice.session.disk import open_reading
from sluice.session.wish import Wish
from sluice.testing.fault_agent import REFUSED
from sluice.testing.fault_harness import Harness
from sluice.testing.fault_witnesses import sessions_of

MOST_LOG_BYTES = 64 * 2**20
_PROMPTS = 12  # while somebody reads


def stopped(driver: Harness) -> None:
    """The process that holds a session is stopped for a while: others are told so, or wait; nobody takes it from it.

    Before that, its lock file names a process that lives and has nothing to do with it: that locks nothing.
    """
    store, name = driver.store(fresh=True), "stopped"
    driver.figures.injected[name] += 1
    good = driver.agents(driver.job(store))[0].exit_code == 0
    (session,) = sessions_of(store)
    (lock_folder(store) / f"{session}.lock").write_text(f'{{"pid": {os.getpid()}, "since": 1}}')
    moment = driver.dice.uniform(0.0, driver.run_seconds)
    jobs = [
        driver.job(store, wish=Wish(how="continue"), pause=moment, pause_seconds=0.6),
        driver.job(store, wish=Wish(how="resume", id=session), delay=moment + 0.05),
        driver.job(store, wish=Wish(how="new"), delay=moment + 0.05),
    ]
    first, second, third = driver.agents(*jobs)
    said = Path(f"{jobs[0].ledger}.log").read_text("utf-8", "replace")
    # The second may begin before the first has its lock, or after it is done; the third has a session of its own.
    for ended, allowed in ((first, (0, REFUSED)), (second, (0, REFUSED)), (third, (0,))):
        if ended.exit_code not in allowed:
            good = False
            driver.broken(name, f"exit code {ended.exit_code} after {ended.seconds:.1f} s: {said[-300:]}")
    if REFUSED in (first.exit_code, second.exit_code):
        driver.figures.refused += 1
        # One that was stopped before it could write down who it is, is "another process".
        if "is in use by" not in said or f"process {os.getpid()}" in said:
            good = False
            driver.broken(name, f"it was not said who holds the session: {said[-300:]}")
    if first.exit_code == REFUSED == second.exit_code:
        good = False
        driver.broken(name, "both were refused")
    driver.count(name, driver.judge(name, store, go_on=True) and good)
    driver.forget(store)


def reader(driver: Harness) -> None:
    """Another program reads one moment of a store for long: the agent goes on, and the log stays bounded."""
    store, name = driver.store(fresh=True), "reader"
    driver.figures.injected[name] += 1
    good = driver.agents(driver.job(store))[0].exit_code == 0
    log = Path(f"{store}-wal")
    connection = open_reading(store)
    try:
        connection.execute("BEGIN")
        seen = connection.execute("SELECT count(*) FROM message").fetchone()
        ended = driver.agents(driver.job(store, wish=Wish(how="continue"), prompts=_PROMPTS, log_pages=64))[0]
        size = log.stat().st_size
        driver.figures.log_bytes = max(driver.figures.log_bytes, size)
        if connection.execute("SELECT count(*) FROM message").fetchone() != seen:
            good = False
            driver.broken(name, "what the reader sees changed")
    finally:
        connection.close()
    if ended.exit_code != 0 or size > MOST_LOG_BYTES:
        good = False
        driver.broken(name, f"exit code {ended.exit_code} after {ended.seconds:.1f} s, log of {size} bytes")
    survived = driver.judge(name, store, go_on=True)
    if log.exists() and log.stat().st_size:
        good = False
        driver.broken(name, f"the reader is gone, and the log still has {log.stat().st_size} bytes")
    driver.count(name, survived and good)
    driver.forget(store)
