"""All rules, and their thresholds as a site has set them."""

from collections.abc import Mapping

from msgspec import Struct

from gputop.detect import (
    driver_hang,
    ecc,
    gpu_lost,
    host,
    ib_port,
    nvlink,
    pcie,
    recovery_action,
    remap,
    slowdown,
    sxid,
    xid,
)
from gputop.detect.rule import Rule
from gputop.model.errors import ConfigError

RULES: tuple[Rule, ...] = (
    gpu_lost.RULE,
    recovery_action.RULE,
    xid.RULE,
    ecc.RULE,
    remap.RULE,
    slowdown.RULE,
    pcie.RULE,
    driver_hang.RULE,
    nvlink.RULE,
    ib_port.RULE,
    sxid.RULE,
    host.DISK,
    host.CLOCK,
    host.BLOCKED,
)


class Chosen(Struct, frozen=True):
    """A rule that is on, with its thresholds in force."""

    rule: Rule
    limits: Mapping[str, float]


def choose(overrides: Mapping[str, Mapping[str, float | bool]], where: object = None) -> tuple[Chosen, ...]:
    """The rules that are on; raises ConfigError for a rule or threshold that does not exist, in the file `where`."""
    file = f"{where}: " if where is not None else ""
    known = {rule.code: rule for rule in RULES}
    for code, changes in overrides.items():
        if code not in known:
            raise ConfigError(f"{file}rules.{code}: no such rule; there is: {', '.join(known)}")
        names = {threshold.name for threshold in known[code].thresholds}
        for name, value in changes.items():
            if name == "off":
                if not isinstance(value, bool):
                    raise ConfigError(f"{file}rules.{code}.off: expected true or false, got {value!r}")
            elif name not in names:
                raise ConfigError(f"{file}rules.{code}.{name}: expected {', '.join(sorted(names | {'off'}))}")
            elif isinstance(value, bool):
                raise ConfigError(f"{file}rules.{code}.{name}: expected a number, got {str(value).lower()}")
    return tuple(
        Chosen(rule, limits_of(rule, overrides.get(rule.code, {})))
        for rule in RULES
        if not overrides.get(rule.code, {}).get("off", False)
    )


def limits_of(rule: Rule, changes: Mapping[str, float | bool]) -> dict[str, float]:
    """Threshold -> its value in force."""
    return {one.name: float(changes.get(one.name, one.value)) for one in rule.thresholds}
