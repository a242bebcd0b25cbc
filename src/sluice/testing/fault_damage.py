"""The class of faults after damage: a store is listed, exported, checked, repaired and opened, as a person would do."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from sluice.errors import StoreError
from sluice.session.catalog import listed
from sluice.session.check import check
from sluice.session.disk import reading
from sluice.session.export import as_json, as_markdown
from sluice.session.repair import repair
from sluice.session.wish import Wish
from sluice.testing.fault_agent import PROJECT
from sluice.testing.fault_disk import damage
from sluice.testing.fault_harness import Harness, opened
from sluice.testing.fault_witnesses import sessions_of

NAME = "damage"
_MOST_SECONDS = 2.0  # of CPU, for each of the things that are done


def damaged(driver: Harness) -> None:
    """Each of them works, or says no in one line; what was repaired can be opened and holds its promises."""
    source = driver.store()
    driver.figures.injected[NAME] += 1
    before = len(driver.figures.faults)
    where = Path(tempfile.mkdtemp(dir=driver.folder, prefix="bad"))
    store = where / "sessions.db"
    for end in ("", "-wal"):
        if Path(f"{source}{end}").exists():
            shutil.copy(f"{source}{end}", f"{store}{end}")
    for _ in range(driver.dice.choice((1, 1, 1, 2, 5))):
        damage(store, driver.dice)
    for what in (_listed, _exported, _checked):
        _tried(driver, what, store)
    if _tried(driver, _repaired, store):
        driver.figures.repaired += 1
        _afterwards(driver, store)
    shutil.rmtree(where)
    driver.count(NAME, len(driver.figures.faults) == before)


def _tried(driver: Harness, what: Callable[[Path], object], store: Path) -> bool:
    """Does one of the things; returns whether it worked. Anything but a word of ours is a fault."""
    words, began = what.__name__.strip("_"), time.process_time()
    try:
        what(store)
    except StoreError:
        return False
    except Exception as fault:
        driver.broken(NAME, f"{words}: {type(fault).__name__}: {fault}")
        return False
    finally:
        if time.process_time() - began > _MOST_SECONDS:
            driver.broken(NAME, f"{words} took {time.process_time() - began:.1f} s of CPU")
    return True


def _listed(store: Path) -> None:
    with reading(store) as connection:
        list(listed(connection, store))


def _exported(store: Path) -> None:
    for session in sessions_of(store):
        for form in (as_json, as_markdown):
            with reading(store) as connection:
                list(form(connection, session))


def _checked(store: Path) -> None:
    with reading(store) as connection:
        check(connection, store)


def _repaired(store: Path) -> None:
    repair(store, PROJECT)


def _afterwards(driver: Harness, store: Path) -> None:
    error = asyncio.run(opened(store, Wish(how="continue")))
    if error:
        driver.broken(NAME, f"it was repaired, and cannot be opened: {error}")
    try:
        with reading(store) as connection:
            for found in check(connection, store).broken:
                if found.promise in ("F1", "F2", "P1", "T1"):  # others speak of what is lost
                    driver.broken(NAME, f"it was repaired: {found.promise} {found.where}: {found.words}")
    except StoreError as error:
        driver.broken(NAME, f"it was repaired, and cannot be read: {error}")
