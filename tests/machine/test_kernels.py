"""Times of blocks that are a table: by hand, at both fidelity levels, and below every bound."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import Case, small_design

from carsim.account.totals import PhaseTotals
from carsim.base.errors import InputError
from carsim.design import Design, override
from carsim.hardware.kernels import KernelTime
from carsim.hardware.schedule import SCHEDULES
from carsim.machine.arrays import MachineArrays
from carsim.machine.hardware import Hardware, structure_of
from carsim.machine.kernels import KernelTable, cycles_of
from carsim.machine.phases import Phases
from carsim.program.decoder import Mlp
from carsim.workload.geometry import Video
from carsim.workload.ops import Category

VIDEO = Video(2, 4, 1)
DESIGN = small_design()
LAYERS = DESIGN.model.body.n_layers
BATCH = DESIGN.policy.batch
CLOCK_MHZ = DESIGN.board.fabric_clock_mhz
LAYER_STEPS = VIDEO.n_steps * LAYERS
ELIGIBLE_LAYER_STEPS = (VIDEO.n_steps - VIDEO.tokens_per_frame) * LAYERS
BLOCKS = ("qkv", "attention", "output", "mlp")
WORK = ("macs", "vector_ops", "sram_bytes", "dram_bytes")


def entry(block: str, rows: int, us: float, **fields: Any) -> dict[str, Any]:
    """One measured time of a table."""
    return {"block": block, "rows": rows, "us": us, **fields}


MLP = [entry("mlp", 1, 10.0), entry("mlp", 2, 26.0)]


def with_kernels(kernels: list[dict[str, Any]], **machine: Any) -> Design:
    """The design with a table of times, and other fields of its machine."""
    changes = {f"machine.{name}": value for name, value in machine.items()}
    return override(DESIGN, {"machine.overheads.kernels": kernels, **changes})


def totals(design: Design, replay: Any = None, fidelity: str = "fluid", schedule: str = "static"):
    case = Case(design, VIDEO, schedule=schedule, replay=replay, fidelity=fidelity)
    return case.simulate().totals


def undispatched(total: PhaseTotals) -> int:
    """Cycles without those in which cores wait for the dispatcher."""
    return total.cycles - total.times[Category.DRS]


def nobody() -> np.ndarray:
    """Decisions under which no row replays."""
    return np.zeros((1, VIDEO.n_steps, LAYERS, BATCH), np.bool_)


def replaying(rows: Any) -> np.ndarray:
    """Decisions under which some rows replay in all layer-steps after the first frame."""
    replay = nobody()
    replay[:, VIDEO.tokens_per_frame :, :, rows] = True
    return replay


@pytest.mark.parametrize("fidelity", ["fluid", "tile"])
@pytest.mark.parametrize("sharing", ["private", "broadcast"])
def test_a_block_takes_the_time_of_its_rows_on_the_fullest_core(
    fidelity: str, sharing: str
) -> None:
    design = with_kernels(MLP, weight_sharing=sharing)
    dense = totals(design, nobody(), fidelity)
    bare = totals(with_kernels([], weight_sharing=sharing), nobody(), fidelity)
    assert BATCH == 4
    assert design.machine.cores == 2
    assert undispatched(dense["mlp"]) == LAYER_STEPS * 26 * CLOCK_MHZ
    for name in ("qkv", "attention", "output", "head", "prefill"):
        assert dense[name].cycles == bare[name].cycles
    # Rows 0 and 2 are of the first core: it computes one row less, and the other core is fullest.
    without_one_row = totals(design, replaying([0]), fidelity)["mlp"]
    assert undispatched(without_one_row) == undispatched(dense["mlp"])
    # Without row 1, the second core has one row left as well: 10 us instead of 26.
    without_two_rows = totals(design, replaying([0, 1]), fidelity)["mlp"]
    saved = ELIGIBLE_LAYER_STEPS * (26 - 10) * CLOCK_MHZ
    assert undispatched(without_two_rows) == undispatched(dense["mlp"]) - saved


@pytest.mark.parametrize("fidelity", ["fluid", "tile"])
def test_gathering_and_adding_take_their_own_time(fidelity: str) -> None:
    mlp_alone = with_kernels(MLP, weight_sharing="private")
    gather_and_add = [entry("gather", 1, 3.0), entry("replay", 1, 0.5)]
    with_both = with_kernels([*MLP, *gather_and_add], weight_sharing="private")

    one_row_of_each_core = replaying([0, 1])
    without = totals(mlp_alone, one_row_of_each_core, fidelity)["mlp"]
    gathered = totals(with_both, one_row_of_each_core, fidelity)["mlp"]
    added_cycles = undispatched(gathered) - undispatched(without)
    assert added_cycles == ELIGIBLE_LAYER_STEPS * (3.0 + 0.5) * CLOCK_MHZ

    # Nothing is gathered where nobody computes. One entry is a constant for any number of rows.
    all_rows = replaying(slice(None))
    without = totals(mlp_alone, all_rows, fidelity)["mlp"]
    added = totals(with_both, all_rows, fidelity)["mlp"]
    first_frame_us = VIDEO.tokens_per_frame * LAYERS * 26
    assert undispatched(added) == (first_frame_us + ELIGIBLE_LAYER_STEPS * 0.5) * CLOCK_MHZ
    for figure in WORK:
        assert getattr(added, figure) == getattr(without, figure)


# A tuned schedule is not among these: it assigns rows by the times of blocks.
@pytest.mark.parametrize("schedule", sorted({*SCHEDULES} - {"tuned"}))
def test_work_is_that_of_the_simulated_blocks(schedule: str) -> None:
    kernels = [entry(block, 1, 5.0) for block in BLOCKS]
    kernels += [entry("gather", 1, 1.0), entry("replay", 1, 1.0)]
    replay = replaying([1, 2])
    for sharing in ("private", "broadcast"):
        tabled = totals(with_kernels(kernels, weight_sharing=sharing), replay, schedule=schedule)
        bare = totals(with_kernels([], weight_sharing=sharing), replay, schedule=schedule)
        for phase, total in tabled.items():
            for figure in WORK:
                assert getattr(total, figure) == getattr(bare[phase], figure), (phase, figure)


def test_attention_takes_a_time_per_attended_token() -> None:
    kernels = [entry("attention", 1, 1.0, us_per_token=0.5)]
    attention = totals(with_kernels(kernels), nobody())["attention"]
    contexts = VIDEO.prompt_tokens + 1 + np.arange(VIDEO.n_steps)
    step_us = 1.0 + 0.5 * contexts
    assert attention.cycles == LAYERS * sum(step_us * CLOCK_MHZ)


def test_times_are_lines_between_entries() -> None:
    table = KernelTable.of(
        [
            KernelTime(block="mlp", rows=1, at_work=1, us=10.0),
            KernelTime(block="mlp", rows=3, at_work=1, us=30.0),
            KernelTime(block="mlp", rows=4, at_work=1, us=20.0),
            KernelTime(block="mlp", rows=1, at_work=4, us=40.0),
        ]
    )

    def us(rows: int, cores: int) -> float:
        return float(table.us("mlp", np.array(rows), np.array(cores)))

    assert [us(rows, 1) for rows in range(7)] == [0, 10, 20, 30, 20, 20, 20]  # never falls beyond
    assert us(1, 2) == 20  # a third of the way from one core to four
    assert us(1, 9) == 40
    assert us(3, 4) == 40  # a single entry is a constant
    # Three rows on one core of two: 30, but four rows take 20; with five rows, three or more.
    assert table.least_us("mlp", 5, 1).tolist() == [20]
    assert table.least_us("mlp", 5, 2).tolist() == [20]
    assert cycles_of(np.array(0.1), 30.0) == 3


@settings(max_examples=30, deadline=None)
@given(
    times_us=st.lists(st.integers(0, 60), min_size=BATCH, max_size=BATCH),
    rows=st.sets(st.integers(0, BATCH - 1)),
    schedule=st.sampled_from(sorted(SCHEDULES)),
    sharing=st.sampled_from(["private", "broadcast"]),
    mapping=st.sampled_from(["batch", "tensor", "heads", "hybrid"]),
    skips_attention=st.booleans(),
)
def test_no_phase_is_below_its_bound(
    times_us: list[int],
    rows: set[int],
    schedule: str,
    sharing: str,
    mapping: str,
    skips_attention: bool,
) -> None:
    kernels = [
        entry(block, n_rows, float(us))
        for block in BLOCKS
        for n_rows, us in enumerate(times_us, start=1)
    ]
    design = with_kernels(kernels, weight_sharing=sharing)
    if sharing == "broadcast":
        design = override(design, {"machine.mapping": mapping})
    if skips_attention:
        skip = {"policy.skip": {"kind": "attention_too"}, "machine.decision_at": "q"}
        design = override(design, skip)
    for fidelity in ("fluid", "tile"):
        simulated = totals(design, replaying(sorted(rows)), fidelity, schedule)
        for block in BLOCKS:
            assert simulated[block].bound_cycles <= simulated[block].cycles


def test_designs_that_differ_in_clock_are_simulated_together() -> None:
    slow = with_kernels(MLP)
    fast = override(slow, {"board.fabric_clock_mhz": 2 * CLOCK_MHZ})
    both = MachineArrays.of([Hardware(slow), Hardware(fast)])
    bound = Phases(both).bound(Mlp(follows="token"), BATCH)
    assert (bound.cycles[1] == 2 * bound.cycles[0]).all()
    assert structure_of(slow) != structure_of(DESIGN)


@pytest.mark.parametrize(
    ("overheads", "place"),
    [
        ({"kernels": [MLP[0], MLP[0]]}, "kernels.1"),
        ({"kernels": [entry("mlp", 1, 1.0, us_per_token=1.0)]}, "kernels.0.us_per_token"),
        ({"kernels": [entry("gather", 1, 1.0)]}, "kernels"),
        ({"kernels": MLP, "layer_us": 1.0}, "layer_us"),
        ({"kernels": [entry("head", 1, 1.0)]}, "kernels.0.block"),
    ],
)
def test_tables_that_make_no_sense_are_refused(overheads: dict[str, Any], place: str) -> None:
    with pytest.raises(InputError) as refused:
        override(DESIGN, {"machine.overheads": overheads})
    assert f"machine.overheads.{place}" in refused.value.place
