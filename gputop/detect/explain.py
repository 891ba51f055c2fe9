"""What a rule looks at, why, and how to tune it, in words; pure."""

from gputop.detect.registry import RULES, limits_of
from gputop.detect.rule import Rule
from gputop.model.errors import ConfigError


def listing() -> str:
    """One line a rule."""
    return "\n".join(f"{rule.code:<8} {rule.severity.name.lower():<9} {rule.name}" for rule in RULES)


def explain(code: str) -> str:
    """Everything about one rule; raises ConfigError where there is no such rule."""
    rule = next((one for one in RULES if one.code == code.upper()), None)
    if rule is None:
        raise ConfigError(f"no rule {code!r}; there is: {', '.join(one.code for one in RULES)}")
    lines = [
        f"{rule.code}  {rule.name}  ({rule.severity.name.lower()})",
        f"sees      {rule.sees}",
        f"why       {rule.why}",
        f"needs     {', '.join(rule.needs)}; where one is missing it cannot tell, and says so",
        f"calls for {rule.hint}",
    ]
    for one in rule.thresholds:
        value = f"{limits_of(rule, {})[one.name]:g} {one.unit}"
        lines.append(f"threshold {one.name} = {value} ({one.source}); [rules.{rule.code}] {one.name} = …")
    if rule.tune:
        lines.append(f"tune      {rule.tune}")
    lines.append(f"off       [rules.{rule.code}] off = true")
    return "\n".join(lines)


def table() -> str:
    """All rules as a table for the README."""
    rows = [f"| {one.code} | {one.severity.name.lower()} | {one.sees} | {thresholds(one)} |" for one in RULES]
    return "\n".join(["| rule | severity | sees | thresholds |", "|---|---|---|---|", *rows])


def thresholds(rule: Rule) -> str:
    return ", ".join(f"{one.name} {one.value:g} {one.unit}" for one in rule.thresholds) or "none"
