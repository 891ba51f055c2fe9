"""The child that talks to the driver: if NVML hangs, it hangs, and nothing else does.

It holds none of the channel's descriptors, and an abstract Unix socket named by account, cluster and node, which the
kernel frees when it really dies. Whoever finds the name held starts no second child: it asks the holder for its last
pass through that socket, and a holder that does not answer is stuck in the driver.
"""

import ctypes
import json
import os
import select
import signal
import socket
import struct

_PR_SET_PDEATHSIG = 1
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


def start(listener):
    """Forks the child that owns listener; answers (pid, our end of its socket)."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    parent = os.getpid()
    pid = os.fork()
    if pid:
        theirs.close()
        listener.close()
        return pid, ours
    try:
        _isolate(parent, keep=(theirs.fileno(), listener.fileno()))
        _serve(theirs, listener)
    finally:
        os._exit(0)


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


def _serve(parent, listener):
    """Answers one byte with one pass; strangers of our account get the last pass. Ends when the parent is gone."""
    import pynvml

    from .nvml_reader import NvmlReader

    reader = NvmlReader(pynvml)
    last = b""
    while True:
        ready, _, _ = select.select([parent, listener], [], [])
        if listener in ready:
            _share(listener, last)
        if parent in ready:
            if not parent.recv(64):
                return
            last = _framed(one_pass(reader, pynvml))
            parent.sendall(last)


def one_pass(reader, nvml):
    """A pass as JSON: readings, or the driver's refusal."""
    import time

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


def _share(listener, last):
    stranger, _ = listener.accept()
    try:
        if peer_uid(stranger) == os.getuid() and last:
            stranger.settimeout(1.0)
            stranger.sendall(last)
    except OSError:
        pass
    finally:
        stranger.close()


def peer_uid(connection):
    """Account at the other end of a Unix socket."""
    return _PEERCRED.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEERCRED.size))[1]
