from __future__ import annotations

import pytest

from sluice.errors import PathError
from sluice.tools.seen import SeenFiles


def test_a_file_never_seen_is_unread() -> None:
    with pytest.raises(PathError) as caught:
        SeenFiles().check("a", "1")
    assert caught.value.code == "unread"
    SeenFiles().check("a", "1", must_be_seen=False)


def test_a_file_that_changed_is_stale_for_every_kind_of_change() -> None:
    seen = SeenFiles()
    seen.mark("a", "1")
    seen.check("a", "1")
    for must in (True, False):
        with pytest.raises(PathError) as caught:
            seen.check("a", "2", must_be_seen=must)
        assert caught.value.code == "stale"


def test_spellings_of_one_path_are_one_file() -> None:
    seen = SeenFiles()
    seen.mark("./a//b", "1")
    assert seen.digest("a/b") == "1"
    assert SeenFiles(seen.digests()).digest("a/./b") == "1"
    assert seen.digest("A/b") is None


def test_digests_is_a_copy() -> None:
    seen = SeenFiles()
    seen.digests()["a"] = "1"
    assert seen.digest("a") is None
