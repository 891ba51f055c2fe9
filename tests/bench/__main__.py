"""make bench: prints the figure of every budget as tables, and how it was measured; --json FILE keeps the figures.

Engines and screens are real processes. Clusters are simulated ones (real SSH servers, one simulator process on this
machine) at several sizes, and a lab (real Slurm, probes and sshds, NVML faked) at a small one.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from gputop.demo.live import Demo
from tests.bench.engine_cost import measure
from tests.bench.instead import instead_figures
from tests.bench.scale_cost import as_on_a_real_cluster, scale_figures
from tests.bench.screen_cost import THEME, gputop_on, screen_figures
from tests.bench.stream_cost import stream_figures
from tests.lab.needs import missing

Figures = dict[str, float | str]
READABLE = 0.92
"""In the scenario "unreachable" 5 % time out, 2 % deny, 1 % hang: so many can be read."""


def start_up() -> Figures:
    """The command line's own weight."""
    gputop = str(Path(sys.executable).parent / "gputop")
    times = []
    for _ in range(5):
        began = time.perf_counter()
        subprocess.run([gputop, "--help"], check=True, capture_output=True)
        times.append(time.perf_counter() - began)
    return {"gputop --help, s (budget 0.2)": round(sorted(times)[2], 3)}


def with_demo(nodes: int) -> tuple[Figures, Figures]:
    """(the screen, what people do instead) on one simulated cluster."""
    demo = Demo.start("quiet", nodes=nodes, seed=1)
    try:
        as_on_a_real_cluster(demo, f'[screen]\ntheme = "{THEME}"\n')
        instead = instead_figures(demo.folder / "ssh_config", f"gpu[0001-{nodes:04}]", nodes)
        screen = screen_figures(gputop_on(demo.config), [f"gpu{k + 1:04}" for k in range(nodes)])
    finally:
        demo.close()
    return screen, instead


def table(title: str, columns: Mapping[str, Figures]) -> None:
    """Rows by name, a column for each size."""
    names = list(dict.fromkeys(name for figures in columns.values() for name in figures))
    width = max(len(name) for name in names)
    cells = {key: [str(figures.get(name, "")) for name in names] for key, figures in columns.items()}
    widths = {key: max(len(key), *map(len, column)) for key, column in cells.items()}
    print(f"\n{title}")
    print("  " + " " * width + "".join(f"  {key:>{widths[key]}}" for key in columns))
    for k, name in enumerate(names):
        print(f"  {name:<{width}}" + "".join(f"  {cells[key][k]:>{widths[key]}}" for key in columns))
    sys.stdout.flush()


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    options.add_argument("--json", type=Path)
    options.add_argument("--nodes", default="64,512,2048", help="sizes of simulated clusters")
    options.add_argument("--lab", default="16", help="sizes of labs")
    arguments = options.parse_args()
    sizes = [int(size) for size in arguments.nodes.split(",")]
    print(f"{os.cpu_count()} cores; load when it began: {os.getloadavg()[0]:.2f}")
    kept: dict[str, Mapping[str, Figures]] = {}

    def show(title: str, columns: Mapping[str, Figures]) -> None:
        kept[title] = columns
        table(title, columns)

    show("start-up", {"": start_up()})
    show("frames in memory, noise made up", {"2048 nodes": stream_figures(2048)})
    show(
        "an engine on simulated clusters; simulator and reader share this machine",
        {f"{size} nodes": asyncio.run(scale_figures(size)) for size in sizes},
    )
    largest = max(sizes)
    show(
        "the same where 5 % of the nodes time out, 2 % deny the login and 1 % have a hung driver",
        {f"{largest} nodes": asyncio.run(scale_figures(largest, "unreachable", READABLE))},
    )
    both = {f"{size} nodes": with_demo(size) for size in sizes}
    show("the screen, 200x60, through a pseudo-terminal", {size: figures for size, (figures, _) in both.items()})
    show("instead, on the same clusters", {size: figures for size, (_, figures) in both.items()})
    if why := missing():
        print(f"no lab here, so no figures of a real Slurm and of probes: {why}", file=sys.stderr)
    else:
        labs = {f"{size} nodes": asyncio.run(measure(int(size))) for size in arguments.lab.split(",")}
        show("an engine on a lab: real Slurm, sshds and probes, NVML faked", labs)
    if arguments.json:
        arguments.json.write_text(json.dumps(kept, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
