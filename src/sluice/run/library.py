"""The agent for programs: `Agent`, as `sluice` exports it.

It reads no config file of the user's and none of their variables but those that hold a key: what a program does must not
depend on who runs it. A workspace's own `.sluice/config.toml` still narrows what is allowed.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import msgspec

from sluice.errors import ConfigurationError
from sluice.limits import DEFAULT_LIMITS, Limits
from sluice.policy.rules import Policy, Rules
from sluice.run.agent import Agent as Loop
from sluice.run.config import load, open_workspace, require_key
from sluice.run.images import with_images
from sluice.run.instructions import NO_INSTRUCTIONS, instructions_for
from sluice.run.own_tools import OwnTool
from sluice.run.settings import Settings
from sluice.run.steering import SteeringTicket
from sluice.run.store_places import IN_MEMORY
from sluice.run.sync import last_notice
from sluice.run.wiring import make_policy, open_agent
from sluice.session.memory import MemoryStore
from sluice.session.wish import Wish
from sluice.values.messages import Conversation, ToolCall, UserMessage
from sluice.values.notices import Notice, RunFinished
from sluice.values.ports import Approver, Hooks, Store, Transport


class Agent:
    """An agent over one workspace, and one conversation with it.

        async with Agent(workspace=".", model="anthropic:claude-sonnet-4-5") as agent:
            async for notice in agent.run("What does this project do?"):
                ...

    or, without an event loop, `Agent(...).run_sync("…").text`.

    `workspace` is the folder that tools work in, made if absent. `model` is `provider:name`, or a bare name that is asked
    for over Chat Completions at `base_url`. The key is `api_key`, or stands in `SLUICE_API_KEY` or the provider's own
    variable. `policy` says what is allowed; by default reading only. With an `approver`, what is not allowed is asked.

    `tools` are functions made by `sluice.tool`; `builtin_tools` is `False` for none of the others, or the names of those
    to offer. `system_prompt` takes the place of the built-in words. `limits` bound a run. `hooks` look at it, add to it or
    stop it. `intent` also tells what a call will touch while it is still being written. `agents_md` gives the model what
    the workspace's AGENTS.md files say, as untrusted text.

    `store` keeps the conversation; by default it is kept as the program `sluice` keeps its own, in a file for each
    workspace in the user's data folder, and `session_store` is another file, or `":memory:"` for nothing on disk. `resume`
    is the id of a stored session, or `"last"`. `transport` answers in place of HTTP. A store and a transport that were
    given are not closed.

    `settings` is for all else: `Agent(settings=Settings(…))` takes them as they are, and what is given beside them wins.

    Making an agent does nothing. Entering it raises `ConfigurationError` for what cannot be used (one line that says what
    and why), and `RegistrationError` for a tool that breaks a rule; nothing has been sent then. Leaving it ends what still
    runs, and returns when that is stored. It can be entered again, one after the other: the conversation goes on.
    """

    def __init__(
        self,
        workspace: str | os.PathLike[str] | None = None,
        *,
        model: str | None = None,
        policy: Policy | None = None,
        tools: Sequence[OwnTool[..., Any]] = (),
        builtin_tools: bool | Sequence[str] = True,
        base_url: str | None = None,
        api_key: str | None = None,
        system_prompt: str | None = None,
        limits: Limits | None = None,
        hooks: Hooks | None = None,
        approver: Approver | None = None,
        store: Store | None = None,
        session_store: str | os.PathLike[str] | None = None,
        resume: str | None = None,
        transport: Transport | None = None,
        intent: bool = False,
        agents_md: bool = False,
        settings: Settings | None = None,
    ) -> None:
        self._given = _given(workspace, model, base_url, api_key, session_store)
        self._base = settings
        self._policy = policy
        self._tools = tuple(one.declared() for one in tools)
        self._builtin_tools = builtin_tools if isinstance(builtin_tools, bool) else tuple(builtin_tools)
        self._system_prompt = system_prompt
        self._limits = limits
        self._hooks = hooks
        self._approver = approver
        self._store = store
        self._resume = resume
        self._transport = transport
        self._intent = intent
        self._agents_md = agents_md
        self._open: tuple[AsyncExitStack, Loop] | None = None
        self._in_force = DEFAULT_LIMITS  # those of the agent that is open
        self._left: tuple[Conversation, Conversation] = (), ()  # what it had in memory when it was last closed

    # -- opening

    async def __aenter__(self) -> Self:
        """Opens it; see the class for what is raised, and `RuntimeError` if it is open already."""
        if self._open is not None:
            raise RuntimeError("this agent is open already")
        settings, news = self._settings()
        if self._transport is None:
            require_key(settings)
        store = self._store
        if store is None and settings.session_store == IN_MEMORY and settings.session.how == "new":
            store = self._store = MemoryStore()
        policy = make_policy(settings, ask=self._approver is not None)
        if self._policy is not None and not self._policy.spare_read_only:
            policy = msgspec.structs.replace(policy, spare_read_only=False)
        async with AsyncExitStack() as stack:
            loop = await stack.enter_async_context(
                open_agent(
                    settings,
                    hooks=self._hooks,
                    approver=self._approver,
                    store=store,
                    intent=self._intent,
                    policy=policy,
                    transport=self._transport,
                    tools=self._tools,
                    system_prompt=self._system_prompt,
                    news=news,
                    instructions=instructions_for(settings) if self._agents_md else NO_INSTRUCTIONS,
                )
            )
            if store is None:
                self._resume = loop.session or self._resume
            self._open = stack.pop_all(), loop
            self._in_force = settings.limits
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends what still runs and closes what was opened."""
        stack, loop = self._opened()
        self._open = None
        try:
            await stack.__aexit__(kind, error, trace)
        finally:
            self._left = loop.messages, _messages_of(loop)

    def _opened(self) -> tuple[AsyncExitStack, Loop]:
        if self._open is None:
            raise RuntimeError("this agent is not open: use it inside `async with Agent(…) as agent:`")
        return self._open

    def _settings(self) -> tuple[Settings, list[str]]:
        """What the arguments come to, the workspace made; and the lines that a person should read."""
        news: list[str] = []
        if self._base is not None:
            given = {name: value for name, value in self._given.items() if value is not None}
            settings = _with_variable(msgspec.structs.replace(self._base, **given))
        else:
            flags = {**self._given, **_changed(self._limits)}
            variables = {name: value for name, value in os.environ.items() if name.endswith("_API_KEY")}
            loaded = load(flags, variables, cwd=Path.cwd(), given_as="argument ")
            settings, news = loaded.settings, loaded.warnings
        if self._base is not None and self._limits is not None:
            settings = msgspec.structs.replace(settings, limits=self._limits)
        if self._store is not None and self._resume is not None:
            raise ConfigurationError("resume names a session on disk, and another store was given")
        settings = _allowed(settings, self._policy, self._approver)
        if self._builtin_tools is not True:
            chosen = self._builtin_tools or ()
            own = tuple(one.name for one in self._tools)
            settings = msgspec.structs.replace(settings, tools=(*chosen, *own))
        if self._resume is not None:
            wish = Wish(how="continue") if self._resume == "last" else Wish(how="resume", id=self._resume)
            settings = msgspec.structs.replace(settings, session=wish)
        return open_workspace(settings, Path.cwd()), news

    # -- working

    @property
    def session(self) -> str:
        """The id of the stored session, to come back with `resume`; empty before it is open, and for one in memory."""
        return "" if self._open is None else self._open[1].session

    @property
    def messages(self) -> Conversation:
        """The conversation as it is sent, oldest first, without the system text: what is stored, unless it was made smaller.
        After the agent was closed it is what it was then; empty before it is open."""
        return self._left[0] if self._open is None else self._open[1].messages

    @property
    def unsaved(self) -> Conversation:
        """The messages that the store refused (`RunFinished.saved` is false then), oldest first: they are in memory only.

        A prompt and a reply that were refused are not in `messages`, and the model gets them no more; a call's result is in
        both. After the agent was closed it is what it was then.
        """
        return self._left[1] if self._open is None else _messages_of(self._open[1])

    @property
    def waiting(self) -> tuple[ToolCall, ...]:
        """The calls of a resumed session that wait since its process died, because a person was being asked about the first;
        empty before it is open, and while a run is going. The next run asks about them before anything else."""
        return () if self._open is None else self._open[1].waiting

    def run(
        self, prompt: str | UserMessage | None, *, images: Sequence[str | os.PathLike[str]] = ()
    ) -> AsyncGenerator[Notice, None]:
        """Answers one prompt: an iterator of notices in order, the last of them `RunFinished`, exactly once.

        Calls that wait (`waiting`) are settled first. Without a prompt (`None`) that is all, and the model goes on from
        there; where none waits, nothing is done.

        `images` are files to be shown to the model. For what a model, a tool or a server did it never raises: the outcome
        of `RunFinished` says it. Closing the iterator early, or being cancelled in it, stops the run; tools are ended and
        what happened is stored before that returns. A second run waits for the first. Raises `RuntimeError` if the agent
        is not open, `ConfigurationError` for an image that cannot be used.
        """
        _stack, loop = self._opened()
        return loop.run(with_images(prompt, images, self._in_force) if images and prompt is not None else prompt)

    def steer(self, words: str | UserMessage) -> SteeringTicket:
        """Gives the model words between two turns of the run that is going; a `Steered` notice tells when it gets them.

        If no run is going, or it ends before its next turn, the ticket's `state` is `unsent`, and nothing was stored.
        Raises `RuntimeError` if the agent is not open.
        """
        return self._opened()[1].steer(words)

    def cancel(self, reason: Literal["cancelled", "terminated"] = "cancelled") -> None:
        """Ends the current run and those that wait, with this outcome; their iterators still yield to their ends."""
        if self._open is not None:
            self._open[1].cancel(reason)

    def run_sync(
        self,
        prompt: str | UserMessage | None,
        *,
        images: Sequence[str | os.PathLike[str]] = (),
        watch: Callable[[Notice], None] | None = None,
    ) -> RunFinished:
        """Opens the agent, answers one prompt in an event loop of its own, closes it, and returns the last notice.

        `watch` sees every notice in order. A later call goes on with the conversation. Raises what entering raises, and
        what `watch` raises, after the run has been stopped and stored; a key press (`KeyboardInterrupt`) does the same.
        Raises `RuntimeError` inside a running event loop, and while the agent is open.
        """
        if self._open is not None:
            raise RuntimeError("this agent is open: use `run` inside it, and `run_sync` on one that is not")

        async def once() -> RunFinished:
            async with self, aclosing(self.run(prompt, images=images)) as notices:
                return await last_notice(notices, watch)

        work = once()
        try:
            return asyncio.run(work)
        finally:
            work.close()  # where a running loop refused it


def _messages_of(loop: Loop) -> Conversation:
    return tuple(one.message for one in loop.unsaved)


def _given(
    workspace: str | os.PathLike[str] | None,
    model: str | None,
    base_url: str | None,
    api_key: str | None,
    session_store: str | os.PathLike[str] | None,
) -> dict[str, Any]:
    return {
        "workspace": None if workspace is None else os.fspath(workspace),
        "model": model,
        "base_url": base_url,
        "api_key": api_key,
        "session_store": None if session_store is None else os.fspath(session_store),
    }


def _with_variable(settings: Settings) -> Settings:
    """The settings, with the key of a variable if they name no way to one."""
    if settings.api_key or settings.api_key_file or settings.key_command:
        return settings
    found = (os.environ.get(name, "").strip() for name in ("SLUICE_API_KEY", *settings.route().key_env))
    return msgspec.structs.replace(settings, api_key=next(filter(None, found), None))


def _changed(limits: Limits | None) -> dict[str, Any]:
    """The limits that are not the defaults: a workspace's file may still lower the others."""
    if limits is None:
        return {}
    changed = {name: (getattr(limits, name), getattr(DEFAULT_LIMITS, name)) for name in limits.__struct_fields__}
    return {name: "none" if value is None else value for name, (value, usual) in changed.items() if value != usual}


def _allowed(settings: Settings, policy: Policy | None, approver: Approver | None) -> Settings:
    if policy is None:
        return settings
    if policy.ask and approver is None:
        raise ConfigurationError("the policy asks a person, and nobody can be asked: give an approver")
    rules = Rules((*policy.rules, *settings.rules.rules), policy.broken or settings.rules.broken)
    return msgspec.structs.replace(
        settings,
        allow_mutating_tools=policy.allow_mutating_tools,
        allow_execution_tools=policy.allow_execution_tools,
        accept_healed=policy.accept_healed,
        rules=rules,
    )
