"""A stated workload that names the rule whose scores are charged."""

import numpy as np
import pytest
from tiny import tiny_design

from carsim.base.errors import InputError
from carsim.decisions.replay import FASTCAR, InputChange
from carsim.decisions.trace.stated import stated_trace
from carsim.workload.workload import Workload, workload_of


def test_a_workload_names_a_rule_and_draws_equal_decisions() -> None:
    model = tiny_design().model
    usual = stated_trace(workload_of("video:3,replay=0.5"), model, 4)
    named = stated_trace(workload_of("video:3,replay=0.5,rule=input_change"), model, 4)
    assert (usual.meta.rule, named.meta.rule) == (FASTCAR, InputChange())
    np.testing.assert_array_equal(usual.replay, named.replay)
    assert "scores of" in named.name
    assert workload_of(Workload("video", replay=0.5, rule="tas").text).rule == "tas"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("video:3,rule=tas", "rule is of decisions to replay, and nothing replays"),
        ("video:3,replay=0.5,rule=nothing", "no replay rule 'nothing'; known are tas,"),
        ("video:3,replay=0.5,rule=3", "rule: expected the kind of a rule of replay, got 3"),
        ("text:3,rule=tas", "has no `rule`"),
    ],
)
def test_a_rule_that_cannot_be_is_refused(words: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        stated_trace(workload_of(words), tiny_design().model, 4)
