"""Forwards of diffusion transformers and depth encoders: work by hand, oracle, both rungs."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pytest
from drawn_forwards import designs
from forward_oracle import ForwardOracle, Passing, passing
from hypothesis import given, settings
from hypothesis import strategies as st
from plainly import simulate_plainly

from carsim import InputError, load_design, load_trace, run
from carsim.account.simulation import Simulation, simulate_policy, simulate_policy_on_designs
from carsim.decisions.attention import Dense
from carsim.decisions.trace.stated import reused_forwards
from carsim.design import Design, override
from carsim.design.load import for_work, preset, shipped_presets
from carsim.hardware.schedule import BASELINE
from carsim.machine.arrays import MachineArrays
from carsim.machine.hardware import Hardware
from carsim.machine.lanes import operations_of, splits
from carsim.machine.phases import Phases
from carsim.machine.plan import Plan
from carsim.metrics import PHASES, figures
from carsim.program.diffusion import AttendAll, ForwardMlp
from carsim.program.sample import forward_macs
from carsim.report.explain import explained
from carsim.report.run_tables import limits_table, phase_name
from carsim.report.screen import Fact, first_screen
from carsim.report.stored import stored
from carsim.testing.networks import dense_batches
from carsim.validate.diffusion import validate_diffusion
from carsim.validate.preset_counts import preset_model
from carsim.workload.geometry import Video
from carsim.workload.ops import OnChip, Share
from carsim.workload.sample import Sample
from carsim.workload.tiled import attend_ops
from carsim.workload.workload import Workload, workload_of

WAN_TOKENS = 32_760
CLOCK_HZ = 300e6


def wan_on(**machine: Any) -> Design:
    """Wan2.1 1.3B at 480 x 832 on a ZCU102, one row of a forward."""
    design = for_work(load_design("zcu102"), workload_of("diffusion:wan2.1_1.3b,passes=1"))
    return override(design, {f"machine.{name}": value for name, value in machine.items()})


def plan_of(design: Design, *, reuses: bool = False, fidelity: str = "fluid") -> Plan:
    """The plan of a design's sample."""
    sample = design.model.sample
    assert sample is not None
    rule = None
    if reuses:
        from carsim.decisions.replay import FASTCAR

        rule = FASTCAR
    video = Video(sample.forwards, 1, 0)
    phases = Phases(Hardware(design), fidelity)
    return Plan(phases, video, Dense(), BASELINE.kind, rule, range(sample.forwards))


# ------------------------------------------------------------------ by hand


def test_counts_are_the_published_ones() -> None:
    part = validate_diffusion()
    assert part.ok, part.failures
    counted = [group for group in part.groups if group.title in ("operations", "parameters")]
    assert sum(len(group.rows) for group in counted) == 27


def test_products_of_a_forward_take_94_s_at_the_peak_of_a_zcu102() -> None:
    macs = sum(forward_macs(preset_model("wan2.1_1.3b")).values())
    seconds = macs / (2 * 2520 * CLOCK_HZ)
    assert seconds == pytest.approx(94, rel=0.01)


def test_keys_stream_once_for_each_tile_of_382_queries() -> None:
    design = wan_on(query_tile=382, cores=1, activation_buffer_kib=1024)
    machine = MachineArrays.of([Hardware(design)])
    block = AttendAll(tokens=WAN_TOKENS)
    (op,) = operations_of(machine, block, None)(Share(WAN_TOKENS))
    tiles = 86  # 32,760 / 382, rounded up
    assert op.stream_bytes == tiles * 2 * WAN_TOKENS * 1536
    assert 30 * op.stream_bytes == pytest.approx(260e9, rel=0.002)
    assert 30 * op.stream_bytes / 17.07e9 == pytest.approx(15, rel=0.02)


def test_exponentials_take_80_s_on_16_of_them_a_cycle() -> None:
    design = wan_on(**{"vector.exponentials_per_cycle": 16, "vector.lanes": 4096})
    machine = MachineArrays.of([Hardware(design)])
    (op,) = operations_of(machine, AttendAll(tokens=WAN_TOKENS), None)(Share(WAN_TOKENS))
    assert 30 * op.exponentials == 30 * 12 * WAN_TOKENS**2
    assert 30 * op.exponentials / (16 * CLOCK_HZ) == pytest.approx(80, rel=0.01)


def test_weights_of_an_mlp_stream_256_times_with_128_tokens_on_chip() -> None:
    design = wan_on(loop_order="tokens", cores=1, activation_buffer_kib=128 * (1536 + 8960) // 1024)
    machine = MachineArrays.of([Hardware(design)])
    block = ForwardMlp(tokens=WAN_TOKENS)
    up, down = operations_of(machine, block, None)(Share(WAN_TOKENS))
    weights = 2 * 1536 * 8960 + 2 * (1536 + 8960)
    assert up.stream_bytes + down.stream_bytes == 256 * weights
    assert 256 * preset_model("wan2.1_1.3b").body_bytes == pytest.approx(363e9, rel=0.003)


@pytest.mark.parametrize(
    ("rate", "tile", "limit"),
    [(4, 0, "exponentials"), (512, 0, "products"), (512, 1, "buffer")],
)
def test_the_limit_of_attention_is_named(rate: int, tile: int, limit: str) -> None:
    array = {"array.rows": 64, "array.cols": 64, "vector.lanes": 1024}
    design = wan_on(query_tile=tile, **array, **{"vector.exponentials_per_cycle": rate})
    report = run(design, what_if=False, allow_misfit=True)
    limits = {each.phase: each.limited_by for each in report.chosen.limits}
    assert limits["attention"] == limit


# ------------------------------------------------------------------ drawn networks


@given(design=designs())
@settings(max_examples=60)
def test_work_of_a_forward_equals_the_oracle(design: Design) -> None:
    found = simulate_policy(plan_of(design), dense_batches(design))
    oracle = ForwardOracle(design)
    sample = design.model.sample
    assert sample is not None
    every_forward: list[Passing | None] = [None] * sample.forwards
    if sample.chunk_frames is not None:
        every_forward = list(passing(sample))
    assert len(every_forward) == sample.forwards
    total: Counter[str] = Counter()
    for forward in every_forward:
        total += oracle.forward(forward)
    activity = found.decode_activity
    assert activity.macs == total["macs"]
    moved_bytes = sum(activity.dram_bytes.values())
    # A core moves its part of a row's cache, rounded up to bytes.
    moves = sum(bool(forward.moved) for forward in every_forward if forward is not None)
    assert 0 <= moved_bytes - total["bytes"] <= moves * design.model.body.n_layers * 2


@given(
    design=designs(), seed=st.integers(0, 99), kind=st.sampled_from(["every_module", "all_layers"])
)
@settings(max_examples=25)
def test_forwards_one_after_the_other_give_the_same(design: Design, seed: int, kind: str) -> None:
    network = design.model.network
    if network is None or network.kind == "depth":
        return
    design = override(design, {"policy.skip": {"kind": kind}})
    batches = dense_batches(design)
    drawn = np.random.default_rng(seed).random(batches.replay.shape) < 0.5
    drawn[:, 0] = False
    reuses = design.model.sample is not None and not design.model.sample.irregular
    if reuses:  # other forwards refuse to reuse
        batches = replace(batches, replay=drawn, further={"mlp": drawn[..., ::-1]})
    plan = plan_of(design, reuses=reuses)
    together = simulate_policy(plan, batches)
    plainly = simulate_plainly(plan, batches)
    assert together.cycles == plainly.cycles
    assert together.activity == plainly.activity
    assert together.cycles >= together.bound_cycles


@given(first=designs(), lanes=st.sampled_from([4, 16]))
@settings(max_examples=15)
def test_designs_together_are_as_each_alone(first: Design, lanes: int) -> None:
    changes = {"machine.vector.lanes": lanes, "machine.vector.exponentials_per_cycle": lanes}
    second = override(first, changes)
    both = [first, second]
    phases = Phases(MachineArrays.of([Hardware(design) for design in both]))
    plan = replace(plan_of(first), phases=phases)
    (together,) = simulate_policy_on_designs(plan, dense_batches(first))
    for design, found in zip(both, together, strict=True):
        alone = simulate_policy(plan_of(design), dense_batches(design))
        assert found.cycles == alone.cycles
        assert found.activity == alone.activity


def worst_difference(design: Design) -> float:
    """Relative difference between the cycles of both fidelity levels."""
    cycles = []
    for fidelity in ("fluid", "tile"):
        found: Simulation = simulate_policy(
            plan_of(design, fidelity=fidelity), dense_batches(design)
        )
        cycles.append(found.cycles)
    fluid, tile = cycles
    return abs(fluid / tile - 1)


@given(design=designs())
@settings(max_examples=20)
def test_fluid_is_near_tile(design: Design) -> None:
    assert worst_difference(design) < 0.05


# ------------------------------------------------------------------ reuse, bad input


def test_reuse_follows_the_calendar() -> None:
    sample = Sample(height=16, width=16, steps=6, chunk_frames=1, chunks=2)
    reuses = reused_forwards(sample, every=2, dense=2)
    of_chunk = [False, False, True, False, True, False, False]  # the last is the clean forward
    assert reuses.tolist() == 2 * of_chunk


def test_modules_are_reused_by_intervals_of_their_own() -> None:
    work = "diffusion:wan2.1_1.3b,passes=1,steps=12,every=2,cross_every=5,mlp_every=3"
    design = for_work(load_design("zcu102"), workload_of(work))
    design = override(design, {"policy.skip": {"kind": "by_module"}})
    report = run(design, workload=work, what_if=False, allow_misfit=True)
    dense, own = (row.simulation.totals for row in (report.rows[0], report.chosen))
    # Of 12 forwards the first and the last compute, and of the ten between every 2nd, 5th, 3rd.
    for name, computed in {"attention": 7, "cross": 4, "mlp": 5}.items():
        assert own[name].macs * 12 == dense[name].macs * computed
    without = run(
        override(design, {"policy.skip": {"kind": "every_module"}}),
        workload=work,
        what_if=False,
        allow_misfit=True,
    )
    assert without.chosen.simulation.totals["cross"].macs * 12 == dense["cross"].macs * 7


def test_one_output_is_held_for_all_layers_or_one_for_each_module() -> None:
    work = "diffusion:wan2.1_1.3b,passes=1,every=2"
    held = {}
    for kind in ("all_layers", "every_module"):
        design = for_work(load_design("zcu102"), workload_of(work))
        design = override(design, {"policy.skip": {"kind": kind}})
        report = run(design, workload=work, what_if=False, allow_misfit=True)
        contents = {
            each.content: each.nbytes for use in report.fit.memories for each in use.contents
        }
        held[kind] = contents["replay cache"]
    assert held["all_layers"] == WAN_TOKENS * 1536
    assert held["every_module"] == 90 * WAN_TOKENS * 1536


@pytest.mark.parametrize("preset", ["wan2.1_1.3b", "longlive_1.3b", "flux1_dev", "dit_xl2"])
def test_what_a_terminal_prints_of_a_network(preset: str) -> None:

    sample = preset_model(preset).sample
    assert sample is not None
    changes = {"model.preset": preset, "policy.batch": sample.passes}
    texts = [f"{path}={value}" for path, value in changes.items()]
    report = run(load_design("asic_7nm_hbm3", texts), allow_misfit=True)
    parts = list(first_screen(stored(report)))
    assert parts
    assert limits_table(stored(report)).rows


def test_latent_frames_with_noise_levels_of_their_own_are_modulated_apart() -> None:
    model = preset_model("dit_xl2")
    assert model.network is not None
    raw = model.model_dump()
    raw["network"] |= {"stride": (1, 8, 8)}
    raw["sample"] |= {"frames": 5}
    together = forward_macs(type(model).model_validate(raw))
    raw["network"]["timesteps"] = "frame"
    apart = forward_macs(type(model).model_validate(raw))
    d = 1152
    # Each of the 28 layers has a product of d -> 6 d, of one row or of five.
    assert together["modulation"] == 28 * 6 * d * d
    assert apart["modulation"] == 5 * together["modulation"]
    # So have the embedding of the time (256 -> d -> d), and d -> 2 d before the patches.
    assert apart["enter"] - together["enter"] == 4 * (256 * d + d * d)
    assert apart["leave"] - together["leave"] == 4 * 2 * d * d
    others = together.keys() - {"modulation", "enter", "leave"}
    assert all(apart[name] == together[name] for name in others)


def test_frames_per_second_and_the_first_frame_are_those_of_pixels() -> None:
    report = run(
        for_work(load_design("asic_7nm_hbm3"), workload_of("chunks:longlive_1.3b,chunks=2")),
        what_if=False,
        allow_misfit=True,
    )
    row = report.chosen
    assert row.first_token_s is not None
    # Four of the ten forwards are over when the first chunk can be shown; its window is smaller.
    assert 0.3 < row.first_token_s / row.latency_s < 0.4
    figures_of_row = figures(row, report)
    assert figures_of_row["first_frame_s"] == row.first_token_s
    assert figures_of_row["first_token_s"] is None  # a network emits no tokens
    # The first of six latent frames becomes one pixel frame, the others four each.
    assert figures_of_row["frames_per_s"] == pytest.approx((1 + 5 * 4) / row.latency_s)
    phases = [value for name, value in figures_of_row.items() if name.removesuffix("_s") in PHASES]
    assert sum(filter(None, phases)) == pytest.approx(row.latency_s)


@pytest.mark.parametrize("work", ["diffusion:wan2.1_1.3b,64x64,frames=5,steps=2", "chunks"])
def test_the_factor_of_the_expected_time_leaves_stated_seconds_as_they_are(work: str) -> None:
    text = work if "wan" in work else "chunks:longlive_1.3b,64x64,chunks=3"
    design = for_work(load_design("asic_7nm_hbm3"), workload_of(text))
    without = run(design, what_if=False, allow_misfit=True)
    changes = {"model.sample.encoder_s": 5.0, "model.sample.decoder_s": 2.0}
    stated_run = run(override(design, changes), what_if=False, allow_misfit=True)
    stated_s = 5.0 + 2.0 * (3 if work == "chunks" else 1)
    before = figures(without.chosen, without)
    after = figures(stated_run.chosen, stated_run)
    ends = ("", "_low", "_high")
    for name in ("seconds_per_video", *(f"expected_seconds_per_video{end}" for end in ends)):
        assert after[name] == pytest.approx(before[name] + stated_s)
    rate = after["frames_per_s"] * after["seconds_per_video"] / after["expected_seconds_per_video"]
    assert after["expected_frames_per_s"] == pytest.approx(rate)
    lines = explained(stored(stated_run))
    equations = next(line for line in lines if line.label == "expected").equations
    printed = [equation for equation in equations if equation.printed is not None]
    assert len(printed) == 3
    for equation in printed:
        assert equation.formula.endswith("+ stated")
        assert equation.value == pytest.approx(equation.printed)


@pytest.mark.parametrize(
    ("work", "made", "around"),
    [
        ("image:depth_anything_v2_small,70x70", "image", "reading and resizing of the picture"),
        ("image:dit_xl2,64x64,steps=2", "image", "pixel decoder"),
        ("diffusion:wan2.1_1.3b,64x64,frames=5,steps=2", "video", "text encoder and pixel decoder"),
    ],
)
def test_the_screen_says_what_a_network_makes_and_what_is_left_out(
    work: str, made: str, around: str
) -> None:
    design = for_work(load_design("asic_7nm_hbm3"), workload_of(work))
    result = stored(run(design, workload=work, allow_misfit=True, what_if=False))
    texts = {part.label: part.text for part in first_screen(result) if isinstance(part, Fact)}
    assert f" s per {made}" in texts["simulated"]
    assert f" s per {made} on a board" in texts["expected"]
    assert f" J per {made}" in texts["energy"]
    assert texts["left out"] == around
    assert ("frames/s, first frame after" in texts["simulated"]) == (made == "video")
    shares = [each.share_of_time for each in result.limits]
    assert sum(shares) == pytest.approx(1.0)
    for limit in result.limits:
        assert phase_name(result, limit.phase) not in ("enter", "leave", "cross", "prefill")
        assert result.own.get(f"{limit.phase}_s") is not None


@pytest.mark.parametrize(
    ("work", "problem"),
    [
        ("diffusion:wan2.1_1.3b,frames=82", "model.sample.frames: 82 is not 1 + a multiple of 4"),
        ("diffusion:wan2.1_1.3b,481x832", "model.sample.height: 481 is no multiple of 16"),
        ("image:depth_anything_v2_small,500x518", "height: 500 is no multiple of 14"),
        ("chunks:longlive_1.3b,window=2", "window_frames: 2 are fewer than the 3 of a chunk"),
        ("chunks:wan2.1_1.3b", "makes its samples at once"),
        ("diffusion:longlive_1.3b", "makes videos chunk by chunk"),
        ("diffusion:llama2_7b", "is a decoder"),
        ("diffusion:wan9", "no preset"),
        ("diffusion:wan2.1_1.3b,every=1", "every: expected a whole number of 2 or more"),
        ("diffusion:wan2.1_1.3b,dense=3", "dense is of forwards that reuse others"),
        ("diffusion:wan2.1_1.3b,chunk=3", "has no `chunk`"),
        ("diffusion:wan2.1_1.3b,batch=4", "unknown field 'batch'; say --set policy.batch=N"),
        ("chunks:longlive_1.3b,frames=100", "say chunks=N in place of it: a chunk"),
        ("image:depth_anything_v2_small,every=2", "takes one forward, which has no earlier one"),
        ("text:4+4", "is a decoder"),
    ],
)
def test_bad_samples_get_one_line(work: str, problem: str) -> None:
    design = load_design("zcu102")
    if work.startswith("text"):
        problem = "not a text token by token"
        design = for_work(design, workload_of("diffusion:wan2.1_1.3b"))
    with pytest.raises(InputError) as caught:
        run(design, workload=work, allow_misfit=True, what_if=False)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_trace_of_a_decoder_is_refused_by_its_kind_and_not_by_its_length() -> None:
    """No number of chunks makes a trace of tokens one of forwards."""
    design = for_work(load_design("zcu102"), workload_of("chunks:longlive_1.3b,chunks=2"))
    with pytest.raises(InputError, match="is of a video that is decoded token by token") as caught:
        run(design, [load_trace("traces/vilau_8f.npz")], allow_misfit=True, what_if=False)
    assert "model.sample.chunks" not in str(caught.value)
    assert "replay=" in str(caught.value)


def test_a_class_of_diffusers_that_is_not_read_is_refused_with_a_cure(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text('{"_class_name": "UNet2DConditionModel", "num_layers": 30}')
    with pytest.raises(InputError, match="is no network that is read") as caught:
        load_design("zcu102", [f"model.from={file}"])
    assert "carsim config list --presets" in str(caught.value)


def test_a_workload_is_read_back_from_its_own_words() -> None:
    for text in ("diffusion:wan2.1_1.3b,480x832,frames=81,steps=50", "chunks", "image:14x28"):
        assert workload_of(text).text == text
    assert workload_of("diffusion:480x832").sample_changes == {"height": 480, "width": 832}
    with pytest.raises(InputError):
        Workload("image", size="14")


def test_a_mask_of_scored_keys_scales_products_and_bytes() -> None:
    model = preset_model("wan2.1_1.3b")
    on_chip = OnChip(1 << 18, 1 << 18, query_tile=100, loop_order="tokens")
    share = Share(1000, on_chip=on_chip)
    dense = attend_ops(model, share, 4000)
    sparse = attend_ops(model, share, 4000, scored=1000)
    assert 4 * sparse.macs == dense.macs
    assert 4 * sparse.stream_bytes == dense.stream_bytes
    assert 4 * sparse.exponentials == dense.exponentials


def test_a_draft_masks_three_quarters_of_the_steps() -> None:
    tokens, blocks = 32_760, 256  # of 128 tokens
    draft = {"kind": "draft", "block_tokens": 128, "keep": 0.25}
    design = for_work(load_design("zcu102"), workload_of("diffusion:wan2.1_1.3b,steps=8,passes=1"))
    design = override(design, {"policy.attention": draft})
    report = run(design, what_if=False)
    dense, own = report.rows[0], report.chosen
    scored = 2 * tokens + 6 * (blocks // 4) * 128  # keys of each query, over eight steps
    pairs = 30 * tokens * scored * 1536 * 2
    maps = 6 * 30 * blocks**2 * 1536
    of_others = dense.simulation.totals["attention"].macs - 8 * 30 * 2 * tokens**2 * 1536
    assert of_others == 0
    assert own.simulation.totals["attention"].macs == pytest.approx(pairs + maps, rel=1e-5)
    assert own.simulation.totals["mlp"].macs == dense.simulation.totals["mlp"].macs
    assert own.variant.name.startswith("draft attention")
    moved = own.simulation.totals["attention"].dram_bytes
    assert sum(moved) < sum(dense.simulation.totals["attention"].dram_bytes)


def test_policies_of_decoding_are_refused() -> None:
    design = for_work(load_design("zcu102"), workload_of("diffusion:wan2.1_1.3b"))
    design = override(design, {"policy.attention": {"kind": "streaming"}})
    with pytest.raises(
        InputError, match="take 'dense', or a policy that masks forwards: temp_cache"
    ):
        run(design, what_if=False)


def test_split_matrices_are_whole_in_their_bytes() -> None:
    design = wan_on(mapping="tensor", cores=4)
    machine = MachineArrays.of([Hardware(design)])
    block = ForwardMlp(tokens=WAN_TOKENS)
    assert splits(machine, block)
    ops = operations_of(machine, block, None)(Share(WAN_TOKENS))
    assert sum(int(op.stream_bytes) for op in ops) % (2 * 1536 * 8960 + 2 * (1536 + 8960)) == 0


@pytest.mark.parametrize(
    "name",
    [name for name in shipped_presets()["model"] if "sample" in preset("model", name, "test")],
)
def test_a_preset_runs_in_ten_seconds(name: str) -> None:
    sample = preset_model(name).sample
    assert sample is not None
    changes = [f"model.preset={name}", f"policy.batch={sample.passes}"]
    start = process_time()
    report = run(load_design("asic_7nm_hbm3", changes), allow_misfit=True)
    assert report.chosen.latency_s > 0
    assert process_time() - start < 10
