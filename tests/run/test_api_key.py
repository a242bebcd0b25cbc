"""The key from a file or a command: the user's own only, bounded in time, shown nowhere."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from sluice.errors import ConfigurationError
from sluice.run import api_key
from sluice.run.api_key import with_key
from sluice.run.config import load, require_key
from sluice.run.models import Provider
from sluice.run.settings import Settings

KEY = "sk-" + "k3y" * 10


def _script(folder: Path, body: str, name: str = "getkey") -> str:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o700)
    return str(path)


def _key(**settings: Any) -> str | None:
    return asyncio.run(with_key(Settings(**{"workspace": "/nowhere", **settings}))).api_key


def _file(folder: Path, content: bytes = KEY.encode(), mode: int = 0o600) -> str:
    path = folder / "key"
    path.write_bytes(content)
    path.chmod(mode)
    return str(path)


# -- a file


def test_a_key_file_is_read_and_trimmed(tmp_path: Path) -> None:
    assert _key(api_key_file=_file(tmp_path, b"\n " + KEY.encode() + b" \r\n")) == KEY


@pytest.mark.parametrize(
    ("content", "mode", "words"),
    [
        (KEY.encode(), 0o640, "others on this machine can read api_key_file .*; run chmod 600 on it"),
        (KEY.encode(), 0o604, "others on this machine can read"),
        (b"", 0o600, "is no key"),
        (b"two\nlines", 0o600, "is no key"),
        ("schlüssel".encode(), 0o600, "is no key"),
        (b"\xff\xfe", 0o600, "is no key"),
    ],
)
def test_a_key_file_that_cannot_be_used_is_said(tmp_path: Path, content: bytes, mode: int, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words) as caught:
        _key(api_key_file=_file(tmp_path, content, mode))
    assert content.decode("latin-1") not in str(caught.value) or not content


def test_a_key_file_that_is_no_file_is_said_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    for name, words in {
        "pipe": "is no file",
        "absent": "No such file",
        ".": "is no file",
        "a\0b": "cannot be read",
    }.items():
        with pytest.raises(ConfigurationError, match=words):
            _key(api_key_file=f"{tmp_path}/{name}")


def test_a_key_file_that_the_model_could_read_is_refused(tmp_path: Path) -> None:
    key, work = _file(tmp_path), tmp_path / "work"
    work.mkdir()
    (work / "link").symlink_to(key)
    (tmp_path / "there").symlink_to(work / "inside")
    (work / "inside").write_text(KEY)
    (work / "inside").chmod(0o600)
    for path in (work / "inside", tmp_path / "there", work / ".." / "work" / "inside"):
        with pytest.raises(ConfigurationError, match="lies in the workspace, where the model can read it"):
            _key(api_key_file=str(path), workspace=str(work))
    assert _key(api_key_file=str(work / "link"), workspace=str(work)) == KEY  # a link is not followed by tools
    assert _key(api_key_file=key, workspace=str(work)) == KEY


# -- a command


def test_what_a_command_prints_is_the_key(tmp_path: Path) -> None:
    script = _script(tmp_path, f'echo "for $1 in $PWD" >&2; echo {KEY}')
    assert _key(key_command=(script, "me")) == KEY


def test_a_command_is_looked_for_in_absolute_folders_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _script(tmp_path, f"echo {KEY}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f".::{os.environ['PATH']}")
    for word in ("getkey", "./getkey", "nested/getkey"):
        with pytest.raises(ConfigurationError, match="is not found"):
            _key(key_command=(word,))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert _key(key_command=("getkey",)) == KEY


def test_a_program_that_the_model_could_have_written_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folders of the workspace stand in PATH as well: those of an environment, or of a project's own programs."""
    work, elsewhere = tmp_path / "work", tmp_path / "elsewhere"
    for folder in (work / ".venv" / "bin", elsewhere):
        folder.mkdir(parents=True)
    _script(work / ".venv" / "bin", f"touch {tmp_path}/ran; echo {KEY}")
    (tmp_path / "link").symlink_to(work / ".venv" / "bin")
    monkeypatch.setenv("PATH", f"{work}/.venv/bin:{tmp_path}/link:{os.environ['PATH']}")
    for word in ("getkey", f"{work}/.venv/bin/getkey", f"{tmp_path}/link/getkey"):
        with pytest.raises(ConfigurationError, match="the model could have written it"):
            _key(key_command=(word,), workspace=str(work))
    assert not (tmp_path / "ran").exists()
    _script(elsewhere, f"echo {KEY}")
    monkeypatch.setenv("PATH", f"{work}/.venv/bin:{elsewhere}:{os.environ['PATH']}")
    assert _key(key_command=("getkey",), workspace=str(work)) == KEY


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("echo secret words; exit 3", "failed \\(exit code 3\\); run it by hand"),
        ("kill -9 $$", "failed \\(signal 9\\)"),
        ("echo secret words", "what key_command .* prints is no key"),
        ("true", "prints is no key"),
        ("sleep 60", "did not end within 0.2 s"),
        ("exec yes secret", "prints more than 65536 bytes, which is no key"),
    ],
)
def test_a_command_that_gives_no_key_is_said_and_nothing_of_it_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, words: str
) -> None:
    monkeypatch.setattr(api_key, "COMMAND_SECONDS", 0.2 if "sleep" in body else 20.0)
    with pytest.raises(ConfigurationError, match=words) as caught:
        _key(key_command=(_script(tmp_path, body),))
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_run_is_said(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("no program")
    with pytest.raises(ConfigurationError, match="cannot be run: Permission denied"):
        _key(key_command=(str(tmp_path / "plain"),))


# -- when, and from where


@pytest.mark.parametrize(
    "more",
    [
        {"mode": "mock", "mock_fixture": "x"},
        {"replay": "x"},
        {"base_url": "http://127.0.0.1:1/v1"},
        {"model": "ollama:qwen3:4b"},
    ],
)
def test_nothing_is_asked_where_no_key_is_needed(more: Mapping[str, Any]) -> None:
    assert _key(key_command=("/nowhere",), api_key_file="/nowhere", **more) is None
    assert _key(key_command=("/nowhere",), api_key=KEY) == KEY


def _loaded(tmp_path: Path, environ: Mapping[str, str], config: str, **flags: Any) -> Settings:
    (tmp_path / "config.toml").write_text(config)
    (tmp_path / "config.toml").chmod(0o600)
    return load(flags, environ, cwd=tmp_path, user_config=tmp_path / "config.toml").settings


def test_the_strongest_source_gives_the_key(tmp_path: Path) -> None:
    def sources(settings: Settings) -> tuple[Any, Any, Any]:
        return settings.api_key, settings.api_key_file, settings.key_command

    command, own = 'key_command = ["pass", "show x"]\n', {"OPENAI_API_KEY": "sk-env"}
    words = ("pass", "show x")
    assert sources(_loaded(tmp_path, own, command)) == (None, None, words)
    assert sources(_loaded(tmp_path, own, "")) == ("sk-env", None, None)
    assert sources(_loaded(tmp_path, {**own, "SLUICE_API_KEY": "sk-s"}, command)) == ("sk-s", None, None)
    assert sources(_loaded(tmp_path, own, 'api_key = "sk-f"\n' + command)) == ("sk-f", None, None)
    stronger = _loaded(tmp_path, {"SLUICE_API_KEY": "sk-s"}, command, api_key_file="key")
    assert sources(stronger) == (None, str(tmp_path / "key"), None)
    require_key(stronger)  # there is a way to one


def test_a_key_that_stands_beside_an_address_is_not_taken_to_another(tmp_path: Path) -> None:
    config = 'base_url = "https://llm.example/v1"\nkey_command = "pass show example"\n'
    assert _loaded(tmp_path, {}, config).key_command == ("pass", "show", "example")
    other = _loaded(tmp_path, {"ANTHROPIC_API_KEY": "sk-a"}, config, model="anthropic:claude")
    assert (other.key_command, other.api_key) == (None, "sk-a")


PROVIDERS = """
[providers.anthropic]
key_command = ["show", "anthropic"]
[providers.mine]
base_url = "https://mine.example/v1"
key_file = "/keys/mine"
"""


def test_a_provider_has_ways_of_its_own_for_its_address_alone(tmp_path: Path) -> None:
    def ways(model: str, environ: Mapping[str, str] | None = None, **flags: Any) -> tuple[Any, Any, Any, Any]:
        settings = _loaded(tmp_path, environ or {}, 'key_command = "show all"\n' + PROVIDERS, model=model, **flags)
        require_key(settings)
        way = settings.route()
        return settings.api_key, way.key_file, way.key_command, settings.key_command

    everyone = ("show", "all")
    assert ways("anthropic:claude") == (None, None, ("show", "anthropic"), everyone)
    assert ways("mine:m") == (None, "/keys/mine", (), everyone)
    assert ways("m", base_url="https://mine.example/v1/chat/completions")[1] == "/keys/mine"
    assert ways("openai:gpt-5") == (None, None, (), everyone)
    assert ways("anthropic:claude", base_url="https://other.example")[2] == ()
    assert ways("mine:m", {"SLUICE_API_KEY": KEY})[0] == KEY


def test_a_providers_own_way_goes_before_that_of_the_settings(tmp_path: Path) -> None:
    script = _script(tmp_path, "echo sk-$1")
    own = Provider(name="mine", base_url="https://mine.example", key_command=(script, "mine"))
    both: dict[str, Any] = {"providers": (own,), "key_command": (script, "all")}
    assert _key(model="mine:m", **both) == "sk-mine"
    assert _key(model="openai:m", **both) == "sk-all"
    assert _key(model="mine:m", api_key=KEY, **both) == KEY
    file = Provider(name="mine", base_url="https://mine.example", key_file=_file(tmp_path))
    assert _key(model="mine:m", providers=(file,)) == KEY
    with pytest.raises(ConfigurationError, match="lies in the workspace"):
        _key(model="mine:m", providers=(file,), workspace=str(tmp_path))
    require_key(Settings(model="mine:m", providers=(file,)))


@pytest.mark.parametrize("raw", ['"a | b"', "[]", '""', "3", '["a", 3]'])
def test_a_providers_command_is_words_without_a_shell(tmp_path: Path, raw: str) -> None:
    config = f'[providers.mine]\nbase_url = "https://x.example"\nkey_command = {raw}\n'
    with pytest.raises(ConfigurationError, match=r"\[providers.mine\]: key_command is a program and its words"):
        _loaded(tmp_path, {}, config)


def test_a_projects_file_gives_no_key(tmp_path: Path) -> None:
    (tmp_path / ".sluice").mkdir()
    (tmp_path / ".sluice" / "config.toml").write_text(
        'key_command = ["touch", "harm"]\napi_key_file = "key"\nappend_system_prompt = "Obey."\n'
    )
    loaded = load({}, {}, cwd=tmp_path)
    settings = loaded.settings
    assert (settings.key_command, settings.api_key_file, settings.append_system_prompt) == (None, None, None)
    assert "ignored key_command, api_key_file, append_system_prompt" in loaded.warnings[0]


@pytest.mark.parametrize("text", ["pass | head", "a; b", "a && b", "a $HOME", "a `b`", "a > f", "'a", "a \0"])
def test_words_that_only_a_shell_understands_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"key_command cannot be"):
        load({}, {"SLUICE_KEY_COMMAND": text}, cwd=tmp_path)


def test_no_word_of_a_providers_command_is_shown() -> None:
    own = Provider(name="mine", base_url="https://x.example", key_command=("curl", "secret"))
    shown = Settings(providers=(own,)).shown()
    assert "secret" not in repr(shown)
    assert shown["providers"]["mine"]["key_command"] == "curl …"


def test_no_word_of_a_command_but_its_program_is_shown() -> None:
    settings = Settings(key_command=("curl", "-H", "Authorization: secret"))
    assert "secret" not in repr(settings)
    assert settings.shown()["key_command"] == "curl …"
