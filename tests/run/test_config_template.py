"""What `sluice init` writes: every key with its default, and a file that changes nothing until a mark is taken away."""

from __future__ import annotations

import re
import stat
import tomllib
from pathlib import Path

import pytest

from sluice.errors import ConfigurationError
from sluice.run.config import load
from sluice.run.config_keys import keys
from sluice.run.config_template import _EXAMPLES, SECTIONS, config_template, limit_words, write_config
from sluice.ui.cli import main

TABLES = {"rules", "providers"}


def _plain() -> str:
    """The template with the marks of its keys taken away."""
    return re.sub(r"^# (?=\w+ = )", "", config_template(), flags=re.MULTILINE)


def test_every_key_is_there_with_words() -> None:
    named = {name for group in SECTIONS.values() for name in group}
    others = {name for name, key in keys().items() if not key.limit} - TABLES
    assert named == others, "a key needs its words in SECTIONS of run/config_template.py"
    assert set(limit_words()) >= {name for name, key in keys().items() if key.limit}
    written = re.findall(r"^# (\w+) = ", config_template().split("# [providers")[0], re.MULTILINE)
    assert sorted(written) == sorted(keys().keys() - TABLES)


def test_as_it_is_it_changes_nothing(tmp_path: Path) -> None:
    write_config(tmp_path / "c.toml")
    loaded = load({"config": str(tmp_path / "c.toml")}, {}, cwd=tmp_path)
    assert loaded.warnings == []
    assert set(loaded.origins.values()) == {"default"}


def test_each_value_is_the_default(tmp_path: Path) -> None:
    text = re.sub(r"^(base_url|dialect|tools) = .*$", "", _plain().split("# [providers")[0], flags=re.MULTILINE)
    (tmp_path / "c.toml").write_text(text)
    loaded = load({"config": str(tmp_path / "c.toml")}, {}, cwd=tmp_path)
    assert loaded.warnings == []
    plain = load({}, {}, cwd=tmp_path).settings
    assert [key for key in keys() if loaded.settings.value(key) != plain.value(key)] == []
    assert len(tomllib.loads(text)) == len(keys()) - len(TABLES) - len(_EXAMPLES)


def test_the_examples_can_be_used(tmp_path: Path) -> None:
    text = re.sub(
        r"^# (?=(base_url|dialect|tools) = |\[|key_env|key_command|effect|tool =|command =)",
        "",
        config_template(),
        flags=re.M,
    )
    (tmp_path / "c.toml").write_text(text)
    loaded = load({"config": str(tmp_path / "c.toml"), "model": "router:m"}, {}, cwd=tmp_path)
    assert loaded.warnings == []
    assert (loaded.settings.route().provider, len(loaded.settings.rules.rules)) == ("router", 2)


# -- the command


def test_init_writes_the_users_file_once(capsys: pytest.CaptureFixture[str], own_home: Path) -> None:
    import platformdirs

    path = platformdirs.user_config_path("sluice", appauthor=False) / "config.toml"
    assert main(["init"]) == 0
    assert capsys.readouterr().out == f"wrote {path}\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    path.write_text('model = "mine"')
    assert main(["init"]) == 2
    assert (
        capsys.readouterr().err
        == f"error: {str(path)!r} is there already, and was left as it is; edit it, or name another file\n"
    )
    assert path.read_text() == 'model = "mine"'


def test_init_shows_or_writes_elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "-"]) == 0
    assert capsys.readouterr().out == config_template()
    assert main(["init", str(tmp_path / "new" / "c.toml")]) == 0
    assert (tmp_path / "new" / "c.toml").read_text() == config_template()
    assert "it is read with --config" in capsys.readouterr().err


def test_what_cannot_be_written_is_said_and_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for name, words in {
        "file/c.toml": "cannot be made: (Not a directory|File exists)|is there already",
        "link": "is there already",  # not written through
        "a\0b": "cannot be made",
    }.items():
        with pytest.raises(ConfigurationError, match=words):
            write_config(Path(f"{tmp_path}/{name}"))
    assert not (tmp_path / "elsewhere").exists()
