"""The configuration of a run from all its sources, and the steps before a run starts.

Later sources win: default, the user's config file, the project's file (which may only narrow), `NCA_*` variables,
`SLUICE_*` variables, flags. The start order (U6) is: `load` (whole and valid), logging, `open_workspace`, `require_key`,
tools, run. `load` writes nothing, so a mistake it finds leaves nothing behind.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from sluice.errors import ConfigurationError
from sluice.limits import DEFAULT_LIMITS
from sluice.policy.rules import Rules, rules_from
from sluice.run.config_file import ConfigFile, normal_key, read_config_file
from sluice.run.config_keys import Key, keys
from sluice.run.models import Provider, Route, is_loopback, misspelt, providers_from, route, without_password
from sluice.run.settings import Loaded as Loaded
from sluice.run.settings import Settings as Settings
from sluice.session.wish import Wish as Wish

PROJECT_FILE = Path(".sluice") / "config.toml"
PREFIXES = ("NCA_", "SLUICE_")  # the later one wins

KEY_SOURCES = ("api_key", "api_key_file", "key_command")  # of one source of settings, the first that is there counts
FILES = (
    "api_key_file",
    "mock_fixture",
    "record",
    "replay",
    "system_prompt_file",
)  # keys that name a file, made absolute

Found = dict[str, tuple[Any, str]]
"""Values by key, each with the words that say where it came from."""


def load(
    flags: Mapping[str, object],
    environ: Mapping[str, str],
    *,
    cwd: Path,
    user_config: Path | None = None,
    pairs: Sequence[str] = (),
    given_as: str = "flag --",
) -> Loaded:
    """Puts the configuration together from all sources and checks it.

    `flags` maps keys, and `config`, to values (`None` is not given); `pairs` are `key=value` texts of `--set`.
    `user_config` is the user's own config file, which may be absent. Relative paths start at `cwd`. `given_as` stands
    before a flag's name in messages.
    Raises `ConfigurationError` for anything unusable. Reads files; writes nothing.
    """
    warnings: list[str] = []
    file = _named_file(flags, environ, cwd, user_config)
    low: Found = {} if file is None else _from_file(file, warnings)
    layers = [low, _from_environment(environ, warnings), _from_flags(flags, pairs, given_as)]
    workspace = _path(cwd, {**low, **layers[1], **layers[2]}.get("workspace", (".", ""))[0])
    layers[0] = _narrowed(low, workspace / PROJECT_FILE, file, warnings)
    found = _of_one_provider(layers)
    _keep_one_key(found, layers)
    _take_the_providers_key(found, environ)
    for name in FILES:
        if name in found and found[name][0] is not None:
            found[name] = (str(_path(cwd, found[name][0])), found[name][1])
    store = found.get("session_store", (None, ""))
    if store[0] is not None and store[0] != ":memory:":
        folder = os.sep if store[0].endswith(os.sep) else ""  # which may not be there yet
        found["session_store"] = (f"{_path(cwd, store[0])}{folder}", store[1])
    settings = _settings(found, None if file is None else str(file.path.absolute()))
    _check(settings, warnings)
    origins = {key: found[key][1] if key in found else "default" for key in keys()}
    way = settings.route()
    for key in ("base_url", "dialect", "inline"):
        if key not in found and way.chosen:
            origins[key] = f"model {settings.model}"
    return Loaded(settings=settings, origins=origins, warnings=warnings)


def absolute_workspace(settings: Settings, cwd: Path) -> Settings:
    """The settings with an absolute workspace, links resolved. Creates nothing. Raises `ConfigurationError`."""
    try:
        path = _path(cwd, settings.workspace).resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise ConfigurationError(f"workspace {settings.workspace!r} cannot be used: {error}") from None
    try:
        str(path).encode("utf-8")
    except UnicodeEncodeError:  # it goes into the prompt, the notices and the store, which are text
        raise ConfigurationError(f"workspace {str(path)!r} has a name that is no UTF-8; rename it") from None
    try:
        usable = not path.exists() or path.is_dir()
    except OSError as error:
        raise ConfigurationError(f"workspace {_short(str(path))} cannot be used: {error.strerror or error}") from None
    if not usable:
        raise ConfigurationError(f"workspace {str(path)!r} is not a folder")
    return msgspec.structs.replace(settings, workspace=str(path))


def open_workspace(settings: Settings, cwd: Path) -> Settings:
    """The settings with an absolute workspace that exists: it is created if absent. Raises `ConfigurationError`."""
    settings = absolute_workspace(settings, cwd)
    try:
        Path(settings.workspace).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or error
        raise ConfigurationError(f"workspace {settings.workspace!r} cannot be made: {reason}") from None
    if not os.access(settings.workspace, os.R_OK | os.X_OK):
        raise ConfigurationError(f"workspace {settings.workspace!r} may not be read")
    return settings


def require_provider(settings: Settings) -> None:
    """Raises `ConfigurationError` for a model string that names a provider with a slip of the pen: it would count as a bare
    name, and be asked for somewhere else."""
    if settings.mode == "mock" or settings.replay is not None:
        return
    addressed = settings.base_url is not None or settings.dialect is not None
    if (found := misspelt(settings.model, settings.providers, addressed=addressed)) is not None:
        raise ConfigurationError(f"unknown provider {_short(found[0])} (did you mean {found[1]}?)")


def require_key(settings: Settings) -> None:
    """Raises `ConfigurationError` if this run would send requests to nobody that is known, or requests that need an API
    key, and there is none."""
    require_provider(settings)
    offline = settings.mode == "mock" or settings.replay is not None
    way = settings.route()
    ways = (*(getattr(settings, name) for name in KEY_SOURCES), way.key_file, way.key_command)
    if any(ways) or offline or not way.needs_key:
        return
    variables = " or ".join(("SLUICE_API_KEY", *way.key_env))
    raise ConfigurationError(
        f"no API key for {without_password(way.base_url)}: set {variables}, "
        "or api_key_file or key_command in your config file; or name another model (--model), "
        "or a server on this machine (--base-url)"
    )


def _path(cwd: Path, text: str) -> Path:
    try:
        return cwd / Path(text).expanduser()
    except RuntimeError as error:  # no home folder for `~name`
        raise ConfigurationError(f"path {text!r} cannot be used: {error}") from None


def _named_file(
    flags: Mapping[str, object], environ: Mapping[str, str], cwd: Path, user_config: Path | None
) -> ConfigFile | None:
    for named in (flags.get("config"), environ.get("SLUICE_CONFIG"), environ.get("NCA_CONFIG")):
        if isinstance(named, str) and named:
            return read_config_file(_path(cwd, named))
    if user_config is not None and os.path.lexists(user_config):
        return read_config_file(user_config)
    return None


def _parsed(key: Key, raw: object, origin: str) -> Any:
    if key.kind == "rules":
        return rules_from(raw, origin)
    if key.kind == "providers":
        return _usable(providers_from(raw, origin), origin)
    try:
        return key.parse(raw)
    except ValueError:
        given = "its value" if key.kind == "secret" else _short(without_password(raw) if isinstance(raw, str) else raw)
        message = f"{origin}: {key.name} cannot be {given}; expected {key.expected()}"
        raise ConfigurationError(message) from None


def _usable(providers: tuple[Provider, ...], origin: str) -> tuple[Provider, ...]:
    for provider in providers:
        _parsed(keys()["base_url"], provider.base_url, f"{origin}: [providers.{provider.name}]")
    return providers


def _short(raw: object) -> str:
    text = repr(raw)
    return text if len(text) <= 80 else text[:77] + "…"


def _unknown(key: str, origin: str, among: Iterable[str]) -> str:
    near = difflib.get_close_matches(key, list(among), n=1, cutoff=0.6)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"{origin}: unknown key {_short(key)} is ignored{hint}"


def _from_file(file: ConfigFile, warnings: list[str]) -> Found:
    origin = f"config file {str(file.path)!r}"
    warnings.extend(file.warnings)
    found: Found = {}
    for name, raw in file.values.items():
        key = keys().get(name)
        if key is None:
            warnings.append(_unknown(name, origin, keys()))
        else:
            found[name] = (_parsed(key, raw, origin), origin)
    if not file.values and file.path.is_file() and file.path.stat().st_size == 0:
        # A file that lost its content may have held rules: no rule is not the same as every rule gone.
        found["rules"] = (Rules(broken=f"{origin} is empty; write a line into it, or remove it"), origin)
    if found.get("api_key", (None,))[0] and file.open_to_others:
        warnings.append(f"{origin} holds an API key and others on this machine can read it; run chmod 600 on it")
    return found


def _from_environment(environ: Mapping[str, str], warnings: list[str]) -> Found:
    found: Found = {}
    for prefix in PREFIXES:
        for key in keys().values():
            variable = prefix + key.name.upper()
            raw = environ.get(variable, "")
            if raw.strip():  # an empty variable is one that is not set
                origin = f"environment {variable}"
                found[key.name] = (_parsed(key, raw, origin), origin)
    known = [prefix + key.upper() for prefix in PREFIXES for key in (*keys(), "config")]
    for variable in sorted(environ):
        # Other programs may have SLUICE_ variables of their own: only one that looks like a slip is worth a word.
        if variable.startswith(PREFIXES) and variable not in known:
            near = difflib.get_close_matches(variable, known, n=1, cutoff=0.9)
            if near:
                warnings.append(f"environment {variable} is not known and is ignored; did you mean {near[0]}?")
    return found


def _from_flags(flags: Mapping[str, object], pairs: Sequence[str], given_as: str) -> Found:
    found: Found = {}
    for pair in pairs:
        written, equals, raw = pair.partition("=")
        key = keys().get(normal_key(written))
        if not equals:
            raise ConfigurationError(f"flag --set: expected KEY=VALUE, not {_short(pair.partition('=')[0])}")
        if key is None:
            raise ConfigurationError(_unknown(normal_key(written), "flag --set", keys()).replace(" is ignored", ""))
        found[key.name] = (_parsed(key, raw, "flag --set"), f"flag --set {key.name}")
    for name, value in flags.items():
        if value is None or name == "config":
            continue
        origin = given_as + (name.replace("_", "-") if given_as.endswith("-") else name)
        found[name] = (_parsed(keys()[name], value, origin), origin)
    return found


def _narrowed(low: Found, path: Path, user_file: ConfigFile | None, warnings: list[str]) -> Found:
    """`low` with what the project's file may narrow of it; a warning names every key it may not set."""
    try:
        absent = not os.path.lexists(path)
        own = user_file is not None and not absent and path.samefile(user_file.path)
    except (OSError, ValueError):  # no workspace, or one that `open_workspace` will refuse
        return low
    if absent or own:  # a file that the user named is the user's, wherever it lies
        return low
    if path.parent.is_symlink():
        raise ConfigurationError(f"config file {str(path)!r}: the folder it lies in is a link")
    file = read_config_file(path, trusted=False)
    origin = f"project file {str(path)!r}"
    warnings.extend(file.warnings)
    result = dict(low)
    refused = []
    for name, raw in file.values.items():
        key = keys().get(name)
        if key is None:
            warnings.append(_unknown(name, origin, keys()))
        elif key.narrowing == "never":
            refused.append(name)
        else:
            value = _parsed(key, raw, origin)
            current = low[name][0] if name in low else key.default
            narrowed = key.narrow(current, value)
            if narrowed != current:
                result[name] = (narrowed, origin)
            if key.narrowing == "deny" and any(rule.effect != "deny" for rule in value.rules):
                warnings.append(f"{origin}: only the rules that deny are taken; a project file may only narrow")
            if narrowed != value and key.narrowing in ("lower", "on"):
                warnings.append(f"{origin}: {name} = {_short(value)} is ignored; a project file may only narrow")
    if refused:
        warnings.append(f"{origin}: ignored {', '.join(refused)}; only your own config, variables and flags set these")
    return result


def _of_one_provider(layers: Sequence[Found]) -> Found:
    """All layers together, the later ones first.

    A model string that names its provider picks address, dialect and form of calls as well: what a weaker layer says of
    them was said of another model, and the key that stands beside such an address belongs to that address.
    """
    found = {key: value for layer in layers for key, value in layer.items()}
    at = max((number for number, layer in enumerate(layers) if "model" in layer), default=0)
    if "model" not in found or not _route(found).chosen:
        return found
    weaker = layers[:at]
    for layer in weaker:
        for key in ("base_url", "dialect", "inline"):
            if key in layer and found.get(key) is layer[key]:
                del found[key]
                for own in KEY_SOURCES if key == "base_url" else ():
                    if own in layer and found.get(own) is layer[own]:
                        del found[own]
    return found


def _route(found: Found) -> Route:
    given = {key: found[key][0] for key in ("base_url", "dialect") if key in found}
    model = found["model"][0] if "model" in found else keys()["model"].default
    return route(model, **given, own=found["providers"][0] if "providers" in found else ())


def _keep_one_key(found: Found, layers: Sequence[Found]) -> None:
    """Leaves one of the ways to a key: that of the strongest source that names any."""
    given = [(layer, name) for layer in reversed(layers) for name in KEY_SOURCES if layer.get(name, (None,))[0]]
    kept = next((name for layer, name in given if found.get(name) is layer[name]), None)
    for name in KEY_SOURCES:
        if kept is not None and name != kept:
            found.pop(name, None)


def _take_the_providers_key(found: Found, environ: Mapping[str, str]) -> None:
    """Takes the key from the provider's usual variables when nothing else gave one, for its own address only."""
    if any(found.get(name, (None,))[0] for name in KEY_SOURCES):
        return
    for variable in _route(found).key_env:
        if environ.get(variable, "").strip():
            origin = f"environment {variable}"
            found["api_key"] = (_parsed(keys()["api_key"], environ[variable], origin), origin)
            return


def _settings(found: Found, file: str | None) -> Settings:
    values = {name: value for name, (value, _origin) in found.items()}
    bounds = {name: values.pop(name) for name in list(values) if keys()[name].limit}
    return Settings(**values, config_file=file, limits=msgspec.structs.replace(DEFAULT_LIMITS, **bounds))


def _check(settings: Settings, warnings: list[str]) -> None:
    if settings.rules.broken is not None:
        warnings.append(f"the rules cannot be used, so every tool is denied: {settings.rules.broken}")
    if settings.allow_network and settings.allow_host:
        warnings.append("allow_host has no effect beside allow_network, which lets commands reach every host")
    if settings.no_tools and settings.tools:
        warnings.append("tools has no effect beside no_tools, which offers none")
    if settings.mode == "mock" and not settings.mock_fixture and not settings.replay:
        raise ConfigurationError("mode mock needs a fixture: add --mock-fixture FILE")
    if settings.mock_fixture and settings.mode != "mock":
        warnings.append("mock_fixture has no effect without --mode mock")
    for name in ("mock_fixture", "replay", "system_prompt_file"):
        given = getattr(settings, name)
        if given is None:
            continue
        path = Path(given)
        try:
            path.stat()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ConfigurationError(f"{name} {given!r} cannot be read: {reason}") from None
        if path.is_dir():
            raise ConfigurationError(f"{name} {given!r} is a folder")
    address = settings.route().base_url
    plain = urlsplit(address).scheme.lower() == "http"
    if (
        plain
        and any(getattr(settings, name) for name in KEY_SOURCES)
        and settings.mode == "real"
        and not is_loopback(address)
    ):
        warnings.append(f"the API key goes unencrypted to {without_password(address)}")
