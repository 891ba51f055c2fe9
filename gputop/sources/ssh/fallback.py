"""A node without Python: nvidia-smi over the same connection, one question at a time, never a pile of them."""

import asyncio
from collections.abc import Callable

import asyncssh

from gputop.model.clock import Clock
from gputop.model.hosts import LinkState
from gputop.model.sample import Driver, GpuRow, Hello, KernelLines, Message, Sample
from gputop.sources.ssh.nvidia_smi import (
    COLUMNS,
    Beat,
    lost_row,
    parse_rows,
    read_beat,
    says_lost,
    split_answer,
    supported_fields,
)
from gputop.sources.ssh.session import new_nonce

START_TIMEOUT = 15.0
SHORTEST_PERIOD = 5.0
MOST_GPUS = 32
HUNG_PERIODS = 2
_FACTS = "uname -n; uname -r; id -un; cat /proc/sys/kernel/random/boot_id"
_BEAT = (
    "cat /proc/uptime; cat /proc/loadavg; grep -c ^processor /proc/cpuinfo; date +%s.%N; "
    'grep -l "(nvidia-smi) D" /proc/[0-9]*/stat 2>/dev/null'
)
_SMI = 'command -v timeout >/dev/null && t="timeout -s KILL 15"; $t nvidia-smi {arguments}; echo; cat /proc/uptime'
"""The node itself ends one that hangs where it can be ended; one in the driver (state D) keeps others from starting."""


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
        self._running: asyncio.Task[str] | None = None
        self._asked = ""
        self._stuck = 0
        self._unanswered: float | None = None

    async def run(self) -> tuple[LinkState, str]:
        """Until the connection ends; answers with how."""
        try:
            facts = await self._ask(_FACTS, START_TIMEOUT)
            fields = supported_fields(await self._ask(_SMI.format(arguments="--help-query-gpu"), START_TIMEOUT))
            if not fields:
                return LinkState.NO_PROBE, "neither python3 nor nvidia-smi there"
            self._hello(facts)
            beat = await self._beat()
            seq = 0
            while True:
                began = self._clock.now()
                seq += 1
                beat = await self._sample(seq, fields, beat)
                await self._clock.sleep(max(0.5, self._period - (self._clock.now() - began)))
        except (TimeoutError, asyncssh.ProcessError):
            return LinkState.TIMEOUT, "went silent: a command was not answered"
        except (asyncssh.Error, OSError) as error:
            return LinkState.WAITING, f"connection lost: {error}"
        finally:
            if self._running is not None:
                self._running.cancel()

    async def _ask(self, command: str, limit: float | None = None) -> str:
        """What a command prints, without a login shell's noise before it; the command holds no single quote."""
        mark = new_nonce()
        done = await self._connection.run(
            f"sh -c 'exec 2>&1; echo; echo {mark}; {command}'",
            check=False,
            timeout=limit,
            stdin=asyncssh.DEVNULL,
            encoding=None,
        )
        output = done.stdout if isinstance(done.stdout, bytes) else b""
        return output.decode("utf-8", "replace").partition(f"{mark}\n")[2]

    async def _beat(self) -> Beat:
        return read_beat(await self._ask(_BEAT, self._period))

    async def _smi(self, arguments: str) -> tuple[str, float | None] | None:
        """(answer, when by the node's clock); None while one hangs: then no second one is started."""
        if self._running is None:
            if self._stuck > 1:
                return None
            self._asked = arguments
            self._running = asyncio.get_running_loop().create_task(self._ask(_SMI.format(arguments=arguments)))
        await asyncio.wait({self._running}, timeout=self._period - 0.5)
        if not self._running.done():
            return None
        task, self._running = self._running, None
        answer = task.result()
        return split_answer(answer) if self._asked == arguments else None

    def _hello(self, facts: str) -> None:
        hostname, kernel, user, boot_id, *_ = [*facts.splitlines(), "", "", "", ""]
        self._heard(
            Hello(
                version=1,
                hostname=hostname,
                user=user,
                kernel=kernel,
                boot_id=boot_id if len(boot_id) == 36 else None,
                gpu_columns=COLUMNS,
                port_columns=(),
                host_columns=("load", "cpus"),
                mode="nvidia-smi",
            )
        )
        self._heard(KernelLines(why="~not_read", detail="no python3 there to follow it"))

    async def _sample(self, seq: int, fields: tuple[str, ...], before: Beat) -> Beat:
        rows, read_at = await self._gpus(fields)
        beat = await self._beat()
        self._stuck = self._stuck + 1 if beat.stuck else 0
        if read_at is not None:
            self._unanswered = None
        elif self._unanswered is None:
            self._unanswered = before.mono
        hung = None
        if self._unanswered is not None and beat.mono is not None:
            hung = self._unanswered if beat.mono - self._unanswered > HUNG_PERIODS * self._period else None
        if beat.mono is not None and beat.wall is not None:
            self._heard(
                Sample(
                    seq=seq,
                    mono=beat.mono,
                    wall=beat.wall,
                    host=(beat.load, beat.cpus),
                    gpus=rows or None,
                    gpus_mono=read_at if rows else None,
                    hung_since=hung,
                )
            )
        return beat

    async def _gpus(self, fields: tuple[str, ...]) -> tuple[tuple[GpuRow, ...], float | None]:
        """(rows, when by the node's clock); no time: nvidia-smi gave no answer."""
        query = f"--query-gpu={','.join(fields)} --format=csv,noheader,nounits"
        answer = await self._smi(query)
        if answer is None or not answer[0]:
            return (), None
        output, read_at = answer
        rows, driver = parse_rows(fields, output)
        if says_lost(output):
            rows, driver = await self._one_by_one(query, fields)
        if driver and driver != self._driver:
            self._driver = driver
            self._heard(Driver(driver=driver))
        elif not rows:
            self._driver = ""
            self._heard(Driver(driver="~error", detail=output.split("\n")[0][:200]))
        self._known.update((row.index, row) for row in rows if row.uuid)
        return rows, read_at

    async def _one_by_one(self, query: str, fields: tuple[str, ...]) -> tuple[tuple[GpuRow, ...], str]:
        """One lost GPU fails the whole question, so each is asked alone, until one is not there at all."""
        rows: list[GpuRow] = []
        driver = ""
        for index in range(MOST_GPUS):
            answer = await self._smi(f"{query} -i {index}")
            if answer is None:
                return (), driver
            found, release = parse_rows(fields, answer[0])
            driver = release or driver
            if found:
                rows.extend(found)
            elif says_lost(answer[0]):
                rows.append(lost_row(index, self._known.get(index)))
            else:
                break
        return tuple(rows), driver
