"""All policies on one machine: what is assumed, what is not, and figures beside other sources."""

import pytest

from carsim.decisions.attention import ATTENTION
from carsim.decisions.replay import RULES
from carsim.design import load_design
from carsim.explore.tricks import Trick, attentions, tricks_of, tricks_table
from carsim.runs.pipeline import run
from carsim.workload.workload import workload_of

GAINS = {  # of studies/league on zcu102_16gb, whose decisions were captured
    **{"window 256": 1.35, "draft 0.25": 1.30, "LSH 4 bit": 1.27, "quantised 0.25": 1.12},
    **{"TempCache 0.8": 1.15, "AnnCA 8 bit": 1.01, "W4A4": 1.20, "replay by TAS": 1.07},
    "draft 0.25 + replay by TAS": 1.43,
}


@pytest.fixture(scope="module")
def tricks() -> dict[str, Trick]:
    found = tricks_of(load_design("zcu102_16gb"), workload_of("video:8"))
    return {each.name: each for each in found}


def test_every_policy_and_rule_is_there(tricks: dict[str, Trick]) -> None:
    single = {kind for kind, policy in ATTENTION.items() if not policy.joins_others}
    assert {policy.kind for policy in attentions().values()} == single
    assert {f"replay by {rule.label}" for rule in RULES.values()} <= set(tricks)
    assert {"draft 0.25 + W4A4", "W4A4 + replay by TAS", "draft 0.25 + replay by TAS"} <= {*tricks}


def test_gains_are_those_of_captured_decisions_within_two_percent(tricks: dict[str, Trick]) -> None:
    dense, same = tricks["dense decoding"].seconds, run("zcu102_16gb", workload="video:8").chosen
    seconds = same.seconds_per_video, sum(same.seconds_by_category.values())
    assert seconds == (dense, pytest.approx(same.latency_s))
    gains = {cells[0]: cells[2].value for cells in tricks_table(tuple(tricks.values())).rows}
    assert {name: gains[name] for name in GAINS} == pytest.approx(GAINS, rel=0.02)


def test_what_depends_on_data_is_assumed(tricks: dict[str, Trick]) -> None:
    assumed = {name for name, each in tricks.items() if each.is_assumed}
    assert {"draft 0.25", "replay by TAS", "draft 0.25 + W4A4"} <= assumed
    assert not assumed & {"dense decoding", "window 256", "W4A4", "replay by period"}
    assert tricks["draft 0.25"].on_chip.startswith("+")
    captured = tricks_of(load_design("zcu102_head"), workload_of("trace:vilau_8f"))
    by_name = {each.name: each.is_assumed for each in captured}
    assert not by_name["replay by TAS"]
    assert by_name["window 256 + replay by TAS"]
