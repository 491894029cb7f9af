"""``carsim config metrics`` lists the table of metrics."""

import json

from carsim.metrics import METRICS


def test_every_metric_is_listed_with_unit_meaning_and_formula(call):
    status, out, err = call("config", "metrics")
    assert (status, err) == (0, "")
    for metric in METRICS.values():
        for text in (metric.name, metric.meaning, metric.formula):
            assert text in out
    rows = json.loads(call("config", "metrics", "--json")[1])
    assert [row["name"] for row in rows] == list(METRICS)
    assert rows[0]["better"] == "lower"
