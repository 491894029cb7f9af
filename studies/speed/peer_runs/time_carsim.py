"""Time carsim on what its peers are asked; runs in carsim's environment, prints one JSON line.

The design and the decisions are those of ``points.py``. A *step* is that at a context of 1,024, all
32 layers; its hardware is made anew from the design each time. Every work is done once to warm up.
"""

import itertools
import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

begun = time.perf_counter()
sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np  # noqa: E402
from points import Point, make_point, run_point  # noqa: E402

from carsim.design import Array, override  # noqa: E402
from carsim.machine.product import product  # noqa: E402
from carsim.validate.peers import PEERS  # noqa: E402
from carsim.workload.ops import Gemm  # noqa: E402

import_s = time.perf_counter() - begun
CONTEXT = 1024
SHAPES = (4096, 11008)


def one_step(point: Point) -> Point:
    """Its step at :data:`CONTEXT`."""
    step = CONTEXT - 1 - point.video.prompt_tokens
    return replace(point, steps=(step,), batches=point.batches.part(np.array([step])))


def designs(point: Point) -> list[Point]:
    """100 of ten arrays and ten bandwidths."""
    rates = "board.memories.ps_ddr.ports.controller_gbps"
    return [
        replace(
            point,
            design=override(point.design, {"machine.array.cols": cols, rates: 4 + 0.5 * width}),
        )
        for cols, width in itertools.product(range(8, 28, 2), range(10))
    ]


def products() -> int:
    """Cycles of the two products of one token by the rule that carsim knows ZigZag by."""
    array = Array.model_validate(
        {"rows": 32, "cols": 32, "dataflow": "weight_stationary", "weight_load": "none"}
    )
    supply = PEERS["zigzag"].supply
    return sum(product(array, Gemm(1, 4096, outputs), supply).total_cycles for outputs in SHAPES)


def main() -> None:
    """Measure all of it."""
    eight, single = make_point(), make_point(batch=1)
    layers = eight.batches.replay.shape[2]

    def swept(points: list[Point]) -> None:
        for point in points:
            run_point(point)

    works: dict[str, tuple[Callable[[], object], int]] = {
        "carsim_products": (products, 1000),
        "carsim_layer_1": (lambda: run_point(one_step(single), plainly=True), 5),
        "carsim_layer_8": (lambda: run_point(one_step(eight), plainly=True), 5),
        "carsim_step": (lambda: run_point(one_step(eight)), 20),
        "carsim_video": (lambda: run_point(eight), 10),
        "carsim_sweep_steps": (lambda: swept(designs(one_step(eight))), 1),
        "carsim_sweep_videos": (lambda: swept(designs(eight)), 1),
    }
    runs = {}
    for name, (work, repeats) in works.items():
        work()
        cpu = time.process_time()
        for _ in range(repeats):
            work()
        runs[name] = {"cpu_s": (time.process_time() - cpu) / repeats}
    runs["carsim_products"]["cycles"] = products()
    runs["carsim_step_plainly"] = dict(runs["carsim_layer_8"])
    for name in ("carsim_layer_1", "carsim_layer_8"):
        runs[name]["cpu_s"] /= layers
    print(json.dumps({"version": version("carsim"), "import_s": import_s, "runs": runs}))


if __name__ == "__main__":
    main()
