"""A node without Python: nvidia-smi over the same connection, one question at a time, never a pile of them."""

import time
from collections.abc import Callable

import asyncssh

from gputop.model.clock import Clock
from gputop.model.hosts import LinkState
from gputop.model.sample import Driver, GpuRow, Hello, KernelLines, Message, Sample
from gputop.sources.ssh.nvidia_smi import COLUMNS, lost_row, parse_rows, says_lost, supported_fields

ASK_TIMEOUT = 15.0
SHORTEST_PERIOD = 5.0
_FACTS = "cat /proc/sys/kernel/random/boot_id; hostname; uname -r; id -un"
_CLOCK = "cat /proc/uptime; cat /proc/loadavg; grep -c ^processor /proc/cpuinfo"


class Fallback:
    """Produces the messages that a probe would, from nvidia-smi and files."""

    def __init__(
        self,
        connection: asyncssh.SSHClientConnection,
        period: float,
        clock: Clock,
        heard: Callable[[Message], None],
    ) -> None:
        self._connection = connection
        self._period = max(period, SHORTEST_PERIOD)
        self._clock = clock
        self._heard = heard
        self._known: dict[int, GpuRow] = {}
        self._driver = ""

    async def run(self) -> tuple[LinkState, str]:
        """Until the connection ends; answers with how."""
        try:
            facts = await self._ask(_FACTS)
            fields = supported_fields(await self._ask("nvidia-smi --help-query-gpu"))
            if not fields:
                return LinkState.NO_PROBE, "neither python3 nor nvidia-smi there"
            self._hello(facts)
            seq = 0
            while True:
                began = self._clock.now()
                seq += 1
                await self._sample(seq, fields)
                await self._clock.sleep(max(0.5, self._period - (self._clock.now() - began)))
        except (TimeoutError, asyncssh.ProcessError):
            return LinkState.TIMEOUT, f"nvidia-smi gave no answer within {ASK_TIMEOUT:.0f} s"
        except (asyncssh.Error, OSError) as error:
            return LinkState.WAITING, f"connection lost: {error}"

    async def _ask(self, command: str) -> str:
        done = await self._connection.run(command, check=False, timeout=ASK_TIMEOUT, stdin=asyncssh.DEVNULL)
        return str(done.stdout or "")

    def _hello(self, facts: str) -> None:
        boot_id, hostname, kernel, user, *_ = [*facts.splitlines(), "", "", "", ""]
        self._heard(
            Hello(
                version=1,
                hostname=hostname,
                user=user,
                kernel=kernel,
                boot_id=boot_id or None,
                gpu_columns=COLUMNS,
                port_columns=(),
                host_columns=("load", "cpus"),
                mode="nvidia-smi",
            )
        )
        self._heard(KernelLines(why="~not_read", detail="no python3 there to follow it"))

    async def _sample(self, seq: int, fields: tuple[str, ...]) -> None:
        query = f"nvidia-smi --query-gpu={','.join(fields)} --format=csv,noheader,nounits"
        output = await self._ask(query)
        rows, driver = parse_rows(fields, output)
        if not rows and says_lost(output):
            rows, driver = await self._one_by_one(query, fields)
        if driver and driver != self._driver:
            self._driver = driver
            self._heard(Driver(driver=driver))
        elif not rows:
            self._heard(Driver(driver="~error", detail=output.strip().split("\n")[0][:200]))
        self._known.update((row.index, row) for row in rows if row.uuid)
        clock = (await self._ask(_CLOCK)).split()
        mono = float(clock[0]) if clock else 0.0
        load = float(clock[2]) if len(clock) > 2 else None
        cpus = float(clock[-1]) if len(clock) > 3 and clock[-1].isdigit() else None
        self._heard(
            Sample(
                seq=seq,
                mono=mono,
                wall=time.time(),
                host=(load, cpus),
                gpus=rows or None,
                gpus_mono=mono if rows else None,
            )
        )

    async def _one_by_one(self, query: str, fields: tuple[str, ...]) -> tuple[tuple[GpuRow, ...], str]:
        """One lost GPU fails the whole question, so each is asked alone, until one is not there at all."""
        rows: list[GpuRow] = []
        driver = ""
        for index in range(32):
            output = await self._ask(f"{query} -i {index}")
            found, release = parse_rows(fields, output)
            driver = release or driver
            if found:
                rows.extend(found)
            elif says_lost(output):
                rows.append(lost_row(index, self._known.get(index)))
            else:
                break
        return tuple(rows), driver
