"""Folders that are new are on disk before anything in them is relied on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sluice.session.audit import AuditLog
from sluice.session.blobs import BlobJournal
from sluice.session.disk import make_private
from sluice.session.durable import sync_upwards


@pytest.fixture
def synced(monkeypatch):
    """The folders that were synced, in order, as they were called then."""
    found: list[Path] = []
    real = os.fsync

    def note(fd: int) -> None:
        found.extend(p for p in watched if os.path.samestat(os.fstat(fd), os.stat(p)))
        real(fd)

    watched: list[Path] = []
    monkeypatch.setattr(os, "fsync", note)
    return watched, found


def test_a_new_store_has_the_names_of_its_folders_on_disk(tmp_path, monkeypatch, synced) -> None:
    watched, found = synced
    (tmp_path / "data").mkdir()
    watched += [tmp_path, tmp_path / "data"]
    make_private(tmp_path / "data" / "projects" / "one" / "sessions.db")
    assert found == [tmp_path / "data", tmp_path]


def test_that_is_made_up_for_if_whoever_made_the_folders_died_before_it(tmp_path, synced) -> None:
    watched, found = synced
    store = tmp_path / "projects" / "sessions.db"
    store.parent.mkdir()
    watched += [tmp_path, store.parent]
    make_private(store)
    assert found == [store.parent, tmp_path]
    found.clear()
    make_private(store)
    assert not found, "it was done again for a store that is there"


def test_a_new_audit_log_has_the_names_of_its_folders_on_disk(tmp_path, synced) -> None:
    watched, found = synced
    watched.append(tmp_path)
    log = AuditLog(str(tmp_path / "state" / "sluice" / "audit.jsonl"))
    log.record("one")
    log.close()
    assert found == [tmp_path]


def test_a_folder_that_cannot_be_synced_stops_nothing_and_a_failing_one_does(tmp_path, monkeypatch) -> None:
    def refuse(_fd: int) -> None:
        raise OSError(22, "no such thing here")

    def fail(_fd: int) -> None:
        raise OSError(5, "the disk fails")

    monkeypatch.setattr(os, "fsync", refuse)
    sync_upwards(str(tmp_path))
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="the disk fails"):
        sync_upwards(str(tmp_path))


def test_a_new_journal_has_the_names_of_its_folders_on_disk_and_an_old_one_its_own(tmp_path, synced) -> None:
    watched, found = synced
    state = tmp_path / "state" / "sluice"
    watched += [tmp_path]
    BlobJournal(str(state)).keep("a", None, None)
    assert found == [tmp_path]
    found.clear()
    watched += [state, state.parent]
    journal = BlobJournal(str(state))
    journal.keep("a", b"1", 0o600)
    assert set(found) == {state}
    journal.keep("b", None, None)
    assert tmp_path not in found


def test_a_pre_image_that_another_kept_has_its_name_on_disk_before_it_is_relied_on(tmp_path, synced) -> None:
    watched, found = synced
    state = tmp_path / "state"
    BlobJournal(str(state)).keep("a", b"1", 0o600)
    watched.append(state / "blobs")
    BlobJournal(str(state)).keep("b", b"1", 0o600)
    assert found == [state / "blobs"], "its process may have died between the renaming and the sync"
