"""The class of faults around a person's answer: killed while a question is open, while it is asked again, just after a yes.

What waits must come back as waiting, be asked about again, and have its effect once after a yes and never after anything
else, however often the process dies on the way. The ledger outside the database says what had its effect.
"""

from __future__ import annotations

from pathlib import Path

from sluice.session.disk import reading
from sluice.session.waiting import asked_keys
from sluice.session.wish import Wish
from sluice.testing.fault_agent import FAULTY
from sluice.testing.fault_harness import Harness
from sluice.testing.fault_witnesses import sessions_of
from sluice.values.calls import CallKey

NAME = "question"
_LATEST_DEATH = 0.03  # seconds after an answer: by then the call has run, and its result is stored
_ENDS = {"yes": (0,), "no": (0, 4), "nobody": (0, 4), "waits": (130,)}  # exit codes by what the person does


def question(driver: Harness) -> None:
    """Kills an agent at a question, up to three times more on the way to an answer, and then lets the person decide."""
    store, dice = driver.store(fresh=True), driver.dice
    driver.figures.injected[NAME] += 1
    before = len(driver.figures.faults)
    if dice.random() < 0.3:
        driver.agents(driver.job(store, person="yes"))
    _dies_at_the_question(driver, store)
    if not _waiting(store):
        driver.broken(NAME, "it died at a question, and nothing waits for an answer")
    for _ in range(dice.choice((0, 0, 1, 1, 2, 3))):
        waited = _waiting(store)
        if not waited:
            break
        if dice.random() < 0.4:
            _dies_at_the_question(driver, store)
            if _waiting(store) != waited:
                driver.broken(NAME, f"{waited} waited, and {_waiting(store)} do after it was asked about again")
            continue
        moment = dice.uniform(0.0, _LATEST_DEATH)
        driver.agents(driver.job(store, wish=Wish(how="continue"), person="yes", dies_within=moment))
        driver.judge(NAME, store)
    _decided(driver, store, dice.choice(("yes", "yes", "no", "nobody", "waits")))
    driver.count(NAME, driver.judge(NAME, store, go_on=True) and len(driver.figures.faults) == before)
    driver.forget(store)


def _dies_at_the_question(driver: Harness, store: Path) -> None:
    ended = driver.agents(driver.job(store, wish=Wish(how="continue"), person="dies", kill_after=30.0))[0]
    if not ended.killed or ended.seconds >= 30:
        driver.broken(NAME, f"no question came: exit code {ended.exit_code} after {ended.seconds:.1f} s")
    driver.figures.questions["open when it died"] += 1
    driver.judge(NAME, store)


def _decided(driver: Harness, store: Path, person: str) -> None:
    """The last run: its person decides, and what had waited has its effect once, or never."""
    waiting, done = _waiting(store), _effects(driver, store)
    first = driver.dice.uniform(0.3, 0.6)  # seconds; on a busy machine it comes before the agent can hear it
    cancels = (first, first + 1, first + 4, first + 12) if person == "waits" else ()
    job = driver.job(store, wish=Wish(how="continue"), person=person, cancel_after=cancels, kill_after=45.0)
    ended = driver.agents(job)[0]
    if ended.exit_code not in _ENDS[person]:
        fault = "an exception came out" if ended.exit_code == FAULTY else f"exit code {ended.exit_code}"
        driver.broken(NAME, f"the person {person!r}: {fault} after {ended.seconds:.1f} s")
    more = _effects(driver, store) - done
    ran = [key for key in waiting if key in more]
    if person == "yes" and ran != waiting:
        driver.broken(NAME, f"after a yes {ran} ran of {waiting}")
    if person != "yes" and ran:
        driver.broken(NAME, f"{ran} ran, and the person did not say yes ({person})")
    driver.figures.questions["had its effect once" if ran else "never ran"] += len(waiting)
    if _waiting(store):
        driver.broken(NAME, "it still waits after a run that came to its end")


def _waiting(store: Path) -> list[CallKey]:
    """What waits for the person in the session that was used last."""
    session = sessions_of(store)[-1]
    with reading(store) as connection:
        return [key for key, _tool in asked_keys(connection, session)]


def _effects(driver: Harness, store: Path) -> set[CallKey]:
    ledger = driver.files(store)[1]
    lines = ledger.read_text("ascii").splitlines() if ledger.exists() else []
    return {CallKey(run, int(turn), int(at)) for run, turn, at, *_ in (line.split() for line in lines)}
