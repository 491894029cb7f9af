"""The page of a sweep: the front and its knee, misfits and why."""

import base64
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from explore_study import AXES, make_study, restated
from pages import EVIL, Page

from carsim.base.errors import InputError
from carsim.explore.frame import export, frame_of
from carsim.explore.pareto import pareto
from carsim.explore.store import open_folder, open_store
from carsim.explore.sweep import fill, sweep
from carsim.metrics import METRICS
from carsim.report.explorer import (
    SAME,
    cheapest_near,
    explorer,
    worth,
    worth_elsewhere,
    worth_table,
)
from carsim.report.figures.pareto import front_plot, heading
from carsim.report.figures.plot import Panel
from carsim.report.figures.policy_looks import policy_look
from carsim.report.front_table import front_notes, front_table
from carsim.report.plots import write_plot
from carsim.report.report import write_page
from carsim.report.stored_study import StoredStudy, read_study

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


def unpacked(column: dict[str, Any]) -> list[Any]:
    """Numbers of a packed column."""
    return np.frombuffer(base64.b64decode(column["base64"]), column["dtype"]).tolist()


def test_the_explorer_holds_every_point_that_counts(folder: Path, page: Page) -> None:
    (document,) = page.data
    study = read_study(folder)
    assert unpacked(document["numbers"]) == study.counted["point"].tolist()
    rank = dict(zip(unpacked(document["numbers"]), unpacked(document["rank"]), strict=True))
    assert {point for point, of in rank.items() if of} == set(study.front["point"])
    assert [point for point, of in rank.items() if of == 2] == study.knee["point"].tolist()
    columns = {column["name"]: column for column in document["columns"]}
    assert [*columns] == [*study.axes, *OBJECTIVES]
    cores = columns["machine.cores"]
    labels = [cores["labels"][code] for code in unpacked(cores["codes"])]
    assert labels == study.counted["machine.cores"].astype(str).tolist()
    assert cores["sets"] == [[["machine.cores", label]] for label in cores["labels"]]
    seconds = unpacked(columns["seconds_per_video"]["values"])
    assert seconds == pytest.approx(study.counted["seconds_per_video"].tolist(), rel=1e-6)
    assert (cores["scale"], columns["policy.schedule"]["scale"]) == ("log", "category")
    times = [
        sum(each) for each in zip(*(unpacked(t["values"]) for t in document["times"]), strict=True)
    ]
    assert times == pytest.approx(study.counted["latency_s"].tolist(), rel=1e-5)


def test_a_command_of_the_explorer_is_that_of_the_terminal(folder: Path, page: Page) -> None:
    (document,) = page.data
    command = document["command"]
    assert (command["design"], command["traces"]) == ("toy.yaml", ["toy.npz"])
    axis = next(each for each in document["columns"] if each["name"] == "policy.schedule")
    assert axis["sets"] == [[["policy.schedule", label]] for label in axis["labels"]]


def test_points_that_no_board_tells_apart_are_one_family(folder: Path) -> None:
    study = read_study(folder)
    two = study.counted.head(3).assign(knee=[False, True, False])
    study.__dict__["front"] = two.assign(
        seconds_per_video=[1.0, 1.0 + 0.9 * SAME, 2.0], energy_per_video_j=[2.0, 2.0, 1.0]
    )
    document = explorer(study)
    assert document is not None
    family = dict(zip(unpacked(document["numbers"]), unpacked(document["family"]), strict=True))
    assert [family[point] for point in two["point"]] == [1, 1, 2]
    assert set(family.values()) == {0, 1, 2}


def test_an_axis_is_worth_what_its_worst_choice_costs(folder: Path) -> None:
    study = read_study(folder)
    for axis in study.axes:
        found = worth(study, axis, "energy_per_video_j")
        best = study.counted.groupby(axis)["energy_per_video_j"].min()
        if len(best) == 1:
            assert found is None
            continue
        assert found is not None
        assert found.share == pytest.approx(best.max() / best.min() - 1)
    table = worth_table(study)
    assert table.headings == ("axis", "time per video [s]", "energy per video [J]")
    assert {row[0] for row in table.rows} == {heading(axis) for axis in study.axes}


def test_the_page_of_a_proven_front_does_not_say_what_axes_are_worth(tmp_path: Path) -> None:
    """The points without a result are worse, so the best of a bad choice would look too bad."""
    study = make_study(tmp_path, axes=MANY, objectives=OBJECTIVES)
    sweep(study, tmp_path / "out", workers=0, front_only=True)
    stored = read_study(tmp_path / "out")
    assert stored.is_part
    assert len(stored.front)
    page = Page(write_page(tmp_path / "out"))
    total = stored.facts["points"]
    assert f"a front of {total} points" in page.text
    assert f"{total - len(stored.frame)} proven not to be on the front" in page.text
    assert f"Only {len(stored.frame)} of {total} points have a result" in page.text
    assert "What each axis is worth" not in page.text


def test_a_dense_study_says_that_nothing_replays(tmp_path: Path) -> None:
    study = read_study(swept(tmp_path, axes={"policy.batch": [2]}, traces=None, workload="video:3"))
    assert study.assumed.endswith("; nothing replays.")


def test_an_axis_that_is_worth_nothing_at_the_best_point_says_where_it_is_worth_most() -> None:
    """A schedule moves nothing at a batch of one, which is fastest here, and 25 % at four."""
    points = pd.DataFrame(
        {
            "policy.schedule": ["static", "drs"] * 3,
            "policy.batch": [1, 1, 2, 2, 4, 4],
            "machine.cores": [2] * 6,
            "seconds_per_video": [1.0, 1.0, 2.2, 2.0, 5.0, 4.0],
        }
    )
    study = SimpleNamespace(
        counted=points,
        axes=dict.fromkeys(points.columns[:3]),
        objectives={"seconds_per_video": "min"},
    )
    found = worth_elsewhere(study, "policy.schedule", "seconds_per_video")
    assert found is not None
    assert (found.share, found.other, found.choice) == (pytest.approx(0.25), "policy.batch", "4")
    rows = {row[0]: row[1] for row in worth_table(study).rows}
    assert rows["schedule"] == "0.0 % (up to 25.0 % at batch 4)"
    points["seconds_per_video"] = [1.0, 1.0, 2.0, 2.0, 4.0, 4.0]
    assert worth_elsewhere(study, "policy.schedule", "seconds_per_video") is None
    rows = {row[0]: row[1] for row in worth_table(study).rows}
    assert rows["schedule"] == "0.0 %"


def test_the_cheapest_near_the_fastest_is_named(folder: Path) -> None:
    study = read_study(folder)
    front = study.front
    near = front[front["seconds_per_video"] <= 1.05 * front["seconds_per_video"].min()]
    point = near.loc[near["energy_per_video_j"].idxmin(), "point"]
    assert f"point {point} has the least energy per video" in cheapest_near(study)


def on_front(panel: Panel) -> list[tuple[float | None, float | None]]:
    """Points of the front of a figure, which has a series for each policy."""
    series = [each for each in panel.series if each.name.startswith("on the front")]
    assert series
    return [point for each in series for point in zip(each.x, each.y, strict=True)]


def test_the_front_on_paper_is_a_line_that_no_point_is_below(folder: Path) -> None:
    study = read_study(folder)
    (panel,) = front_plot({study.name: study}).panels
    line = panel[""]
    assert list(line.x) == sorted(line.x)
    assert list(line.y) == sorted(line.y, reverse=True)
    assert set(on_front(panel)) <= set(zip(line.x, line.y, strict=True))
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
    for name in ("", "knee"):
        assert list(thin[name].x) == list(whole[name].x)
    assert on_front(thin) == on_front(whole)


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
    counts = "board.dsp" not in changes.get("axes", ()) and changes.get("constraints") is None
    assert len(page.data) == counts


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
    assert "<img src=x" not in evil_page.html


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
    axes = {"machine.cores": [1, 2, 4], "policy.tau": [-0.5, 0.0, 0.5]}
    objectives = ["seconds_per_video", "energy_per_video_j", "dsp"]
    folder = swept(tmp_path, axes=axes, objectives=objectives)
    study = read_study(folder)
    (panel,) = front_plot({study.name: study}).panels
    line, points = panel["front of these two alone"], panel["not on the front"]
    shaded = panel["on the front"]
    assert (shaded.shade, shaded.shade_label) == (study.front["dsp"].tolist(), "DSP slices")
    assert shaded.name == f"on the front, {len(study.front)}"
    assert panel["knee"].name == f"knee, point {study.knee['point'].item()}"
    assert panel["knee"].text == [f"knee, point {study.knee['point'].item()}"]
    least = study.seen({"dsp": "min"}, ()).front  # of many with as few
    assert {*least["point"]} < {*study.front["point"]}
    (document,) = Page(write_page(folder)).data
    assert document["objectives"] == ["seconds_per_video", "energy_per_video_j", "dsp"]
    _, numbers = write_plot([str(folder)], "front", tmp_path / "front.png")
    assert numbers.read_text().splitlines()[0].endswith(",x,y,shade")
    assert list(line.y) == sorted(line.y, reverse=True)
    corners = set(zip(line.x, line.y, strict=True))
    for x, y in zip(points.x, points.y, strict=True):
        assert (x, y) in corners or any(a <= x and b <= y for a, b in corners)


def with_front(study: StoredStudy, front: pd.DataFrame) -> None:
    """Put another front in place of the one that was found."""
    study.__dict__.pop("representatives", None)  # of the front before
    study.__dict__["front"] = front


def test_points_equal_in_all_objectives_are_shown_once_and_fast_clocks_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = read_study(folder)
    (board,) = front_notes(study)
    assert board.startswith(
        "Metrics whose names lack expected_ are as simulated. On a board, expect 1."
    )
    assert "from 11 published FPGA systems" in board
    two = study.counted.head(2).assign(knee=[False, True], clock_ratio=[1.0, 1.5], latency_s=[2, 1])
    with_front(study, two.assign(seconds_per_video=1.0, energy_per_video_j=2.0))
    (row,) = front_table(study).rows
    assert row[0] == f"{two['point'].iloc[1]} knee"
    assert [note for note in front_notes(study) if "an end of its axis" not in note] == [
        "1 row for 2 points: of those equal in all objectives, one.",
        "1 point has a clock beyond published designs; with clock_ratio <= 1 in its constraints, "
        "the study leaves them out.",
        board,
    ]
    with_front(study, two.assign(seconds_per_video=[1.5, 1.50004], energy_per_video_j=2.0))
    monkeypatch.setattr("carsim.report.front_table.MOST_AXES", len(study.axes) - 1)
    assert front_table(study).headings[1] == METRICS[next(iter(study.objectives))].heading
    monkeypatch.undo()
    assert [row[-2] for row in front_table(study).rows] == ["1.50000", "1.50004"]
    last = study.counted.tail(2).assign(knee=[True, False], energy_per_video_j=[2.0, 1.0])
    with_front(study, last.assign(seconds_per_video=[1.0, 2.0]))
    ends = [note.partition(",")[0] for note in front_notes(study)][:-1]
    assert ends == ["machine.cores is 4", "policy.tau is 0.5"]


def test_the_explorer_knows_the_policy_of_each_point_and_its_look(tmp_path: Path) -> None:
    axes = {"policy.schedule": ["static", "drs"], "machine.cores": [2, 5]}
    study = read_study(swept(tmp_path, axes=axes))

    def policy_of(shown: StoredStudy) -> Any:
        document = explorer(shown)
        assert document is not None
        return document["policy"]

    policy = policy_of(study)
    labels = policy["labels"]
    codes = np.frombuffer(base64.b64decode(policy["codes"]["base64"]), np.uint8)
    assert [labels[code] for code in codes] == study.counted["policy_name"].tolist()
    assert len(labels) == 2
    assert policy["colours"] == [policy_look(label).colour for label in labels]
    alike = replace(study, frame=study.frame.assign(policy_name=labels[0]))
    assert policy_of(alike) is None
    older = replace(study, frame=study.frame.assign(policy_name=np.nan))
    assert policy_of(older) is None
