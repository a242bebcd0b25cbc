"""The ground of the fault driver: stores to do harm to, agents that work on them, and the judging of what came of it."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from sluice.errors import StoreError
from sluice.run.parts import RandomIds
from sluice.run.result_text import result_text
from sluice.session.check import check
from sluice.session.disk import reading
from sluice.session.opening import open_session
from sluice.session.wish import Wish
from sluice.testing.fault_agent import PROJECT, Ended, Job
from sluice.testing.fault_figures import Figures
from sluice.testing.fault_provider import Provider
from sluice.testing.fault_witnesses import acknowledged, changes, effects, sessions_of

RUNS_A_STORE = 20  # faults that one store takes before a new one is begun


class Harness:
    """What does harm gets its stores and agents here, and asks here what came of it.

    `folder` is an empty private folder for stores; `seed` makes the moments the same again.
    """

    def __init__(self, folder: Path, provider: Provider, seed: int = 0) -> None:
        self.figures = Figures()
        self.folder, self.provider = folder, provider
        self.dice = random.Random(seed)  # noqa: S311 - moments, no secrets
        self._stores = 0
        self._uses = RUNS_A_STORE
        self.run_seconds = 0.3
        self._agents = subprocess.Popen(
            [sys.executable, "-m", "sluice.testing.fault_agent"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "TMPDIR": str(folder)},  # what a killed agent leaves there goes with the folder
        )

    def close(self) -> None:
        """Ends the process that starts the agents."""
        with self._agents as agents:
            if agents.stdin is not None:
                agents.stdin.close()

    # -- stores and agents

    def store(self, *, fresh: bool = False, folder: Path | None = None) -> Path:
        """The store that the next fault is done to; a `fresh` one is not there yet, and is for its caller alone."""
        if fresh:
            return self._made(folder or self.folder)
        self._uses += 1
        if self._uses > RUNS_A_STORE:
            self._uses = 0
            self._now = self._made(self.folder)
            self.run_seconds = self.agents(self.job(self._now))[0].seconds
        return self._now

    def _made(self, folder: Path) -> Path:
        self._stores += 1
        where = folder / f"s{self._stores}"
        where.mkdir(mode=0o700)
        return where / "sessions.db"

    def files(self, store: Path) -> tuple[Path, Path, Path, Path]:
        """What the agents of a store leave beside it: acknowledgements, ledger, workspace, state folder."""
        base = self._base(store)  # never on the disk that fills up
        return Path(f"{base}.acks"), Path(f"{base}.ledger"), Path(f"{base}.work"), Path(f"{base}.state")

    def _base(self, store: Path) -> Path:
        return self.folder / store.relative_to(self.folder).parts[0]

    def forget(self, store: Path) -> None:
        """Removes a store that is wanted no more, and what lies beside it."""
        for path in (self._base(store), *self.files(store)):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    def job(self, store: Path, **more: object) -> Job:
        """One agent on this store."""
        acks, ledger, _work, _state = self.files(store)
        plain = {"store": str(store), "url": self.provider.url, "ledger": str(ledger), "acks": str(acks)}
        return msgspec.convert({**plain, **more}, Job)

    def agents(self, *jobs: Job) -> list[Ended]:
        """Runs agents side by side; returns how they ended."""
        agents = self._agents
        if agents.stdin is None or agents.stdout is None:
            raise RuntimeError("the agents have no pipes")
        agents.stdin.write(msgspec.json.encode(jobs) + b"\n")
        agents.stdin.flush()
        return msgspec.json.decode(agents.stdout.readline(), type=list[Ended])

    # -- judging

    def broken(self, name: str, words: str) -> None:
        """Notes a promise that did not hold."""
        self.figures.faults.append(f"{name} #{self.figures.injected[name]}: {words}")

    def _recovered(self, name: str, store: Path) -> None:
        """Opens every session once, as a user would; notes the worst time."""
        log = Path(f"{store}-wal")
        if log.exists():
            self.figures.log_bytes = max(self.figures.log_bytes, log.stat().st_size)
        for session in sessions_of(store):
            began, cpu = time.monotonic(), time.process_time()
            error = asyncio.run(opened(store, Wish(how="resume", id=session)))
            self.figures.recovery_seconds = max(self.figures.recovery_seconds, time.monotonic() - began)
            self.figures.recovery_cpu = max(self.figures.recovery_cpu, time.process_time() - cpu)
            if error:
                self.figures.bricked += 1
                self.broken(name, f"session {session} cannot be opened: {error}")

    def judge(self, name: str, store: Path, *, go_on: bool = False) -> bool:
        """Opens what there is again and asks the witnesses. `go_on`: a further run of the last session must complete."""
        before = len(self.figures.faults)
        if store.exists():
            try:
                self._judged(name, store)
            except StoreError as error:
                self.figures.bricked += 1
                self.broken(name, f"it cannot be read: {error}")
        log = Path(f"{self.job(store).ledger}.log")
        words = log.read_text("utf-8", "replace") if log.exists() else ""
        for bad in ("Traceback", "is locked"):
            if bad in words:
                self.broken(name, f"{bad!r} was shown: …{words[-900:]}")
        log.unlink(missing_ok=True)
        if go_on:
            ended = self.agents(self.job(store, wish=Wish(how="continue")))[0]
            if ended.exit_code != 0:
                self.figures.bricked += 1
                words = log.read_text("utf-8", "replace")[:400] if log.exists() else ""
                self.broken(name, f"the session cannot be gone on with: exit code {ended.exit_code} {words}")
        return len(self.figures.faults) == before

    def _judged(self, name: str, store: Path) -> None:
        with reading(store):
            pass  # whoever only reads may be the first to come
        self._recovered(name, store)
        with reading(store) as connection:
            report = check(connection, store, state=self.files(store)[3])
            for found in report.broken:
                self.broken(name, f"{found.promise} {found.where}: {found.words}")
            for session in report.unended:
                self.broken(name, f"D4 {session}: its last run has no end after the session was opened")
        self._witnessed(name, store)

    def _witnessed(self, name: str, store: Path) -> None:
        acks, ledger, work, state = self.files(store)
        for kind, words in (*acknowledged(store, acks), *effects(store, ledger)):
            self.figures.lost += kind == "lost"
            self.figures.twice += kind == "twice"
            self.broken(name, words)
        for words in changes(store, work, state):
            self.broken(name, words)

    def count(self, name: str, survived: bool) -> None:
        """Counts a fault that was survived, or not."""
        self.figures.survived[name] += survived


async def opened(store: Path, wish: Wish) -> str:
    """Opens and closes a session as a user's next command does; returns why not, or nothing."""
    try:
        opening = await open_session(store, PROJECT, wish, new_id=lambda: RandomIds().new("ses"), words=result_text)
        try:
            await opening.store.history()
        finally:
            await opening.store.close()
    except StoreError as error:
        return str(error)
    return ""
