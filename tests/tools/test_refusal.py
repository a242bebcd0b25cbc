from __future__ import annotations

from sluice.errors import PathError
from sluice.tools.refusal import refused, refused_path


def test_a_refusal_tells_model_and_loop_the_same() -> None:
    result = refused_path("t", PathError("symlink", "x is a link", "x"))
    assert (result.ok, result.status, result.failure) == (False, "failed", "needs_inspection")
    assert result.error is not None
    assert (result.error.code, result.error.message, result.error.path) == ("symlink", "x is a link", "x")
    assert result.content == "symlink: x is a link"


def test_details_follow_and_paths_are_visible() -> None:
    result = refused("t", "no_match", "m", path="a\x1b", details="line 1")
    assert result.content == "no_match: m\nline 1"
    assert result.error is not None
    assert result.error.path == "a\\x1b"
