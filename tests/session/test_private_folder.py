"""What we make is for the user alone, whoever of us makes it first."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sluice.run.prompt_history import PromptHistory
from sluice.session.audit import AuditLog
from sluice.session.blobs import BlobJournal
from sluice.session.disk import make_private
from sluice.session.private_folder import make_private_folder, take_others_rights


@pytest.fixture(autouse=True)
def _usual_rights() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _audit(folder: Path) -> None:
    log = AuditLog(str(folder / "audit.jsonl"))
    log.record("x")
    log.close()


MAKERS: dict[str, Callable[[Path], object]] = {
    "itself": make_private_folder,
    "audit log": _audit,
    "pre-images": lambda folder: BlobJournal(str(folder)).keep("a", b"x", 0o600),
    "store": lambda folder: make_private(folder / "s.db"),
    "prompts": lambda folder: PromptHistory(folder / "p.jsonl").add("hello"),
}


@pytest.mark.parametrize("maker", MAKERS)
def test_every_folder_that_was_missing_is_the_users_alone(maker: str, tmp_path: Path) -> None:
    MAKERS[maker](tmp_path / "state" / "sluice")
    assert [_mode(tmp_path / name) for name in ("state", "state/sluice")] == [0o700, 0o700]


def test_a_folder_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    make_private_folder(tmp_path / "shared" / "ours")
    assert (_mode(tmp_path / "shared"), _mode(tmp_path / "shared" / "ours")) == (0o755, 0o700)
    make_private_folder(tmp_path / "shared")
    assert _mode(tmp_path / "shared") == 0o755


def test_others_rights_are_taken_from_a_folder_of_an_earlier_version(tmp_path: Path) -> None:
    (tmp_path / "sluice").mkdir()
    take_others_rights(tmp_path / "sluice")
    assert _mode(tmp_path / "sluice") == 0o700
    take_others_rights(tmp_path / "not there")
