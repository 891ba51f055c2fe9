"""ProxyJump read: which hosts lie on the way, first to last; pure."""

from collections.abc import Callable

from msgspec import Struct


class Hop(Struct, frozen=True):
    """One host to log in to, with what ProxyJump itself says about it."""

    name: str
    user: str = ""
    """"" leaves it to the configuration."""
    port: int = 0
    """0 leaves it to the configuration."""


def read_hop(text: str) -> Hop:
    """[ssh://][user@]host[:port], with an IPv6 address in brackets; raises ValueError."""
    user, _, address = text.strip().removeprefix("ssh://").rpartition("@")
    if address.startswith("["):
        name, _, port = address[1:].partition("]")
        port = port.removeprefix(":")
    elif address.count(":") > 1:
        name, port = address, ""
    else:
        name, _, port = address.partition(":")
    if not name or (port and not port.isdigit()):
        raise ValueError(f"ProxyJump {text!r}: expected [user@]host[:port]")
    return Hop(name, user, int(port or 0))


def chain(host: str, jump: str, jump_of: Callable[[str], str]) -> tuple[str, ...]:
    """Every jump host on the way to a host. The first of a list may have a ProxyJump of its own; none comes twice."""
    way: tuple[str, ...] = ()
    seen = {host}
    while jump:
        hops = tuple(hop.strip() for hop in jump.split(","))
        names = [read_hop(hop).name for hop in hops]
        if seen.intersection(names):
            break
        seen.update(names)
        way = (*hops, *way)
        jump = jump_of(names[0])
    return way
