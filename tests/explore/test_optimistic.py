"""Optimistic figures of boxes: no machine of a box is better, cheaper or smaller."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from carsim.base.errors import InputError
from carsim.explore.bench import Bench
from carsim.explore.optimistic import Box, Optimist
from carsim.explore.possible import Interval, could_hold, limits_of
from carsim.explore.space import BATCH, Space, spaces_of
from carsim.explore.target import all_of
from carsim.workload.workload import workload_of

WORKLOADS = (
    ("text:300+4", "tinyllama_1b"),
    ("video:2,replay=0.5", "vila_u_7b"),
    ("diffusion:wan2.1_1.3b,64x96,frames=5,steps=4,every=2", "wan2.1_1.3b"),
    ("chunks:longlive_1.3b,64x96,chunks=3", "longlive_1.3b"),
    ("image:depth_anything_v2_small,70x98", "depth_anything_v2_small"),
)
BOARDS = ("asic_7nm_lpddr5x", "zcu102", "u280", "vck190")


class Benches:
    """A bench, an optimist and a space by workload and board, made once."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, str], tuple[Space, Bench, Optimist]] = {}

    def of(self, workload: str, model: str, board: str) -> tuple[Space, Bench, Optimist]:
        key = workload, board
        if key not in self._made:
            work = workload_of(workload)
            (space,) = spaces_of([board], model, workload=work)
            bench = Bench(work)
            self._made[key] = space, bench, Optimist(bench)
        return self._made[key]


BENCHES = Benches()


def drawn(draw: Any, values: Sequence[Any]) -> int:
    return draw(st.integers(0, len(values) - 1))


@st.composite
def boxes(draw: Any) -> tuple[str, str, str, dict[str, Any], list[tuple[int, int, int]]]:
    """A space, kinds, and of each axis of sizes the ends of a box and a place within it."""
    workload, model = draw(st.sampled_from(WORKLOADS))
    board = draw(st.sampled_from(BOARDS))
    space, _, _ = BENCHES.of(workload, model, board)
    kinds = {axis.name: draw(st.sampled_from(axis.values)) for axis in space.kinds}
    if workload.startswith(("video", "diffusion")):
        kinds[BATCH] = max(2, kinds[BATCH])
    places = []
    for axis in space.sizes:
        first, place, last = sorted(drawn(draw, axis.values) for _ in range(3))
        places.append((first, place, last))
    return workload, model, board, kinds, places


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(boxes())
def test_no_machine_of_a_box_is_better_than_its_optimistic_figures(
    drawn_box: tuple[str, str, str, dict[str, Any], list[tuple[int, int, int]]],
) -> None:
    workload, model, board, kinds, places = drawn_box
    space, bench, optimist = BENCHES.of(workload, model, board)
    values = dict(kinds)
    for axis, (_, place, _) in zip(space.sizes, places, strict=True):
        values[axis.name] = axis.values[place]
    try:
        fitted = bench.fitted(space.design(values))
    except InputError:
        return  # such a machine does not exist
    (measured,) = bench.measure([fitted])
    assert not isinstance(measured, InputError)
    box = Box(space, kinds, tuple((first, last) for first, _, last in places)).trimmed()
    assert box is not None
    assert not (fitted.fit.fits and optimist.lacks(box))
    intervals = {**optimist.costs(box), **optimist.times(box), **optimist.joules(box)}
    assert {"latency_s", "first_token_s", "tokens_per_s", "cost_usd"} <= intervals.keys()
    for name, (low, high) in intervals.items():
        figure = measured.figures.get(name)
        if figure is not None:
            assert low <= figure * (1 + 1e-9), name
            assert figure <= high * (1 + 1e-9), name


def test_optimistic_times_are_near_the_simulated_ones_where_a_memory_is_the_limit() -> None:
    space, bench, optimist = BENCHES.of(*WORKLOADS[0], "zcu102")
    kinds = {BATCH: 1, "machine.cores": 1, "machine.mapping": "batch"}
    kinds["memory"] = space.axes["memory"].values[0]
    wanted = {"machine.array.rows": 64, "machine.array.cols": 64, "machine.tile_kib": 64}
    sizes = {axis.name: wanted.get(axis.name, axis.values[-1]) for axis in space.sizes}
    places = [axis.values.index(sizes[axis.name]) for axis in space.sizes]
    (measured,) = bench.measure([bench.fitted(space.design({**kinds, **sizes}))])
    least = optimist.times(Box(space, kinds, tuple((n, n) for n in places)))["ms_per_token"].low
    assert not isinstance(measured, InputError)
    assert 0.95 * measured.figures["ms_per_token"] < least


@pytest.mark.parametrize(
    ("condition", "intervals", "is_possible"),
    [
        ("a < 2", {"a": Interval(2, 3)}, False),
        ("a <= 2", {"a": Interval(2, 3)}, True),
        ("a >= 4", {"a": Interval(2, 3)}, False),
        ("not a >= 2", {"a": Interval(2, 3)}, False),
        ("a == 5", {"a": Interval(2, 3)}, False),
        ("a != 5", {"a": Interval(2, 3)}, True),
        ("a < 2 or b > 1", {"a": Interval(2, 3)}, True),
        ("a < 2 or b > 1", {"a": Interval(2, 3), "b": Interval(0, 1)}, False),
        ("1 < a < 2", {"a": Interval(2, 3)}, False),
        ("a * b <= 5", {"a": Interval(2, 3), "b": Interval(3, 4)}, False),
        ("a / b <= 0.4", {"a": Interval(2, 3), "b": Interval(3, 4)}, False),
        ("a / b <= 0.5", {"a": Interval(2, 3), "b": Interval(3, 4)}, True),
        ("a / b <= 0.5", {"a": Interval(2, 3), "b": Interval(-3, 4)}, True),
        ("a - b >= 1", {"a": Interval(2, 3), "b": Interval(3, 4)}, False),
        ("-a >= -1", {"a": Interval(2, 3)}, False),
        ("min(a, 1) > 2", {"a": Interval(2, 3)}, True),  # unknown: not ruled out
        ("a in (1, 5)", {"a": Interval(2, 3)}, True),
    ],
)
def test_conditions_over_intervals(
    condition: str, intervals: dict[str, Interval], is_possible: bool
) -> None:
    assert could_hold(all_of([condition]), intervals) == is_possible


def test_limits_are_read_from_both_sides() -> None:
    limits = limits_of(all_of(["20 >= latency_s", "frames_per_s > 2 or busy > 1"]))
    assert [(each.name, each.is_most, each.number) for each in limits] == [("latency_s", True, 20)]
