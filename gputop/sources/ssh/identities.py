"""Which keys are offered to a host; each file is read once, however many hosts it opens."""

import copy
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import asyncssh


class Identities:
    """Keys that were read, by the files they came from."""

    def __init__(self) -> None:
        self._read: dict[tuple[tuple[str, int], ...], Sequence[asyncssh.SSHKeyPair]] = {}

    def of(self, options: asyncssh.SSHClientConnectionOptions) -> dict[str, Any]:
        """Arguments for a connection. A key file that is configured and not there is passed over, as ssh does."""
        configured = options.config.get("IdentityFile", None)
        if configured is None:
            return {"client_keys": ()}
        paths = [Path(name).expanduser() for name in names(configured)]
        private = [str(path) for path in paths if path.suffix != ".pub" and os.access(path, os.R_OK)]
        more: dict[str, Any] = {"client_keys": self._keys(private) or private, "ignore_encrypted": True}
        if options.config.get("IdentitiesOnly"):
            public = [path if path.suffix == ".pub" else path.with_name(path.name + ".pub") for path in paths]
            more["agent_identities"] = [str(path) for path in public if os.access(path, os.R_OK)]
        return more

    def _keys(self, paths: list[str]) -> list[asyncssh.SSHKeyPair]:
        """The keys in these files, certificates beside them included; encrypted ones are left out.

        A connection notes in them how it signs, so each gets copies of its own.
        """
        stamp = tuple((path, os.stat(path).st_mtime_ns) for path in paths)
        if stamp not in self._read:
            self._read[stamp] = asyncssh.load_keypairs(paths, ignore_encrypted=True) if paths else ()
        return [copy.copy(pair) for pair in self._read[stamp]]

    def any(self, options: asyncssh.SSHClientConnectionOptions) -> bool:
        """Whether there was any key to offer."""
        tried = asyncssh.SSHClientConnectionOptions(options=options, config=None, **self.of(options))
        return bool(tried.client_keys) or bool(tried.agent_path)


def names(value: object) -> tuple[str, ...]:
    """The words of an option that takes several."""
    return tuple(str(name) for name in value) if isinstance(value, list | tuple) else ()
