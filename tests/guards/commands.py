"""Takes each guard of the commands away in turn and looks whether a test turns red. Not part of the suite.

    python tests/guards/commands.py [NAME]

Works on a copy of the tree, so nothing here changes. Ends with 1 if a guard could be removed unnoticed.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from removal import Guard, main

TOOLS = "src/sluice/tools/"
# ruff: noqa: E501
# name: (file, what is there, what takes its place, tests to run)
_TABLE = {
    "no network": (TOOLS + "bubblewrap.py", '*(("--unshare-net",) if network == "none" else ()),', "", "listening_port"),
    "no network but a door": (TOOLS + "bubblewrap.py", '*(("--unshare-net",) if network == "door" else ()),', "", "nothing_directly"),
    "listed hosts": (TOOLS + "host_proxy.py", "if not any(host.covers(request.name, request.port) for host in self._hosts):", "if False:", "another_is_not"),
    "public addresses": (TOOLS + "host_proxy.py", "if not all_public(found):", "if False:", "this_machine or name_service"),
    "all of them public": (TOOLS + "allowed_hosts.py", "bool(found) and all(", "bool(found) and any(", "not_public"),
    "a cloud's own": (TOOLS + "allowed_hosts.py", "if any(address in network for network in _NOT_PUBLIC):", "if False:", "not_public"),
    "carried addresses": (TOOLS + "allowed_hosts.py", "            if address in network:", "            if False:", "not_public"),
    "pinned addresses": (TOOLS + "host_proxy.py", "if name not in self._pinned:", "if True:", "looked_up_once"),
    "numbers for names": (TOOLS + "allowed_hosts.py", "if _NUMBER.fullmatch(labels[-1]):", "if False:", "single_reading"),
    "one request": (TOOLS + "proxy_request.py", 'return b"\\r\\n".join([*lines, b"connection: close", b"", b""])', 'return b"\\r\\n".join([*lines, b"", b""])', "written_anew"),
    "only its body": (TOOLS + "host_proxy.py", "idle, request.body_bytes)", "idle, None)", "second_request"),
    "one length": (TOOLS + "proxy_request.py", 'names.count(b"content-length") > 1 or ', "", "two_ways"),
    "no chunks": (TOOLS + "proxy_request.py", 'if b"transfer-encoding" in names:', "if False:", "two_ways"),
    "count of connections": (TOOLS + "host_proxy.py", "if self._open >= MAX_CONNECTIONS:", "if False:", "bounds_of_heads"),
    "time of a head": (TOOLS + "host_proxy.py", "async with asyncio.timeout(HEAD_SECONDS):", "if True:", "bounds_of_heads"),
    "door shut": (TOOLS + "host_proxy.py", "                task.cancel()\n", "                pass\n", "door_that_shuts"),
    "memory together": (TOOLS + "tree_watch.py", "if sum(held.values()) > self.max_memory_bytes:", "if False:", "over_the_bound or holds_most"),
    "shared memory": (TOOLS + "tree_watch.py", "held = next(int", "next(int", "counts_once"),
    "count of processes": (TOOLS + "tree_watch.py", "if tree.tasks > self._max_processes]", "if False]", "fork_bomb_is_ended"),
    "memory files": (TOOLS + "bubblewrap.py", '"--size", str(_SHARED_MEMORY_BYTES), "--tmpfs", "/dev/shm"', '"--tmpfs", "/dev/shm"', "memory_files"),
    "devices read-only": (TOOLS + "bubblewrap.py", '*("--remount-ro", "/dev", "--proc", "/proc"),', '*("--proc", "/proc"),', "memory_files"),
    "first to go": (TOOLS + "bubblewrap.py", "echo 1000 >/proc/self/oom_score_adj", ":", "end_first"),
    "kernel settings": (TOOLS + "bubblewrap.py", 'words += ["--ro-bind-try", f"/proc/{name}", f"/proc/{name}"]', "pass", "no_way_leads_out"),
    "other processes": (TOOLS + "bubblewrap.py", '"--unshare-pid", ', "", "no_way_leads_out"),
    "no more rights": (TOOLS + "keeper_program.py", "_checked(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), \"no_new_privs\")", "pass", "no_way_leads_out"),
    "read-only root": (TOOLS + "bubblewrap.py", '*("--ro-bind", "/", "/", "--dev"', '*("--bind", "/", "/", "--dev"', "of_the_system"),
    "hidden places": (TOOLS + "bubblewrap.py", "words += _hide(path)\n            if os", "pass\n            if os", "keys_home"),
    "process numbers": (TOOLS + "bubblewrap.py", '"--unshare-pid", ', "", "tree_lives_on or out_of_reach"),
    "capabilities": (TOOLS + "bubblewrap.py", '*("--die-with-parent", "--cap-drop", "ALL"),', '*("--die-with-parent",),', "out_of_reach"),
    "bound of processes": (TOOLS + "bubblewrap.py", 'ulimit -u "$2" || ulimit -p "$2"', "true", "another_user"),
    "pid_max": (TOOLS + "bubblewrap.py", "if root and bounds_processes() else 0", "if False else 0", "fork_bomb"),
    "pinned folders": (TOOLS + "bubblewrap.py", 'words += ["--bind", folder, folder]', "pass", "git_and_we or nested"),
    "read-only git": (TOOLS + "bubblewrap.py", 'words += ["--ro-bind", path, path]', "pass", "git_and_we"),
    "absent git": (TOOLS + "bubblewrap.py", 'words += ["--tmpfs", path, "--remount-ro", path]', "pass", "git_and_we"),
    "sockets": (TOOLS + "sandbox_places.py", "hidden |= set(_sockets())", "pass", "listening_port"),
    "links": (TOOLS + "sandbox_places.py", 'if kind == "link":', 'if kind == "x":', "link_in_place"),
    "planted": (TOOLS + "sandbox.py", "else tuple(planted(places))", "else ()", "new_one_is_told"),
    "refusal": (TOOLS + "sandbox.py", 'if kind == "none":', 'if kind == "x":', "nothing_runs"),
    "set-up seen": (TOOLS + "sandbox.py", "if whole and", "if False and", "cannot_be_set_up"),
    "landlock": (TOOLS + "keeper_program.py", '_checked(libc.syscall(_RESTRICT_SELF, rules, 0), "landlock_restrict_self")', "pass", "written_outside"),
    "socket filter": (TOOLS + "keeper_program.py", "        _filter_sockets(libc)", "        pass", "listening_port"),
    "adoption": (TOOLS + "keeper_program.py", "libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)", "pass", "tree_lives_on"),
    "our own death": (TOOLS + "keeper_program.py", "libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)", "pass", "sigkill"),
    "die with parent": (TOOLS + "bubblewrap.py", '"--unshare-pid", "--die-with-parent"', '"--unshare-pid"', "sigkill"),
    "term for the command": (TOOLS + "process_tree.py", "if _name(pid) != _KEEPER:", "if True:", "clean_up"),
    "count of jobs": (TOOLS + "jobs.py", "        if self._full():", "        if False:", "so_many"),
    "a moved command's life": (TOOLS + "jobs.py", "            if not job.moved.is_set():\n", "            if True:\n", "moved"),
    "no job left in front": (TOOLS + "jobs.py", "                await job.stop()\n            for wait", "                pass\n            for wait", "itself_cancelled"),
    "places for a moved command": (TOOLS + "jobs.py", "if running and not self._full() else None", "if running else None", "nothing_is_moved"),
    "bound of a job's output": (TOOLS + "jobs.py", "del self._kept[: -self._max_output_bytes]", "pass", "lost_is_told"),
}  # fmt: skip
TESTS = [
    f"tests/tools/test_{name}.py"
    for name in ("sandbox", "jobs", "allowed_hosts", "proxy_request", "host_proxy", "tree_watch", "sandbox_escapes")
]
GUARDS = {
    name: Guard(file, text, without, TESTS, select, every=True)
    for name, (file, text, without, select) in _TABLE.items()
}

NAP = str(1_900_000 + os.getpid())


def _end_sleepers() -> None:
    """Ends what a removed guard let live: its waiting loop ends with the last sleeper."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if Path(f"/proc/{name}/cmdline").read_bytes() == f"sleep\0{NAP}\0".encode():
                os.kill(int(name), signal.SIGKILL)
        except OSError:
            continue


if __name__ == "__main__":
    sys.exit(main(GUARDS, environment={"NAP_SECONDS": NAP}, after=_end_sleepers))
