"""The fault driver: does harm to sessions in many ways, and counts what was lost. `make faults` runs it.

Agents run as processes of their own against a fake provider over HTTP, with a tool that writes to a ledger outside the
database. After each fault every session is opened again and judged by three witnesses: `session/check.py`, what had been
acknowledged before the fault, and the ledger. The classes of faults:

    kill         SIGKILL at a random moment of a run, and sometimes again while the session is being opened after it
    cancel       one to three Ctrl-C at random moments
    processes    two to eight agents on one store, several on one session or forks of it, some of them killed
    damage       the same several times, and the store is listed, exported, checked, repaired and opened
    corrupt      bytes of a store flipped, zeroed, cut off, pages exchanged, its log damaged
    full         the files of the store may grow no further at some point, or no further file may be opened
    disk         a small file system fills up (root on Linux only)
    system call  SIGKILL just before one write, sync, rename or removal of a file: of one of seven scripts (strace only)
    errno        one of those calls, or it and all after it, fail with EIO, EROFS, EMFILE, EDQUOT or EINTR (strace only)
    clock        the time of day jumps while agents run, and agents sleep
    schema       a store of an earlier version, and one of a later
    transcript   sessions that broke other agents, from the shared vectors
    question     SIGKILL while a person is asked about a call, while they are asked again, and just after a yes
    edge         SIGKILL at the first notice of each kind
    recovery     up to five more kills while a session is made right: it is the same as without them
    retry        the provider fails when results of tools are sent to it
    stopped      the process that holds a session is stopped for a while
    reader       another program reads one moment of a store for long
    power        the power fails: a disk with only what was synced, or with any of the rest too (strace only)

With `--every` every system call of the seven scripts is killed at, not a number of them by chance.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from sluice.session.wish import How, Wish
from sluice.testing.fault_agent import FAULTY, REFUSED
from sluice.testing.fault_calls import Scripts
from sluice.testing.fault_damage import damaged
from sluice.testing.fault_disk import damage, small_disk
from sluice.testing.fault_figures import SHARES, Figures
from sluice.testing.fault_forms import clock, retry, schema, transcript
from sluice.testing.fault_harness import Harness, opened
from sluice.testing.fault_neighbours import reader, stopped
from sluice.testing.fault_power import Power
from sluice.testing.fault_provider import Provider
from sluice.testing.fault_questions import question
from sluice.testing.fault_recovery import edge, recovery
from sluice.testing.fault_witnesses import reply_arriving, runs_of, sessions_of

MOST_RECOVERY_SECONDS = 2.0  # of a whole drive by the wall, when it is asked for; of CPU time in tests
_BY_STRACE = ("system call", "errno", "power")


class Driver(Harness):
    """Injects faults of every class. See `Harness`."""

    def __init__(self, folder: Path, provider: Provider, seed: int = 0) -> None:
        super().__init__(folder, provider, seed)
        self.scripts = Scripts(self)
        self.power = Power(self, self.scripts)

    # -- the classes

    def kill(self) -> None:
        """SIGKILL at a random moment; one time in four again while the session is opened."""
        store = self.store()
        self.figures.injected["kill"] += 1
        how: How = "new" if self.dice.random() < 0.15 else "continue"
        runs = runs_of(store)
        moment = self.dice.uniform(0.02, self.run_seconds * 0.9)  # most of them after the run has begun
        ended = self.agents(self.job(store, wish=Wish(how=how), kill_after=moment))[0]
        self.figures.killed += ended.killed
        self.figures.in_run += ended.killed and runs_of(store) > runs
        self.figures.in_stream += ended.killed and reply_arriving(store)
        if self.dice.random() < 0.25:
            self.agents(self.job(store, wish=Wish(how="continue"), kill_after=self.dice.uniform(0.0, 0.04)))
        self.count("kill", self.judge("kill", store, go_on=self.dice.random() < 0.15))

    def cancel(self) -> None:
        """Ctrl-C one to three times, also while a context is shrunk; the agent must end by itself, and the next run go."""
        store = self.store()
        self.figures.injected["cancel"] += 1
        moments = tuple(self.dice.uniform(0.0, self.run_seconds) for _ in range(self.dice.randint(1, 3)))
        job = self.job(store, wish=Wish(how="continue"), cancel_after=moments, kill_after=20.0)
        ended = self.agents(msgspec.structs.replace(job, compacts=self.dice.random() < 0.3))[0]
        if ended.exit_code not in (0, 130):
            self.broken("cancel", f"exit code {ended.exit_code} after {ended.seconds:.1f} s")
        good = ended.exit_code in (0, 130)
        self.count("cancel", self.judge("cancel", store, go_on=self.dice.random() < 0.3) and good)

    def processes(self) -> None:
        """Several agents at once, on one session, on forks of it and beside it; some of them shrink its context."""
        store = self.store(fresh=True)
        self.agents(self.job(store, prompts=2))
        (session,) = sessions_of(store)
        self.figures.injected["processes"] += 1
        jobs = []
        for _ in range(self.dice.randint(2, 8)):
            how: How = self.dice.choice(["new", "continue", "continue", "fork"])
            wish = Wish(how=how, id=session if how == "fork" else "")
            moment = self.dice.uniform(0.0, 1.0) if self.dice.random() < 0.4 else 60.0
            jobs.append(self.job(store, wish=wish, kill_after=moment, compacts=self.dice.random() < 0.3))
        good = True
        for job, ended in zip(jobs, self.agents(*jobs), strict=True):
            if ended.exit_code not in (0, REFUSED) and not (ended.killed and job.kill_after != 60.0):
                good = False
                self.broken("processes", f"exit code {ended.exit_code} after {ended.seconds:.1f} s")
        self.count("processes", self.judge("processes", store, go_on=True) and good)

    def full(self) -> None:
        """The store's files may not grow beyond some size, or few files may be open."""
        store = self.store(fresh=True)
        self.agents(self.job(store))
        self.figures.injected["full"] += 1
        if self.dice.random() < 0.25:
            bound: dict[str, object] = {"files": self.dice.randint(8, 24)}
        else:
            bound = {"file_bytes": self.dice.randrange(0, 256 * 1024, 2048)}
        ended = self.agents(self.job(store, wish=Wish(how="continue"), kill_after=30.0, **bound))[0]
        if ended.exit_code in (FAULTY, -9):
            self.broken("full", f"{bound}: exit code {ended.exit_code} after {ended.seconds:.1f} s")
        good = ended.exit_code not in (FAULTY, -9)
        self.count("full", self.judge("full", store, go_on=True) and good)

    def disk(self) -> None:
        """A file system of its own fills up, and is given room again."""
        where = Path(tempfile.mkdtemp(dir=self.folder, prefix="disk"))
        with contextlib.ExitStack() as stack:
            if not stack.enter_context(small_disk(where)):
                self.figures.left_out["disk"] = "no small file system can be mounted here (root on Linux can)"
                return
            store = self.store(fresh=True, folder=where)
            self.agents(self.job(store))
            self.figures.injected["disk"] += 1
            ballast = where / "ballast"
            room = self.dice.randrange(0, 256 * 1024, 4096)
            free = os.statvfs(where)
            with ballast.open("wb") as file, contextlib.suppress(OSError):
                file.write(b"\0" * max(free.f_bavail * free.f_frsize - room, 0))
            ended = self.agents(self.job(store, wish=Wish(how="continue"), kill_after=30.0))[0]
            good = ended.exit_code not in (FAULTY, -9)
            if not good:
                self.broken("disk", f"{room} bytes left: exit code {ended.exit_code} after {ended.seconds:.1f} s")
            ballast.unlink()
            self.count("disk", self.judge("disk", store, go_on=True) and good)

    def corrupt(self) -> None:
        """A damaged copy of a store is opened: it works, or says no in one line and stays as it is."""
        source = self.store()
        self.figures.injected["corrupt"] += 1
        where = Path(tempfile.mkdtemp(dir=self.folder, prefix="bad"))
        store = where / "sessions.db"
        for end in ("", "-wal"):
            if Path(f"{source}{end}").exists():
                shutil.copy(f"{source}{end}", f"{store}{end}")
        damage(store, self.dice)
        log = Path(f"{store}-wal").exists()
        before = store.read_bytes()
        began = time.process_time()
        good = True
        try:
            error = asyncio.run(opened(store, Wish(how="continue")))
        except Exception as fault:
            good = False
            self.broken("corrupt", f"{type(fault).__name__}: {fault}")
        else:
            if error and not log and store.read_bytes() != before:
                good = False
                self.broken("corrupt", f"it was refused ({error}), and changed")
        if time.process_time() - began > MOST_RECOVERY_SECONDS:
            good = False
            self.broken("corrupt", f"it took {time.process_time() - began:.1f} s of CPU to open")
        shutil.rmtree(where)
        self.count("corrupt", good)

    def run(
        self, faults: int, say: Callable[[str], None] = lambda _line: None, *, every: bool = False, only: str = ""
    ) -> Figures:
        """Injects about `faults` faults of all classes in a random order; with `every` the kills at all system calls; with
        `only` all of that class."""
        classes: dict[str, Callable[[], None]] = {
            "kill": self.kill,
            "cancel": self.cancel,
            "processes": self.processes,
            "corrupt": self.corrupt,
            "damage": lambda: damaged(self),
            "full": self.full,
            "disk": self.disk,
            "system call": self.scripts.any_kill,
            "errno": self.scripts.fail,
            "clock": lambda: clock(self),
            "schema": lambda: schema(self),
            "transcript": lambda: transcript(self),
            "power": self.power.image,
            "edge": lambda: edge(self),
            "recovery": lambda: recovery(self, self.scripts),
            "retry": lambda: retry(self),
            "stopped": lambda: stopped(self),
            "reader": lambda: reader(self),
            "question": lambda: question(self),
        }
        left_out = {name: self.scripts.missing for name in _BY_STRACE if self.scripts.missing}
        self.figures.left_out.update(left_out)
        if every:
            left_out["system call"] = ""
        shares = {only: 1.0} if only else SHARES
        plan = [
            classes[name]
            for name, share in shares.items()
            if name not in left_out
            for _ in range(max(round(faults * share), 1))
        ]
        if every and not self.scripts.missing:
            plan += [functools.partial(self.scripts.kill, point) for point in self.scripts.every()]
        self.dice.shuffle(plan)
        told = 0
        for at, harm in enumerate(plan, 1):
            harm()
            for line in self.figures.faults[told:]:
                say(f"BROKEN {line}")
            told = len(self.figures.faults)
            if at % 50 == 0:
                say(f"{at} of {len(plan)}: {told} broken promises")
        for problem in self.provider.refused:
            self.figures.bricked += 1
            self.figures.faults.append(f"the provider refused a conversation: {problem}")
        return self.figures


def drive(
    faults: int,
    seed: int,
    say: Callable[[str], None] = lambda _line: None,
    *,
    every: bool = False,
    only: str = "",
) -> Figures:
    """Injects about `faults` faults in a private folder that is removed afterwards; returns the figures."""
    with (
        tempfile.TemporaryDirectory(prefix="sluice-faults-") as folder,
        Provider() as provider,
        contextlib.closing(Driver(Path(folder), provider, seed)) as driver,
    ):
        try:
            return driver.run(faults, say, every=every, only=only)
        except KeyboardInterrupt:
            driver.figures.left_out["the rest"] = "the driver was stopped before it had done all it was asked for"
            return driver.figures


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the figures; exit code 1 if a promise did not hold, or a recovery took too long."""
    parser = argparse.ArgumentParser(prog="python -m sluice.testing.faults", description="Do harm to sessions.")
    parser.add_argument("count", nargs="?", type=int, default=100, help="about how many faults")
    parser.add_argument("--seed", type=int, default=1, help="the same moments again")
    parser.add_argument("--every", action="store_true", help="kill at every system call of the seven scripts")
    parser.add_argument("--only", choices=tuple(SHARES), default="", help="faults of this class only")
    given = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the figures so far are printed all the same
    figures = drive(
        given.count,
        given.seed,
        lambda line: print(line, file=sys.stderr, flush=True),
        every=given.every,
        only=given.only,
    )
    print("\n".join(figures.lines()))
    slow = figures.recovery_seconds > MOST_RECOVERY_SECONDS
    if slow:
        print(f"TOO SLOW: a recovery took more than {MOST_RECOVERY_SECONDS:g} s")
    return 0 if figures.good() and not slow else 1


if __name__ == "__main__":
    sys.exit(main())
