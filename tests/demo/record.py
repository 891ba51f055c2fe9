"""python -m tests.demo.record [HISTORY…]: plays histories on a real Slurm and keeps what it prints as golden files."""

import json
import subprocess
import sys
import time
from pathlib import Path

from gputop.demo.slurm.records import JobSpec
from tests.demo.histories import HISTORIES, Done, Play
from tests.lab.accounts import OWNER
from tests.lab.lab import Lab
from tests.lab.needs import program

GOLDEN = Path(__file__).parent / "golden"
NODES = 4


class LabSide:
    """A lab as a Side."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab

    def submit(self, spec: JobSpec) -> str:
        options = ["-J", spec.name, "-N", str(spec.nodes), "-n", str(spec.nodes), "-t", str(int(spec.time_limit / 60))]
        flags = {
            f"--gpus-per-node={spec.gpus}": spec.gpus > 0,
            f"--array={spec.array}": bool(spec.array),
            f"--comment={spec.comment}": bool(spec.comment),
            f"--exclude={','.join(spec.exclude)}": bool(spec.exclude),
            f"--nodelist={','.join(spec.nodelist)}": bool(spec.nodelist),
            "--hold": spec.hold,
            "--requeue" if spec.requeue else "--no-requeue": True,
        }
        options += [flag for flag, wanted in flags.items() if wanted]
        trap = f"trap 'sleep {spec.ignore_term}; exit 0' TERM; " if spec.ignore_term else ""
        return self._lab.submit(*options, wrap=f"{trap}sleep {spec.seconds} & wait; exit {spec.exit_code}")

    def run(self, argv: tuple[str, ...]) -> Done:
        env = {**self._lab.slurm.env, "SLURM_TIME_FORMAT": "%s", "LC_ALL": "C.UTF-8"}
        done = subprocess.run([program(argv[0]), *argv[1:]], env=env, capture_output=True, text=True, timeout=90)
        return Done(done.returncode, done.stdout.replace(OWNER, "alice"), done.stderr)

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    def slurmd(self, node: str, *, up: bool) -> None:
        if up:
            self._lab.slurm.start_slurmd(node)
        else:
            self._lab.slurm.stop_slurmd(node)

    def now(self) -> float:
        return time.time()


def play_on_lab(name: str) -> list[dict[str, object]]:
    with Lab(NODES) as lab:
        lab.start()
        lab.rest()
        play = Play(LabSide(lab))
        HISTORIES[name](play)
        return play.notes


def main() -> int:
    GOLDEN.mkdir(exist_ok=True)
    for name in sys.argv[1:] or HISTORIES:
        notes = play_on_lab(name)
        (GOLDEN / f"{name}.json").write_text(json.dumps(notes, indent=1, ensure_ascii=False) + "\n")
        print(name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
