"""The fault driver: does harm to sessions in many ways, and counts what was lost. `make faults` runs it.

Agents run as processes of their own against a fake provider over HTTP, with a tool that writes to a ledger outside the
database. After each fault every session is opened again and judged by three witnesses: `session/check.py`, what had been
acknowledged before the fault, and the ledger. The classes of faults:

    kill         SIGKILL at a random moment of a run, and sometimes again while the session is being opened after it
    cancel       one to three Ctrl-C at random moments
    processes    two to eight agents on one store, several on one session, some of them killed
    corrupt      bytes of a store flipped, zeroed, cut off, pages exchanged, its log damaged
    full         the files of the store may grow no further at some point, or no further file may be opened
    disk         a small file system fills up (root on Linux only)
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from sluice.errors import StoreError
from sluice.run.parts import RandomIds
from sluice.run.result_text import result_text
from sluice.session.check import check
from sluice.session.disk import reading
from sluice.session.opening import open_session
from sluice.session.wish import How, Wish
from sluice.testing.fault_agent import FAULTY, PROJECT, REFUSED, Ended, Job
from sluice.testing.fault_disk import damage, small_disk
from sluice.testing.fault_provider import Provider, in_order

RUNS_A_STORE = 20  # faults that one store takes before a new one is begun
MOST_RECOVERY_SECONDS = 2.0
_SHARES = {"kill": 0.6, "cancel": 0.12, "processes": 0.04, "corrupt": 0.16, "full": 0.06, "disk": 0.02}


class Figures(msgspec.Struct, kw_only=True):
    """What was done and what came of it. `faults` are lines about promises that did not hold."""

    injected: Counter[str] = msgspec.field(default_factory=Counter)
    survived: Counter[str] = msgspec.field(default_factory=Counter)
    left_out: dict[str, str] = {}
    in_stream: int = 0  # kills that met a running agent with a run begun
    killed: int = 0
    lost: int = 0  # acknowledged deltas that were not in the store
    twice: int = 0  # calls that had their effect twice
    bricked: int = 0  # sessions that could not be gone on with
    recovery_seconds: float = 0.0
    log_bytes: int = 0
    faults: list[str] = []

    def good(self) -> bool:
        """Whether every promise held."""
        return not self.faults and not (self.lost or self.twice or self.bricked)

    def lines(self) -> list[str]:
        """The figures as lines for people."""
        out = [f"{name:<10} {self.injected[name]:>6} injected {self.survived[name]:>6} survived" for name in _SHARES]
        out += [f"{name} was left out: {why}" for name, why in self.left_out.items()]
        out += [
            f"kills that met a run at work: {self.in_stream} of {self.injected['kill']}",
            f"acknowledged deltas lost: {self.lost}",
            f"tools run twice: {self.twice}",
            f"bricked sessions: {self.bricked}",
            f"worst recovery: {self.recovery_seconds * 1000:.0f} ms",
            f"peak write-ahead log: {self.log_bytes / 2**20:.2f} MiB",
        ]
        return [*out, *(f"BROKEN {line}" for line in self.faults[:50])]


class Driver:
    """Injects faults. `folder` is an empty private folder for stores; `seed` makes the moments the same again."""

    def __init__(self, folder: Path, provider: Provider, seed: int = 0) -> None:
        self.figures = Figures()
        self._folder, self._provider = folder, provider
        self._random = random.Random(seed)  # noqa: S311 - moments, no secrets
        self._stores = 0
        self._uses = RUNS_A_STORE
        self._run_seconds = 0.3
        self._agents = subprocess.Popen(
            [sys.executable, "-m", "sluice.testing.fault_agent"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def close(self) -> None:
        """Ends the process that starts the agents."""
        with self._agents as agents:
            if agents.stdin is not None:
                agents.stdin.close()

    # -- stores and agents

    def _store(self, *, fresh: bool = False, folder: Path | None = None) -> Path:
        self._uses += 1
        if fresh or self._uses > RUNS_A_STORE:
            self._uses, self._stores = 0, self._stores + 1
            where = (folder or self._folder) / f"s{self._stores}"
            where.mkdir(mode=0o700)
            self._now = where / "sessions.db"
            if not fresh:
                self._run_seconds = self._run(self._job(self._now))[0].seconds
        return self._now

    def _job(self, store: Path, **more: object) -> Job:
        base = self._folder / f"s{self._stores}"  # the witnesses are never on the disk that fills up
        plain = {"store": str(store), "url": self._provider.url, "ledger": f"{base}.ledger", "acks": f"{base}.acks"}
        return msgspec.convert({**plain, **more}, Job)

    def _run(self, *jobs: Job) -> list[Ended]:
        agents = self._agents
        if agents.stdin is None or agents.stdout is None:
            raise RuntimeError("the agents have no pipes")
        agents.stdin.write(msgspec.json.encode(jobs) + b"\n")
        agents.stdin.flush()
        return msgspec.json.decode(agents.stdout.readline(), type=list[Ended])

    # -- judging

    def _broken(self, name: str, words: str) -> None:
        self.figures.faults.append(f"{name} #{self.figures.injected[name]}: {words}")

    def _recovered(self, name: str, store: Path) -> None:
        """Opens every session once, as a user would; notes the worst time."""
        log = Path(f"{store}-wal")
        if log.exists():
            self.figures.log_bytes = max(self.figures.log_bytes, log.stat().st_size)
        for session in _sessions(store):
            began = time.monotonic()
            error = asyncio.run(_opened(store, Wish(how="resume", id=session)))
            self.figures.recovery_seconds = max(self.figures.recovery_seconds, time.monotonic() - began)
            if error:
                self.figures.bricked += 1
                self._broken(name, f"session {session} cannot be opened: {error}")

    def judge(self, name: str, store: Path, *, go_on: bool = False) -> bool:
        """Opens what there is again and asks the witnesses. `go_on`: a further run of the last session must complete."""
        before = len(self.figures.faults)
        if store.exists():
            self._recovered(name, store)
            with reading(store) as connection:
                for found in check(connection, store).broken:
                    self._broken(name, f"{found.promise} {found.where}: {found.words}")
            self._acknowledged(name, store)
            self._ledger(name, store)
        log = Path(f"{self._job(store).ledger}.log")
        words = log.read_text("utf-8", "replace") if log.exists() else ""
        for bad in ("Traceback", "is locked"):
            if bad in words:
                self._broken(name, f"{bad!r} was shown: …{words[-900:]}")
        log.unlink(missing_ok=True)
        if go_on:
            ended = self._run(self._job(store, wish=Wish(how="continue")))[0]
            if ended.exit_code != 0:
                self.figures.bricked += 1
                words = log.read_text("utf-8", "replace")[:400] if log.exists() else ""
                self._broken(name, f"the session cannot be gone on with: exit code {ended.exit_code} {words}")
        return len(self.figures.faults) == before

    def _acknowledged(self, name: str, store: Path) -> None:
        acks, ends = Counter[tuple[str, int]](), dict[str, str]()
        for line in _lines(Path(self._job(store).acks)):
            run, turn, *rest = line.split()
            if turn == "end":
                ends[run] = rest[0] if rest[1] == "saved" else ""
            else:
                acks[run, int(turn)] = max(acks[run, int(turn)], int(rest[0]))
        with reading(store) as connection:
            texts: dict[tuple[str, int], str] = {}
            for run, turn, text in connection.execute(
                "SELECT m.run, m.turn, p.body FROM message m JOIN part p ON p.session = m.session AND p.seq = m.seq "
                "WHERE m.role = 'assistant' AND p.kind = 'text' ORDER BY m.session, m.seq, p.position"
            ):
                texts[run, turn] = texts.get((run, turn), "") + text
            outcomes = dict(connection.execute("SELECT id, outcome FROM run").fetchall())
        for key, told in acks.items():
            if len(texts.get(key, "")) < told:
                self.figures.lost += 1
                self._broken(name, f"{told} characters of {key} were acknowledged, {len(texts.get(key, ''))} are there")
        for key, text in texts.items():
            if not in_order(text):
                self._broken(name, f"the text of {key} is not what was sent: {text[:200]!r}")
        for run, outcome in ends.items():
            if outcome and outcomes.get(run) != outcome:
                self._broken(name, f"run {run} was told to be {outcome} and saved; it is {outcomes.get(run)}")

    def _ledger(self, name: str, store: Path) -> None:
        effects = Counter(" ".join(line.split()[:3]) for line in _lines(Path(self._job(store).ledger)))
        with reading(store) as connection:
            rows = connection.execute("SELECT run || ' ' || turn || ' ' || position, status FROM call").fetchall()
        calls = dict(rows)
        for key, count in effects.items():
            if count > 1:
                self.figures.twice += 1
                self._broken(name, f"call {key} had its effect {count} times")
            if key not in calls:
                self._broken(name, f"call {key} had its effect and no start is stored")
            elif calls[key] in ("not_started", "skipped", "blocked"):
                self._broken(name, f"call {key} had its effect, and the store says {calls[key]}")

    def _count(self, name: str, survived: bool) -> None:
        self.figures.survived[name] += survived

    # -- the classes

    def kill(self) -> None:
        """SIGKILL at a random moment; one time in four again while the session is opened."""
        store = self._store()
        self.figures.injected["kill"] += 1
        how: How = "new" if self._random.random() < 0.15 else "continue"
        runs = _runs(store)
        moment = self._random.uniform(0.02, self._run_seconds * 0.9)  # most of them after the run has begun
        ended = self._run(self._job(store, wish=Wish(how=how), kill_after=moment))[0]
        self.figures.killed += ended.killed
        self.figures.in_stream += ended.killed and _runs(store) > runs
        if self._random.random() < 0.25:
            self._run(self._job(store, wish=Wish(how="continue"), kill_after=self._random.uniform(0.0, 0.04)))
        self._count("kill", self.judge("kill", store, go_on=self._random.random() < 0.15))

    def cancel(self) -> None:
        """Ctrl-C once to three times; the agent must end by itself, and the next run must work."""
        store = self._store()
        self.figures.injected["cancel"] += 1
        moments = tuple(self._random.uniform(0.0, self._run_seconds) for _ in range(self._random.randint(1, 3)))
        ended = self._run(self._job(store, wish=Wish(how="continue"), cancel_after=moments, kill_after=20.0))[0]
        if ended.exit_code not in (0, 130):
            self._broken("cancel", f"exit code {ended.exit_code} after {ended.seconds:.1f} s")
        good = ended.exit_code in (0, 130)
        self._count("cancel", self.judge("cancel", store, go_on=self._random.random() < 0.3) and good)

    def processes(self) -> None:
        """Several agents at once, on one session and beside it."""
        store = self._store(fresh=True)
        self._run(self._job(store))
        self.figures.injected["processes"] += 1
        jobs = []
        for _ in range(self._random.randint(2, 8)):
            how: How = self._random.choice(["new", "continue", "continue"])
            moment = self._random.uniform(0.0, 1.0) if self._random.random() < 0.4 else 60.0
            jobs.append(self._job(store, wish=Wish(how=how), kill_after=moment))
        good = True
        for job, ended in zip(jobs, self._run(*jobs), strict=True):
            if ended.exit_code not in (0, REFUSED) and not (ended.killed and job.kill_after != 60.0):
                good = False
                self._broken("processes", f"exit code {ended.exit_code} after {ended.seconds:.1f} s")
        self._count("processes", self.judge("processes", store, go_on=True) and good)
        self._uses = RUNS_A_STORE

    def full(self) -> None:
        """The store's files may not grow beyond some size, or few files may be open."""
        store = self._store(fresh=True)
        self._run(self._job(store))
        self.figures.injected["full"] += 1
        if self._random.random() < 0.25:
            bound: dict[str, object] = {"files": self._random.randint(8, 24)}
        else:
            bound = {"file_bytes": self._random.randrange(0, 256 * 1024, 2048)}
        ended = self._run(self._job(store, wish=Wish(how="continue"), kill_after=30.0, **bound))[0]
        if ended.exit_code in (FAULTY, -9):
            self._broken("full", f"{bound}: exit code {ended.exit_code} after {ended.seconds:.1f} s")
        good = ended.exit_code not in (FAULTY, -9)
        self._count("full", self.judge("full", store, go_on=True) and good)
        self._uses = RUNS_A_STORE

    def disk(self) -> None:
        """A file system of its own fills up, and is given room again."""
        where = Path(tempfile.mkdtemp(dir=self._folder, prefix="disk"))
        with contextlib.ExitStack() as stack:
            if not stack.enter_context(small_disk(where)):
                self.figures.left_out["disk"] = "no small file system can be mounted here (root on Linux can)"
                return
            store = self._store(fresh=True, folder=where)
            self._run(self._job(store))
            self.figures.injected["disk"] += 1
            ballast = where / "ballast"
            room = self._random.randrange(0, 256 * 1024, 4096)
            free = os.statvfs(where)
            with ballast.open("wb") as file, contextlib.suppress(OSError):
                file.write(b"\0" * max(free.f_bavail * free.f_frsize - room, 0))
            ended = self._run(self._job(store, wish=Wish(how="continue"), kill_after=30.0))[0]
            good = ended.exit_code not in (FAULTY, -9)
            if not good:
                self._broken("disk", f"{room} bytes left: exit code {ended.exit_code} after {ended.seconds:.1f} s")
            ballast.unlink()
            self._count("disk", self.judge("disk", store, go_on=True) and good)
            self._uses = RUNS_A_STORE

    def corrupt(self) -> None:
        """A damaged copy of a store is opened: it works, or says no in one line and stays as it is."""
        source = self._store()
        self.figures.injected["corrupt"] += 1
        where = Path(tempfile.mkdtemp(dir=self._folder, prefix="bad"))
        store = where / "sessions.db"
        for end in ("", "-wal"):
            if Path(f"{source}{end}").exists():
                shutil.copy(f"{source}{end}", f"{store}{end}")
        damage(store, self._random)
        log = Path(f"{store}-wal").exists()
        before = store.read_bytes()
        began = time.monotonic()
        good = True
        try:
            error = asyncio.run(_opened(store, Wish(how="continue")))
        except Exception as fault:
            good = False
            self._broken("corrupt", f"{type(fault).__name__}: {fault}")
        else:
            if error and not log and store.read_bytes() != before:
                good = False
                self._broken("corrupt", f"it was refused ({error}), and changed")
        if time.monotonic() - began > MOST_RECOVERY_SECONDS:
            good = False
            self._broken("corrupt", f"it took {time.monotonic() - began:.1f} s to open")
        shutil.rmtree(where)
        self._count("corrupt", good)

    def run(self, faults: int, say: Callable[[str], None] = lambda _line: None) -> Figures:
        """Injects about `faults` faults of all classes in a random order."""
        plan = [name for name, share in _SHARES.items() for _ in range(max(round(faults * share), 1))]
        self._random.shuffle(plan)
        for at, name in enumerate(plan, 1):
            getattr(self, name)()
            if at % 50 == 0:
                say(f"{at} of {len(plan)}: {len(self.figures.faults)} broken promises")
        for problem in self._provider.refused:
            self.figures.bricked += 1
            self.figures.faults.append(f"the provider refused a conversation: {problem}")
        return self.figures


def _lines(path: Path) -> list[str]:
    return path.read_text("ascii").splitlines() if path.exists() else []


def _sessions(store: Path) -> list[str]:
    with reading(store) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'session'").fetchone():
            return []
        return [str(id) for (id,) in connection.execute("SELECT id FROM session ORDER BY last")]


def _runs(store: Path) -> int:
    try:
        with reading(store) as connection:
            return int(connection.execute("SELECT count(*) FROM run").fetchone()[0])
    except StoreError:
        return 0


async def _opened(store: Path, wish: Wish) -> str:
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


def drive(faults: int, seed: int, say: Callable[[str], None] = lambda _line: None) -> Figures:
    """Injects about `faults` faults in a private folder that is removed afterwards; returns the figures."""
    with (
        tempfile.TemporaryDirectory(prefix="sluice-faults-") as folder,
        Provider() as provider,
        contextlib.closing(Driver(Path(folder), provider, seed)) as driver,
    ):
        return driver.run(faults, say)


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the figures; exit code 1 if a promise did not hold."""
    parser = argparse.ArgumentParser(prog="python -m sluice.testing.faults", description="Do harm to sessions.")
    parser.add_argument("count", nargs="?", type=int, default=100, help="about how many faults")
    parser.add_argument("--seed", type=int, default=1, help="the same moments again")
    given = parser.parse_args(argv)
    figures = drive(given.count, given.seed, lambda line: print(line, file=sys.stderr, flush=True))
    print("\n".join(figures.lines()))
    return 0 if figures.good() else 1


if __name__ == "__main__":
    sys.exit(main())
