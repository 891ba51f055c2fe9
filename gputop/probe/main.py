"""The probe's loop: one sample a period, kernel lines as they come, gone when its standard input ends."""

import os
import select
import signal
import sys
import time

from . import host_facts, infiniband, wire
from .kernel_log import KernelLog
from .nvml_link import NvmlLink

GRACE = 0.4
"""Share of the period, at most two seconds, in which a sample waits for its NVML pass."""
PORTS_EVERY = 2
"""Samples between two reads of the InfiniBand counters."""


class Leave(Exception):
    """The other end is gone."""


class Probe:
    """Everything that one session of a probe holds."""

    def __init__(self, options):
        self._nonce = options["nonce"]
        self._period = float(options["period"])
        self._nvml = NvmlLink(options["cluster"], options["node"], self._period)
        self._kernel = KernelLog(options.get("kernel_prefix", ()))
        self._host = host_facts.HostFacts()
        self._driver = None
        self._pass = None
        self._fresh = False
        self._seq = 0

    def run(self, options):
        """Until standard input ends."""
        self.send(host_facts.hello(options))
        self._kernel.begin()
        due = time.monotonic()
        while True:
            self._nvml.ask()
            grace = due + min(2.0, self._period * GRACE)
            while not self._fresh and time.monotonic() < grace:
                self._wait(grace)
            self._sample()
            due += self._period
            if due < time.monotonic():
                due = time.monotonic() + self._period
            while time.monotonic() < due:
                self._wait(due)

    def _wait(self, until):
        """Sleeps until then, or until something arrives, and takes it."""
        sources = [0] + [fd for fd in (self._nvml.fileno(), self._kernel.fileno()) if fd is not None]
        ready, _, _ = select.select(sources, [], [], max(0.0, until - time.monotonic()))
        if 0 in ready and not more_input():
            raise Leave
        if self._nvml.fileno() in ready:
            found = self._nvml.take()
            if found is not None:
                self._pass, self._fresh = found, True
        if self._kernel.fileno() in ready:
            self._kernel.pump()
            if len(ready) == 1:
                time.sleep(0.05)

    def _sample(self):
        self._seq += 1
        found = self._pass if self._fresh else None
        self._fresh = False
        self._say_driver(found)
        last = self._pass or {}
        message = {
            "type": "sample",
            "seq": self._seq,
            "host": self._host.cells(last.get("nvml_ms"), last.get("nvml_calls"), last.get("cpu_ms") or 0.0),
            "ports": None,
            "gpus": None,
            "gpus_mono": None,
            "hung_since": self._nvml.hung_since(),
            "processes": None,
        }
        if self._seq % PORTS_EVERY == 1 or PORTS_EVERY == 1:
            rows = infiniband.ports()
            message["ports"] = [] if isinstance(rows, str) else rows
        if found is not None and found["gpus"] is not None:
            message.update(gpus=found["gpus"], gpus_mono=found["mono"], processes=found["processes"])
        message["mono"], message["wall"] = time.monotonic(), time.time()
        self.send(message)
        lines = self._kernel.message()
        if lines is not None:
            self.send(lines)

    def _say_driver(self, found):
        """The driver's facts when they are new, or the child's trouble."""
        driver = None if found is None else found["driver"]
        if self._nvml.trouble:
            driver = {"type": "driver", "driver": "~error", "cuda": None, "nvml": None, "detail": self._nvml.trouble}
        if driver is not None and driver != self._driver:
            self._driver = driver
            self.send(driver)

    def send(self, message):
        try:
            wire.write_all(1, wire.encode(message, self._nonce))
        except OSError:
            raise Leave from None

    def close(self):
        self._nvml.close()
        self._kernel.close()


def more_input():
    """Whether standard input goes on; what comes is of no interest."""
    try:
        return bool(os.read(0, 4096))
    except OSError:
        return False


def main(options):
    """Runs until the other end is gone; leaves nothing behind."""
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    probe = Probe(options)
    try:
        probe.run(options)
    except Leave:
        pass
    finally:
        probe.close()
    sys.stdout = None
    os._exit(0)
