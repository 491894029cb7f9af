"""A first look at a grid, before bounds, against all of its points."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from explore_study import make_study, write_study

from carsim.cli import carsim
from carsim.explore import first_look as module
from carsim.explore.evaluate import Evaluator
from carsim.explore.first_look import first_look
from carsim.explore.grid import GridStudy
from carsim.explore.points import make_points

GOALS = {"objectives": {"seconds_per_video": "min", "energy_per_video_j": "min"}}


@pytest.fixture
def any_grid_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGE", 1)


@pytest.mark.usefixtures("any_grid_is_large")
def test_with_as_many_tries_as_needed_it_finds_the_best_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_TRIED", 60)  # the golden section meets all of 18 points
    study = make_study(tmp_path, **GOALS, filters=["machine.cores >= 2"])
    rows = Evaluator(study).evaluate(make_points(study))
    look = first_look(GridStudy(study), stop=lambda: False)
    assert look is not None
    assert look.best == min(row["seconds_per_video"] for row in rows)
    assert look.tried == look.fitting == 60
    assert look.values["machine.cores"] >= 2
    assert [*look.others] == ["energy_per_video_j"]


@pytest.mark.usefixtures("any_grid_is_large")
def test_where_nothing_meets_the_constraints_it_says_so(tmp_path: Path) -> None:
    study = make_study(tmp_path, **GOALS, constraints=["seconds_per_video <= 1e-9"])
    look = first_look(GridStudy(study), stop=lambda: False)
    assert look is not None
    assert look.fitting == 0
    assert look.text.startswith("none of 16 designs spread over the grid fits")


def test_a_small_grid_gets_none(tmp_path: Path) -> None:
    assert first_look(GridStudy(make_study(tmp_path, **GOALS)), stop=lambda: False) is None


@pytest.mark.usefixtures("any_grid_is_large")
def test_a_front_prints_it_once_on_standard_error(tmp_path: Path) -> None:
    path = write_study(tmp_path, **GOALS)
    arguments = ["sweep", str(path), "--out", str(tmp_path / "out"), "--front-only"]
    begun = CliRunner().invoke(carsim, [*arguments, "--workers", "0"])
    line = "toy study: 16 of 16 designs spread over the grid fit and meet the constraints; the best"
    assert begun.exit_code == 0, begun.output
    assert line in begun.stderr
    assert "bounds of all are next" not in begun.stdout
    again = CliRunner().invoke(carsim, [*arguments, "--workers", "0"])
    assert line not in again.stderr
