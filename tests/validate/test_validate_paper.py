"""FastCar's published rows: what is drawn, expected and fitted."""

import json
from dataclasses import replace

import numpy as np
import pytest
from carsim.machine.bench import Ahead
from carsim.machine.memo import PhaseMemo
from click.testing import CliRunner

from carsim.cli.validate_paper import paper
from carsim.design import StreamingAttention, load_design, override
from carsim.machine import drs
from carsim.machine.hardware import Hardware
from carsim.machine.phase import AttendCase, MlpCase, OutputCase, Phases
from carsim.validate import paper as paper_module
from carsim.validate.paper import DESIGN, simulate_rows
from carsim.validate.paper_machine import (
    PAPER_VIDEO,
    Candidate,
    candidate_design,
    drawn_decisions,
    replay_probability,
)
from carsim.validate.paper_rows import null_latency_s, paper_rows
from carsim.validate.paper_set import Explanation, PhaseCycles, computing_distribution, explain

BASE = load_design(DESIGN)
ROWS = paper_rows()
OWN = Candidate(BASE.machine.cores, BASE.policy.batch)


@pytest.mark.parametrize("p", [0.0, 0.13, 0.8, 1.0])
@pytest.mark.parametrize("correlation", [0.0, 0.05, 0.5])
def test_number_of_computing_sequences_has_the_moments_of_a_beta_binomial(p, correlation):
    batch = 11
    chance = computing_distribution(batch, p, correlation)
    n = np.arange(batch + 1)
    mean = chance @ n
    variance = chance @ (n - mean) ** 2
    assert chance.sum() == pytest.approx(1)
    assert mean == pytest.approx(batch * p)
    assert variance == pytest.approx(batch * p * (1 - p) * (1 + (batch - 1) * correlation))


def test_ratio_of_all_steps_asks_more_of_the_eligible_ones_until_there_are_no_more():
    over_all = replace(OWN, ratio_of="all")
    assert replay_probability(OWN, 0.5) == 0.5
    assert replay_probability(over_all, 0.5) == pytest.approx(0.5 * 8 / 7)
    assert replay_probability(over_all, 0.9) == 1.0


@pytest.mark.parametrize(("ratio_of", "eligible"), [("eligible", 0.5), ("all", 4 / 7)])
def test_drawn_decisions_have_the_ratio_and_correlation_asked_for(ratio_of, eligible):
    asked = Candidate(4, 6, correlation=0.3, ratio_of=ratio_of)
    replay = drawn_decisions(asked, 0.5, 8, np.random.default_rng(1)).replay
    first = PAPER_VIDEO.tokens_per_frame
    assert replay.shape == (2048, 8, 6)
    assert not replay[:first].any()
    later = replay[first:].reshape(-1, 6)
    assert later.mean() == pytest.approx(eligible, abs=0.01)
    between = np.corrcoef(later.T)[np.triu_indices(6, 1)]
    assert between.mean() == pytest.approx(0.3, abs=0.02)
    if ratio_of == "all":
        assert replay.mean() == pytest.approx(0.5, abs=0.01)


def test_independent_decisions_do_not_correlate():
    replay = drawn_decisions(Candidate(3, 4), 0.5, 8, np.random.default_rng(1)).replay
    later = replay[PAPER_VIDEO.tokens_per_frame :].reshape(-1, 4)
    assert np.abs(np.corrcoef(later.T)[np.triu_indices(4, 1)]).max() < 0.03


def test_rows_are_those_published():
    assert [row.latency_s for row in ROWS] == [
        689.7, 670.5, 662.7, 556.8, 475.3, 390.7, 354.5, 324.3
    ]  # fmt: skip
    assert ROWS[6].attention == StreamingAttention(sinks=4, window=256)
    assert [row.replay_ratio for row in ROWS[3:]] == [0.2, 0.5, 0.8, 0.87, 0.87]


def test_null_model_is_linear_in_the_work_that_is_skipped():
    # Per token: 4.329e9 MACs of MLP in 6.476e9 of weights, 262,144 per token attended to.
    mean_context = 62 + (2048 + 1) / 2
    work = 6_476_005_376 + 262_144 * mean_context
    replay50 = null_latency_s(ROWS[4], ROWS, BASE.model.body)
    mlp = 0.5 * 32 * 3 * 4096 * 11008
    assert replay50 == pytest.approx(689.7 * (1 - mlp * 7 / 8 / work))
    over_all = null_latency_s(ROWS[4], ROWS, BASE.model.body, "all")
    assert over_all == pytest.approx(689.7 * (1 - mlp / work))
    sa16 = null_latency_s(ROWS[2], ROWS, BASE.model.body)
    assert sa16 == pytest.approx(689.7 * (6_476_005_376 + 262_144 * 20) / work)


def test_a_machine_of_heads_takes_each_phase_from_its_side():
    design = candidate_design(BASE, OWN, 250.0)
    split = PhaseMemo(Hardware(design))
    by_sequences = Phases(Hardware(override(design, {"machine.mapping": "batch"})))
    by_heads = Phases(Hardware(override(design, {"machine.mapping": "tensor"})))
    none = Ahead()
    mlp = MlpCase((2, 1, 1), 0, 0, True, False, False, none)
    attend, output = AttendCase(True, 900, False, none), OutputCase(False, none)
    qkv = by_heads.qkv_case(True, 900, none)
    assert split.layer_phase(mlp) == by_sequences.simulate(mlp)
    assert split.layer_phase(attend) == by_heads.simulate(attend)
    assert split.layer_phase(output) == by_heads.simulate(output)
    assert split.layer_phase(split.phases.qkv_case(True, 900, none)) == by_heads.simulate(qkv)
    # Four sequences on three cores: two rounds by sequences, 4/3 by heads (11 of 32 heads a core).
    ratio = split.layer_phase(attend).cycles / by_sequences.simulate(attend).cycles
    assert ratio == pytest.approx(4 * 11 / 32 / 2, rel=0.02)


def test_mlp_takes_two_rounds_if_all_compute_and_one_if_any_replays():
    memo = PhaseMemo(Hardware(candidate_design(BASE, OWN, 287.8)))

    def cycles(computing: int) -> int:
        who = [b < computing for b in range(4)]
        loads = drs.loads_of(drs.drs(who, 3), 3)
        case = MlpCase(loads, 4 - computing, 0, True, True, False, Ahead())
        return memo.layer_phase(case).cycles

    one_round = 3 * 4096 * 11008 / 128
    expected = [0, one_round, one_round, one_round, 2 * one_round]
    assert [cycles(n) for n in range(5)] == pytest.approx(expected, rel=0.01, abs=3000)


@pytest.mark.parametrize(
    "candidate",
    [OWN, Candidate(5, 6, correlation=0.15), Candidate(2, 5, "sequences", 0.2, "all")],
)
def test_expectation_is_what_drawn_decisions_take(candidate):
    found = explain(BASE, [candidate], ROWS)[0]
    simulated = simulate_rows(BASE, candidate, found.clock_mhz, ROWS)
    errors = [s / row.latency_s - 1 for s, row in zip(simulated, ROWS, strict=True)]
    assert errors == pytest.approx(found.errors, abs=0.002)


def test_drawn_decisions_are_the_same_every_time():
    once, again = (simulate_rows(BASE, OWN, 287.8, ROWS[3:5]) for _ in range(2))
    assert once == again


def test_memory_too_slow_for_the_dense_row_explains_nothing():
    assert explain(BASE, [replace(OWN, weights="16 bit in DDR4")], ROWS) == []


def test_leaving_the_prompt_out_slows_the_fitted_clock_by_its_share():
    with_prompt, without = (explain(BASE, [OWN], ROWS, prefill=p)[0] for p in (True, False))
    phases = PhaseCycles(BASE, OWN, 287.8)
    share = phases.seconds(ROWS[0], OWN, prefill=False) / phases.seconds(ROWS[0], OWN)
    assert without.clock_mhz / with_prompt.clock_mhz == pytest.approx(share, rel=1e-3)
    assert 0.95 < share < 0.98


def test_left_out_errors_are_those_of_the_best_scale_of_the_other_rows():
    errors = (0.0, 0.02, -0.01, 0.05, -0.04, 0.01)
    found = Explanation(OWN, 300.0, errors).left_out_errors
    ratios = 1 + np.array(errors)
    scales = np.linspace(0.9, 1.1, 20_001)
    for index, error in enumerate(found):
        others = np.delete(ratios, index)
        best = scales[np.abs(np.outer(scales, others) - 1).mean(axis=1).argmin()]
        assert error == pytest.approx(ratios[index] * best - 1, abs=2e-5)


def test_command_fails_when_a_bound_is_left(monkeypatch):
    report = paper_module.validate_paper()
    monkeypatch.setattr(paper_module, "validate_paper", lambda progress: report)
    document = json.loads(CliRunner().invoke(paper, ["--json"]).stdout)
    assert document["passes"]
    assert [row["status"] for row in document["rows"]].count("fitted") <= 3
    assert len(document["rows"][0]) == len(document["rows"][-1])
    text = CliRunner().invoke(paper, [], standalone_mode=False)
    assert text.return_value is None
    assert "within the bounds" in text.stdout
    assert "replay87_sa16" in text.stdout
    monkeypatch.setattr(paper_module, "MEAN_BOUND", report.mean_error / 2)
    failed = CliRunner().invoke(paper, [], standalone_mode=False)
    assert failed.return_value == 1
    assert "OUTSIDE OF" in failed.stdout
