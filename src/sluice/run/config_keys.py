"""Every key of the configuration: its kind, its default, what a usable value looks like.

One table serves the config file, the environment, the command line and `config show`. The bounds come from
`sluice.limits.Limits`: each of its fields is a key of the same name.
"""

from __future__ import annotations

import math
import re
import types
import typing
from functools import cache
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from sluice.errors import ConfigurationError
from sluice.limits import Limits
from sluice.policy.rules import Rules, rules_from
from sluice.run.models import command_words, providers_from

Kind = Literal[
    "text",
    "secret",
    "url",
    "path",
    "switch",
    "names",
    "hosts",
    "choice",
    "count",
    "bytes",
    "seconds",
    "number",
    "rules",
    "providers",
    "prose",
    "command",
]
Narrowing = Literal["never", "lower", "fewer", "more", "on", "deny"]

SESSION_STORE_BYTES = 4 * 2**30  # of one project's sessions: years of work, and no surprise on a small disk
KEPT_BYTES = 8 * 2**30  # of all that is kept: more than the largest store and all pre-images, less than a disk notices
MAX_WHOLE = 2**53  # no count, size or seed beyond what JSON carries exactly

_ZERO_IS_FINE = frozenset(
    {
        "max_continuations",
        "max_tool_calls_per_turn",
        "max_total_tool_calls",
        "max_retry_after_seconds",
        "command_drain_seconds",
        "max_cost",
        "price_input",
        "price_output",
        "price_cached",
        "price_cache_write",
        "temperature",
        "top_p",
        "seed",
    }
)
_UNITS = {"": 1, "b": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "kb": 10**3, "mb": 10**6, "gb": 10**9}
_TRUE = frozenset({"true", "1", "yes", "on"})
_FALSE = frozenset({"false", "0", "no", "off"})
_NUMBERS_OFF = frozenset({"", "none", "off"})


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """One key. `optional` keys may be `none`. `narrowing` says what a file in the workspace may do with it."""

    name: str
    kind: Kind
    default: Any = None
    optional: bool = False
    choices: tuple[str, ...] = ()
    narrowing: Narrowing = "never"
    limit: bool = False

    def expected(self) -> str:
        """What a usable value is, in words for an error message."""
        words = {
            "text": "some text",
            "secret": "a key in printable characters without spaces",
            "url": "an address such as https://api.openai.com/v1",
            "path": "a path",
            "switch": "true or false",
            "names": "names separated by commas",
            "hosts": "hosts separated by commas, as in example.org, example.org:443 or 10.0.0.5:8080, without wildcards",
            "choice": " or ".join(self.choices),
            "count": f"a whole number of at least {self._least()}",
            "bytes": f"a size of at least {self._least()} such as 65536, 64KiB or 1MiB",
            "seconds": "seconds, " + ("0 or more" if self._least() == 0 else "more than 0") + ", such as 30 or 2.5",
            "number": f"a number of at least {self._least()}",
            "rules": "[[rules]] tables in a config file",
            "providers": "[providers.NAME] tables in a config file",
            "prose": "some text",
            "command": "a program and its words, with no shell (no pipes, no variables)",
        }[self.kind]
        return words + (
            ", or none"
            if self.optional and self.kind not in ("text", "secret", "path", "names", "prose", "command")
            else ""
        )

    def _least(self) -> int:
        return 0 if self.name in _ZERO_IS_FINE else 1

    def _nothing(self) -> frozenset[str]:
        # "none" is a word of some providers for effort and tool choice, and "off" is false for a switch.
        if self.kind in ("count", "bytes", "seconds", "number"):
            return _NUMBERS_OFF
        if self.kind == "switch":
            return frozenset({"", "none"})
        return frozenset() if self.kind in ("names", "hosts") else frozenset({""})

    def parse(self, raw: object) -> Any:
        """The value that `raw` (text, or a TOML value) stands for. Raises `ValueError` if it stands for none."""
        if self.optional and isinstance(raw, str) and raw.strip().lower() in self._nothing():
            return None
        reader = _READERS[self.kind]
        value = reader(self, raw)
        if value is None:
            raise ValueError(self.expected())
        return value

    def narrow(self, current: Any, wanted: Any) -> Any:
        """The narrower of what is and what a file in the workspace wants."""
        if self.narrowing == "lower":
            return wanted if wanted is not None and (current is None or wanted < current) else current
        if self.narrowing == "fewer" and wanted is not None:
            return wanted if current is None else tuple(name for name in current if name in wanted)
        if self.narrowing == "more":
            return tuple(dict.fromkeys((*current, *wanted)))
        if self.narrowing == "deny":
            more = tuple(rule for rule in wanted.rules if rule.effect == "deny")
            return Rules((*current.rules, *more), current.broken or wanted.broken)
        return bool(current or wanted) if self.narrowing == "on" else current


def _text(_key: Key, raw: object) -> str | None:
    if not isinstance(raw, str) or not raw.strip() or not raw.isprintable():
        return None
    return raw.strip()


def _secret(_key: Key, raw: object) -> str | None:
    if not isinstance(raw, str):
        return None
    value = raw.strip()
    return value if value and value.isascii() and value.isprintable() and " " not in value else None


def _url(_key: Key, raw: object) -> str | None:
    value = _text(_key, raw)
    if value is None or " " in value:
        return None
    try:
        parts = urlsplit(value)
        usable = parts.scheme.lower() in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no port, brackets that do not close
        return None
    return value if usable else None


def _path(_key: Key, raw: object) -> str | None:
    return raw if isinstance(raw, str) and raw.strip() and "\0" not in raw else None


def _switch(_key: Key, raw: object) -> bool | None:
    if isinstance(raw, bool):
        return raw
    if isinstance(raw, int | str):
        word = str(raw).strip().lower()
        return True if word in _TRUE else False if word in _FALSE else None
    return None


def _names(_key: Key, raw: object) -> tuple[str, ...] | None:
    parts: list[object]
    if isinstance(raw, str):
        parts = [part for part in raw.split(",") if part.strip()]
    elif isinstance(raw, list | tuple):
        parts = list(raw)
    else:
        return None
    names = [part.strip() for part in parts if isinstance(part, str) and re.fullmatch(r"\s*[\w.\-]+\s*", part)]
    return tuple(dict.fromkeys(names)) if len(names) == len(parts) else None


def _hosts(_key: Key, raw: object) -> tuple[str, ...] | None:
    from sluice.tools.allowed_hosts import MAX_HOSTS, parse_host  # wanted by few

    parts = raw.split(",") if isinstance(raw, str) else list(raw) if isinstance(raw, list | tuple) else None
    if parts is None or not all(isinstance(part, str) for part in parts):
        return None
    try:
        hosts = [str(parse_host(part)) for part in parts if part.strip()]
    except ValueError:
        return None
    return tuple(dict.fromkeys(hosts)) if len(hosts) <= MAX_HOSTS else None


def _choice(key: Key, raw: object) -> str | None:
    value = raw.strip().lower() if isinstance(raw, str) else None
    return value if value in key.choices else None


def _count(key: Key, raw: object) -> int | None:
    if isinstance(raw, str) and re.fullmatch(r"\s*[0-9]{1,18}\s*", raw):
        raw = int(raw)
    return raw if _whole(raw) and key._least() <= raw <= MAX_WHOLE else None


def _bytes(key: Key, raw: object) -> int | None:
    if isinstance(raw, str):
        found = re.fullmatch(r"\s*([0-9]{1,18})\s*([a-z]*)\s*", raw.lower())
        if found is None or found[2] not in _UNITS:
            return None
        raw = int(found[1]) * _UNITS[found[2]]
    return raw if _whole(raw) and key._least() <= raw <= MAX_WHOLE else None


def _seconds(key: Key, raw: object) -> float | None:
    if isinstance(raw, str):
        raw = re.sub(r"\s*s\s*$", "", raw)
    value = _decimal(raw)
    return value if value is not None and (value > 0 or (value == 0 and key._least() == 0)) else None


def _number(key: Key, raw: object) -> float | None:
    value = _decimal(raw)
    least = float(key._least())
    return value if value is not None and value >= least else None


def _prose(_key: Key, raw: object) -> str | None:
    if not isinstance(raw, str) or not raw.strip() or "\0" in raw:
        return None
    try:
        raw.encode("utf-8")
    except UnicodeEncodeError:
        return None
    return raw


def _command(_key: Key, raw: object) -> tuple[str, ...] | None:
    return command_words(raw)


def _rules(_key: Key, raw: object) -> Rules:
    return rules_from(raw)  # broken ones deny everything, with the reason


def _providers(_key: Key, raw: object) -> Any:
    try:
        return providers_from(raw, "providers")
    except ConfigurationError:  # a config file's own are read with their words; here there are none
        return None


def _whole(raw: object) -> typing.TypeGuard[int]:
    return isinstance(raw, int) and not isinstance(raw, bool)


def _decimal(raw: object) -> float | None:
    if isinstance(raw, str):
        if not re.fullmatch(r"\s*[0-9]{0,18}\.?[0-9]{0,18}\s*", raw) or not re.search("[0-9]", raw):
            return None
        raw = float(raw)
    if isinstance(raw, bool) or not isinstance(raw, int | float):
        return None
    if isinstance(raw, int) and raw > MAX_WHOLE:
        return None
    return float(raw) if math.isfinite(raw) and raw >= 0 else None


_READERS: dict[Kind, typing.Callable[[Key, object], Any]] = {
    "text": _text,
    "secret": _secret,
    "url": _url,
    "path": _path,
    "switch": _switch,
    "names": _names,
    "hosts": _hosts,
    "choice": _choice,
    "count": _count,
    "bytes": _bytes,
    "seconds": _seconds,
    "number": _number,
    "rules": _rules,
    "providers": _providers,
    "prose": _prose,
    "command": _command,
}


@cache
def keys() -> dict[str, Key]:
    """Every key by name, the limits last. The table is made once, when it is first asked for."""
    table = [
        Key(name="workspace", kind="path", default="."),
        Key(name="model", kind="text", default="gpt-4o"),
        Key(name="base_url", kind="url"),
        Key(name="api_key", kind="secret", optional=True),
        Key(name="api_key_file", kind="path", optional=True),
        Key(name="key_command", kind="command", optional=True),
        Key(name="dialect", kind="text"),
        Key(name="inline", kind="text", optional=True),
        Key(name="providers", kind="providers", default=()),
        Key(name="mode", kind="choice", default="real", choices=("real", "mock")),
        Key(name="mock_fixture", kind="path", optional=True),
        Key(name="record", kind="path", optional=True),
        Key(name="replay", kind="path", optional=True),
        Key(name="system_prompt_file", kind="path", optional=True),
        Key(name="append_system_prompt", kind="prose", optional=True),
        Key(name="temperature", kind="number", optional=True),
        Key(name="top_p", kind="number", optional=True),
        Key(name="max_output_tokens", kind="count", optional=True, narrowing="lower"),
        Key(name="seed", kind="count", optional=True),
        Key(name="reasoning_effort", kind="text", optional=True),
        Key(name="tool_choice", kind="text", optional=True),
        Key(name="window_tokens", kind="count", optional=True),
        Key(name="price_input", kind="number", optional=True),
        Key(name="price_output", kind="number", optional=True),
        Key(name="price_cached", kind="number", optional=True),
        Key(name="price_cache_write", kind="number", optional=True),
        Key(name="parallel_tool_calls", kind="switch", optional=True),
        Key(name="allow_mutating_tools", kind="switch", default=False),
        Key(name="allow_execution_tools", kind="switch", default=False),
        Key(name="accept_healed", kind="switch", default=False),
        Key(name="ask", kind="switch", default=False),
        Key(name="rules", kind="rules", default=Rules(), narrowing="deny"),
        Key(name="sandbox", kind="choice", default="auto", choices=("auto", "off")),
        Key(name="allow_unsandboxed", kind="switch", default=False),
        Key(name="allow_network", kind="switch", default=False),
        Key(name="allow_host", kind="hosts", default=()),
        Key(name="tools", kind="names", optional=True, narrowing="fewer"),
        Key(name="exclude_tools", kind="names", default=(), narrowing="more"),
        Key(name="no_tools", kind="switch", default=False, narrowing="on"),
        Key(name="no_agents_md", kind="switch", default=False, narrowing="on"),
        Key(name="output", kind="choice", default="text", choices=("text", "json", "stream-json")),
        Key(name="dry_run", kind="switch", default=False),
        Key(name="debug", kind="switch", default=False),
        Key(name="session_store", kind="path", optional=True),
        Key(name="session_days", kind="number", optional=True),
        Key(name="session_store_bytes", kind="bytes", default=SESSION_STORE_BYTES, optional=True),
        Key(name="audit_days", kind="number", optional=True),
        Key(name="kept_bytes", kind="bytes", default=KEPT_BYTES, optional=True),
    ]
    hints = typing.get_type_hints(Limits)
    for field in msgspec.structs.fields(Limits):
        table.append(_limit_key(field.name, hints[field.name], field.default))
    return {key.name: key for key in table}


def _limit_key(name: str, hint: object, default: object) -> Key:
    members = typing.get_args(hint) or (hint,)
    kind: Kind = "count"
    if name.endswith("_bytes"):
        kind = "bytes"
    elif name == "max_cost":
        kind = "number"
    elif float in members:
        kind = "seconds"
    return Key(name=name, kind=kind, default=default, optional=types.NoneType in members, narrowing="lower", limit=True)
