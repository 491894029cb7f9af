"""A paper's table and figure beside carsim's."""

import csv
import json
from importlib.resources import files
from pathlib import Path

import matplotlib.image
import pytest
from click.testing import CliRunner

from carsim.cli.reproduce import CAPTION, FIGURES, FILES, TABLE, reproduce, reproduction_plot
from carsim.design import load_design
from carsim.metrics.columns import COLUMNS
from carsim.validate.paper import DESIGN, paper_rows, simulate_row
from carsim.validate.reproduce import PAPERS, Reproduction, reproduce_fastcar


@pytest.fixture(scope="module")
def fastcar() -> Reproduction:
    return reproduce_fastcar()


@pytest.fixture(scope="module")
def published() -> dict[str, dict[str, str]]:
    """The rows as the data file has them, by name."""
    text = (files("carsim.validate") / "data/fastcar_paper.csv").read_text(encoding="utf-8")
    return {row["row"]: row for row in csv.DictReader(text.splitlines())}


def test_each_row_stands_beside_its_simulation_and_its_rivals(
    fastcar: Reproduction, published: dict[str, dict[str, str]]
) -> None:
    assert [row.row.name for row in fastcar.rows] == [*published]
    base = load_design(DESIGN)
    for row in fastcar.rows:
        assert row.row.latency_s == float(published[row.row.name]["latency_s"])
        assert row.latency_s == simulate_row(base, row.row).latency_s
        assert row.error == pytest.approx(row.latency_s / row.row.latency_s - 1)
    # By hand: 7/8 of the steps are eligible, half of them replay, and the MLP is 62.8 % of the
    # work: 689.7 s less 27.5 % (studies/paper). The paper has 475.3 s.
    half = next(row for row in fastcar.rows if row.label == "50 % replay")
    assert half.skipping_s == pytest.approx(496.5, abs=0.1)
    assert half.skipping_error == pytest.approx(496.5 / 475.3 - 1, abs=1e-3)
    assert abs(half.error) < half.skipping_error


def test_errors_are_those_of_all_rows_rivals_included(fastcar: Reproduction) -> None:
    assert {*fastcar.errors} == {"carsim", "linear skipping", "a fitted line"}
    for name, sizes in (
        ("carsim", [abs(row.error) for row in fastcar.rows]),
        ("linear skipping", [abs(row.skipping_error) for row in fastcar.rows]),
        ("a fitted line", [abs(row.line_error) for row in fastcar.rows]),
    ):
        assert fastcar.errors[name].mean == pytest.approx(sum(sizes) / len(sizes))
        assert fastcar.errors[name].worst == max(sizes)


def test_the_figure_has_published_points_simulated_rings_and_all_errors(
    fastcar: Reproduction, published: dict[str, dict[str, str]]
) -> None:
    left, right = reproduction_plot(fastcar).panels
    points = [series for series in left.series if series.name.startswith("published")]
    drawn = {(x, y) for series in points for x, y in zip(series.x, series.y, strict=True)}
    wanted = {(100 * float(r["replay_ratio"]), float(r["latency_s"])) for r in published.values()}
    assert drawn == wanted
    rings = [series for series in left.series if series.name.startswith("carsim, ")]
    assert {y for series in rings for y in series.y} == {row.latency_s for row in fastcar.rows}
    assert right.categories == tuple(row.label for row in fastcar.rows)
    assert list(right["error of carsim"].x) == [100 * row.error for row in fastcar.rows]
    # The curve goes through the rows with full attention.
    curve = dict(zip(left["carsim"].x, left["carsim"].y, strict=True))
    for row in fastcar.rows[3:6]:
        assert curve[100 * row.row.replay_ratio] == row.latency_s


def test_what_the_paper_leaves_open_is_said(fastcar: Reproduction) -> None:
    said = " ".join(fastcar.notes)
    assert "predicts no row" in said
    assert "44.8 % if the ratio counts eligible steps, 51.2 % if it counts all steps" in said


def invoke(*arguments: str) -> str:
    result = CliRunner().invoke(reproduce, arguments, standalone_mode=False, catch_exceptions=False)
    return result.output


def test_a_folder_has_table_figure_numbers_and_caption(tmp_path: Path) -> None:
    out = tmp_path / "out"
    printed = invoke("fastcar", "--out", str(out))
    assert f"Written to {out}: {', '.join(FILES)}" in printed
    assert {path.name for path in out.iterdir()} == {*FILES}
    rows = list(csv.DictReader((out / TABLE).read_text(encoding="utf-8").splitlines()))
    assert len(rows) == len(paper_rows())
    assert [*rows[0]] == [*COLUMNS["carsim reproduce: table.csv"]]
    caption = (out / CAPTION).read_text(encoding="utf-8")
    for text in (DESIGN, "predicts no row", "decisions drawn independently", "carsim 0."):
        assert text in caption
    width = matplotlib.image.imread(out / FIGURES[1]).shape[1]
    assert width == round(7.16 * 300)


def test_json_is_one_document() -> None:
    document = json.loads(invoke("fastcar", "--json"))
    assert len(document["rows"]) == len(paper_rows())
    assert document["errors"]["carsim"]["mean"] < document["errors"]["linear skipping"]["mean"]
    assert document["unsaid"]
    assert document["not_reproduced"]
    assert document["files"] == []
    assert {*PAPERS} == {"fastcar"}
