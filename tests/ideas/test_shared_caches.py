"""Caches that layers or heads share, and older tokens in a second memory: bytes, room and time.

The model ``tiny`` has 4 layers of 4 heads of 16 elements, at 8 bits. Figures are those of a
calculation by hand.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from explore_study import make_study
from plainly import simulate_plainly

from carsim import load_design, override, run
from carsim.account.row import RowResult
from carsim.account.simulation import simulate_policy
from carsim.base.errors import InputError
from carsim.base.plugins import load_plugin
from carsim.base.registry import Registry
from carsim.cost.capacity import capacity
from carsim.decisions.attention import AttentionPolicy, Dense, Draft, Stack, Streaming
from carsim.decisions.replay import FASTCAR
from carsim.decoder.decode import decode_step, prefill
from carsim.decoder.structures import DecoderPolicy
from carsim.design import Design
from carsim.explore.bounds import bounds_of
from carsim.explore.grid import GridStudy
from carsim.explore.pareto import pareto
from carsim.explore.sweep import sweep
from carsim.machine.batches import Batches
from carsim.machine.build import build
from carsim.machine.cases import Cases
from carsim.machine.hardware import Hardware
from carsim.machine.phases import FIDELITIES, Phases
from carsim.machine.plan import Plan
from carsim.program.decoder import Attend
from carsim.program.reads import Reads
from carsim.runs.report import Report
from carsim.testing import check_kind
from carsim.testing.decoder import MASK, decode_rows, make_config, make_inputs, make_weights
from carsim.workload.geometry import Video

DESIGN = """\
board: {preset: u280}
machine:
  cores: 2
  array: {rows: 4, cols: 4, arithmetic: int8}
  vector: {lanes: 4}
  weight_buffer_kib: 4
  kv_buffer_kib: 4
  activation_buffer_kib: 16
  tile_kib: 1
  placement: {weights: hbm, kv: hbm, replay: ddr, head: hbm, kv_far: ddr}
model: {preset: tiny}
policy: {batch: 2}
energy: {preset: fpga_16nm}
"""

FOLDER = Path(__file__).parents[2] / "docs/ideas"
LAYERS, HEADS, SIZE, WIDTH = 4, 4, 16, 64
TOKEN_BYTES = 2 * HEADS * SIZE  # key and value of a token in one layer
ROWS, PROMPT, FRAMES, PER_FRAME = 2, 5, 2, 256
CONTEXTS = PROMPT + 1 + np.arange(FRAMES * PER_FRAME)
WORKLOAD = f"video:{FRAMES},prompt={PROMPT}"


def load(stem: str) -> Any:
    """The kind that a file registers."""
    load_plugin((FOLDER / f"{stem}.py").absolute())
    return Registry.roles["attention policy"][stem]


def design_of(policy: AttentionPolicy, *changes: str) -> Design:
    """The model ``tiny`` on a board with HBM and DDR."""
    settings = ["model.preset=tiny", "machine.placement.kv_far=ddr", f"policy.batch={ROWS}"]
    design = load_design("u280", [*settings, *changes])
    return override(design, {"policy.attention": policy.model_dump(), "model.kv": {"bits": 8}})


def rows_of(policy: AttentionPolicy, *changes: str, fidelity: str = "fluid") -> list[RowResult]:
    """Dense decoding, and decoding under the policy."""
    design = design_of(policy, *changes)
    report: Report = run(
        design, workload=WORKLOAD, what_if=False, allow_misfit=True, fidelity=fidelity
    )
    own = [row for row in report.rows if row.variant.attention == policy and not row.is_bound]
    return [report.row("dense, static"), own[0]]


def used_bytes(policy: AttentionPolicy) -> dict[tuple[str, str], int]:
    """Bytes of the contents of all memories."""
    uses = capacity(design_of(policy), Video(FRAMES, PER_FRAME, PROMPT), rule=None)
    return {(use.memory, each.content): each.nbytes for use in uses for each in use.contents}


def differences(policy: AttentionPolicy, *changes: str) -> dict[str, int]:
    """Work of dense decoding less that under the policy."""
    dense, own = (row.simulation.activity for row in rows_of(policy, *changes))
    memories = {
        name: dense.dram_bytes[name] - own.dram_bytes.get(name, 0) for name in dense.dram_bytes
    }
    return {"macs": dense.macs - own.macs, **memories}


def test_layers_that_share_project_and_write_nothing() -> None:
    policy = load("shared_layers")(group=2)
    sharing = 2  # of four layers
    tokens = ROWS * (PROMPT + len(CONTEXTS))
    projection = WIDTH * 2 * HEADS * SIZE  # weights of K and V of a layer
    saved = differences(policy)
    assert saved["macs"] == sharing * tokens * projection
    # Weights of 8 bits are fetched once a step and once for the prompt; a token is not written.
    fetches = len(CONTEXTS) + 1
    assert saved["hbm"] == sharing * (fetches * projection + tokens * TOKEN_BYTES)
    assert saved["ddr"] == 0
    held = ROWS * (LAYERS - sharing) * CONTEXTS[-1] * TOKEN_BYTES
    assert used_bytes(policy)["hbm", "KV cache"] == held


def test_heads_that_share_project_read_and_write_a_fraction() -> None:
    policy = load("shared_heads")(group=4)
    tokens = ROWS * (PROMPT + len(CONTEXTS))
    left_out = WIDTH * 2 * 3 * SIZE  # weights of K and V of three of four heads
    saved = differences(policy)
    assert saved["macs"] == LAYERS * tokens * left_out
    # The prompt reads its own keys once; each step reads its context.
    read = ROWS * (PROMPT + int(CONTEXTS.sum()))
    moved = (len(CONTEXTS) + 1) * left_out + (read + tokens) * TOKEN_BYTES * 3 // 4
    assert saved["hbm"] == LAYERS * moved
    held = ROWS * LAYERS * CONTEXTS[-1] * TOKEN_BYTES // 4
    assert used_bytes(policy)["hbm", "KV cache"] == held


def test_older_tokens_are_read_from_the_second_memory() -> None:
    near = 100
    policy = load("far_cache")(near=near)
    saved = differences(policy)
    assert saved["macs"] == 0
    far = int(np.maximum(0, CONTEXTS - near).sum())
    moves = int(np.count_nonzero(near < CONTEXTS))  # one token each, read here and written there
    a_token = ROWS * LAYERS * TOKEN_BYTES
    assert saved["hbm"] == (far - moves) * a_token
    assert saved["ddr"] == -(far + moves) * a_token
    used = used_bytes(policy)
    assert used["hbm", "KV cache"] == near * a_token
    assert used["ddr", "older KV cache"] == (CONTEXTS[-1] - near) * a_token


def test_older_tokens_of_a_long_prompt_are_written_to_the_second_memory() -> None:
    near, prompt = 40, 100
    policy = load("far_cache")(near=near)
    video = Video(n_frames=1, tokens_per_frame=1, prompt_tokens=prompt)
    design = design_of(policy)
    decided = np.zeros((1, 1, LAYERS, ROWS), np.bool_)
    batches = Batches(decided, 1, 0, "stated", "stated")
    moved = {}
    for attention in (Dense(), policy):
        plan = Plan(Phases(Hardware(design)), video, attention, "static", None, range(1))
        prefill = simulate_policy(plan, batches).totals["prefill"]
        names = (path.name for path in plan.hw.paths)
        moved[attention.kind] = dict(zip(names, prefill.dram_bytes, strict=True))
        moved[attention.kind]["macs"] = prefill.macs
        moved[attention.kind]["vector_ops"] = prefill.vector_ops
    older = ROWS * LAYERS * (prompt - near) * TOKEN_BYTES
    # They are written there and read from there once, instead of from HBM; nothing else differs.
    assert moved["far_cache"]["ddr"] - moved["dense"]["ddr"] == 2 * older
    assert moved["dense"]["hbm"] - moved["far_cache"]["hbm"] == 2 * older
    assert moved["dense"]["macs"] == moved["far_cache"]["macs"]
    assert moved["dense"]["vector_ops"] == moved["far_cache"]["vector_ops"]


def test_several_new_tokens_move_as_many_of_the_older_ones() -> None:
    """Steps of 4 tokens without a prompt: 4 tokens, of which 1 is far, then 8, of which 5 are."""
    policy = load("far_cache")(near=3)
    design = design_of(policy, "policy.tokens_per_step=4")
    video = Video(n_frames=2, tokens_per_frame=4, prompt_tokens=0)
    decided = np.zeros((1, 2, LAYERS, 4 * ROWS), np.bool_)
    plan = Plan(Phases(Hardware(design)), video, policy, "static", None, range(2))
    attention = simulate_policy(plan, Batches(decided, 1, 0, "stated", "stated")).totals[
        "attention"
    ]
    moved = dict(zip((path.name for path in plan.hw.paths), attention.dram_bytes, strict=True))
    far_reads = 1 + 5
    moves = 1 + 4
    assert moved["ddr"] == ROWS * LAYERS * (far_reads + moves) * TOKEN_BYTES
    near_reads = 3 + 3
    writes = 4 + 4
    assert moved["hbm"] == ROWS * LAYERS * (near_reads + writes + moves) * TOKEN_BYTES


def test_outputs_of_attention_are_polished_and_gathered_once() -> None:
    """Attention over both memories has one result: no operation of an element is done twice."""
    policy = load("far_cache")(near=16)
    dense, own = rows_of(policy, "model.polished=[out]")
    assert dense.simulation.activity.vector_ops == own.simulation.activity.vector_ops
    phases = Phases(Hardware(design_of(policy, "machine.mapping=tensor")))
    exchanged = []
    for attention in (Dense(), policy):
        reads = Reads.of_tokens(100)._replace(policy=attention)
        phase = build(phases.machine, Attend(), None, Cases(reads))
        exchanged.append(sum(int(step.exchange_cycles.sum()) for step in phase.steps))
    assert exchanged[0] == exchanged[1] > 0


@pytest.mark.parametrize("fidelity", FIDELITIES)
def test_steps_without_older_tokens_cost_as_much_as_dense_ones(fidelity: str) -> None:
    """No array is filled and no product is launched for tokens that are not there."""
    policy = load("far_cache")(near=10**6)
    slow = ["machine.overheads.kernel_cycles=50", "machine.array.weight_load=rows"]
    dense, own = rows_of(policy, *slow, fidelity=fidelity)
    totals = [row.simulation.totals["attention"] for row in (dense, own)]
    assert totals[0].cycles == totals[1].cycles


def test_the_second_memory_sets_the_pace() -> None:
    policy = load("far_cache")(near=16)
    slow = ["board.memories.ddr.channels=1", "machine.cores=2"]
    dense, own = rows_of(policy, *slow)
    (_, played) = rows_of(policy, *slow, fidelity="tile")
    assert played.seconds_per_video == own.seconds_per_video
    # DDR alone takes so long for the older tokens; the rest of attention follows behind them.
    design = design_of(policy, *slow)
    rate = Hardware(design).rates[sorted(design.board.memories).index("ddr")]
    far = int(np.maximum(0, CONTEXTS - 16).sum())
    far_cycles = float(far * ROWS * LAYERS * TOKEN_BYTES / rate)
    attention = [row.simulation.totals["attention"].cycles for row in (dense, own)]
    assert far_cycles < attention[1] < far_cycles + attention[0]


@pytest.mark.parametrize(
    ("stem", "fields"),
    [("shared_layers", {"group": 2}), ("shared_heads", {"group": 2}), ("far_cache", {"near": 9})],
)
def test_a_run_is_the_sum_of_its_layer_steps(stem: str, fields: dict[str, int]) -> None:
    """With replay, at both fidelity levels: equal to the walk that takes them one by one."""
    policy = load(stem)(**fields)
    video = Video(n_frames=3, tokens_per_frame=4, prompt_tokens=3)
    replay = np.random.default_rng(0).random((1, video.n_steps, LAYERS, ROWS)) < 0.6
    replay[:, : video.tokens_per_frame] = False
    batches = Batches(replay, 1, 0, "drawn", "drawn")
    cycles = []
    for fidelity in FIDELITIES:
        phases = Phases(Hardware(design_of(policy, "machine.decision_at=q")), fidelity)
        plan = Plan(phases, video, policy, "drs", FASTCAR, range(video.n_steps))
        plain = simulate_plainly(plan, batches)
        simulation = simulate_policy(plan, batches)
        assert simulation.cycles == plain.cycles
        assert simulation.activity == plain.activity
        assert simulation.bound_cycles <= simulation.cycles
        cycles.append(simulation.cycles)
    assert cycles[1] == cycles[0]


def test_mean_heads_are_those_of_mean_weights() -> None:
    """Keys and values are projections, so that their mean is that of the projections."""
    policy = load("shared_heads")(group=2)
    config = make_config(n_kv_heads=4)
    weights = make_weights(config)
    size = config.geometry.head_dim
    first_key = config.geometry.n_heads * size
    pooled = weights.w_qkv.copy()  # [L, d, (H + 2 KV) hd]
    for head in range(0, 8, 2):  # heads of keys, then of values
        columns = slice(first_key + head * size, first_key + (head + 2) * size)
        of_heads = pooled[..., columns].reshape(*pooled.shape[:2], 2, size)
        mean = of_heads.mean(axis=2, keepdims=True)
        pooled[..., columns] = np.broadcast_to(mean, of_heads.shape).reshape(
            *pooled.shape[:2], 2 * size
        )
    prompt, embeddings = make_inputs(config)
    hidden = []
    for arrays, attention in ((weights, policy), (replace(weights, w_qkv=pooled), Dense())):
        decoder_policy = DecoderPolicy((0.0, 0.0), attention=attention)
        state, _ = prefill(config, decoder_policy, arrays, prompt * MASK[..., None], MASK)
        hidden.append([decode_step(state, x) for x in embeddings])
    np.testing.assert_allclose(hidden[0], hidden[1], atol=1e-12)
    dense = decode_rows(config, DecoderPolicy((0.0, 0.0)))
    assert not np.allclose(hidden[0], dense.hidden)


def test_layers_that_share_read_the_keys_of_the_first() -> None:
    policy = load("shared_layers")(group=2)
    state = decode_rows(make_config(n_layers=4), DecoderPolicy((None,) * 4, attention=policy)).state
    for layer in (1, 3):
        assert (state.k[layer] == state.k[layer - 1]).all()
        assert (state.v[layer] == state.v[layer - 1]).all()
    assert not (state.k[2] == state.k[1]).all()


def test_stacks_share_both_and_contradictions_are_refused() -> None:
    layers, heads, far = load("shared_layers"), load("shared_heads"), load("far_cache")
    stack = Stack(policies=(layers(group=2), heads(group=4), far(near=100)))
    assert check_kind("attention policy", stack) == []
    used = used_bytes(stack)
    a_token = ROWS * 2 * TOKEN_BYTES // 4  # two layers with one head of four
    assert used["hbm", "KV cache"] == 100 * a_token
    assert used["ddr", "older KV cache"] == (CONTEXTS[-1] - 100) * a_token
    assert Stack(policies=(Streaming(), far())).far_tokens(np.array([600]), 256) == [600 - 512]
    h2o = load("h2o")
    for policies, words in (
        ((layers(), layers()), "shared_layers and shared_layers both share keys between layers"),
        ((heads(), heads()), "both share keys between heads"),
        ((far(), far()), "both move tokens to a second memory"),
        ((layers(), h2o()), "shared_layers shares keys between layers, and h2o drops, merges or"),
        ((heads(), h2o()), "shared_heads shares keys between heads, and h2o lets each head read"),
        ((Draft(), far()), "far_cache moves older tokens, and draft reads fewer tokens than it"),
    ):
        with pytest.raises(ValueError, match=words):
            Stack(policies=policies)


def test_what_does_not_suit_the_machine_or_model_is_refused_in_a_line() -> None:
    policy = load("far_cache")()
    with pytest.raises(InputError, match=r"kv_far: is null, and older tokens .*; name one of ddr"):
        override(load_design("u280"), {"policy.attention": policy.model_dump()})
    with pytest.raises(InputError, match=r"kv_far: no memory 'dd'; the board has ddr"):
        load_design("u280", ["machine.placement.kv_far=dd"])
    windowed = {"model.body.window": 8, "model.body.global_layers": [1]}
    design = override(design_of(load("shared_layers")()), windowed)
    with pytest.raises(InputError, match="lets layer 1 read layer 0, whose window is another"):
        run(design, workload=WORKLOAD, allow_misfit=True)


def test_a_front_is_that_of_all_points(tmp_path: Path) -> None:
    layers, heads, far = load("shared_layers"), load("shared_heads"), load("far_cache")
    policies = [Dense(), layers(), heads(), far(near=64), Stack(policies=(layers(), far(near=8)))]
    axes: dict[str, Any] = {
        "policy.attention": [policy.model_dump() for policy in policies],
        "machine.cores": [1, 2],
        "board.memories.ddr.channels": [1, 2],
    }
    design = tmp_path / "shared.yaml"
    design.write_text(DESIGN, encoding="utf-8")
    objectives = ["seconds_per_video", "energy_per_video_j", "capacity_used_gb"]
    study = make_study(
        tmp_path,
        axes=axes,
        objectives=objectives[:2],
        design=str(design),
        traces=None,
        workload="video:2,prompt=3,replay=0.5",
    )
    everything = pareto(sweep(study, workers=0), objectives[:2])
    front = pareto(sweep(study, workers=0, front_only=True), objectives[:2])
    assert len(everything) == len(front)
    np.testing.assert_array_equal(
        everything[objectives[:2]].to_numpy(), front[objectives[:2]].to_numpy()
    )
    bounds = bounds_of(GridStudy(study))
    assert np.isfinite(bounds[0]).all()
