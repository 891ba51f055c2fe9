"""The commands that show or do one thing and end: snapshot, act, log info."""

import argparse
import asyncio
import secrets
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import msgspec

from gputop.config import Chosen
from gputop.detect.registry import Chosen as Rules
from gputop.diagnostics import OF_OUTCOME, Exit, say
from gputop.engine.clock import SystemClock
from gputop.engine.launch import attach_or_start
from gputop.model.actions import Action, Intent, Kind, Outcome, Proposal, ProposalState
from gputop.model.commands import Approve, Dismiss, Propose
from gputop.model.errors import ConfigError, EngineError, SourceDown
from gputop.model.reading import Unknown
from gputop.model.snapshot import About, Snapshot
from gputop.stream.document import document, table_text
from gputop.stream.export import info
from gputop.stream.frames import apply
from gputop.stream.socket import Connection, attach

CARD_SECONDS = 30.0
"""How long a card may take: a first read of Slurm, and one of its subject."""
ACTION_SECONDS = 180.0
TRIES = 3


async def snapshot(chosen: Chosen, rules: Sequence[Rules], *, as_json: bool) -> int:
    """Prints one observation: the running engine's where there is one, else one of our own."""
    clock = SystemClock()
    snap = await _of_engine(chosen)
    if snap is None:
        snap = await _of_our_own(chosen, rules, clock)
    now = clock.now()
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(document(snap, now)) + b"\n")
    else:
        print("\n".join(table_text(snap, now)))
    sys.stdout.flush()
    unread = isinstance(snap.sources["slurm.nodes"].read_at, Unknown)
    if unread:
        say(f"Slurm could not be read: {snap.sources['slurm.nodes'].trouble}")
    return Exit.UNREACHABLE if unread else Exit.OK


async def _of_engine(chosen: Chosen) -> Snapshot | None:
    try:
        connection = await attach(chosen.socket_path)
    except EngineError:
        return None
    try:
        async for frame in connection.frames():
            return apply(None, frame)
        return None
    finally:
        await connection.close()


async def _of_our_own(chosen: Chosen, rules: Sequence[Rules], clock: SystemClock) -> Snapshot:
    from gputop.detect.passes import detect
    from gputop.engine.once import observe_once
    from gputop.engine.parts import Parts
    from gputop.engine.periods import periods_of

    parts = Parts(chosen.name, chosen.cluster, clock)
    about = About(cluster=chosen.name, version=version("gputop-cluster"), read_only=True, adapter=parts.adapter)
    snap = await observe_once(parts, about, periods_of(chosen.cluster), chosen.cluster.host, clock)
    passed = detect(snap, rules, {}, clock.now())
    return replace(snap, findings=passed.findings, blinds=passed.blinds)


async def act(chosen: Chosen, config_path: Path | None, arguments: argparse.Namespace) -> int:
    """One action a target, each through the engine's one guarded path; the worst outcome is the exit code."""
    if arguments.kind == Kind.REQUEUE_EXCLUDING and not arguments.exclude:
        raise ConfigError("requeue-excluding needs --exclude NODES")
    exclude = expand(arguments.exclude)
    worst = 0
    for target in arguments.targets:
        intent = Intent(kind=Kind(arguments.kind), target=target, exclude=exclude, note=arguments.note)
        card, action = await _ask(chosen, config_path, intent, arguments)
        worst = max(worst, _show(card, action, arguments))
    return worst


async def _ask(
    chosen: Chosen, config_path: Path | None, intent: Intent, arguments: argparse.Namespace
) -> tuple[Proposal, Action | None]:
    """Through the engine; anew where it was just ending, as long as nothing was approved."""
    for attempt in range(TRIES):
        connection = await attach_or_start(chosen, config_path, read_only=False)
        asker = Asker(connection)
        listening = asyncio.ensure_future(asker.listen())
        try:
            return await asker.ask(intent, _typed(arguments), dry_run=arguments.dry_run)
        except EngineError:
            if asker.approved or attempt == TRIES - 1:
                raise
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
            await connection.close()
    raise EngineError("no engine")


def expand(hostlist: str) -> tuple[str, ...]:
    """The nodes of a hostlist given by a person."""
    from gputop.model.errors import SourceError
    from gputop.sources.slurm.hostlist import expand as expand_list

    try:
        return expand_list(hostlist)
    except SourceError as error:
        raise ConfigError(f"--exclude: {error.detail}") from error


def _typed(arguments: argparse.Namespace) -> str:
    """Naming the kind on the command line is the typed word of a cancel."""
    return arguments.confirm or (str(Kind.CANCEL) if arguments.kind == Kind.CANCEL else "")


class Asker:
    """A reader that proposes, approves, and waits for the end."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._snap: Snapshot | None = None
        self._moved = asyncio.Event()
        self._gone = ""
        self.approved = False
        """Whether the engine was told to act: from then on, what became of it has to be looked up."""

    async def listen(self) -> None:
        """Follows the stream."""
        try:
            async for frame in self._connection.frames():
                self._snap = apply(self._snap, frame)
                self._moved.set()
        except EngineError as error:
            self._gone = str(error)
            self._moved.set()

    async def _next(self, deadline: float) -> bool:
        """Waits for the next frame; False when time is up."""
        if self._gone:
            raise EngineError(self._gone)
        self._moved.clear()
        left = deadline - asyncio.get_running_loop().time()
        if left <= 0:
            return False
        try:
            await asyncio.wait_for(self._moved.wait(), left)
        except TimeoutError:
            return False
        return True

    async def ask(self, intent: Intent, typed: str, *, dry_run: bool) -> tuple[Proposal, Action | None]:
        """The card, and the action when one was run."""
        now = asyncio.get_running_loop().time
        card_id = secrets.token_hex(4)
        await self._ready(now() + CARD_SECONDS)
        await self._connection.send(Propose(id=card_id, intent=intent))
        deadline = now() + CARD_SECONDS
        while (card := self._snap.proposals.get(card_id) if self._snap else None) is None:
            if not await self._next(deadline):
                raise SourceDown("engine", f"drew no card within {CARD_SECONDS:.0f} s")
        if dry_run or card.refusals:
            await self._connection.send(Dismiss(proposal=card_id))
            return card, None
        self.approved = True
        await self._connection.send(Approve(proposal=card_id, typed=typed))
        deadline = now() + ACTION_SECONDS
        while True:
            snap = self._snap
            action = snap.actions.get(card_id) if snap else None
            card = snap.proposals.get(card_id, card) if snap else card
            if action is not None and not action.open:
                return card, action
            if action is None and (card.refusals or card.state is ProposalState.STALE):
                return card, None
            if not await self._next(deadline):
                raise SourceDown("engine", f"the action did not end within {ACTION_SECONDS:.0f} s: look at gputop")

    async def _ready(self, deadline: float) -> None:
        """Until Slurm has been read once, or was found not to answer."""
        while True:
            sources = self._snap.sources if self._snap else {}
            asked = [sources[name] for name in ("slurm.nodes", "slurm.jobs") if name in sources]
            if len(asked) == 2 and all(one.trouble or not isinstance(one.read_at, Unknown) for one in asked):
                return
            if not await self._next(deadline):
                return


def _show(card: Proposal, action: Action | None, arguments: argparse.Namespace) -> int:
    code: int = Exit.OK if arguments.dry_run and not card.refusals else Exit.REFUSED
    if action is not None and action.outcome is not None:
        code = OF_OUTCOME[action.outcome]
    if arguments.json:
        line = {
            "target": card.intent.target,
            "kind": card.intent.kind,
            "id": card.id,
            "outcome": action.outcome if action else ("proposed" if code == Exit.OK else Outcome.REFUSED),
            "says": action.says if action else "; ".join(one.says for one in card.refusals),
            "commands": card.commands,
            "effects": card.effects,
            "refusals": [{"guard": one.guard, "says": one.says} for one in card.refusals],
            "steps": [{"at": step.at, "phase": step.phase, "says": step.says} for step in action.steps]
            if action
            else [],
            "exit": int(code),
        }
        sys.stdout.buffer.write(msgspec.json.encode(line) + b"\n")
        sys.stdout.flush()
        return code
    print(card.title)
    for effect in card.effects:
        print(f"  {effect}")
    for command in card.commands:
        print(f"  $ {command}")
    for step in action.steps if action else ():
        print(f"  {step.phase:<9} {step.says}")
    for refusal in card.refusals if action is None else ():
        print(f"  held back ({refusal.guard}): {refusal.says}")
    if action is None and card.typed and not arguments.dry_run and not card.refusals:
        print(f"  needs --confirm {card.typed}")
    return code


def log_info(path: Path, *, as_json: bool) -> int:
    """What is in a session log."""
    found = info(path)
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
    else:
        for name, value in msgspec.to_builtins(found).items():
            print(f"{name:<10} {value}")
    sys.stdout.flush()
    return Exit.OK
