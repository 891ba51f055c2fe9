"""All hosts at once: one supervised task each, bounded handshakes, one watch over the silent ones."""

import asyncio
import resource
from collections.abc import Callable, Collection, Mapping

from gputop.model.clock import Clock
from gputop.model.facts import Fact
from gputop.sources.ssh.connect import Connector
from gputop.sources.ssh.host import HostTask
from gputop.sources.ssh.settings import SshSettings
from gputop.sources.ssh.slots import Slots

WATCH_SECONDS = 0.5


class Fleet:
    """Follows a set of nodes; what it learns goes to deliver."""

    def __init__(self, settings: SshSettings, clock: Clock, deliver: Callable[[Fact], None]) -> None:
        self._settings = settings
        self._clock = clock
        self._deliver = deliver
        self._connector = Connector(settings, clock)
        self._slots = Slots(settings.concurrency)
        self._hosts: dict[str, tuple[HostTask, asyncio.Task[None]]] = {}
        self._watch: asyncio.Task[None] | None = None

    def follow(self, hosts: Mapping[str, str]) -> None:
        """Follows exactly these nodes (node -> SSH host name); sessions of the others are ended."""
        loop = asyncio.get_running_loop()
        if self._watch is None:
            self._watch = loop.create_task(self._watching())
        for node in [node for node, (one, _) in self._hosts.items() if hosts.get(node) != one.host]:
            self._hosts.pop(node)[1].cancel()
        for node, host in hosts.items():
            if node not in self._hosts:
                one = HostTask(
                    node,
                    host,
                    settings=self._settings,
                    connector=self._connector,
                    slots=self._slots,
                    clock=self._clock,
                    deliver=self._deliver,
                )
                self._hosts[node] = (one, loop.create_task(one.run()))

    async def _watching(self) -> None:
        before, late = self._clock.now(), False
        while True:
            await self._clock.sleep(WATCH_SECONDS)
            now = self._clock.now()
            # After a pause of our own (a suspended laptop, a long fold) what has arrived is heard before anybody is
            # called silent.
            late = now - before > 3 * WATCH_SECONDS and not late
            before = now
            if late:
                continue
            for one, _ in self._hosts.values():
                one.watch(now)

    async def close(self) -> None:
        """Ends every session; the probes leave when their input ends."""
        tasks = [task for _, task in self._hosts.values()]
        if self._watch is not None:
            tasks.append(self._watch)
        await end(tasks)
        self._hosts.clear()
        await self._connector.close()


async def end(tasks: Collection[asyncio.Task[None]]) -> None:
    """Cancels tasks until they are done: a time-out that ends in the same moment can swallow a cancellation."""
    pending = {task for task in tasks if not task.done()}
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=0.5)
    await asyncio.gather(*tasks, return_exceptions=True)


def raise_file_limit() -> int:
    """Lifts the soft limit of open files to the hard one; answers with what is allowed now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(hard, 1_048_576) if hard != resource.RLIM_INFINITY else 1_048_576
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted
