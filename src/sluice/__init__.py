"""Sluice: a local coding agent whose host stays in control, and the hardened streaming core inside it.

The streaming core alone needs no event loop: `from sluice.wire import ReplyReader, read_reply`. The agent:

    settings = Settings(workspace="/path/to/project", base_url="http://127.0.0.1:8080/v1", model="local")
    async with open_agent(settings) as agent:
        async for notice in agent.run("What does this project do?"):
            ...

or, without an event loop of your own, `run_once(settings, prompt)`. Importing this package does no work: what belongs to
the agent is imported when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluice.errors import (
    ArgumentsError,
    AuditError,
    ConfigurationError,
    InternalError,
    RegistrationError,
    SluiceError,
    StreamError,
    TransportError,
)
from sluice.limits import Limits

if TYPE_CHECKING:
    from sluice.run.agent import Agent as Agent
    from sluice.run.config import Settings as Settings
    from sluice.run.parts import NoHooks as NoHooks
    from sluice.run.parts import Parts as Parts
    from sluice.run.sync import run_once as run_once
    from sluice.run.wiring import open_agent as open_agent

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "ArgumentsError",
    "AuditError",
    "ConfigurationError",
    "InternalError",
    "Limits",
    "NoHooks",
    "Parts",
    "RegistrationError",
    "Settings",
    "SluiceError",
    "StreamError",
    "TransportError",
    "__version__",
    "open_agent",
    "run_once",
]

_LATER = {
    "Agent": "sluice.run.agent",
    "NoHooks": "sluice.run.parts",
    "Parts": "sluice.run.parts",
    "Settings": "sluice.run.config",
    "open_agent": "sluice.run.wiring",
    "run_once": "sluice.run.sync",
}


def __getattr__(name: str) -> Any:
    """Imports the agent's part of the package when it is first asked for: the streaming core must not pay for it."""
    if name not in _LATER:
        raise AttributeError(f"module 'sluice' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LATER[name]), name)
