"""Published times of diffusion on GPUs: rows, rates by hand, ways to predict, shipped tables."""

from math import exp, log
from pathlib import Path
from statistics import fmean

import pytest

from carsim.hardware.expected import FORWARDS, coverage_of, forward_factors
from carsim.validate.diffusion import validate_diffusion
from carsim.validate.forward_intervals import (
    expected_seconds,
    forward_coverage,
    forward_table,
    held_of,
    residual_systems,
    with_machine,
)
from carsim.validate.forward_times import (
    KERNELS,
    LEAST_ON_GPU,
    MACHINES,
    ONE_RATE,
    PEAK_TFLOPS,
    SHARE,
    SIMULATED,
    TWO_RATES,
    WAYS,
    Flop,
    ForwardTime,
    Shares,
    fit_shares,
    forward_times,
    held_back_times,
    machine_of,
    peak_of,
    sample_flop,
)
from carsim.validate.part import Errors, Part
from carsim.validate.peers import data_rows
from carsim.validate.preset_counts import preset_model

ROWS = forward_times()


def made_up(seconds: float, unit: str, flop: Flop, **fields: str) -> ForwardTime:
    """A row with given operations."""
    gpu = fields.get("gpu", "A100")
    kernel = fields.get("kernel", "flash_2")
    row = ForwardTime(unit, gpu, kernel, "wan2.1_1.3b", "", seconds, "stated", "", "", "")
    row.__dict__["flop"] = flop
    return row


@pytest.fixture(scope="module")
def part() -> Part:
    return validate_diffusion()


def test_every_figure_that_was_found_is_used_or_has_a_reason() -> None:
    left_out = list(data_rows("diffusion_times_left_out.csv"))
    assert all(row["reason"] for row in left_out)
    used = len(ROWS) + len(held_back_times())
    assert used + sum(int(row["figures"]) for row in left_out) == 359
    for row in ROWS:
        assert row.kernel in KERNELS
        assert row.work in ("stated", "default", "by its FLOPs")
        assert row.source
        # FlashAttention 3 runs on Hopper alone.
        assert row.kernel != "flash_3" or row.gpu in ("H100", "H20")


def test_no_time_is_below_the_data_sheet_peak() -> None:
    for row in ROWS:
        assert row.peak_seconds < row.seconds, row.what


def test_operations_are_those_that_were_counted_by_hand() -> None:
    # 28.3, 652.3 and 603.4 PFLOP: 2 x passes x steps x (linear + attention + text).
    for preset, pflop in (
        ("wan2.1_1.3b", 28.3),
        ("wan2.1_14b", 652.3),
        ("hunyuanvideo_13b", 603.4),
    ):
        assert sample_flop(preset_model(preset)).total == pytest.approx(1e15 * pflop, rel=1e-3)
    # Queries of a chunk of 3 latent frames attend to windows of 3, 6, 9 and then 12 frames.
    tokens = 1560
    keys = [3 * tokens, 6 * tokens, 9 * tokens, *[12 * tokens] * 7]
    macs = sum(5 * 30 * 2 * 3 * tokens * of_chunk * 1536 for of_chunk in keys)
    assert sample_flop(preset_model("longlive_1.3b")).attention == pytest.approx(2 * macs)


def test_two_rates_are_found_again() -> None:
    truth = Shares(0.4, {"flash_2": 0.6, "flash_3": 0.8})
    rows = []
    for number, (kernel, attention) in enumerate(
        [("flash_2", 1e15), ("flash_2", 8e15), ("flash_3", 2e15), ("flash_3", 5e15)]
    ):
        flop = Flop(linear=2e15, attention=attention)
        seconds = truth.seconds(flop, "A100", kernel)
        rows.append(made_up(seconds, f"system {number}", flop, kernel=kernel))
    found = fit_shares(rows)
    assert found.linear == pytest.approx(0.4)
    assert found.attention == pytest.approx(truth.attention)
    # Twice the linear layers' time at the peak is what 0.5 of it means.
    assert Shares(0.5, {"flash_2": 1.0}).seconds(Flop(312e12, 0.0), "A100", "flash_2") == 2


def test_no_fitted_share_is_above_the_peak() -> None:
    faster = [
        made_up(0.5 + attention / 312e12, str(attention), Flop(312e12, attention))
        for attention in (1e14, 8e14)
    ]
    found = fit_shares(faster)
    assert found.linear == 1
    assert 0 < found.attention["flash_2"] <= 1


def test_rivals_by_hand() -> None:
    flop = Flop(0.0, 312e12)
    others = [
        made_up(2.0, "one", flop),
        made_up(2.0, "one", flop),
        made_up(8.0, "two", flop),
        made_up(1.0, "three", Flop(0.0, peak_of("H20")), gpu="H20"),
    ]
    row = made_up(1.0, "tested", flop)
    # One system counts once: the geometric mean of 2 and 8 on its own GPU.
    assert WAYS[ONE_RATE](row, others) == pytest.approx(4)
    assert WAYS[SHARE](row, others) == pytest.approx((2 * 8 * 1) ** (1 / 3))
    elsewhere = made_up(1.0, "tested", Flop(0.0, peak_of("B200")), gpu="B200")
    assert WAYS[ONE_RATE](elsewhere, others) == WAYS[SHARE](elsewhere, others)


def test_machines_have_the_products_of_their_data_sheets() -> None:
    model = preset_model("wan2.1_1.3b")
    for gpu in MACHINES:
        design = machine_of(gpu, model)
        flop = 2e6 * design.machine.macs_per_cycle * design.board.fabric_clock_mhz
        assert flop == pytest.approx(peak_of(gpu), rel=0.01)
        assert design.policy.batch == 2
    assert set(MACHINES) < set(PEAK_TFLOPS)


@pytest.mark.parametrize("way", WAYS)
def test_no_row_of_its_own_system_helps_a_prediction(way: str) -> None:
    chosen = with_machine(ROWS)[:4]
    found = residual_systems(chosen, ROWS, way)
    without = [row for row in ROWS if row.unit != chosen[0].unit]
    again = residual_systems(chosen[:1], without, way)
    assert again[0].residuals[0] == found[0].residuals[0]


def test_expected_seconds_are_simulated_ones_times_the_median_of_other_systems() -> None:
    rows = with_machine(ROWS)
    systems = {system.name: system for system in residual_systems(rows, ROWS, SIMULATED)}
    row = rows[0]
    own = systems.pop(row.unit)
    means = sorted(sum(each.residuals) / len(each.residuals) for each in systems.values())
    factor = exp(means[len(means) // 2])
    simulated = row.seconds / exp(own.residuals[0])
    expected = expected_seconds(rows, ROWS, SIMULATED)[row]
    assert expected == pytest.approx(simulated * factor, rel=1e-3)


def test_the_shipped_tables_are_those_of_the_published_rows() -> None:
    made = forward_table(ROWS)
    assert {each.pool: each for each in made} == forward_factors()
    assert [coverage_of(each.pool) for each in forward_coverage(ROWS)] == forward_coverage(ROWS)
    known = forward_factors()[FORWARDS]
    # Without its own rows every system has nearly the same interval.
    assert log(known.high / known.low) == pytest.approx(log(2.4), rel=0.1)


def test_two_rates_are_nearer_than_their_rivals_and_the_machine_says_that_it_is_not(
    part: Part,
) -> None:
    groups = {group.title: group for group in part.groups}
    for rival in (ONE_RATE, SHARE):
        group = groups[f"seconds, two rates ({rival})"]
        assert len(group.rows) == 61
        assert group.theirs is not None
        assert group.ours.mean < group.theirs.mean
    machine = groups[f"seconds, expected ({TWO_RATES})"]
    assert machine.theirs is not None
    assert machine.theirs.mean < machine.ours.mean
    note = next(note for note in part.notes if "carsim has a machine of" in note)
    assert note.endswith("Nearest: two rates.")
    title = "Intervals, GPUs with a machine"
    intervals = next(note for note in part.notes if note.startswith(title))
    assert "20 systems: carsim, expected 92% of 50 rows inside" in intervals
    assert intervals.endswith("Narrowest at 90 %: two rates.")


def test_documents_state_the_errors_and_the_intervals(part: Part) -> None:
    docs = Path(__file__).parents[2] / "docs"
    trust, validation = (
        " ".join((docs / name).read_text(encoding="utf-8").split())
        for name in ("trust.md", "reference/validation.md")
    )
    known = forward_factors()[FORWARDS]
    tested = coverage_of(FORWARDS)
    groups = {group.title: group for group in part.groups}
    by_two, by_one = (groups[f"seconds, expected ({way})"] for way in (TWO_RATES, ONE_RATE))
    assert by_two.theirs is not None
    assert by_one.theirs is not None
    ours, two, one = (
        f"{100 * errors.mean:.1f} %" for errors in (by_two.ours, by_two.theirs, by_one.theirs)
    )
    assert f"| {ours} | **{two}, two fitted rates**; {one}, one rate per GPU |" in trust
    assert f"{tested.inside} of {tested.rows} rows are inside" in trust
    assert f"{known.factor:.2f} ({known.low:.2f} to {known.high:.2f})" in validation
    for way, cells in {
        TWO_RATES: "| two rates | 61 | 24 | **{}** | {} | {} | {} | {} |",
        ONE_RATE: "| one rate per GPU | 61 | 24 | {} | {} | {} | {} | {} |",
        SHARE: "| one share of the peak | 61 | 24 | {} | {} | {} | {} | {} |",
        SIMULATED: "| *expected*, on the four GPUs | 50 | 20 | {} | {} | {} | {} | {} |",
    }.items():
        chosen = with_machine(ROWS) if way == SIMULATED else ROWS
        held = held_of(chosen, ROWS, way)
        errors = _errors(part, way)
        figures = (
            f"{100 * errors.mean:.1f} %",
            f"{100 * errors.median:.1f} %",
            f"{100 * errors.bias:+.1f} %",
            f"{100 * held.coverage:.0f} %",
            f"{held.width:.2f}x",
        )
        assert cells.format(*figures) in validation, way


def _errors(part: Part, way: str) -> Errors:
    """Errors of a way, of the widest group that has it."""
    groups = {group.title: group for group in part.groups}
    if way == SIMULATED:
        return groups[f"seconds, expected ({TWO_RATES})"].ours
    if way == TWO_RATES:
        return groups[f"seconds, two rates ({ONE_RATE})"].ours
    found = groups[f"seconds, two rates ({way})"].theirs
    assert found is not None
    return found


def other_systems(row: ForwardTime) -> list[ForwardTime]:
    """The rows of all other systems."""
    return [other for other in ROWS if other.unit != row.unit]


def is_rare(row: ForwardTime) -> bool:
    """Fewer than two other systems have GPU and kernel of a row."""
    known = {
        other.unit
        for other in other_systems(row)
        if other.gpu == row.gpu and other.kernel == row.kernel
    }
    return len(known) < LEAST_ON_GPU


def error_of(row: ForwardTime, way: str) -> float:
    """Error of a way to predict a row, without sign, as a fraction of the published time."""
    return abs(WAYS[way](row, other_systems(row)) / row.seconds - 1)


def test_the_page_states_the_errors_of_rows_whose_gpu_is_rare() -> None:
    rare = [row for row in ROWS if is_rare(row)]
    errors = {way: [error_of(row, way) for row in rare] for way in (TWO_RATES, ONE_RATE)}
    shares = {
        gpu: [row.peak_seconds / row.seconds for row in rare if row.gpu == gpu]
        for gpu in ("H20", "B200")
    }
    usual = [row for row in rare if row.gpu not in shares]
    largest = max(error_of(row, way) for row in usual for way in errors)
    systems = {row.unit for row in rare}
    by_two, by_one = (100 * fmean(errors[way]) for way in (TWO_RATES, ONE_RATE))
    h20, b200 = (f"{min(shares[gpu]):.2f} to {max(shares[gpu]):.2f}" for gpu in ("H20", "B200"))
    page = Path(__file__).parents[2] / "docs" / "reference" / "validation.md"
    text = " ".join(page.read_text(encoding="utf-8").split())
    assert (
        f"({len(rare)} rows of {len(systems)} systems), the mean error is {by_two:.0f} % by two "
        f"rates and {by_one:.0f} % by one rate." in text
    )
    assert f"{h20} on an H20, {b200} on a B200." in text
    assert f"no error is above {100 * largest:.0f} %" in text
