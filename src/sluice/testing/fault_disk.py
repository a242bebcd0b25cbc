"""Harm to files: a store's bytes damaged, a file system with little room."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path


def damage(store: Path, dice: random.Random) -> None:
    """Harms a store's files in one of several ways."""
    log = Path(f"{store}-wal")
    target = log if log.exists() and log.stat().st_size and dice.random() < 0.4 else store
    data = bytearray(target.read_bytes())
    if not data:
        return
    way = dice.choice(["flip", "flip", "zero", "cut", "swap", "empty", "noise"])
    if way == "flip":
        for _ in range(dice.randint(1, 8)):
            data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    elif way == "zero":
        at = dice.randrange(len(data))
        data[at : at + 4096] = bytes(len(data[at : at + 4096]))
    elif way == "cut":
        del data[dice.randrange(len(data)) :]
    elif way == "swap":
        first, second = (dice.randrange(max(len(data) // 4096, 1)) * 4096 for _ in range(2))
        data[first : first + 4096], data[second : second + 4096] = (
            data[second : second + 4096],
            data[first : first + 4096],
        )
    elif way == "empty":
        data.clear()
    else:
        data[: dice.choice([16, 100, 4096])] = dice.randbytes(100)
    target.write_bytes(data)


@contextlib.contextmanager
def small_disk(where: Path) -> Iterator[bool]:
    """A file system of 2 MiB at `where` for as long as the context is open; false where none can be had."""
    mount, umount = shutil.which("mount"), shutil.which("umount")
    if not sys.platform.startswith("linux") or os.geteuid() != 0 or mount is None or umount is None:
        yield False
        return
    made = subprocess.run(  # noqa: S603 - the system's own program, with our words
        [mount, "-t", "tmpfs", "-o", "size=2m,mode=0700", "sluice-faults", str(where)], capture_output=True, check=False
    )
    if made.returncode != 0:
        yield False
        return
    try:
        yield True
    finally:
        subprocess.run([umount, str(where)], capture_output=True, check=False)  # noqa: S603 - see above
