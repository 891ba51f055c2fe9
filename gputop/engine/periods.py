"""How often each source is read, and the state of an engine that has read nothing yet."""

from msgspec import Struct

from gputop.config import Cluster
from gputop.engine.state import State
from gputop.model.snapshot import About, Snapshot, Source


class Periods(Struct, frozen=True, kw_only=True):
    """Seconds between reads, by source."""

    probe: float
    slurm: float
    site: float


def periods_of(cluster: Cluster) -> Periods:
    return Periods(probe=cluster.period, slurm=cluster.slurm_period, site=cluster.site_period)


def first_state(about: About, periods: Periods, now: float) -> State:
    """Every source is there, and none has been read."""
    sources = (
        Source(name="slurm.nodes", period=periods.slurm),
        Source(name="slurm.jobs", period=periods.slurm),
        Source(name="slurm.site", period=periods.site),
        Source(name="probe", period=periods.probe),
    )
    return State(snap=Snapshot(time=now, about=about, sources={one.name: one for one in sources}))
