"""The agent's main job without a key: the real command line over real HTTP, against a replay server on loopback.

The model's part is scripted: four recorded-style replies in `exchanges/`, served byte by byte. All else is the program
as it is installed. Nothing outside a temporary folder is written.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SLUICE = Path(sys.executable).with_name("sluice")
PROMPT = "greet.py forgets the last name on its list. Find out why and mend it."


def environment(home: Path) -> dict[str, str]:
    """This process's environment without any of the user's own settings of Sluice."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SLUICE_", "NCA_", "OPENAI_", "XDG_"))}
    return {**kept, "HOME": str(home), "XDG_STATE_HOME": str(home / "state"), "XDG_CONFIG_HOME": str(home / "config")}


def show(title: str, exchanges: list[str], flags: list[str], workspace: Path, env: dict[str, str]) -> int:
    """One run of the agent against a replay server of its own; returns the agent's exit code."""
    files = [str(HERE / "exchanges" / f"{name}.sse") for name in exchanges]
    command = [str(SLUICE), "replay-server", *files, "--split", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as server:
        try:
            assert server.stdout is not None
            line = server.stdout.readline().strip()
            url = line.removeprefix("listening on ")
            if not url.startswith("http://127.0.0.1:"):
                print(f"demo: the replay server did not start: {line!r}")
                return 1
            print(f"\n=== {title}")
            print(f"$ sluice -w workspace --base-url {url}/v1 {' '.join([*flags, ''])}-e {PROMPT!r}\n", flush=True)
            run = [str(SLUICE), "-w", str(workspace), "--base-url", f"{url}/v1", "--model", "scripted-demo", *flags]
            # One stream for both, so that text and calls stand in the order in which they came.
            return subprocess.run([*run, "-e", PROMPT], env=env, stderr=subprocess.STDOUT, check=False).returncode
        finally:
            server.terminate()


def main() -> int:
    """Both runs; returns 0 if each ended as it should and the file changed only in the second."""
    print("Sluice demo. The model is SCRIPTED: a replay server on this machine plays its replies byte by byte.")
    print("Everything else is real: command line, HTTP client, stream reader, policy, tools, files.")
    with tempfile.TemporaryDirectory(prefix="sluice-demo-") as folder:
        home = Path(folder)
        workspace = home / "workspace"
        shutil.copytree(HERE / "workspace", workspace)
        target = workspace / "greet.py"
        before = target.read_bytes()
        env = environment(home)
        first = show(
            "1. With defaults: reading is allowed, changing is not",
            ["1-look", "2-edit", "3-blocked"],
            [],
            workspace,
            env,
        )
        unchanged = target.read_bytes() == before
        allow = ["--allow-mutating-tools"]
        second = show("2. The same, with changes allowed", ["1-look", "2-edit", "3-done"], allow, workspace, env)
        changed = b"names[:-1]" not in target.read_bytes()
    good = first == 0 and unchanged and second == 0 and changed
    print(f"\n=== {'the demo went as it should' if good else 'THE DEMO DID NOT GO AS IT SHOULD'}: ", end="")
    print(f"exit codes {first} and {second}; greet.py changed only in the second run: {unchanged and changed}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
