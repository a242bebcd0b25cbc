"""Which models can be asked: every provider that is configured or built in is asked for its list, within seconds.

A provider's key is sent to that provider's own address only; the key of the settings goes where their model goes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from sluice.errors import ConfigurationError, TransportError
from sluice.run.api_key import key_by, with_key
from sluice.run.models import BUILT_IN, Provider, is_loopback, same_address, without_password
from sluice.run.settings import Settings
from sluice.transport.status import error_of, is_success
from sluice.values.requests import AuthStyle, Request

LIST_SECONDS = 5.0  # until a server must have answered, and again until it must have said all
_LIST_BYTES = 8 * 1024 * 1024  # of one list; the longest ones known have 2 MB
_ENDPOINTS = ("/chat/completions", "/responses", "/messages", "/api/chat")  # that a base URL may end in

_Ask = tuple[str, AuthStyle, tuple[tuple[str, str], ...]]
_ASKS: Mapping[str, _Ask] = {
    "openai_chat": ("/models", "bearer", ()),
    "openai_responses": ("/models", "bearer", ()),
    "anthropic_messages": ("/models?limit=1000", "x-api-key", (("anthropic-version", "2023-06-01"),)),
    "gemini": ("/models?pageSize=1000", "x-goog-api-key", ()),
    "ollama": ("/api/tags", "none", ()),
}


class ProviderModels(msgspec.Struct, frozen=True, kw_only=True):
    """What one provider says. `key` says where its key came from.

    That is `not needed`, `none`, a variable's name, `settings`, or `its own` (file or command). `reachable` is `None` if it
    was not asked; `problem` then says why, or what went wrong. `models` are in its own order, as its API names them.
    `chosen`: the model of the settings is asked for there.
    """

    provider: str
    base_url: str
    dialect: str
    key: str
    chosen: bool = False
    reachable: bool | None = None
    problem: str = ""
    models: tuple[str, ...] = ()


async def list_models(settings: Settings, environ: Mapping[str, str], only: str | None = None) -> list[ProviderModels]:
    """Asks all providers at once, or the one named `only`; that of the settings' model comes first.

    Takes at most about ten seconds, and what a `key_command` takes. What a provider does wrong stands in its entry. Raises
    `ConfigurationError` for a name that is no provider's, and for a key of the settings that cannot be had. Being cancelled
    ends the requests.
    """
    known = {**BUILT_IN, **{provider.name: provider for provider in settings.providers}}
    way = settings.route()
    here = known.get(way.provider)
    if here is None or not same_address(here.base_url, way.base_url) or here.dialect != way.dialect:
        here = Provider(name=way.provider, base_url=way.base_url, key_env=way.key_env, dialect=way.dialect)
    wanted = {here.name: here, **{name: one for name, one in known.items() if name != here.name}}
    if only is not None and only not in wanted:
        raise ConfigurationError(f"no provider is named {only!r}; there are: {', '.join(wanted)}")
    online = msgspec.structs.replace(settings, mode="real", replay=None)
    asked = [one for name, one in wanted.items() if only in (None, name)]
    own = (await with_key(online)).api_key if here in asked else None
    return list(await asyncio.gather(*(_listed(one, settings, environ, own, one is here) for one in asked)))


async def _listed(
    provider: Provider, settings: Settings, environ: Mapping[str, str], own: str | None, chosen: bool
) -> ProviderModels:
    needed = settings.route().needs_key if chosen else bool(provider.key_env) and not is_loopback(provider.base_url)
    key, origin = _key(provider, environ, own if chosen else None, needed)
    entry = ProviderModels(
        provider=provider.name,
        base_url=without_password(provider.base_url),
        dialect=provider.dialect,
        key=origin,
        chosen=chosen,
    )
    if origin == "none":
        ways = " or ".join(provider.key_env) or "SLUICE_API_KEY"
        return msgspec.structs.replace(entry, problem=f"not asked: no key (set {ways})")
    try:
        if origin == "its own":
            key = await key_by(provider.key_file, provider.key_command, settings.workspace)
        models = await _asked(provider, key, settings)
    except (TransportError, ConfigurationError) as error:
        return msgspec.structs.replace(entry, reachable=False, problem=str(error))
    return msgspec.structs.replace(entry, reachable=True, models=models)


def _key(provider: Provider, environ: Mapping[str, str], own: str | None, needed: bool) -> tuple[str | None, str]:
    if own:
        return own, "settings"
    for variable in provider.key_env:
        if environ.get(variable, "").strip():
            return environ[variable].strip(), variable
    if provider.key_file or provider.key_command:
        return None, "its own"
    return None, "none" if needed else "not needed"


async def _asked(provider: Provider, key: str | None, settings: Settings) -> tuple[str, ...]:
    from sluice.transport.http import HttpTransport  # libcurl is loaded where a list is wanted only

    path, auth, headers = _ASKS.get(provider.dialect, _ASKS["openai_chat"])
    base_url = provider.base_url.rstrip("/")
    for ending in _ENDPOINTS:
        base_url = base_url.removesuffix(ending)
    limits = msgspec.structs.replace(
        settings.limits,
        connect_seconds=LIST_SECONDS,
        first_byte_seconds=LIST_SECONDS,
        first_byte_loopback_seconds=LIST_SECONDS,
        idle_seconds=LIST_SECONDS,
        total_seconds=2 * LIST_SECONDS,
        max_stream_bytes=_LIST_BYTES,
    )
    transport = HttpTransport(base_url, key, limits)
    request = Request(
        dialect=provider.dialect, path=path, body=b"", headers=headers, auth=auth if key else "none", method="GET"
    )
    try:
        exchange = await transport.send(request)
        if not is_success(exchange.status):
            raise await error_of(exchange, limits)
        body = bytearray()
        while piece := await exchange.read():
            body += piece
        await exchange.close()
    finally:
        await transport.close()
    return _names(bytes(body))


def _names(body: bytes) -> tuple[str, ...]:
    """The names in a list of any of the dialects. Raises `TransportError` for what is no such list."""
    try:
        found: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise TransportError("protocol", "the answer is no JSON; check the base URL") from None
    rows = found.get("data", found.get("models")) if isinstance(found, dict) else None
    if not isinstance(rows, list):
        raise TransportError("protocol", "the answer holds no list of models")
    named = [row.get("id") or row.get("name") for row in rows if isinstance(row, dict)]
    return tuple(name.removeprefix("models/") for name in named if isinstance(name, str) and name)
