"""When an engine that a screen started may end."""

import pytest

from gputop.engine.lifetime import ABANDONED_SECONDS, UNATTENDED_SECONDS, Lifetime

T = 1000.0
NEW = Lifetime(started=T)


@pytest.mark.parametrize(
    ("life", "at", "open_actions", "over"),
    [
        pytest.param(NEW, T + UNATTENDED_SECONDS - 1, 0, False, id="waits for its first reader"),
        pytest.param(NEW, T + UNATTENDED_SECONDS + 1, 0, True, id="ends when nobody ever came"),
        pytest.param(NEW.joined(), T + 1e6, 0, False, id="stays while somebody reads"),
        pytest.param(NEW.joined().left(T, clean=True), T, 0, True, id="ends when the last reader says goodbye"),
        pytest.param(NEW.joined().left(T, clean=True), T, 1, False, id="stays while an action is open"),
        pytest.param(NEW.joined().left(T, clean=False), T + 800, 0, False, id="stays when the reader vanished"),
        pytest.param(
            NEW.joined().left(T, clean=False), T + ABANDONED_SECONDS + 1, 0, True, id="ends 15 minutes after that"
        ),
        pytest.param(
            NEW.joined().joined().left(T, clean=True), T + 1e6, 0, False, id="stays while another reader is there"
        ),
    ],
)
def test_lifetime(life: Lifetime, at: float, open_actions: int, over: bool) -> None:
    assert life.over(at, open_actions) is over
