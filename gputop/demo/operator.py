"""A person who does what the scenario calls the right reaction, by the same commands as any reader of the engine."""

from collections.abc import Awaitable, Callable, Iterator

from gputop.demo.world import Happened
from gputop.model.actions import Intent, Kind, ProposalState
from gputop.model.clock import Clock
from gputop.model.commands import Approve, Command, Propose
from gputop.model.snapshot import Snapshot

NOTICE_SECONDS = 25.0
"""From a fault until the person has seen it and read the card's first line."""
PATIENCE_SECONDS = 60.0
"""How long a card that may not be approved yet is looked at."""


def intents(happened: Happened) -> Iterator[Intent]:
    """What the reactions of a diary line mean for its subjects, in order."""
    for reaction in happened.reaction:
        kind = Kind(reaction)
        for target in happened.nodes if kind.on_node else happened.jobs:
            exclude = happened.nodes if kind is Kind.REQUEUE_EXCLUDING else ()
            yield Intent(kind=kind, target=target, exclude=exclude, note=happened.kind)


class Operator:
    """Reacts to a diary, one line after the other."""

    def __init__(
        self,
        clock: Clock,
        send: Callable[[Command], Awaitable[None]],
        snap: Callable[[], Snapshot],
        notice: float = NOTICE_SECONDS,
    ) -> None:
        """notice: seconds from a fault until the person reacts."""
        self._notice = notice
        self._clock = clock
        self._send = send
        self._snap = snap
        self._cards = 0

    async def react(self, happened: Happened) -> None:
        """Proposes and approves each reaction, and waits for its end."""
        await self._clock.sleep(self._notice)
        for intent in intents(happened):
            self._cards += 1
            await self._act(f"operator-{self._cards}", intent)

    async def _act(self, card: str, intent: Intent) -> None:
        await self._send(Propose(id=card, intent=intent))
        gives_up = self._clock.now() + PATIENCE_SECONDS
        while self._clock.now() < gives_up:
            await self._clock.sleep(0.5)
            proposal = self._snap().proposals.get(card)
            if proposal is None or proposal.refusals:
                continue
            if proposal.state is not ProposalState.OPEN:
                return
            await self._send(Approve(proposal=card, typed=proposal.typed))
            break
        while (action := self._snap().actions.get(card)) is not None and action.open:
            await self._clock.sleep(0.5)
