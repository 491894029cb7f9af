"""The value of a field that a target needs equals that of a scan of all values."""

from typing import Any

import pytest

from carsim.base.errors import InputError
from carsim.design import Design, load_design, override
from carsim.explore.solve import parse_values, solve
from carsim.explore.target import all_of
from carsim.metrics import figures
from carsim.report.solution import solution_sections
from carsim.runs.pipeline import run
from carsim.workload.workload import Workload, workload_of

TEXT = workload_of("text:32+4")
CHANNELS = "board.memories.hbm.channels"


@pytest.fixture(scope="module")
def chip() -> Design:
    return load_design("asic_7nm_hbm3", ["model.preset=tinyllama_1b"])


def measured(design: Design, field: str, value: Any, metric: str, work: Workload) -> float:
    report = run(override(design, {field: value}), workload=work, what_if=False)
    return float(figures(report.chosen, report)[metric])


def test_the_channels_that_are_needed_are_those_of_a_scan(chip: Design) -> None:
    rates = {n: measured(chip, CHANNELS, n, "tokens_per_s", TEXT) for n in range(1, 17)}
    wanted = (rates[5] + rates[6]) / 2
    least = min(n for n, rate in rates.items() if rate >= wanted)
    solution = solve(chip, CHANNELS, all_of([f"tokens_per_s >= {wanted}"]), TEXT)
    assert solution.answer is not None
    assert solution.answer.value == least == 6
    assert solution.answer.figures is not None
    assert solution.answer.figures["tokens_per_s"] == rates[6]
    below, above = solution.neighbours
    assert below is not None
    assert above is not None
    assert (below.value, below.meets) == (5, False)
    assert (above.value, above.meets) == (7, True)
    assert solution.present == 32
    text = "\n".join(head for head, _ in solution_sections(solution, "chip"))
    assert f"{CHANNELS} = 6 reaches tokens_per_s" in text


def test_where_more_is_not_always_faster_the_range_is_scanned() -> None:
    """Nine cores are slower than eight for eight sequences: one core more costs a round more."""
    design = load_design("u280", ["machine.mapping=hybrid", "policy.batch=8"])
    field, work = "machine.cores", workload_of("video:2,replay=0.5")
    seconds = {n: measured(design, field, n, "latency_s", work) for n in range(6, 10)}
    assert seconds[8] < seconds[9] < seconds[7]
    target = (seconds[8] + seconds[9]) / 2
    solution = solve(design, field, all_of([f"latency_s <= {target}"]), work, [6, 8, 9])
    assert not solution.is_steady
    assert solution.is_complete
    assert [level.value for level in solution.levels] == [6, 7, 8, 9]
    assert solution.answer is not None
    assert solution.answer.value == 8
    (stretch,) = solution.stretches
    assert (stretch.first.value, stretch.last.value) == (8, 8)
    (_, lines), *_ = solution_sections(solution, "u280")
    assert "Every whole number in between was tried." in str(lines)


def test_a_threshold_between_scores_has_an_interval_of_equal_figures() -> None:
    design = load_design("zcu102")
    work = workload_of("trace:vilau_8f")
    target = all_of(["seconds_per_video <= 280"])
    solution = solve(design, "policy.tau", target, work, [0.0, 0.5, 1.0])
    assert solution.answer is not None
    assert solution.equal is not None
    first, last = solution.equal
    assert first.value <= solution.answer.value <= last.value
    assert first.figures is not None
    assert last.figures is not None
    assert first.figures["seconds_per_video"] == last.figures["seconds_per_video"] <= 280
    _, above = solution.neighbours
    assert above is not None
    assert above.figures is not None
    assert above.figures["seconds_per_video"] > 280


def test_a_target_out_of_reach_names_the_nearest_value(chip: Design) -> None:
    solution = solve(chip, CHANNELS, all_of(["tokens_per_s >= 1e9"]), TEXT, [1, 2, 4])
    assert solution.answer is None
    (head, lines), *_ = solution_sections(solution, "chip")
    assert "No value of" in head
    assert str(lines[0]).startswith("The nearest: 4 (tokens_per_s")


def test_values_that_do_not_fit_are_no_answer(chip: Design) -> None:
    field = "machine.activation_buffer_kib"
    solution = solve(chip, field, all_of(["tokens_per_s >= 1"]), TEXT, [64, 1 << 10, 1 << 20])
    assert [level.meets for level in solution.levels if level.value == 1 << 20] == [False]
    (stretch,) = solution.stretches
    assert stretch.after is not None
    assert stretch.after.problem.startswith("does not fit: area")
    text = "\n".join(
        str(part) for _, parts in solution_sections(solution, "chip") for part in parts
    )
    assert "does not fit" in text


@pytest.mark.parametrize(
    ("field", "target", "message"),
    [
        ("machine.core", "tokens_per_s >= 1", "machine.core"),
        ("machine.mapping", "tokens_per_s >= 1", "'batch' in this design, not a number"),
        ("machine.array", "tokens_per_s >= 1", "name a field that holds a number"),
        ("machine.cores", "tokens_per_s <= 1", "did you mean tokens_per_s >= 1"),
        ("machine.cores", "frames_per_s >= 1", "frames_per_s has no value"),
        ("machine.cores", "fps >= 1", "no metric 'fps'"),
    ],
)
def test_questions_that_make_no_sense_are_refused(
    chip: Design, field: str, target: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        solve(chip, field, all_of([target]), TEXT)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("machine.cols=1,2", "is not the field machine.cores"),
        ("machine.cores=", "give values"),
        ("machine.cores=1,x", "give numbers"),
    ],
)
def test_values_that_make_no_sense_are_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_values(text, "machine.cores")
