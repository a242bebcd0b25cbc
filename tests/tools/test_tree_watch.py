"""What the commands of a run hold together is bounded, and what multiplies is ended (P7, P8)."""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from sluice.limits import MIB, Limits
from sluice.tools import bash, git_status, keeper, rg_search, tree_watch
from sluice.tools.process import Ended, environment
from sluice.tools.sandbox import Sandbox, available
from sluice.tools.tree_watch import TreeWatch

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="NOT CHECKED: what commands hold, on another system"),
    pytest.mark.parametrize("bench", ["openat2"], indirect=True),
]
KINDS = pytest.mark.parametrize("kind", ["bubblewrap", "landlock", "off"])
PYTHON = f"{Path(sys.executable).resolve()} -I -S -c"


@pytest.fixture
def boxed(bench: Any) -> Any:
    made: list[Sandbox] = []

    def new(kind: Any, **limits: int) -> Any:
        if kind == "bubblewrap" and available() != "bubblewrap":
            pytest.skip("NOT CHECKED: bubblewrap gives no sandbox on this machine")
        if kind == "landlock" and keeper.landlock_version() < keeper.LEAST_LANDLOCK:
            pytest.skip("NOT CHECKED: this kernel has no Landlock")
        bench.limits(**limits)
        made.append(Sandbox(str(bench.root), kind=kind, limits=bench.context.limits))
        bench.context.sandbox = made[-1]
        return bench

    yield new
    for box in made:
        box.close()


def hold(mib: int, more: str = "") -> str:
    """A command that holds so much memory until `go` is there, or for ever."""
    program = (
        f"import os, time\nheld = bytearray(os.urandom(4096)) * {mib * 256}\n{more}\nopen(str(os.getpid()), 'w')\n"
        "while not os.path.exists('go'):\n    time.sleep(0.02)\n"
    )
    return f'{PYTHON} "{program}"'


@KINDS
def test_memory_over_the_bound_ends_the_command(kind: str, boxed: Any) -> None:
    bench = boxed(kind, max_run_memory_bytes=150 * MIB)
    result = bench.call(bash, command=hold(250))
    assert (result.ok, result.status, result.error.code) == (False, "failed", "memory_limit")
    assert "157286400 bytes" in result.content
    (bench.root / "go").touch()
    assert bench.call(bash, command=hold(80)).ok  # the control


@pytest.mark.parametrize("kind", ["bubblewrap", "off"])
def test_shared_memory_counts_once(kind: str, boxed: Any) -> None:
    bench = boxed(kind, max_run_memory_bytes=250 * MIB)
    forks = "children = [os.fork() for _ in range(2)]"  # three children beside the first, which share its memory
    all_are_there = "while [ $(ls | grep -c '^[0-9]') -lt 4 ]; do sleep 0.02; done"
    command = f"({hold(100, forks)}) & {all_are_there}; sleep 0.3; touch go; wait"
    assert bench.call(bash, command=command).error is None


def test_of_several_commands_the_one_that_holds_most_is_ended(boxed: Any) -> None:
    bench = boxed("off" if available() != "bubblewrap" else "bubblewrap", max_run_memory_bytes=200 * MIB)

    async def run(command: str) -> Ended:
        folder = os.open(bench.root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            words = ["/bin/bash", "-c", command]
            ran = await bench.context.sandbox.run(
                words, folder=folder, env=environment(), timeout=60, output=lambda data: None
            )
            return ran.ended
        finally:
            os.close(folder)

    async def main() -> tuple[Ended, Ended]:
        small = asyncio.ensure_future(run(hold(90)))
        large = await run(hold(130))
        assert not small.done()
        (bench.root / "go").touch()
        return large, await small

    large, small = asyncio.run(main(), debug=True)
    assert (large.excess, small.excess, small.exit_code) == ("memory", None, 0)


BOMB = "f() { [ $1 -gt 0 ] && { f $(($1 - 1)) & f $(($1 - 1)) & }; sleep 600; }; "  # ends with 2^depth processes, and sleeps


@KINDS
@pytest.mark.parametrize("session", ["one session", "a session each"])
def test_a_fork_bomb_is_ended(kind: str, session: str, boxed: Any) -> None:
    """Root is exempt from the kernel's own bound: without numbers of their own, processes are counted by us.

    The bomb ends by itself at a thousand processes, so that a fault here does not end the machine.
    """
    bench = boxed(kind, max_command_processes=150)
    bomb = BOMB + "f 9" if session == "one session" else BOMB.replace("sleep 600", "setsid sleep 600 & wait") + "f 8"
    result = bench.call(bash, command=bomb, timeout_ms=30_000)
    assert not result.ok
    if kind != "bubblewrap" and os.getuid() == 0:
        assert result.error.code == "process_limit"
    else:
        assert result.error.code == "process_limit" or "Resource temporarily unavailable" in result.content
    assert not [pid for pid in os.listdir("/proc") if pid.isdigit() and _in(pid, bench.root)]


@KINDS
def test_as_many_processes_as_may_be_are_left_alone(kind: str, boxed: Any) -> None:
    bench = boxed(kind, max_command_processes=150)
    assert bench.call(bash, command="for i in $(seq 100); do sleep 0.4 & done; wait").ok


def _in(pid: str, folder: Path) -> bool:
    try:
        return os.readlink(f"/proc/{pid}/cwd") == str(folder)
    except OSError:
        return False


def test_what_the_kernel_should_end_first_are_the_commands(boxed: Any) -> None:
    for kind in ("bubblewrap", "landlock", "off"):
        result = boxed(kind).call(bash, command="cat /proc/self/oom_score_adj")
        assert result.content == "1000"


def test_memory_files_are_bounded(boxed: Any) -> None:
    command = (
        "head -c 600M /dev/zero >/dev/shm/x; stat -c %s /dev/shm/x; echo x >/dev/made; echo fine >/dev/null && echo ok"
    )
    result = boxed("bubblewrap").call(bash, command=command)
    assert "No space left" in result.content
    assert int(result.content.split("\n")[1]) == 512 * MIB
    assert "/dev/made: Read-only" in result.content
    assert result.content.endswith("ok")


def test_the_bound_is_never_all_of_the_machine(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_watch, "machine_memory_bytes", lambda: 4000)
    assert TreeWatch(10**15, 1).max_memory_bytes == 3000
    assert TreeWatch(100, 1).max_memory_bytes == 100
    assert Limits().max_run_memory_bytes == 16 * 1024 * MIB


def test_a_look_that_breaks_is_not_the_last(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls, told = tree_watch.measure, [0], []

    def breaking(trees: Any) -> None:
        calls[0] += 1
        if calls[0] == 1:
            raise RuntimeError("broken")
        real(trees)

    monkeypatch.setattr(tree_watch, "measure", breaking)

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context))
        ended = asyncio.Event()
        watch = TreeWatch(1, 10**6)
        watch.enter(os.getpid(), lambda excess: ended.set())
        async with asyncio.timeout(20):
            await ended.wait()

    asyncio.run(main())
    assert len(told) == 1


def test_the_watch_leaves_no_timer(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        looked = asyncio.Event()
        monkeypatch.setattr(tree_watch, "measure", lambda trees: looked.set())
        watch = TreeWatch(10**9, 10**6)
        watch.enter(os.getpid(), lambda excess: None)
        async with asyncio.timeout(20):
            await looked.wait()
        assert watch._timer is not None
        watch.leave(os.getpid())
        watch.leave(os.getpid())
        assert watch._timer is None

    asyncio.run(main(), debug=True)


def test_programs_of_our_own_tools_are_watched_as_well(bench: Any) -> None:
    """Git and ripgrep run outside of the sandbox; what they hold counts with the commands."""
    seen: list[int] = []

    class Listening(TreeWatch):
        def enter(self, root: int, end: Any) -> None:
            seen.append(root)
            super().enter(root, end)

    box = Sandbox(str(bench.root), kind="off")
    box.watch = Listening(10**9, 100)
    bench.context.sandbox = box
    assert bench.call(git_status).ok is False  # no repository; no program is run
    bench.call(bash, command="git init -q .")
    assert bench.call(git_status).ok
    assert bench.call(rg_search, query="one").ok
    assert len(seen) >= 3
    box.close()


def test_looks_do_not_multiply(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look is a whole interval behind the one before it, however many commands come and go in between."""
    looks: list[float] = []

    async def main() -> None:
        enough = asyncio.Event()
        watch = TreeWatch(10**9, 10**6)

        def look(trees: Any) -> None:
            looks.append(time.monotonic())
            for root in (1, 2):
                watch.enter(root, lambda excess: None)
                watch.leave(root)
            if len(looks) == 5:
                enough.set()

        monkeypatch.setattr(tree_watch, "measure", look)
        watch.enter(os.getpid(), lambda excess: None)
        async with asyncio.timeout(20):
            await enough.wait()
        watch.leave(os.getpid())

    asyncio.run(main())
    assert all(later - earlier > 0.09 for earlier, later in itertools.pairwise(looks))
