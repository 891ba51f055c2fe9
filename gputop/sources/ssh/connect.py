"""Connecting to a host: OpenSSH's configuration, checked host keys, and one shared connection for each bastion."""

import asyncio
import os
from pathlib import Path

import asyncssh
from asyncssh.known_hosts import SSHKnownHosts

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

    def __init__(self, cause: Exception, banner: str, *, has_keys: bool) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.banner = banner
        self.has_keys = has_keys


class Connector:
    """Makes connections; holds the bastions and the parsed known_hosts."""

    def __init__(self, settings: SshSettings) -> None:
        self._settings = settings
        self._bastions: dict[str, asyncio.Task[asyncssh.SSHClientConnection]] = {}
        self._known: dict[tuple[tuple[str, float], ...], SSHKnownHosts] = {}

    async def connect(self, host: str) -> asyncssh.SSHClientConnection:
        """A logged-in connection; raises Refused."""
        banner = Banner()
        has_keys = True
        try:
            options = self._options(host)
            has_keys = bool(options.client_keys) or bool(options.agent_path)
            tunnel = options.tunnel if isinstance(options.tunnel, str) else ""
            through = await self._bastion(tunnel) if tunnel and tunnel != "none" else None
            return await asyncssh.connect(
                host,
                options=options,
                tunnel=through,
                known_hosts=self._known_hosts(options),
                client_factory=lambda: banner,
            )
        except (OSError, asyncssh.Error, ValueError) as error:
            raise Refused(error, banner.text, has_keys=has_keys) from error

    def _options(self, host: str) -> asyncssh.SSHClientConnectionOptions:
        settings = self._settings
        more = {"username": settings.user} if settings.user else {}
        return asyncssh.SSHClientConnectionOptions(
            host=host,
            config=self._config_files(),
            known_hosts=b"",
            connect_timeout=settings.connect_timeout,
            login_timeout=settings.login_timeout,
            keepalive_interval=settings.keepalive,
            keepalive_count_max=2,
            compression_algs=None,
            encryption_algs=CIPHERS,
            password=None,
            agent_forwarding=False,
            x509_trusted_certs=None,
            **more,
        )

    def _config_files(self) -> list[str]:
        wanted = self._settings.config or ("~/.ssh/config", "/etc/ssh/ssh_config")
        paths = (Path(name).expanduser() for name in wanted)
        return [str(path) for path in paths if path.is_file() and os.access(path, os.R_OK)]

    def _known_hosts(self, options: asyncssh.SSHClientConnectionOptions) -> SSHKnownHosts:
        """Never None, which would mean that any key is good."""
        config = options.config
        user = config.get("UserKnownHostsFile", list(USER_KNOWN_HOSTS))
        system = config.get("GlobalKnownHostsFile", list(GLOBAL_KNOWN_HOSTS))
        files = []
        for name in (*_names(user), *_names(system)):
            path = Path(name).expanduser()
            if path.is_file() and os.access(path, os.R_OK):
                files.append((str(path), path.stat().st_mtime))
        key = tuple(files)
        if key not in self._known:
            text = "\n".join(Path(name).read_text(encoding="utf-8", errors="replace") for name, _ in files)
            self._known[key] = asyncssh.import_known_hosts(text)
        return self._known[key]

    async def _bastion(self, hops: str) -> asyncssh.SSHClientConnection:
        """The one connection to a chain of jump hosts, made once for everyone who needs it."""
        task = self._bastions.get(hops)
        if task is None or (task.done() and (task.cancelled() or task.exception() or task.result().is_closed())):
            task = asyncio.get_running_loop().create_task(self._hop(hops))
            self._bastions[hops] = task
        return await asyncio.shield(task)

    async def _hop(self, hops: str) -> asyncssh.SSHClientConnection:
        *before, last = hops.split(",")
        through = await self._bastion(",".join(before)) if before else None
        user, _, address = last.rpartition("@")
        name, _, port = address.partition(":")
        more = {"username": user} if user else {}
        options = asyncssh.SSHClientConnectionOptions(options=self._options(name), **more)
        return await asyncssh.connect(
            name,
            int(port) if port.isdigit() else (),
            options=options,
            tunnel=through,
            known_hosts=self._known_hosts(options),
        )

    async def close(self) -> None:
        """Ends the bastions."""
        for task in self._bastions.values():
            if task.done() and not task.cancelled() and not task.exception():
                task.result().abort()
            else:
                task.cancel()
        await asyncio.gather(*self._bastions.values(), return_exceptions=True)
        self._bastions.clear()


def _names(value: object) -> tuple[str, ...]:
    return tuple(str(name) for name in value) if isinstance(value, list | tuple) else ()
