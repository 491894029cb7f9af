"""The contract of a skip, over all kinds and one from outside; work by hand."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plainly import phase_cycles, simulate_plainly
from strategies import RULES, Case, designs, draw_replay, small_design, videos
from tiny import tiny_report

from carsim.account.simulation import Simulation, simulate_policy, simulate_policy_on_designs
from carsim.base.errors import InputError
from carsim.cost.capacity import capacity
from carsim.decisions.attention import Dense, Streaming
from carsim.decisions.replay import FASTCAR, InputChange
from carsim.design import Design, load_design, override
from carsim.hardware.schedule import SCHEDULES
from carsim.machine.arrays import MachineArrays
from carsim.machine.batches import Batches
from carsim.machine.hardware import Hardware
from carsim.machine.phases import Phases
from carsim.machine.plan import Plan
from carsim.program.layers import decoder_program, skips_mlp_alone
from carsim.program.program import Layer, skip
from carsim.program.skips import SKIPS, Skip
from carsim.report.run_tables import phase_name
from carsim.report.screen import policy_name
from carsim.report.stored import StoredRun, stored
from carsim.testing import check_kind
from carsim.testing.contracts import untested
from carsim.workload.geometry import Video

RULES_AT_Q = [rule for rule in RULES if rule.point == "q"]


class WhereWindowed(Skip):
    """A kind from outside: attention too where a layer has a window, MLPs elsewhere."""

    label = "attention of layers with a window"

    kind: Literal["where_windowed"] = "where_windowed"

    def mark(self, layer: Layer, number: int) -> Layer:
        if any(getattr(block, "window", None) for block in layer):
            return skip(layer, "attention", "output", "mlp", holds=["output", "mlp"])
        return skip(layer, "mlp", holds=["mlp"])


class OddLayers(Skip):
    """A kind from outside: attention and MLP in layers 1, 3, 5 ...; the others skip nothing."""

    label = "attention and MLP of odd layers"

    kind: Literal["odd_layers"] = "odd_layers"

    def mark(self, layer: Layer, number: int) -> Layer:
        if number % 2 == 0:
            return layer
        return skip(layer, "attention", "output", "mlp", holds=["output", "mlp"])


@pytest.fixture(scope="module", autouse=True)
def outside() -> Iterator[None]:
    for kind in (WhereWindowed, OddLayers):
        SKIPS.register(kind)
    yield
    for kind in (WhereWindowed, OddLayers):
        del SKIPS[kind.model_fields["kind"].default]


KINDS = [*SKIPS, "where_windowed", "odd_layers"]


@st.composite
def runs(draw: st.DrawFn, kind: str) -> tuple[Design, Plan, Batches]:
    """A run of a drawn design that skips, with decisions that are known at the query."""
    video = draw(videos())
    windows = {"model.body.window": draw(st.sampled_from([None, 2, 5]))}
    if windows["model.body.window"]:
        windows["model.body.global_layers"] = draw(st.sampled_from([(), (0,)]))
    else:
        windows["model.body.global_layers"] = ()
    changes = {"policy.skip": {"kind": kind}, "machine.decision_at": "q", **windows}
    design = override(draw(designs()), changes)
    replay = draw_replay(draw, draw(st.integers(1, 2)), video, design)
    plan = Plan(
        Phases(Hardware(design)),
        video,
        draw(st.sampled_from([Dense(), Streaming(sinks=1, window=3)])),
        draw(st.sampled_from(sorted(SCHEDULES))),
        draw(st.sampled_from(RULES_AT_Q)) if replay.any() else None,
        range(video.n_steps),
    )
    return design, plan, Batches(replay, 1, 0, "captured", "drawn", rule=plan.rule)


def assert_same(one: Simulation, other: Simulation) -> None:
    assert one.totals == other.totals
    assert (one.batch_cycles == other.batch_cycles).all()
    assert (one.first_cycles == other.first_cycles).all()


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25)
@given(data=st.data())
def test_a_run_is_its_layer_steps_one_after_the_other(kind: str, data: st.DataObject) -> None:
    _, plan, batches = data.draw(runs(kind))
    fast, plain = simulate_policy(plan, batches, detail=True), simulate_plainly(plan, batches)
    assert_same(fast, plain)
    by_block = phase_cycles(plain)
    for name, cycles in phase_cycles(fast).items():
        assert (cycles == by_block[name]).all()
    assert_same(simulate_policy(plan, batches), fast)
    assert fast.bound_cycles <= fast.cycles


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=10)
@given(data=st.data())
def test_designs_together_are_what_each_is_alone(kind: str, data: st.DataObject) -> None:
    design, plan, batches = data.draw(runs(kind))
    rows = [{"machine.array.rows": n, "machine.vector.lanes": 2 * n} for n in (4, 9, 32)]
    hardwares = [Hardware(override(design, each)) for each in rows]
    phases = Phases(MachineArrays.of(hardwares))
    (together,) = simulate_policy_on_designs(replace(plan, phases=phases), batches)
    (again,) = simulate_policy_on_designs(
        replace(plan, phases=phases), batches
    )  # from the table of cases
    for hardware, one, once_more in zip(hardwares, together, again, strict=True):
        alone = simulate_policy(replace(plan, phases=Phases(hardware)), batches)
        assert_same(one, alone)
        assert_same(once_more, alone)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mapping", ["batch", "tensor", "heads", "hybrid"])
def test_both_rungs_agree(kind: str, mapping: str) -> None:
    """Within the error of the fluid rung; a phase that both find exactly is equal."""
    changes = {"machine.mapping": mapping, "policy.skip": {"kind": kind}, "model.body.window": 6}
    design = override(small_design(cores=2, decision_at="q"), changes)
    replay = np.random.default_rng(3).random((1, 12, 2, 4)) < 0.6
    replay[:, :4] = False
    case = Case(design, Video(3, 4, 2), schedule="drs", replay=replay)
    fluid, tile = case.simulate(), replace(case, fidelity="tile").simulate()
    assert fluid.cycles == pytest.approx(tile.cycles, rel=0.01)
    assert fluid.activity.macs == tile.activity.macs
    assert fluid.activity.dram_bytes == tile.activity.dram_bytes


def case_of(kind: str, replay: Any) -> Case:
    """One core, two layers and four sequences of the small design."""
    design = override(small_design(cores=1, decision_at="q"), {"policy.skip": {"kind": kind}})
    return Case(design, Video(2, 2, 0), schedule="static", replay=replay)


@pytest.mark.parametrize(
    ("kind", "skipped", "held"),
    [
        ("mlp", ["mlp"], 1),
        ("attention", ["attention", "output"], 1),
        ("attention_too", ["attention", "output", "mlp"], 2),
        ("layer", ["qkv", "attention", "output", "mlp"], 1),
    ],
)
def test_work_by_hand(kind: str, skipped: list[str], held: int) -> None:
    """Each row of d = 32 and ff = 48 computes all blocks, or leaves out those that are skipped."""
    replay = np.zeros((1, 4, 2, 4), np.bool_)
    replay[0, 2:, :, :3] = True  # three of four sequences, in two steps of two layers
    totals = case_of(kind, replay).simulate().totals
    body = case_of(kind, replay).design.model.body
    d, ff, kv = body.hidden_size, body.ffn_size, body.kv_size
    rows = {name: 4 * 4 * 2 - (3 * 2 * 2 if name in skipped else 0) for name in totals}
    assert totals["qkv"].macs == rows["qkv"] * d * (body.q_size + 2 * kv)
    assert totals["output"].macs == rows["output"] * body.q_size * d
    assert totals["mlp"].macs == rows["mlp"] * 3 * d * ff
    # Tokens that attention reads: 1, 2, 3, 4 in the four steps, two layers of each.
    attended = [4 * (1 + 2) * 2, (1 if "attention" in skipped else 4) * (3 + 4) * 2]
    assert totals["attention"].macs == sum(attended) * 2 * body.q_size
    # Rows that skip read what is held, rows that compute write it.
    design = case_of(kind, replay).design
    uses = capacity(design, Video(2, 2, 0), FASTCAR)
    nbytes = next(c.nbytes for use in uses for c in use.contents if c.content == "replay cache")
    assert nbytes == held * 4 * 2 * 2 * d * design.model.replay.bytes_of(1)


class AttentionAlone(Skip):
    """A kind from outside: attention with its projection; keys and values are computed."""

    label = "attention alone"
    kind: Literal["attention_alone"] = "attention_alone"

    def mark(self, layer: Layer, number: int) -> Layer:
        return skip(layer, "attention", "output", holds=["output"])


def test_attention_alone_by_hand() -> None:
    """Rows that skip attention read one output of d elements; rows that compute write it."""
    replay = np.zeros((1, 4, 2, 4), np.bool_)
    replay[0, 2:, :, :3] = True  # three of four sequences, in two steps of two layers
    design = small_design(cores=1, decision_at="q")

    def totals_of(kind: Skip) -> Any:
        policy = design.policy.model_copy(update={"skip": kind})
        own = design.model_copy(update={"policy": policy})
        return Case(own, Video(2, 2, 0), schedule="static", replay=replay).simulate().totals

    class HeldByNone(AttentionAlone):
        def mark(self, layer: Layer, number: int) -> Layer:
            return skip(layer, "attention", "output", holds=[])

    held, free = totals_of(AttentionAlone()), totals_of(HeldByNone())
    d = design.model.body.hidden_size
    n_rows, n_skipped = 4 * 4 * 2, 3 * 2 * 2
    assert held["output"].macs == (n_rows - n_skipped) * design.model.body.q_size * d
    assert held["qkv"] == free["qkv"]  # of all rows
    assert held["mlp"] == free["mlp"]
    moved_bytes = sum(held["output"].dram_bytes) - sum(free["output"].dram_bytes)
    assert moved_bytes == n_rows * design.model.replay.bytes_of(d)  # written, or read
    adds = held["output"].vector_ops - free["output"].vector_ops
    assert adds == n_skipped * d
    assert totals_of(SKIPS["attention"]()) == held


@pytest.mark.parametrize(
    ("names", "held", "words"),
    [
        (["attention"], ["attention"], "the output of attention is held, which adds nothing"),
        (["attention"], ["attention"], "hold that of output or mlp"),
        (["attention"], [], "attention is skipped, and output, which needs it, is computed"),
        (["attention"], [], "write skip(layer, 'attention', 'output', holds=['output'])"),
        (["attention", "mlp"], ["mlp"], "attention is skipped, and output, which needs it"),
        (["qkv"], [], "qkv is skipped, and attention, which needs it, is computed"),
        (["qkv"], ["qkv"], "the output of qkv is held, which adds nothing"),
    ],
)
def test_marks_of_no_machine_are_refused(names: list[str], held: list[str], words: str) -> None:
    class Impossible(Skip):
        label = "impossible"
        kind: Literal["impossible"] = "impossible"

        def mark(self, layer: Layer, number: int) -> Layer:
            return skip(layer, *names, holds=held)

    for rule in (FASTCAR, None):  # decoding that never replays, too
        with pytest.raises(InputError) as refused:
            decoder_program(small_design().model, Impossible(), rule, decision_at="q")
        assert rule is None or words in str(refused.value)
    problems = check_kind("skip", Impossible())
    assert any(words in problem for problem in problems)


def test_blocks_that_nothing_reads_are_told() -> None:
    class OutputAlone(Skip):
        label = "output projection"
        kind: Literal["output_alone"] = "output_alone"

        def mark(self, layer: Layer, number: int) -> Layer:
            return skip(layer, "output", holds=["output"])

    def vain(kind: Skip, decision_at: Any) -> list[str]:
        program = decoder_program(small_design().model, kind, FASTCAR, decision_at=decision_at)
        return [block.name for block in program.vain_blocks]

    assert vain(OutputAlone(), "q") == ["attention"]
    assert vain(OutputAlone(), "attention") == []  # computed for the sake of the decision
    for kind in SKIPS.values():
        assert vain(kind(), "q") == []
    SKIPS.register(OutputAlone)
    try:
        report = tiny_report("policy.skip.kind=output_alone", "machine.decision_at=q")
    finally:
        del SKIPS["output_alone"]
    told = "rows that replay compute attention, and nothing reads the result: skip attention, too"
    assert stored(report).warnings[0] == told


def test_layers_without_a_mark_compute_all_rows_by_hand() -> None:
    """Of layers 0 and 1, the second alone skips: three of four rows, in two of four steps."""
    replay = np.zeros((1, 4, 2, 4), np.bool_)
    replay[0, 2:, :, :3] = True
    case = case_of("odd_layers", replay)
    totals = case.simulate().totals
    body = case.design.model.body
    d = body.hidden_size
    rows = 4 * 4 * 2 - 3 * 2  # of all steps and layers, but for those that skip
    assert totals["mlp"].macs == rows * 3 * d * body.ffn_size
    assert totals["output"].macs == rows * body.q_size * d
    # Tokens that attention reads: 1 and 2 in the first frame; 3 and 4 in the second, where layer 0
    # attends with four rows, and layer 1 with one.
    attended = 4 * (1 + 2) * 2 + (4 + 1) * (3 + 4)
    assert totals["attention"].macs == attended * 2 * body.q_size
    # Layer 1 alone holds two outputs of each of four rows and two tokens of a frame.
    uses = capacity(case.design, Video(2, 2, 0), FASTCAR)
    held = next(c.nbytes for use in uses for c in use.contents if c.content == "replay cache")
    assert held == 2 * 4 * 2 * d * case.design.model.replay.bytes_of(1)
    program = decoder_program(case.design.model, OddLayers(), FASTCAR, decision_at="q")
    scores = [[block.name for block in layer if block.scores] for layer in program.layers]
    assert scores == [[], ["qkv"]]  # no score where nothing is skipped


def test_a_skip_of_the_mlp_alone_is_that_of_the_traces() -> None:
    """A kind that marks no more than the MLP here is labelled as FastCar; another is not."""
    model = small_design().model  # no window
    assert skips_mlp_alone(model, WhereWindowed())
    windowed = override(small_design(), {"model.body.window": 6}).model
    assert not skips_mlp_alone(windowed, WhereWindowed())
    assert not skips_mlp_alone(model, OddLayers())
    report = tiny_report("policy.skip.kind=where_windowed", "machine.decision_at=q")
    assert "skipped" not in report.chosen.variant.name
    assert "open loop" not in report.chosen.batches.label
    report = tiny_report("policy.skip.kind=odd_layers", "machine.decision_at=q")
    assert "(only attention and MLP of odd layers skipped)" in report.chosen.variant.name
    told = "made under skip mlp, run under skip odd_layers (open loop)"
    assert told in report.chosen.batches.label


def test_phases_in_which_rows_replay_say_so() -> None:
    def names(run: StoredRun) -> list[str]:
        return [phase_name(run, phase) for phase in ("qkv", "attention", "output", "mlp")]

    before = ["QKV projection", "attention"]
    skips_mlp = stored(tiny_report("machine.decision_at=q"))
    assert names(skips_mlp) == [*before, "output projection", "MLP and replay"]
    skips_attention = stored(tiny_report("machine.decision_at=q", "policy.skip.kind=attention"))
    assert names(skips_attention) == [*before, "output projection and replay", "MLP"]
    assert policy_name(skips_attention.own).startswith("FastCar (only attention skipped)")


def test_a_mark_that_depends_on_more_than_layer_and_number_breaks_its_contract() -> None:
    class Fickle(Skip):
        label = "fickle"
        kind: Literal["fickle"] = "fickle"
        calls: ClassVar[list[int]] = []

        def mark(self, layer: Layer, number: int) -> Layer:
            self.calls.append(number)
            return skip(layer, "mlp", holds=["mlp"]) if len(self.calls) % 2 else layer

    problems = check_kind("skip", Fickle())
    assert any("equal layers of one number are marked equally" in problem for problem in problems)


def test_the_bound_of_a_block_that_some_layers_skip_is_the_sum_over_all_layers() -> None:
    """Both layers decide alike, so that each has half of a bound where layers are alike."""
    replay = np.zeros((1, 4, 2, 4), np.bool_)
    replay[0, 2:, :, :3] = True
    window = {"model.body.window": 3, "model.body.global_layers": (0,)}

    def bounds(kind: str) -> tuple[int, tuple[int, ...]]:
        case = case_of(kind, replay)
        total = replace(case, design=override(case.design, window)).simulate().totals["output"]
        return total.bound_cycles, total.bound_dram_bytes

    mixed_cycles, mixed_bytes = bounds("where_windowed")
    computed_cycles, computed_bytes = bounds("mlp")
    skipped_cycles, skipped_bytes = bounds("attention_too")
    assert skipped_cycles < computed_cycles
    assert 2 * mixed_cycles == computed_cycles + skipped_cycles
    for mixed, computed, skipped in zip(mixed_bytes, computed_bytes, skipped_bytes, strict=True):
        assert 2 * mixed == computed + skipped


def test_keys_and_values_are_computed_unless_the_layer_is_skipped() -> None:
    replay = np.zeros((1, 4, 2, 4), np.bool_)
    replay[0, 2:] = True
    totals = {kind: case_of(kind, replay).simulate().totals for kind in KINDS}
    dense = case_of("mlp", None).simulate().totals
    for kind in ("mlp", "attention", "attention_too"):
        assert totals[kind]["qkv"].macs == dense["qkv"].macs
    assert totals["layer"]["qkv"].macs == dense["qkv"].macs // 2
    assert totals["layer"]["attention"].vector_ops < dense["attention"].vector_ops
    assert totals["layer"]["qkv"].dram_bytes < dense["qkv"].dram_bytes


def test_what_is_known_too_late_is_refused_with_a_cure() -> None:
    design = small_design(decision_at="attention")
    for rule, decision_at in ((FASTCAR, "attention"), (InputChange(), "q")):
        with pytest.raises(InputError, match=r"known after .*decision_at: q"):
            decoder_program(design.model, SKIPS["attention_too"](), rule, decision_at=decision_at)
    decoder_program(design.model, SKIPS["layer"](), InputChange(), decision_at="residual")


def test_sets_of_tokens_may_skip_no_attention() -> None:
    model = small_design().model
    with pytest.raises(InputError, match=r"tokens_per_step: 2 tokens .* one by one"):
        decoder_program(model, SKIPS["attention"](), FASTCAR, decision_at="q", tokens=2)


def test_a_design_says_what_it_skips() -> None:
    design = load_design("zcu102", ["policy.skip.kind=attention_too", "machine.decision_at=q"])
    assert design.policy.skip == SKIPS["attention_too"]()
    assert "skip" not in load_design("zcu102").policy.model_dump()
    with pytest.raises(InputError, match="no skip 'mpl'; did you mean 'mlp'"):
        load_design("zcu102", ["policy.skip.kind=mpl"])


@pytest.mark.parametrize("kind", SKIPS)
def test_shipped_kinds_keep_their_contract(kind: str) -> None:
    assert check_kind("skip", SKIPS[kind]()) == []


def test_a_skip_of_later_layers_keeps_its_contract() -> None:
    """The small model of the checks has fewer layers than a network of a user."""

    class Middle(Skip):
        label = "MLP of layers 10 to 19"
        kind: Literal["middle"] = "middle"

        def mark(self, layer: Layer, number: int) -> Layer:
            return skip(layer, "mlp", holds=["mlp"]) if 10 <= number < 20 else layer

    class Nothing(Skip):
        label = "nothing"
        kind: Literal["nothing"] = "nothing"

        def mark(self, layer: Layer, number: int) -> Layer:
            return layer

    assert check_kind("skip", Middle()) == []
    (problem,) = check_kind("skip", Nothing())
    assert "a block of some layer is skipped; layers 0 to 255 were tried" in problem


class SkipCross(Skip):
    """Cross-attention, which decoders do not have."""

    label = "cross-attention"
    decides_before = True
    kind: Literal["cross_attention"] = "cross_attention"

    def mark(self, layer: Layer, number: int) -> Layer:
        return skip(layer, "cross", holds=["cross"])


def test_a_skip_of_networks_alone_is_tested_there() -> None:
    assert check_kind("skip", SkipCross()) == []
    refused = untested("skip", SkipCross())
    assert list(refused) == ["a decoder", "an image with text in its sequence"]
    assert set(refused.values()) == {"no block 'cross'"}


def test_a_skip_of_networks_that_breaks_its_contract_is_found() -> None:
    class Fickle(SkipCross):
        def mark(self, layer: Layer, number: int) -> Layer:
            marked = super().mark(layer, number)
            last = replace(marked[-1], tokens=1)
            return (*marked[:-1], last)

    class Nowhere(SkipCross):
        def mark(self, layer: Layer, number: int) -> Layer:
            return skip(layer, "moon", holds=["moon"])

    assert any("marks change nothing but" in problem for problem in check_kind("skip", Fickle()))
    (problem, *_) = check_kind("skip", Nowhere())
    assert "a decoder or a network can be marked (a decoder: no block 'moon'" in problem


def test_a_skip_that_changes_a_block_breaks_its_contract() -> None:
    class Narrow(Skip):
        label = "narrow"
        kind: Literal["narrow"] = "narrow"

        def mark(self, layer: Layer, number: int) -> Layer:
            marked = skip(layer, "attention", "output", holds=["output"])
            return tuple(
                replace(block, window=1) if hasattr(block, "window") else block for block in marked
            )

    (problem,) = check_kind("skip", Narrow())
    assert "marks change nothing but" in problem


@settings(max_examples=10)
@given(data=st.data())
def test_cases_are_counted_alike_in_a_table_and_one_by_one(data: st.DataObject) -> None:
    _, plan, batches = data.draw(runs("attention_too"))
    in_a_table = simulate_policy(plan, batches)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("carsim.machine.walk.MOST_COUNTED", 0)
        assert_same(simulate_policy(plan, batches), in_a_table)
