"""Patches read into files and hunks, whatever the paths and the contents look like."""

from __future__ import annotations

from pathlib import Path

from git_repositories import make_repository, plain_git
from hypothesis import given
from hypothesis import strategies as st

from sluice.tools.git_patch import PatchReader, unquoted


def read(patch: bytes, size: int = 10**9) -> PatchReader:
    reader = PatchReader()
    for start in range(0, len(patch), size):
        reader.feed(patch[start : start + size])
    reader.finish()
    return reader


PATCH = b"""diff --git a/f.txt b/f.txt
index 1..2 100644
--- a/f.txt
+++ b/f.txt
@@ -1,3 +1,4 @@ def f():
 one
-two
+diff --git a/no b/no
+--- a/no
 @@ -1 +1 @@
@@ -10 +11 @@
-x
\\ No newline at end of file
+y
diff --git a/new b/new
new file mode 100644
index 0..1
--- /dev/null
+++ b/new
@@ -0,0 +1 @@
+++ plus
diff --git a/gone b/gone
deleted file mode 100644
index 1..0
--- a/gone
+++ /dev/null
@@ -1 +0,0 @@
--- minus
diff --git "a/t\\303\\244\\tb" "b/t\\303\\244\\tb"
old mode 100644
new mode 100755
diff --git a/old name b/new name
similarity index 100%
rename from old name
rename to new name
diff --git a/pic b/pic
index 1..2
Binary files a/pic and b/pic differ
diff --cc both
index 1,2..3
--- a/both
+++ b/both
@@@ -1,2 -1,2 +1,3 @@@
  same
++new
 -old
"""


def test_every_kind_of_entry() -> None:
    for size in (10**9, 1, 7):
        reader = read(PATCH, size)
        files = {file.new or file.old: file for file in reader.files}
        assert list(files) == [b"f.txt", b"new", b"gone", "tä\tb".encode(), b"new name", b"pic", b"both"]
        first = files[b"f.txt"]
        assert (first.state, first.added, first.deleted) == ("modified", 3, 2)
        assert first.hunks == [
            {"old_start": 1, "old_lines": 3, "new_start": 1, "new_lines": 4, "heading": "def f():"},
            {"old_start": 10, "old_lines": 1, "new_start": 11, "new_lines": 1},
        ]
        assert [files[name].state for name in (b"new", b"gone")] == ["added", "deleted"]
        assert (files[b"new"].old, files[b"gone"].new) == (None, None)
        assert files["tä\tb".encode()].state == "mode changed"
        assert (files[b"new name"].state, files[b"new name"].old) == ("renamed", b"old name")
        assert files[b"pic"].binary
        assert (files[b"both"].added, files[b"both"].deleted) == (1, 1)
        assert files[b"both"].hunks == [{"new_start": 1, "new_lines": 3}]
        assert (reader.total_files, reader.added, reader.deleted) == (7, 5, 4)


def test_what_is_kept_is_bounded_and_all_is_counted() -> None:
    reader = PatchReader(max_files=2, max_hunks=3)
    one = b"diff --git a/x b/x\n--- a/x\n+++ b/x\n" + b"@@ -1 +1 @@\n-a\n+b\n" * 5
    for _ in range(50):
        reader.feed(one)
    reader.finish()
    assert (len(reader.files), reader.total_files, reader.added) == (2, 50, 250)
    assert sum(len(file.hunks) for file in reader.files) == 3
    reader.feed(b"+" + b"x" * 1_000_000)
    assert len(reader._rest) <= 16 * 1024


@given(st.binary(max_size=400))
def test_any_bytes_are_read_without_an_error(data: bytes) -> None:
    read(data)
    read(b"diff --git " + data, 3)
    read(b"diff --git a/x b/x\n@@ -1 +1 @@\n" + data, 3)


def test_real_patches_with_odd_names(tmp_path: Path) -> None:
    names = ["a b", 'q"uote', "tab\tx", "ä", "back\\slash", "b b/b", "-dash"]
    make_repository(tmp_path / "r", **dict.fromkeys(names, "one\n"))
    for name in names:
        (tmp_path / "r" / name).write_text("two\n")
    patch = plain_git(tmp_path / "r", "diff").encode("utf-8", "surrogateescape")
    assert sorted(file.new or b"" for file in read(patch).files) == sorted(name.encode() for name in names)


def test_quoted_paths() -> None:
    assert unquoted(b'"a\\"b\\\\c\\n\\377"') == b'a"b\\c\n\xff'
    assert unquoted(b"plain") == b"plain"
    assert unquoted(b'"') == b'"'
