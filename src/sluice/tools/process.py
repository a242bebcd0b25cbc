"""The owner of child processes: one command, bounded in time and output, ended with all it started (P7).

Each command gets a session and process group of its own, `/dev/null` as input, and an environment from an allow-list.
There is no code of ours between fork and exec (`preexec_fn` is not safe beside threads). This is no sandbox: a command can
do what its user can do.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from sluice.limits import DEFAULT_LIMITS
from sluice.tools.environment import TREE_MARK as TREE_MARK
from sluice.tools.environment import environment as environment
from sluice.tools.process_tree import Descended, Marked, ask_to_end, kill_all
from sluice.tools.tree_watch import Excess, TreeWatch
from sluice.values.ports import Cancel

GRACE_SECONDS = 0.5  # between TERM and KILL: enough to remove a lock file, within the second a tree may live on
_REAP_SECONDS = 1.0  # waited for a killed process to be gone; only one stuck in the kernel takes longer
_READ_BYTES = 64 * 1024  # one read, the size of a Linux pipe
_LINUX = sys.platform.startswith("linux")
_POLL_SECONDS = 0.02  # between looks at a child where the system has no pidfd

Reader = Callable[[bytes], bool | None]
"""Takes output as it comes; `True` says that it wants no more, which ends the command."""

Hold = Literal["group", "leader", "reaper"]
"""What holds a command's tree together: nothing but its group and its mark; a leader with whom the kernel ends all (a
sandbox with process numbers of its own); a leader that adopts every orphan below it (`tools/keeper.py`)."""

_Reason = Literal["exit", "timeout", "cancel", "overflow", "enough", "fault", "excess"]


@dataclass(frozen=True)
class Ended:
    """How a command ended. Exactly one of `exit_code` and `signal` is set, unless its end could not be seen.

    `overflowed`: it was ended because it printed more than the cap. `stopped`: its reader wanted no more.
    `excess` says of what it held too much when it was ended for that.
    `left_running` counts processes it had started that lived on after it and were ended.
    """

    exit_code: int | None
    signal: int | None
    timed_out: bool = False
    cancelled: bool = False
    overflowed: bool = False
    stopped: bool = False
    left_running: int = 0
    output_bytes: int = 0
    excess: Excess | None = None


async def run_command(
    argv: Sequence[str],
    *,
    cwd: str | int,
    env: Mapping[str, str],
    timeout: float,
    output: Reader,
    errors: Reader | None = None,
    cancel: Cancel | None = None,
    max_output_bytes: int = DEFAULT_LIMITS.max_command_output_bytes,
    drain_seconds: float = DEFAULT_LIMITS.command_drain_seconds,
    sweep: bool = True,
    hold: Hold = "group",
    pass_fds: Sequence[int] = (),
    watch: TreeWatch | None = None,
) -> Ended:
    """Runs `argv` (the program by absolute path) and returns when it has ended, at most `drain_seconds` later.

    `cwd` is a path or the descriptor of an open folder. Without `errors`, both streams share one pipe, so that `output`
    sees them in the order of writing. After `timeout` seconds, on `cancel`, past `max_output_bytes`, or when a reader
    returns `True`, the group is ended: TERM, then KILL after a grace (KILL at once for the last two). In every case,
    cancellation of this coroutine included, nothing of the group lives on when this returns; with `sweep`, on Linux, that
    holds for processes in other sessions too, as long as they kept the environment they inherited. With `hold` it holds
    for every process below the leader. `watch` ends it for what it holds.
    `pass_fds` are open in the program under the same numbers. No descriptor, no zombie stays.

    Raises `OSError` if the program or the folder cannot be used or the arguments are too long, `ValueError` for a NUL in
    an argument, and what a reader raises.
    """
    if cancel is not None and cancel.is_set():
        return Ended(None, None, cancelled=True)
    mark = secrets.token_hex(16)
    child = _Child(max_output_bytes, hold if _LINUX else "group", pass_fds)
    try:
        child.start(argv, cwd, {**env, TREE_MARK: mark}, output, errors)
        child.watch_by(watch)
        reason = await child.first_reason(timeout, cancel)
        if reason in ("timeout", "cancel"):
            child.ask_to_end()
            await child.wait_exit(GRACE_SECONDS)
        elif reason == "exit":
            await child.wait_pipes(drain_seconds)
    finally:
        left = await child.end(mark if sweep else None)
    if child.fault is not None:
        raise child.fault
    code = child.code
    return Ended(
        exit_code=code if code is not None and code >= 0 else None,
        signal=-code if code is not None and code < 0 else None,
        timed_out=reason == "timeout",
        cancelled=reason == "cancel",
        overflowed=reason == "overflow",
        stopped=reason == "enough",
        left_running=left if reason == "exit" else 0,
        output_bytes=child.seen,
        excess=child.excess if reason == "excess" else None,
    )


def succeeds(argv: Sequence[str], *, env: Mapping[str, str], seconds: float, pass_fds: Sequence[int] = ()) -> bool:
    """Whether a quick command of our own ends with 0 within `seconds`; waits for it. Its output is dropped."""
    try:
        done = subprocess.run(  # noqa: S603 - our own words
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=dict(env),
            timeout=seconds,
            pass_fds=tuple(pass_fds),
            start_new_session=True,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


class _Child:
    """One process, its pipes, and the watch on its end."""

    def __init__(self, max_output_bytes: int, hold: Hold = "group", pass_fds: Sequence[int] = ()) -> None:
        self._hold = hold
        self._pass_fds = tuple(pass_fds)
        self._loop = asyncio.get_running_loop()
        self._max_output_bytes = max_output_bytes
        self._process: subprocess.Popen[bytes] | None = None
        self._readers: dict[int, Reader] = {}
        self._pidfd: int | None = None
        self._poller: asyncio.Task[None] | None = None
        self._reason: asyncio.Future[_Reason] = self._loop.create_future()
        self._exited: asyncio.Future[None] = self._loop.create_future()
        self._drained: asyncio.Future[None] = self._loop.create_future()
        self._over = False
        self.seen = 0
        self.fault: Exception | None = None
        self.excess: Excess | None = None
        self._watch: TreeWatch | None = None

    @property
    def code(self) -> int | None:
        return self._process.returncode if self._process is not None else None

    def start(
        self, argv: Sequence[str], cwd: str | int, env: Mapping[str, str], output: Reader, errors: Reader | None
    ) -> None:
        writers: list[int] = []
        try:
            for reader in (output, errors):
                if reader is not None:
                    read_end, write_end = os.pipe()
                    writers.append(write_end)
                    self._readers[read_end] = reader
                    os.set_blocking(read_end, False)
            self._process = subprocess.Popen(  # noqa: S603 - argv comes from a judged call, never through a shell of ours
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=writers[0],
                stderr=writers[1] if errors is not None else subprocess.STDOUT,
                cwd=_folder(cwd),
                env=dict(env),
                start_new_session=True,
                pass_fds=self._pass_fds,
            )
        finally:
            for write_end in writers:
                os.close(write_end)
        for read_end in self._readers:
            self._loop.add_reader(read_end, self._read, read_end)
        self._watch_exit()

    def watch_by(self, watch: TreeWatch | None) -> None:
        """Lets `watch` end this command; on Linux only."""
        if watch is not None and self._process is not None and _LINUX:
            self._watch = watch
            watch.enter(self._process.pid, self._over_a_bound)

    async def first_reason(self, timeout: float, cancel: Cancel | None) -> _Reason:
        """Waits for the first thing that ends the command."""
        timer = self._loop.call_later(timeout, self._settle, "timeout")
        wish = None if cancel is None else asyncio.ensure_future(cancel.wait())
        if wish is not None:
            wish.add_done_callback(self._wished)
        try:
            return await self._reason
        finally:
            timer.cancel()
            if wish is not None:
                wish.cancel()
                await asyncio.wait({wish})

    async def wait_exit(self, seconds: float) -> None:
        await asyncio.wait({self._exited}, timeout=seconds)

    async def wait_pipes(self, seconds: float) -> None:
        """Reads on until every pipe is closed, a reader has enough, or the time is over."""
        await asyncio.wait({self._drained}, timeout=seconds)

    def ask_to_end(self) -> None:
        """Sends TERM to the command; not to a leader that only holds it, whose end would leave it no time."""
        if self._process is None:
            return
        if self._hold == "group":
            self.signal_group(signal.SIGTERM)
        else:
            ask_to_end(self._process.pid)

    def signal_group(self, number: int) -> None:
        # The leader is not reaped before the end of `end`, so its number still names this group and no other.
        if self._process is not None and not self._over:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)

    async def end(self, mark: str | None) -> int:
        """Kills what is left, reaps the leader, closes every descriptor; returns how many others were alive."""
        left = 0
        if self._watch is not None and self._process is not None:
            self._watch.leave(self._process.pid)
        try:
            if self._process is not None:
                left = await self._kill_tree(mark)
                self.signal_group(signal.SIGKILL)
                await self.wait_exit(_REAP_SECONDS)
        finally:
            self.signal_group(signal.SIGKILL)  # also when the wait above was itself cancelled
            self._over = True
            for read_end in list(self._readers):
                self._close_pipe(read_end)
            if self._pidfd is not None:
                self._loop.remove_reader(self._pidfd)
                os.close(self._pidfd)
                self._pidfd = None
            if self._poller is not None:
                self._poller.cancel()
            if self._process is not None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    # Killed or ended already: this only collects its status.
                    self._process.wait(timeout=_REAP_SECONDS)
            for future in (self._reason, self._exited, self._drained):
                future.cancel()
        if self._process is not None and not (_LINUX and (mark is not None or self._hold == "leader")):
            await _group_gone(self._process.pid)  # a look at every process has not told it
        return left

    async def _kill_tree(self, mark: str | None) -> int:
        """Kills what the group's own KILL would miss; returns how many processes beside the leader that were."""
        assert self._process is not None
        leader = self._process.pid
        if not _LINUX or self._hold == "leader":
            return 0  # the kernel kills them with the leader
        # In one call, so that none of the group can multiply in the meantime: what is looked for below may be many.
        self.signal_group(signal.SIGSTOP)
        killed: set[int] = set()
        if self._hold == "reaper" and not self._exited.done():
            killed = await kill_all(Descended(leader), _REAP_SECONDS)
        if mark is not None:
            killed |= await kill_all(Marked(f"{TREE_MARK}={mark}"), _REAP_SECONDS)
        return len(killed - {leader})

    def _over_a_bound(self, excess: Excess) -> None:
        self.excess = excess
        self.signal_group(signal.SIGKILL if self._hold == "leader" else signal.SIGSTOP)  # it must not grow until `end`
        self._settle("excess")

    def _wished(self, wish: asyncio.Future[bool]) -> None:
        if not wish.cancelled():
            self._settle("cancel")

    def _settle(self, reason: _Reason) -> None:
        if not self._reason.done():
            self._reason.set_result(reason)

    def _watch_exit(self) -> None:
        assert self._process is not None
        if _LINUX:
            with contextlib.suppress(OSError):  # an old kernel or a seccomp filter
                self._pidfd = os.pidfd_open(self._process.pid)
                self._loop.add_reader(self._pidfd, self._on_exit)
                return
        self._poller = self._loop.create_task(self._poll(self._process))

    def _on_exit(self) -> None:
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
        if not self._exited.done():
            self._exited.set_result(None)
        self._settle("exit")

    async def _poll(self, process: subprocess.Popen[bytes]) -> None:
        while not _has_ended(process):  # noqa: ASYNC110 - no event tells of it here
            await asyncio.sleep(_POLL_SECONDS)
        self._on_exit()

    def _read(self, read_end: int) -> None:
        try:
            data = os.read(read_end, _READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self._close_pipe(read_end)
            return
        self.seen += len(data)
        try:
            enough = self._readers[read_end](data)
        except Exception as error:  # a reader's fault must not vanish in the loop's handler
            self.fault = error
            self._close_pipes("fault")
            return
        if enough:
            self._close_pipes("enough")
        elif self.seen > self._max_output_bytes:
            self._close_pipes("overflow")

    def _close_pipes(self, reason: _Reason) -> None:
        for read_end in list(self._readers):
            self._close_pipe(read_end)
        self._settle(reason)

    def _close_pipe(self, read_end: int) -> None:
        del self._readers[read_end]
        self._loop.remove_reader(read_end)
        os.close(read_end)
        if not self._readers and not self._drained.done():
            self._drained.set_result(None)


def _folder(cwd: str | int) -> str:
    """A path for an open folder that a swapped symlink cannot redirect (on Linux; elsewhere its present path)."""
    if isinstance(cwd, str):
        return cwd
    if _LINUX:
        return f"/proc/self/fd/{cwd}"  # resolved by the child, before its descriptors are closed
    import fcntl  # not on every system

    raw: bytes = fcntl.fcntl(cwd, getattr(fcntl, "F_GETPATH", 50), bytes(1024))
    return os.fsdecode(raw.rstrip(b"\0"))


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """True once the process has ended; it is left unreaped where the system can do that."""
    if hasattr(os, "waitid"):
        try:
            return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return True
    return process.poll() is not None


async def _group_gone(group: int) -> None:
    """Returns once no process of a killed group is left: a KILL takes a moment to be felt."""
    deadline = time.monotonic() + _REAP_SECONDS
    with contextlib.suppress(ProcessLookupError, PermissionError):
        while time.monotonic() < deadline:
            os.killpg(group, 0)  # only asks
            await asyncio.sleep(0.001)
