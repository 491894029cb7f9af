"""Committed studies say what carsim says today; a few points of each are evaluated again.

Which points are evaluated follows from the commit, so that commits take turns and a run can be
repeated.
"""

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from explore_study import write_study
from turns import turn

from carsim.base.errors import InputError
from carsim.decisions.trace import load_trace
from studies import run as studies

ROOT = Path(__file__).parents[2]

POINTS = 2
NAMES = [folder.name for folder in studies.folders()]

FIGURE = """
from pathlib import Path

METRICS = ("latency_s", "fits", "limit")


def numbers(frame):
    best = frame["latency_s"].min()
    return {"answer": f"The best takes {best:.4g} s.", "count": f"{len(frame)} points"}


def draw(frame, path):
    Path(path).write_bytes(b"")
"""
README = "# Which?\n\n**Finding.** Old.\n\nProse.\n\n<!-- count -->\n<!-- /count -->\n\nMore.\n"


@pytest.mark.parametrize("name", NAMES)
def test_a_readme_quotes_its_results(name: str) -> None:
    folder = studies.find(name)
    assert studies.misquoted(folder, folder.kept()) == []
    assert folder.drawing.stat().st_size > 10_000


@pytest.mark.parametrize("readme", sorted(studies.STUDIES.glob("*/README.md")), ids=str)
def test_a_readme_has_question_finding_figure_and_command(readme: Path) -> None:
    question, finding, figure, command, *_ = readme.read_text(encoding="utf-8").split("\n\n")
    assert re.fullmatch(r"# .+\?", question)
    assert re.match(r"\*\*Finding\.\*\* .*\d", finding, re.DOTALL)
    assert all((readme.parent / name).exists() for name in re.findall(r"\((\S+png)\)", figure))
    assert figure.startswith("![")
    assert re.match(r"    (\S*python|carsim) ", command)


@pytest.mark.parametrize("name", NAMES)
def test_results_are_of_the_traces_that_are_shipped(name: str) -> None:
    """All studies in every run: whoever captures a trace anew shall hear of it at once."""
    folder = studies.find(name)
    for trace, sha256 in folder.kept_inputs().items():
        assert load_trace(folder.path / trace).sha256 == sha256


@pytest.mark.parametrize("name", NAMES)
def test_a_few_points_again(name: str) -> None:
    assert studies.stale(studies.find(name), points=POINTS, turn=turn()) == []


@pytest.fixture
def toy(tmp_path: Path) -> Any:
    write_study(tmp_path)
    (tmp_path / "figure.py").write_text(FIGURE)
    (tmp_path / "README.md").write_text(README)
    folder = studies.Folder(tmp_path)
    studies.remake(folder, workers=0, out=None)
    return folder


def test_remaking_writes_results_and_numbers(toy: Any) -> None:
    frame = pd.read_csv(toy.path / "points.csv")
    assert list(frame.columns) == [
        *("study", "point", "machine.cores", "policy.tau", "policy.schedule"),
        *("status", "latency_s", "fits", "limit"),
    ]
    assert len(frame) == 18
    best = f"{frame['latency_s'].min():.4g}"
    assert (toy.path / "README.md").read_text() == (
        f"# Which?\n\n**Finding.** The best takes {best} s.\n\nProse.\n\n"
        "<!-- count -->\n18 points\n<!-- /count -->\n\nMore.\n"
    )
    assert studies.stale(toy, points=100, turn=0) == []


def test_every_changed_result_is_found(toy: Any) -> None:
    """By the sixth digit; in as many turns as points are apart, every point has been taken."""
    table = toy.path / "points.csv"
    header, *lines = table.read_text().splitlines()
    cells = [line.split(",") for line in lines]
    changed = [[*row[:6], f"{float(row[6]) * 1.00001:.6g}", *row[7:]] for row in cells]
    table.write_text("\n".join([header, *(",".join(row) for row in changed)]) + "\n")
    found = [line for turn in range(7) for line in studies.stale(toy, points=3, turn=turn)]
    stale = [line.split(": ")[1:3] for line in found if "latency_s is" in line]
    assert sorted(int(point.split()[1]) for point, _ in stale) == list(range(18))


def test_other_points_numbers_and_traces_are_found(toy: Any) -> None:
    readme, table, inputs = (toy.path / name for name in ("README.md", "points.csv", "inputs.json"))
    texts = {path: path.read_text() for path in (readme, table, inputs)}

    def found() -> str:
        return "\n".join(studies.stale(studies.Folder(toy.path), points=3, turn=0))

    readme.write_text(texts[readme].replace("18", "19"))
    assert "README.md quotes other numbers" in found()
    readme.write_text(texts[readme])
    table.write_text(texts[table].rpartition("study,17")[0])
    assert "18 points, 17 in points.csv" in found()
    table.write_text(texts[table])
    inputs.write_text(texts[inputs].replace("toy.npz", "other.npz"))
    assert "was made from other traces" in found()
    inputs.write_text(texts[inputs])
    assert found() == ""


def test_what_cannot_be_quoted_is_refused() -> None:
    with pytest.raises(InputError, match="has no lines <!-- count -->"):
        studies.quoted("# a\n\nb\n", {"answer": "x", "count": "1"})
    with pytest.raises(InputError, match="there is no study 'nothing'"):
        studies.find("nothing")


def test_the_command_says_what_is_stale(toy, monkeypatch, capsys):
    monkeypatch.setattr(studies, "folders", lambda: [toy])
    assert studies.main([toy.name, "--reduced", "--points", "3"]) == 0
    assert "agree" in capsys.readouterr().out
    (toy.path / "README.md").write_text(README)
    assert studies.main([toy.name, "--reduced", "--points", "3"]) == 1
    assert studies.main(["nothing"]) == 2
    assert "there is no study 'nothing'" in capsys.readouterr().err
