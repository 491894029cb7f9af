"""Cost: sums equal their parts, everything is linear in the work, more of anything costs more."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carsim.design import load_design, override
from carsim.technology.capacity import capacity
from carsim.technology.energy import energy
from carsim.technology.fit import check_fit
from carsim.technology.onchip_ram import Buffer, place
from carsim.technology.resources import resources
from carsim.workload.activity import Activity
from carsim.workload.geometry import Video

ZCU102 = load_design("zcu102")
U280 = load_design("u280")
USED = resources(U280)

counts = st.integers(0, 10**13)
activities = st.builds(
    Activity,
    cycles=counts,
    macs=counts,
    vector_ops=counts,
    sram_bytes=counts,
    dram_bytes=st.fixed_dictionaries({"hbm": counts, "ddr": counts}),
)


def total(a: Activity, b: Activity) -> Activity:
    return Activity(
        a.cycles + b.cycles,
        a.macs + b.macs,
        a.vector_ops + b.vector_ops,
        a.sram_bytes + b.sram_bytes,
        {name: a.dram_bytes[name] + b.dram_bytes[name] for name in a.dram_bytes},
    )


@settings(max_examples=50)
@given(activities)
def test_totals_equal_the_sum_of_their_parts_exactly(activity: Activity) -> None:
    report = energy(U280, activity, USED)
    assert report.board.value_j == sum(part.value_j for part in report.parts)
    assert report.board.low_j == sum(part.low_j for part in report.parts)
    assert report.board.high_j == sum(part.high_j for part in report.parts)
    assert report.board.low_j <= report.board.value_j <= report.board.high_j
    assert report.above_idle.value_j <= report.device.value_j <= report.board.value_j


@settings(max_examples=50)
@given(activities, activities)
def test_energy_of_two_pieces_of_work_is_the_sum_of_their_energies(
    a: Activity, b: Activity
) -> None:
    separately = energy(U280, a, USED) + energy(U280, b, USED)
    together = energy(U280, total(a, b), USED)
    assert [part.component for part in separately.parts] == [p.component for p in together.parts]
    assert separately.board.value_j == pytest.approx(together.board.value_j, rel=1e-12)
    assert separately.device.high_j == pytest.approx(together.device.high_j, rel=1e-12)


@settings(max_examples=30)
@given(activities, st.integers(1, 16), st.integers(1, 16))
def test_more_cores_take_more_logic_and_more_joules_for_the_same_work(
    activity: Activity, cores: int, more: int
) -> None:
    activity = Activity(
        max(1, activity.cycles), activity.macs, activity.vector_ops, activity.sram_bytes, {}
    )
    few = override(ZCU102, {"machine.cores": cores})
    many = override(ZCU102, {"machine.cores": cores + more})
    a, b = resources(few), resources(many)
    assert (a.dsp, a.bram36, a.lut) < (b.dsp, b.bram36, b.lut)
    assert all(x < y for x, y in ((a.dsp, b.dsp), (a.bram36, b.bram36), (a.lut, b.lut)))
    assert energy(few, activity, a).board.value_j < energy(many, activity, b).board.value_j


@settings(max_examples=50)
@given(st.integers(1, 10**7), st.integers(1, 20_000), st.integers(1, 10**6), st.integers(1, 5000))
def test_ram_holds_the_bytes_and_feeds_the_width(
    nbytes: int, width_bits: int, more_bytes: int, more_bits: int
) -> None:
    buffer = Buffer("b", nbytes, width_bits, 1)
    assert buffer.bram36 * 36 * 1024 >= 8 * nbytes
    assert buffer.bram36 * 72 >= width_bits
    assert buffer.uram * 288 * 1024 >= 8 * nbytes
    assert buffer.uram * 72 >= width_bits
    assert Buffer("b", nbytes + more_bytes, width_bits, 1).bram36 >= buffer.bram36
    assert Buffer("b", nbytes, width_bits, 3).bram36 == 3 * buffer.bram36


@settings(max_examples=50)
@given(
    st.lists(
        st.builds(
            Buffer,
            name=st.just("b"),
            nbytes=st.integers(1, 10**6),
            width_bits=st.integers(1, 10_000),
            copies=st.integers(1, 8),
        ),
        max_size=5,
    ),
    st.integers(1, 2000),
    st.integers(0, 1000),
)
def test_each_buffer_is_placed_whole_in_one_kind(
    buffers: list[Buffer], bram36: int, uram: int
) -> None:
    for buffer, placed in zip(buffers, place(buffers, bram36, uram), strict=True):
        assert placed in ((buffer.bram36, 0), (0, buffer.uram))
        assert uram or not placed[1]


@settings(max_examples=30)
@given(st.integers(1, 32), st.integers(1, 12), st.integers(1, 300), st.integers(0, 200))
def test_capacity_grows_with_batch_frames_and_prompt(
    batch: int, frames: int, tokens: int, prompt: int
) -> None:
    def used(batch: int, video: Video) -> int:
        design = override(ZCU102, {"policy.batch": batch})
        return sum(use.used_bytes for use in capacity(design, video))

    here = used(batch, Video(frames, tokens, prompt))
    assert used(batch + 1, Video(frames, tokens, prompt)) > here
    assert used(batch, Video(frames + 1, tokens, prompt)) > here
    assert used(batch, Video(frames, tokens, prompt + 1)) > here


@settings(max_examples=30)
@given(st.integers(1, 40), st.integers(1, 4), st.booleans())
def test_a_design_fits_exactly_when_no_misfit_is_named(
    batch: int, cores: int, include_head: bool
) -> None:
    changes = {
        "policy.batch": batch,
        "machine.cores": cores,
        "machine.include_head": include_head,
    }
    report = check_fit(override(load_design("zcu102_16gb"), changes), Video(8, 256, 62))
    assert report.fits == (not report.misfits)
    assert len(report.misfits) == sum(row.needed > row.available for row in report.rows)
    assert all("missing" in line and "\n" not in line for line in report.misfits)
