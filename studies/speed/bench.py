"""How fast carsim is: one command, one table, figures measured in one run.

    python studies/speed/bench.py [--trace traces/vilau_8f.npz] [--repeat 3] [--json FILE]

Wall times are those of whole processes, start-up included, and the median of the repeats; machines
are noisy, so compare the ratios, which come from the same run. Memory is the peak resident set.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

POINT = """
import sys, time
from carsim.machine import run
from carsim.machine.compare import decisions_for, variants, video_of
from carsim.machine.batches import make_batches
from carsim.machine.memo import PhaseMemo
from carsim.machine.plan import Plan
from carsim.machine.simulate import simulate
from carsim.hw.hardware import Hardware
from carsim.spec import load_design
from carsim.trace import load_trace
from dataclasses import replace
design, trace = load_design("zcu102_16gb"), load_trace(sys.argv[1])
video = video_of(design, [trace])
variant = next(v for v in variants(design) if v.name == "FastCar + DRS")
decisions = decisions_for(design, variant, [trace], None)
batches = make_batches(decisions, design.policy.batch)
one = replace(batches, replay=batches.replay[:1])
def timed(steps, enabled):
    memo = PhaseMemo(Hardware(design), enabled)
    plan = Plan(memo.phases, video, variant.attention, variant.schedule, True, steps)
    part = replace(one, replay=one.replay[:, list(steps)])
    begun = time.perf_counter()
    simulation = simulate(plan, part, memo)
    return time.perf_counter() - begun, simulation, memo
"""

MEMOISED = (
    POINT
    + """
seconds, simulation, memo = timed(range(video.n_steps), True)
steps = one.replay[..., 0].size
print(seconds, steps, memo.simulated)
"""
)

PLAIN = (
    POINT
    + """
from carsim.machine.simulate import simulate_plainly
steps = range(0, video.n_steps, video.n_steps // 32)
memo = PhaseMemo(Hardware(design), False)
plan = Plan(memo.phases, video, variant.attention, variant.schedule, True, steps)
part = replace(one, replay=one.replay[:, list(steps)])
begun = time.perf_counter()
simulate_plainly(plan, part, memo)
print(time.perf_counter() - begun, part.replay[..., 0].size, memo.simulated)
"""
)


def process(arguments: list[str]) -> tuple[float, float, str]:
    """Wall seconds, peak resident MB and output of one process."""
    begun = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        output = child.stdout.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{arguments} ended with {child.returncode}")
    return time.perf_counter() - begun, usage.ru_maxrss / 1024, output


def median_process(arguments: list[str], repeat: int) -> dict[str, float]:
    """Median wall seconds and peak memory of several runs of one command."""
    runs = [process(arguments) for _ in range(repeat)]
    return {
        "wall_s": statistics.median(run[0] for run in runs),
        "peak_mb": max(run[1] for run in runs),
    }


def layer_steps(script: str, trace: str, repeat: int) -> dict[str, float]:
    """Layer-steps per second after loading, total and unique phases counted apart."""
    runs = [process(["-c", script, trace])[2].split() for _ in range(repeat)]
    seconds = statistics.median(float(run[0]) for run in runs)
    return {
        "simulate_s": seconds,
        "layer_steps": int(runs[0][1]),
        "phases_simulated": int(runs[0][2]),
        "layer_steps_per_s": int(runs[0][1]) / seconds,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trace", default="traces/vilau_8f.npz")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    run = ["-m", "carsim", "run", "configs/zcu102.yaml", "--trace", options.trace]
    found = {
        "carsim --help": median_process(["-m", "carsim", "--help"], options.repeat),
        "carsim run, six rows": median_process(run, options.repeat),
        "one design point, memoised": layer_steps(MEMOISED, options.trace, options.repeat),
        "one design point, unmemoised sample": layer_steps(PLAIN, options.trace, 1),
    }
    for name, figures in found.items():
        print(f"{name:36}", "  ".join(f"{key} {value:,.4g}" for key, value in figures.items()))
    ratio = (
        found["one design point, memoised"]["layer_steps_per_s"]
        / found["one design point, unmemoised sample"]["layer_steps_per_s"]
    )
    print(f"memoisation speeds a design point up {ratio:,.0f} times")
    if options.json:
        options.json.write_text(json.dumps(found | {"memoisation_ratio": ratio}, indent=1) + "\n")


if __name__ == "__main__":
    main()
