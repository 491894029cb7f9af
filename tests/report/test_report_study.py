"""The page of a sweep: the front and its knee, misfits and why."""

import json
from pathlib import Path
from typing import Any

import pytest
from explore_study import AXES, make_study, restated
from pages import EVIL, Page

from carsim.base.errors import InputError
from carsim.explore.frame import export, frame_of
from carsim.explore.pareto import pareto
from carsim.explore.store import open_folder, open_store
from carsim.explore.sweep import fill
from carsim.metrics import METRICS
from carsim.report.figures.pareto import front_plot
from carsim.report.front_table import front_notes, front_table
from carsim.report.plots import write_plot
from carsim.report.report import write_page
from carsim.report.stored_study import read_study

OBJECTIVES = ["seconds_per_video", "energy_per_video_j"]
MANY = {**AXES, "board.dsp": [1, 2520], "policy.batch": [2, 3]}
"""72 points: 18 that are evaluated, 36 misfits, 18 that would split a guidance pair."""


def swept(folder: Path, **changes: Any) -> Path:
    """A folder as ``carsim sweep`` leaves it."""
    study = make_study(folder, **changes)
    out = folder / "out"
    with open_folder(out) as store:
        fill(store, study, workers=0)
        export(frame_of(store), out)
    return out


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return swept(
        tmp_path_factory.mktemp("study"),
        axes=MANY,
        objectives=OBJECTIVES,
        constraints=["dsp <= 2000"],
        description="cores against thresholds",
    )


@pytest.fixture(scope="module")
def page(folder: Path) -> Page:
    return Page(write_page(folder))


def test_the_front_is_that_of_the_results(folder: Path) -> None:
    study = read_study(folder)
    with open_store(folder) as store:
        wanted = pareto(frame_of(store), OBJECTIVES, ["dsp <= 2000"])
    assert study.front["point"].tolist() == wanted["point"].tolist()
    assert study.knee["point"].item() == wanted.loc[wanted["knee"], "point"].item()
    assert study.counts == {"ok": 18, "misfit": 36, "invalid": 18}


def test_the_page_answers_what_was_asked(folder: Path, page: Page) -> None:
    knee = read_study(folder).knee
    for text in (
        "toy study, a sweep of 72 points",
        "cores against thresholds",
        "72 points: 18 evaluated, 36 do not fit their board, 18 are refused.",
        "The Pareto front of the least time per video, the least energy per video has ",
        "of those that meet dsp <= 2000",
        "constraints\ndsp <= 2000",
        "1 DSP available",
        "3 sequences would split a guidance pair",
        f"at the knee {METRICS[OBJECTIVES[0]].text(knee[OBJECTIVES[0]].item())}",
    ):
        assert text in page.text
    assert "DSP slices: 36 " in " ".join(page.text.split()).rpartition("36 invalid")[0]  # in order
    assert "misfit published" not in " ".join(page.text.split())
    assert page.links == ["points.parquet", "points.csv", "study.yaml", "store.txt"]


def test_the_chart_holds_every_point_that_fits(folder: Path, page: Page) -> None:
    from plotly.graph_objects import Figure

    (figure,) = page.data
    Figure(figure)
    study = read_study(folder)
    told = {trace["name"].partition(",")[0]: trace for trace in figure["data"]}
    assert sorted(told["not on the front"]["customdata"]) == sorted(study.counted["point"])
    assert sorted(told["on the front"]["customdata"]) == sorted(study.front["point"])
    knee = study.knee.iloc[0]
    assert told["knee"]["x"] == [knee[OBJECTIVES[0]]]
    assert f"point {knee['point']}, cores {knee['machine.cores']}, " in told["knee"]["hovertext"][0]


def test_the_front_on_paper_is_a_line_that_no_point_is_below(folder: Path) -> None:
    study = read_study(folder)
    (panel,) = front_plot({study.name: study}).panels
    line = panel[""]
    assert list(line.x) == sorted(line.x)
    assert list(line.y) == sorted(line.y, reverse=True)
    front = set(zip(panel["on the front"].x, panel["on the front"].y, strict=True))
    assert front <= set(zip(line.x, line.y, strict=True))
    assert len(panel["not on the front"].x) == len(study.counted)
    assert len(panel["knee"].x) == 1


def test_the_figure_on_paper_thins_what_is_dominated_and_says_so(folder, monkeypatch):
    study = read_study(folder)
    (whole,) = front_plot({study.name: study}).panels
    monkeypatch.setattr("carsim.report.figures.pareto.MOST_DRAWN", 5)
    (thin,) = front_plot({study.name: study}).panels
    dominated, others = thin["not on the front"], len(study.counted) - len(study.front)
    assert dominated.name == f"not on the front, {others} ({len(dominated.x)} points drawn)"
    every = -(-len(whole["not on the front"].x) // 5)
    assert every > 1
    assert list(dominated.x) == list(whole["not on the front"].x)[::every]
    for name in ("", "on the front", "knee"):
        assert list(thin[name].x) == list(whole[name].x)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"axes": {"board.dsp": [1, 2]}}, "None of them fits"),
        ({"constraints": ["dsp <= 0"]}, "None of them fits, meets the constraints"),
        ({"objectives": ["energy_per_video_j"]}, "The Pareto front of the least energy"),
        ({"objectives": {"busy": "max"}}, "front of the most cores busy has "),
        ({"objectives": None}, "the least time per video, the least energy per video"),
    ],
)
def test_other_studies_have_pages_too(tmp_path: Path, changes: dict[str, Any], text: str) -> None:
    page = Page(write_page(swept(tmp_path, **{"axes": {"policy.tau": [0, "captured"]}, **changes})))
    assert text in page.text
    assert front_plot({"study": read_study(tmp_path / "out")}).panels, "empty if nothing fits"
    assert len(page.data) == ("board.dsp" not in changes.get("axes", ()))


def test_hostile_studies_are_shown_and_do_nothing(tmp_path: Path) -> None:
    axes = {EVIL: {"choice": {EVIL: {"machine.cores": 1}, "plain": {"machine.cores": 2}}}}
    plain = {"core": {"choice": {"one": {"machine.cores": 1}, "two": {"machine.cores": 2}}}}
    (tmp_path / "plain").mkdir()
    (tmp_path / "evil").mkdir()
    evil_page = Page(write_page(swept(tmp_path / "evil", axes=axes, name=EVIL, description=EVIL)))
    plain_page = Page(write_page(swept(tmp_path / "plain", axes=plain, description="d")))
    assert evil_page.shape == plain_page.shape
    assert evil_page.scripts == plain_page.scripts
    assert evil_page.text.count(EVIL) > 5
    assert "<img" not in json.dumps(evil_page.data)


@pytest.mark.parametrize(
    ("facts", "problem"),
    [
        ({"schema": "9"}, "is a store of schema '9'"),
        ({"objectives": {"nope": "min"}}, "nope"),
        ({"constraints": ["nope < 1"]}, "nope"),
    ],
)
def test_broken_stores_are_one_line(tmp_path: Path, facts: dict[str, Any], problem: str) -> None:
    folder = swept(tmp_path, axes={"machine.cores": [1, 2]})
    restated(folder, **facts)
    with pytest.raises(InputError, match=problem) as error:
        write_page(folder)
    assert "\n" not in str(error.value)
    assert not (folder / "report.html").exists()


def test_of_more_objectives_two_have_a_front_and_the_third_a_colour(tmp_path: Path) -> None:
    from plotly.graph_objects import Figure

    folder = swept(tmp_path, objectives=["seconds_per_video", "energy_per_video_j", "dsp"])
    study = read_study(folder)
    (panel,) = front_plot({study.name: study}).panels
    line, points = panel["front of these two alone"], panel["not on the front"]
    shaded = panel["on the front"]
    assert (shaded.shade, shaded.shade_label) == (study.front["dsp"].tolist(), "DSP slices")
    assert shaded.name == f"on the front, {len(study.front)}"
    assert panel["knee"].name == f"knee, point {study.knee['point'].item()}"
    least = study.seen({"dsp": "min"}, ()).front  # of many with as few
    assert {*least["point"]} < {*study.front["point"]}
    (figure,) = Page(write_page(folder)).data
    traces = {trace["name"]: trace for trace in Figure(figure).data}
    assert traces[shaded.name].marker.colorbar.title.text == "DSP slices"
    _, numbers = write_plot([str(folder)], "front", tmp_path / "front.png")
    assert numbers.read_text().splitlines()[0].endswith(",x,y,shade")
    assert list(line.y) == sorted(line.y, reverse=True)
    corners = set(zip(line.x, line.y, strict=True))
    for x, y in zip(points.x, points.y, strict=True):
        assert (x, y) in corners or any(a <= x and b <= y for a, b in corners)


def test_points_equal_in_all_objectives_are_shown_once_and_fast_clocks_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = read_study(folder)
    (board,) = front_notes(study)
    assert board.startswith("Times and rates are hardware bounds. Expect 1.")
    two = study.counted.head(2).assign(knee=[False, True], clock_ratio=[1.0, 1.5], latency_s=[2, 1])
    study.__dict__["front"] = two.assign(seconds_per_video=1.0, energy_per_video_j=2.0)
    (row,) = front_table(study).rows
    assert row[0] == f"{two['point'].iloc[1]} knee"
    assert [note for note in front_notes(study) if "an end of its axis" not in note] == [
        "1 row for 2 points: of those equal in all objectives, one.",
        "1 point has a clock beyond published designs; with clock_ratio <= 1 in its constraints, "
        "the study leaves them out.",
        board,
    ]
    study.__dict__["front"] = two.assign(seconds_per_video=[1.5, 1.50004], energy_per_video_j=2.0)
    monkeypatch.setattr("carsim.report.front_table.MOST_AXES", len(study.axes) - 1)
    assert front_table(study).headings[1] == METRICS[next(iter(study.objectives))].heading
    monkeypatch.undo()
    assert [row[-2] for row in front_table(study).rows] == ["1.50000", "1.50004"]
    study.__dict__["front"] = study.counted.tail(2).assign(knee=False, seconds_per_video=[1.0, 2.0])
    ends = [note.partition(",")[0] for note in front_notes(study)][:-1]
    assert ends == ["machine.cores is 4", "policy.tau is 0.5"]
