"""`sluice sessions undo` and `/undo`: giving files of the workspace back what they held before a run."""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from sluice.errors import PathError, StoreError
from sluice.run.config import Settings
from sluice.run.elsewhere import elsewhere_words
from sluice.run.sessions import none_words
from sluice.run.store_places import data_folder, store_files, store_path
from sluice.session.blobs import BlobJournal
from sluice.session.undo import Step
from sluice.tools.changing import Change
from sluice.tools.workspace import Workspace
from sluice.wire.surrogates import storable

AS_BEFORE = "holds already what it held before the run"


class Undone(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an undo. `run` is the number of the run in `session`, `None` where no run changed a file here.

    `restored` are the files that were given back, `unchanged` those that held already what they held before the run, `left`
    those that were not touched, with the reason. `emptied` are folders in which nothing is any more. `earlier` is the
    number of the run that comes next, `elsewhere` the other folders in which later runs of the session changed files, with
    the flags that undo those.
    `unmarked`, if not empty, says why the store does not know of this undo, so that the next one begins here again.
    """

    session: str
    run: int | None = None
    began: float = 0.0
    restored: tuple[Step, ...] = ()
    unchanged: tuple[Step, ...] = ()
    left: tuple[Step, ...] = ()
    emptied: tuple[str, ...] = ()
    earlier: int | None = None
    elsewhere: dict[str, str] = {}
    unmarked: str = ""

    def lines(self, dry: bool = False) -> Iterator[str]:
        """What was done, or with `dry` would be, in lines for a person."""
        if self.run is None:
            yield f"nothing to undo in session {self.session}; `sluice sessions undo ID` looks into another one"
        else:
            when = time.strftime("%Y-%m-%d %H:%M", time.localtime(self.began))
            yield f"run {self.run} of session {self.session}, begun {when}:"
        for step in self.restored:
            what = "remove" if step.before is None else "restore"
            yield f"would {what} {step.path}" if dry else f"{what}d {step.path}"
        yield from (f"{step.path} {AS_BEFORE}" for step in self.unchanged)
        yield from (f"left {step.path}: {step.refusal}" for step in self.left)
        yield from (
            f"{folder} is empty now, and stays: whether the run made it is not known" for folder in self.emptied
        )
        if self.left and self.restored and not dry:
            yield f"what was left can be tried again with --run {self.run}"
        if self.left and not self.restored and self.earlier is not None:
            yield f"nothing was given back; --run {self.earlier} takes back the run before"
        yield from self.others()

    def others(self) -> Iterator[str]:
        """A line for each other folder that holds later changes of the session."""
        for folder, flags in self.elsewhere.items():
            yield f"the session changed files of {folder} too: undo those with {flags}"


def undone(
    settings: Settings,
    wanted: str,
    state: Path,
    *,
    dry: bool = False,
    number: int | None = None,
    holding: bool = False,
) -> Undone:
    """Takes back what a run of the session did to files of the workspace: the last that did and was not taken back.

    `number` names another run. All files that can be given back are, or none is. What is overwritten is itself kept in the
    journal of pre-images. With `dry` nothing is changed. The session's lock is held meanwhile, by the caller already if
    `holding`. Raises `StoreError` (`held` while another process is at work on the session) and `PathError` for a file that
    may not be written.
    """
    from sluice.session import undo
    from sluice.session.disk import reading

    path, session = _session(settings, wanted)
    place = settings.workspace
    most = settings.limits.max_file_bytes
    private = [str(state), str(data_folder()), *store_files(path)]
    with _alone(path, session, dry, holding), Workspace(place, private=private) as workspace:

        def digest(name: str) -> str | None:
            try:
                found = workspace.read_to_change(name, most)
            except PathError as error:
                raise ValueError(str(error)) from None
            return None if found is None else found.digest

        with reading(path) as connection:
            run = undo.changing_run(connection, session, place, number=number)
            if run is None and number is not None:
                raise StoreError("refused", f"run {number} of session {session} changed no file of {place}")
            others = undo.elsewhere(connection, session, place, after=run.number if run else 0)
            ways = {folder: _flags(settings, path, folder) for folder in others}
            if run is None:
                return Undone(session=session, elsewhere=ways)
            before = undo.changing_run(connection, session, place, before=run.number)
            steps = undo.plan(connection, run.id, place, digest, again=number is not None)
        changes, steps = _changes(steps, state)
        if changes and not dry:
            workspace.change_all(changes, max_bytes=most, journal=BlobJournal(str(state), place))
        left = tuple(step for step in steps if step.refusal)
        restored = tuple(step for step in steps if step.now != step.before and not step.refusal)
        unmarked = "" if dry or (left and not restored) else _marked(path, run.id, place)
        return Undone(
            session=session,
            run=run.number,
            began=run.began,
            restored=restored,
            unchanged=tuple(step for step in steps if step.now == step.before and not step.refusal),
            left=left,
            emptied=() if dry else _emptied(workspace, restored),
            earlier=None if before is None else before.number,
            elsewhere=ways,
            unmarked=unmarked,
        )


def _session(settings: Settings, wanted: str) -> tuple[Path, str]:
    """The store, and the session that `wanted` names; empty: the one used last, of this project or in this folder.

    A session of another project counts too, where one store holds several: only what it changed here is taken back.
    """
    from sluice.session import catalog
    from sluice.session.disk import reading
    from sluice.session.undo import latest_here

    path, wanted = store_path(settings), storable(wanted)
    if path is not None and path.is_file():
        with reading(path) as connection:
            ids = catalog.matching(connection, wanted) if wanted else []
            last = None if wanted else latest_here(connection, settings.workspace)
        if last is not None:
            return path, last
        if ids:
            return path, catalog.chosen(ids, wanted)
    if path is None or not wanted:
        raise StoreError("refused", none_words(settings, False))
    if words := elsewhere_words(settings, wanted):
        raise StoreError("refused", words)
    return path, catalog.chosen([], wanted)  # which says that there is none


def _flags(settings: Settings, path: Path, folder: str) -> str:
    """What undoes in that folder, beside the flags that were given."""
    same = store_path(msgspec.structs.replace(settings, workspace=folder)) == path
    return f"-w {shlex.quote(folder)}" + ("" if same else f" --session-store {shlex.quote(str(path))}")


@contextlib.contextmanager
def _alone(path: Path, session: str, dry: bool, holding: bool) -> Iterator[None]:
    """Keeps others from working on the session. Whoever only looks, and writes nothing, asks whether somebody does."""
    from sluice.session.catalog import lock_folder
    from sluice.session.locks import SessionLock, holder

    folder = lock_folder(path)
    lock = None
    if not holding:
        held = holder(folder, session)
        if held is None and not dry:
            try:
                lock = SessionLock(folder, session)
            except StoreError as error:
                if error.kind != "held":
                    raise
                held = holder(folder, session) or 0
            except OSError as error:
                if error.errno != errno.EROFS:
                    raise StoreError(
                        "full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "io",
                        f"the session cannot be locked in {str(folder)!r}: {error.strerror or error}; nothing was undone",
                    ) from None  # where nothing can be written, nobody else can begin to work on it either
        if held is not None:
            who = f"process {held}" if held else "another process"
            raise StoreError(
                "held",
                f"session {session} is in use by {who}; its changes can be undone once that has ended, or by /undo there",
            )
    try:
        yield
    finally:
        if lock is not None:
            lock.close()


def _changes(steps: list[Step], state: Path) -> tuple[list[Change], list[Step]]:
    """The changes to be made, and the steps: one whose pre-image cannot be had is refused."""
    from sluice.session.undo import preimage

    changes: list[Change] = []
    found: list[Step] = []
    for step in steps:
        if not step.refusal and step.now != step.before:
            try:
                data = None if step.before is None else preimage(state, step.before)
            except StoreError as error:
                step = msgspec.structs.replace(step, refusal=str(error))
            else:
                changes.append(Change(path=step.path, data=data, expected=step.now, mode=step.mode))
        found.append(step)
    return changes, found


def _marked(path: Path, run: str, workspace: str) -> str:
    """Keeps that the run was taken back; if that cannot be kept, why."""
    from sluice.session.database import Database
    from sluice.session.undo import mark

    try:
        database = Database(path)
        try:
            database.write_now(lambda connection: mark(connection, run, workspace))
        finally:
            database.close()
    except StoreError as error:
        return str(error)
    return ""


def _emptied(workspace: Workspace, restored: tuple[Step, ...]) -> tuple[str, ...]:
    """The folders of removed files in which nothing is any more."""
    found = []
    for folder in sorted({os.path.dirname(step.path) for step in restored if step.before is None} - {""}):
        with contextlib.suppress(PathError, OSError):
            fd = workspace.open_directory(folder)
            try:
                if not os.listdir(fd):
                    found.append(folder)
            finally:
                os.close(fd)
    return tuple(found)
