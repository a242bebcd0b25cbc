"""A config file with every key in it, commented out, with its default and what it is for: what `sluice init` writes."""

from __future__ import annotations

import json
import os
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

from sluice.errors import ConfigurationError
from sluice.run.config_keys import Key, keys
from sluice.session.private_folder import make_private_folder

SECTIONS: dict[str, dict[str, str]] = {
    "Who is asked": {
        "model": "provider:name (openai, openai-chat, anthropic, gemini, ollama or one of yours), or a bare name.",
        "base_url": "Address of the API, if it is not the provider's own.",
        "dialect": "Wire format, if it is not the provider's own: openai_chat, openai_responses, anthropic_messages, …",
        "inline": "The form of calls inside the text, for a server that leaves them there: hermes, qwen3_coder, glm, …",
        "api_key": "The key. Better: the variable SLUICE_API_KEY, or one of the next two.",
        "api_key_file": "A file that holds the key and that only you can read (mode 0600).",
        "key_command": 'A program of yours that prints the key, run without a shell: ["pass", "show", "llm"].',
    },
    "What is sent": {
        "temperature": "Sampling temperature.",
        "top_p": "Nucleus sampling.",
        "seed": "Seed, where the provider takes one.",
        "max_output_tokens": "Tokens of one reply.",
        "reasoning_effort": "low, medium, high or the provider's own word.",
        "tool_choice": "auto, none, required, or the name of a tool.",
        "parallel_tool_calls": "Whether one reply may ask for several calls, where the provider takes that word.",
        "system_prompt_file": "A file with a system prompt in place of the built-in one.",
        "append_system_prompt": "Words behind the system prompt.",
        "no_agents_md": "Whether AGENTS.md files of the workspace are kept from the model.",
    },
    "What is allowed": {
        "allow_mutating_tools": "Whether tools may change files in the workspace.",
        "allow_execution_tools": "Whether tools may run commands, in a sandbox.",
        "ask": "Whether you are asked on the terminal for what is not allowed.",
        "accept_healed": "Whether a cut call that only reads may run with its arguments closed by Sluice.",
        "sandbox": "auto, or off: commands run as you, without a sandbox, even where one could be had.",
        "allow_unsandboxed": "Whether commands run also where no sandbox can be had.",
        "allow_network": "Whether commands reach the network.",
        "allow_host": "Hosts that commands may reach by HTTP and HTTPS, although the network is off.",
        "tools": "The only tools to offer.",
        "exclude_tools": "Tools not to offer.",
        "no_tools": "Whether no tools are offered at all.",
    },
    "Sessions": {
        "session_store": "Store of sessions; :memory: keeps nothing. Usually one for each workspace, in the data folder.",
        "session_days": "Days after which sessions that were not used are removed.",
        "session_store_bytes": "What one store may hold.",
        "audit_days": "Days after which closed files of the audit log are removed.",
        "kept_bytes": "What all sessions, pre-images and the audit log together may take of the disk.",
    },
    "Money and context, for models that are not known": {
        "window_tokens": "Tokens of the model's context window.",
        "price_input": "US dollars for a million tokens of input.",
        "price_output": "US dollars for a million tokens of output.",
        "price_cached": "US dollars for a million tokens of input read from a cache.",
        "price_cache_write": "US dollars for a million tokens written to a cache.",
    },
    "How a run is shown, and for tests": {
        "workspace": "The folder that tools work in.",
        "output": "text, json or stream-json.",
        "debug": "Whether notices, logs and tracebacks are shown on standard error.",
        "dry_run": "Whether the request is shown and nothing is sent.",
        "mode": "real, or mock: a fixture answers.",
        "mock_fixture": "The fixture of mode mock: a JSON array of assistant messages.",
        "record": "A cassette to which every exchange is written, without the key.",
        "replay": "A cassette that answers in place of the network.",
    },
}
"""Every key but the limits and the tables, in groups, each with its words."""

_HEAD = """\
# Configuration of Sluice. Every key is here, commented out, with its default: take the `#` away and change it.
# A variable SLUICE_<KEY> is stronger than this file, and a flag is stronger than both; `sluice config show` says
# where each value came from. Sizes: 65536, "64KiB", "1MiB". Times: seconds. "none" and "" mean not set.
"""
_TABLES = """\
# --- Providers of your own, for --model router:some/model

# [providers.router]
# base_url = "https://openrouter.ai/api/v1"
# key_env = "OPENROUTER_API_KEY"      # the variable that holds its key
# dialect = "openai_chat"

# [providers.anthropic]
# key_command = ["pass", "show", "anthropic"]    # or key_file: a key for this provider's address only

# --- Rules: allow, ask about or deny a tool, or the commands of a line. Deny wins. One table for each rule.

# [[rules]]
# effect = "deny"
# tool = "git_commit"

# [[rules]]
# effect = "allow"
# command = "git status"
"""
_EXAMPLES: dict[str, Any] = {
    "base_url": "https://api.openai.com/v1",
    "dialect": "openai_chat",
    "tools": ["read_file_safe", "rg_search"],
}
"""Values for keys whose default cannot be written down."""


def config_template() -> str:
    """The text of a config file (TOML) that changes nothing."""
    table = keys()
    parts = [_HEAD]
    for heading, named in SECTIONS.items():
        parts.append(f"\n# --- {heading}\n")
        parts += [_entry(table[name], words) for name, words in named.items() if name in table]
    parts.append("\n# --- Bounds\n")
    words_of_limits = limit_words()
    parts += [_entry(key, words_of_limits.get(key.name, "")) for key in table.values() if key.limit]
    return "".join([*parts, "\n", _TABLES])


def limit_words() -> dict[str, str]:
    """What is said of each bound where it is defined: its unit and its reason."""
    source = files("sluice").joinpath("limits.py").read_text("utf-8")
    found = re.findall(r"^    (\w+): [^#]*?#\s*(.+)$", source, re.MULTILINE)
    return {name: f"{words[0].upper()}{words[1:]}." for name, words in found}


def write_config(path: Path) -> None:
    """Writes the template to a new file that only its user can read, and makes the folder it lies in.

    Raises `ConfigurationError` if there is one already, or it cannot be written; then nothing was changed.
    """
    try:
        make_private_folder(path.parent)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise ConfigurationError(
            f"{str(path)!r} is there already, and was left as it is; edit it, or name another file"
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigurationError(f"{str(path)!r} cannot be made: {reason}") from None
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(config_template())
    except OSError as error:
        path.unlink(missing_ok=True)
        raise ConfigurationError(f"{str(path)!r} cannot be written: {error.strerror or error}") from None


def _entry(key: Key, words: str) -> str:
    example = key.name in _EXAMPLES
    note = f"{words} For example:" if example else words
    value = _EXAMPLES[key.name] if example else _default(key)
    return f"\n# {note}\n# {key.name} = {_toml(value)}\n"


def _default(key: Key) -> Any:
    if key.default is None:
        return "none" if key.kind in ("count", "bytes", "seconds", "number", "switch") else ""
    if key.kind == "bytes":
        for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
            if key.default % size == 0:
                return f"{key.default // size}{unit}"
    return key.default


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"{value:g}" if isinstance(value, float) else str(value)
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)  # the same as TOML's here
