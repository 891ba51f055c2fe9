"""The child that talks to the driver: if NVML hangs, it hangs, and nothing else does.

It holds none of the channel's descriptors, and an abstract Unix socket named by account, cluster and node, which the
kernel frees when it really dies. Whoever finds the name held starts no second child: it asks the holder for a pass
through that socket, and a holder that does not answer is stuck in the driver. Since when, the process name tells: it
holds the monotonic second in which the pass under way began.
"""

import ctypes
import json
import os
import select
import signal
import socket
import struct
import time

from .files import read_text

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_IDLE = "gputop-nvml"
_BUSY = "nvml@"
_PEERCRED = struct.Struct("3i")


def socket_name(cluster, node):
    """The abstract name; a leading NUL and no file."""
    return "\0gputop/%d/%s/%s" % (os.getuid(), cluster, node)


def claim(name):
    """The listening socket, or None where somebody holds the name."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(name[:107])
        listener.listen(16)
    except OSError:
        listener.close()
        return None
    return listener


def start(listener, period):
    """Forks the child that owns listener; (pid, our end of its socket). Raises OSError where it may not fork."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    parent = os.getpid()
    try:
        pid = os.fork()
    except OSError:
        for end in (ours, theirs, listener):
            end.close()
        raise
    if pid:
        theirs.close()
        listener.close()
        return pid, ours
    status = 1
    try:
        _isolate(parent, keep=(theirs.fileno(), listener.fileno()))
        _serve(theirs, listener, period)
        status = 0
    finally:
        os._exit(status)


def _isolate(parent, keep):
    """No descriptor of the channel, and death with the parent."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    highest = 256
    for fd in range(3, highest):
        if fd not in keep:
            try:
                os.close(fd)
            except OSError:
                pass


def _serve(parent, listener, period):
    """Answers one byte with one pass, and strangers of our account with one that is no older than half a period.

    The parent may be frozen in a write to a dead session, so a stranger is not left with what the parent last asked
    for. Ends when the parent is gone.
    """
    import pynvml

    from .nvml_reader import NvmlReader

    # Asked for its peer, the kernel names the process that called listen.
    listener.listen(16)
    _be_called(_IDLE)
    reader = NvmlReader(pynvml)
    last, read_at = b"", 0.0
    while True:
        ready, _, _ = select.select([parent, listener], [], [])
        asked = parent in ready
        if asked and not parent.recv(64):
            return
        if asked or time.monotonic() - read_at > period / 2:
            _be_called("%s%d" % (_BUSY, time.monotonic()))
            last, read_at = _framed(one_pass(reader, pynvml)), time.monotonic()
            _be_called(_IDLE)
        if asked:
            parent.sendall(last)
        if listener in ready:
            _share(listener, last)


def one_pass(reader, nvml):
    """A pass as JSON: readings, or the driver's refusal."""
    driver = reader.driver()
    answer = {"driver": driver, "gpus": None, "processes": None, "nvml_ms": None, "nvml_calls": None}
    if not str(driver["driver"]).startswith("~"):
        try:
            answer.update(reader.read())
        except nvml.NVMLError as error:
            answer["driver"] = {"type": "driver", "driver": "~error", "cuda": None, "nvml": None, "detail": str(error)}
    times = os.times()
    answer["cpu_ms"] = round((times.user + times.system) * 1000, 1)
    answer["mono"] = time.monotonic()
    return json.dumps(answer, separators=(",", ":")).encode()


def _framed(payload):
    return struct.pack("!I", len(payload)) + payload


def _be_called(name):
    """The process name; the kernel keeps 15 bytes of it."""
    ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode("ascii"), 0, 0, 0)


def busy_since(connection):
    """Monotonic time at which the pass of the holder at the other end began; None while it is idle or unseen."""
    pid, _, _ = _peer(connection)
    name, _ = read_text("/proc/%d/comm" % pid, 64)
    digits = name.strip()[len(_BUSY) :]
    return float(digits) if name.startswith(_BUSY) and digits.isdigit() else None


def _share(listener, last):
    stranger, _ = listener.accept()
    try:
        if peer_uid(stranger) == os.getuid():
            stranger.settimeout(1.0)
            stranger.sendall(last)
    except OSError:
        pass
    finally:
        stranger.close()


def peer_uid(connection):
    """Account at the other end of a Unix socket."""
    return _peer(connection)[1]


def _peer(connection):
    return _PEERCRED.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEERCRED.size))
