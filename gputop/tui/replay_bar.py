"""Where a replay is: position, speed, paused or not."""

import time

from rich.text import Text

from gputop.stream.feed import ReplayFeed
from gputop.tui.static_text import StaticText
from gputop.tui.themes import Palette


class ReplayBar(StaticText):
    """One line, there only in a replay."""

    DEFAULT_CSS = "ReplayBar { height: 1; padding: 0 1; display: none; } ReplayBar.shown { display: block; }"

    def __init__(self, palette: Palette) -> None:
        super().__init__(fixed=True)
        self._palette = palette

    def show(self, replay: ReplayFeed | None) -> None:
        self.set_class(replay is not None, "shown")
        if replay is None:
            return
        whole = max(0.001, replay.end - replay.start)
        part = (replay.position - replay.start) / whole
        room = max(10, self.size.width - 46)
        at = min(room - 1, int(part * room))
        text = Text()
        text.append(clock(replay.position), self._palette["title"])
        text.append(f"  {clock(replay.start)} ", self._palette["dim"])
        text.append("━" * at, self._palette["accent"])
        text.append("●", self._palette["key"])
        text.append("─" * (room - at - 1), self._palette["dim"])
        text.append(f" {clock(replay.end)}  ", self._palette["dim"])
        text.append(
            "paused" if replay.paused else f"{replay.speed:g}×", self._palette["warn" if replay.paused else "ok"]
        )
        self.put(text)


def clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))
