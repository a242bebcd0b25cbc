"""The fault driver in its short form; and that each of its witnesses speaks up."""

from __future__ import annotations

import contextlib
import random
import sqlite3
import sys
from functools import partial

import pytest

from sluice.testing import fault_forms, fault_questions, fault_recovery, faults
from sluice.testing.fault_agent import FAULTY, append
from sluice.testing.fault_disk import damage
from sluice.testing.fault_forms import transcripts
from sluice.testing.fault_provider import Provider, in_order, unpaired
from sluice.testing.fault_questions import question
from sluice.testing.fault_strace import failing, missing

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="forks")
needs_strace = pytest.mark.skipif(bool(missing()), reason=f"faults at system calls were not tried: {missing()}")


@pytest.mark.timeout(170)
def test_sessions_survive_what_the_driver_does_to_them() -> None:
    figures = faults.drive(110, seed=7)
    print("\n".join(figures.lines()))
    assert figures.good(), "\n".join(figures.lines())
    # Where strace, mounts and transcripts are missing, some of the 110 are left out, and the test below says so.
    assert sum(figures.survived.values()) == sum(figures.injected.values()) >= 80
    assert figures.in_run > figures.injected["kill"] / 2, "the kills did not meet runs at work"
    assert figures.in_stream > figures.injected["kill"] / 4, "the kills did not meet replies that were arriving"
    assert figures.recovery_cpu < faults.MOST_RECOVERY_SECONDS
    assert figures.log_bytes < 64 * 2**20
    assert all(figures.injected[name] or name in figures.left_out for name in faults.SHARES)


def test_every_class_of_faults_can_be_done_here() -> None:
    """Without strace or the shared transcripts the classes are left out, and that is said loudly."""
    wanted = {"strace": missing(), "transcripts": "" if transcripts() else "not beside the checkout"}
    lacking = [f"{name}: {why}" for name, why in wanted.items() if why]
    if lacking:
        pytest.skip(f"some classes of faults were not done: {'; '.join(lacking)}")


@needs_strace
def test_a_file_that_was_half_written_and_a_lost_pre_image_are_noticed(driver) -> None:
    store = driver.scripts.copy("change")
    assert driver.judge("system call", store)
    _acks, _ledger, work, state = driver.files(store)
    (work / "note.txt").write_text("<1.0>\n" * 7)
    assert not driver.judge("system call", store)
    (work / "note.txt").unlink()
    assert driver.judge("system call", store)
    for blob in (state / "blobs").iterdir():
        blob.unlink()
    assert not driver.judge("system call", store)


@needs_strace
def test_a_kill_meets_the_call_that_was_chosen(driver) -> None:
    driver.store()
    points = driver.scripts.points("change")
    assert {"renameat", "pwrite64", "fdatasync"} <= {point.call for point in points}
    driver.scripts.kill(next(point for point in points if point.call == "renameat"))
    assert driver.figures.good(), driver.figures.lines()
    assert driver.figures.points == {"change": 1}


@needs_strace
def test_a_system_call_that_fails_is_met(driver, tmp_path) -> None:
    store = driver.store(fresh=True)
    words = failing([f"{store}-wal"], "pwrite64", "EIO", 1, for_good=True)
    (ended,) = driver.agents(driver.job(store, strace=words))
    assert ended.exit_code not in (0, FAULTY)
    assert driver.judge("errno", store, go_on=True), driver.figures.lines()


@pytest.fixture
def driver(tmp_path):
    with Provider() as provider, contextlib.closing(faults.Driver(tmp_path, provider)) as one:
        yield one


def test_a_lost_acknowledgement_is_noticed(driver, tmp_path) -> None:
    store = driver.store()
    assert driver.judge("kill", store)
    (line, *_rest) = [x for x in (tmp_path / "s1.acks").read_text().splitlines() if " end " not in x]
    run, turn, _ = line.split()
    append(str(tmp_path / "s1.acks"), f"{run} {turn} 99999")
    assert not driver.judge("kill", store)
    assert driver.figures.lost == 1


def test_an_end_that_was_told_and_is_not_stored_is_noticed(driver, tmp_path) -> None:
    store = driver.store()
    append(str(tmp_path / "s1.acks"), "run_unknown end completed saved")
    assert not driver.judge("kill", store)


@pytest.mark.parametrize("again", [True, False])
def test_an_effect_that_is_there_twice_or_has_no_start_is_noticed(driver, tmp_path, again) -> None:
    store = driver.store()
    ledger = tmp_path / "s1.ledger"
    line = ledger.read_text().splitlines()[0] if again else "run_unknown 1 0 {}"
    append(str(ledger), line)
    assert not driver.judge("kill", store)
    assert driver.figures.twice == int(again)


def test_a_damaged_row_is_noticed(driver) -> None:
    store = driver.store()
    with contextlib.closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("UPDATE part SET body = body || '!' WHERE kind = 'text'")
    assert not driver.judge("kill", store)


def test_a_session_that_cannot_be_gone_on_with_is_noticed(driver) -> None:
    store = driver.store()
    with contextlib.closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("DELETE FROM part WHERE kind = 'result'")
    assert not driver.judge("kill", store, go_on=True)
    assert driver.figures.faults


@pytest.mark.parametrize("seed", [3, 4])
def test_a_question_survives_any_death_and_its_call_runs_once_or_never(driver, seed) -> None:
    driver.dice = random.Random(seed)
    for _ in range(2):
        question(driver)
    assert driver.figures.good(), driver.figures.lines()
    assert driver.figures.injected["question"] == driver.figures.survived["question"] == 2
    assert driver.figures.questions["open when it died"] >= 2


def test_a_call_that_ran_without_a_yes_is_noticed(driver, monkeypatch) -> None:
    monkeypatch.setattr(driver.dice, "choice", lambda options: "yes" if "yes" in options else options[0])
    monkeypatch.setattr(fault_questions, "_decided", partial(_not_what_was_said, fault_questions._decided))
    question(driver)
    assert any("did not say yes" in line for line in driver.figures.faults), driver.figures.lines()


def _not_what_was_said(decided, driver, store, person) -> None:
    """The agent's person says yes where the driver believes that they said no."""
    job = driver.job
    driver.job = lambda store, **more: job(store, **{**more, "person": person})
    decided(driver, store, "no")
    driver.job = job


def test_texts_out_of_order_are_noticed() -> None:
    assert in_order("")
    assert in_order("<7.0><7.1>")
    assert in_order("<7.0><7.1><7.")
    for wrong in ("<7.1>", "<7.0><7.2>", "<7.0><8.1>", "<7.0><7.0>", "<7.0>x", "x<7.0>"):
        assert not in_order(wrong), wrong


def test_the_provider_refuses_what_real_ones_refuse() -> None:
    user, asks = {"role": "user"}, {"role": "assistant", "tool_calls": [{"id": "a"}, {"id": "b"}]}
    a, b = ({"role": "tool", "tool_call_id": x} for x in "ab")
    assert not unpaired([user, asks, a, b, user])
    for wrong in ([user, asks], [user, asks, a, user], [user, asks, a, a, b], [user, b]):
        assert unpaired(wrong)


def test_damage_changes_the_store(tmp_path) -> None:
    store, good = tmp_path / "sessions.db", random.Random(0).randbytes(16 * 4096)
    changed = 0
    for seed in range(40):
        store.write_bytes(good)
        damage(store, random.Random(seed))
        changed += store.read_bytes() != good
    assert changed > 35  # a page may be exchanged with itself


def test_a_recovery_that_comes_to_something_else_is_noticed(driver, monkeypatch) -> None:
    driver.store()
    fault_recovery.recovery(driver, driver.scripts)
    assert driver.figures.good(), driver.figures.lines()
    real = fault_recovery._rows

    def other(store):
        return {**real(store), "notice": [(str(store),)]}

    monkeypatch.setattr(fault_recovery, "_rows", other)
    fault_recovery.recovery(driver, driver.scripts)
    assert any("without them" in line for line in driver.figures.faults)


def test_a_provider_that_fails_after_tools_have_run_is_met(driver) -> None:
    driver.dice.seed(3)
    fault_forms.retry(driver)
    assert driver.figures.survived["retry"] == 1, driver.figures.lines()
    assert not driver.provider.harm
