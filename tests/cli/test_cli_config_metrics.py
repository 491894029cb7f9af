"""``carsim config metrics`` lists the table of metrics."""

import json

import pytest
from tiny import tiny_report

from carsim.metrics import METRICS, Metric
from carsim.report import save_report
from carsim.report.report import write_page


def test_every_metric_is_listed_with_unit_meaning_and_formula(call):
    status, out, err = call("config", "metrics")
    assert (status, err) == (0, "")
    for metric in METRICS.values():
        for text in (metric.name, metric.meaning, metric.formula):
            assert text in out
    rows = json.loads(call("config", "metrics", "--json")[1])
    assert [row["name"] for row in rows] == list(METRICS)
    assert rows[0]["better"] == "lower"


@pytest.mark.parametrize("shown", ["headline", "detail", "no"])
def test_a_metric_from_outside_is_shown_where_its_row_says(call, toy, tmp_path, shown):
    def value(row, run):
        return 4321.5

    METRICS.register(Metric("own_j", "J", "of my own", "Joules", "", None, value, shown=shown))
    try:
        run = ("run", toy[0], "--trace", toy[1])
        printed = {more: call(*run, *more.split())[1] for more in ("", "--full", "--json")}
        save_report(tiny_report(), tmp_path / "out")
        page = write_page(tmp_path / "out").read_text(encoding="utf-8")
    finally:
        del METRICS["own_j"]
    assert ("4,322" in printed[""]) == (shown == "headline")
    assert ("of my own [J]" in printed["--full"]) == ("of my own [J]" in page) == (shown != "no")
    assert '"own_j": 4321.5' in printed["--json"]
