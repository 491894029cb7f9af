"""``carsim config metrics`` lists the table of metrics."""

import json
from functools import partial

from tiny import tiny_report

from carsim.metrics import METRICS, Metric
from carsim.report import save_report
from carsim.report.report import write_page


def test_every_metric_is_listed_with_unit_meaning_and_formula(prints):
    out = prints("config", "metrics")
    for metric in METRICS.values():
        assert all(text in out for text in (metric.name, metric.meaning, metric.formula))
    rows = json.loads(prints("config", "metrics", "--json"))
    assert [row["name"] for row in rows] == list(METRICS)
    assert rows[0]["better"] == "lower"


SHOWN = {"headline": 4321.5, "detail": 5432.5, "no": 6543.5}


def test_a_metric_from_outside_is_shown_where_its_row_says(prints, toy, tmp_path):
    for shown, value in SHOWN.items():
        of = partial(lambda found, row, run: found, value)
        own = Metric(f"own_{shown}", "J", f"own {shown}", "Mine", "", None, of, shown=shown)
        METRICS.register(own)
    try:
        run = ("run", toy[0], "--trace", toy[1])
        short, full, as_json = (prints(*run, *more) for more in ([], ["--full"], ["--json"]))
        save_report(tiny_report(), tmp_path / "out")
        page = write_page(tmp_path / "out").read_text(encoding="utf-8")
    finally:
        for shown in SHOWN:
            del METRICS[f"own_{shown}"]
    for shown, value in SHOWN.items():
        assert (f"{value:,.0f}" in short) == (shown == "headline")
        assert all((f"own {shown} [J]" in each) == (shown != "no") for each in (full, page))
        assert f'"own_{shown}": {value}' in as_json
