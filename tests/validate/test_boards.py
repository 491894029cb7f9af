"""Published boards: their data, the baseline, splits, and what a prediction says."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import exp

import pytest

from carsim.design import configs_folder, load_design
from carsim.hardware.expected import LEVEL
from carsim.hardware.technology.fpga import Fpga
from carsim.runs.calibrate import MeasuredSpeed
from carsim.runs.decode import decode
from carsim.validate.boards import order_of, validate_boards
from carsim.validate.intervals import coverage, interval, left_out_speeds, pools
from carsim.validate.part import Part
from carsim.validate.peers import data_rows
from carsim.validate.published import (
    SPLITS,
    Predicted,
    Published,
    predict,
    predict_rows,
    published_design,
    published_rows,
)

MOST_IN_SCOPE = 0.30
"""No board in scope may get worse than this unnoticed."""


def row(config: str) -> Published:
    return next(published for published in published_rows() if published.config == config)


@pytest.fixture(scope="module")
def predicted() -> list[Predicted]:
    return predict_rows()


@pytest.fixture(scope="module")
def part() -> Part:
    return validate_boards()


def test_the_baseline_of_the_first_system_by_hand() -> None:
    # 0.9 x 19.2e9 / (3.407e9 + 262,144 x 512) = 4.880 token/s.
    assert row("li_date25_kv260").at_peak(0.9) == pytest.approx(4.880, abs=0.001)
    # Steps from 1 to 512 tokens attend to 256.5 of them in the mean: 3.407e9 + 0.067e9 B.
    several = replace(row("li_date25_kv260"), first_context=1, last_context=512)
    assert several.at_peak(0.8) == pytest.approx(0.8 * 19.2 / 3.4742, rel=0.001)


def test_a_dispatch_costs_what_was_counted_on_another_board() -> None:
    # Torch2RISCV's counters on a PYNQ-Z1: cycles that no read of weights hides, those of the vector
    # engine among them, which is twice as wide on the KV260; dispatches; the host on the KV260.
    unhidden, vector, dispatches, host_ms = 4.78e6 + 0.72e6, 3.03e6 + 0.37e6, 910 + 200, 9.9 + 1.5
    each_us = (unhidden - vector / 2) / 100.0 / dispatches + 1e3 * host_ms / dispatches
    assert each_us == pytest.approx(44.5, abs=0.05)
    for model, count in (("qwen", 28 * 34 + 10), ("smollm", 910), ("stories", 200)):
        for ports in ("1port", "2ports"):
            machine = published_design(f"t2riscv_{model}_{ports}").machine
            assert machine.overheads.step_us == pytest.approx(each_us * count, rel=2e-3)


def test_what_no_port_makes_faster_keeps_two_ports_from_twice_the_speed() -> None:
    one, two = (
        decode(published_design(f"t2riscv_smollm_{ports}"), 33, 96).seconds_per_step
        for ports in ("1port", "2ports")
    )
    # 137.1 MB a step at 15.64 and 30.55 bytes per cycle of 10 ns, and 40.5 ms: 1.50 times; 1.63 on
    # the board.
    by_hand = (0.1371 / 1.564 + 0.0405) / (0.1371 / 3.055 + 0.0405)
    assert one / two == pytest.approx(by_hand, rel=0.02)


def test_stages_between_products_are_those_of_the_code() -> None:
    # FlexLLM: transform of 8192 values, 16 at a time, through 13 stages; quantisers read 5 x 2048
    # and 8192 values; 16 layers at 292 MHz.
    transform = 512 + 13 * (512 + 256) + 512
    quantise = 5 * 2048 // 16 + 8192 // 16
    overheads = published_design("flexllm_u280").machine.overheads
    assert overheads.step_us == pytest.approx(16 * (transform + quantise) / 292.0, rel=1e-3)


def test_power_is_joules_times_speed_and_that_of_a_chip_leaves_memory_out() -> None:
    found = predict(row("hummingbird_kv260"))
    parts = {part.component: part.value_j for part in found.energy.parts}
    chip_j = sum(parts.values()) - sum(parts[f"{n} ps_ddr"] for n in ("memory", "standby"))
    assert found.watts.value_j == pytest.approx(chip_j * found.speed)
    board = replace(found, row=replace(found.row, power_of="board"))
    assert board.watts.value_j == pytest.approx(sum(parts.values()) * found.speed)


def test_every_row_is_in_one_scope_and_nearer_than_the_null_model(part: Part) -> None:
    groups = {group.title: group for group in part.groups}
    every = groups["tokens/s, all rows"]
    inside, outside = groups["tokens/s, in scope"], groups["tokens/s, out of scope"]
    assert inside.must_win
    assert len(every.rows) == len(published_rows()) == len(inside.rows) + len(outside.rows)
    assert {each.what for each in every.rows} == {published.name for published in published_rows()}
    assert not part.failures
    assert inside.ours.worst <= MOST_IN_SCOPE
    # Of the smallest model, most of a step is the cost of its dispatches.
    assert {each.note.split()[0] for each in inside.rows} == {"memory", "port", "dependency"}
    assert all(group.ours.mean < group.theirs.mean for group in (inside, outside))
    assert groups["power in W"].ours.worst <= 0.41
    assert any("power: inside carsim's interval in 10 of 10 rows" in note for note in part.notes)


def test_the_unseen_split_only_grows_and_no_row_of_a_table_is_left_out_unsaid() -> None:
    unseen = [published for published in published_rows() if published.split == "unseen"]
    assert len(unseen) >= 56
    assert len({published.unit for published in unseen}) >= 11
    assert not {each.unit for each in unseen} & {
        each.unit for each in published_rows() if each.split != "unseen"
    }
    assert len({published.name for published in published_rows()}) == len(published_rows())
    used = Counter(published.source for published in published_rows())
    for source in data_rows("published_sources.csv"):
        left_out = int(source["left_out"])
        assert used[source["source"]] == int(source["table_rows"]) - left_out
        assert bool(left_out) == bool(source["reason"])


def test_calibration_beats_one_factor_on_rows_left_out_and_nears_the_floor(part: Part) -> None:
    groups = [group for group in part.groups if group.title.startswith("calibrated")]
    assert len(groups) == 4
    for group in groups:
        assert group.ours.mean < min(0.075, 0.4 * group.theirs.mean), group.title
        assert group.wins > 0.75 * len(group.rows)
    floors = [note for note in part.notes if note.startswith("Repeated")]
    assert [note.split()[2] for note in floors] == ["development", "unseen"]


def test_a_factor_on_rows_left_out_never_sees_the_row(predicted: list[Predicted]) -> None:
    def speed(point: MeasuredSpeed, others: Sequence[MeasuredSpeed]) -> float:
        assert not any(other is point for other in others)
        return 1.0

    assert len(left_out_speeds(predicted, speed)) > 200


def test_intervals_hold_nine_of_ten_rows_of_systems_left_out(predicted: list[Predicted]):
    found = [coverage(name, residuals) for name, residuals in pools(predicted).items()]
    assert {each.pool for each in found} == {"gpu_stream", "pooled", "all", "calibrated"}
    for each in found:
        assert each.ends[1] >= LEVEL, each
    # The 90 % that is claimed lies within the binomial interval over all systems.
    (every,) = (each for each in found if each.pool == "all")
    assert every.ends[0] <= LEVEL <= every.ends[1]
    # Twenty systems of equal rows at 0, 1 ... 19, and one to come: nineteen of 21 hold 90 %.
    made_up = {str(number): [float(number)] * 3 for number in range(20)}
    assert interval("made up", made_up).spread == pytest.approx(exp(9.5), rel=1e-3)
    assert interval("made up", made_up).factor == pytest.approx(exp(9.5), rel=1e-3)
    assert interval("made up", made_up).ends == pytest.approx((1, exp(19)), rel=1e-3)


def test_pairs_whose_intervals_are_apart_are_in_the_measured_order(predicted: list[Predicted]):
    found = order_of(predicted, lambda each: each.row.model)
    assert found.certain.sum() > 100
    assert found[found.certain].ours.mean() >= 0.95
    assert found.ours.mean() > 0.8


def test_the_fit_states_the_ratios_of_published_resources(part: Part) -> None:
    (group,) = (each for each in part.groups if each.title == "resources of FPGAs")
    for name, ends in Fpga.published_ratios.items():
        rows = [row for row in group.rows if row.what.endswith(f": {name}")]
        ratios = sorted(row.reference / row.ours for row in rows)
        assert (ratios[0], ratios[-1]) == pytest.approx(ends, rel=0.01), name
        assert len(ratios) == (4 if name in ("bram36", "uram") else 6)


def test_every_published_design_is_used_fits_and_explains_itself(
    predicted: list[Predicted],
) -> None:
    paths = list((configs_folder() / "published").glob("*.yaml"))
    assert {path.stem for path in paths} == {published.config for published in published_rows()}
    for path in paths:
        assert load_design(str(path)).machine.overheads.control is not None
        assert path.read_text(encoding="utf-8").startswith("# ")
        assert load_design(str(path)).description
    assert [each.fit.misfits for each in predicted if not each.fit.fits] == []


def test_every_row_says_what_it_can_prove_and_where_it_is_from() -> None:
    for published in published_rows():
        assert published.split in SPLITS
        assert len(published.scope_reason) > 8
        assert published.source
        assert "board" in published.status


def test_bytes_of_the_designs_are_those_that_were_published() -> None:
    for published in published_rows():
        design = published.design
        model = design.model
        head = model.head.stored_weights(model.body) if design.machine.include_head else 0
        bytes_per_token = model.weights.bytes_of(model.body.weights + head) / design.policy.batch
        assert bytes_per_token == pytest.approx(published.weight_bytes_per_token, rel=0.005)
