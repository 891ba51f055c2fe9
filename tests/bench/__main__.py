"""make bench: brings labs up, runs a real engine on them, and prints a table; --json FILE keeps the figures."""

import argparse
import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path

from tests.bench.engine_cost import measure
from tests.bench.stream_cost import stream_figures
from tests.lab.needs import missing

Figures = dict[str, dict[str, float | str]]


def start_up() -> dict[str, float | str]:
    """The command line's own weight."""
    gputop = str(Path(sys.executable).parent / "gputop")
    times = []
    for _ in range(5):
        began = time.perf_counter()
        subprocess.run([gputop, "--help"], check=True, capture_output=True)
        times.append(time.perf_counter() - began)
    return {"gputop --help, s (budget 0.2)": round(sorted(times)[2], 3)}


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    options.add_argument("--json", type=Path)
    options.add_argument("--nodes", default="16,64")
    arguments = options.parse_args()
    figures: Figures = {"start-up": start_up(), "stream, 2,048 nodes, in memory": stream_figures(2048)}
    if why := missing():
        print(f"no lab here, so no engine figures: {why}", file=sys.stderr)
    else:
        for count in map(int, arguments.nodes.split(",")):
            figures[f"lab, {count} nodes (NVML is faked, fleet and engine share this machine)"] = asyncio.run(
                measure(count)
            )
    for title, rows in figures.items():
        print(f"\n{title}")
        for name, value in rows.items():
            print(f"  {name:<66} {value}")
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
