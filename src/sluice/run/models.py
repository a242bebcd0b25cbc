"""From a model string to where a request goes: provider, address, dialect, and the variables that may hold its key.

`anthropic:claude-sonnet-4-5` names a provider and a model; a bare name is asked for over Chat Completions at the base
URL. The user's own config can add providers (`[providers.NAME]`); a project's file cannot.
"""

from __future__ import annotations

import difflib
import ipaddress
import re
import shlex
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

import msgspec

from sluice.errors import ConfigurationError

_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]*")
_PROVIDER_KEYS = ("base_url", "key_env", "key_file", "key_command", "dialect", "inline")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Provider(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who answers requests. `key_env` are the variables that may hold its key, the first that is set counts.

    A key from one of them goes to the address of `base_url` (scheme, host and port) and to no other. Without `key_env`
    or another way (`key_file`, `key_command`: see `sluice.run.api_key`) no key is needed. `inline` is a
    form of `sluice.wire.INLINE_FORMS`, where calls come inside the text.
    """

    name: str
    base_url: str
    key_env: tuple[str, ...] = ()
    dialect: str = "openai_chat"
    inline: str | None = None
    key_file: str | None = None
    key_command: tuple[str, ...] = ()


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """What a model string and the settings beside it come to.

    `provider` is a provider's name, or the host where no provider is known. `chosen` says that the model string named
    it. `key_env` are the variables that may hold a key for `base_url`; `key_file` and `key_command` are other ways to it.
    """

    provider: str
    chosen: bool
    model: str
    base_url: str
    dialect: str
    inline: str | None
    key_env: tuple[str, ...]
    needs_key: bool
    key_file: str | None = None
    key_command: tuple[str, ...] = ()


BUILT_IN: Mapping[str, Provider] = MappingProxyType(
    {
        provider.name: provider
        for provider in (
            Provider(
                name="openai",
                base_url="https://api.openai.com/v1",
                key_env=("OPENAI_API_KEY",),
                dialect="openai_responses",
            ),
            Provider(name="openai-chat", base_url="https://api.openai.com/v1", key_env=("OPENAI_API_KEY",)),
            Provider(
                name="anthropic",
                base_url="https://api.anthropic.com/v1",
                key_env=("ANTHROPIC_API_KEY",),
                dialect="anthropic_messages",
            ),
            Provider(
                name="gemini",
                base_url="https://generativelanguage.googleapis.com/v1beta",
                key_env=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
                dialect="gemini",
            ),
            Provider(name="ollama", base_url="http://127.0.0.1:11434", dialect="ollama"),
        )
    }
)
"""The providers that a model string can name without any configuration."""

_BY_DIALECT = {
    "openai_chat": "openai-chat",
    **{p.dialect: p.name for p in BUILT_IN.values() if p.name != "openai-chat"},
}


def route(
    model: str,
    *,
    base_url: str | None = None,
    dialect: str | None = None,
    inline: str | None = None,
    own: tuple[Provider, ...] = (),
    mock: bool = False,
) -> Route:
    """Where requests for `model` go. What is given beside it (not `None`) wins over what its provider says.

    `own` are the user's providers, which go before the built-in ones of the same name. With `mock` a fixture answers, in
    Chat. Only the name of a known provider before a colon is one: `llama3.2:3b` is a bare name.
    """
    known = {**BUILT_IN, **{provider.name: provider for provider in own}}
    name, colon, rest = model.partition(":")
    chosen = known.get(name.strip().lower()) if colon and rest.strip() else None
    # A bare name with a dialect of one provider alone, and no address, can only mean that provider's.
    fallback = chosen or BUILT_IN[_BY_DIALECT.get(dialect or "openai_chat", "openai-chat")]
    address = base_url or fallback.base_url
    at_home = [p for p in (fallback, *own, *BUILT_IN.values()) if same_address(p.base_url, address)]
    provider = chosen or (at_home[0] if at_home else None)
    keeper = next((p for p in at_home if p.key_file or p.key_command), None)
    keyless = provider is not None and not provider.key_env and keeper is None
    return Route(
        provider=provider.name if provider else _origin(address)[1],
        chosen=chosen is not None,
        model=rest.strip() if chosen else model,
        base_url=address,
        dialect=dialect or ("openai_chat" if mock or chosen is None else chosen.dialect),
        inline=inline if inline is not None else chosen.inline if chosen else None,
        key_env=tuple(dict.fromkeys(variable for p in at_home for variable in p.key_env)),
        needs_key=not keyless and not is_loopback(address),
        key_file=keeper.key_file if keeper else None,
        key_command=keeper.key_command if keeper else (),
    )


_ALIKE = 0.8  # of two names, by difflib's ratio: one or two letters of a provider's name are wrong
_ALMOST_THE_SAME = 0.88  # where an address was given, which may well serve a model of such a name


def misspelt(model: str, own: tuple[Provider, ...] = (), *, addressed: bool = False) -> tuple[str, str] | None:
    """What stands before the colon, and the provider it was meant to name; `None` where it is no provider's name.

    A name with other digits than the provider's is a model's (`llama3:8b` is not `ollama`), and so is one that begins with
    another letter. `addressed`: the user said where requests go, so that a bare name is more likely.
    """
    written, colon, rest = model.partition(":")
    name = written.strip().lower()
    known = {*BUILT_IN, *(provider.name for provider in own)}
    if not colon or not rest.strip() or name in known or "/" in name:
        return None
    like = [one for one in known if one[:1] == name[:1] and _digits(one) == _digits(name)]
    cutoff = _ALMOST_THE_SAME if addressed else _ALIKE
    meant = difflib.get_close_matches(name, sorted(like), n=1, cutoff=cutoff)
    return (written.strip(), meant[0]) if meant else None


def _digits(name: str) -> list[str]:
    return re.findall(r"[0-9]", name)


def same_address(one: str, other: str) -> bool:
    """Whether both addresses have the same scheme, host and port: a key for one may go to the other."""
    return _origin(one) == _origin(other)


def _origin(url: str) -> tuple[str, str, int | None]:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # no address at all; whoever connects to it says so
        return "", url, None
    scheme = parts.scheme.lower()
    return scheme, (parts.hostname or "").rstrip("."), port or {"https": 443, "http": 80}.get(scheme)


def is_loopback(url: str) -> bool:
    """Whether the address is this machine itself: `localhost`, 127.0.0.0/8 or ::1."""
    host = _origin(url)[1]
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def without_password(url: str) -> str:
    """The address without user name and password."""
    scheme, separator, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    _user, at, host = authority.rpartition("@")
    return f"{scheme}{separator}***@{host}{slash}{path}" if at else url


def providers_from(raw: object, origin: str) -> tuple[Provider, ...]:
    """The providers of `[providers.NAME]` tables. Raises `ConfigurationError` that says which one is wrong, and how."""
    if isinstance(raw, tuple) and all(isinstance(provider, Provider) for provider in raw):
        return raw
    if not isinstance(raw, dict):
        raise ConfigurationError(f"{origin}: providers are [providers.NAME] tables in a config file")
    return tuple(_provider(str(name), table, f"{origin}: [providers.{name}]") for name, table in raw.items())


def _provider(name: str, table: Any, where: str) -> Provider:
    if not _NAME.fullmatch(name):
        raise ConfigurationError(f"{where}: a provider's name is made of small letters, digits, '-', '_' and '.'")
    if not isinstance(table, dict):
        raise ConfigurationError(f"{where} is no table")
    known = BUILT_IN.get(name)
    values: dict[str, Any] = msgspec.structs.asdict(known) if known else {"name": name}
    for written, value in table.items():
        key = str(written).strip().lower().replace("-", "_")
        if key not in _PROVIDER_KEYS:
            raise ConfigurationError(f"{where}: unknown key {written!r}; there are {', '.join(_PROVIDER_KEYS)}")
        if key == "key_command":
            words = command_words(value)
            if words is None:
                raise ConfigurationError(f"{where}: key_command is a program and its words, with no shell")
            values[key] = words
            continue
        several = key == "key_env" and isinstance(value, list) and bool(value)
        if not all(isinstance(one, str) and one.strip() for one in (value if several else [value])):
            raise ConfigurationError(f"{where}: {key} must be some text")
        values[key] = value.strip() if isinstance(value, str) else value
    if isinstance(values.get("key_env"), str):
        values["key_env"] = [values["key_env"]]
    values["key_env"] = tuple(values.get("key_env", ()))
    for variable in values["key_env"]:
        if not _VARIABLE.fullmatch(variable):
            # What stands here may be the key itself, so it is not shown.
            raise ConfigurationError(f"{where}: key_env is the name of an environment variable, not the key itself")
    return Provider(**values, **({} if "base_url" in values else _no_address(where)))


def command_words(raw: object) -> tuple[str, ...] | None:
    """The words of a command: a list, or text that is split as a shell would; `None` for what only a shell understands."""
    if isinstance(raw, str):
        try:
            words = shlex.split(raw)
        except ValueError:  # a quote that does not close
            return None
        if any(re.search(r"^[|&;<>]|[|&;<>]$|[$`]", word) for word in words):
            return None
    elif isinstance(raw, list | tuple):
        words = list(raw)
    else:
        return None
    usable = all(isinstance(word, str) and "\0" not in word for word in words)
    return tuple(words) if usable and words and words[0].strip() else None


def _no_address(where: str) -> dict[str, Any]:
    raise ConfigurationError(f"{where} needs base_url, an address such as https://api.example.com/v1")
