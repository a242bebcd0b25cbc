"""The table of dialects by name. Nothing below this module looks it up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

from sluice.wire.dialects.base import Dialect

_PLACES = {
    "anthropic_messages": "AnthropicMessages",
    "gemini": "Gemini",
    "ollama": "Ollama",
    "openai_chat": "OpenAIChat",
    "openai_responses": "OpenAIResponses",
}


class _Table(Mapping[str, Dialect]):
    """Imports a dialect's module when it is first looked up: a run speaks one of them, and starting should be quick."""

    def __init__(self) -> None:
        self._made: dict[str, Dialect] = {}

    def __getitem__(self, name: str) -> Dialect:
        if name not in self._made:
            kind = _PLACES[name]  # KeyError: no such dialect
            self._made[name] = getattr(import_module(f"{__name__}.{name}"), kind)()
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_PLACES)

    def __len__(self) -> int:
        return len(_PLACES)

    def __contains__(self, name: object) -> bool:
        return name in _PLACES


DIALECTS: Mapping[str, Dialect] = _Table()
"""Every dialect that this version reads and writes."""
