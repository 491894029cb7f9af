"""Attention that alternates between space and time: work by hand, oracle, both rungs, bad input."""

from collections import Counter
from typing import Any

import pytest
from drawn_forwards import designs
from forward_oracle import ForwardOracle, Passing, passing
from hypothesis import given, settings
from plainly import simulate_plainly

from carsim import InputError, load_design, run
from carsim.account.simulation import simulate_policy
from carsim.decisions.attention import Dense
from carsim.design import Design, override
from carsim.design.load import for_work
from carsim.machine.arrays import MachineArrays
from carsim.machine.hardware import Hardware
from carsim.machine.lanes import operations_of
from carsim.machine.phases import FIDELITIES
from carsim.machine.plan import Plan
from carsim.program.diffusion import AttendGroups
from carsim.program.sample import forward_macs
from carsim.testing.networks import dense_batches, dense_plan
from carsim.validate.preset_counts import preset_model
from carsim.workload.forwards import forwards_of
from carsim.workload.ops import Share
from carsim.workload.workload import workload_of

WIDTH = 1152
PLACES = 30 * 54
FRAMES = 15
TOKENS = PLACES * FRAMES


def open_sora_on(**machine: Any) -> Design:
    """Open-Sora 1.2, one row of a forward of 15 latent frames at 480 x 864, on a ZCU102."""
    design = for_work(load_design("zcu102"), workload_of("diffusion:open_sora1.2_1.1b,passes=1"))
    return override(design, {f"machine.{name}": value for name, value in machine.items()})


def plan_of(design: Design, fidelity: str = "fluid") -> Plan:
    """The plan of a design's sample."""
    return dense_plan(design, Dense(), fidelity)


def test_products_of_a_forward_by_hand() -> None:
    macs = forward_macs(preset_model("open_sora1.2_1.1b"))
    # Scores and sums: half of the layers over a latent frame, half over the frames of a place.
    assert macs["attention"] == 28 * 2 * TOKENS * (PLACES + FRAMES) * WIDTH
    assert macs["qkv"] == 56 * TOKENS * 3 * WIDTH**2
    assert macs["output"] == 56 * TOKENS * WIDTH**2
    assert macs["cross"] == 56 * TOKENS * (2 * WIDTH**2 + 2 * 300 * WIDTH)
    assert macs["mlp"] == 56 * TOKENS * 2 * WIDTH * 4608


def test_a_frame_of_oasis_takes_ten_forwards_of_its_window() -> None:
    model = preset_model("oasis_500m")
    macs = forward_macs(model)
    width, frames, places = 1024, 32, 144
    tokens = frames * places
    assert macs["qkv"] + macs["output"] == 32 * tokens * 4 * width**2
    assert macs["mlp"] == 32 * tokens * 8 * width**2
    assert macs["attention"] == 16 * 2 * tokens * (places + frames) * width
    # Each of 32 layers modulates every frame by a product of its own.
    assert macs["modulation"] == 32 * frames * 6 * width**2
    # The action and the time of a frame, its patches, and a modulation before the last product.
    assert sum(macs.values()) == pytest.approx(1.8892e12, rel=1e-4)
    forwards = forwards_of(model.sample)  # type: ignore[arg-type]
    assert [forward.frames for forward in forwards[::10]] == [*range(1, 33), *[32] * 32]
    assert model.network.pixel_frames(model.sample) == 64  # type: ignore[union-attr,arg-type]


@pytest.mark.parametrize(
    ("group", "tiles"),
    [
        (PLACES, 5),  # 1,620 queries of a latent frame in tiles of 382
        (FRAMES, 1),
    ],
)
def test_keys_of_a_group_stream_once_for_each_tile_of_its_queries(group: int, tiles: int) -> None:
    design = open_sora_on(query_tile=382, cores=1)
    machine = MachineArrays.of([Hardware(design)])
    (op,) = operations_of(machine, AttendGroups(tokens=TOKENS, group=group), None)(Share(TOKENS))
    assert op.stream_bytes == tiles * 2 * TOKENS * WIDTH
    assert op.exponentials == 16 * TOKENS * group


def test_groups_are_products_of_their_own() -> None:
    machine = MachineArrays.of([Hardware(open_sora_on(cores=1))])
    block = AttendGroups(tokens=TOKENS, group=FRAMES)
    (op,) = operations_of(machine, block, None)(Share(TOKENS))
    scores, sums = op.gemms
    assert (scores.m, scores.k, scores.n, scores.copies) == (FRAMES, 72, FRAMES, 16 * PLACES)
    assert (sums.m, sums.k, sums.n, sums.copies) == (FRAMES, FRAMES, 72, 16 * PLACES)


# ------------------------------------------------------------------ drawn networks


@given(design=designs(("alternating",)))
@settings(max_examples=30)
def test_work_of_a_forward_equals_the_oracle(design: Design) -> None:
    activity = simulate_policy(plan_of(design), dense_batches(design)).decode_activity
    sample = design.model.sample
    assert sample is not None
    forwards: list[Passing | None] = [None] * sample.forwards
    if sample.chunk_frames is not None:
        forwards = list(passing(sample))
    counted: Counter[str] = Counter()
    for forward in forwards:
        counted += ForwardOracle(design).forward(forward)
    assert activity.macs == counted["macs"]
    assert sum(activity.dram_bytes.values()) == counted["bytes"]


@given(design=designs(("alternating",)))
@settings(max_examples=10)
def test_forwards_one_after_the_other_give_the_same(design: Design) -> None:
    plan = plan_of(design)
    together = simulate_policy(plan, dense_batches(design))
    plainly = simulate_plainly(plan, dense_batches(design))
    assert together.cycles == plainly.cycles
    assert together.activity == plainly.activity
    assert together.cycles >= together.bound_cycles


@given(design=designs(("alternating",)))
@settings(max_examples=10)
def test_fluid_is_near_tile(design: Design) -> None:
    fluid, tile = (
        simulate_policy(plan_of(design, fidelity), dense_batches(design)).cycles
        for fidelity in FIDELITIES
    )
    assert fluid == pytest.approx(tile, rel=0.05)


# ------------------------------------------------------------------ reuse, bad input


def test_tokens_reuse_those_of_the_previous_frame() -> None:
    work = "diffusion:open_sora1.2_1.1b,passes=1,steps=2,replay=0.5,source=frame"
    design = override(
        for_work(load_design("u280"), workload_of(work)),
        {"policy.skip.kind": "attention_too", "policy.batch": 1},
    )
    report = run(design, workload=work, allow_misfit=True, what_if=False)
    dense, own = (row.simulation.totals for row in (report.rows[0], report.chosen))
    assert own["qkv"].macs == dense["qkv"].macs
    for name in ("attention", "output", "mlp"):
        # Tokens of the first of 15 latent frames always compute.
        assert own[name].macs == pytest.approx(dense[name].macs * 8 / 15, rel=0.01)


def test_a_mask_over_all_tokens_is_refused() -> None:
    work = "diffusion:open_sora1.2_1.1b,passes=1"
    design = override(open_sora_on(), {"policy.attention": {"kind": "draft", "keep": 0.2}})
    with pytest.raises(InputError, match="attend in groups"):
        run(design, workload=work, allow_misfit=True, what_if=False)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model.network.text": "sequence"}, "puts text among the tokens"),
        ({"model.sample.chunk_frames": 3}, "alternating attention"),
    ],
)
def test_what_cannot_alternate_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        override(open_sora_on(), changes)
