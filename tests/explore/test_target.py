"""The machine of least cost that reaches a target: it does, and none a step away is better."""

from typing import Any

import pytest

from carsim.base.errors import InputError
from carsim.explore.expression import Expression
from carsim.explore.space import parse_space_axis, spaces_of
from carsim.explore.target import LADDER, Answer, Wanted, all_of, search_target
from carsim.metrics import figures
from carsim.report.target import target_sections
from carsim.runs.pipeline import run
from carsim.workload.workload import Workload, workload_of

FRAME = Workload("video", frames=1)
TEXT = workload_of("text:64+4")
CHIPS = ("asic_7nm_lpddr5x", "asic_7nm_hbm3")

FEW: dict[str, tuple[Any, ...]] = {
    "policy.batch": (2, 8),
    "machine.cores": (1, 2, 4),
    "machine.mapping": ("batch", "tensor"),
    "machine.array.rows": (16, 32, 64),
    "machine.array.cols": (16, 32),
    "machine.vector.lanes": (8, 32),
    "machine.weight_buffer_kib": (64, 256),
    "machine.kv_buffer_kib": (64, 128),
    "machine.activation_buffer_kib": (64, 512),
    "machine.tile_kib": (32,),
}
"""A space that is searched in seconds."""


def wanted(target: str, boards: tuple[str, ...] = CHIPS, **more: Any) -> Wanted:
    how: dict[str, Any] = {"model": "tinyllama_1b", "axes": FEW, **more}
    return Wanted(TEXT, all_of([target]), boards=boards, **how)


def found(target: str, boards: tuple[str, ...] = CHIPS, **more: Any) -> Answer:
    return search_target(wanted(target, boards, **more))


@pytest.fixture(scope="module")
def answer() -> Answer:
    return found("tokens_per_s >= 150 and first_token_s <= 0.1")


def test_a_run_of_the_answer_reaches_the_target(answer: Answer) -> None:
    best = answer.best
    assert best is not None
    report = run(best.design, workload=TEXT, what_if=False)
    assert report.fit.fits
    assert figures(report.chosen, report)["tokens_per_s"] == best.value("tokens_per_s") >= 150
    assert best.value("first_token_s") <= 0.1
    assert sum(price.value for price in best.prices) == pytest.approx(best.value("cost_usd"))


def test_no_machine_one_step_away_is_cheaper(answer: Answer) -> None:
    best = answer.best
    assert best is not None
    assert all(best.values[name] in axis.values for name, axis in best.space.axes.items())
    for name, value in best.values.items():
        for step in best.space.steps(name, value):
            try:
                design = best.space.design({**best.values, name: step})
                report = run(design, workload=TEXT, what_if=False, allow_misfit=True)
            except InputError:
                continue
            row = figures(report.chosen, report)
            cheaper = row["cost_usd"] < best.value("cost_usd")
            reaches = row["tokens_per_s"] >= 150 and row["first_token_s"] <= 0.1
            assert not (report.fit.fits and cheaper and reaches), (name, step)


def test_those_that_reach_it_come_first_and_the_cheapest_before_all(answer: Answer) -> None:
    prices = [each.value("cost_usd") for each in answer.machines if each.reaches]
    assert prices == sorted(prices)
    order = [each.reaches for each in answer.machines]
    assert order == sorted(order, reverse=True)
    assert {each.preset for each in answer.machines} == {*CHIPS}


def test_the_targets_of_a_long_prompt_are_met_for_a_few_dollars() -> None:
    """A larger array and a larger activation buffer beat faster memories."""
    axes = {
        "policy.batch": (1,),
        "machine.mapping": ("tensor",),
        "machine.cores": (1, 4),
        "machine.array.rows": (32, 64, 128),
        "machine.array.cols": (32, 64),
        "machine.vector.lanes": (32, 64),
        "machine.weight_buffer_kib": (256,),
        "machine.kv_buffer_kib": (128,),
        "machine.activation_buffer_kib": (128, 1024, 2048),
        "machine.tile_kib": (64,),
        "board.fabric_clock_mhz": (1200.0,),
    }
    for seconds in (0.5, 0.2):
        asked = Wanted(
            workload_of("text:2048+8"),
            all_of([f"first_token_s <= {seconds}"]),
            model="llama3.2_1b",
            boards=CHIPS[:1],
            axes=axes,
        )
        best = search_target(asked).best
        assert best is not None
        assert best.value("cost_usd") < 20
        assert best.design.machine.activation_buffer_kib >= 1024


def test_the_usual_space_goes_beyond_65_536_multipliers() -> None:
    (space,) = spaces_of(["asic_7nm"], "tiny")
    last = {name: axis.values[-1] for name, axis in space.axes.items()}
    largest = last["machine.cores"] * last["machine.array.rows"] * last["machine.array.cols"]
    assert largest >= 2**21
    assert max(cores * rows * cols for cores, rows, cols in LADDER) > 65_536
    for field in ("weight", "kv", "activation"):
        assert len(space.axes[f"machine.{field}_buffer_kib"].values) > 4
    assert {"policy.batch", "machine.mapping", "memory"} <= space.axes.keys()
    assert len(space.axes["board.fabric_clock_mhz"].values) > 3
    assert space.axes["board.fabric_clock_mhz"].values[-1] == 1600  # the fastest published at 7 nm


def test_two_precisions_have_a_space_each() -> None:
    spaces = spaces_of(["asic_7nm"], "tiny", bits=(4, 8))
    assert [space.bits for space in spaces] == [4, 8]
    assert [space.base.model.weights.bits for space in spaces] == [4, 8]


def test_a_target_out_of_reach_is_proven_and_names_what_is_lacking() -> None:
    asked = wanted("tokens_per_s >= 1e6", ("kv260", "v80"))
    outcome = search_target(asked)
    assert outcome.best is None
    assert outcome.is_closed
    text = "\n".join(_words(outcome, asked))
    assert "No machine reaches tokens_per_s >= 1e6" in text
    assert "Proof: " in text
    assert "bounds rule out all of" in text


def test_without_a_proof_nothing_is_called_impossible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("carsim.explore.target.MOST_SIMULATED", -1)
    asked = wanted("energy_per_token_j <= 1e-6", CHIPS[:1])  # which has no optimistic figure
    outcome = search_target(asked)
    text = "\n".join(_words(outcome, asked))
    assert "No machine that was tried reaches energy_per_token_j <= 1e-6" in text
    assert "a machine that reaches the target may exist" in text


def test_a_target_that_every_machine_reaches_is_questioned() -> None:
    asked = wanted("tokens_per_s >= 1e-6", CHIPS[:1])
    text = "\n".join(_words(search_target(asked), asked))
    assert "Every machine tried reaches the target: does it ask for enough?" in text


def test_the_answer_fits_a_screen(answer: Answer) -> None:
    asked = wanted("tokens_per_s >= 150 and first_token_s <= 0.1")
    words = _words(answer, asked)
    assert len(words) < 40
    assert all(len(line) < 300 for line in words)
    best = answer.best
    assert best is not None
    shares = [best.value(f"{name}_utilisation") for name in ("memory", "mac")]
    line = next(line for line in words if line.startswith("memory: "))
    said = [float(word.replace(",", "")) for word in line.split() if word[0].isdigit()]
    assert [said[0] / said[1], said[2] / said[3]] == pytest.approx(shares, rel=1e-3)


def _words(outcome: Answer, asked: Wanted) -> list[str]:
    sections = target_sections(asked, outcome)
    return [text for head, parts in sections for text in (head, *parts) if isinstance(text, str)]


@pytest.mark.parametrize(
    ("condition", "changes", "message"),
    [
        ("fps >= 2", {}, "no metric 'fps'"),
        ("frames_per_s >= 2", {"minimise": "speedup"}, "less of speedup is not better"),
        (
            "frames_per_s >= 2",
            {"boards": ("zcu",)},
            "no board 'zcu'; did you mean 'zcu102', 'zcu102_16gb' or 'zcu104'",
        ),
        ("frames_per_s >= 2", {"model": "llama"}, "llama"),
        ("frames_per_s >= 2", {"bits": (5,)}, "5 bits are no precision"),
        ("frames_per_s >= 2", {"axes": {"machine.core": (1,)}}, "did you mean 'machine.cores'"),
        ("frames_per_s >= 2", {"axes": {"machine.cores": (0,)}}, "whole numbers above 0"),
        ("frames_per_s >= 2", {"axes": {"machine.mapping": ("x",)}}, "choose one of batch"),
        ("ms_per_token >= 10", {}, "did you mean ms_per_token <= 10"),
        ("latency_s <= 9 and frames_per_s <= 2", {}, "did you mean frames_per_s >= 2"),
        ("2 >= frames_per_s", {}, "did you mean frames_per_s >= 2"),
    ],
)
def test_what_makes_no_sense_is_refused(condition: str, changes: dict[str, Any], message: str):
    given = {"workload": FRAME, "target": Expression(condition, "`target`"), **changes}
    with pytest.raises(InputError, match=message):
        search_target(Wanted(**given))


def test_a_metric_that_no_machine_has_is_refused() -> None:
    with pytest.raises(InputError, match="frames_per_s has no value for text:64"):
        found("frames_per_s >= 2", CHIPS[:1])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("machine.cores=", "give values"),
        ("memory=4", "is no axis of the space"),
        ("machine.cores=1,[", "machine.cores"),
    ],
)
def test_axes_that_make_no_sense_are_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_space_axis(text)
