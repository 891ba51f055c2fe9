"""One engine for a cluster and state directory: a kernel lock that a crash frees, on a local disk."""

import errno
import fcntl
import os
from pathlib import Path

from gputop.model.errors import EngineError

NETWORK_FILE_SYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "lustre", "gpfs", "beegfs", "ceph", "fuse.ceph", "glusterfs", "fuse.glusterfs",
     "afs", "9p", "fuse.sshfs", "pvfs2", "wekafs", "panfs"}
)  # fmt: skip
"""Types on which a lock or a database of ours cannot be trusted between hosts."""


def private_folder(path: Path) -> Path:
    """Makes the folder for this account alone; refuses one that belongs to somebody else."""
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        status = path.stat(follow_symlinks=False)
    except OSError as error:
        raise EngineError(
            f"{path}: cannot be made: {error.strerror}; set state_dir to a local folder of yours"
        ) from error
    if status.st_uid != os.getuid():
        raise EngineError(f"{path}: belongs to another account (uid {status.st_uid}); set state_dir to one of yours")
    if status.st_mode & 0o077:
        path.chmod(0o700)
    return path


def file_system_type(path: Path, mounts: str) -> str:
    """The type of the file system that holds path, by the longest mount point in /proc/self/mounts' text."""
    best, kind = "", ""
    target = str(path.resolve())
    for line in mounts.splitlines():
        parts = line.split(" ")
        if len(parts) < 3:
            continue
        point = parts[1].encode().decode("unicode_escape")
        inside = target == point or target.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, parts[2]
    return kind


def refuse_network_disk(path: Path) -> None:
    """Acting needs a ledger and a lock that hold; a network file system gives neither."""
    kind = file_system_type(path, Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace"))
    if kind in NETWORK_FILE_SYSTEMS:
        raise EngineError(
            f"{path} is on a network file system ({kind}), where neither lock nor ledger can be trusted; "
            "set state_dir in the configuration to a folder on a local disk"
        )


class Lock:
    """Held for the life of the engine."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1

    def take(self) -> None:
        """Raises EngineError, naming the holder, when another engine has it."""
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise EngineError(f"{self._path}: cannot be opened: {error.strerror}") from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(fd, 32).decode("ascii", "replace").strip()
            os.close(fd)
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise EngineError(f"{self._path}: cannot be locked: {error.strerror}") from error
            raise EngineError(
                f"an engine for this cluster already runs (process {holder or 'unknown'}); attach to it with gputop"
            ) from error
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        self._fd = fd

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
