"""The agent that the fault driver kills: one session of a real store, a real HTTP transport, one tool with an effect.

`python -m sluice.testing.fault_agent` reads jobs as lines of JSON, runs each in a forked process (so that a job costs no
start of Python), and answers each with one line. The process that forks has no thread and no event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import resource
import signal
import subprocess
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec

from sluice.errors import SluiceError, StoreError
from sluice.limits import DEFAULT_LIMITS
from sluice.policy.rules import Policy
from sluice.run.agent import Agent
from sluice.run.config import Settings
from sluice.run.conversation import Talk
from sluice.run.parts import NoHooks, Parts, RandomIds, SystemClock
from sluice.run.result_text import result_text
from sluice.run.sessions import SessionJournal
from sluice.run.wiring import open_tools
from sluice.session import database, disk
from sluice.session.audit import MAX_FILE_BYTES, AuditLog
from sluice.session.blobs import BlobJournal
from sluice.session.opening import open_session
from sluice.session.store import SqliteStore
from sluice.session.wish import Wish
from sluice.testing.fault_strace import attach
from sluice.tools.seen import SeenFiles
from sluice.transport.http import HttpTransport
from sluice.values import notices as n
from sluice.values.calls import AllowedCall, ToolSpec
from sluice.values.healed import AllowedHealedCall
from sluice.values.ports import Cancel, ToolExecutor
from sluice.values.requests import ModelOptions
from sluice.values.results import ToolResult, failed
from sluice.wire.dialects import DIALECTS

PROJECT = "/fault-driver"
REFUSED = 3  # exit code: the store said no, in one line
FAULTY = 70  # exit code: an exception came out that should not
_MOST_SECONDS = 60.0  # that an agent may take: one that hangs is killed, and that is seen by its exit code


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One agent process. `kill_after` and `cancel_after` are seconds; `file_bytes` and `files` are resource limits.

    With `folder` its tool is the one that writes files, in that workspace; pre-images go to `state`. `jumps` is the seed of
    a clock that jumps, `pause` the moment at which it is stopped for a while. `strace`: the words it is traced with.
    `tells`: it says too when a run has begun and a call has ended. `log_pages`: how many pages the log may have before it
    is emptied. `audit_bytes`: how large a file of the audit log may become. `network`: the store is told that it lies on
    a network disk. `person`: who is asked about calls, says "yes" or "no", "waits" for ever, or "dies", and the process
    with them; "nobody" is there; without one all is allowed. `dies_within`: seconds after the first answer. `dies_at`: the
    tag of a notice, at the first of which the process kills itself. `delay`: seconds before it begins. `compacts`: its
    context is shrunk after the prompts.
    """

    store: str
    url: str
    ledger: str
    acks: str
    wish: Wish = Wish()
    prompts: int = 1
    kill_after: float | None = None
    cancel_after: tuple[float, ...] = ()
    file_bytes: int | None = None
    files: int | None = None
    folder: str = ""
    state: str = ""
    jumps: int | None = None
    pause: float | None = None
    strace: tuple[str, ...] = ()
    pause_seconds: float = 0.4  # as a machine whose lid is shut
    delay: float = 0.0
    dies_at: str = ""
    compacts: bool = False
    tells: bool = False
    person: str = ""
    dies_within: float | None = None
    log_pages: int | None = None
    audit_bytes: int = MAX_FILE_BYTES
    network: bool = False


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How the process of a job ended. `killed`: it was still there when it was killed."""

    killed: bool
    exit_code: int
    seconds: float


def append(path: str, line: str) -> None:
    """Appends one line and waits until it is on disk: what it says has happened whatever comes next."""
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(fd, line.encode() + b"\n")
        os.fsync(fd)
    finally:
        os.close(fd)


class EffectTool:
    """Implements `ToolExecutor` with one tool, `effect`, that writes the key of its call into the ledger."""

    def __init__(self, ledger: str) -> None:
        self._ledger = ledger

    def specs(self) -> tuple[ToolSpec, ...]:
        """See `ToolExecutor.specs`."""
        schema = {"type": "object", "properties": {"n": {"type": "string"}}}
        return (ToolSpec(name="effect", description="has an effect", parameters=schema, category="mutating"),)

    def check(self, name: str, arguments: str) -> ToolSpec | ToolResult:
        """See `ToolExecutor.check`."""
        return self.specs()[0]

    async def run(self, call: AllowedCall, cancel: Cancel) -> ToolResult:
        """See `ToolExecutor.run`."""
        key = call.key
        append(self._ledger, f"{key.run} {key.turn} {key.position} {call.arguments}")
        await asyncio.sleep(0.003)  # the time in which a kill meets a call that has begun
        return ToolResult(ok=True, status="ok", tool="effect", content="done")

    async def run_healed(self, call: AllowedHealedCall, cancel: Cancel) -> ToolResult:
        """See `ToolExecutor.run_healed`: it has effects, so it takes none."""
        return failed(call.tool, "cut_call", "the tool does not take a call that was cut", status="invalid")


class Person:
    """Implements `Approver` with the person of a job."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._asked = 0

    async def ask(self, spec: ToolSpec, arguments: str, reason: str) -> tuple[bool, str]:
        """See `Approver.ask`."""
        job, self._asked = self._job, self._asked + 1
        if job.person == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        if job.person == "waits":
            await asyncio.Event().wait()
        if job.dies_within is not None and self._asked == 1:
            asyncio.get_running_loop().call_later(job.dies_within, os.kill, os.getpid(), signal.SIGKILL)
        return job.person == "yes", "" if self._asked % 2 else "go on without it"


class JumpingClock(SystemClock):
    """A wall clock that somebody sets while the program runs: by seconds, by an hour, by a year, either way."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - moments, no secrets
        self._off = 0.0

    def now(self) -> float:
        """See `Clock.now`."""
        if self._random.random() < 0.5:
            self._off = self._random.choice([0, 1, 3600, 365 * 86_400]) * self._random.uniform(-1, 1)
        return super().now() + self._off


class Acknowledging(NoHooks):
    """After every few deltas waits until they are committed, and then says so outside the store."""

    def __init__(self, store: SqliteStore, acks: str) -> None:
        self._store, self._acks = store, acks
        self.run = ""
        self._reply, self._told = ("", 0), ""
        self._since = 0

    async def text(self, turn: int, text: str) -> None:
        """See `Hooks.text`."""
        if (self.run, turn) != self._reply:  # a run that broke in its first turn is followed by another first turn
            self._reply, self._told = (self.run, turn), ""
        self._told += text
        self._since += 1
        if self._since >= 4:
            self._since = 0
            await self._store.database.write(lambda _connection: None, full=False)
            append(self._acks, f"{self.run} {turn} {len(self._told)}")


async def work(job: Job) -> int:
    """Runs the job's prompts; returns the exit code."""
    async with AsyncExitStack() as stack:
        clock = SystemClock() if job.jumps is None else JumpingClock(job.jumps)
        opening = await open_session(
            Path(job.store), PROJECT, job.wish, new_id=lambda: RandomIds().new("ses"), words=result_text, now=clock.now
        )
        store = opening.store
        stack.push_async_callback(store.close)
        transport = HttpTransport(job.url, None, DEFAULT_LIMITS)
        stack.push_async_callback(transport.close)
        audit = AuditLog(f"{job.store}.audit", max_bytes=job.audit_bytes, now=clock.now)
        stack.callback(audit.close)
        hooks, asks = Acknowledging(store, job.acks), job.person not in ("", "nobody")
        parts = Parts(
            transport=transport,
            dialect=DIALECTS["openai_chat"],
            options=ModelOptions(model="fake"),
            executor=await _file_tools(job, store, stack) if job.folder else EffectTool(job.ledger),
            policy=Policy(allow_mutating_tools=not job.person, ask=asks),
            store=store,
            audit=audit,
            limits=DEFAULT_LIMITS,
            system_prompt="",
            workspace=PROJECT,
            hooks=hooks,
            approver=Person(job) if asks else None,
            clock=clock,
        )
        agent = Agent(parts, Talk("", store, await store.history()))
        stack.push_async_callback(agent.close)
        loop = asyncio.get_running_loop()
        # Not by the loop's own handlers: taking one of them away makes Ctrl-C raise for a moment.
        signal.signal(signal.SIGINT, lambda *_: loop.call_soon_threadsafe(agent.cancel))
        stack.callback(signal.signal, signal.SIGINT, signal.SIG_IGN)
        code = 0
        for number in range(job.prompts):
            async for notice in agent.run(f"prompt {number}"):
                if job.dies_at and msgspec.to_builtins(notice)["type"] == job.dies_at:
                    os.kill(os.getpid(), signal.SIGKILL)
                if isinstance(notice, n.RunStarted):
                    hooks.run = notice.run
                    if job.tells:
                        append(job.acks, f"{notice.run} began")
                elif isinstance(notice, n.CallFinished) and job.tells and notice.turn:
                    append(job.acks, f"{hooks.run} called {notice.turn} {notice.position}")
                elif isinstance(notice, n.RunFinished):
                    saved = "saved" if notice.saved else "lost"
                    append(job.acks, f"{notice.run} end {notice.outcome} {saved}")
                    code = notice.exit_code
        if job.compacts:
            await agent.compact()
        return code


async def _file_tools(job: Job, store: SqliteStore, stack: AsyncExitStack) -> ToolExecutor:
    """The tools of the product over the job's workspace, with the journal of pre-images a run has."""
    seen = SeenFiles(await store.seen_files())
    store.seen = seen.digests
    settings = Settings(workspace=job.folder, allow_mutating_tools=True)
    journal = SessionJournal(BlobJournal(job.state, job.folder), store)
    _workspace, _seen, executor, _jobs = open_tools(settings, stack, journal=journal, seen=seen)
    return executor


def _child(job: Job) -> int:
    time.sleep(job.delay)
    if job.log_pages is not None:
        disk._WAL_PAGES = job.log_pages
    if job.network:
        vars(database)["on_network"] = lambda _path: "network"
    if job.file_bytes is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (job.file_bytes, job.file_bytes))
    if job.files is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (job.files, job.files))
    try:
        return asyncio.run(work(job))
    except StoreError as error:
        return _refused(f"refused {error.kind}: {error}")
    except SluiceError as error:
        return _refused(f"{type(error).__name__}: {error}")
    except OSError as error:
        if job.files is not None or job.file_bytes is not None or job.strace:  # a file of the driver's own met it
            return _refused(f"refused by the system: {error}")
        raise


def _refused(words: str) -> int:
    with contextlib.suppress(OSError):  # where no file may grow, neither may the one that this goes to
        os.write(2, f"{words}\n".encode())
    return REFUSED


def _forked(job: Job) -> tuple[int, subprocess.Popen[bytes] | None]:
    """Starts the job; returns the id of its process, and the one that traces it."""
    go, goes = os.pipe()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    pid = os.fork()
    if pid:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(go)
        try:
            return pid, attach(pid, job.strace) if job.strace else None
        finally:
            os.close(goes)
    code = FAULTY
    try:
        os.close(goes)
        os.read(go, 1)  # until it is traced, if it is to be
        os.close(go)
        log = os.open(f"{job.ledger}.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.dup2(log, 1)
        os.dup2(log, 2)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # until the agent is there to hear it
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        code = _child(job)
    except BaseException:
        import traceback  # wanted here only

        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError):
            sys.stderr.flush()
        os._exit(code)


def run_jobs(jobs: tuple[Job, ...]) -> list[Ended]:
    """Runs jobs side by side, kills and cancels them when they say so, and waits for all."""
    began = time.monotonic()
    started = [_forked(job) for job in jobs]
    pids = [pid for pid, _tracer in started]
    ended: dict[int, Ended] = {}
    cancels = {at: sorted(job.cancel_after) for at, job in enumerate(jobs)}
    killed: set[int] = set()
    paused: dict[int, float] = {}
    while len(ended) < len(jobs):
        now = time.monotonic() - began
        for at, job in enumerate(jobs):
            if at in ended:
                continue
            done, status = os.waitpid(pids[at], os.WNOHANG)
            if done:
                code = os.waitstatus_to_exitcode(status)
                ended[at] = Ended(killed=code == -signal.SIGKILL, exit_code=code, seconds=now)
                continue
            if job.pause is not None and now >= job.pause and at not in paused:
                paused[at] = now + job.pause_seconds
                os.kill(pids[at], signal.SIGSTOP)
            if now >= paused.get(at, now + 1):
                paused[at] = float("inf")
                os.kill(pids[at], signal.SIGCONT)
            if now >= (_MOST_SECONDS if job.kill_after is None else job.kill_after) and at not in killed:
                killed.add(at)
                os.kill(pids[at], signal.SIGKILL)
            if cancels[at] and now >= cancels[at][0]:
                cancels[at].pop(0)
                os.kill(pids[at], signal.SIGINT)
        time.sleep(0.0005)
    for _pid, tracer in started:
        if tracer is not None:
            tracer.communicate()
    return [ended[at] for at in range(len(jobs))]


def main() -> int:
    """Serves jobs until the end of standard input."""
    for line in sys.stdin.buffer:
        answer = run_jobs(msgspec.json.decode(line, type=tuple[Job, ...]))
        sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
        sys.stdout.buffer.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
