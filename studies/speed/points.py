"""Measure one design point in a process of its own; prints one JSON line.

    python studies/speed/points.py [--frames 8] [--batch 8] [--layers 32] [--cores 4]
                                   [--fidelity fluid] [--steps N] [--plainly] [--repeat 1]

The point is FastCar + DRS with dense attention on ``configs/zcu102_16gb.yaml``: broadcast weights,
64 KiB tiles, bound by DDR. Decisions are those of the trace, resampled where it has too few frames
or rows. Measured is what happens after loading: hardware, phases and sums, the least of the
repeats; ``first_wall_s`` and ``first_cpu_s`` are the same with the search for the DRAM's schedule,
which happens once in a process.
``--plainly`` takes the phases of all layer-steps one after the other and remembers none.
"""

import argparse
import json
import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from carsim.decisions.attention import PLAIN
from carsim.decisions.replay import FASTCAR
from carsim.decisions.trace import captured, load_trace, resample
from carsim.design import Design, load_design, override
from carsim.machine.batches import Batches, make_batches
from carsim.machine.hardware import Hardware
from carsim.machine.phases import Phases
from carsim.machine.plan import Plan
from carsim.machine.simulate import LAYER_PHASES, Simulation, simulate, simulate_plainly
from carsim.workload.geometry import Video

ROOT = Path(__file__).resolve().parents[2]
SEED = 0


@dataclass(frozen=True)
class Point:
    """What is simulated: a design, a video, and the decisions of one batch of it."""

    design: Design
    video: Video
    batches: Batches
    steps: Sequence[int]
    fidelity: str

    @property
    def layer_steps(self) -> int:
        """Layer-steps of the batch; a layer-step is all its sequences in one layer at one token."""
        return int(np.prod(self.batches.replay.shape[:3]))


def make_point(
    *,
    frames: int = 8,
    batch: int = 8,
    layers: int = 32,
    cores: int = 4,
    steps: int | None = None,
    fidelity: str = "fluid",
    trace: Path = ROOT / "traces" / "vilau_8f.npz",
) -> Point:
    """A point of the benchmark.

    Args:
        frames: Of the video.
        batch: Sequences in lockstep.
        layers: Of the model, at most those of the trace.
        cores: Of the machine.
        steps: Take so many steps, spread evenly over the video, instead of all.
        fidelity: ``fluid`` or ``tile``.
        trace: Where decisions come from.
    """
    design = override(
        load_design(ROOT / "configs" / "zcu102_16gb.yaml"),
        {"policy.batch": batch, "model.body.n_layers": layers, "machine.cores": cores},
    )
    loaded = load_trace(trace)
    decisions = replace(captured(loaded), pairs=())  # so that a batch may be odd
    decisions = resample(
        decisions,
        np.random.default_rng(SEED),
        tokens_per_frame=loaded.tokens_per_frame,
        n_rows=max(batch, decisions.n_rows),
        n_frames=max(frames, loaded.n_frames),
    )
    video = Video(frames, loaded.tokens_per_frame, loaded.prompt_tokens)
    taken = np.arange(video.n_steps)
    if steps is not None:
        taken = np.unique(np.linspace(0, video.n_steps - 1, steps).astype(int))
    kept = replace(decisions, replay=decisions.replay[taken][:, :layers])
    whole = make_batches(kept, batch)
    one = replace(whole, replay=np.ascontiguousarray(whole.replay[:1]))
    return Point(design, video, one, tuple(taken.tolist()), fidelity)


def run_point(point: Point, *, plainly: bool = False) -> Simulation:
    """Simulate a point from nothing; ``plainly`` takes every phase of every layer-step anew."""
    # With an observer, phases are not remembered.
    phases = Phases(Hardware(point.design), point.fidelity, _ignore if plainly else None)
    plan = Plan(phases, point.video, PLAIN, "drs", FASTCAR, point.steps)
    return (simulate_plainly if plainly else simulate)(plan, point.batches)


def _ignore(*_: object) -> None:
    """Observe nothing."""


def timed(work: Callable[[], object], repeat: int) -> dict[str, float]:
    """Least wall and processor seconds of several runs."""
    wall_s, cpu_s = [], []
    for _ in range(repeat):
        begun, cpu = time.perf_counter(), time.process_time()
        work()
        wall_s.append(time.perf_counter() - begun)
        cpu_s.append(time.process_time() - cpu)
    return {"wall_s": min(wall_s), "cpu_s": min(cpu_s)}


def main() -> None:
    """Measure what the arguments say."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name, default in {"frames": 8, "batch": 8, "layers": 32, "cores": 4}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--fidelity", default="fluid")
    parser.add_argument("--plainly", action="store_true")
    parser.add_argument("--repeat", type=int, default=1)
    options = parser.parse_args()
    given = vars(options)
    shape = ("frames", "batch", "layers", "cores", "steps", "fidelity")
    point = make_point(**{name: given[name] for name in shape})
    # The DRAM's schedule is found once in a process, so its time is added to one run only.
    schedule = timed(lambda: Hardware(point.design).paths, 1)
    results: list[Simulation] = []
    found = timed(lambda: results.append(run_point(point, plainly=options.plainly)), options.repeat)
    unique = results[-1].unique_phases
    first = {f"first_{name}": schedule[name] + seconds for name, seconds in found.items()}
    found |= first | {
        "layer_steps": point.layer_steps,
        "unique_phases": unique,
        "phases_taken": len(LAYER_PHASES) * point.layer_steps if options.plainly else unique,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
