"""Every change that a run's tools make keeps its pre-image in the state folder."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from sluice.run.config import Settings
from sluice.run.one_call import one_call
from sluice.run.wiring import state_folder


def test_every_change_keeps_what_was_there(tmp_path: Path) -> None:
    settings = Settings(workspace=str(tmp_path), allow_mutating_tools=True)
    (tmp_path / "a").write_bytes(b"one\n")
    (tmp_path / "b").write_bytes(b"two\n")
    patch = "*** Begin Patch\n*** Update File: a\n-one\n+1\n*** Delete File: b\n*** Add File: c\n+3\n*** End Patch"
    code, result = one_call(settings, "apply_patch", json.dumps({"patch": patch}), seen=["b"])
    assert (code, result.ok) == (0, True), result.content
    code, written = one_call(settings, "write_file_safe", json.dumps({"path": "a", "content": "x"}), seen=["a"])
    assert code == 0
    lines = [json.loads(line) for line in (state_folder() / "changes.jsonl").read_text().splitlines()]
    assert [(line["path"], line["workspace"]) for line in lines] == [(p, str(tmp_path)) for p in "abca"]
    assert [file["undo"] for file in result.facts["files"]] == [line["id"] for line in lines[:3]]
    assert written.facts["undo"] == lines[3]["id"]
    for line, old in zip(lines, [b"one\n", b"two\n", None, b"1\n"], strict=True):
        assert line["sha256"] == (None if old is None else hashlib.sha256(old).hexdigest())
        if old is not None:
            assert (state_folder() / "blobs" / line["sha256"]).read_bytes() == old


def test_a_change_that_cannot_be_kept_is_not_made(tmp_path: Path) -> None:
    settings = Settings(workspace=str(tmp_path), allow_mutating_tools=True)
    (tmp_path / "a").write_bytes(b"one\n")
    state_folder().mkdir(parents=True)
    (state_folder() / "blobs").write_bytes(b"a file in its place")
    code, result = one_call(settings, "write_file_safe", json.dumps({"path": "a", "content": "x"}), seen=["a"])
    assert (code, result.error and result.error.code) == (1, "journal")
    edit = json.dumps({"path": "a", "old_text": "one", "new_text": "1"})
    code, result = one_call(settings, "apply_patch", edit)
    assert (result.error and result.error.code, result.failure) == ("writeback_failure", "fatal")
    assert (tmp_path / "a").read_bytes() == b"one\n"
