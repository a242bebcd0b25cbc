"""A run from the outside: its exit code, signals, output that nobody reads, errors, and nothing left behind."""

from __future__ import annotations

import asyncio
import io
import logging
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from sluice.errors import ConfigurationError, InternalError
from sluice.run.config import Settings
from sluice.ui.headless import run_prompt, start_logging
from sluice.ui.json_stream import StreamJsonFace
from sluice.values.messages import Usage
from sluice.values.notices import Notice, RunFinished, TextNotice

CODES = {"completed": 0, "cancelled": 130, "terminated": 143, "loop": 3}


def finished(outcome: str) -> RunFinished:
    return RunFinished(
        run="r",
        outcome=outcome,
        exit_code=CODES[outcome],
        message="",
        text="",
        message_id="m",
        turns=1,
        tool_calls=0,
        usage=Usage(),
    )


class ScriptedAgent:
    """Says `words`, each after its signal if it is one; with `wait` it then waits to be cancelled."""

    def __init__(self, *words: Any, outcome: str = "completed", wait: bool = False) -> None:
        self.words = words
        self.outcome = outcome
        self.wait = wait
        self.reasons: list[str] = []
        self.opened = self.closed = False
        self.asked = asyncio.Event()

    def cancel(self, reason: str) -> None:
        self.reasons.append(reason)
        self.asked.set()

    async def run(self, prompt: str) -> AsyncIterator[Notice]:
        for word in self.words:
            if isinstance(word, signal.Signals):
                os.kill(os.getpid(), word)
                await asyncio.sleep(0)
            elif isinstance(word, Exception):
                raise word
            else:
                yield TextNotice(turn=1, text=f"{prompt}{word}")
        if self.wait:
            await self.asked.wait()
        yield finished(self.reasons[0] if self.reasons else self.outcome)

    @asynccontextmanager
    async def open(self, _settings: Settings) -> AsyncIterator[ScriptedAgent]:
        self.opened = True
        try:
            yield self
        finally:
            self.closed = True


class Seen:
    def __init__(self, fault: Exception | None = None) -> None:
        self.notices: list[Notice] = []
        self.fault = fault
        self.closes = 0

    def show(self, notice: Notice) -> None:
        self.notices.append(notice)
        if self.fault is not None:
            raise self.fault

    def close(self) -> None:
        self.closes += 1


def follow(agent: ScriptedAgent, face: Any, **more: Any) -> int:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        return run_prompt(agent.open, Settings(), "p", face, **more)
    finally:
        assert agent.closed is agent.opened
        assert {number: signal.getsignal(number) for number in before} == before


@pytest.mark.parametrize("outcome", ["completed", "loop"])
def test_the_exit_code_is_that_of_the_last_notice(outcome: str) -> None:
    face = Seen()
    assert follow(ScriptedAgent("a", "b", outcome=outcome), face) == CODES[outcome]
    assert [type(notice).__name__ for notice in face.notices] == ["TextNotice", "TextNotice", "RunFinished"]
    assert face.closes == 1


@pytest.mark.parametrize(
    ("number", "reason"),
    [(signal.SIGINT, "cancelled"), (signal.SIGTERM, "terminated"), (signal.SIGHUP, "terminated")],
)
def test_a_signal_asks_the_run_to_end_and_its_last_notice_is_shown(number: signal.Signals, reason: str) -> None:
    agent, face = ScriptedAgent("a", number, wait=True), Seen()
    assert follow(agent, face) == CODES[reason]
    assert agent.reasons == [reason]
    assert isinstance(face.notices[-1], RunFinished)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_that_comes_once_patience_is_over_leaves_at_once(number: signal.Signals, code: int) -> None:
    agent = ScriptedAgent(number, number, wait=True)
    with pytest.raises(SystemExit) as caught:
        follow(agent, Seen(), patience=0.0)
    assert caught.value.code == code


def test_a_storm_of_signals_is_one_wish() -> None:
    agent, face = ScriptedAgent(signal.SIGINT, *[signal.SIGINT] * 20, signal.SIGTERM, wait=True), Seen()
    assert follow(agent, face) == 130
    assert agent.reasons == ["cancelled"]
    assert isinstance(face.notices[-1], RunFinished)


def test_a_signal_before_the_agent_is_open_ends_the_start() -> None:
    @asynccontextmanager
    async def slow(_settings: Settings) -> AsyncIterator[Any]:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.Event().wait()
        yield None

    assert run_prompt(slow, Settings(), "p", Seen()) == 143


def test_a_signal_that_was_ignored_stays_ignored() -> None:
    old = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert follow(ScriptedAgent(signal.SIGHUP, "a"), Seen()) == 0
    finally:
        signal.signal(signal.SIGHUP, old)


def test_output_that_nobody_reads_ends_the_run_quietly() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    agent = ScriptedAgent("a", wait=True)
    out = os.fdopen(write_end, "wb", buffering=0)
    try:
        assert follow(agent, StreamJsonFace(out)) == 0  # type: ignore[arg-type]
    finally:
        out.close()
    assert agent.reasons == ["cancelled"]


def test_a_full_disk_under_standard_output_ends_the_run_and_is_an_error() -> None:
    agent, face = ScriptedAgent("a", wait=True), Seen(OSError(28, "No space left on device"))
    with pytest.raises(OSError, match="No space"):
        follow(agent, face)
    assert agent.reasons == ["cancelled"]
    assert len(face.notices) == 1


def test_errors_of_the_agent_pass_through_and_the_face_is_closed() -> None:
    face = Seen()
    with pytest.raises(ValueError, match="odd"):
        follow(ScriptedAgent("a", ValueError("odd")), face)
    assert face.closes == 1

    @asynccontextmanager
    async def refuses(_settings: Settings) -> AsyncIterator[Any]:
        raise ConfigurationError("no such tool")
        yield None

    with pytest.raises(ConfigurationError):
        run_prompt(refuses, Settings(), "p", Seen())


def test_a_run_without_its_last_notice_is_a_fault_of_ours() -> None:
    class Mute(ScriptedAgent):
        async def run(self, prompt: str) -> AsyncIterator[Notice]:
            yield TextNotice(turn=1, text=prompt)

    with pytest.raises(InternalError):
        follow(Mute(), Seen())


@pytest.mark.parametrize("debug", [False, True])
def test_a_log_record_is_one_line_without_controls_unless_debugging(debug: bool) -> None:
    err = io.StringIO()
    stop = start_logging(err, debug)
    log = logging.getLogger("sluice.test")
    try:
        log.debug("detail")
        try:
            raise ValueError("\x1b[2Jodd")
        except ValueError:
            log.exception("it\x1b[2J broke\nbadly")
    finally:
        stop()
    log.error("after")
    text = err.getvalue()
    assert "\x1b" not in text
    assert "after" not in text
    assert ("Traceback" in text) is debug
    assert ("detail" in text) is debug
    if not debug:
        assert text == "sluice.test: it␛[2J broke (ValueError; --debug shows more)\n"
