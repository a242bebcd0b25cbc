"""What an interaction looks up and writes down beside its runs: the situation, the policy in words, sessions, exports."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from sluice.errors import ConfigurationError
from sluice.policy.decide import judge
from sluice.policy.rules import Policy
from sluice.run.doctor import examined
from sluice.run.doctor import lines as report_lines
from sluice.run.grants import SessionGrants
from sluice.run.interaction import SessionRow, Situation
from sluice.run.parts import Parts
from sluice.run.seat import Seat, in_thread
from sluice.run.sessions import exported, listed, store_path, undone
from sluice.run.settings import Settings
from sluice.run.wiring import state_folder
from sluice.tools.sandbox import available
from sluice.values.calls import CallKey, ToolSpec, call_digest
from sluice.values.messages import Usage
from sluice.values.notices import RunFinished

MOST_SESSIONS = 200  # in one list
_ANY_CALL = CallKey("", 0, 0)
_STATES = {"allow": "allowed", "ask": "asked", "deny": "blocked"}
_NAMED = 20  # files in the note about an undo
_NOT_STORED = "nothing of this session is stored yet"


# -- looking


def situation(settings: Settings, seat: Seat, sandbox: str, running: bool) -> Situation:
    """What the status line shows."""
    parts, spending = seat.agent.parts, seat.spending
    return Situation(
        model=settings.model,
        workspace=settings.workspace,
        session=seat.agent.session,
        policy=policy_words(parts.policy),
        sandbox=sandbox,
        running=running,
        context_tokens=seat.context_tokens,
        context_estimated=seat.context_estimated,
        window_tokens=parts.window_tokens,
        usage=spending.usage,
        cost=spending.cost,
        turns=spending.turns,
        job=parts.in_front() is not None,
    )


def sandbox_words(settings: Settings) -> str:
    """What holds commands here, in a word; finds it out by trying, which takes a moment the first time."""
    if settings.sandbox == "off":
        return "none"
    kind = available()
    return {"landlock": "Landlock"}.get(kind, kind)


def policy_words(policy: Policy) -> str:
    """The mode in a few words."""
    if policy.broken is not None:
        return "denies all"
    if policy.allow_execution_tools:
        return "edits and commands" if policy.allow_mutating_tools else "commands"
    if policy.allow_mutating_tools:
        return "edits"
    return "asks" if policy.ask else "read only"


def tools(parts: Parts, grants: SessionGrants) -> tuple[tuple[str, str, str], ...]:
    """Name, category and state of every offered tool. A rule for commands makes the whole tool one that is asked about."""
    return tuple((spec.name, spec.category, _state(spec, parts.policy, grants)) for spec in parts.executor.specs())


def _state(spec: ToolSpec, policy: Policy, grants: SessionGrants) -> str:
    verdict = judge(spec, _ANY_CALL, call_digest(spec.name, "{}"), "{}", policy)
    if verdict.decision == "ask" and verdict.rule == "not_approved" and grants.covers_tool(spec.name):
        return "allowed"
    return _STATES[verdict.decision]


def policy_lines(settings: Settings, parts: Parts, grants: SessionGrants, sandbox: str) -> tuple[str, ...]:
    """The policy in force in plain words. What a model wrote is in the lines of grants, unescaped."""
    policy = parts.policy

    def lines() -> Iterator[str]:
        if policy.broken is not None:
            yield f"every call is denied: the rules cannot be used ({policy.broken})"
            return
        otherwise = "asked about" if policy.ask else "blocked"
        yield "reading: allowed"
        yield f"changing files: {'allowed' if policy.allow_mutating_tools else otherwise}"
        spared = " (but for commands known to read only)" if policy.ask and policy.spare_read_only else ""
        yield f"running commands: {'allowed' if policy.allow_execution_tools else otherwise + spared}"
        for rule in policy.rules:
            yield f"rule {rule.named()}, from {rule.origin}"
        for line in grants.lines():
            yield f"allowed for this session: {line}"
        yield f"sandbox for commands: {sandbox}{_reach(settings)}"
        if settings.allow_unsandboxed and sandbox == "none":
            yield "commands run without a sandbox, as you allowed"

    return tuple(lines())


def _reach(settings: Settings) -> str:
    if settings.allow_network:
        return ", with network"
    return f", reaches {', '.join(settings.allow_host)}" if settings.allow_host else ", no network"


def sessions(settings: Settings) -> tuple[SessionRow, ...]:
    """The sessions of this workspace, the one used last first. Raises `StoreError`."""
    return tuple(
        SessionRow(
            session=one.id,
            title=one.title,
            used=one.last_run_at,
            messages=one.messages,
            held=one.held_by is not None and one.held_by != os.getpid(),
        )
        for one in listed(settings, False, MOST_SESSIONS)
    )


async def doctor_lines() -> tuple[str, ...]:
    """What `sluice doctor` prints. Being cancelled ends what it tries."""
    return tuple(report_lines(await examined()))


# -- writing


async def undo(settings: Settings, seat: Seat) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Takes back the last changing run of the session: files restored, and a line for each that was not touched."""
    if store_path(settings) is None or not seat.begun:
        return (), ()
    restored, left = await in_thread(lambda: undone(settings, seat.agent.session, state_folder()))
    return tuple(step.path for step in restored), tuple(f"{step.path}: {step.refusal}" for step in left)


def undo_note(restored: tuple[str, ...]) -> str:
    """What the model is told with the next prompt: what it believes of these files is not so any more."""
    names = ", ".join(restored[:_NAMED])
    more = f" and {len(restored) - _NAMED} more" if len(restored) > _NAMED else ""
    return (
        "[Added by Sluice: the user took back what was done to these files, and they hold again what they held before: "
        f"{names}{more}. Read them before you change them.]\n\n"
    )


async def export(settings: Settings, seat: Seat, form: Literal["json", "md"], path: str) -> str:
    """Writes the session to a new file, which only the user can read; returns its absolute path."""
    if store_path(settings) is None or not seat.begun:
        raise ConfigurationError(_NOT_STORED)
    session = seat.agent.session

    def write() -> str:
        try:
            target = Path.cwd() / Path(path).expanduser()
            fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except (OSError, ValueError, RuntimeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ConfigurationError(f"{path!r} cannot be made: {reason}") from None
        try:
            with open(fd, "wb") as file:
                for piece in exported(settings, session, form):
                    file.write(piece)
        except BaseException as error:
            target.unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise ConfigurationError(f"{str(target)!r} cannot be written: {error.strerror or error}") from None
            raise
        return str(target)

    return await in_thread(write)


def broke(words: str) -> RunFinished:
    """The last notice of a run that ended without one: a fault of ours."""
    return RunFinished(
        run="",
        outcome="failed",
        exit_code=1,
        message=f"a fault inside Sluice ended the run: {words}",
        text="",
        message_id="",
        turns=0,
        tool_calls=0,
        usage=Usage(),
        saved=False,
    )
