"""Everything that a run is told from outside, as one frozen struct."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from sluice.limits import DEFAULT_LIMITS, Limits
from sluice.policy.rules import Rules
from sluice.run.config_keys import KEPT_BYTES, SESSION_STORE_BYTES, keys
from sluice.run.models import Provider, Route, route, without_password
from sluice.session.wish import Wish
from sluice.values.requests import ModelOptions


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a run is told from outside, apart from the prompt. Its `repr` holds no secret.

    `tools` is `None` for all tools, else the only names to offer; `exclude_tools` and `no_tools` take away from them.
    `no_agents_md` leaves out what the workspace's `AGENTS.md` says.
    `config_file` is the user's config file that was read, if any. After `load` the files are absolute; the workspace is
    so once `open_workspace` has been through it. `base_url`, `dialect` and `inline` are what was said beside the model
    string, which picks the rest: `route` says what they come to.
    """

    workspace: str = "."
    model: str = "gpt-4o"
    base_url: str | None = None
    api_key: str | None = None
    api_key_file: str | None = None
    key_command: tuple[str, ...] | None = None
    dialect: str | None = None
    inline: str | None = None
    providers: tuple[Provider, ...] = ()
    mode: Literal["real", "mock"] = "real"
    mock_fixture: str | None = None
    record: str | None = None
    replay: str | None = None
    system_prompt_file: str | None = None
    append_system_prompt: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_output_tokens: int | None = None
    seed: int | None = None
    reasoning_effort: str | None = None
    tool_choice: str | None = None
    window_tokens: int | None = None
    price_input: float | None = None
    price_output: float | None = None
    price_cached: float | None = None
    price_cache_write: float | None = None
    parallel_tool_calls: bool | None = None
    allow_mutating_tools: bool = False
    allow_execution_tools: bool = False
    accept_healed: bool = False
    ask: bool = False
    rules: Rules = Rules()
    sandbox: Literal["auto", "off"] = "auto"
    allow_unsandboxed: bool = False
    allow_network: bool = False
    allow_host: tuple[str, ...] = ()
    tools: tuple[str, ...] | None = None
    exclude_tools: tuple[str, ...] = ()
    no_tools: bool = False
    no_agents_md: bool = False
    output: Literal["text", "json", "stream-json"] = "text"
    dry_run: bool = False
    debug: bool = False
    session_store: str | None = None
    session_days: float | None = None
    session_store_bytes: int | None = SESSION_STORE_BYTES
    audit_days: float | None = None
    kept_bytes: int | None = KEPT_BYTES
    session: Wish = Wish()
    limits: Limits = DEFAULT_LIMITS
    config_file: str | None = None

    def __repr__(self) -> str:
        return f"Settings({', '.join(f'{key}={value!r}' for key, value in self.shown().items())})"

    def value(self, key: str) -> Any:
        """The value of one key, the limits' keys included."""
        return getattr(self.limits, key) if keys()[key].limit else getattr(self, key)

    def shown(self) -> dict[str, Any]:
        """Every key with a value that may be printed: the API key as its length, no password in the address."""
        values = {key: self.value(key) for key in keys()}
        values["api_key"] = f"set ({len(self.api_key)} characters)" if self.api_key else None
        values["key_command"] = _program(self.key_command)
        way = self.route()
        values.update(base_url=without_password(way.base_url), dialect=way.dialect, inline=way.inline)
        values["providers"] = {p.name: {"base_url": without_password(p.base_url), **_shown(p)} for p in self.providers}
        values["rules"] = self.rules.shown()
        return values

    def route(self) -> Route:
        """Where requests go, and in which dialect."""
        return route(
            self.model,
            base_url=self.base_url,
            dialect=self.dialect,
            inline=self.inline,
            own=self.providers,
            mock=self.mode == "mock",
        )

    def offers(self, tool: str) -> bool:
        """Whether the tool of this name is offered to the model. Offered is not allowed."""
        chosen = self.tools is None or tool in self.tools
        return chosen and not self.no_tools and tool not in self.exclude_tools

    def model_options(self) -> ModelOptions:
        """Model and sampling options of a request; what was not set is absent."""
        return ModelOptions(
            model=self.route().model,
            temperature=self.temperature,
            top_p=self.top_p,
            max_output_tokens=self.max_output_tokens,
            seed=self.seed,
            tool_choice=self.tool_choice,
            parallel_tool_calls=self.parallel_tool_calls,
            reasoning_effort=self.reasoning_effort,
            window_tokens=self.window_tokens,
        )


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """Settings, the origin of each key's value in words, and what a person should know (no secret in any of them)."""

    settings: Settings
    origins: dict[str, str]
    warnings: list[str]


def _program(command: tuple[str, ...] | None) -> str | None:
    """The first word of a command, because one of the others may be a secret."""
    return command[0] + (" …" if command[1:] else "") if command else None


def _shown(provider: Provider) -> dict[str, Any]:
    shown = {"key_env": ", ".join(provider.key_env), "dialect": provider.dialect, "inline": provider.inline}
    shown["key_file"] = provider.key_file
    shown["key_command"] = _program(provider.key_command)
    return {key: value for key, value in shown.items() if value}
