"""A real small model behind llama.cpp's own server, as a process of its own."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
PYTHON = HERE.parent.parent / ".venv-model" / "bin" / "python"


class Server:
    """One model server, as a process of its own."""

    def __init__(self) -> None:
        command = [str(PYTHON), str(HERE / "serve_model.py"), "--template", str(HERE / "chat.jinja")]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("listening on http://127.0.0.1:"), f"the model server did not start: {line!r}"
        self.url = line.removeprefix("listening on ").strip()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(20)
        assert self.process.stdout is not None
        self.process.stdout.close()
