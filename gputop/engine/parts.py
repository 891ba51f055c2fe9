"""The real parts of an engine, built from the configuration: Slurm's adapter and the SSH fleet."""

from collections.abc import Callable

from gputop.config import Cluster, slurm_conf_path
from gputop.model.calls import Scheduler
from gputop.model.clock import Clock
from gputop.model.facts import Fact
from gputop.sources.commands import CommandRunner
from gputop.sources.local import LocalCommands
from gputop.sources.slurm.commands import SlurmCommands
from gputop.sources.ssh.fleet import Fleet
from gputop.sources.ssh.login import LoginNode
from gputop.sources.ssh.settings import SshSettings


class Parts:
    """What an engine is made of; closed as a whole."""

    def __init__(self, name: str, cluster: Cluster, clock: Clock) -> None:
        self._clock = clock
        self._settings = ssh_settings(name, cluster)
        self._fleet: Fleet | None = None
        self.login = LoginNode(self._settings, cluster.login, clock) if cluster.login else None
        self.runner: CommandRunner = self.login or LocalCommands(
            {"SLURM_CONF": slurm_conf_path(cluster)} if cluster.slurm_conf else {}
        )
        self.scheduler: Scheduler = SlurmCommands(self.runner, prefix=cluster.slurm_prefix, clock=clock)

    @property
    def adapter(self) -> str:
        """How Slurm is asked, for the header."""
        return f"commands, {self.runner.where}"

    def fleet(self, deliver: Callable[[Fact], None]) -> Fleet:
        """The one fleet, made when the first nodes are known."""
        if self._fleet is None:
            self._fleet = Fleet(self._settings, self._clock, deliver)
        return self._fleet

    async def close(self) -> None:
        """Ends every session."""
        if self._fleet is not None:
            await self._fleet.close()
        if self.login is not None:
            await self.login.close()


def ssh_settings(name: str, cluster: Cluster) -> SshSettings:
    """The SSH source's part of the configuration."""
    return SshSettings(
        cluster=name,
        config=cluster.ssh_config,
        user=cluster.user,
        concurrency=cluster.connections,
        period=cluster.period,
        kernel_prefix=cluster.node_prefix,
    )
