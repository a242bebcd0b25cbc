"""`sluice doctor` tells what it has seen, and says so where a protection is missing."""

from __future__ import annotations

import json

import pytest

from sluice.run import doctor
from sluice.run.wiring import state_folder
from sluice.tools import keeper
from sluice.tools.sandbox import available
from sluice.ui.cli import main


def test_it_tries_what_this_machine_gives() -> None:
    if available() != "bubblewrap":
        pytest.skip("NOT CHECKED: bubblewrap gives no sandbox on this machine")
    report = doctor.examine()
    assert report.sandbox == "bubblewrap"
    assert [one.name for one in report.protections if one.holds is not True] in (
        [],
        ["the number of processes is bounded"],
    )


def test_what_does_not_hold_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    if keeper.landlock_version() < keeper.LEAST_LANDLOCK:
        pytest.skip("NOT CHECKED: this kernel has no Landlock")
    monkeypatch.setattr(doctor, "available", lambda: "landlock")
    held = {one.name: one.holds for one in doctor.examine().protections}
    assert held["writing outside is refused"] is True
    assert held["hooks and configuration of git stay as they are"] is False


def test_what_is_kept_on_the_disk_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(doctor, "available", lambda: "none")
    monkeypatch.setenv("SLUICE_KEPT_BYTES", "1GiB")
    prompts = state_folder() / "prompts"
    prompts.mkdir(parents=True)
    (prompts / "a\x1b[2J").write_bytes(b"x" * 2_000_000)
    main(["doctor"])
    assert "kept on this disk: 1.9 MiB (at most 1.0 GiB: kept_bytes)" in capsys.readouterr().out
    main(["doctor", "--output", "json"])
    found = json.loads(capsys.readouterr().out)
    assert found["kept"]["other"] >= 2_000_000
    assert found["kept_bytes"] == 2**30


def test_no_sandbox_is_told_with_its_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "available", lambda: "none")
    assert main(["doctor"]) == 1
    assert "--allow-unsandboxed" in capsys.readouterr().out
