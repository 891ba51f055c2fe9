"""What Slurm said, folded into the state; pure."""

from collections.abc import Mapping
from dataclasses import replace

import msgspec

from gputop.engine.events import BootTimesRead, JobsRead, LayoutRead, NodesRead, SiteRead, TasksRead
from gputop.engine.state import Effect, Follow, ReadLayouts, State
from gputop.model.actions import Action, Kind, Outcome
from gputop.model.hosts import Link, LinkState
from gputop.model.jobs import Job
from gputop.model.nodes import Node
from gputop.model.reading import Unknown
from gputop.model.site import Switch
from gputop.model.snapshot import Snapshot, Source

LAYOUTS_PER_CYCLE = 5
"""Jobs whose GPU indices are asked for in one cycle."""


def fold_nodes(state: State, event: NodesRead, host_pattern: str) -> tuple[State, tuple[Effect, ...]]:
    """Takes Slurm's nodes over, keeps what only others know of them, and says which hosts to follow."""
    snap = state.snap
    leaf = leaf_switches(snap.switches)
    nodes = {one.name: _merged(snap.nodes.get(one.name), one, leaf, snap) for one in event.nodes}
    links = _links_of_off_nodes(snap.links, nodes, event.at)
    followed = {
        name: host_pattern.format(node=name)
        for name, node in nodes.items()
        if not node.state.powered_down and node.state.base != "future"
    }
    effects: tuple[Effect, ...] = ()
    if followed != state.followed:
        effects = (Follow(hosts=tuple(followed.items())),)
    snap = replace(snap, nodes=nodes, links=links, sources=read(snap, "slurm.nodes", event.at))
    return replace(state, snap=snap, followed=followed), effects


def _merged(old: Node | None, new: Node, leaf: Mapping[str, str], snap: Snapshot) -> Node:
    boot = new.boot_time
    host = snap.hosts.get(new.name)
    if host is not None and not isinstance(host.boot_time, Unknown):
        boot = host.boot_time
    elif isinstance(boot, Unknown) and old is not None:
        boot = old.boot_time
    merged = msgspec.structs.replace(new, boot_time=boot, switch=leaf.get(new.name, ""))
    return old if old == merged else merged


def _links_of_off_nodes(links: Mapping[str, Link], nodes: Mapping[str, Node], at: float) -> Mapping[str, Link]:
    """A powered-down node has a link state of its own: it is not polled, and that is no failure."""
    off = {name for name, node in nodes.items() if node.state.powered_down}
    changed = {
        name: Link(state=LinkState.OFF, since=at, detail="powered down by Slurm")
        for name in off
        if (link := links.get(name)) is None or link.state is not LinkState.OFF
    }
    gone = [name for name in links if name not in nodes]
    if not changed and not gone:
        return links
    return {name: link for name, link in {**links, **changed}.items() if name in nodes}


def fold_jobs(state: State, event: JobsRead) -> tuple[State, tuple[Effect, ...]]:
    """Takes the queue over; remembers where requeued jobs ran; asks for the GPU indices of new partial-node jobs."""
    snap = state.snap
    if not event.jobs and (running := sum(job.running for job in snap.jobs.values())):
        busy = sum(node.state.base in ("allocated", "mixed") for node in snap.nodes.values())
        if busy:
            source = msgspec.structs.replace(
                snap.sources["slurm.jobs"],
                trouble=f"squeue lists no job while {busy} nodes are allocated and {running} jobs ran: not believed",
            )
            return replace(state, snap=replace(snap, sources={**snap.sources, "slurm.jobs": source})), ()
    jobs = {job.id: _remembered(snap.jobs.get(job.id), job) for job in event.jobs}
    layouts = {key: one for key, one in snap.layouts.items() if key in jobs}
    wanted = [
        job
        for job in jobs.values()
        if job.running
        and isinstance(job.start_time, float)
        and (job.id, job.start_time) not in state.layouts_asked
        and holds_part(job, snap.nodes)
    ][:LAYOUTS_PER_CYCLE]
    asked = frozenset(key for key in state.layouts_asked if key[0] in jobs) | {
        (job.id, job.start_time) for job in wanted if isinstance(job.start_time, float)
    }
    actions = with_follow_ups(snap.actions, jobs)
    snap = replace(snap, jobs=jobs, layouts=layouts, actions=actions, sources=read(snap, "slurm.jobs", event.at))
    effects: tuple[Effect, ...] = (ReadLayouts(jobs=tuple(job.id for job in wanted)),) if wanted else ()
    return replace(state, snap=snap, layouts_asked=asked), effects


def with_follow_ups(actions: Mapping[str, Action], jobs: Mapping[str, Job]) -> Mapping[str, Action]:
    """Where a requeued job runs now: a later observation with its own line, not part of the proof."""
    found: dict[str, Action] = {}
    for key, action in actions.items():
        job = jobs.get(action.intent.target)
        requeued = action.intent.kind in (Kind.REQUEUE, Kind.REQUEUE_EXCLUDING)
        if (
            requeued
            and action.outcome is Outcome.CONFIRMED
            and not action.follow_up
            and job is not None
            and job.running
        ):
            found[key] = msgspec.structs.replace(action, follow_up=f"runs on {', '.join(job.nodes[:8])}")
    return {**actions, **found} if found else actions


def fold_tasks(state: State, event: TasksRead) -> State:
    """Some jobs read apart while an action watches them; the rest of the queue is left as it was."""
    snap = state.snap
    changed = {job.id: _remembered(snap.jobs.get(job.id), job) for job in event.jobs}
    return replace(state, snap=replace(snap, jobs={**snap.jobs, **changed}))


def _remembered(old: Job | None, new: Job) -> Job:
    last = new.nodes or (old.last_nodes if old is not None else ())
    excluded = new.excluded
    if isinstance(excluded, Unknown) and old is not None and old.restarts == new.restarts:
        excluded = old.excluded
    merged = msgspec.structs.replace(new, last_nodes=last, excluded=excluded)
    return old if old == merged else merged


def holds_part(job: Job, nodes: Mapping[str, Node]) -> bool:
    """Whether a job has some but not all GPUs of its nodes, so that their indices are worth a question."""
    if isinstance(job.gpus, Unknown) or job.gpus == 0 or not job.nodes:
        return False
    return job.gpus < sum(nodes[name].gpus for name in job.nodes if name in nodes)


def fold_site(state: State, event: SiteRead) -> State:
    """Partitions, reservations and topology; nodes learn their leaf switch."""
    snap, site = state.snap, event.site
    switches = {one.name: one for one in site.switches}
    leaf = leaf_switches(switches)
    nodes = {
        name: node if node.switch == leaf.get(name, "") else msgspec.structs.replace(node, switch=leaf.get(name, ""))
        for name, node in snap.nodes.items()
    }
    return replace(
        state,
        snap=replace(
            snap,
            nodes=nodes,
            partitions={one.name: one for one in site.partitions},
            reservations={one.name: one for one in site.reservations},
            switches=switches,
            sources=read(snap, "slurm.site", event.at),
        ),
    )


def leaf_switches(switches: Mapping[str, Switch]) -> dict[str, str]:
    """Node -> name of its lowest switch."""
    leaves: dict[str, str] = {}
    for switch in sorted(switches.values(), key=lambda one: -one.level):
        leaves.update(dict.fromkeys(switch.nodes, switch.name))
    return leaves


def fold_layout(state: State, event: LayoutRead) -> State:
    """GPU indices of one job; None leaves them unknown."""
    if event.layout is None:
        return state
    snap = state.snap
    return replace(state, snap=replace(snap, layouts={**snap.layouts, event.job: event.layout}))


def fold_boot_times(state: State, event: BootTimesRead) -> State:
    """Boot times from Slurm, for nodes whose probe has said none."""
    nodes = dict(state.snap.nodes)
    for name, at in event.times:
        host = state.snap.hosts.get(name)
        if name in nodes and (host is None or isinstance(host.boot_time, Unknown)):
            nodes[name] = msgspec.structs.replace(nodes[name], boot_time=at)
    return replace(state, snap=replace(state.snap, nodes=nodes))


def read(snap: Snapshot, name: str, at: float) -> Mapping[str, Source]:
    """The sources, one of them freshly read."""
    return {**snap.sources, name: msgspec.structs.replace(snap.sources[name], read_at=at, trouble="")}
