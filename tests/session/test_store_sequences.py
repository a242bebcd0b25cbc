"""Every short order of a run's steps, with a death after each: the store is what the model says.

The steps are those of `test_store_model.py`, taken by brute force and not by chance. `SLUICE_STEPS` sets how many are
taken from each beginning.
"""

from __future__ import annotations

import asyncio
import copy
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from session_world import broken
from test_store_model import StoreModel

STEPS = int(os.environ.get("SLUICE_STEPS", "3"))
_ASKS = ("begin", "reply begins", "reply asks")
BEGINNINGS = (
    (),
    ("begin", "reply begins", "delta"),
    _ASKS,
    (*_ASKS, "ask", "yes"),
    (*_ASKS, "call starts", "call ends"),
)

Step = tuple[Callable[[StoreModel], object], Callable[[StoreModel], object]]
ALL: dict[str, Step] = {  # name: whether it can be taken now, and taking it
    "begin": (lambda m: not m.run, lambda m: m.begin("go")),
    "take up": (lambda m: not m.run and m.runs, lambda m: m.take_up()),
    "reply begins": (lambda m: m.run and not m.calls and m.text is None, lambda m: m.reply_begins()),
    "delta": (lambda m: m.text is not None, lambda m: m.delta("ab", True)),
    "reply ends": (lambda m: m.text is not None, lambda m: m.reply_ends(0)),
    "reply asks": (lambda m: m.text is not None, lambda m: m.reply_ends(2)),
    "ask": (lambda m: m.run and m.calls and m.state == "idle" and m.position not in m.answers, lambda m: m.ask()),
    "yes": (lambda m: m.run and m.answers.get(m.position) == "" and m.state == "idle", lambda m: m.answer(True)),
    "no": (lambda m: m.run and m.answers.get(m.position) == "" and m.state == "idle", lambda m: m.answer(False)),
    "call starts": (lambda m: m.calls and m.state == "idle", lambda m: m.call_starts()),
    "call ends": (lambda m: m.state == "started", lambda m: m.call_ends()),
    "result": (lambda m: m.run and m.calls and m.state != "started", lambda m: m.result()),
    "end": (lambda m: m.run and not m.calls, lambda m: m.end()),
}


class _Dead:
    """The store of a process that died."""

    async def close(self) -> None:
        """There is nobody to close it."""


def after_a_death(model: StoreModel, folder: Path) -> None:
    """The process dies now: its files are opened by another one, which dies when it is open, and by a third."""
    twin = copy.copy(model)
    twin.told, twin.calls, twin.answers = list(model.told), list(model.calls), dict(model.answers)
    twin.path = folder / "s.db"
    for ending in ("", "-wal"):
        if Path(f"{model.path}{ending}").exists():
            shutil.copy(f"{model.path}{ending}", f"{twin.path}{ending}")
    twin.store = _Dead()  # type: ignore[assignment]
    twin.die_and_reopen()
    twin.history_is_the_model()
    twin.die_and_reopen()
    twin.history_is_the_model()
    asyncio_close(twin)
    assert broken(twin.path) == []
    for path in folder.iterdir():
        if path.is_dir():
            path.rmdir()
        else:
            path.unlink()


def asyncio_close(model: StoreModel) -> None:
    model._do(model.store.close())
    model._do(asyncio.sleep(0))


def orders(taken: tuple[str, ...], seen: set[tuple[str, ...]], folder: Path) -> Iterator[tuple[str, ...]]:
    """Takes these steps, with a death after each that was not there before; yields the orders that are one longer."""
    model = StoreModel()
    try:
        for at, name in enumerate(taken, 1):
            ALL[name][1](model)
            if taken[:at] not in seen:
                seen.add(taken[:at])
                if model.runs:
                    after_a_death(model, folder)
        yield from ((*taken, name) for name, (can, _take) in ALL.items() if can(model))
    finally:
        model.teardown()


def test_every_short_order_of_steps_survives_a_death_after_each(tmp_path: Path) -> None:
    seen: set[tuple[str, ...]] = set()
    for beginning in BEGINNINGS:
        waiting: list[tuple[str, ...]] = [beginning]
        while waiting:
            taken = waiting.pop()
            longer = list(orders(taken, seen, tmp_path))
            if len(taken) < len(beginning) + STEPS:
                waiting += longer
    print(f"{len(seen)} orders of steps, {STEPS} from each of {len(BEGINNINGS)} beginnings")
    assert len(seen) > 50
