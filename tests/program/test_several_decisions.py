"""A decoder in which attention and MLP follow decisions of their own; work by hand."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import call
from explore_study import make_study
from hypothesis import given, settings
from hypothesis import strategies as st
from plainly import phase_cycles, simulate_plainly
from strategies import RULES, designs, draw_replay, small_design, videos
from tiny import tiny_design, tiny_trace, write_inputs

from carsim import load_trace, override, run, save_trace
from carsim.account.simulation import simulate_policy
from carsim.base.errors import InputError
from carsim.decisions.attention import Dense
from carsim.decisions.replay import FASTCAR, InputChange, ReplayRule, Tas
from carsim.decisions.trace import Trace
from carsim.explore.bounds import bounds_of
from carsim.explore.evaluate import Evaluator
from carsim.explore.grid import GridStudy
from carsim.explore.pareto import pareto
from carsim.explore.sweep import sweep
from carsim.hardware.schedule import SCHEDULES
from carsim.machine.batches import Batches
from carsim.machine.hardware import Hardware
from carsim.machine.phases import FIDELITIES, Phases
from carsim.machine.plan import Plan
from carsim.workload.geometry import Video

BY_DECISION: dict[str, Any] = {"policy.skip": {"kind": "by_decision"}, "machine.decision_at": "q"}
RULES_AT_Q = [rule for rule in RULES if rule.point == "q"]


def two_decisions(rule: ReplayRule = FASTCAR, tau: float = 0.3, tau_of_mlp: float = 0.0) -> Trace:
    """The trace of the toy with a decision about attention beside that about MLPs."""
    other = tiny_trace(seed=1, tau=tau, rule=rule)
    return tiny_trace(tau=tau_of_mlp).with_decision("attention", other)


def plan_of(design: Any, video: Video, fidelity: str = "fluid", schedule: str = "drs") -> Plan:
    return Plan(
        Phases(Hardware(design), fidelity),
        video,
        Dense(),
        schedule,
        FASTCAR,
        range(video.n_steps),
        further_rules=(("attention", FASTCAR),),
    )


def test_work_by_hand() -> None:
    """Of four sequences, three skip the MLP and two skip attention, in two of four steps."""
    design = override(small_design(cores=1), BY_DECISION)
    video = Video(2, 2, 0)
    replay = np.zeros((1, 4, 2, 4), np.bool_)
    attention = replay.copy()
    replay[0, 2:, :, :3] = True
    attention[0, 2:, :, 2:] = True
    batches = Batches(replay, 1, 0, "stated", "stated", further={"attention": attention})
    body = design.model.body
    d, ff, kv = body.hidden_size, body.ffn_size, body.kv_size
    layer_steps, deciding = 4 * 2, 2 * 2
    simulation = simulate_policy(plan_of(design, video), batches)
    totals = simulation.totals
    assert totals["qkv"].macs == 4 * layer_steps * d * (body.q_size + 2 * kv)
    assert totals["mlp"].macs == (4 * layer_steps - 3 * deciding) * 3 * d * ff
    assert totals["output"].macs == (4 * layer_steps - 2 * deciding) * body.q_size * d
    # Tokens that attention reads: 1 and 2 in the first frame; 3 and 4 in the second.
    attended = (4 * (1 + 2) + 2 * (3 + 4)) * 2
    assert totals["attention"].macs == attended * 2 * body.q_size
    # Both decisions are those of one rule at one point: one score of d products is charged.
    alone = plan_of(override(design, {"policy.skip": {"kind": "mlp"}}), video)
    of_one = simulate_policy(replace(alone, further_rules=()), batches).totals
    assert totals["qkv"].vector_ops == of_one["qkv"].vector_ops
    further = Tas(form="paper", head=0)  # another score: one head of the four
    two = replace(plan_of(design, video), further_rules=(("attention", further),))
    size = body.q_size // body.n_heads
    more = simulate_policy(two, batches).totals["qkv"].vector_ops - totals["qkv"].vector_ops
    assert more == 4 * deciding * size


@settings(max_examples=15)
@given(data=st.data())
def test_a_run_is_its_layer_steps_one_after_the_other(data: st.DataObject) -> None:
    draw = data.draw
    video = draw(videos())
    design = override(draw(designs()), BY_DECISION)
    n_batches = draw(st.integers(1, 2))
    replay = draw_replay(draw, n_batches, video, design)
    attention = draw_replay(draw, n_batches, video, design)
    rules = (("attention", draw(st.sampled_from(RULES_AT_Q))),)
    plan = plan_of(design, video, schedule=draw(st.sampled_from(sorted(SCHEDULES))))
    plan = replace(plan, rule=draw(st.sampled_from(RULES)), further_rules=rules)
    further = {"attention": attention}
    batches = Batches(replay, 1, 0, "captured", "drawn", rule=plan.rule, further=further)
    fast = simulate_policy(plan, batches, detail=True)
    plain = simulate_plainly(plan, batches)
    assert fast.totals == plain.totals
    by_block = phase_cycles(plain)
    for name, cycles in phase_cycles(fast).items():
        assert (cycles == by_block[name]).all()
    assert fast.bound_cycles <= fast.cycles


def test_both_fidelity_levels_agree() -> None:
    design = override(small_design(cores=2), BY_DECISION)
    video = Video(3, 4, 2)
    rng = np.random.default_rng(3)
    replays = rng.random((2, 1, 12, 2, 4)) < 0.6
    replays[:, :, :4] = False
    batches = Batches(replays[0], 1, 0, "drawn", "drawn", further={"attention": replays[1]})
    fluid, tile = (
        simulate_policy(plan_of(design, video, fidelity), batches) for fidelity in FIDELITIES
    )
    assert fluid.cycles == pytest.approx(tile.cycles, rel=0.01)
    assert fluid.activity.dram_bytes == tile.activity.dram_bytes


def test_a_trace_of_two_decisions_is_run_as_it_was_made(tmp_path: Path) -> None:
    write_inputs(tmp_path)
    save_trace(tmp_path / "two.npz", two_decisions())
    trace = load_trace(tmp_path / "two.npz")
    assert trace.further["attention"].replay.sum() != trace.replay.sum()
    design = tiny_design("machine.decision_at=q")
    both = run(override(design, BY_DECISION), [trace]).chosen
    assert "open loop" not in both.batches.label
    assert "without" not in both.batches.label
    mlp_alone = run(design, [trace]).chosen
    assert "without the decisions attention of the trace" in mlp_alone.batches.label
    assert both.simulation.totals["mlp"].macs == mlp_alone.simulation.totals["mlp"].macs
    assert both.simulation.totals["attention"].macs < mlp_alone.simulation.totals["attention"].macs
    # One decision for both is another thing.
    together = override(design, {"policy.skip": {"kind": "attention_too"}})
    assert (
        "made under skip mlp, run under skip attention_too (open loop)"
        in run(together, [trace]).chosen.batches.label
    )
    done = call(
        *("run", tmp_path / "toy.yaml", "--trace", tmp_path / "two.npz", "--set"),
        *("policy.skip={kind: by_decision}", "--set", "machine.decision_at=q", "--out"),
        tmp_path / "out",
    )
    assert done.finding == ""
    assert done.status == 0, done.err
    assert "attention and MLP apart" in done.out


def test_what_a_trace_cannot_give_is_refused_in_a_line() -> None:
    design = override(tiny_design(), BY_DECISION)
    for trace, words in (
        (tiny_trace(), r"policy.skip: follows the decision 'attention', and .* has token; name"),
        (
            two_decisions(InputChange(), tau=-0.5),
            "'attention' is decided by .* holds data for each",
        ),
    ):
        with pytest.raises(InputError, match=words):
            run(design, [trace])
    with pytest.raises(InputError, match=r"known after attention; decide earlier"):
        run(override(design, {"machine.decision_at": "attention"}), [two_decisions()])
    with pytest.raises(InputError, match="48 steps, 4 layers, 4 rows"):
        tiny_trace().with_decision("attention", tiny_trace(n_frames=2))
    with pytest.raises(InputError, match="'token' is taken; choose another name"):
        tiny_trace().with_decision("token", tiny_trace())
    with pytest.raises(InputError, match="mlp: is null, and so is attention; name a decision"):
        override(design, {"policy.skip": {"kind": "by_decision", "attention": None, "mlp": None}})


def test_a_front_is_that_of_all_points(tmp_path: Path) -> None:
    """Bounds count rows by the decision of the trace, and hold where attention skips more."""
    write_inputs(tmp_path)
    save_trace(tmp_path / "two.npz", two_decisions(tau=-3.0, tau_of_mlp=3.0))
    axes = {
        "policy.skip": [{"kind": "mlp"}, {"kind": "by_decision"}],
        "machine.cores": [1, 2, 4],
        "machine.overheads.layer_us": [0.0, 2.0],
    }
    objectives = ["latency_s", "energy_per_video_j"]
    (tmp_path / "toy.yaml").write_text(
        (tmp_path / "toy.yaml").read_text().replace("  cores: 2", "  cores: 2\n  decision_at: q")
    )
    study = make_study(tmp_path, axes=axes, traces=["two.npz"], objectives=objectives)
    points = sweep(study, workers=0)
    front = pareto(sweep(study, workers=0, front_only=True), objectives)
    everything = pareto(points, objectives)
    bounds, _ = bounds_of(GridStudy(study))
    assert (bounds <= points[objectives].to_numpy()).all()
    assert front[objectives].to_numpy().tolist() == everything[objectives].to_numpy().tolist()


def test_points_of_a_sweep_follow_their_own_decisions(tmp_path: Path) -> None:
    """Points that differ in what is skipped do not share what is decided."""
    write_inputs(tmp_path)
    save_trace(tmp_path / "two.npz", two_decisions(tau=-3.0, tau_of_mlp=3.0))
    trace = load_trace(tmp_path / "two.npz")
    skips = [{"kind": "mlp"}, {"kind": "by_decision"}]
    axes: dict[str, Any] = {"policy.skip": skips, "machine.decision_at": ["q"]}
    study = make_study(tmp_path, axes=axes, traces=["two.npz"], objectives=["latency_s"])
    evaluator = Evaluator(study)
    for skip in skips:
        changes = {"policy.skip": skip, "machine.decision_at": "q"}
        batches = evaluator.machines.batches(evaluator.asked(changes))
        expected = run(override(study.base, changes), [trace]).chosen.batches
        assert batches.further.keys() == expected.further.keys()
