"""One pass of all rules over a snapshot: findings, what cannot be told, and each rule's past for the next pass."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec
from msgspec import Struct

from gputop.detect.registry import Chosen
from gputop.detect.rule import Hit, Past, Rule, Sight
from gputop.model.findings import Blind, Finding, Need
from gputop.model.hosts import LinkState
from gputop.model.reading import Unknown
from gputop.model.snapshot import Snapshot

T = TypeVar("T")


class Passed(Struct, frozen=True):
    """What a pass leaves behind."""

    findings: Mapping[str, Finding]
    blinds: Mapping[str, Blind]
    pasts: Mapping[str, Past]


def detect(snap: Snapshot, rules: Sequence[Chosen], pasts: Mapping[str, Past], now: float) -> Passed:
    """Runs every rule; a finding whose needs are not answered any more stays, marked as stale."""
    blinds = blind_spots(snap, now)
    findings: dict[str, Finding] = {}
    kept: dict[str, Past] = {}
    for chosen in rules:
        rule = chosen.rule
        hits, kept[rule.code] = rule.check(Sight(snap, now, chosen.limits), pasts.get(rule.code))
        for hit in hits:
            one = _finding(rule, hit, snap, now)
            findings[one.key] = one
    on = {chosen.rule.code: chosen.rule for chosen in rules}
    for key, old in snap.findings.items():
        its = on.get(old.rule)
        if key in findings or its is None or old.node not in snap.nodes:
            continue
        if any(f"{need}/{old.node}" in blinds for need in its.needs):
            findings[key] = old if old.stale else msgspec.structs.replace(old, stale=True)
    return Passed(_same(snap.findings, findings), _same(snap.blinds, blinds), kept)


def _same(old: Mapping[str, T], new: Mapping[str, T]) -> Mapping[str, T]:
    """The old one where nothing changed, so that nobody looks for a difference."""
    return old if old == new else new


def _finding(rule: Rule, hit: Hit, snap: Snapshot, now: float) -> Finding:
    before = snap.findings.get(f"{rule.code}/{hit.subject}")
    since = hit.since if hit.since is not None else now
    new = Finding(
        rule=rule.code,
        subject=hit.subject,
        node=hit.node,
        severity=hit.severity or rule.severity,
        says=hit.says,
        since=since if before is None else min(before.since, since),
        evidence=hit.evidence,
        hint=hit.hint or rule.hint,
    )
    # Evidence that only grew older is no news: frames would carry it every second.
    if before is not None and not before.stale and _alike(before, new):
        return before
    return new


def _alike(old: Finding, new: Finding) -> bool:
    return (old.says, old.severity, old.hint, len(old.evidence)) == (
        new.says,
        new.severity,
        new.hint,
        len(new.evidence),
    )


def blind_spots(snap: Snapshot, now: float) -> dict[str, Blind]:
    """What cannot be told of which node, and why."""
    found: dict[str, Blind] = {}

    def blind(need: Need, node: str, because: str) -> None:
        one = Blind(need=need, node=node, because=because)
        found[one.key] = one

    hosts = snap.host_table
    patience = 2 * snap.sources["probe"].period if "probe" in snap.sources else 0.0
    sampled = (now - hosts["sampled_at"].values <= patience).tolist() if len(hosts) else []
    read = (now - hosts["gpus_read_at"].values <= patience).tolist() if len(hosts) else []
    with_ports = {one.node for one in snap.port_table.ids}
    for name, node in snap.nodes.items():
        link = snap.links.get(name)
        if link is not None and link.state is LinkState.OFF:
            continue
        row = hosts.index.get(name, -1)
        if row < 0 or not sampled[row]:
            because = _because(snap, name)
            for need in (Need.HOST, Need.KERNEL_LOG, *([Need.GPUS] if node.gpus else [])):
                blind(need, name, because)
            if name in with_ports:
                blind(Need.PORTS, name, because)
            continue
        if node.gpus and not read[row]:
            host = snap.hosts.get(name)
            hangs = host is not None and host.hang is not None
            blind(Need.GPUS, name, "the driver does not answer" if hangs else "NVML was not read in time")
        log = snap.klogs.get(name)
        if log is None:
            blind(Need.KERNEL_LOG, name, "the kernel log has not been read yet")
        elif isinstance(log.source, Unknown):
            blind(Need.KERNEL_LOG, name, f"the kernel log cannot be read: {log.source}")
    return found


def _because(snap: Snapshot, name: str) -> str:
    link = snap.links.get(name)
    if link is None:
        return "SSH was not tried yet"
    if link.state is LinkState.UP:
        return "its probe has gone silent"
    return f"ssh {link.state}{': ' if link.detail else ''}{link.detail}"
