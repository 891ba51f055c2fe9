"""Values as short texts: a missing one says why, an old one says so."""

from gputop.model.reading import Unknown, Why

SHORT = {
    Why.NOT_READ: "?",
    Why.NOT_SUPPORTED: "n/s",
    Why.DENIED: "denied",
    Why.LOST: "LOST",
    Why.TIMED_OUT: "t/out",
    Why.STALE: "stale",
    Why.ERROR: "err",
}
"""Never a number, never blank."""


def reading(value: float | Unknown, form: str = "{:.0f}") -> str:
    """The value, or the short word for why there is none."""
    return SHORT[value.why] if isinstance(value, Unknown) else form.format(value)


def age(seconds: float | None) -> str:
    """3s, 4m, 2h, 5d; never for what was never read."""
    if seconds is None:
        return "never"
    seconds = max(0.0, seconds)
    for limit, unit, name in ((100, 1, "s"), (6000, 60, "m"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{seconds / unit:.0f}{name}"
    return f"{seconds / 86_400:.0f}d"


def watts(value: float) -> str:
    """412 W, 12.3 kW, 1.24 MW."""
    if value < 1000:
        return f"{value:.0f} W"
    if value < 1e6:
        return f"{value / 1000:.1f} kW"
    return f"{value / 1e6:.2f} MW"


def span(seconds: float) -> str:
    """1-02:03:04 as Slurm writes a running time."""
    whole = int(max(0.0, seconds))
    days, rest = divmod(whole, 86_400)
    clock = f"{rest // 3600:02}:{rest % 3600 // 60:02}:{rest % 60:02}"
    return f"{days}-{clock}" if days else clock
