"""Another model for a session that goes on: the settings it needs, and the model strings worth offering.

A key goes to the address that it was given for and to no other: a model at another address has the key of its own
provider's variables, or none.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from sluice.errors import ConfigurationError
from sluice.run.config import require_key
from sluice.run.config_keys import keys
from sluice.run.models import BUILT_IN, Provider, same_address
from sluice.run.prices import model_names
from sluice.run.settings import Settings

MOST_OFFERED = 200  # model strings in one list

_OF_ONE_MODEL = ("window_tokens", "price_input", "price_output", "price_cached", "price_cache_write")


def settings_for(settings: Settings, model: str, environ: Mapping[str, str]) -> Settings:
    """The settings with another model string. What was said beside the old one of address, dialect, form, window and
    prices is dropped where it cannot be meant for the new one. Raises `ConfigurationError` for a model that could not be
    asked.
    """
    try:
        name = keys()["model"].parse(model)
    except ValueError:
        raise ConfigurationError(f"model cannot be {model[:80]!r}; expected {keys()['model'].expected()}") from None
    old = settings.route()
    changed = msgspec.structs.replace(settings, model=name)
    new = changed.route()
    if (old.chosen or new.chosen) and (old.chosen, old.provider) != (new.chosen, new.provider):
        changed = msgspec.structs.replace(changed, base_url=None, dialect=None, inline=None)
        new = changed.route()
    if name != settings.model:
        changed = msgspec.structs.replace(changed, **dict.fromkeys(_OF_ONE_MODEL))
    if not same_address(old.base_url, new.base_url):
        found = next((environ[one] for one in new.key_env if environ.get(one, "").strip()), None)
        key = None if found is None else found.strip()
        changed = msgspec.structs.replace(changed, api_key=key, api_key_file=None, key_command=None)
    require_key(changed)
    return changed


def offered(settings: Settings, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Model strings worth offering: the one in use, and those of providers that could be asked now."""
    known: dict[str, Provider] = {**BUILT_IN, **{provider.name: provider for provider in settings.providers}}
    names = [settings.model]
    for provider in known.values():
        if any(environ.get(name, "").strip() for name in provider.key_env):
            names += [f"{provider.name}:{name}" for name in model_names(provider.base_url)]
    return tuple(dict.fromkeys(names))[:MOST_OFFERED]
