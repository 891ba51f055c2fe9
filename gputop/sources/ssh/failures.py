"""What went wrong with a host as a short state and words; pure."""

import re
import socket

import asyncssh

from gputop.model.hosts import LinkState
from gputop.model.text import clean

_CHANGED = "find out why, then replace it in known_hosts (ssh-keygen -R, ssh-keyscan)"
_DENIED = ("pam_slurm_adopt", "no active jobs on this node", "Access denied by")


def classify(
    error: BaseException, banner: str = "", *, has_keys: bool = True, other_key: bool = False, jump: str = ""
) -> tuple[LinkState, str]:
    """(state, words) of a failed connection; banner is what the server told us before it hung up."""
    state, words = _classify(error, banner, has_keys=has_keys, other_key=other_key)
    return state, f"jump host {clean(jump, 80)}: {words}" if jump else words


def _classify(error: BaseException, banner: str, *, has_keys: bool, other_key: bool) -> tuple[LinkState, str]:
    words = clean(str(error), 200) or type(error).__name__
    if any(mark in banner or mark in words for mark in _DENIED):
        return LinkState.DENIED, clean(banner.strip(), 200) or words
    match error:
        case asyncssh.HostKeyNotVerifiable():
            if other_key:
                return LinkState.HOST_KEY, f"the host key is not the known one: {_CHANGED}"
            return LinkState.HOST_KEY, "the host key is not known: check it, then add it to known_hosts (ssh-keyscan)"
        case asyncssh.KeyExchangeFailed() if other_key and "host key" in words.lower():
            return LinkState.HOST_KEY, f"the host has no key of the known kind: {_CHANGED}"
        case asyncssh.PermissionDenied():
            if not has_keys:
                return LinkState.AUTH_FAILED, "no usable key: none found, or encrypted without an agent (ssh-add)"
            return LinkState.AUTH_FAILED, words
        case asyncssh.KeyEncryptionError() | asyncssh.KeyImportError():
            return LinkState.AUTH_FAILED, f"{words}: load it into an agent (ssh-add)"
        case asyncssh.ChannelOpenError():
            return LinkState.REFUSED, f"it opens no session: {words}"
        case TimeoutError() | socket.timeout():
            return LinkState.TIMEOUT, "no answer in time"
        case ConnectionRefusedError():
            return LinkState.REFUSED, "nobody listens there"
        case socket.gaierror():
            return LinkState.REFUSED, f"name not known: {words}"
        case asyncssh.ConfigParseError():
            return LinkState.AUTH_FAILED, f"SSH configuration: {words}"
        case asyncssh.DisconnectError():
            said = clean(banner.strip().split("\n")[-1], 120)
            return LinkState.REFUSED, f"closed by the host: {words}{'; it said: ' if said else ''}{said}"
        case OSError():
            return LinkState.REFUSED, clean(error.strerror or words, 200)
        case _:
            return LinkState.NO_PROBE, f"{type(error).__name__}: {words}"


def no_probe(status: int | None, stderr: str, noise: bytes) -> tuple[LinkState, str]:
    """A login that worked, and a program that did not."""
    said = clean((stderr.strip().split("\n")[-1] or noise.decode("utf-8", "replace")), 200)
    if any(mark in stderr for mark in _DENIED):
        return LinkState.DENIED, said
    return (
        LinkState.NO_PROBE,
        f"the probe ended with status {status}: {said}" if said else f"the probe ended ({status})",
    )


def lacks_python(status: int | None, stderr: str) -> bool:
    """Whether the shell could not find python3; a C shell says so with status 1."""
    return status in (126, 127) or re.search(r"python3: (command )?not found", stderr, re.IGNORECASE) is not None
