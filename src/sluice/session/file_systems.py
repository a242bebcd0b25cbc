"""What a store lies on: a disk of this machine or of another, one that is full or for reading only; and what is no store."""

from __future__ import annotations

import os
import sqlite3
import sys
from pathlib import Path

from sluice.errors import StoreFault

FULL = "the disk is full; free some space and try again"
READ_ONLY = "it may not be written; --session-store :memory: works without it"
NEEDED_BYTES = 128 * 1024  # with less left a disk counts as full: what SQLite makes beside a file has no room

# Disks of other machines, or of the host of a virtual one: two kernels, and no memory that both share.
_KINDS = """
    nfs nfs4 cifs smb3 smbfs ncpfs 9p afs ceph coda lustre glusterfs beegfs pvfs2 orangefs gpfs ocfs2 gfs2 virtiofs vboxsf
    prl_fs vmhgfs davfs
"""
# The same by way of a program; other file systems of this kind (encryption, archives) are of this machine.
_PROGRAMS = """
    sshfs rclone s3fs s3backer goofys gcsfuse glusterfs juicefs davfs davfs2 gvfsd-fuse osxfs grpcfuse curlftpfs ceph
    ceph-fuse mfs moosefs lizardfs hdfs hadoop-fuse-dfs blobfuse blobfuse2 seaweedfs vmhgfs-fuse onedriver
    google-drive-ocamlfuse kio-fuse smbnetfs nfs
"""


def on_network(path: Path, mounts: str | None = None) -> str | None:
    """The kind of the network file system that `path` lies on, if it does. Only Linux can be asked."""
    if mounts is None:
        if sys.platform != "linux":
            return None
        try:
            mounts = Path("/proc/self/mounts").read_text("utf-8", "replace")
        except OSError:
            return None
    best, kind = "", ""
    place = os.path.realpath(path)
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = fields[1].replace("\\040", " ")
        if (place == point or place.startswith(point.rstrip("/") + "/")) and len(point) >= len(best):
            best, kind = point, fields[2]
    far = kind in _KINDS.split() or kind.removeprefix("fuse.") in _PROGRAMS.split()
    return kind if far else None


def full_or_read_only(path: Path, code: int) -> tuple[StoreFault, str] | None:
    """Whether that is why a file could not be opened, or not be written, as far as the disk says so."""
    try:
        disk = os.statvfs(path.parent)
    except OSError:
        return None
    if disk.f_flag & os.ST_RDONLY:
        return "read_only", f"its disk is mounted for reading only, and {READ_ONLY}"
    left = disk.f_bavail * disk.f_frsize
    if code == sqlite3.SQLITE_IOERR_SHMSIZE or left < NEEDED_BYTES:
        return "full", f"{FULL} (left: {left // 1024} KiB)"
    if not os.access(path.parent, os.W_OK):
        return "read_only", f"its folder may not be written, and {READ_ONLY}"
    return None


def is_text(path: Path) -> bool:
    """Whether a file is a text, and so no damaged store."""
    try:
        with path.open("rb") as file:
            begin = file.read(4096)  # a page, which has zeros in a store of ours, however it is damaged
    except OSError:
        return False
    text = begin.decode("utf-8", "replace")
    odd = any(sign < " " and not sign.isspace() for sign in text)
    return bool(text) and not odd and text.count("\ufffd") <= 1  # a letter that was cut
