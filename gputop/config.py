"""The configuration file: one schema, found in the XDG folders; errors name file, key and what was expected."""

import hashlib
import os
import re
import tomllib
from pathlib import Path
from typing import Annotated, Any

import msgspec
import platformdirs
from msgspec import Meta, Struct, field

from gputop.model.errors import ConfigError

FILE_NAME = "config.toml"
_CLUSTER_NAME = re.compile(r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$")
_SLURM_CONF_CLUSTER = re.compile(r"^\s*ClusterName\s*=\s*(\S+)", re.IGNORECASE | re.MULTILINE)

Seconds = Annotated[float, Meta(ge=1, le=3600)]


class Cluster(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One cluster, under [clusters.NAME]."""

    login: str = ""
    """SSH name of a login node on which Slurm's commands run; "" runs them here."""
    slurm_conf: str = ""
    """SLURM_CONF for commands that run here; "" leaves Slurm's own default or the environment's."""
    slurm_prefix: tuple[str, ...] = ()
    """Put before every Slurm command that changes something, such as ["sudo", "-n"]."""
    node_prefix: tuple[str, ...] = ()
    """Put before commands on nodes that need more rights, such as reading the kernel log."""
    ssh_config: tuple[str, ...] = ()
    """OpenSSH client configuration files; empty means ~/.ssh/config and /etc/ssh/ssh_config."""
    host: str = "{node}"
    """SSH name of a node, with {node} for Slurm's name."""
    user: str = ""
    """SSH user; "" leaves it to the SSH configuration."""
    connections: Annotated[int, Meta(ge=1, le=1024)] = 64
    """SSH handshakes at the same time."""
    period: Seconds = 5.0
    """Seconds between samples of a node."""
    slurm_period: Seconds = 10.0
    """Seconds between reads of Slurm's nodes and jobs."""
    site_period: Seconds = 300.0
    """Seconds between reads of partitions, reservations and topology."""
    state_dir: str = ""
    """Where ledger, lock and session logs live, on a local disk; "" is a folder under the XDG state folder."""
    socket_group: str = ""
    """Group whose members may attach to the engine; "" lets only its own account in."""
    read_only: bool = False
    """Refuse every action."""


class Recorder(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The flight recorder, under [recorder]."""

    enabled: bool = True
    keep_bytes: Annotated[int, Meta(ge=1_000_000)] = 4_000_000_000
    """Session logs of a cluster together; the oldest goes first."""
    file_bytes: Annotated[int, Meta(ge=100_000)] = 500_000_000
    """Size at which a new file is begun."""


class Screen(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The screen, under [screen]."""

    theme: str = ""
    """Name of a theme; "" picks one for the terminal."""


Rules = dict[str, dict[str, float | bool]]


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file."""

    default: str = ""
    """Which of the clusters is meant when none is named."""
    clusters: dict[str, Cluster] = field(default_factory=dict)
    recorder: Recorder = Recorder()
    screen: Screen = Screen()
    rules: Rules = field(default_factory=dict)
    """[rules.GPU006]: off = true, or a threshold of that rule, as `gputop explain GPU006` names them."""


class Chosen(Struct, frozen=True, kw_only=True):
    """One cluster, ready to be used."""

    name: str
    key: str
    """Names its folder and socket: the cluster's name and what tells it from others of that name."""
    cluster: Cluster
    recorder: Recorder
    screen: Screen
    rules: Rules

    @property
    def state_dir(self) -> Path:
        """Folder of ledger, lock and session logs."""
        if self.cluster.state_dir:
            return Path(self.cluster.state_dir).expanduser() / self.key
        return Path(platformdirs.user_state_dir("gputop")) / self.key

    @property
    def socket_path(self) -> Path:
        """The engine's socket; short, since the kernel allows about 100 bytes."""
        if self.cluster.state_dir:
            return self.state_dir / "engine.sock"
        runtime = os.environ.get("XDG_RUNTIME_DIR", "")
        if runtime and os.access(runtime, os.W_OK):
            return Path(runtime) / "gputop" / f"{self.key}.sock"
        return self.state_dir / "engine.sock"


def find_config(explicit: str | None) -> Path | None:
    """The file to read: the one named, else the user's, else the site's; None where there is none."""
    if explicit is not None:
        return Path(explicit)
    for folder in (platformdirs.user_config_path("gputop"), platformdirs.site_config_path("gputop")):
        if (path := folder / FILE_NAME).is_file():
            return path
    return None


def load_config(path: Path | None) -> Config:
    """Reads and checks a file; None gives the defaults."""
    if path is None:
        return Config()
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
    try:
        raw: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from error
    try:
        config = msgspec.convert(raw, Config)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {_readable(str(error))}") from error
    for name, cluster in config.clusters.items():
        if not _CLUSTER_NAME.match(name):
            raise ConfigError(
                f"{path}: clusters.{name}: expected a name of letters, digits, dot, dash, underscore; at most 64"
            )
        if "{node}" not in cluster.host:
            raise ConfigError(f"{path}: clusters.{name}.host: expected a pattern with {{node}}, got {cluster.host!r}")
    if config.default and config.default not in config.clusters:
        raise ConfigError(
            f"{path}: default: {config.default!r} is not among the clusters: {', '.join(sorted(config.clusters))}"
        )
    return config


def _readable(error: str) -> str:
    """msgspec's "Expected `int`, got `str` - at `$.clusters[...].period`" with the key first."""
    what, _, where = error.partition(" - at ")
    key = where.strip("`").removeprefix("$").removeprefix(".")
    what = what[:1].lower() + what[1:]
    return f"{key}: {what}" if key else what


def choose_cluster(config: Config, name: str | None) -> Chosen:
    """The cluster that is meant; without any configuration, the one that Slurm's own file here names."""
    if name is None and config.default:
        name = config.default
    if name is None and len(config.clusters) == 1:
        name = next(iter(config.clusters))
    if name is None and config.clusters:
        raise ConfigError(
            f"several clusters are configured ({', '.join(sorted(config.clusters))}): name one with --cluster"
        )
    if name is None:
        name, cluster = _local_cluster_name(), Cluster()
    elif name in config.clusters:
        cluster = config.clusters[name]
    elif config.clusters:
        raise ConfigError(f"no cluster {name!r} in the configuration; there is: {', '.join(sorted(config.clusters))}")
    elif name == _local_cluster_name():
        cluster = Cluster()
    else:
        raise ConfigError(
            f"no cluster {name!r}: there is no configuration, and the Slurm here is {_local_cluster_name()!r}; "
            f"write [clusters.{name}] to {platformdirs.user_config_path('gputop') / FILE_NAME}"
        )
    where = f"ssh:{cluster.login}" if cluster.login else f"conf:{slurm_conf_path(cluster)}"
    key = f"{name}-{hashlib.sha256(where.encode()).hexdigest()[:8]}"
    return Chosen(
        name=name, key=key, cluster=cluster, recorder=config.recorder, screen=config.screen, rules=config.rules
    )


def slurm_conf_path(cluster: Cluster) -> str:
    """The slurm.conf that commands here would use."""
    return cluster.slurm_conf or os.environ.get("SLURM_CONF", "") or "/etc/slurm/slurm.conf"


def _local_cluster_name() -> str:
    try:
        text = Path(slurm_conf_path(Cluster())).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "local"
    found = _SLURM_CONF_CLUSTER.search(text)
    name = found.group(1).strip("\"'") if found else "local"
    return name if _CLUSTER_NAME.match(name) else "local"
