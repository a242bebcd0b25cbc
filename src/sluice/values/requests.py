"""What goes to a provider: options of a call, and a request that holds no secret and no address.

The transport joins key and address, so neither a cassette nor a log of requests can hold a key.
"""

from __future__ import annotations

from typing import Literal

import msgspec

AuthStyle = Literal["bearer", "x-api-key", "x-goog-api-key", "none"]


class ModelOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Model and limits of one call. Everything but the model is sent only when set.

    `max_output_tokens` and `window_tokens` in tokens; the window is what the user set, for servers that must be told
    how much to make room for. `tool_choice` is `auto`, `none`, `required` or a tool's name.
    """

    model: str
    temperature: float | None = None
    top_p: float | None = None
    max_output_tokens: int | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    tool_choice: str | None = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: str | None = None
    window_tokens: int | None = None


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One HTTP request: `path` is relative to the base URL, `body` the JSON bytes, `headers` hold no secret.

    A `GET` has no body; no dialect makes one, only a list of models is asked for with it.
    """

    dialect: str
    path: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    auth: AuthStyle = "bearer"
    method: Literal["POST", "GET"] = "POST"
