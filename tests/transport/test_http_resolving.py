"""A name server that never answers must not stall the loop, the close or the exit."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path

import pycurl
import pytest

from sluice.transport import http

HOLE = Path(__file__).with_name("black_hole.py")

# The resolver of this place gives up after minutes; the run is ended after 40 s. So an exit in time is the proof.
PROGRAM = """
import asyncio
from sluice.errors import TransportError
from sluice.limits import Limits
from sluice.testing.replay_server import ReplayServer
from sluice.transport import http
from sluice.transport.http import HttpTransport
from sluice.values.requests import Request

REQUEST = Request(dialect="openai_chat", path="/chat/completions", body=b"{}")

async def main():
    lost = HttpTransport("http://models.example.org/v1", "key", Limits(connect_seconds=0.3))
    cancelled = asyncio.ensure_future(lost.send(REQUEST))
    failed = asyncio.ensure_future(lost.send(REQUEST))
    async with ReplayServer([b"data: 1\\n\\n"]) as server:
        local = HttpTransport(server.url)
        answered = 0
        while not failed.done():
            exchange = await local.send(REQUEST)
            while await exchange.read():
                pass
            answered += 1
            cancelled.cancel()
        await local.close()
    assert cancelled.cancelled()
    assert isinstance(failed.exception(), TransportError), failed
    assert failed.exception().kind == "connect_timeout"
    assert answered > 1, "the loop stood still"
    await lost.close()
    print("closed", len(http._parked))

asyncio.run(main())
asyncio.run(main())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux namespaces")
def test_neither_loop_nor_close_nor_exit_waits_for_a_silent_name_server() -> None:
    command = [sys.executable, str(HOLE), sys.executable, "-X", "dev", "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, timeout=55, check=False)
    if done.returncode == 77:
        pytest.skip("this kernel gives no user namespaces")
    assert done.stderr == ""
    assert (done.returncode, done.stdout) == (0, "closed 1\nclosed 2\n")


def test_a_parked_handle_is_closed_when_its_resolver_must_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        driver = http.CurlLoop()
        driver.resolving()
        multi = driver._multi
        driver.close()
        assert not multi.closed
        assert [parked for _, parked in http._parked] == [multi]
        monkeypatch.setattr(http, "RESOLVE_SECONDS", 0)
        http.CurlLoop().close()
        assert multi.closed
        assert not http._parked

    asyncio.run(run())

    monkeypatch.setattr(http, "RESOLVE_SECONDS", 1e9)
    made = [pycurl.CurlMulti() for _ in range(http.MAX_PARKED + 3)]
    for multi in made:
        http._park(multi, time.monotonic())
    assert [multi.closed for multi in made] == [True] * 3 + [False] * http.MAX_PARKED
    monkeypatch.setattr(http, "RESOLVE_SECONDS", 0)
    http._close_parked()
    assert all(multi.closed for multi in made)
