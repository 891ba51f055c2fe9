"""The parent's end of the NVML child: one child at most, asked once a period, never waited for."""

import errno
import json
import os
import signal
import socket
import struct
import time

from . import nvml_child

RESTART_SECONDS = (2, 10, 60)
"""Before a child that died is started again, by how often it has died."""
STUCK_PERIODS = 2


class NvmlLink:
    """Asks its own child, or the child of another probe of this account that holds the name."""

    def __init__(self, cluster, node, period, now=time.monotonic):
        self._name = nvml_child.socket_name(cluster, node)
        self._period = period
        self._now = now
        self._pid = 0
        self._socket = None
        self._buffer = b""
        self._asked = None
        self._deaths = 0
        self._not_before = 0.0
        self.trouble = ""

    def fileno(self):
        """What to wait on; None while there is nothing."""
        return None if self._socket is None else self._socket.fileno()

    def ask(self):
        """Begins a pass unless one is under way."""
        if self._pid and self._socket is None:
            self._reap()
        if not self._pid and self._socket is None and self._now() >= self._not_before:
            self._connect()
        if self._pid and self._socket is not None and self._asked is None:
            self._asked = self._now()
            self._send(self._socket)

    def _connect(self):
        listener = nvml_child.claim(self._name)
        if listener is not None:
            try:
                self._pid, self._socket = nvml_child.start(listener, self._period)
            except OSError as error:
                self._rest("the NVML child cannot be started: %s" % error.strerror)
                return
            self._socket.setblocking(False)
            self._asked = None
            return
        holder = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        holder.setblocking(False)
        try:
            holder.connect(self._name[:107])
        except OSError as error:
            holder.close()
            if error.errno == errno.EAGAIN:
                self._wait_for_holder(None)
            return
        if nvml_child.peer_uid(holder) != os.getuid():
            holder.close()
            self.trouble = "another account holds this probe's name; ask it to let go"
            return
        self._socket = holder
        self._wait_for_holder(nvml_child.busy_since(holder))

    def _wait_for_holder(self, since):
        """since: when the holder's pass under way began, where that can be seen."""
        if self._asked is None:
            self._asked = self._now() if since is None else since

    def _send(self, child):
        try:
            child.send(b"p")
        except OSError:
            self._lost()

    def take(self):
        """A finished pass as a dict, or None; to be called when fileno() is readable, and each period."""
        if self._socket is None:
            return None
        try:
            part = self._socket.recv(1 << 20)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EWOULDBLOCK):
                return None
            part = b""
        if not part:
            self._lost()
            return None
        self._buffer += part
        if len(self._buffer) < 4:
            return None
        size = struct.unpack("!I", self._buffer[:4])[0]
        if len(self._buffer) < 4 + size:
            return None
        payload, self._buffer = self._buffer[4 : 4 + size], b""
        self._asked = None
        self._deaths = 0
        self.trouble = ""
        if not self._pid:
            self._socket.close()
            self._socket = None
        return json.loads(payload.decode())

    def _lost(self):
        """The other end is gone: our child died, or the holder has not passed anything on yet."""
        if self._socket is not None:
            self._socket.close()
        self._socket, self._buffer = None, b""
        if not self._pid:
            self._asked = None
            return
        if self._asked is None:
            self._asked = self._now()
        self._reap()

    def _reap(self):
        """Forgets a child that has ended; one that is stuck in its end still counts as the one child, and as hung."""
        try:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
        except ChildProcessError:
            pid, status = self._pid, 0
        if not pid:
            return
        self._pid = 0
        self._asked = None
        how = "was killed by signal %d" % (status & 127) if status & 127 else "ended with status %d" % (status >> 8)
        self._rest("the NVML child %s and is started again" % how)

    def _rest(self, trouble):
        """Says what is wrong, and tries again later."""
        self.trouble = trouble
        self._not_before = self._now() + RESTART_SECONDS[min(self._deaths, len(RESTART_SECONDS) - 1)]
        self._deaths += 1

    def hung_since(self):
        """When the unanswered pass began, once that is two periods ago; else None."""
        if self._asked is None or self._now() - self._asked <= STUCK_PERIODS * self._period:
            return None
        return self._asked

    def close(self):
        """Kills the child; one that is stuck in the driver dies when the driver lets it."""
        if self._socket is not None:
            self._socket.close()
        if self._pid:
            try:
                os.kill(self._pid, signal.SIGKILL)
                os.waitpid(self._pid, os.WNOHANG)
            except OSError:
                pass
