"""The only place that constructs: settings in, an agent out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from sluice.errors import ConfigurationError
from sluice.policy.rules import Policy, blocked_categories
from sluice.run import system_prompt as prompts
from sluice.run.agent import Agent
from sluice.run.api_key import with_key
from sluice.run.config import Settings
from sluice.run.conversation import Talk
from sluice.run.instructions import NO_INSTRUCTIONS, Instructions
from sluice.run.keeping import kept_within
from sluice.run.models import without_password
from sluice.run.parts import NoHooks, Parts
from sluice.run.prices import UNKNOWN, ModelEntry, find_model, with_prices
from sluice.run.recalling import recalled
from sluice.run.sessions import SessionJournal, open_store
from sluice.run.store_places import data_folder, store_files, store_path
from sluice.session.audit import AuditLog
from sluice.session.blobs import BlobJournal
from sluice.session.memory import MemoryStore
from sluice.session.private_folder import take_others_rights
from sluice.tools.builtin import default_tools
from sluice.tools.jobs import Jobs
from sluice.tools.process import environment
from sluice.tools.registry import Executor, Registry, Tool, ToolContext
from sluice.tools.sandbox import Sandbox
from sluice.tools.seen import SeenFiles
from sluice.tools.spill import Spill
from sluice.tools.workspace import Workspace
from sluice.values.calls import Category, place_digest
from sluice.values.messages import UserMessage
from sluice.values.ports import Approver, Cancel, Hooks, Journal, Store, Transport
from sluice.wire.dialects import DIALECTS
from sluice.wire.dialects.base import Dialect
from sluice.wire.inline_calls import INLINE_FORMS

if TYPE_CHECKING:
    from sluice.tools.allowed_hosts import Host

_BLOCKED_WORDS: dict[Category, str] = {
    "read_only": "reading files",
    "mutating": "changing files (the user can allow it with --allow-mutating-tools)",
    "execution": "running commands (the user can allow it with --allow-execution-tools)",
}


@asynccontextmanager
async def open_agent(
    settings: Settings,
    *,
    hooks: Hooks | None = None,
    approver: Approver | None = None,
    store: Store | None = None,
    intent: bool = False,
    policy: Policy | None = None,
    transport: Transport | None = None,
    tools: Sequence[Tool] = (),
    system_prompt: str | None = None,
    news: Sequence[str] = (),
    instructions: Instructions = NO_INSTRUCTIONS,
    in_front_changed: Callable[[], None] | None = None,
    ask_waiting: Approver | None = None,
) -> AsyncIterator[Agent]:
    """An agent over `settings.workspace` (absolute, existing); closes on leaving all that it opened.

    What is given beside the settings takes the place of what they would make, and is not closed: `store`, `policy`,
    `transport`, the words of `system_prompt`. `tools` are offered besides the built-in ones, `news` told by the first run.
    `instructions` are what files of the folder say; they are sent before the conversation, as untrusted text.
    `ask_waiting` is who is asked about calls that wait in the session since a run of it was broken off, where there is no
    `approver`. `in_front_changed` is called when `Parts.in_front` may have changed.
    With `intent` its runs also tell what a call's arguments say while they are still being written.
    Raises `ConfigurationError` for settings that cannot be used, before anything was sent.
    """
    async with AsyncExitStack() as stack:
        if transport is None:
            settings = await with_key(settings)
            transport = make_transport(settings)
            stack.push_async_callback(transport.close)
        journal, seen = None, SeenFiles()
        if store is None:
            store, seen, journal, more = await _session(settings, stack)
            news = [*news, *more]
        _workspace, seen, executor, jobs = open_tools(settings, stack, journal=journal, seen=seen, own=tools)
        if in_front_changed is not None:
            jobs.changed = in_front_changed
        policy = policy or make_policy(settings, ask=approver is not None)
        take_others_rights(state_folder())  # earlier versions made it with those that are usual
        audit = AuditLog(str(state_folder() / "audit.jsonl"))
        stack.callback(audit.close)
        text = system_prompt if system_prompt is not None else prompt_text(settings, policy)
        side = model_side(settings)
        parts = Parts(
            transport=transport,
            **side,
            intent=intent,
            executor=executor,
            policy=policy,
            store=store,
            audit=audit,
            limits=settings.limits,
            system_prompt=text,
            workspace=settings.workspace,
            mode=settings.mode,
            hooks=hooks or NoHooks(),
            approver=approver,
            ask_waiting=ask_waiting,
            end_jobs=jobs.end_all,
            in_front=lambda: jobs.in_front,
            to_background=jobs.to_background,
            sandbox=sandbox_in_force(settings, policy),
            news=[*news, *instructions.told(), *unpriced(settings, side["model"]), *unlisted(settings, policy)],
            place=lambda: place_digest(settings.workspace, environment()),
        )
        talk = Talk(text, store, await store.sent(), parts.provider)
        agent = Agent(parts, talk, await recalled(store, executor))
        agent.send_first(*instructions.messages())
        stack.push_async_callback(agent.close)  # before what a run works with is taken away
        yield agent


async def _session(settings: Settings, stack: AsyncExitStack) -> tuple[Store, SeenFiles, Journal | None, list[str]]:
    """The store of the session that the settings wish for, the files it has seen, and where changes are written down.

    The last are lines that a person should read. Where nothing is to be kept the store is in memory, and has no journal.
    """
    news = await kept_within(settings, state_folder())
    opening = await open_store(settings)
    if opening is None:
        return MemoryStore(), SeenFiles(), None, news
    kept = opening.store
    stack.push_async_callback(kept.close)
    seen = SeenFiles(await kept.seen_files())
    kept.seen = seen.digests
    journal = SessionJournal(BlobJournal(str(state_folder()), settings.workspace), kept)
    return kept, seen, journal, [*news, *opening.news]


def model_side(settings: Settings) -> dict[str, Any]:
    """The fields of `Parts` that say which model is asked and how, without the transport. Raises `ConfigurationError`."""
    model = model_entry(settings)
    return {
        "dialect": find_dialect(settings),
        "options": settings.model_options(),
        "provider": "mock" if settings.mode == "mock" else settings.route().provider,
        "inline": find_inline(settings),
        "window_tokens": model.window,
        "model": model,
    }


def model_entry(settings: Settings) -> ModelEntry:
    """What is known of the model: the user's own figures first, then the table's. Mocked and replayed ones have none."""
    known = UNKNOWN
    if settings.mode == "real" and settings.replay is None:
        way = settings.route()
        known = find_model(way.model, way.base_url)
    return with_prices(
        known,
        window=settings.window_tokens,
        input=settings.price_input,
        output=settings.price_output,
        cached=settings.price_cached,
        cache_write=settings.price_cache_write,
    )


def unpriced(settings: Settings, model: ModelEntry) -> list[str]:
    """A line for whoever set a bound on costs that cannot be counted here."""
    if settings.limits.max_cost is None or (model.input is not None and model.output is not None):
        return []
    return [
        f"no price is known for {settings.model} here, so max_cost holds only if the server reports costs; "
        "set price_input and price_output (US dollars for a million tokens)"
    ]


def listed_hosts(settings: Settings) -> list[Host]:
    """The hosts that commands may reach."""
    if not settings.allow_host:
        return []
    from sluice.tools.allowed_hosts import parse_host  # few runs list hosts

    return [parse_host(text) for text in settings.allow_host]


def unlisted(settings: Settings, policy: Policy) -> list[str]:
    """A line for whoever listed hosts where a list cannot be held to: in every sandbox but bubblewrap."""
    found = sandbox_in_force(settings, policy) if settings.allow_host and not settings.allow_network else ""
    if not found or found.startswith("bubblewrap"):
        return []
    return [f"allow_host has no effect here, since it needs bubblewrap; what commands run in: {found}"]


def make_transport(settings: Settings) -> Transport:
    """The transport that the settings ask for: HTTP, a fixture, a cassette; recording if wanted.

    Raises `ConfigurationError` for files that cannot be used, and for mode mock without a fixture.
    """
    if settings.replay is not None:
        from sluice.transport.cassette import CassetteTransport

        return CassetteTransport(settings.replay)
    inner: Transport
    secrets: Sequence[str] = ()
    if settings.mode == "mock":
        from sluice.transport.scripted import ScriptedTransport

        if settings.mock_fixture is None:
            raise ConfigurationError("mode mock needs a fixture: give --mock-fixture FILE")
        inner = ScriptedTransport(Path(settings.mock_fixture), settings.route().dialect)
    else:
        from sluice.transport.http import HttpTransport  # libcurl is not loaded where no network is wanted

        http = HttpTransport(settings.route().base_url, settings.api_key, settings.limits)
        inner, secrets = http, http.secrets
    if settings.record is not None:
        from sluice.transport.cassette import RecordingTransport

        return RecordingTransport(inner, settings.record, secrets=secrets)
    return inner


def open_tools(
    settings: Settings,
    stack: AsyncExitStack,
    *,
    journal: Journal | None = None,
    seen: SeenFiles | None = None,
    own: Sequence[Tool] = (),
) -> tuple[Workspace, SeenFiles, Executor, Jobs]:
    """The workspace, what the session has seen of it, the executor over the offered tools (`own` besides), and its jobs.

    `journal` and `seen` are those of a stored session; by default pre-images are kept and nothing has been seen.
    """
    workspace = stack.enter_context(Workspace(settings.workspace, private=private_places(settings)))
    spill = stack.enter_context(Spill())
    seen = seen or SeenFiles()
    journal = journal or BlobJournal(str(state_folder()), settings.workspace)
    registry = make_registry(settings, own)
    sandbox = make_sandbox(settings)
    stack.callback(sandbox.close)
    jobs = Jobs(settings.limits)
    stack.push_async_callback(jobs.end_all)

    def context(cancel: Cancel) -> ToolContext:
        return ToolContext(
            workspace=workspace,
            limits=settings.limits,
            journal=journal,
            seen=seen,
            cancel=cancel,
            spill=spill,
            sandbox=sandbox,
            jobs=jobs,
        )

    return workspace, seen, Executor(registry, context), jobs


def make_sandbox(settings: Settings) -> Sandbox:
    """The sandbox that commands of these settings run in. Making it touches nothing; close it in every case."""
    return Sandbox(
        settings.workspace,
        mode=settings.sandbox,
        unsandboxed=settings.allow_unsandboxed,
        network=settings.allow_network,
        hosts=listed_hosts(settings),
        private=[*private_places(settings), *config_folders()],
        limits=settings.limits,
    )


def sandbox_in_force(settings: Settings, policy: Policy) -> str:
    """What commands of a run with these settings would run in, in words; empty where none can run, or be asked about."""
    return "" if "execution" in blocked_categories(policy) else make_sandbox(settings).words


def private_places(settings: Settings) -> list[str]:
    """Places of our own that no tool may open."""
    own_files = [path for path in (settings.config_file, settings.api_key_file) if path]
    store = store_path(settings)
    return [str(state_folder()), str(data_folder()), *own_files, *(store_files(store) if store is not None else ())]


def make_registry(settings: Settings, own: Sequence[Tool] = ()) -> Registry:
    """The tools that these settings offer of the built-in and the `own` ones.

    Raises `ConfigurationError` for a name in `tools` that is no tool, `RegistrationError` for an own tool that breaks a
    rule of the registry (a name that is taken).
    """
    registry = Registry((*default_tools(), *own), limits=settings.limits)
    for name in (*(settings.tools or ()), *settings.exclude_tools):
        if registry.tool(name) is None:
            raise ConfigurationError(f"no tool is named {name!r}; there are: {', '.join(registry.names())}")
    return registry.subset(name for name in registry.names() if settings.offers(name))


def make_policy(settings: Settings, *, ask: bool) -> Policy:
    """What the user allows, from flags and the user's own config only."""
    return Policy(
        allow_mutating_tools=settings.allow_mutating_tools,
        allow_execution_tools=settings.allow_execution_tools,
        ask=ask,
        spare_read_only=_list_can_be_trusted(settings),
        rules=settings.rules.rules,
        broken=settings.rules.broken,
        accept_healed=settings.accept_healed,
    )


def _list_can_be_trusted(settings: Settings) -> bool:
    """Whether a command known to read only is that command: sandboxed, and no folder of `PATH` in the workspace."""
    workspace = Path(settings.workspace).resolve()
    folders = environment()["PATH"].split(":")
    inside = any(Path(folder).resolve().is_relative_to(workspace) for folder in folders)
    return settings.sandbox != "off" and not settings.allow_unsandboxed and not inside


def prompt_text(settings: Settings, policy: Policy) -> str:
    """The system prompt of a run with these settings."""
    blocked = [_BLOCKED_WORDS[category] for category in blocked_categories(policy)]
    today = date.today()
    text = prompts.system_prompt(
        workspace=settings.workspace,
        today=today,
        blocked=blocked,
        file=settings.system_prompt_file,
        commands=sandbox_in_force(settings, policy),
    )
    more = settings.append_system_prompt
    return text if more is None else f"{text.rstrip()}\n\n{more.strip()}\n"


def find_dialect(settings: Settings) -> Dialect:
    """The dialect that requests are sent in. Raises `ConfigurationError` that names those there are."""
    name = settings.route().dialect
    found = DIALECTS.get(name)
    if found is None:
        raise ConfigurationError(f"no dialect is named {name!r}; there are: {', '.join(DIALECTS)}")
    return found


def find_inline(settings: Settings) -> str | None:
    """The form of calls inside text, if the model writes them so. Raises `ConfigurationError` that names those there are."""
    name = settings.route().inline
    if name is not None and name not in INLINE_FORMS:
        raise ConfigurationError(f"no form of inline calls is named {name!r}; there are: {', '.join(INLINE_FORMS)}")
    return name


def state_folder() -> Path:
    """Where Sluice keeps what outlives a run: the platform's state folder, below `sluice`."""
    import platformdirs  # wanted here only

    return platformdirs.user_state_path("sluice", appauthor=False)


def config_folders() -> list[str]:
    """Where the user's own configuration of Sluice lies, and so perhaps a key."""
    import platformdirs  # wanted here only

    return [platformdirs.user_config_dir("sluice", appauthor=False)]


def dry_run(
    settings: Settings, prompt: str | UserMessage, instructions: Instructions = NO_INSTRUCTIONS
) -> dict[str, Any]:
    """The configuration and the request that a run would send first. Sends nothing, writes nothing, shows no secret."""
    policy = make_policy(settings, ask=False)
    dialect = find_dialect(settings)
    registry = make_registry(settings)
    store = MemoryStore()
    talk = Talk(prompt_text(settings, policy), store, (UserMessage(prompt) if isinstance(prompt, str) else prompt,))
    talk.before = instructions.messages()
    request = dialect.request(talk.to_send(), registry.specs(), settings.model_options())
    return {
        "settings": settings.shown(),
        "request": {
            "method": "POST",
            "path": request.path,
            "address": without_password(settings.route().base_url),
            "dialect": request.dialect,
            "body": msgspec.json.decode(request.body),
        },
    }
