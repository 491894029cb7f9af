"""Two sources of decisions: a choice changes where following the other source costs something."""

import pandas as pd
import pytest

from studies.sources import run as sources


def table(published: list[float]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "schedule": ["static", "drs"] * 2,
            "batch": [8, 8, 16, 16],
            "captured": [10.0, 9.0, 20.0, 19.0],
            "published": published,
        }
    )


def test_sources_that_name_the_same_change_nothing():
    found = sources.compared(table([11.0, 9.9, 22.0, 20.9]))
    assert found["published_less_captured_median"] == pytest.approx(0.1)
    assert found["rank_correlation"] == 1
    assert found["choices"] == 4
    assert found["changed"] == 0
    assert found["dearest_is"] == ""


def test_a_choice_that_changes_has_its_cost():
    found = sources.compared(table([10.0, 11.0, 20.0, 19.0]))
    assert found["changed"] == 1
    assert found["dearest"] == pytest.approx(10 / 9 - 1)  # static, on the captured decisions
    assert found["dearest_is"] == "schedule at 8: drs or static"


def test_a_tie_is_no_change():
    found = sources.compared(table([9.98, 9.99, 20.0, 19.0]).assign(captured=[9.03, 9.0, 20, 19]))
    assert found["changed"] == 0
    assert 0 < found["dearest"] < sources.MATTERS
