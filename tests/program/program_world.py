"""The real command in a process of its own, against servers on loopback."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from jsonschema import Draft202012Validator

from sluice.ui.output_schema import shipped

KEY = "sk-" + "k3y" * 14
PROGRAM = [sys.executable, "-c", "import sys; from sluice.__main__ import main; sys.exit(main())"]


class Shown(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """What standard error says of errors, one entry a line."""
        return [line for line in self.err.splitlines() if line.startswith("error: ") or " error: " in line]

    def notices(self) -> list[dict[str, Any]]:
        """What `--output stream-json` wrote, every line held against the schema that we ship."""
        found = [json.loads(line) for line in self.out.splitlines()]
        for notice in found:
            validator("stream-json").validate(notice)
        return found


@cache
def validator(form: str) -> Draft202012Validator:
    """The shipped schema of a form of output, made stricter: no field that it does not name."""
    schema = json.loads(shipped(form))
    for one in (schema, *schema["$defs"].values()):
        if "properties" in one:
            one["additionalProperties"] = False
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    return {**os.environ, "PYTHONUNBUFFERED": "1", "NO_COLOR": "1", "no_proxy": "*", **(more or {})}


def start(
    *argv: str, cwd: Path, env: Mapping[str, str] | None = None, stdin: Any = subprocess.DEVNULL
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*PROGRAM, *argv],
        cwd=cwd,
        env=environment(env),
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def sluice(*argv: str, cwd: Path, env: Mapping[str, str] | None = None, stdin: bytes | None = None) -> Shown:
    process = start(*argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE)
    try:
        out, err = process.communicate(stdin, timeout=40)
    finally:
        process.kill()
        process.wait()
    shown = Shown(process.returncode, out.decode(), err.decode())
    if "--debug" not in argv:
        assert "Traceback" not in shown.err, shown.err
    return shown


def finish(process: subprocess.Popen[bytes]) -> Shown:
    """Waits for a started program and takes what it still says."""
    try:
        out, err = process.communicate(timeout=40)
    finally:
        process.kill()
        process.wait()
    return Shown(process.returncode, out.decode(), err.decode())


# -- what a model says


def _event(delta: Mapping[str, Any], finish: str | None = None, **more: Any) -> bytes:
    choice = {"index": 0, "delta": dict(delta), "finish_reason": finish}
    return b"data: " + json.dumps({"id": "c", "model": "m", "choices": [choice], **more}).encode() + b"\n\n"


def says(*pieces: str, finish: str | None = "stop", done: bool = True) -> bytes:
    body = b"".join(_event({"content": piece}) for piece in pieces)
    return body + (_event({}, finish) if finish else b"") + (b"data: [DONE]\n\n" if done else b"")


def asks(*wanted: tuple[str, Any], say: str = "", finish: str | None = "tool_calls") -> bytes:
    body = _event({"content": say}) if say else b""
    for at, (name, arguments) in enumerate(wanted):
        raw = arguments if isinstance(arguments, str) else json.dumps(arguments)
        function = {"name": name, "arguments": raw}
        body += _event({"tool_calls": [{"index": at, "id": f"c{at}", "type": "function", "function": function}]})
    return body + (_event({}, finish) + b"data: [DONE]\n\n" if finish else b"")


# -- a server without end


class EndlessServer:
    """Answers one request with `head` and then `piece` for as long as somebody reads."""

    def __init__(self, piece: bytes) -> None:
        self._piece = piece * max(1, 65536 // len(piece))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"
        self.sent = 0
        self._thread = threading.Thread(target=self._serve, name="endless")

    def __enter__(self) -> EndlessServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                try:
                    connection.recv(65536)
                    connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
                    while True:
                        connection.sendall(self._piece)
                        self.sent += len(self._piece)
                except OSError:
                    continue


@contextmanager
def closed_port() -> Iterator[str]:
    """An address on which nobody listens and which nobody else gets meanwhile."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{holder.getsockname()[1]}/v1"


def descendants(session: int) -> list[int]:
    """Living processes of a session that a test started (Linux)."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(entry))
    return found


def said_once(lines: Sequence[str], word: str) -> bool:
    return sum(word in line for line in lines) == 1
