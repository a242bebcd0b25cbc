"""The classes of faults at system calls: killed at each of them, and each of them failing. Seven scripts.

A script is what an agent does from a certain state of a store on. Each fault begins with a copy of that state. The calls of
a script are counted once for each group of files; then one is chosen, or every one is taken in turn.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from sluice.session.catalog import lock_folder
from sluice.session.disk import reading
from sluice.session.wish import Wish
from sluice.testing.fault_agent import FAULTY, Job
from sluice.testing.fault_harness import Harness
from sluice.testing.fault_provider import NOTE
from sluice.testing.fault_strace import ERRORS, KILLED, counted, counting, failing, killing, missing

SCRIPTS = ("begin", "go on", "two prompts", "recover", "fork", "change", "take up")
_GROUPS = ("store", "beside")


class Point(NamedTuple):
    """One system call of a script: which files, which kind of call, the how-manieth."""

    script: str
    group: str
    call: str
    number: int


class Scripts:
    """The seven scripts over one driver, with a state to begin each from."""

    def __init__(self, driver: Harness) -> None:
        self._driver = driver
        self._bases: dict[str, Path] = {}
        self._points: dict[str, list[Point]] = {}
        self._counts: dict[tuple[str, str, str], int] = {}
        self.missing = missing()

    def _base(self, script: str) -> Path:
        """The folder of the store that the script begins with: made by runs of the same agent."""
        if script not in self._bases:
            driver = self._driver
            store = driver.store(fresh=True)
            if script == "recover":
                driver.agents(driver.job(store))
                driver.agents(driver.job(store, wish=Wish(how="continue"), kill_after=driver.run_seconds * 0.6))
            elif script == "take up":
                driver.agents(driver.job(store, person="dies"))
            elif script == "change":
                driver.agents(self.job(store, script, how="new"))
            elif script != "begin":
                driver.agents(driver.job(store))
            self._bases[script] = store
        return self._bases[script]

    def copy(self, script: str) -> Path:
        """A new store with all beside it, as the script begins with it."""
        base = self._base(script)
        store = self._driver.store(fresh=True)
        shutil.copytree(base.parent, store.parent, dirs_exist_ok=True)
        theirs, ours = self._driver.files(base), self._driver.files(store)
        for source, target in zip(theirs, ours, strict=True):
            if source.is_dir():
                shutil.copytree(source, target)
            elif source.exists():
                shutil.copy(source, target)
        return store

    def job(self, store: Path, script: str, how: str = "", **more: object) -> Job:
        """The agent of the script; `how` is `new` for one that begins a session."""
        if script == "change":
            _acks, _ledger, work, state = self._driver.files(store)
            work.mkdir(exist_ok=True)
            more = {"folder": str(work), "state": str(state), **more}
        if script == "take up":
            more = {"person": "yes", **more}
        if script == "fork":
            with reading(store) as connection:
                (session,) = connection.execute("SELECT id FROM session ORDER BY last DESC LIMIT 1").fetchone()
            wish = Wish(how="fork", id=str(session))
        else:
            wish = Wish(how="new" if script == "begin" or how == "new" else "continue")
        prompts = 2 if script == "two prompts" else 1
        return self._driver.job(store, **{"wish": wish, "prompts": prompts, **more})

    def _watched(self, store: Path, group: str) -> list[str]:
        acks, ledger, work, state = self._driver.files(store)
        if group == "store":
            endings = ("", "-wal", "-shm", "-journal", ".users", ".turn", ".locks")
            return [str(store.parent), *(f"{store}{end}" for end in endings), str(lock_folder(store))]
        beside = [
            acks,
            ledger,
            Path(f"{store}.audit"),
            work,
            work / NOTE,
            state,
            state / "blobs",
            state / "changes.jsonl",
        ]
        return [str(path) for path in beside]

    def points(self, script: str) -> list[Point]:
        """Every system call of the script at which it can be killed, as counted in one run of it."""
        if script not in self._points:
            found: list[Point] = []
            for group in _GROUPS:
                made = self._made(script, group)
                found += [
                    Point(script, group, call, number) for call in KILLED for number in range(1, made.get(call, 0) + 1)
                ]
            self._points[script] = found
        return self._points[script]

    def _made(self, script: str, group: str) -> dict[str, int]:
        store = self.copy(script)
        log = store.parent / "calls.txt"
        wanted = [*KILLED, "openat", "pread64"]
        self._driver.agents(self.job(store, script, strace=counting(self._watched(store, group), log, wanted)))
        made = counted(log)
        self._counts.update({(script, group, call): count for call, count in made.items()})
        return dict(made)

    def kill(self, point: Point) -> None:
        """The agent dies just before this call; the session must come back as after any other death."""
        driver, name = self._driver, "system call"
        store = self.copy(point.script)
        driver.figures.injected[name] += 1
        words = killing(self._watched(store, point.group), point.call, point.number)
        ended = driver.agents(self.job(store, point.script, strace=words, kill_after=30.0))[0]
        met = ended.killed and ended.seconds < 30
        driver.figures.points[point.script] = driver.figures.points.get(point.script, 0) + met
        good = met or ended.exit_code == 0  # a run has a few calls more or less each time
        if not good:
            driver.broken(name, f"{point}: exit code {ended.exit_code} after {ended.seconds:.1f} s")
        driver.count(name, driver.judge(name, store, go_on=driver.dice.random() < 0.25) and good)
        driver.forget(store)

    def fail(self) -> None:
        """One call, or that one and all after it, fail with an error; the agent must end in words."""
        driver, dice, name = self._driver, self._driver.dice, "errno"
        script, group = dice.choice(SCRIPTS), dice.choice(("store", "store", "beside"))
        error = dice.choice(tuple(ERRORS))
        call = dice.choice(ERRORS[error])
        self.points(script)
        number = dice.randint(1, max(self._counts.get((script, group, call), 1), 1))
        for_good = dice.random() < 0.4 and error != "EINTR"
        store = self.copy(script)
        driver.figures.injected[name] += 1
        watch = self._watched(store, group)
        if group == "beside":  # what the driver itself writes is no part of the agent
            watch = watch[2:]
        words = failing(watch, call, error, number, for_good=for_good)
        ended = driver.agents(self.job(store, script, strace=words, kill_after=45.0))[0]
        good = ended.exit_code not in (FAULTY, -9)
        if not good:
            driver.broken(name, f"{script} {group} {error} at {call} {number}: exit code {ended.exit_code}")
        driver.count(name, driver.judge(name, store, go_on=True) and good)
        driver.forget(store)

    def killing_one(self, store: Path) -> tuple[str, ...]:
        """The words for strace that kill whoever opens this store, at one of the calls that may come."""
        call = self._driver.dice.choice(("pwrite64", "fdatasync", "write", "unlink", "ftruncate"))
        return killing(self._watched(store, "store"), call, self._driver.dice.randint(1, 12))

    def any_kill(self) -> None:
        """A kill at one call of one script, by chance."""
        self.kill(self._driver.dice.choice(self.points(self._driver.dice.choice(SCRIPTS))))

    def every(self) -> Iterator[Point]:
        """All calls of all scripts."""
        for script in SCRIPTS:
            yield from self.points(script)
