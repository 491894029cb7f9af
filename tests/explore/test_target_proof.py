"""On small spaces, answer and proof of a search by target equal complete enumeration."""

from itertools import product
from typing import Any

import pytest

from carsim.base.errors import InputError
from carsim.explore.bench import Bench
from carsim.explore.space import Space
from carsim.explore.target import Answer, Wanted, all_of, search_target
from carsim.workload.workload import workload_of

SMALL: dict[str, tuple[Any, ...]] = {
    "policy.batch": (2,),
    "machine.cores": (1, 4),
    "machine.mapping": ("batch", "tensor"),
    "machine.array.rows": (16, 64),
    "machine.array.cols": (32,),
    "machine.vector.lanes": (32,),
    "machine.weight_buffer_kib": (64,),
    "machine.kv_buffer_kib": (64,),
    "machine.activation_buffer_kib": (64, 512),
    "machine.tile_kib": (32,),
    "board.fabric_clock_mhz": (1000.0,),
}
"""Sixteen machines for each choice of memory; cases change some axes."""

TEXT = ("text:64+4", "tinyllama_1b")
VIDEO = ("video:1", "vila_u_7b")

CASES = {
    "a chip for a prompt": (TEXT, "asic_7nm", "first_token_s <= 0.05", "cost_usd", {}),
    "a chip for a rate": (TEXT, "asic_7nm_lpddr5x", "tokens_per_s >= 300", "cost_usd", {}),
    "two conditions": (
        TEXT,
        "asic_16nm",
        "tokens_per_s >= 50 and first_token_s <= 0.1",
        "cost_usd",
        {},
    ),
    "the least energy": (
        TEXT,
        "asic_7nm",
        "tokens_per_s >= 60",
        "energy_per_video_j",
        {"machine.cores": (1, 2), "machine.array.rows": (32,)},
    ),
    "the least area": (TEXT, "asic_28nm", "first_token_s <= 0.4", "area_mm2", {}),
    "a board": (
        TEXT,
        "kv260",
        "tokens_per_s >= 20",
        "ms_per_token",
        {"board.fabric_clock_mhz": (250.0, 300.0)},
    ),
    "a chip for videos": (VIDEO, "asic_7nm_lpddr5x", "frames_per_s >= 0.5", "cost_usd", {}),
    "no prompt is as fast": (TEXT, "asic_7nm", "first_token_s <= 0.001", "cost_usd", {}),
    "no board fits the arrays": (
        TEXT,
        "zcu104",
        "tokens_per_s >= 5",
        "cost_usd",
        {"machine.array.rows": (256,), "machine.array.cols": (256,)},
    ),
    "no chip is as cheap": (
        TEXT,
        "asic_7nm_lpddr5x",
        "tokens_per_s >= 300 and cost_usd <= 5",
        "cost_usd",
        {},
    ),
    "no buffer is as small": (
        TEXT,
        "asic_7nm",
        "tokens_per_s >= 5",
        "cost_usd",
        {"machine.activation_buffer_kib": (1,)},
    ),
}


def wanted_of(case: str) -> Wanted:
    (workload, model), board, target, minimise, axes = CASES[case]
    return Wanted(
        workload_of(workload),
        all_of([target]),
        minimise=minimise,
        model=model,
        boards=(board,),
        axes={**SMALL, **axes},
    )


def enumerated(wanted: Wanted, space: Space) -> list[float]:
    """What is minimised, of every machine of a space that fits and reaches the target."""
    bench = Bench(wanted.workload)
    fitting = []
    for combination in product(*(axis.values for axis in space.axes.values())):
        values = dict(zip(space.axes, combination, strict=True))
        try:
            fitted = bench.fitted(space.design(values))
        except InputError:
            continue
        if fitted.fit.fits:
            fitting.append(fitted)
    reached = []
    for start in range(0, len(fitting), 64):
        for measured in bench.measure(fitting[start : start + 64]):
            assert not isinstance(measured, InputError)
            if measured.meets(wanted.target):
                reached.append(float(measured.figures[wanted.minimise]))
    return reached


@pytest.mark.parametrize("case", CASES)
def test_answer_and_proof_equal_complete_enumeration(case: str) -> None:
    wanted = wanted_of(case)
    answer = search_target(wanted)
    (space,) = answer.spaces
    assert answer.is_closed
    assert answer.size == space.size
    reached = enumerated(wanted, space)
    assert bool(reached) == (not case.startswith("no "))
    if not reached:
        assert answer.best is None
    else:
        assert answer.best is not None
        assert answer.best.value(wanted.minimise) == pytest.approx(min(reached), rel=1e-12)


def test_a_search_that_stops_early_claims_no_proof() -> None:
    answer: Answer = search_target(wanted_of("the least energy"), most_splits=0)
    assert not answer.is_closed
