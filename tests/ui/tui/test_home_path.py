"""A folder below the home folder is shown as a person names it, any other as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.ui.tui.home_path import from_home


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/home/me/a/b", "~/a/b"),
        ("/home/me", "~"),
        ("/home/mean/a", "/home/mean/a"),
        ("/srv/home/me/a", "/srv/home/me/a"),
        ("home/me/a", "home/me/a"),
    ],
)
def test_home_is_a_tilde(path: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert from_home(path) == shown


def test_a_home_that_is_a_link_is_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "home").symlink_to(tmp_path / "real")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert from_home(str(tmp_path / "real" / "x")) == from_home(str(tmp_path / "home" / "x")) == "~/x"


def test_a_home_that_is_the_root_is_not_shortened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/")
    assert from_home("/a") == "/a"
