from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.errors import PathError
from sluice.tools.relative_path import file_parts, relative_parts, visible

REFUSED = [
    ("", "empty_path"),
    ("a\0b", "nul_in_path"),
    ("ok.txt\0../../etc/passwd", "nul_in_path"),
    ("a\ud800b", "not_utf8"),
    ("/etc/passwd", "absolute_path"),
    ("//etc/passwd", "absolute_path"),
    ("\\\\server\\share\\x", "absolute_path"),
    ("\\??\\C:\\x", "absolute_path"),
    ("C:\\x", "absolute_path"),
    ("c:/x", "absolute_path"),
    ("file:///etc/passwd", "uri_path"),
    ("~", "home_path"),
    ("~/.ssh/id_rsa", "home_path"),
    ("~root/.bashrc", "home_path"),
    ("..", "parent_path"),
    ("../x", "parent_path"),
    ("a/../b", "parent_path"),
    ("a/b/../../../x", "parent_path"),
    ("a\\..\\..\\x", "parent_path"),
    ("x" * 256, "path_too_long"),
    ("é" * 128, "path_too_long"),
    ("a/" * 5000 + "a", "path_too_long"),
    ("x" * 10_000_000, "path_too_long"),
]


@pytest.mark.parametrize(("path", "code"), REFUSED, ids=[code + str(n) for n, (_, code) in enumerate(REFUSED)])
def test_a_bad_path_is_refused_with_its_code(path: str, code: str) -> None:
    with pytest.raises(PathError) as caught:
        relative_parts(path)
    assert caught.value.code == code
    assert len(str(caught.value)) < 1000
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("a", ("a",)),
        ("./a//b/.", ("a", "b")),
        (".", ()),
        ("~draft", ("~draft",)),
        ("-rf", ("-rf",)),
        ("$(id)", ("$(id)",)),
        ("%2e%2e/x", ("%2e%2e", "x")),
        ("...", ("...",)),
        ("a..b", ("a..b",)),
        ("a\\b", ("a\\b",)),
        ("cafe\u0301.txt", ("cafe\u0301.txt",)),
        (":(top)x", (":(top)x",)),
        ("x" * 255, ("x" * 255,)),
    ],
)
def test_a_good_path_is_taken_literally(path: str, parts: tuple[str, ...]) -> None:
    assert relative_parts(path) == parts


@pytest.mark.parametrize("path", [".", "a/", "a/.", "./"])
def test_a_folder_is_no_file(path: str) -> None:
    with pytest.raises(PathError) as caught:
        file_parts(path)
    assert caught.value.code == "is_directory"


@given(st.text())
def test_parts_never_climb(path: str) -> None:
    try:
        parts = relative_parts(path)
    except PathError:
        return
    assert not path.startswith("/")
    assert not {"", ".", ".."} & set(parts)
    assert not any("/" in part or "\0" in part for part in parts)


@given(st.text())
def test_visible_is_one_printable_line(text: str) -> None:
    assert visible(text).isprintable()
    assert len(visible(text)) <= 201 * 10
