"""Sluice: a local coding agent whose host stays in control, and the hardened streaming core inside it.

    from sluice import Agent, Policy

    async with Agent(workspace=".", model="openai:gpt-5", policy=Policy(allow_mutating_tools=True)) as agent:
        async for notice in agent.run("Fix the failing test"):
            ...

or, without an event loop of your own, `Agent(…).run_sync("…").text`. Functions become tools by `@tool(category=…)`. All of
it is told in `docs/embedding.md`.

The streaming core alone needs no event loop: `from sluice.wire import ReplyReader, read_reply`. Importing this package
does no work: what belongs to the agent is imported when it is first asked for.
"""

from __future__ import annotations

TYPE_CHECKING = False  # for a type checker it is true; `typing` alone takes some of the program's start

if TYPE_CHECKING:
    from typing import Any

    from sluice.errors import ArgumentsError as ArgumentsError
    from sluice.errors import AuditError as AuditError
    from sluice.errors import ConfigurationError as ConfigurationError
    from sluice.errors import InternalError as InternalError
    from sluice.errors import RegistrationError as RegistrationError
    from sluice.errors import SluiceError as SluiceError
    from sluice.errors import StoreError as StoreError
    from sluice.errors import StreamError as StreamError
    from sluice.errors import TransportError as TransportError
    from sluice.limits import Limits as Limits
    from sluice.policy.rules import Policy as Policy
    from sluice.policy.rules import Rule as Rule
    from sluice.run.config import Settings as Settings
    from sluice.run.library import Agent as Agent
    from sluice.run.own_tools import OwnTool as OwnTool
    from sluice.run.own_tools import tool as tool
    from sluice.run.parts import NoHooks as NoHooks
    from sluice.run.sync import run_once as run_once
    from sluice.run.wiring import open_agent as open_agent
    from sluice.session.memory import MemoryStore as MemoryStore
    from sluice.values.calls import ToolSpec as ToolSpec
    from sluice.values.messages import UserMessage as UserMessage
    from sluice.values.notices import CallFinished as CallFinished
    from sluice.values.notices import CallStarted as CallStarted
    from sluice.values.notices import Notice as Notice
    from sluice.values.notices import RunFinished as RunFinished
    from sluice.values.notices import TextNotice as TextNotice
    from sluice.values.ports import Approver as Approver
    from sluice.values.ports import Cancel as Cancel
    from sluice.values.ports import Hooks as Hooks
    from sluice.values.ports import Store as Store
    from sluice.values.ports import Transport as Transport
    from sluice.values.results import ToolResult as ToolResult

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "Approver",
    "ArgumentsError",
    "AuditError",
    "CallFinished",
    "CallStarted",
    "Cancel",
    "ConfigurationError",
    "Hooks",
    "InternalError",
    "Limits",
    "MemoryStore",
    "NoHooks",
    "Notice",
    "OwnTool",
    "Policy",
    "RegistrationError",
    "Rule",
    "RunFinished",
    "Settings",
    "SluiceError",
    "Store",
    "StoreError",
    "StreamError",
    "TextNotice",
    "ToolResult",
    "ToolSpec",
    "Transport",
    "TransportError",
    "UserMessage",
    "__version__",
    "open_agent",
    "run_once",
    "tool",
]

_LATER = {
    "Agent": "sluice.run.library",
    "Approver": "sluice.values.ports",
    "ArgumentsError": "sluice.errors",
    "AuditError": "sluice.errors",
    "CallFinished": "sluice.values.notices",
    "CallStarted": "sluice.values.notices",
    "Cancel": "sluice.values.ports",
    "ConfigurationError": "sluice.errors",
    "Hooks": "sluice.values.ports",
    "InternalError": "sluice.errors",
    "Limits": "sluice.limits",
    "MemoryStore": "sluice.session.memory",
    "NoHooks": "sluice.run.parts",
    "Notice": "sluice.values.notices",
    "OwnTool": "sluice.run.own_tools",
    "Policy": "sluice.policy.rules",
    "RegistrationError": "sluice.errors",
    "Rule": "sluice.policy.rules",
    "RunFinished": "sluice.values.notices",
    "Settings": "sluice.run.config",
    "SluiceError": "sluice.errors",
    "Store": "sluice.values.ports",
    "StoreError": "sluice.errors",
    "StreamError": "sluice.errors",
    "TextNotice": "sluice.values.notices",
    "ToolResult": "sluice.values.results",
    "ToolSpec": "sluice.values.calls",
    "Transport": "sluice.values.ports",
    "TransportError": "sluice.errors",
    "UserMessage": "sluice.values.messages",
    "open_agent": "sluice.run.wiring",
    "run_once": "sluice.run.sync",
    "tool": "sluice.run.own_tools",
}


def __getattr__(name: str) -> Any:
    """Imports the agent's part of the package when it is first asked for: the streaming core must not pay for it."""
    if name not in _LATER:
        raise AttributeError(f"module 'sluice' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LATER[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
