"""A loss of power while files are written, closed or removed leaves a chain that holds, and every record that was told."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sluice.session.audit import AuditLog
from sluice.session.audit_reading import records, verify
from sluice.testing.fault_images import Disk
from sluice.testing.fault_power import WAYS
from sluice.testing.fault_recording import events, recording

BOUND = 3000  # bytes of a file: three records
IMAGES = 400
SCRIPT = """
import json, os, sys, time
from sluice.session.audit import AuditLog
log = AuditLog(sys.argv[1] + "/state/audit.jsonl", max_bytes=int(sys.argv[2]))
told = os.open(sys.argv[1] + "/told", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
for n in range(18):
    if n == 12:
        lines = open(log.path).read().splitlines()
        stays = min([json.loads(line)["fields"]["n"] for line in lines if '"event":"x"' in line], default=n)
        os.write(told, b"removing:%d\\n" % stays)
        log.remove_closed(time.time() + 1)
    log.record("x", n=n, text="y" * 900)
    os.write(told, b"%d\\n" % n)
"""


def test_a_loss_of_power_leaves_a_chain_that_holds(tmp_path: Path) -> None:
    if shutil.which("strace") is None:
        pytest.skip("NOT CHECKED: recording what a process writes needs strace")
    folder, tape = tmp_path / "real", tmp_path / "tape"
    folder.mkdir()
    disk = Disk(folder, ["state", "told"], ["told"])
    traced = ["strace", "-f", *recording(tape), sys.executable, "-c", SCRIPT, str(folder), str(BOUND)]
    if subprocess.run(traced, capture_output=True).returncode != 0:
        pytest.skip("NOT CHECKED: strace may not be used here")
    disk.apply(events(tape, str(folder)))
    moments = sorted({*disk.moments, *(change.began for change in disk.changes)})
    assert len(moments) > 60
    dice = random.Random(3)
    open_ones = [moment for moment in moments if len(disk.unsynced(moment)) > 1]  # what may come in another order
    for number in range(IMAGES):
        moment = dice.choice(open_ones if number % 2 else moments)
        way = "some" if number % 4 == 1 else dice.choice(list(WAYS))
        image = tmp_path / f"image{number}"
        image.mkdir()
        disk.write(image, moment, WAYS[way](disk.unsynced(moment), dice), dice, lambda name: name)
        _holds(image, f"{way}, {disk.words(moment)}")
        shutil.rmtree(image)


def _holds(image: Path, words: str) -> None:
    path = str(image / "state" / "audit.jsonl")
    log = AuditLog(path, max_bytes=BOUND)
    log.record("x", n=99)
    log.close()
    found = verify(path)
    assert found.whole, (words, found)
    told = (image / "told").read_text().split() if (image / "told").exists() else []
    kept = [record["fields"]["n"] for record in records(path) if record["event"] == "x"]
    wanted = [int(word) for word in told if not word.startswith("removing")]
    stays = [int(word.partition(":")[2]) for word in told if word.startswith("removing")]  # and whatever comes after it
    lost = [n for n in wanted if n not in kept]
    assert [n for n in kept if n in wanted] == wanted[len(lost) :], words
    assert not lost or (found.removed and lost[-1] < stays[0]), words
