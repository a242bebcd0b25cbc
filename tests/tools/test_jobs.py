"""Commands in the background: started, read, stopped, bounded, and ended with the run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from sluice.limits import Limits
from sluice.tools import bash, job_list, job_read, job_stop
from sluice.tools.jobs import Job, Jobs, TooManyJobsError
from sluice.tools.process import Ended
from sluice.tools.sandbox import Ran
from sluice.values.results import ToolResult

pytestmark = pytest.mark.parametrize("bench", ["openat2"], indirect=True)


def talk(bench: Any, go: Callable[[Callable[..., Awaitable[ToolResult]]], Awaitable[None]]) -> None:
    """Several calls of tools in one loop, with all jobs ended at its end."""

    async def call(module: Any, **arguments: Any) -> ToolResult:
        result: ToolResult = await module.run(msgspec.convert(arguments, module.TOOL.arguments), bench.context)
        return result

    async def main() -> None:
        try:
            await go(call)
        finally:
            await bench.context.jobs.end_all()

    asyncio.run(main(), debug=True)


async def until(call: Any, text: str) -> ToolResult:
    seen = ""
    async with asyncio.timeout(20):
        while True:
            result: ToolResult = await call(job_read, job="job:1")
            seen += result.content
            if text in seen:
                return result
            await asyncio.sleep(0.005)


def test_a_job_is_started_read_and_stopped(bench: Any) -> None:
    async def go(call: Any) -> None:
        started = await call(
            bash, command="echo one; until [ -e go ]; do sleep 0.01; done; echo two; sleep 987", background=True
        )
        assert (started.ok, started.facts["job"]) == (True, "job:1")
        await until(call, "one\n[job:1 running]")
        assert "(nothing new)" in (await call(job_read, job="job:1")).content
        (bench.root / "go").touch()
        assert "one" not in (await until(call, "two")).content  # new output only
        again = await call(job_read, job="job:1", offset=0)
        assert again.content == "one\ntwo\n[job:1 running]"
        assert "running" in (await call(job_list)).content
        assert "job:1 stopped" in (await call(job_stop, job="job:1")).content
        assert "stopped" in (await call(job_list)).content

    talk(bench, go)


def test_a_job_that_ends_at_once_tells_so(bench: Any) -> None:
    async def go(call: Any) -> None:
        await call(bash, command="echo out; exit 3", background=True)
        result = await until(call, "exited with status 3")
        assert not result.facts["running"]

    talk(bench, go)


def test_all_jobs_end_together(bench: Any) -> None:
    """That no process is left is checked after every test."""

    async def go(call: Any) -> None:
        for _ in range(3):
            await call(bash, command="trap '' TERM; setsid sleep 987 & wait", background=True)
        await bench.context.jobs.end_all()
        assert bench.context.jobs.all() == ()

    talk(bench, go)


def test_unknown_jobs_are_told(bench: Any) -> None:
    async def go(call: Any) -> None:
        for module in (job_read, job_stop):
            result = await call(module, job="job:9")
            assert (result.ok, result.error.code) == (False, "unknown_job")

    talk(bench, go)


async def _ends(output: Any, cancel: Any) -> Ran:
    await cancel.wait()
    return Ran(Ended(None, None, cancelled=True))


def test_only_so_many_run_at_one_time(bench: Any) -> None:
    async def main() -> None:
        jobs = Jobs(Limits(max_jobs=2))
        first = await jobs.start("a", _ends, 0)
        await jobs.start("b", _ends, 0)
        with pytest.raises(TooManyJobsError):
            await jobs.start("c", _ends, 0)
        await first.stop()
        await jobs.start("d", _ends, 0)
        await jobs.end_all()

    asyncio.run(main())


def test_output_is_bounded_and_what_is_lost_is_told(bench: Any) -> None:
    async def main() -> None:
        async def begin(output: Any, cancel: Any) -> Ran:
            output("é".encode() * 30 + b"\xc3")
            return Ran(Ended(0, None))

        job = Job("job:1", "x", 20)
        await job.start(begin)
        piece = job.read(10)
        assert (piece.lost, piece.start, piece.total, len(piece.data)) == (41, 41, 61, 9)  # a character is not cut
        assert job.read(100).end == 61
        assert job.read(100).data == b""

    asyncio.run(main())


def test_a_command_that_cannot_run_is_told(bench: Any) -> None:
    async def main() -> None:
        async def begin(output: Any, cancel: Any) -> Ran:
            raise OSError("no such thing")

        job = await Jobs().start("x", begin, 1.0)
        assert (job.running, job.problem) == (False, "no such thing")

    asyncio.run(main())


def moved_after(bench: Any, **arguments: Any) -> tuple[Any, list[Any]]:
    """What a call answers whose command is moved once it has printed, and what was read of the job afterwards."""
    context = bench.context
    read: list[Any] = []

    async def go(call: Any) -> None:
        running = asyncio.ensure_future(call(bash, **arguments))
        async with asyncio.timeout(20):
            while not (bench.root / "begun").exists():
                await asyncio.sleep(0.005)
        assert context.jobs.in_front == arguments["command"]
        assert context.jobs.to_background() == "job:1"
        assert context.jobs.to_background() is None  # once
        read.append(await running)
        assert context.jobs.in_front is None
        (bench.root / "go").touch()
        seen = ""
        async with asyncio.timeout(20):
            while "exited with status 5" not in seen:
                seen += (await call(job_read, job="job:1")).content
                await asyncio.sleep(0.005)
        read.append(seen)

    talk(bench, go)
    return read[0], read[1:]


UNTIL_GO = "echo one; touch begun; until [ -e go ]; do read -t 0.01 <> <(:); done; echo two; exit 5"


def test_a_running_command_is_moved_to_the_background(bench: Any) -> None:
    answered, later = moved_after(bench, command=UNTIL_GO)
    assert (answered.ok, answered.status, answered.facts["job"]) == (True, "ok", "job:1")
    assert answered.content.startswith("one\n[the user moved it to the background: job:1;")
    assert "two" in later[0]
    assert "one" not in later[0]  # what the call has shown is not new


def test_a_moved_command_has_no_timeout_and_no_caller_any_more(bench: Any) -> None:
    """The call's time is over and its cancel is set while the job still runs."""
    wish = asyncio.Event()
    bench.context.cancel = wish

    async def go(call: Any) -> None:
        running = asyncio.ensure_future(call(bash, command=UNTIL_GO, timeout_ms=1500))
        while not (bench.root / "begun").exists():
            await asyncio.sleep(0.005)
        assert bench.context.jobs.to_background() == "job:1"
        await running
        wish.set()
        await asyncio.sleep(1.6)  # what is tested is that a time passes without effect
        assert bench.context.jobs.get("job:1").running
        assert "job:1 stopped" in (await call(job_stop, job="job:1")).content

    talk(bench, go)


def test_nothing_is_moved_where_nothing_waits_or_all_places_are_taken(bench: Any) -> None:
    async def main() -> None:
        jobs = Jobs(Limits(max_jobs=1))
        assert jobs.to_background() is None
        await jobs.start("a", _ends, 0)
        wish = asyncio.Event()
        front = asyncio.ensure_future(jobs.wait_for("b", _ends, lambda data: None, 100, wish))
        await asyncio.sleep(0)
        assert jobs.in_front is None
        assert jobs.to_background() is None
        wish.set()
        ran = await front
        assert isinstance(ran, Ran)
        assert ran.ended.cancelled
        await jobs.end_all()

    asyncio.run(main())


def test_a_call_that_is_itself_cancelled_leaves_nothing_in_front(bench: Any) -> None:
    async def main() -> None:
        jobs = Jobs()
        front = asyncio.ensure_future(jobs.wait_for("b", _ends, lambda data: None, 100, asyncio.Event()))
        await asyncio.sleep(0)
        assert jobs.in_front == "b"
        front.cancel()
        await asyncio.wait({front})
        assert jobs.in_front is None
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
