"""A real engine on the lab, started as a screen starts it, and a reader that follows its stream."""

import asyncio
import os
import secrets
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from gputop.model.actions import Action, Intent, Proposal
from gputop.model.commands import Approve, Propose
from gputop.model.errors import EngineError
from gputop.model.snapshot import Snapshot
from gputop.stream.frames import Frame, apply
from gputop.stream.socket import Connection, attach
from tests.lab.accounts import ids
from tests.lab.lab import Lab

PERIOD = 2.0


class Follower:
    """The stream as a screen sees it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.snap = Snapshot()
        self.frames: list[Frame] = []
        self._moved = asyncio.Event()
        self._task = asyncio.ensure_future(self._listen())

    async def _listen(self) -> None:
        async for frame in self._connection.frames():
            self.snap = apply(self.snap if self.snap.time else None, frame)
            self.frames.append(frame)
            self._moved.set()

    async def until(self, what: str, check: Callable[[Snapshot], bool], seconds: float = 20.0) -> Snapshot:
        """The first snapshot for which check holds."""
        deadline = asyncio.get_running_loop().time() + seconds
        while not check(self.snap):
            left = deadline - asyncio.get_running_loop().time()
            self._moved.clear()
            try:
                await asyncio.wait_for(self._moved.wait(), max(0.0, left))
            except TimeoutError:
                raise AssertionError(f"waited {seconds:.0f} s for {what}") from None
        return self.snap

    async def propose(self, intent: Intent) -> Proposal:
        """The card for an intent."""
        card_id = secrets.token_hex(4)
        await self._connection.send(Propose(id=card_id, intent=intent))
        snap = await self.until(f"a card for {intent}", lambda snap: card_id in snap.proposals)
        return snap.proposals[card_id]

    async def approve(self, card: Proposal, typed: str = "") -> None:
        await self._connection.send(Approve(proposal=card.id, typed=typed))

    async def act(self, intent: Intent, typed: str = "", seconds: float = 90.0) -> Action:
        """Proposes, approves, and waits for the end."""
        card = await self.propose(intent)
        assert not card.refusals, card.refusals
        await self.approve(card, typed)
        snap = await self.until(
            f"the end of {intent}", lambda s: card.id in s.actions and not s.actions[card.id].open, seconds
        )
        return snap.actions[card.id]

    async def vanish(self) -> None:
        """Goes without a word, as a killed screen does."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._connection._writer.transport.abort()

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._connection.close()


def configure(home: Path, person: str, text: str) -> None:
    """Writes a configuration into somebody's home."""
    folder = home / ".config/gputop"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(text)
    if person != "root":
        for path in (home / ".config", folder, folder / "config.toml"):
            os.chown(path, *ids(person))


def start_engine(lab: Lab, person: str = "root", *, jump: bool = False) -> "subprocess.Popen[bytes]":
    """The engine's own command, as a screen runs it."""
    who: dict[str, object] = {}
    if person != "root":
        uid, gid = ids(person)
        who = {"user": uid, "group": gid, "extra_groups": os.getgrouplist(person, gid)}
    with (lab.base / "engine.log").open("ab") as log:
        return subprocess.Popen(  # type: ignore[call-overload,no-any-return]
            [sys.executable, "-m", "gputop.engine", "--cluster", lab.slurm.cluster],
            env=lab.env(person, jump=jump),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd="/",
            **who,
        )


async def connect(lab: Lab, person: str = "root", *, jump: bool = False) -> Follower:
    """Attaches to the engine of somebody's home."""
    state = lab.home(person, jump=jump) / ".local/state/gputop"
    for _ in range(200):
        for path in state.glob("*/engine.sock"):
            try:
                return Follower(await attach(path))
            except EngineError:
                continue
        await asyncio.sleep(0.05)
    raise AssertionError(f"no engine in {state}")


@asynccontextmanager
async def engine(lab: Lab, person: str = "root", *, jump: bool = False, more: str = "") -> AsyncIterator[Follower]:
    """A running engine with short periods, and its follower; both end."""
    text = f"[clusters.{lab.slurm.cluster}]\nperiod = {PERIOD}\nslurm_period = 2\n{more}\n"
    configure(lab.home(person, jump=jump), person, text)
    process = start_engine(lab, person, jump=jump)
    follower: Follower | None = None
    try:
        follower = await connect(lab, person, jump=jump)
        yield follower
    finally:
        if follower is not None:
            await follower.close()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
