"""The real command with sessions: continued, killed, looked at, checked."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from program_world import finish, says, sluice, start

from sluice.testing.replay_server import ReplayServer


def _fixture(folder: Path, *texts: str) -> list[str]:
    path = folder / "fixture.json"
    path.write_text(json.dumps([{"role": "assistant", "content": text} for text in texts]))
    return ["--mode", "mock", "--mock-fixture", str(path)]


def test_a_day_with_sessions(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    model = _fixture(tmp_path, "an answer")
    begun = sluice("-e", "first", "--continue", *model, "--output", "json", cwd=work)
    id = json.loads(begun.out)["extra"]["session"]
    for flags in (["--continue"], ["--resume", id], ["--fork", f"{id}@2"]):
        assert sluice("-e", "more", *flags, *model, cwd=work).code == 0
    found = json.loads(sluice("sessions", "list", "--output", "json", cwd=work).out)
    assert [(s["messages"], s["title"]) for s in found] == [(4, "first"), (6, "first")]
    shown = sluice("sessions", "show", id, cwd=work).out
    assert "an answer" in shown
    assert (shown.count("\nrun "), shown.splitlines()[-1].startswith("session: ")) == (3, True), shown
    assert json.loads(sluice("sessions", "export", id, cwd=work).out)["session"]["id"] == id
    assert sluice("sessions", "export", id, "--format", "md", cwd=work).out.startswith("# Session")
    checked = sluice("sessions", "check", cwd=work)
    assert (checked.code, "checked 2 sessions and 4 runs" in checked.out) == (0, True), checked
    assert sluice("sessions", "undo", cwd=work).out.startswith("nothing to undo in session ses_")
    assert sluice("sessions", "rm", id, cwd=work).out == f"removed 1 session: {id}\n"
    assert sluice("sessions", "list", "--all", cwd=tmp_path).out.count("ses_") == 1


def test_a_killed_run_goes_on_with_all_that_was_shown(tmp_path: Path) -> None:
    with ReplayServer([says(*["word "] * 400, finish=None, done=False)], fault="stall@20000") as server:
        process = start(
            "-e", "go", "--base-url", server.url, "--output", "stream-json", "--session-store", "s.db", cwd=tmp_path
        )
        assert process.stdout is not None
        for line in process.stdout:
            if b'"type":"text"' in line:
                break
        process.send_signal(signal.SIGKILL)
        finish(process)
    checked = sluice("sessions", "check", "--session-store", "s.db", cwd=tmp_path)
    assert (checked.code, "its last run was interrupted" in checked.out) == (0, True)
    again = sluice(
        "-e",
        "go on",
        "--continue",
        *_fixture(tmp_path, "yes"),
        "--session-store",
        "s.db",
        "--output",
        "json",
        cwd=tmp_path,
    )
    assert json.loads(again.out)["outcome"] == "completed"
    assert sluice("sessions", "check", "--session-store", "s.db", cwd=tmp_path).code == 0


def test_undo_goes_back_run_by_run_and_says_what_it_left(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    for how, name in (("--continue", "a.txt"), ("--continue", "b.txt")):
        call = {"function": {"name": "write_file_safe", "arguments": {"path": name, "content": "x"}}}
        said = [{"role": "assistant", "tool_calls": [call]}, {"role": "assistant", "content": "done"}]
        (tmp_path / "fixture.json").write_text(json.dumps(said))
        model = ["--mode", "mock", "--mock-fixture", str(tmp_path / "fixture.json"), "--allow-mutating-tools"]
        assert sluice("-e", "write it", how, *model, cwd=work).code == 0
    (work / "b.txt").write_text("by hand")
    for code, words in (
        (1, ["left b.txt: it was changed since the run", "nothing was given back; --run 1 takes back the run before"]),
        (0, ["removed a.txt"]),
    ):
        done = sluice("sessions", "undo", *([] if code else ["--run", "1"]), cwd=work)
        assert (done.code, done.out.splitlines()[1:], done.err) == (code, words, ""), done
    shown = sluice("sessions", "undo", "--run", "9", cwd=work)
    assert (shown.code, len(shown.lines), "run 9 of session" in shown.err) == (1, 1, True), shown


@pytest.mark.parametrize(
    ("argv", "code", "word"),
    [
        (["-e", "x", "--resume", "nope"], 2, "no session is named"),
        (["-e", "x", "--resume", "a", "--continue"], 2, "one of --continue"),
        (["-e", "x", "--resume", ""], 2, "--resume: an empty ID"),
        (["-e", "x", "--fork", "@1"], 2, "--fork: an empty ID"),
        (["-e", "x", "--resume", "\udcff"], 2, "no session is named"),
        (["-e", "x", "--fork", "a@b"], 2, "no number of a message"),
        (["-e", "x", "--fork", f"a@{2**63}"], 2, "no number of a message"),
        (["-e", "x", "--fork", "a@" + "9" * 5000], 2, "no number of a message"),
        (["-e", "x", "--session-store", "bad.db"], 2, "left as it is"),
        (["-e", "x", "--session-store", "bad.db/s.db"], 2, "cannot be used"),
        (["sessions", "show", "nope"], 1, "no session"),
        (["sessions", "export", "\udcff"], 1, "no session"),
        (["sessions", "rm"], 2, "--older-than"),
        (["sessions", "rm", ""], 2, "an empty ID"),
        (["sessions", "undo", ""], 2, "an empty ID"),
        (["sessions", "show", "--session-store", "bad.db"], 1, "no database"),
    ],
)
def test_what_cannot_be_done_is_one_clear_line(argv: list[str], code: int, word: str, tmp_path: Path) -> None:
    (tmp_path / "bad.db").write_bytes(b"no database at all " * 100)
    model = _fixture(tmp_path, "hi") if argv[0] == "-e" else []
    shown = sluice(*argv, *model, cwd=tmp_path)
    assert (shown.code, len(shown.lines)) == (code, 1), shown
    assert word in shown.err
    assert (tmp_path / "bad.db").read_bytes() == b"no database at all " * 100


def test_a_check_says_what_it_could_not_check_and_counts_in_words(tmp_path: Path) -> None:
    assert sluice("sessions", "check", cwd=tmp_path).out == "nothing is stored here yet\n"
    sluice("-e", "go", *_fixture(tmp_path, "yes"), cwd=tmp_path)
    assert (
        sluice("sessions", "check", cwd=tmp_path).out == "checked 1 session and 1 run in 1 store: all promises hold\n"
    )
    (tmp_path / "notes").write_text("a text of the user's\n" * 100)
    other = sluice("sessions", "check", "--session-store", "notes", cwd=tmp_path)
    assert (other.code, other.err) == (1, "")
    assert other.out.startswith("cannot be checked: ")
    assert other.out.endswith("\nchecked 0 sessions and 0 runs in 1 store: 1 store not checked\n")


def test_a_damaged_store_is_said_with_what_to_do_and_repaired_by_it(tmp_path: Path) -> None:
    given = ["--session-store", "s.db"]
    assert sluice("-e", "hello", *_fixture(tmp_path, "an answer"), *given, cwd=tmp_path).code == 0
    assert "not damaged" in sluice("sessions", "repair", *given, cwd=tmp_path).out
    store = tmp_path / "s.db"
    damaged = b"\x01" * 4096 + store.read_bytes()[4096:]
    store.write_bytes(damaged)
    refused = sluice("-e", "x", *_fixture(tmp_path, "no"), "--continue", *given, cwd=tmp_path)
    assert (refused.code, refused.err.count("\n"), "`sluice sessions repair`" in refused.err) == (2, 1, True), refused
    assert store.read_bytes() == damaged
    repaired = sluice("sessions", "repair", *given, cwd=tmp_path)
    assert (repaired.code, "saved 1 session with 2 messages" in repaired.out) == (0, True), repaired
    (aside,) = tmp_path.glob("s.db.damaged-*")
    assert aside.read_bytes() == damaged
    assert str(aside) in repaired.out
    assert sluice("sessions", "check", *given, cwd=tmp_path).code == 0
    assert sluice("-e", "x", *_fixture(tmp_path, "on"), "--continue", *given, cwd=tmp_path).out == "on\n"
