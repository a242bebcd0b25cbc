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
