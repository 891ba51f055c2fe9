"""make screenshots: the demo on a bad night, the real screen on it, and a picture of each screen."""

import asyncio
import html
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from textual.pilot import Pilot

from gputop.demo.guide import Guide
from gputop.demo.live import Demo
from gputop.demo.scenario import load_scenario
from gputop.engine.launch import EngineFeed
from gputop.tui.app import GputopApp
from gputop.tui.themes import load_palette

INTO = Path(__file__).resolve().parent.parent / "screenshots"
SIZE = (132, 36)
WIDE = (200, 60)
FONT = "DejaVu Sans Mono"
PIXELS = 1320

Save = Callable[[str], None]


async def on_demo(scenario: str, nodes: int, size: tuple[int, int], walk: "Walk", seconds: float) -> None:
    """The screen on a running demo, after so many seconds of it."""
    demo = await asyncio.to_thread(Demo.start, scenario, nodes=nodes, seed=1)
    try:
        feed = EngineFeed(demo.chosen, demo.config, read_only=False, record=None)
        guide = Guide(load_scenario(scenario), demo.began)
        app = GputopApp(feed, read_only=False, palette=load_palette("dark"), guide=guide.line)

        def save(name: str) -> None:
            (INTO / f"{name}.svg").write_text(plain(app.export_screenshot(title="gputop")), encoding="utf-8")

        async with app.run_test(size=size) as pilot:
            await pilot.pause(seconds)
            await walk(pilot, save)
            await pilot.press("q")
    finally:
        await asyncio.to_thread(demo.close)


def plain(picture: str) -> str:
    """Without foreign fonts, and each word where it stands: renderers drop blanks, and most know no textLength."""
    picture = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL).replace("Fira Code", FONT)

    def words(text: re.Match[str]) -> str:
        before, x, y, length, after = text[1], float(text[2]), text[3], float(text[4]), text[5]
        signs = html.unescape(text[6])
        each = length / len(signs)
        return "".join(
            f'<text{before}x="{x + word.start() * each:.1f}" y="{y}" '
            f'textLength="{len(word[0]) * each:.1f}"{after}>{html.escape(word[0]).replace(" ", "&#160;")}</text>'
            for word in re.finditer(r"[^\xa0]+(?:\xa0[^\xa0]+)*", signs)
        )

    return re.sub(
        r'<text([^>]*? )x="([\d.]+)" y="([\d.]+)" textLength="([\d.]+)"([^>]*)>([^<]+)</text>', words, picture
    )


class Walk(Protocol):
    """Through the screens."""

    async def __call__(self, pilot: Pilot[int], save: Save) -> None: ...


async def night(pilot: Pilot[int], save: Save) -> None:
    """What an operator sees and does."""
    save("fleet")
    await pilot.press("slash", *"gpu0041", "enter", "enter")
    await pilot.pause(2)
    save("node")
    await pilot.press("d")
    await pilot.pause(1.5)
    save("card")
    await pilot.press("y")
    await pilot.pause(3)
    save("proof")
    await pilot.press("escape", "escape", "escape", "2")
    await pilot.pause(1)
    save("jobs")
    await pilot.press("slash", *"moe", "enter", "enter")
    await pilot.pause(3)
    save("job")
    await pilot.press("escape", "question_mark")
    await pilot.pause(0.5)
    save("help")
    await pilot.press("escape")


async def guided(pilot: Pilot[int], save: Save) -> None:
    save("demo")


async def large(pilot: Pilot[int], save: Save) -> None:
    await pilot.press("m", "m", "m")
    await pilot.pause(2)
    save("large")


def main() -> int:
    INTO.mkdir(exist_ok=True)
    asyncio.run(on_demo("guided", 64, SIZE, guided, 18))
    asyncio.run(on_demo("night", 64, SIZE, night, 60))
    asyncio.run(on_demo("unreachable", 2048, WIDE, large, 45))
    convert = shutil.which("rsvg-convert")
    if convert is None:
        print("no PNGs: install rsvg-convert (Debian: librsvg2-bin)", file=sys.stderr)
        return 1
    for picture in sorted(INTO.glob("*.svg")):
        subprocess.run([convert, "-w", str(PIXELS), picture, "-o", picture.with_suffix(".png")], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
