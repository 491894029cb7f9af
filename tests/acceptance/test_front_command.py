"""``carsim report --front``: the front of a stored sweep as a table, as JSON, as files."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner, Result
from explore_study import answers, make_study, restated

from carsim.base.errors import InputError
from carsim.cli import carsim
from carsim.explore.frame import origin_note
from carsim.explore.pareto import pareto
from carsim.explore.sweep import sweep

GOALS = {"latency_s": "min", "replay_eligible": "min"}


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """18 points of the toy, in a folder that tests copy."""
    folder = tmp_path_factory.mktemp("swept")
    sweep(make_study(folder, objectives=GOALS), folder / "out", workers=0)
    return folder / "out"


@pytest.fixture
def stored(swept: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(swept, tmp_path / "out"))


def call(*arguments: object) -> Result:
    return CliRunner().invoke(carsim, ["report", "--front", *map(str, arguments)])


def test_the_front_is_that_of_the_stored_points_and_written_where_asked(stored: Path) -> None:
    out = stored / "some" / "where"
    document = json.loads(call(stored, "--out", out, "--json").output)
    expected = {"objectives": GOALS, "points": 18, "same_code": True, "files": ["pareto.csv"]}
    assert {name: document[name] for name in expected} == expected
    columns = ["point", *GOALS, "knee"]
    front = pareto(answers(stored), GOALS)[columns]
    for found in (pd.DataFrame(document["front"]), pd.read_csv(out / "pareto.csv")):
        pd.testing.assert_frame_equal(found[columns], front)


def test_the_table_names_axes_goals_and_knee(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = call(stored).output
    title, *lines = (line for line in output.splitlines() if line.strip())
    assert "toy study" in title
    wanted = {"cores", "tau", "schedule", "latency", "[s]", "replay", "ratio"}
    assert wanted <= {*" ".join(lines).split()}
    assert sum("knee" in line.split() for line in lines) == 1
    assert "evaluated by" not in output
    monkeypatch.setattr("carsim.report.front_table.MOST_ROWS", 2)
    assert "2 of 3 rows are shown, from one end to the other, and the knee" in call(stored).output


def test_a_share_thins_the_printed_front_and_leaves_the_files_whole(stored: Path) -> None:
    whole = json.loads(call(stored, "--json").output)
    out = stored / "thin"
    thin = json.loads(call(stored, "--json", "--within", "0.3", "--out", out).output)
    assert thin["front"] == whole["front"]
    assert len(pd.read_csv(out / "pareto.csv")) == len(whole["front"])
    assert {*thin["representatives"]} < {*whole["representatives"]}
    points = {each["point"]: [each[name] for name in GOALS] for each in whole["front"]}
    (knee,) = (each["point"] for each in whole["front"] if each["knee"])
    assert knee in thin["representatives"]
    for values in points.values():
        assert any(
            all(a <= 1.3 * b for a, b in zip(points[other], values, strict=True))
            for other in thin["representatives"]
        )
    text = " ".join(call(stored, "--within", "0.3").output.split())
    rows = len(thin["representatives"])
    assert f"{rows} row" in text
    assert f"for {len(points)} points: each stands for those that are at most 30 % better" in text
    assert (
        "--within go with --front"
        in CliRunner().invoke(carsim, ["report", str(stored), "--within", "0.1"]).output
    )


def test_a_note_on_decisions_has_their_label_in_full() -> None:
    label = f"stated, {'x' * 99}"
    note = origin_note(pd.DataFrame({"decisions": [label, None]}))
    assert note == f"In 1 of 2 points, decisions are {label}."


def test_one_core_under_two_mappings_is_one_point(tmp_path: Path) -> None:
    axes = {"machine.mapping": ["batch", "tensor"], "machine.cores": [1, 2]}
    goals = ["latency_s", "dsp"]
    sweep(make_study(tmp_path, axes=axes, objectives=goals), tmp_path / "out", workers=0)
    points = answers(tmp_path / "out")
    assert points[points["machine.cores"] == 1]["latency_s"].nunique() == 1, "the premise"
    front = pd.DataFrame(json.loads(call(tmp_path / "out", "--json").output)["front"])
    assert front[front["machine.cores"] == 1]["machine.mapping"].tolist() == ["batch"]


def test_one_objective_and_a_constraint_of_the_command_line(stored: Path) -> None:
    asked = ("--objective", "latency_s", "--constraint", "replay_eligible <= 0.5")
    document = json.loads(call(stored, *asked, "--json").output)
    best = pareto(answers(stored), ["latency_s"], ["replay_eligible <= 0.5"])
    assert [row["point"] for row in document["front"]] == best["point"].tolist()
    assert document["files"] == []


def test_a_store_of_other_code_says_so_and_takes_no_further_points(swept: Path, stored: Path):
    for key, value in (("code", "other"), ("version", "0.0.1")):
        shutil.copytree(swept, stored, dirs_exist_ok=True)
        restated(stored, **{key: value})
        assert "were evaluated by other code, carsim 0." in call(stored).output
    document = json.loads(call(stored, "--json").output)
    assert (document["same_code"], document["carsim_version"]) == (True, "0.0.1")
    study = make_study(stored.parent, objectives=GOALS)
    with pytest.raises(InputError, match="not by this version"):
        sweep(study, stored, workers=0)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--objective", "latency"), "objective latency"),
        (("--objective", "latency_s:least"), "say min or max"),
        (("--constraint", "latency_s <"), "constraint"),
        (("--constraint", "latency_s < 0"), "none of 18 points"),
    ],
)
def test_what_cannot_be_asked_is_refused(stored: Path, arguments: tuple[str, ...], expected: str):
    result = call(stored, *arguments)
    assert isinstance(result.exception, InputError)
    assert expected in str(result.exception)
    assert not (stored / "pareto.csv").exists()
