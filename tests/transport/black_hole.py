"""Runs a command where every name server is silent: `python black_hole.py COMMAND…`. Linux only.

New user, mount and network namespaces need no privileges: loopback is brought up, a socket on port 53 takes questions and
answers none, and `resolv.conf` names it with a patience of minutes. Exit code 77 if the kernel refuses.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import sys
import tempfile

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWNET = 0x00020000, 0x10000000, 0x40000000
MS_BIND, SIOCSIFFLAGS, IFF_UP, IFF_RUNNING = 0x1000, 0x8914, 0x1, 0x40


def main() -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET):
        return 77
    try:
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as hole, tempfile.TemporaryDirectory() as folder:
            fcntl.ioctl(hole, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP | IFF_RUNNING))
            hole.bind(("127.0.0.1", 53))
            files = {
                "resolv.conf": "nameserver 127.0.0.1\noptions timeout:30 attempts:5\n",
                "nsswitch.conf": "hosts: files dns\n",
            }
            for name, text in files.items():
                path = os.path.join(folder, name)
                with open(path, "w") as file:
                    file.write(text)
                if libc.mount(path.encode(), f"/etc/{name}".encode(), None, MS_BIND, None) and name == "resolv.conf":
                    return 77
            return subprocess.run(sys.argv[1:], timeout=40, check=False).returncode
    except PermissionError:
        return 77


if __name__ == "__main__":
    sys.exit(main())
