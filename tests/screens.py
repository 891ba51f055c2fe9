"""make screenshots: a lab with something wrong, the real screen on it, and a picture of each."""

import asyncio
import re
import sys
from pathlib import Path

from gputop.stream.feed import LiveFeed
from gputop.stream.socket import attach
from gputop.tui.app import GputopApp
from gputop.tui.themes import load_palette
from tests.lab.faults import FAULTS
from tests.lab.follow import configure, connect, start_engine
from tests.lab.lab import Lab
from tests.lab.needs import missing

INTO = Path(__file__).resolve().parent.parent / "screenshots"
SIZE = (132, 36)


def breakages(lab: Lab) -> None:
    """A night with a bit of everything."""
    for options in (["-N", "4", "-J", "llm-70b"], ["-N", "2", "-J", "vision"], ["--array=0-5%2", "-J", "sweep"]):
        lab.submit("--gpus-per-node=8", *options)
    lab.submit("--gpus-per-node=2", "-J", "notebook")
    lab.submit("--hold", "-J", "held")
    FAULTS["gpu-lost"](lab, "gpu0014", 5)
    FAULTS["xid-79"](lab, "gpu0014", 5)
    FAULTS["recovery-action"](lab, "gpu0011", 2)
    FAULTS["throttle"](lab, "gpu0003", 1)
    lab.ask("scontrol", "update", "nodename=gpu0012", "state=drain", "reason=bad fan, ticket 4711")


async def main() -> int:
    if why := missing():
        print(why, file=sys.stderr)
        return 1
    with Lab(16) as lab:
        lab.start()
        breakages(lab)
        configure(lab.home("root"), "root", f"[clusters.{lab.slurm.cluster}]\nperiod = 2\nslurm_period = 2\n")
        process = start_engine(lab)
        follower = await connect(lab)
        await follower.until("all nodes", lambda s: len(s.gpu_table) == 128, 60)
        FAULTS["nvml-hang"](lab, "gpu0016", 0)
        FAULTS["frozen"](lab, "gpu0015", 0)
        await asyncio.sleep(20)
        (path,) = (lab.home("root") / ".local/state/gputop").glob("*/engine.sock")
        await take(GputopApp(LiveFeed(await attach(path)), read_only=False, palette=load_palette("dark")))
        FAULTS["thawed"](lab, "gpu0015", 0)
        await follower.close()
        process.wait(20)
    return 0


async def take(app: GputopApp) -> None:
    """One picture a screen."""
    INTO.mkdir(exist_ok=True)
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause(12)

        def save(name: str) -> None:
            picture = re.sub(r"@font-face \{.*?\}\s*", "", app.export_screenshot(title="gputop"), flags=re.DOTALL)
            (INTO / f"{name}.svg").write_text(picture, encoding="utf-8")

        save("fleet")
        await pilot.press("enter")
        await pilot.pause(2)
        save("node")
        await pilot.press("escape")
        await pilot.pause(0.5)
        await pilot.press("d")
        await pilot.pause(1.5)
        save("card")
        await pilot.press("y")
        await pilot.pause(3)
        save("proof")
        await pilot.press("escape")
        await pilot.pause(0.5)
        await pilot.press("2")
        await pilot.pause(1)
        save("jobs")
        await pilot.press("enter")
        await pilot.pause(1)
        save("job")
        await pilot.press("escape")
        await pilot.pause(0.5)
        await pilot.press("question_mark")
        await pilot.pause(0.5)
        save("help")
        await pilot.press("escape")
        await pilot.pause(0.5)
        await pilot.press("q")


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
