"""The table of dialects by name. Nothing below this module looks it up."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from sluice.wire.dialects.anthropic_messages import AnthropicMessages
from sluice.wire.dialects.base import Dialect
from sluice.wire.dialects.gemini import Gemini
from sluice.wire.dialects.ollama import Ollama
from sluice.wire.dialects.openai_chat import OpenAIChat
from sluice.wire.dialects.openai_responses import OpenAIResponses

DIALECTS: Mapping[str, Dialect] = MappingProxyType(
    {dialect.name: dialect for dialect in (AnthropicMessages(), Gemini(), Ollama(), OpenAIChat(), OpenAIResponses())}
)
"""Every dialect that this version reads and writes."""
