"""Robust fronts, against calculations by hand and against the ratios of two runs."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from explore_study import AXES, make_study, write_study

import carsim
from carsim.base.errors import InputError
from carsim.cli import carsim as command
from carsim.cost.energy import ComponentJoules, EnergyReport
from carsim.explore.robust import (
    DRAWS,
    MOST_RIVALS,
    NEAR,
    UNCERTAIN,
    DrawnPoint,
    _rivals,
    shares_on_front,
)
from carsim.hardware.technology.price import Price
from carsim.report import ratios
from carsim.report.stored import stored
from carsim.report.stored_study import read_study
from carsim.report.study_page import study_page

SECONDS_AND_JOULES = ["seconds_per_video", "energy_per_video_j"]


def drawn_point(*components: ComponentJoules, prices: tuple[Price, ...] = ()) -> DrawnPoint:
    """A point of given joules and prices on a board without an interval of its bandwidth."""
    family = SimpleNamespace(name="HBM3")
    board = SimpleNamespace(name="chip", memories={"near": SimpleNamespace(family=family)})
    row = SimpleNamespace(
        energy_parts_per_video=EnergyReport(components), design=SimpleNamespace(board=board)
    )
    return DrawnPoint(row, SimpleNamespace(prices=prices))  # type: ignore[arg-type]


def work(joules: float) -> ComponentJoules:
    """Joules that are known exactly."""
    return ComponentJoules("work", joules, joules, joules, idle=False, constant="work")


def static(joules: float) -> ComponentJoules:
    """Joules that may be half as much or twice as much."""
    return ComponentJoules("static", joules, joules / 2, 2 * joules, idle=True, constant="static")


def share_of_slow(slow: DrawnPoint, fast: DrawnPoint) -> float:
    """Share of draws in which the slower of two points, 2 s against 1 s, is on the front."""
    values = np.empty((2, DRAWS, 2))
    for place, (point, seconds) in enumerate([(slow, 2.0), (fast, 1.0)]):
        values[place, :, 0] = seconds
        values[place, :, 1] = point.draws_of("energy_per_video_j")
    of_slow, of_fast = shares_on_front(values)
    assert of_fast == 1  # nothing is as fast
    return float(of_slow)


def test_a_point_is_on_the_front_in_the_draws_in_which_it_takes_less_energy() -> None:
    """The slow one takes 1 + 4 c joules, the fast one 4 + 2 c: less if c is below 1.5.

    Half of the draws of c lie between 0.5 and 1, the other half between 1 and 2. So 75 % do.
    """
    share = share_of_slow(drawn_point(work(1), static(4)), drawn_point(work(4), static(2)))
    assert share == pytest.approx(0.75, abs=0.03)


def test_errors_that_points_share_cancel() -> None:
    """4 c joules against 4.1 c joules: the intervals overlap, and the order never changes."""
    assert share_of_slow(drawn_point(static(4.0)), drawn_point(static(4.1))) == 1


def test_errors_of_two_constants_do_not_cancel() -> None:
    """4 c joules against 4.1 d joules: either is less in about half of the draws."""
    other = static(4.1)._replace(constant="another")
    share = share_of_slow(drawn_point(static(4.0)), drawn_point(other))
    assert 0.45 < share < 0.6


def test_memories_of_one_family_have_one_price_a_gib() -> None:
    """16 and 32 GiB at c USD each, beside dies of other prices that are exact."""
    dear = Price("memory near", 32.0, 16.0, 64.0)
    cheap = Price("memory near", 16.0, 8.0, 32.0)
    usd_of_dear = drawn_point(prices=(dear, Price("die", 3.0, 3.0, 3.0))).draws_of("cost_usd")
    usd_of_cheap = drawn_point(prices=(cheap, Price("die", 5.0, 5.0, 5.0))).draws_of("cost_usd")
    np.testing.assert_allclose(usd_of_dear - 3, 2 * (usd_of_cheap - 5))
    assert usd_of_cheap.min() < 16 < usd_of_cheap.max()


def test_rivals_are_near_the_front_in_uncertain_objectives_and_no_worse_in_exact_ones() -> None:
    columns = ["point", "energy_per_video_j", "frames_per_s", "lut"]
    on_front = pd.DataFrame([(0, 100.0, 10.0, 50.0)], columns=columns)
    near = [(1, 109.0, 9.1, 50.0), (2, 100.0, 10.0, 50.0)]
    far = [(3, 111.0, 10.0, 50.0), (4, 100.0, 8.9, 50.0), (5, 100.0, 10.0, 51.0)]
    candidates = pd.DataFrame([*on_front.itertuples(index=False), *near, *far], columns=columns)
    rivals = _rivals(
        candidates,
        on_front,
        signs={"energy_per_video_j": 1, "frames_per_s": -1, "lut": 1},
        uncertain=("energy_per_video_j", "frames_per_s"),
    )
    assert rivals["point"].tolist() == [2, 1]
    assert (NEAR, MOST_RIVALS) == (0.1, 1_000)


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy on one to four cores at three clocks."""
    folder = tmp_path_factory.mktemp("swept")
    axes = {**AXES, "board.fabric_clock_mhz": [150, 200, 300], "policy.tau": [0.0]}
    write_study(folder, axes=axes, objectives=SECONDS_AND_JOULES)
    carsim.sweep(folder / "study.yaml", folder / "out", workers=0)
    return folder


def dominates(other: np.ndarray, point: np.ndarray) -> bool:
    """One point is nowhere worse than another, and better somewhere; less is better."""
    return bool((other <= point).all() and (other < point).any())


def test_shares_are_those_of_the_ratios_of_runs(swept: Path) -> None:
    """``carsim compare`` draws the same constants: its draws, point by point, give the front."""
    frame = carsim.sweep(swept / "study.yaml", workers=0)
    front = carsim.pareto(frame, SECONDS_AND_JOULES, robust=swept / "study.yaml")
    values = []
    for result in frame.to_dict("records"):
        changes = [f"{name}={result[name]}" for name in (*AXES, "board.fabric_clock_mhz")]
        design = carsim.load_design(swept / "toy.yaml", changes)
        run = stored(carsim.run(design, [swept / "toy.npz"], what_if=False))
        seconds = np.broadcast_to(ratios._seconds(run)[:DRAWS], DRAWS)
        values.append(np.stack([seconds, ratios._joules(run)[:DRAWS]], axis=1))
    by_hand = []
    for point in front["point"]:
        n_on_front = 0
        for draw in range(DRAWS):
            here = values[point][draw]
            others = [other[draw] for other in values]
            n_on_front += not any(
                (other <= here).all() and (other < here).any() for other in others
            )
        by_hand.append(n_on_front / DRAWS)
    np.testing.assert_allclose(front["robust"], by_hand, atol=0.002)
    assert front["robust"].max() == 1


def test_a_front_is_the_same_with_the_column(swept: Path) -> None:
    frame = carsim.sweep(swept / "study.yaml", workers=0)
    plain = carsim.pareto(frame, SECONDS_AND_JOULES)
    robust = carsim.pareto(frame, SECONDS_AND_JOULES, robust=swept / "study.yaml")
    pd.testing.assert_frame_equal(robust.drop(columns="robust"), plain)


def test_every_uncertain_metric_can_be_an_objective(swept: Path) -> None:
    frame = carsim.sweep(swept / "study.yaml", workers=0)
    for name in UNCERTAIN:
        if frame[name].isna().all():
            continue
        front = carsim.pareto(frame, [name, "lut"], robust=swept / "study.yaml")
        assert front["robust"].between(0, 1).all()


@pytest.mark.parametrize(
    ("objective", "cure"),
    [("expected_latency_s", "take latency_s"), ("speedup", "take others, such as latency_s")],
)
def test_an_objective_of_unknown_interval_is_refused(
    swept: Path, objective: str, cure: str
) -> None:
    frame = carsim.sweep(swept / "study.yaml", workers=0)
    with pytest.raises(InputError, match="how they move it is not known") as caught:
        carsim.pareto(frame, [objective, "lut"], robust=swept / "study.yaml")
    assert cure in str(caught.value)


def test_results_that_this_code_does_not_give_are_refused(swept: Path) -> None:
    frame = carsim.sweep(swept / "study.yaml", workers=0)
    frame["energy_per_video_j"] *= 1.01
    with pytest.raises(InputError, match=r"energy_per_video_j is .*, and .* by this code"):
        carsim.pareto(frame, SECONDS_AND_JOULES, robust=swept / "study.yaml")


def test_results_without_numbers_of_points_are_refused(swept: Path) -> None:
    frame = carsim.sweep(swept / "study.yaml", workers=0).drop(columns="point")
    with pytest.raises(InputError, match="'point' is no column of the results"):
        carsim.pareto(frame, SECONDS_AND_JOULES, robust=swept / "study.yaml")


def test_a_study_with_another_axis_is_refused(swept: Path, tmp_path: Path) -> None:
    frame = carsim.sweep(swept / "study.yaml", workers=0)
    other = make_study(tmp_path, axes={"machine.tile_kib": [1, 2]})
    with pytest.raises(InputError, match=r"has an axis machine\.tile_kib"):
        carsim.pareto(frame, SECONDS_AND_JOULES, robust=other)


def call(*arguments: object) -> Any:
    return CliRunner().invoke(command, ["report", *map(str, arguments)])


def test_the_command_prints_and_writes_the_column(swept: Path, tmp_path: Path) -> None:
    of_study = ("--robust", "--study", swept / "study.yaml")
    text = call(swept / "out", "--front", *of_study, "--out", tmp_path).output
    assert "robust" in text
    assert "100 %" in text
    assert "stay on the front in all of 1,000 draws" in " ".join(text.split())
    document = json.loads(call(swept / "out", "--front", *of_study, "--json").output)
    in_file = pd.read_csv(tmp_path / "pareto.csv")["robust"]
    assert in_file.tolist() == [point["robust"] for point in document["front"]]
    assert "robust" not in json.loads(call(swept / "out", "--front", "--json").output)["front"][0]


def test_the_page_has_the_column(swept: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    said = call(swept / "out", "--robust", "--study", swept / "study.yaml", "--out", page)
    assert said.exit_code == 0, said.output
    assert "draws of the constants of energy" in page.read_text(encoding="utf-8")
    assert "draws of the constants" not in study_page(read_study(swept / "out"), [])


def test_a_design_beside_the_study_has_to_be_named(swept: Path) -> None:
    said = call(swept / "out", "--front", "--robust")
    assert isinstance(said.exception, InputError)
    assert "name the file of the study with --study" in str(said.exception)


def test_the_file_of_another_study_is_refused(swept: Path, tmp_path: Path) -> None:
    write_study(tmp_path)
    said = call(swept / "out", "--front", "--robust", "--study", tmp_path / "study.yaml")
    assert isinstance(said.exception, InputError)
    assert "is of another study" in str(said.exception)


@pytest.mark.parametrize("mode", ["--check", "--verify"])
def test_other_modes_have_no_robust_points(swept: Path, mode: str) -> None:
    said = call(swept / "out", mode, "--robust")
    assert said.exit_code == 2
    assert "--robust goes with --front, or with a page" in said.output
