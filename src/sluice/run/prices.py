"""What a model can hold and what its tokens cost, by patterns of its name: `models.json`, made by scripts/make_models.py.

A price is in US dollars for a million tokens. What is not known is `None` and is never guessed; a model on this machine
has no price. What the provider itself says a reply cost goes before any price here (L7).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

import msgspec

from sluice.transport.endpoint import is_loopback
from sluice.values.messages import Usage

_MILLION = 1_000_000
_PATTERN = re.compile(r"[*?\[\]]")
_OTHER_WORK = re.compile(r"image|embed|tts|audio|realtime|live|transcri|moderation|davinci|babbage|robotics|whisper")


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """Prices that hold for a whole request once its input has more than `tokens` tokens."""

    tokens: int
    input: float | None = None
    output: float | None = None
    cached: float | None = None
    cache_write: float | None = None


class ModelEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One model. `window` is in tokens; `cached` is the price of input read from a cache, `cache_write` of writing it."""

    match: tuple[str, ...] = ()
    window: int | None = None
    input: float | None = None
    output: float | None = None
    cached: float | None = None
    cache_write: float | None = None
    above: tuple[Step, ...] = ()

    def cost(self, usage: Usage) -> float | None:
        """What a reply with this usage cost in US dollars, or `None` if that cannot be told."""
        if usage.cost is not None:
            return usage.cost
        given, given_out, cached, write = self.input, self.output, self.cached, self.cache_write
        for step in self.above:
            if usage.input_tokens > step.tokens:
                given = given if step.input is None else step.input
                given_out = given_out if step.output is None else step.output
                cached = cached if step.cached is None else step.cached
                write = write if step.cache_write is None else step.cache_write
        if given is None or given_out is None:
            return None
        fresh = max(usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens, 0)
        total = fresh * given + usage.output_tokens * given_out
        total += usage.cached_tokens * (given if cached is None else cached)
        total += usage.cache_write_tokens * (given if write is None else write)
        return total / _MILLION


class _Provider(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    maker: bool
    api: str
    models: tuple[ModelEntry, ...]


class _Table(msgspec.Struct, frozen=True, kw_only=True):
    source: str
    providers: tuple[_Provider, ...]


UNKNOWN = ModelEntry()


@cache
def _table() -> _Table:
    data = files("sluice.run").joinpath("models.json").read_bytes()
    return msgspec.json.decode(data, type=_Table)


def find_model(model: str, base_url: str) -> ModelEntry:
    """What is known of `model` at this address; all `None` if nothing is.

    The provider is told by the address; at an address of nobody known, the model's maker counts for the window only.
    """
    host = urlsplit(base_url).hostname or ""
    known = [provider for provider in _table().providers if re.match(provider.api, base_url)]
    for entry in _matching(known, model):
        return entry
    makers = [provider for provider in _table().providers if provider.maker]
    for entry in _matching(makers, model):
        return msgspec.structs.replace(UNKNOWN, window=None if is_loopback(host) else entry.window)
    return UNKNOWN


def model_names(base_url: str) -> tuple[str, ...]:
    """Names of models that converse and are known at this address, for a list to choose from; empty if none is."""
    found = []
    for provider in _table().providers:
        for entry in provider.models if re.match(provider.api, base_url) else ():
            name = entry.match[0].removesuffix("*") if entry.match else ""
            if name and not _PATTERN.search(name) and entry.window and entry.output and not _OTHER_WORK.search(name):
                found.append(name)
    return tuple(dict.fromkeys(found))


def _matching(providers: list[_Provider], model: str) -> Iterator[ModelEntry]:
    """Entries whose pattern fits the name as it is, or what stands behind its last slash; the closest first."""
    for provider in providers:
        for name in dict.fromkeys((model.lower(), model.lower().rpartition("/")[2])):
            fits = [
                (pattern, entry) for entry in provider.models for pattern in entry.match if fnmatchcase(name, pattern)
            ]
            fits.sort(key=lambda fit: ("*" in fit[0], -len(fit[0])))
            yield from (entry for _pattern, entry in fits)


def with_prices(entry: ModelEntry, **own: Any) -> ModelEntry:
    """The entry with the user's own figures in place of those that are given; a price of one's own has no steps."""
    given = {name: value for name, value in own.items() if value is not None}
    if given.keys() & {"input", "output", "cached", "cache_write"}:
        given["above"] = ()
    return msgspec.structs.replace(entry, **given)
