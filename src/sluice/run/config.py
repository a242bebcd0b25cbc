"""The configuration of a run: one frozen struct, where each value came from, and the steps before a run starts.

Later sources win: default, the user's config file, the project's file (which may only narrow), `NCA_*` variables,
`SLUICE_*` variables, flags. The start order (U6) is: `load` (whole and valid), logging, `open_workspace`, `require_key`,
tools, run. `load` writes nothing, so a mistake it finds leaves nothing behind.
"""

from __future__ import annotations

import difflib
import ipaddress
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from sluice.errors import ConfigurationError
from sluice.limits import DEFAULT_LIMITS, Limits
from sluice.policy.rules import Rules, rules_from
from sluice.run.config_file import ConfigFile, normal_key, read_config_file
from sluice.run.config_keys import SESSION_STORE_BYTES, Key, keys
from sluice.session.wish import Wish as Wish
from sluice.values.requests import ModelOptions

PROJECT_FILE = Path(".sluice") / "config.toml"
PREFIXES = ("NCA_", "SLUICE_")  # the later one wins

FILES = ("mock_fixture", "record", "replay", "system_prompt_file")  # keys that name a file, made absolute

Found = dict[str, tuple[Any, str]]
"""Values by key, each with the words that say where it came from."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a run is told from outside, apart from the prompt. Its `repr` holds no secret.

    `tools` is `None` for all tools, else the only names to offer; `exclude_tools` and `no_tools` take away from them.
    `config_file` is the user's config file that was read, if any. After `load` the files are absolute; the workspace is
    so once `open_workspace` has been through it.
    """

    workspace: str = "."
    model: str = "gpt-4o"
    base_url: str = "https://api.openai.com/v1"
    api_key: str | None = None
    dialect: str = "openai_chat"
    mode: Literal["real", "mock"] = "real"
    mock_fixture: str | None = None
    record: str | None = None
    replay: str | None = None
    system_prompt_file: str | None = None
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
    ask: bool = False
    rules: Rules = Rules()
    sandbox: Literal["auto", "off"] = "auto"
    allow_unsandboxed: bool = False
    allow_network: bool = False
    tools: tuple[str, ...] | None = None
    exclude_tools: tuple[str, ...] = ()
    no_tools: bool = False
    output: Literal["text", "json", "stream-json"] = "text"
    dry_run: bool = False
    debug: bool = False
    session_store: str | None = None
    session_days: float | None = None
    session_store_bytes: int | None = SESSION_STORE_BYTES
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
        values["base_url"] = without_password(self.base_url)
        values["rules"] = self.rules.shown()
        return values

    def offers(self, tool: str) -> bool:
        """Whether the tool of this name is offered to the model. Offered is not allowed."""
        chosen = self.tools is None or tool in self.tools
        return chosen and not self.no_tools and tool not in self.exclude_tools

    def model_options(self) -> ModelOptions:
        """Model and sampling options of a request; what was not set is absent."""
        return ModelOptions(
            model=self.model,
            temperature=self.temperature,
            top_p=self.top_p,
            max_output_tokens=self.max_output_tokens,
            seed=self.seed,
            tool_choice=self.tool_choice,
            parallel_tool_calls=self.parallel_tool_calls,
            reasoning_effort=self.reasoning_effort,
        )


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """Settings, the origin of each key's value in words, and what a person should know (no secret in any of them)."""

    settings: Settings
    origins: dict[str, str]
    warnings: list[str]


def load(
    flags: Mapping[str, object],
    environ: Mapping[str, str],
    *,
    cwd: Path,
    user_config: Path | None = None,
    pairs: Sequence[str] = (),
) -> Loaded:
    """Puts the configuration together from all sources and checks it.

    `flags` maps keys, and `config`, to values (`None` is not given); `pairs` are `key=value` texts of `--set`.
    `user_config` is the user's own config file, which may be absent. Relative paths start at `cwd`.
    Raises `ConfigurationError` for anything unusable. Reads files; writes nothing.
    """
    warnings: list[str] = []
    file = _named_file(flags, environ, cwd, user_config)
    low: Found = {} if file is None else _from_file(file, warnings)
    high = {**_from_environment(environ, warnings), **_from_flags(flags, pairs)}
    workspace = _path(cwd, {**low, **high}.get("workspace", (".", ""))[0])
    low = _narrowed(low, workspace / PROJECT_FILE, file, warnings)
    found = {**low, **high}
    _fall_back_to_openai_key(found, environ)
    for name in FILES:
        if name in found and found[name][0] is not None:
            found[name] = (str(_path(cwd, found[name][0])), found[name][1])
    store = found.get("session_store", (None, ""))
    if store[0] is not None and store[0] != ":memory:":
        found["session_store"] = (str(_path(cwd, store[0])), store[1])
    settings = _settings(found, None if file is None else str(file.path.absolute()))
    _check(settings, warnings)
    origins = {key: found[key][1] if key in found else "default" for key in keys()}
    return Loaded(settings=settings, origins=origins, warnings=warnings)


def absolute_workspace(settings: Settings, cwd: Path) -> Settings:
    """The settings with an absolute workspace, links resolved. Creates nothing. Raises `ConfigurationError`."""
    try:
        path = _path(cwd, settings.workspace).resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise ConfigurationError(f"workspace {settings.workspace!r} cannot be used: {error}") from None
    if path.exists() and not path.is_dir():
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


def require_key(settings: Settings) -> None:
    """Raises `ConfigurationError` if this run would send requests that need an API key, and there is none."""
    offline = settings.mode == "mock" or settings.replay is not None
    if settings.api_key or offline or is_loopback(settings.base_url):
        return
    raise ConfigurationError(
        f"no API key for {without_password(settings.base_url)}: set SLUICE_API_KEY, or api_key in the config file"
    )


def is_loopback(url: str) -> bool:
    """Whether the address is this machine itself: `localhost`, 127.0.0.0/8 or ::1."""
    host = (urlsplit(url).hostname or "").rstrip(".")
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
    try:
        return key.parse(raw)
    except ValueError:
        given = "its value" if key.kind == "secret" else _short(without_password(raw) if isinstance(raw, str) else raw)
        message = f"{origin}: {key.name} cannot be {given}; expected {key.expected()}"
        raise ConfigurationError(message) from None


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


def _from_flags(flags: Mapping[str, object], pairs: Sequence[str]) -> Found:
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
        origin = "flag --" + name.replace("_", "-")
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
            narrowed = _narrow(key, current, value)
            if narrowed != current:
                result[name] = (narrowed, origin)
            if key.narrowing == "deny" and any(rule.effect != "deny" for rule in value.rules):
                warnings.append(f"{origin}: only the rules that deny are taken; a project file may only narrow")
            if narrowed != value and key.narrowing in ("lower", "on"):
                warnings.append(f"{origin}: {name} = {_short(value)} is ignored; a project file may only narrow")
    if refused:
        warnings.append(f"{origin}: ignored {', '.join(refused)}; only your own config, variables and flags set these")
    return result


def _narrow(key: Key, current: Any, wanted: Any) -> Any:
    """The narrower of what is and what the project wants."""
    if key.narrowing == "lower":
        return wanted if wanted is not None and (current is None or wanted < current) else current
    if key.narrowing == "fewer" and wanted is not None:
        return wanted if current is None else tuple(name for name in current if name in wanted)
    if key.narrowing == "more":
        return tuple(dict.fromkeys((*current, *wanted)))
    if key.narrowing == "deny":
        more = tuple(rule for rule in wanted.rules if rule.effect == "deny")
        return Rules((*current.rules, *more), current.broken or wanted.broken)
    return bool(current or wanted) if key.narrowing == "on" else current


def _fall_back_to_openai_key(found: Found, environ: Mapping[str, str]) -> None:
    """Takes `OPENAI_API_KEY` when nothing else gave a key, and only for OpenAI's own address over TLS."""
    if found.get("api_key", (None,))[0]:
        return
    url = urlsplit(found["base_url"][0] if "base_url" in found else keys()["base_url"].default)
    if environ.get("OPENAI_API_KEY", "").strip() and url.scheme == "https" and url.hostname == "api.openai.com":
        origin = "environment OPENAI_API_KEY"
        found["api_key"] = (_parsed(keys()["api_key"], environ["OPENAI_API_KEY"], origin), origin)


def _settings(found: Found, file: str | None) -> Settings:
    values = {name: value for name, (value, _origin) in found.items()}
    bounds = {name: values.pop(name) for name in list(values) if keys()[name].limit}
    return Settings(**values, config_file=file, limits=msgspec.structs.replace(DEFAULT_LIMITS, **bounds))


def _check(settings: Settings, warnings: list[str]) -> None:
    if settings.rules.broken is not None:
        warnings.append(f"the rules cannot be used, so every tool is denied: {settings.rules.broken}")
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
    plain = urlsplit(settings.base_url).scheme.lower() == "http"
    if plain and settings.api_key and settings.mode == "real" and not is_loopback(settings.base_url):
        warnings.append(f"the API key goes unencrypted to {without_password(settings.base_url)}")
