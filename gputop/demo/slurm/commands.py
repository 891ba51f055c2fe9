"""Slurm's commands against the simulated controller: argv in; exit status, output and how long it took out."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from ClusterShell.NodeSet import NodeSet

from gputop.demo.slurm.array import expand_tasks
from gputop.demo.slurm.controller import Controller, Refusal
from gputop.demo.slurm.job_text import Row, rows, scontrol_job, squeue_field
from gputop.demo.slurm.node_text import folded, scontrol_node, sinfo_field
from gputop.demo.slurm.records import JobRecord, NodeRecord

Trouble = Literal["", "down", "frozen", "slow", "empty"]
ACTS = frozenset({"update", "requeue", "requeuehold", "hold", "uhold", "release"})
CONNECT_SECONDS = 9.0
"""How long a command tries a controller that is down."""
MESSAGE_SECONDS = 10.0
"""MessageTimeout: how long it waits for one that does not answer."""
_NO_CONTACT = "Unable to contact slurm controller (connect failure)"
_NO_ANSWER = "Socket timed out on send/recv operation"


@dataclass(frozen=True)
class Reply:
    """What a command left behind."""

    status: int = 0
    stdout: str = ""
    stderr: str = ""
    seconds: float = 0.0
    """How long it took to answer; what it did was done when it was sent."""


@dataclass(frozen=True)
class Switch:
    """A leaf of the topology."""

    name: str
    nodes: tuple[str, ...]


class Commands:
    """sinfo, squeue, scontrol and scancel, as one account uses them."""

    def __init__(self, controller: Controller, switches: Iterable[Switch] = (), account: str = "root") -> None:
        self._slurm = controller
        self._switches = tuple(switches)
        self._account = account
        self.trouble: Trouble = ""
        self.slow_seconds = 3.0
        self._late: list[tuple[str, ...]] = []
        """Calls that a frozen controller finds in its queue when it goes on."""

    def run(self, argv: tuple[str, ...]) -> Reply:
        """One command; a frozen controller still does later what it was sent."""
        if argv == ("id", "-un"):
            return Reply(stdout=self._account + "\n")
        if argv[0] == "sacctmgr":
            return Reply(1, stderr="You are not running a supported accounting_storage plugin\n")
        if argv[:2] == ("scontrol", "ping"):
            up = self.trouble not in ("down", "frozen")
            words = f"Slurmctld(primary) at {self._slurm.settings.cluster}-ctl is {'UP' if up else 'DOWN'}\n"
            return Reply(0 if up else 1, words)
        if self.trouble == "down":
            return _unreachable(argv, _NO_CONTACT, CONNECT_SECONDS)
        if self.trouble == "frozen":
            if argv[0] == "scancel" or (argv[0] == "scontrol" and argv[1] in ACTS):
                self._late.append(argv)
            return _unreachable(argv, _NO_ANSWER, MESSAGE_SECONDS)
        if self.trouble == "empty" and argv[0] in ("sinfo", "squeue"):
            return Reply()
        reply = self._run(argv)
        if self.trouble == "slow":
            return Reply(reply.status, reply.stdout, reply.stderr, self.slow_seconds)
        return reply

    def thaw(self) -> None:
        """The controller goes on, and does what waited."""
        self.trouble = ""
        late, self._late = self._late, []
        for argv in late:
            self._run(argv)

    def _run(self, argv: tuple[str, ...]) -> Reply:
        match argv:
            case ("sinfo", *options):
                return self._sinfo(options)
            case ("squeue", *options):
                return self._squeue(options)
            case ("scontrol", "show", what, *rest):
                return self._show(what, rest)
            case ("scontrol", "update", *changes):
                return self._update(dict(change.partition("=")[::2] for change in changes))
            case ("scontrol", word, *targets) if word in ACTS and targets:
                return self._on_jobs(word, targets)
            case ("scancel", target):
                for job in self._find(target):
                    self._slurm.cancel(job)
                return Reply()
            case _:
                return Reply(127, stderr=f"{argv[0]}: command not found\n")

    # Reading.

    def _sinfo(self, options: list[str]) -> Reply:
        fields = _fields(_option(options, "-O"))
        errors, columns = "", []
        for name, suffix in fields:
            column = sinfo_field(name)
            errors += "" if column else f"sinfo: error: Invalid node format specification: {name}\n"
            columns.append((column, suffix))
        lines = [
            "".join((column(node, partition, self._slurm) if column else "") + end for column, end in columns) + "\n"
            for node in self._slurm.nodes.values()
            for partition in node.partitions
        ]
        return Reply(0, "".join(lines), errors)

    def _squeue(self, options: list[str]) -> Reply:
        listed = _option(options, "-j")
        jobs = list(self._slurm.jobs.values())
        if listed:
            wanted = [job for one in listed.split(",") for job in self._find(one)]
            if not wanted:
                return Reply(1, stderr="slurm_load_jobs error: Invalid job id specified\n")
            jobs = list({job.key: job for job in wanted}.values())
        errors, columns = "", []
        for name, suffix in _fields(_option(options, "-O")):
            column = squeue_field(name)
            errors += "" if column else f"squeue: error: Invalid job format specification: {name}\n"
            columns.append((column, suffix))
        lines = [
            "".join((column(row, self._slurm) if column else "") + end for column, end in columns) + "\n"
            for row in _sorted(rows(jobs, apart="-r" in options))
        ]
        return Reply(0, "".join(lines), errors)

    def _show(self, what: str, rest: list[str]) -> Reply:
        names = [word for word in rest if not word.startswith("-")]
        shows: dict[str, Callable[[], Reply]] = {
            "node": lambda: self._show_nodes(names),
            "job": lambda: self._show_jobs(names, detail="-d" in rest),
            "partition": lambda: Reply(stdout="".join(self._partition_lines())),
            "reservation": lambda: Reply(stdout="No reservations in the system\n"),
            "topology": lambda: Reply(stdout="".join(self._switch_lines())),
            "config": lambda: Reply(stdout=self._config()),
        }
        return shows[what]() if what in shows else Reply(1, stderr=f"invalid entity: {what}\n")

    def _show_nodes(self, names: list[str]) -> Reply:
        nodes = list(self._slurm.nodes.values())
        if names:
            nodes = [self._slurm.nodes[name] for name in NodeSet(names[0]) if name in self._slurm.nodes]
            if not nodes:
                return Reply(1, f"Node {names[0]} not found\n")
        return Reply(stdout="".join(scontrol_node(node, self._slurm) + "\n" for node in nodes))

    def _show_jobs(self, names: list[str], *, detail: bool) -> Reply:
        jobs = self._find(names[0]) if names else list(self._slurm.jobs.values())
        if not jobs:
            return Reply(1, stderr="slurm_load_jobs error: Invalid job id specified\n")
        return Reply(stdout="".join(scontrol_job(job, self._slurm, detail=detail) + "\n" for job in jobs))

    def _partition_lines(self) -> Iterable[str]:
        partitions: dict[str, list[str]] = {}
        for node in self._slurm.nodes.values():
            for name in node.partitions:
                partitions.setdefault(name, []).append(node.name)
        for name, nodes in partitions.items():
            default = "YES" if name == self._slurm.default_partition else "NO"
            yield (
                f"PartitionName={name} AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL AllocNodes=ALL "
                f"Default={default} QoS=N/A MaxTime=UNLIMITED Nodes={folded(nodes)} State=UP "
                f"TotalNodes={len(nodes)} JobDefaults=(null)\n"
            )

    def _switch_lines(self) -> Iterable[str]:
        if self._switches:
            everything = folded(name for leaf in self._switches for name in leaf.nodes)
            leaves = folded(leaf.name for leaf in self._switches)
            yield f"SwitchName=spine Level=1 LinkSpeed=1 Nodes={everything} Switches={leaves}\n"
        for leaf in self._switches:
            yield f"SwitchName={leaf.name} Level=0 LinkSpeed=1 Nodes={folded(leaf.nodes)}\n"

    def _config(self) -> str:
        return (
            f"Configuration data as of {int(self._slurm.now)}\n"
            "AccountingStorageType   = accounting_storage/none\n"
            f"ClusterName             = {self._slurm.settings.cluster}\n"
            "SlurmUser               = root(0)\n"
        )

    def _find(self, target: str) -> list[JobRecord]:
        """Jobs that an id means: one job, one task, a set of tasks, or all tasks of an array."""
        base, _, part = target.partition("_")
        if not base.isdigit():
            return []
        if part:
            tasks = set(expand_tasks(part)[0]) if re.fullmatch(r"\[?[\d,:%-]+\]?", part) else set()
            return [job for job in self._slurm.tasks_of(int(base)) if job.task in tasks]
        if tasks_of := self._slurm.tasks_of(int(base)):
            return tasks_of
        return [job for job in self._slurm.jobs.values() if job.split and job.raw_id == int(base)]

    # Acting.

    def _update(self, changes: dict[str, str]) -> Reply:
        lowered = {key.lower(): value for key, value in changes.items()}
        if "nodename" in lowered:
            return self._update_nodes(lowered)
        if "jobid" in lowered:
            return self._update_job(lowered.pop("jobid"), lowered)
        return Reply(1, stderr='No valid entity in update command\nInput line must include "NodeName", "JobId"\n')

    def _update_nodes(self, changes: dict[str, str]) -> Reply:
        word = changes.get("state", "").lower()
        if word in ("drain", "down") and not changes.get("reason"):
            return Reply(1, stderr="You must specify a reason when DOWNING or DRAINING a node. Request denied\n")
        if word not in ("drain", "down", "resume", "undrain"):
            valid = "NoResp DRAIN FAIL FUTURE RESUME POWER_DOWN POWER_UP UNDRAIN"
            return Reply(
                1,
                stderr=f"Invalid input: state={changes.get('state', '')}\nRequest aborted\nValid states are: {valid}\n"
                "Not all states are valid given a node's prior state\n",
            )
        failed = ""
        for name in NodeSet(changes["nodename"]):
            node = self._slurm.nodes.get(name)
            if node is None:
                failed = "slurm_update error: Invalid node name specified\n"
                continue
            try:
                self._update_node(node, word, changes.get("reason", ""))
            except Refusal as refusal:
                failed = f"slurm_update error: {refusal}\n"
        return Reply(1 if failed else 0, stderr=failed)

    def _update_node(self, node: NodeRecord, word: str, reason: str) -> None:
        match word:
            case "drain":
                self._slurm.drain(node, reason, self._account)
            case "down":
                self._slurm.down(node, reason, self._account)
            case "resume":
                self._slurm.resume(node)
            case _:
                self._slurm.undrain(node)

    def _update_job(self, target: str, changes: dict[str, str]) -> Reply:
        jobs = self._find(target)
        if not jobs:
            return Reply(1, stderr=f"Invalid job id specified for job {target}\n")
        try:
            for job in jobs:
                self._change(job, target, changes)
        except Refusal as refusal:
            return Reply(1, stderr=f"{refusal}\n")
        return Reply()

    def _change(self, job: JobRecord, target: str, changes: dict[str, str]) -> None:
        if job.ended:
            raise Refusal(f"Job has already finished for job {target}")
        if "excnodelist" in changes:
            listed = tuple(NodeSet(changes["excnodelist"])) if changes["excnodelist"] else ()
            if job.running:
                raise Refusal(f"Job is no longer pending execution for job {target}")
            if any(name not in self._slurm.nodes for name in listed):
                raise Refusal(f"Invalid node name specified for job {target}")
            job.excluded = tuple(changes["excnodelist"].split(",")) if len(listed) <= 1 else listed
            if job.pending and not job.held and job.priority == 0:
                job.priority = 4_294_901_761 - job.raw_id
            self._slurm.split(job)
            self._slurm.look()
        if "starttime" in changes:
            self._slurm.start_now(job)
        if "requeue" in changes:
            job.requeueable = changes["requeue"] == "1"
        if "comment" in changes:
            job.comment = changes["comment"]
        if "admincomment" in changes:
            job.admin_comment = changes["admincomment"]

    def _on_jobs(self, word: str, targets: list[str]) -> Reply:
        errors: list[str] = []
        for target in targets:
            jobs = self._find(target)
            if not jobs:
                errors.append(f"Invalid job id specified for job {target}")
                if word in ("hold", "uhold", "release"):
                    errors.append("slurm_suspend error: Invalid job id specified")
                continue
            outcomes = {job.key: self._one(word, job) for job in jobs}
            if "[" in target:
                base, _, part = target.partition("_")
                for task in expand_tasks(part)[0]:
                    outcomes.setdefault(f"{base}_{task}", "Invalid job id specified")
            said = [words for words in outcomes.values() if words]
            if len(outcomes) > 1 and said:
                errors.extend(f"{key}: {words.split(' for job ')[0] or 'No error'}" for key, words in outcomes.items())
            else:
                errors.extend(said)
        return Reply(1 if errors else 0, stderr="".join(error + "\n" for error in errors))

    def _one(self, word: str, job: JobRecord) -> str:
        """Slurm's words for why not, or ""."""
        try:
            match word:
                case "requeue" | "requeuehold":
                    self._slurm.requeue(job, hold=word == "requeuehold")
                case "hold" | "uhold":
                    self._slurm.split(job)
                    self._slurm.hold(job, "admin" if word == "hold" else "user")
                case _:
                    self._slurm.split(job)
                    self._slurm.release(job)
        except Refusal as refusal:
            return str(refusal)
        return ""


def _unreachable(argv: tuple[str, ...], words: str, seconds: float) -> Reply:
    what = {"sinfo": "slurm_load_node", "squeue": "slurm_load_jobs"}.get(argv[0], "slurm_update")
    return Reply(1, stderr=f"{what} error: {words}\n", seconds=seconds)


def _option(options: list[str], name: str) -> str:
    return options[options.index(name) + 1] if name in options else ""


def _fields(text: str) -> list[tuple[str, str]]:
    """(field, what ends it) of a -O argument."""
    return [(name, end) for name, _, end in (part.partition(":") for part in text.split(","))]


def _sorted(found: list[Row]) -> list[Row]:
    """As squeue sorts: by state, then by priority."""
    return sorted(found, key=lambda row: (row.job.state, -row.job.priority, row.raw_id, row.job.task))
