"""The ideas of ``docs/ideas``: each is one short file that keeps the contract and runs everywhere.

Costs are those of a calculation by hand.
"""

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import call
from explore_study import write_study
from tiny import tiny_design, tiny_trace

from carsim import Design, load_design, override, run
from carsim.base.plugins import load_plugin
from carsim.base.registry import Registry, outside_kinds
from carsim.base.yaml_file import read_mapping
from carsim.decisions.attention import CacheAt, Stack, Streaming, TempCache
from carsim.decisions.replay import FASTCAR, MachineShape, RuleWork
from carsim.decoder.capture import capture
from carsim.decoder.recipe import Recipe, parse_recipe
from carsim.hardware.schedule import Schedule
from carsim.machine.cases import Cases, RowCases
from carsim.machine.hardware import Hardware
from carsim.machine.phases import Phases
from carsim.testing import check_kind
from carsim.testing.__main__ import examples_of

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs/ideas"
FILES = sorted(path.stem for path in FOLDER.glob("*.py"))
RULE_FILES = ("two_frames_back", "residual_norm", "teacache", "early_exit", "toca")
POLICY_FILES = (
    *("frame_aligned", "h2o", "tova", "pyramid_kv", "quantised_old"),
    *("shared_layers", "shared_heads", "far_cache"),
)
D = 4096
HEADS = 32
SIZE = 128
VILA_U = MachineShape(
    n_heads=HEADS,
    n_kv_heads=HEADS,
    head_dim=SIZE,
    hidden_size=D,
    activation_bits=Fraction(16),
)


def load(stem: str) -> Any:
    """The kind that a file registers."""
    load_plugin((FOLDER / f"{stem}.py").absolute())
    ((role, name),) = outside_kinds()
    return Registry.roles[role][name]


def test_there_are_fifteen() -> None:
    assert {*RULE_FILES, *POLICY_FILES, "own_metric", "own_schedule"} == set(FILES)


@pytest.mark.parametrize("stem", FILES)
def test_an_idea_is_one_short_file_that_keeps_the_contract(stem: str) -> None:
    assert len((FOLDER / f"{stem}.py").read_text().splitlines()) <= 80
    kind = load(stem)
    ((role, _),) = outside_kinds()
    for example in examples_of(kind, ()):
        assert check_kind(role, example) == []


def kept_by(policy: Any) -> Any:
    """An evicting policy that keeps few tokens."""
    return policy(keep=3, sinks=1)


@pytest.mark.parametrize("stem", ["h2o", "tova", "pyramid_kv"])
def test_policies_that_evict_keep_the_contract_where_they_do(stem: str) -> None:
    assert check_kind("attention policy", kept_by(load(stem))) == []


def test_two_frames_back_costs_two_keys_and_a_product() -> None:
    rule = load("two_frames_back")()
    # Mean of one query head a key head: a sum and a division an element. Difference of the keys;
    # product, whose sum is free.
    operations = 2 * HEADS * SIZE + HEADS * SIZE + HEADS * SIZE
    assert rule.work(VILA_U) == RuleWork(vector_ops=operations, key_elements=2 * HEADS * SIZE)
    assert (rule.point, rule.key_distance(256), rule.first_frame) == ("q", 512, 2)


def test_residual_norm_holds_one_number() -> None:
    rule = load("residual_norm")()
    # The length is taken for the score and again to be held: d squares and a root each. Then
    # difference, magnitude, sign, quotient.
    assert rule.work(VILA_U) == RuleWork(vector_ops=2 * (D + 1) + 4, held_bytes=2)
    assert rule.point == "residual"


def test_teacache_holds_an_input_and_a_sum() -> None:
    rule = load("teacache")()
    # The sum is worked out for the score and again to be held: two magnitudes, a difference and
    # two sums of d elements each; quotient and sum. Then sign, and the choice of the new sum.
    operations = 2 * (5 * D + 2) + 2
    assert rule.work(VILA_U) == RuleWork(vector_ops=operations, held_bytes=2 * D + 2)


def test_early_exit_holds_a_bit() -> None:
    rule = load("early_exit")()
    # Cosine: two lengths (d squares and a root each), their product, d products, a quotient; for
    # the score and for what is held. Then a choice; a comparison and an or.
    cosine = 2 * (D + 1) + 1 + D + 1
    assert rule.work(VILA_U) == RuleWork(vector_ops=2 * cosine + 3, held_bytes=1)


def test_toca_costs_a_weight_a_head() -> None:
    rule = load("toca")()
    # Sum of 32 weights, its division; age times the penalty, and the difference.
    assert rule.work(VILA_U) == RuleWork(vector_ops=HEADS + 3)
    assert (rule.point, rule.key_distance(256)) == ("attention", 0)


def test_frame_aligned_reads_whole_frames() -> None:
    policy = load("frame_aligned")(every=4)
    # Place 10 of frame 7: prompt, frames 0 and 4, frame 6, and 11 tokens of this frame.
    at = CacheAt(np.array([60 + 7 * 256 + 11]), np.array([60]), tokens_per_frame=256)
    reads = policy.reads_at(at)
    assert reads.tokens.tolist() == [60 + 2 * 256 + 256 + 11]
    assert reads.runs.tolist() == [3]  # prompt with frame 0, frame 4, frames 6 and 7


def test_a_frame_aligned_video_moves_fewer_bytes_by_the_keys_that_it_leaves_out() -> None:
    policy = load("frame_aligned")(every=4)
    dense = override(load_design("zcu102"), {"policy.attention": {"kind": "dense"}})
    aligned = override(dense, {"policy.attention": {"kind": "frame_aligned", "every": 4}})

    def moved_bytes(design: Design) -> int:
        activity = run(design, workload="video:8").chosen.simulation.activity
        return sum(activity.dram_bytes.values())

    # 8 frames of 256 tokens after a prompt of 62: step 0 attends to 63 tokens.
    context = np.arange(8 * 256) + 63
    every_step = CacheAt(context, np.full_like(context, 62), tokens_per_frame=256)
    keys_left_out = int((context - policy.reads_at(every_step).tokens).sum())
    rows = 2
    key_and_value_bytes = float(dense.model.kv.bytes_of(1024 * dense.model.body.kv_elements)) / 1024
    saved_bytes = keys_left_out * rows * dense.model.body.n_layers * key_and_value_bytes
    assert moved_bytes(dense) - moved_bytes(aligned) == pytest.approx(saved_bytes, rel=1e-3)


def test_evicting_policies_hold_what_they_keep() -> None:
    policy = kept_by(load("h2o"))
    work = policy.side_work(1000, 32, 32, 128)
    assert (work.element_ops, work.bytes_read) == (1000 * 32, 1000 * 32 * 2)
    of_frame = policy.frame_work(1000, 256, 32, 128)
    assert of_frame.element_ops == 1000 * 32 * 10  # levels of a tournament of 1,000
    assert of_frame.kv_elements == 2 * 2 * 1000 * 32 * 128


def test_tova_has_one_worth_for_all_heads() -> None:
    policy = kept_by(load("tova"))
    work = policy.side_work(1000, 32, 32, 128)
    # Attention of 32 heads is added up for each token; one number of two bytes is kept of it.
    assert (work.element_ops, work.bytes_read, work.bytes_written) == (1000 * 32, 2000, 2000)
    of_frame = policy.frame_work(1000, 256, 32, 128)
    assert of_frame.element_ops == 1000 * 10  # one tournament of 1,000
    assert of_frame.kv_elements == 2 * 2 * 1000 * 32 * 128  # keys and values, read and written
    assert policy.side_bytes(np.array([1000]), 32, 128).tolist() == [2000]


def test_own_schedule_costs_its_fullest_core_and_the_check_of_its_slots() -> None:
    load("own_schedule")
    design = tiny_design("policy.batch=4")
    phases = Phases(Hardware(design))
    own, static = phases.schedule("interleaved"), phases.schedule("static")
    # Two sequences a core; each has 64 instructions, and a check of one takes 4 cycles.
    dispatch_cycles = 2 * 64 * 4
    assert phases.machine.dispatch_cycles(own) == dispatch_cycles
    program = phases.program(FASTCAR, decided=True)
    (mlp,) = [block for block in program.layers[1] if block.follows is not None]

    def cycles(schedule: Schedule, rows: list[int], known: int = dispatch_cycles) -> int:
        computing = np.isin(np.arange(4), rows)[None]
        cases = Cases(rows=RowCases(computing, np.array([known])))
        return int(phases.of(mlp, cases, schedule).cycles[0])

    # Sequences 0 and 2 are of one core, 0 and 1 are not; cores are alike, whatever their number.
    assert cycles(own, [0, 2]) == cycles(static, [1, 3])
    assert cycles(own, [0, 1]) == cycles(static, [2, 3]) < cycles(own, [0, 2])
    # What is left of the checks when the phase begins delays it.
    assert cycles(own, [0, 2], known=100) == cycles(own, [0, 2]) + dispatch_cycles - 100


def test_own_metric_divides_joules_by_frames() -> None:
    metric = load("own_metric")
    report = run(tiny_design(), [tiny_trace()], allow_misfit=True)
    row = report.chosen
    joules = [each.value_j for each in row.energy_parts_per_video.components]
    assert metric.of(row, report) == pytest.approx(math.fsum(joules) / 3)  # of three frames


def test_pyramid_keeps_fewer_tokens_in_later_layers() -> None:
    policy = load("pyramid_kv")(keep=100)
    assert [policy.kept_tokens(layer, 4) for layer in range(4)] == [175, 125, 75, 25]


def test_a_pyramid_moves_the_bytes_of_what_each_layer_keeps() -> None:
    """A video of VILA-U at 8 bits, with the reads of a captured trace, which are known by hand."""
    policy = load("pyramid_kv")(keep=64)
    attention = policy.model_dump()
    trace = capture(
        recipe_of(attention=attention, sampling=None, given_frames=None), ROOT / "traces", workers=1
    )
    prompts = np.array(trace.meta.prompt_lengths)  # of both rows
    expected_bytes = 0
    kv_size = HEADS * SIZE
    place = np.arange(256)[:, None]
    for layer, kept in enumerate([112, 80, 48, 16]):
        held = prompts  # before the first frame
        for frame in range(3):
            reads = held + 1 + place  # [place, row]
            in_trace = trace.kv_tokens[frame * 256 : (frame + 1) * 256, layer, 0]
            np.testing.assert_array_equal(in_trace, reads)
            held = np.minimum(held, kept) + 256
            # Rows of a batch read their mean, rounded up.
            tokens = -(-reads.sum(axis=1) // 2)
            keys_and_values = 2 * kv_size * (tokens + 1)  # those that are read, and a new one
            worth = 2 * 2 * HEADS * tokens  # two bytes for each head, read and written
            compaction = -(-4 * kv_size * tokens // 256)  # at the end of a frame, spread over it
            of_row = keys_and_values + worth + compaction
            expected_bytes += 8 * 2 * int(of_row.sum())  # 8 layers stand for one; 2 rows
    changes = {"policy.attention": attention, "model.kv": {"bits": 8}}
    design = override(load_design("zcu102"), changes)
    report = run(design, [trace], allow_misfit=True, what_if=False)
    (row,) = [
        row for row in report.rows if row.variant.attention == policy and not row.variant.replays
    ]
    assert sum(row.simulation.totals["attention"].dram_bytes) == expected_bytes


def test_quantised_old_frames_take_a_quarter_of_the_bytes() -> None:
    policy = load("quantised_old")(bits=4, of_bits=16)
    # Of 1,024 tokens, 512 are older than the newest frame and the one before it.
    assert policy.full_tokens(np.array([1024, 300]), 256).tolist() == [512 + 128, 300]


def recipe_of(**changes: Any) -> Recipe:
    """One clip of small_8f: two frames given, a third sampled."""
    path = ROOT / "traces/small_8f.yaml"
    raw = read_mapping(path) | {"n_frames": 3, "quality": None, "tas_step": None} | changes
    raw["clips"] = raw["clips"][:1]
    recipe = parse_recipe({key: value for key, value in raw.items() if value is not None}, path)
    assert isinstance(recipe, Recipe)
    return recipe


@pytest.mark.parametrize("stem", RULE_FILES)
def test_a_rule_is_captured_and_priced(stem: str) -> None:
    kind = load(stem)
    taus = {"residual_norm": -0.05, "teacache": -0.4, "early_exit": 0.98, "toca": -0.01}
    recipe = recipe_of(rule={"kind": kind.model_fields["kind"].default}, tau=taus.get(stem, 0.0))
    trace = capture(recipe, ROOT / "traces", workers=1)
    assert 0 < trace.replay.mean() < 1
    assert run("zcu102", [trace], allow_misfit=True).chosen.seconds_per_video > 0


@pytest.mark.parametrize("stem", POLICY_FILES)
def test_a_policy_is_captured_and_priced(stem: str) -> None:
    kind = load(stem)
    attention = {"kind": kind.model_fields["kind"].default}
    if "keep" in kind.model_fields:
        attention["keep"] = 64
    trace = capture(recipe_of(attention=attention), ROOT / "traces", workers=1)
    placement = {"machine.placement.kv_far": "ps_ddr"} if stem == "far_cache" else {}
    design = override(load_design("zcu102"), {"policy.attention": attention, **placement})
    row = run(design, [trace], allow_misfit=True).chosen
    assert row.seconds_per_video > 0
    if "keep" in kind.model_fields:
        assert trace.kv_held is not None
        assert trace.kv_held.max() <= 2 * 64 + 256 + 4  # PyramidKV keeps more in first layers


def test_kinds_go_to_worker_processes(tmp_path: Path) -> None:
    policies = [{"kind": "dense"}, {"kind": "frame_aligned", "every": 2}]
    axes = {"policy.attention": policies, "machine.cores": [1, 2]}
    study = write_study(tmp_path, axes=axes)
    plugin = FOLDER / "frame_aligned.py"
    out = tmp_path / "out"
    done = call("sweep", study, "--out", out, "--workers", "2", "--plugin", plugin)
    assert done.status == 0, done.err
    assert "frame_aligned" in (out / "points.csv").read_text()


def test_policies_stack() -> None:
    h2o = load("h2o")
    stack = Stack(policies=(Streaming(sinks=1, window=6), h2o(keep=4)))
    assert check_kind("attention policy", stack) == []
    with pytest.raises(ValueError, match="temp_cache and h2o both drop, merge or change"):
        Stack(policies=(TempCache(), h2o()))
    with pytest.raises(ValueError, match="no policy of kind 'nothing'"):
        Stack.model_validate({"policies": ({"kind": "nothing"},)})
