"""A model for tests of programs that embed an agent: it says what it was told, through the real reader, with no network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sluice.transport.scripted import ScriptedTransport


def scripted_model(*replies: str | Mapping[str, Any]) -> ScriptedTransport:
    """A transport that answers request k with reply k: `Agent(transport=scripted_model("Hello"))`.

    A reply is text, what `asks` gives, or a whole assistant message (see `ScriptedTransport`). After the last one the run
    ends as `provider_error`. The model must be a bare name or one that is asked over Chat Completions. Raises
    `ConfigurationError` for a reply that is no message.
    """
    return ScriptedTransport([{"content": r} if isinstance(r, str) else r for r in replies])


def asks(tool: str, /, **arguments: Any) -> dict[str, Any]:
    """A reply that asks for one call of the tool of this name with these arguments."""
    return {"content": None, "tool_calls": [{"function": {"name": tool, "arguments": arguments}}]}
