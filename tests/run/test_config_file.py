"""Both forms of the config file, and every way one can be unusable."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice.errors import ConfigurationError
from sluice.run.config_file import MAX_CONFIG_BYTES, read_config_file


def read(tmp_path: Path, name: str, content: str | bytes) -> dict[str, object]:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_config_file(path).values


SEED_FORM = """# a comment
; another

Model = gpt-4o-mini
API_KEY=sk-a#b;c=d
allow-mutating-tools=true
base_url="http://localhost:8080/v1"
"""


def test_the_seeds_form_is_read(tmp_path: Path) -> None:
    assert read(tmp_path, "agent.conf", SEED_FORM.replace("\n", "\r\n")) == {
        "model": "gpt-4o-mini",
        "api_key": "sk-a#b;c=d",
        "allow_mutating_tools": "true",
        "base_url": "http://localhost:8080/v1",
    }


def test_toml_is_tried_first_in_a_file_of_any_name(tmp_path: Path) -> None:
    content = 'Model = "m" # comment\nmax_turns = 5\ntools = ["a"]\n'
    for name in ("c.toml", "c.conf", "c"):
        assert read(tmp_path, name, content) == {"model": "m", "max_turns": 5, "tools": ["a"]}


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    assert read(tmp_path, "c.conf", b"\xef\xbb\xbfmodel=m") == {"model": "m"}


def test_a_key_written_twice_is_a_warning_and_the_last_counts(tmp_path: Path) -> None:
    path = tmp_path / "c.conf"
    path.write_text("model=a\nMODEL=b\n", encoding="utf-8")
    file = read_config_file(path)
    assert file.values == {"model": "b"}
    assert "model twice" in file.warnings[0]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("c.toml", "a = 1\nb = \n", "line 2"),
        ("c.toml", "model=gpt", "line 1"),
        ("c.conf", "model=a b\nnonsense\n", "line 2: expected key=value"),
        ("c.conf", "x=a b\n[section]\n", "line 2"),
        ("c.conf", 'model = "a" # comment\nx=a b', "line 1: the quotes"),
        ("c.conf", "=x y", "line 1"),
        ("c.toml", b"a = 1\nb = '\xff'", "line 2: not UTF-8"),
        ("c.toml", b"x" * (MAX_CONFIG_BYTES + 1), "larger than"),
        ("c.toml", b"a = " + b"[" * 200_000, "not TOML"),
    ],
)
def test_an_unusable_file_is_named_with_the_line(tmp_path: Path, name: str, content: str | bytes, words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(tmp_path, name, content)
    message = str(caught.value)
    assert words in message
    assert name in message
    assert "\n" not in message


def test_a_folder_a_missing_file_and_a_bad_name_are_refused(tmp_path: Path) -> None:
    for path, words in ((tmp_path, "is a folder"), (tmp_path / "none", "No such file"), (Path("a\0b"), "NUL")):
        with pytest.raises(ConfigurationError, match=words):
            read_config_file(path)


def test_an_untrusted_file_is_a_regular_file_and_no_link(tmp_path: Path) -> None:
    real = tmp_path / "real.toml"
    real.write_text("max_turns = 1", encoding="utf-8")
    link = tmp_path / "link.toml"
    link.symlink_to(real)
    fifo = tmp_path / "fifo.toml"
    os.mkfifo(fifo)
    assert read_config_file(real, trusted=False).values == read_config_file(link).values == {"max_turns": 1}
    for path in (link, fifo):
        with pytest.raises(ConfigurationError):
            read_config_file(path, trusted=False)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200), st.sampled_from(["c.toml", "c.conf"]))
def test_any_bytes_are_read_or_refused_in_one_line(tmp_path: Path, content: bytes, name: str) -> None:
    message = ""
    try:
        read(tmp_path, name, content)
    except ConfigurationError as error:
        message = str(error)
    assert len(message.splitlines()) <= 1
