"""Connecting to a host: OpenSSH's configuration, checked host keys, and one shared connection for each bastion."""

import asyncio
import contextlib
import os
from pathlib import Path
from typing import Any

import asyncssh
from asyncssh.known_hosts import SSHKnownHosts

from gputop.model.clock import Clock
from gputop.sources.ssh.config_files import ConfigFiles
from gputop.sources.ssh.identities import Identities, names
from gputop.sources.ssh.jumps import Hop, chain, read_hop
from gputop.sources.ssh.settings import SshSettings

USER_KNOWN_HOSTS = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2")
GLOBAL_KNOWN_HOSTS = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
CIPHERS = (
    "aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "chacha20-poly1305@openssh.com", "aes128-ctr", "aes256-ctr",
)  # fmt: skip


class Banner(asyncssh.SSHClient):
    """Keeps what a server says before it lets us in or hangs up."""

    def __init__(self) -> None:
        self.text = ""

    def auth_banner_received(self, msg: str, lang: str) -> None:
        self.text += msg[:1000]


class Refused(Exception):
    """A connection that failed, with what is needed to say why."""

    def __init__(
        self, cause: Exception, banner: str, *, has_keys: bool = True, other_key: bool = False, jump: str = ""
    ) -> None:
        """other_key: known_hosts has a key for that host, and this is not it; jump: the jump host where it happened."""
        super().__init__(str(cause))
        self.cause = cause
        self.banner = banner
        self.has_keys = has_keys
        self.other_key = other_key
        self.jump = jump


class Bastion:
    """One jump host for everyone behind it: its connection, or the try under way, and when the next may begin."""

    def __init__(self) -> None:
        self.task: asyncio.Task[asyncssh.SSHClientConnection] | None = None
        self.failures = 0
        self.not_before = 0.0

    @property
    def usable(self) -> bool:
        """Whether it is connected, or about to be."""
        task = self.task
        if task is None or not task.done():
            return task is not None
        return not task.cancelled() and task.exception() is None and not task.result().is_closed()


class Connector:
    """Makes connections; holds the bastions and the parsed known_hosts."""

    def __init__(self, settings: SshSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._files = ConfigFiles(settings.config)
        self._identities = Identities()
        self._bastions: dict[tuple[str, ...], Bastion] = {}
        self._known: dict[tuple[tuple[str, float], ...], SSHKnownHosts] = {}

    async def connect(self, host: str) -> asyncssh.SSHClientConnection:
        """A logged-in connection; raises Refused."""
        try:
            options = self._options(host)
            hops = chain(host, _jump(options), lambda name: _jump(self._options(name)))
        except (OSError, asyncssh.Error, ValueError) as error:
            raise Refused(error, "") from error
        through = await self._bastion(hops) if hops else None
        return await self._log_in(Hop(host), options, through)

    async def _log_in(
        self,
        hop: Hop,
        options: asyncssh.SSHClientConnectionOptions,
        through: asyncssh.SSHClientConnection | None,
    ) -> asyncssh.SSHClientConnection:
        banner = Banner()
        more: dict[str, Any] = {}
        try:
            more = {
                **self._identities.of(options),
                "tunnel": through,
                "known_hosts": self._known_hosts(options),
                "client_factory": lambda: banner,
                **({"username": hop.user} if hop.user else {}),
            }
            if options.canonicalize_hostname or options.config.has_match_final():
                # Such a configuration is read twice: the second time with the full name.
                more = {**self._fixed(), "config": self._files.whole(), **more}
            else:
                more = {"options": options, "config": None, **more}
            return await asyncssh.connect(hop.name, hop.port or (), **more)
        except asyncssh.ChannelOpenError as error:
            raise Refused(ConnectionError(f"the jump host cannot reach it: {error}"), banner.text) from error
        except asyncssh.PermissionDenied as error:
            raise Refused(error, banner.text, has_keys=self._identities.any(options)) from error
        except (asyncssh.HostKeyNotVerifiable, asyncssh.KeyExchangeFailed) as error:
            raise Refused(error, banner.text, other_key=self._knows(options, hop)) from error
        except (OSError, asyncssh.Error, ValueError) as error:
            raise Refused(error, banner.text) from error

    def _options(self, host: str) -> asyncssh.SSHClientConnectionOptions:
        """What the configuration says about a host; no key is read yet."""
        try:
            with self._files.of(host) as files:
                return self._read(host, files)
        except asyncssh.ConfigParseError:
            return self._read(host, self._files.whole())

    def _read(self, host: str, files: list[str]) -> asyncssh.SSHClientConnectionOptions:
        """Raises ConfigParseError, which names one of the files."""
        return asyncssh.SSHClientConnectionOptions(host=host, config=files, **self._fixed())

    def _fixed(self) -> dict[str, Any]:
        """What no configuration changes."""
        settings = self._settings
        return {
            "client_keys": None,
            "known_hosts": b"",
            "connect_timeout": settings.connect_timeout,
            "keepalive_interval": settings.keepalive,
            "keepalive_count_max": 2,
            "compression_algs": None,
            "encryption_algs": CIPHERS,
            "password": None,
            "agent_forwarding": False,
            "x11_forwarding": False,
            "request_pty": False,
            "x509_trusted_certs": None,
            **({"username": settings.user} if settings.user else {}),
        }

    def _known_hosts(self, options: asyncssh.SSHClientConnectionOptions) -> SSHKnownHosts:
        """Never None, which would mean that any key is good."""
        config = options.config
        user = config.get("UserKnownHostsFile", list(USER_KNOWN_HOSTS))
        system = config.get("GlobalKnownHostsFile", list(GLOBAL_KNOWN_HOSTS))
        files = []
        for name in (*names(user), *names(system)):
            path = Path(name).expanduser()
            if path.is_file() and os.access(path, os.R_OK):
                files.append((str(path), path.stat().st_mtime))
        key = tuple(files)
        if key not in self._known:
            text = "\n".join(Path(name).read_text(encoding="utf-8", errors="replace") for name, _ in files)
            self._known[key] = _import(text)
        return self._known[key]

    def _knows(self, options: asyncssh.SSHClientConnectionOptions, hop: Hop) -> bool:
        """Whether known_hosts has any key for a host."""
        port = hop.port or options.port
        name = options.host_key_alias or options.host
        keys, authorities, *_ = self._known_hosts(options).match(name, "", port if port != 22 else None)
        return bool(keys or authorities)

    async def _bastion(self, hops: tuple[str, ...]) -> asyncssh.SSHClientConnection:
        """The one connection to the end of a chain of jump hosts, for everyone who needs it; tried once for all."""
        bastion = self._bastions.setdefault(hops, Bastion())
        if bastion.task is None or (not bastion.usable and self._clock.now() >= bastion.not_before):
            bastion.task = asyncio.get_running_loop().create_task(self._reach(hops, bastion))
        return await asyncio.shield(bastion.task)

    async def _reach(self, hops: tuple[str, ...], bastion: Bastion) -> asyncssh.SSHClientConnection:
        try:
            hop = read_hop(hops[-1])
            through = await self._bastion(hops[:-1]) if hops[:-1] else None
            connection = await self._log_in(hop, self._options(hop.name), through)
        except Refused as refused:
            refused.jump = refused.jump or hops[-1]
            self._wait(bastion)
            raise
        except (OSError, asyncssh.Error, ValueError) as error:
            self._wait(bastion)
            raise Refused(error, "", jump=hops[-1]) from error
        bastion.failures, bastion.not_before = 0, 0.0
        return connection

    def _wait(self, bastion: Bastion) -> None:
        bastion.failures += 1
        bastion.not_before = self._clock.now() + min(60.0, 2.0**bastion.failures)

    async def close(self) -> None:
        """Ends the bastions."""
        tasks = [bastion.task for bastion in self._bastions.values() if bastion.task is not None]
        for task in tasks:
            if task.done() and not task.cancelled() and not task.exception():
                task.result().abort()
            else:
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._bastions.clear()


def _jump(options: asyncssh.SSHClientConnectionOptions) -> str:
    """What ProxyJump says, or ""."""
    return options.tunnel if isinstance(options.tunnel, str) and options.tunnel != "none" else ""


def _import(text: str) -> SSHKnownHosts:
    """Like ssh, a line that cannot be read hides no other."""
    known = asyncssh.import_known_hosts("")
    for line in text.splitlines():
        with contextlib.suppress(ValueError):
            known.load(line)
    return known
