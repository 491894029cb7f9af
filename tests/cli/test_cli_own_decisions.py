"""Decisions of the user's own: their label stands in every output, and no CSV is a program."""

import csv
import gzip
import json
import re
from pathlib import Path

import numpy as np
import pytest
from explore_study import write_study
from tiny import TINY, tiny_trace

import carsim
from carsim.decisions.trace import Trace, save_trace
from carsim.metrics.columns import COLUMNS
from carsim.report.figures import run_plots
from carsim.report.stored import read_run
from carsim.studio.point import point_of
from carsim.studio.reach import Reach
from carsim.studio.state import TabState

LABEL = "=every second token <b>"


@pytest.fixture
def own(toy, tmp_path):
    """Paths of the toy design and of a trace of own decisions."""
    base = tiny_trace(decoded=TINY)
    replay = np.zeros_like(base.replay)
    replay[17::2] = True
    path = tmp_path / "own.npz"
    save_trace(path, Trace.from_decisions(replay, base, LABEL))
    return toy[0], str(path)


def rows_of(path):
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def columns_hold(name, heading, axes=(), unasked=()):
    """Every column of a file is documented, and every documented column is there."""
    columns = COLUMNS[name]
    known = {*columns, *axes} - {"AXIS", "MEMORY_of_peak"}
    found = {re.sub(r"^\w+_of_peak$", "MEMORY_of_peak", each) for each in heading} & {*columns}
    assert {each for each in heading if not each.endswith("_of_peak")} <= known, name
    assert not {*columns} - found - {"AXIS", *unasked}, name


def test_a_run_calls_them_by_their_label(call, prints, own, tmp_path):
    out = tmp_path / "out"
    printed = prints("run", own[0], "--trace", own[1], "--out", out, "--timeline", "20:22")
    assert f"policy     {LABEL} + DRS; " in printed
    assert "FastCar" not in printed
    assert "replay; own decisions" in " ".join(printed.split())
    assert call("report", out)[0] == 0
    for name in ("summary.json", "comparison.csv", "timeline.json", "report.html"):
        text = (out / name).read_text(encoding="utf-8")
        assert re.search("=every second token (<b>|&lt;b&gt;) \\+ DRS", text), name
        assert "FastCar" not in text, name
    assert "=every second token <b>" not in text, "the page"
    plots = run_plots(read_run(out), None)
    assert f"{LABEL} + DRS *" in plots["comparison"].panels[0].categories
    assert any(f"{LABEL} + DRS" in str(panel) for panel in plots["breakdown"].panels)
    for file in (*out.glob("*.csv"), *out.glob("*.csv.gz")):
        heading, *rows = rows_of(file)
        columns_hold(file.name, heading)
        cells = [each for row in (heading, *rows) for each in row]
        assert not [each for each in cells if each.startswith(("=", "+", "@"))], file.name
    assert {"comparison.csv", "utilisation.csv"} <= {file.name for file in out.iterdir()}


def test_a_sweep_and_its_front_do(call, prints, own, tmp_path):
    choice = {"=1+1": {"machine.cores": 1}, "two": {"machine.cores": 2}}
    study = write_study(
        tmp_path,
        traces=["toy.npz"],
        axes={"=cmd": {"choice": choice}, "trace": ["toy.npz", "own.npz"]},
        objectives=["latency_s", "lut"],
    )
    out = tmp_path / "swept"
    prints("sweep", study, "--out", out, "--workers", "0")
    printed = prints("report", out, "--front", "--out", out)
    assert f"In 2 of 4 points, decisions are {LABEL}." in printed
    assert call("report", out)[0] == 0
    (page,) = out.glob("*.html")
    assert page.read_text(encoding="utf-8").count("=every second token &lt;b&gt;") >= 1
    for name in ("points.csv", "pareto.csv"):
        heading, *rows = rows_of(out / name)
        columns_hold(name, heading, axes=("'=cmd", "trace"), unasked=["robust"])
        assert f"'{LABEL}" in [row[heading.index("decisions")] for row in rows]
        assert "'=1+1" in [row[heading.index("'=cmd")] for row in rows]


def test_a_list_a_comparison_and_the_studio_do(call, own):
    _, listed, _ = call("trace", "list", "--csv", own[1])
    heading, row = csv.reader(listed.splitlines())
    columns_hold("carsim trace list --csv", heading)
    assert row[heading.index("tau")] == f"'{LABEL}"
    sides = [own[0], own[0], "--set-b", "machine.cores=1", "--trace", own[1]]
    _, printed, _ = call("compare", *sides)
    assert printed.count(f"decisions {LABEL}") == 2
    assert f"{LABEL} + DRS" in json.loads(call("compare", *sides, "--json")[1])["a"]["own_policy"]
    found = point_of(TabState(own[0], trace=own[1]), Reach((Path("/"),))).run
    assert found.own.policy == f"{LABEL} + DRS"


def test_nothing_else_writes_csv():
    """A file that is written elsewhere would miss from the table, and from the tests above."""
    package = Path(carsim.__file__).parent
    writes = re.compile(r"\.to_csv\(|csv\.writer|DictWriter|write_csv")
    found = {
        path.relative_to(package).as_posix(): len(writes.findall(path.read_text(encoding="utf-8")))
        for path in package.rglob("*.py")
    }
    assert {name: n for name, n in found.items() if n} == {"metrics/columns.py": 1}
