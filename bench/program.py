"""Whole processes: what starting the command costs, and one run of the agent against the replay server.

Prints medians; asserts nothing. CPU and peak memory are the operating system's own figures for each finished process.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SLUICE = str(Path(sys.executable).with_name("sluice"))
RUNS = 9


def measured(command: list[str], env: dict[str, str]) -> tuple[float, float, float]:
    """CPU seconds, wall seconds and peak memory in MB of one process."""
    began = time.perf_counter()
    process = subprocess.Popen(
        command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - began
    if process.returncode != 0:
        raise SystemExit(f"{command} ended with {process.returncode}")
    scale = 1024 if sys.platform == "linux" else 1024 * 1024
    return usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / scale


def report(name: str, runs: list[tuple[float, float, float]]) -> None:
    """Prints the medians of several runs."""
    cpu, wall, peak = (statistics.median(column) for column in zip(*runs, strict=True))
    print(f"{name:34} {cpu * 1000:7.0f} ms CPU {wall * 1000:7.0f} ms wall {peak:7.1f} MB peak")


def several(name: str, command: list[str], env: dict[str, str]) -> None:
    """Measures one command, after a run that is not counted."""
    measured(command, env)
    report(name, [measured(command, env) for _ in range(RUNS)])


def one_shot(workspace: Path, env: dict[str, str]) -> tuple[float, float, float]:
    """One run of three turns with two calls, against a replay server of its own whose cost is not counted."""
    files = [str(ROOT / "demo/exchanges" / f"{name}.sse") for name in ("1-look", "2-edit", "3-blocked")]
    with subprocess.Popen([SLUICE, "replay-server", *files], stdout=subprocess.PIPE, text=True, env=env) as server:
        try:
            assert server.stdout is not None
            url = server.stdout.readline().split()[-1]
            command = [SLUICE, "-w", str(workspace), "--base-url", f"{url}/v1", "--model", "m", "-e", "Mend greet.py"]
            return measured(command, env)
        finally:
            server.terminate()


def main() -> None:
    """Start-up, and a one-shot run."""
    print(f"whole processes, medians of {RUNS} runs after a warm-up")
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("SLUICE_", "NCA_"))}
        env = {**kept, "HOME": folder, "XDG_STATE_HOME": folder, "XDG_CONFIG_HOME": folder}
        several("python -c pass", [sys.executable, "-c", "pass"], env)
        several("sluice --version", [SLUICE, "--version"], env)
        several("sluice --help", [SLUICE, "--help"], env)
        workspace = Path(folder) / "workspace"
        workspace.mkdir()
        (workspace / "greet.py").write_bytes((ROOT / "demo/workspace/greet.py").read_bytes())
        one_shot(workspace, env)
        report("one-shot run, 3 turns over HTTP", [one_shot(workspace, env) for _ in range(RUNS)])


if __name__ == "__main__":
    main()
