"""Slurm by its own commands, here or through a login node: the default adapter."""

import os.path

from gputop.model.calls import Abilities, Answer, AnswerKind, Call, Site
from gputop.model.clock import Clock
from gputop.model.errors import SourceDown, SourceError
from gputop.model.jobs import Job, JobLayout
from gputop.model.nodes import Node
from gputop.model.reading import Unknown
from gputop.sources.commands import CommandRunner, Completed
from gputop.sources.slurm import jobs as job_rows
from gputop.sources.slurm import nodes as node_rows
from gputop.sources.slurm.abilities import judge
from gputop.sources.slurm.answers import answer, nobody_home, said
from gputop.sources.slurm.calls import argv
from gputop.sources.slurm.fields import format_argument, new_suffix
from gputop.sources.slurm.layout import parse_layout
from gputop.sources.slurm.site import parse_partitions, parse_reservations, parse_switches

TIMEOUT = 15.0
"""Longer than Slurm's MessageTimeout of 10 s, so that Slurm's own words arrive."""
PING_TIMEOUT = 5.0
TASKS_PER_READ = 500


class SlurmCommands:
    """Implements model.calls.Scheduler. Reading is done as this account, actions behind the configured prefix."""

    def __init__(self, runner: CommandRunner, *, prefix: tuple[str, ...], clock: Clock) -> None:
        self._runner = runner
        self._prefix = prefix
        self._clock = clock
        self._excludes: bool | None = None
        self._doubted = False

    async def nodes(self) -> tuple[Node, ...]:
        suffix = new_suffix()
        done = await self._read("sinfo", "-h", "-a", "-N", "-O", format_argument(node_rows.FIELDS, suffix))
        return node_rows.parse_nodes(done.stdout, suffix)

    async def jobs(self) -> tuple[Job, ...]:
        return await self._squeue("-t", "all")

    async def tasks(self, jobs: tuple[str, ...]) -> tuple[Job, ...]:
        found: list[Job] = []
        for at in range(0, len(jobs), TASKS_PER_READ):
            listed = ",".join(jobs[at : at + TASKS_PER_READ])
            try:
                found.extend(await self._squeue("-r", "-t", "all", "-j", listed))
            except SourceError as error:
                if "Invalid job id" not in error.detail:
                    raise
        wanted = set(jobs)
        return tuple([await self._with_excluded(job) for job in found if job.id in wanted or job.raw_id in wanted])

    async def _squeue(self, *selection: str) -> tuple[Job, ...]:
        suffix = new_suffix()
        done = await self._read("squeue", "-h", "-a", *selection, "-O", format_argument(job_rows.FIELDS, suffix))
        excludes = b"ExcNodes" not in done.stderr and b"Invalid job format" not in done.stderr
        return job_rows.parse_jobs(done.stdout, suffix, excludes=excludes)

    async def _with_excluded(self, job: Job) -> Job:
        """The exclude list, which 22.05 shows in `scontrol show job` only."""
        import msgspec

        if not isinstance(job.excluded, Unknown):
            return job
        done = await self._read("scontrol", "show", "job", job.id, "-o")
        return msgspec.structs.replace(job, excluded=job_rows.parse_excluded(done.stdout))

    async def layout(self, job: str) -> JobLayout | None:
        done = await self._read("scontrol", "show", "job", job, "-d", "-o")
        return parse_layout(job, done.stdout)

    async def boot_times(self) -> dict[str, float]:
        return node_rows.parse_boot_times((await self._read("scontrol", "show", "node", "-o")).stdout)

    async def site(self) -> Site:
        partitions = await self._read("scontrol", "show", "partition", "-o")
        reservations = await self._read("scontrol", "show", "reservation", "-o")
        topology = await self._runner.run(("scontrol", "show", "topology"), timeout=TIMEOUT)
        return Site(
            partitions=parse_partitions(partitions.stdout),
            reservations=parse_reservations(reservations.stdout),
            switches=parse_switches(topology.stdout),
        )

    async def abilities(self) -> Abilities:
        who = await self._runner.run(("id", "-un"), timeout=PING_TIMEOUT)
        account = who.stdout.decode("utf-8", "replace").strip()
        config = (await self._read("scontrol", "show", "config")).stdout.decode("utf-8", "replace")
        return judge(account, config, await self._admin_level(account, config), await self._sudo())

    async def _admin_level(self, account: str, config: str) -> str | None:
        if "slurmdbd" not in config:
            return None
        done = await self._runner.run(
            ("sacctmgr", "-n", "-P", "show", "user", account, "format=AdminLevel"), timeout=TIMEOUT
        )
        return done.stdout.decode("utf-8", "replace").strip() or "none" if done.status == 0 else None

    async def _sudo(self) -> bool | None:
        """Whether the prefix lets scontrol through; asked of sudo itself, without running anything."""
        if not self._prefix or os.path.basename(self._prefix[0]) != "sudo":
            return None
        try:
            done = await self._runner.run((*self._prefix, "-l", "scontrol"), timeout=PING_TIMEOUT)
        except SourceError:
            return False
        return done.status == 0

    async def call(self, call: Call) -> Answer:
        try:
            return answer(await self._runner.run((*self._prefix, *argv(call)), timeout=TIMEOUT))
        except SourceDown as error:
            return Answer(AnswerKind.UNKNOWN, error.detail)
        except SourceError as error:
            return Answer(AnswerKind.REFUSED, error.detail)

    def argv(self, call: Call) -> tuple[str, ...]:
        return (*self._prefix, *argv(call))

    async def _read(self, *command: str) -> Completed:
        """A reading command that went well; after a failure the controller is pinged first, which costs 10 ms."""
        if self._doubted:
            ping = await self._runner.run(("scontrol", "ping"), timeout=PING_TIMEOUT)
            if ping.status != 0:
                raise SourceDown("slurmctld", "does not answer a ping")
        try:
            done = await self._runner.run(command, timeout=TIMEOUT)
        except SourceDown:
            self._doubted = True
            raise
        words = said(done)
        if nobody_home(words):
            self._doubted = True
            raise SourceDown("slurmctld", words)
        self._doubted = False
        if done.status != 0:
            raise SourceError(command[0], words or f"exit status {done.status}")
        return done
