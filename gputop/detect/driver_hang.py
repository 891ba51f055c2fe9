"""GPU008: the driver answers no more."""

from gputop.detect.rule import Hit, Past, Rule, Sight, Threshold
from gputop.model.findings import Evidence, Hint, Need, Severity


def check(sight: Sight, past: Past) -> tuple[list[Hit], Past]:
    limit = sight.limits["seconds"]
    hits = []
    for name, host in sight.snap.hosts.items():
        row = sight.snap.host_table.index.get(name, -1)
        if host.hang is None or row < 0 or not sight.hosts_fresh[row] or sight.now - host.hang.since < limit:
            continue
        evidence = Evidence(
            reading="NVML", value=f"no answer for {sight.now - host.hang.since:.0f} s", limit=f"{limit:.0f} s",
            at=sight.now,
        )  # fmt: skip
        hits.append(Hit(subject=name, node=name, says="the driver hangs", evidence=(evidence,), since=host.hang.since))
    return hits, past


RULE = Rule(
    code="GPU008",
    name="driver hangs",
    severity=Severity.FATAL,
    hint=Hint.REBOOT,
    needs=(Need.HOST,),
    check=check,
    sees="an NVML call of the probe that does not return; the probe starts no second one",
    why="a wedged driver ends by a reboot; every tool that asks it hangs too and cannot be killed",
    thresholds=(Threshold(name="seconds", value=30, unit="s", source="two to three times the slowest healthy pass"),),
)
