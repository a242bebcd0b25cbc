"""Power that fails: agents work while all they do to files is written down, and disks as they may be then are built of it.

Each image is opened like any store whose process died, and held against what had been told, and had been done, by the
moment at which the power failed: what was acknowledged as synced is there, what had its effect has its start, what is
told as finished is finished, and what a file held is kept from before the file was changed. Deltas of a reply alone may
be lost, but only from its end. Needs strace.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from sluice.errors import StoreError
from sluice.session.audit import AuditLog
from sluice.session.audit_reading import records, verify
from sluice.session.disk import reading
from sluice.session.wish import Wish
from sluice.testing.fault_agent import Job
from sluice.testing.fault_calls import Scripts
from sluice.testing.fault_harness import Harness
from sluice.testing.fault_images import SECTORS, Change, Chosen, Disk
from sluice.testing.fault_provider import NOTE, WRITES
from sluice.testing.fault_recording import events, recording
from sluice.values.messages import ToolCall

NAME = "power"
_GO_ON = 0.04  # of the images: a further run of the session must complete
_TRIES = 50  # to find an image that was not there before
_ENOUGH = 200  # images by chance of one recording


class Play(NamedTuple):
    """What agents do while it is written down: from which state on, and the steps, each of agents side by side.

    `base` is one of the scripts of system calls. `new`: it begins with nothing at all, not even a folder. `fails`: one
    sync of each thread fails.
    """

    base: str
    steps: tuple[tuple[dict[str, object], ...], ...] = (({},),)
    new: bool = False
    fails: bool = False


_SOON = -1.0  # as `kill_after`: at some moment of the run
PLAYS = {
    "begin": Play("begin", new=True),
    "begin and change": Play("change", new=True),
    "go on": Play("go on"),
    "two prompts": Play("two prompts"),
    "recover": Play("recover"),
    "fork": Play("fork"),
    "change": Play("change"),
    "short log": Play("two prompts", (({"log_pages": 8},),)),
    "short audit log": Play("two prompts", (({"audit_bytes": 700},),)),
    "without a log": Play("two prompts", (({"network": True},),), new=True),
    "killed before": Play("go on", (({"kill_after": _SOON},), ({},))),
    "killed in a change": Play("change", (({"kill_after": _SOON},), ({},)), new=True),
    "asked": Play("go on", (({"person": "yes"},),)),
    "killed at a question": Play("go on", (({"person": "dies"},), ({"person": "yes"},))),
    "shrunk": Play("two prompts", (({"compacts": True},),)),
    "a sync fails": Play("two prompts", (({"prompts": 4},),), fails=True),
    "a sync fails in a change": Play("change", (({"prompts": 3},),), fails=True),
    "a sync fails beside another": Play("go on", (({"prompts": 4}, {"wish": Wish(), "prompts": 4}),), fails=True),
    "side by side": Play("go on", (({}, {"wish": Wish()}),)),
}


class Tape:
    """What a play did to the disk. `names` are those of the store's folder and of what lies beside it."""

    def __init__(self, play: str, store: Path, names: tuple[str, ...], disk: Disk, dice: random.Random) -> None:
        self.play, self.store, self.names, self.disk = play, store, names, disk
        self._dice = dice
        self.left = sorted(set(disk.moments))
        self.of = len(self.left)
        dice.shuffle(self.left)

    def points(self) -> Iterator[tuple[float, str]]:
        """Moments at which the power fails, and how much of what is not synced came to the disk."""
        times = sorted({change.began for change in self.disk.changes} | set(self.left))
        for _ in range(max(_ENOUGH, self.of)):
            if self.left:
                yield self.left.pop(), "least"
            yield self._dice.choice(times), self._dice.choice(tuple(WAYS))


class Power:
    """Records plays and builds images in turn: one of only what was synced after each sync and each thing told, and as many
    by chance."""

    def __init__(self, driver: Harness, scripts: Scripts) -> None:
        self._driver, self._scripts = driver, scripts
        self._plan = self._images()
        self._seen: set[bytes] = set()
        self.figures = driver.figures

    def image(self) -> None:
        """Builds an image that was not there before, and judges it."""
        for _ in range(_TRIES):
            if self.judge(*next(self._plan), again=False):
                return

    def judge(self, tape: Tape, moment: float, way: str, *, again: bool = True) -> bool:
        """Builds one image and judges it. Returns whether it did: one that was there before is left out but for `again`."""
        store = self._built(tape, moment, way)
        digest = self._digest(store)
        wanted = again or digest not in self._seen
        if wanted:
            self._seen.add(digest)
            self.figures.power[tape.play] += 1
            self.figures.power_least += way == "least"
            self._judge(tape.play, f"{tape.play}: {way}, {tape.disk.words(moment)}", store)
        self._driver.forget(store)
        return wanted

    def _built(self, tape: Tape, moment: float, way: str) -> Path:
        driver = self._driver
        to = driver.store(fresh=True).parent
        to.rmdir()
        dice = random.Random(driver.dice.random())  # noqa: S311 - moments, no secrets
        chosen = WAYS[way](tape.disk.unsynced(moment), dice)
        top = tape.names[0]
        tape.disk.write(driver.folder, moment, chosen, dice, lambda name: f"{to.name}{name.removeprefix(top)}")
        return to / tape.store.relative_to(driver.folder / top)

    def _digest(self, store: Path) -> bytes:
        found = hashlib.sha256()
        top = self._driver.folder / store.relative_to(self._driver.folder).parts[0]
        for place in (top, *self._driver.files(store)):
            for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
                found.update(f"{path.relative_to(self._driver.folder)}".removeprefix(top.name).encode())
                found.update(path.read_bytes() if path.is_file() else b"")
        return found.digest()

    def _judge(self, play: str, words: str, store: Path) -> None:
        driver = self._driver
        driver.figures.injected[NAME] += 1
        faults = driver.figures.faults
        before = len(faults)
        acks, ledger, _work, _state = driver.files(store)
        only_synced(acks, ledger, failed=PLAYS[play].fails)
        if store.exists():
            driver.judge(NAME, store, go_on=driver.dice.random() < _GO_ON)
            try:
                for found in more(store, driver.files(store)):
                    driver.broken(NAME, found)
            except StoreError as error:
                driver.broken(NAME, str(error))
        elif lines(acks) or lines(ledger):
            driver.figures.lost += 1
            driver.broken(NAME, "the store is gone")
        faults[before:] = [f"{line} ({words})" for line in faults[before:]]
        driver.count(NAME, len(faults) == before)

    # -- which images

    def _images(self) -> Iterator[tuple[Tape, float, str]]:
        """For ever, in turn from each play: a tape, a moment, and how much of what is not synced came to the disk."""
        while True:
            tapes: list[tuple[Tape, Iterator[tuple[float, str]]]] = []
            waiting = list(PLAYS)
            self._driver.dice.shuffle(waiting)
            while waiting or tapes:
                if waiting:
                    tape = self.record(waiting.pop())
                    self.figures.power_moments += tape.of
                    tapes.append((tape, tape.points()))
                for one in list(tapes):
                    point = next(one[1], None)
                    if point is None:
                        tapes.remove(one)
                    else:
                        yield one[0], *point

    def record(self, name: str) -> Tape:
        """Lets a play be played, and returns what it did."""
        driver, play = self._driver, PLAYS[name]
        store = driver.store(fresh=True) if play.new else self._scripts.copy(play.base)
        top = store.parent.name
        if play.new:
            store = store.parent / "data" / "projects" / "sessions.db"
        names = (top, *(path.name for path in driver.files(store)))
        log = driver.folder / f"{top}.calls"
        steps = [[self._job(store, play, step, more) for more in jobs] for step, jobs in enumerate(play.steps)]
        disk = Disk(driver.folder, names, outside=names[1:3])
        for jobs in steps:
            logs = [Path(f"{log}{at}") for at in range(len(jobs))]
            traced = [
                msgspec.structs.replace(job, strace=(*recording(one), *self._failing(play)), tells=True)
                for job, one in zip(jobs, logs, strict=True)
            ]
            for job, ended in zip(jobs, driver.agents(*traced), strict=True):
                if ended.exit_code != 0 and job.kill_after is None and job.person != "dies" and not play.fails:
                    raise RuntimeError(f"the play {name!r} ended with exit code {ended.exit_code}")
            disk.apply(sorted(event for one in logs for event in events(one, str(driver.folder))))
            for one in logs:
                one.unlink()
        return Tape(name, store, names, disk, driver.dice)

    def _failing(self, play: Play) -> tuple[str, ...]:
        if not play.fails:
            return ()
        return ("-e", f"inject=fdatasync:error=EIO:when={self._driver.dice.randint(1, 30)}")

    def _job(self, store: Path, play: Play, step: int, more: dict[str, object]) -> Job:
        if more.get("kill_after") == _SOON:
            more = {**more, "kill_after": self._driver.dice.uniform(0.3, 2.0) * self._driver.run_seconds}
        how = "new" if play.new and step == 0 else ""
        return self._scripts.job(store, play.base, how, **more)


# -- how much of what is not synced came to the disk

Way = Callable[[list[Change], random.Random], Chosen]


def _by_number(chosen: dict[int, int]) -> Chosen:
    return lambda change: chosen.get(change.number, 0)


def _beginning(unsynced: list[Change], dice: random.Random) -> Chosen:
    """All up to some change, and the next torn."""
    end = dice.randint(0, len(unsynced))
    chosen = {change.number: 1 for change in unsynced[:end]}
    if end < len(unsynced) and not unsynced[end].names:
        chosen[unsynced[end].number] = dice.choice((0, 2, *SECTORS))
    return _by_number(chosen)


def _some(unsynced: list[Change], dice: random.Random) -> Chosen:
    """Any of them, whole, torn, or their length only."""
    share = dice.choice((0.1, 0.3, 0.5, 0.7, 0.9))
    return _by_number({c.number: dice.choice((1, 1, 2, *SECTORS)) for c in unsynced if dice.random() < share})


def _names_in_order(unsynced: list[Change], dice: random.Random) -> Chosen:
    """Names as they were up to some change, and any of the writes: a file system with a journal of its own."""
    names = [change for change in unsynced if change.names]
    chosen = {change.number: 1 for change in names[: dice.randint(0, len(names))]}
    chosen.update({c.number: dice.choice((0, 1, 2, *SECTORS)) for c in unsynced if not c.names})
    return _by_number(chosen)


WAYS: dict[str, Way] = {
    "least": lambda _unsynced, _dice: lambda _change: 0,
    "all": lambda _unsynced, _dice: lambda _change: 1,
    "names": lambda _unsynced, _dice: lambda change: int(bool(change.names)),
    "names and lengths": lambda _unsynced, _dice: lambda change: 1 if change.names else 2,
    "bytes": lambda _unsynced, _dice: lambda change: int(not change.names),
    "a beginning": _beginning,
    "some": _some,
    "names in order": _names_in_order,
}


# -- what is asked besides


def only_synced(acks: Path, ledger: Path, *, failed: bool = False) -> None:
    """Leaves out of what was told the deltas that no sync came after: they may be lost.

    `failed`: a sync failed, so that the end of a call may have been told and not kept. The end of the run says so.
    """
    done = {(run, turn) for run, turn, _position in _effects(ledger)}
    told = [line.split() for line in lines(acks)]
    kept = []
    for at, (run, what, *_rest) in enumerate(told):
        if what.isdigit():
            after = told[at + 1 :]
            synced = any(key == run and turn >= int(what) for key, turn in done) or any(
                (other != run and kind == "began")
                or (
                    other == run
                    and ((kind == "end" and rest[1] == "saved") or (kind == "called" and int(rest[0]) >= int(what)))
                )
                for other, kind, *rest in after
            )
            if not synced:
                continue
        if failed and what == "called":
            continue
        kept.append(" ".join(told[at]))
    if acks.exists():
        acks.write_text("".join(f"{line}\n" for line in kept), "ascii")


def more(store: Path, files: tuple[Path, Path, Path, Path]) -> Iterator[str]:
    """What is wrong with a store's structure, with the audit log, with a file that a finished call wrote."""
    _acks, ledger, work, state = files
    with reading(store) as connection:
        for (words,) in connection.execute("PRAGMA integrity_check(5)"):
            if words != "ok":
                yield f"integrity_check: {words}"
        runs = connection.execute("SELECT id FROM run").fetchall()
        if work.is_dir() and runs:
            yield from _note(connection.execute(_WRITTEN, (WRITES,)).fetchall(), work / NOTE)
        kept = [handle for (handle,) in connection.execute("SELECT handle FROM preimage")]
        stored = connection.execute("SELECT run, turn, position FROM call").fetchall()
    yield from _audited(f"{store}.audit", {*stored, *_effects(ledger)})
    index = state / "changes.jsonl"
    said = index.read_bytes().splitlines() if index.exists() else []
    there = {msgspec.json.decode(line)["id"] for line in said if line.startswith(b"{") and line.endswith(b"}")}
    for handle in kept:
        if handle not in there:
            yield f"pre-image {handle} has no line in the index"


def _effects(ledger: Path) -> Iterator[tuple[str, int, int]]:
    for run, turn, position, *_ in map(str.split, lines(ledger)):
        yield run, int(turn), int(position)


def _audited(audit: str, begun: set[tuple[str, int, int]]) -> Iterator[str]:
    """The chain holds with one more line, and has the start of every call that is stored or had an effect."""
    log = AuditLog(audit)
    try:
        log.record("after")
    finally:
        log.close()
    chain = verify(audit)
    if not chain.whole:
        yield f"the chain of the audit log does not hold: {chain}"
    starts = (record["fields"] for record in records(audit) if record["event"] == "call_started")
    for run, turn, position in begun - {(start["run"], start["turn"], start["position"]) for start in starts}:
        yield f"call {run} {turn} {position} was started, and the audit log does not say so"


_WRITTEN = (  # what calls of the tool that writes were given, and how they ended, in order
    "SELECT p.body, c.status FROM call c JOIN run r ON r.id = c.run JOIN message m ON m.run = c.run AND m.turn = c.turn "
    "AND m.role = 'assistant' JOIN part p ON p.session = m.session AND p.seq = m.seq AND p.kind = 'call' "
    "AND p.position = c.position + (SELECT min(position) FROM part f WHERE f.session = m.session AND f.seq = m.seq "
    "AND f.kind = 'call') WHERE c.tool = ? ORDER BY r.session, r.number, c.turn, c.position"
)


def _note(calls: Sequence[tuple[str, str | None]], note: Path) -> Iterator[str]:
    """Of the calls in order the last that finished well, or one after it, is what the file holds."""
    texts = [(msgspec.json.decode(body, type=ToolCall).arguments, status) for body, status in calls]
    last = max((at for at, (_arguments, status) in enumerate(texts) if status == "ok"), default=None)
    if last is not None:
        words = {str(msgspec.json.decode(arguments)["content"]) for arguments, _status in texts[last:]}
        if not note.exists() or note.read_text("utf-8") not in words:
            yield "a call finished well, and the file it wrote does not hold it"


def lines(path: Path) -> list[str]:
    """The lines of a file that may not be there."""
    return path.read_text("ascii").splitlines() if path.exists() else []
