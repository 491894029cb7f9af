"""Laws between two runs that differ in one known way, on drawn designs; and laws that do not hold.

:data:`ANOMALIES` has an example of each law of time that one may expect and that does not hold:
more cores or larger arrays may be slower, as work is handed out in lists (Graham, SIAM J. Appl.
Math. 17(2), 1969) and larger arrays take longer to fill. Three more do not hold. More replays may
move more bytes: where one sequence computes, all weights are read, and cached outputs come on top.
Permuted sequences may take another time under schedules that prefer a sequence's own core. A
deeper queue of instructions may be slower: cores begin once the first instruction waits for a full
queue, and else once all have been sent (85,315 and 85,319 cycles of a drawn case, at both
fidelities).
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import EXPERTS, LATENTS, Case, cases, small_design

from carsim.decisions.attention import Streaming
from carsim.design import Design, override
from carsim.machine.simulate import Simulation
from carsim.runs.calibrate import MeasuredSpeed, best_constants
from carsim.runs.pipeline import run
from carsim.workload.geometry import Video

Change = Callable[[Case], Case]
MEMORIES = ("ddr", "second")


def more(field: str, by: float) -> Change:
    """A number of the model is larger by so much."""
    part, _, name = field.partition(".")
    return lambda case: case.changed(
        {f"model.{field}": getattr(getattr(case.design.model, part), name) + by}
    )


def longer(axis: int, copied: Callable[[Case], int], change: Change) -> Change:
    """A case of which the last decisions along an axis are there once more."""

    def changed(case: Case) -> Case:
        last = case.decided.take(range(-copied(case), 0), axis)
        replay = np.concatenate([case.decided, last], axis)
        return replace(change(case), replay=None if case.replay is None else replay)

    return changed


def longer_video(field: str) -> Change:
    """A frame, or a token of the prompt, more."""
    return lambda case: replace(
        case, video=replace(case.video, **{field: getattr(case.video, field) + 1})
    )


def with_twice_the_batch(case: Case) -> Case:
    """Rows are the first tokens of all sequences, then the second ones."""
    policy, shape = case.design.policy, case.decided.shape[:3]
    rows = case.decided.reshape(*shape, policy.tokens_per_step, policy.batch)
    replay = None if case.replay is None else np.concatenate([rows, rows], 4).reshape(*shape, -1)
    return replace(case.changed({"policy.batch": 2 * policy.batch}), replay=replay)


def with_more_keys(case: Case) -> Case:
    """Of sparse attention, and of layers with a window."""
    kept, window = case.attention, case.design.model.body.window
    if kept.kind == "streaming":
        kept = Streaming(sinks=kept.sinks + 1, window=kept.window + 1)
    return replace(case.changed({"model.body.window": window and window + 1}), attention=kept)


def with_more_experts(case: Case) -> Case:
    """Each token takes one more of one more."""
    experts = case.design.model.body.experts
    if experts is None:
        return case
    more = {f"model.body.experts.{of}": getattr(experts, of) + 1 for of in ("count", "active")}
    return case.changed(more)


def with_a_higher_rank(case: Case) -> Case:
    latent = case.design.model.body.latent
    return case.changed({"model.body.latent.rank": latent.rank + 1}) if latent else case


def all_cases() -> st.SearchStrategy[Case]:
    """With models that the oracle does not know as well."""
    plain = {"model.body.biases": (), "model.polished": (), "model.body.qk_norm": False}
    experts = {**plain, "model.body.mlp": "gated", "model.body.experts": EXPERTS[2]}
    latent = {**plain, "model.body.n_kv_heads": 1, "model.body.latent": LATENTS[1]}
    return cases() | cases(**experts) | cases(**latent)


NEVER_LESS_WORK: dict[str, Change] = {
    "bits of weights": more("weights.bits", 0.5),
    "bits of keys and values": more("kv.bits", 0.5),
    "bits of cached outputs": more("replay.bits", 0.5),
    "prompt": longer_video("prompt_tokens"),
    "layers": longer(2, lambda _: 1, more("body.n_layers", 1)),
    "frames": longer(
        *(1, lambda c: c.video.tokens_per_frame // c.design.policy.tokens_per_step),
        longer_video("n_frames"),
    ),
    "batch": with_twice_the_batch,
    "keys that are read": with_more_keys,
    "experts": with_more_experts,
    "rank of latents": with_a_higher_rank,
}


def work(run: Simulation) -> list[int]:
    """Everything that is moved or calculated."""
    totals = run.totals.values()
    moved = np.sum([total.dram_bytes for total in totals], axis=0).tolist()
    return [*moved, *(sum(getattr(t, of) for t in totals) for of in ("macs", "vector_ops"))]


@given(all_cases(), st.sampled_from(sorted(NEVER_LESS_WORK)))
def test_more_of_it_is_never_less_work(case: Case, what: str) -> None:
    less, greater = case.simulate(), NEVER_LESS_WORK[what](case).simulate()
    assert all(a <= b for a, b in zip(work(less), work(greater), strict=True))
    if what in ("layers", "frames"):
        assert less.cycles < greater.cycles


@given(cases(), st.sampled_from([(0, 0), (1, 2), (9, 1)]), st.integers(0, 1))
def test_longer_workloads_are_never_less_work(
    case: Case, sizes: tuple[int, int], what: int
) -> None:
    """A longer prompt, or more tokens or frames."""
    kind = case.design.model.makes
    case = case.changed({"model.video.tokens_per_frame": 6})
    found = []
    for longer in (0, 1):
        prompt, made = sizes[0] + longer * what, 1 + sizes[1] + longer * (1 - what)
        text = f"video:{made},prompt={prompt}" if kind == "video" else f"text:{prompt}+{6 * made}"
        rows = run(case.design, workload=text, allow_misfit=True, what_if=False).rows
        found.append([(each.latency_s, *work(each.simulation)) for each in rows])
    for less, greater in zip(*found, strict=True):
        assert all(a <= b for a, b in zip(less, greater, strict=True))


def of_memories(field: str, value: Callable[[Any], Any]) -> Change:
    return lambda case: case.changed(
        {f"board.memories.{m}.{field}": value(case.design.board.memories[m]) for m in MEMORIES}
    )


FASTER: dict[str, Change] = {
    "wider channels": of_memories("channel_bits", lambda memory: 2 * memory.channel_bits),
    "more ports": of_memories("ports.count", lambda memory: 2 * memory.ports.count),
    "nothing but products": lambda case: case.changed({"machine.overheads": {}}),
    "quicker answers": of_memories("interconnect_ns", lambda memory: memory.interconnect_ns / 2),
}


@given(cases(), st.sampled_from(sorted(FASTER)))
def test_faster_memory_is_never_slower(case: Case, what: str) -> None:
    assert FASTER[what](case).simulate().cycles <= case.simulate().cycles


def renamed(case: Case) -> Case:
    """The memories have each other's names."""
    memories, placement = case.design.board.memories, case.design.machine.placement
    other = dict(zip(MEMORIES, reversed(MEMORIES), strict=True))
    places = {use: other[name] for use, name in placement.model_dump().items()}
    swapped = {other[name]: memory.model_dump() for name, memory in memories.items()}
    return case.changed({"board.memories": swapped, "machine.placement": places})


def in_turn(case: Case) -> Case:
    """Each sequence has the decisions of the next one, each of two cores those of the other."""
    policy, shape = case.design.policy, case.decided.shape[:3]
    rows = case.decided.reshape(*shape, policy.tokens_per_step, policy.batch)
    replay = None if case.replay is None else np.roll(rows, 1, 4).reshape(*shape, -1)
    return replace(case, replay=replay)


def spelled_out(case: Case) -> Case:
    """Scales as bits per weight, time per layer as time per step, defaults as they come out."""
    overheads, body = case.design.machine.overheads, case.design.model.body
    return case.changed(
        {
            "model.weights": {"bits": 4, "group": 32, "scale_bits": 16},
            "machine.overheads.step_us": overheads.step_us + body.n_layers * overheads.layer_us,
            "machine.overheads.layer_us": 0,
            "model.body.head_size": body.hidden_size // body.n_heads,
            "model.body.window": body.window or case.video.max_context,
        }
    )


SAME: dict[str, tuple[Change, dict[str, Any]]] = {
    "other names": (renamed, {}),
    "other sequences": (in_turn, {"machine.cores": 2, "policy.batch": 4}),
    "other spelling": (spelled_out, {"model.weights": {"bits": 4.5}}),
}


@pytest.mark.parametrize("what", SAME)
@given(data=st.data())
def test_the_same_said_otherwise_takes_the_same(what: str, data: st.DataObject) -> None:
    change, fixed = SAME[what]
    case = replace(data.draw(cases(**fixed)), schedule="static")
    one, other = case.simulate(), change(case).simulate()
    assert one.cycles == other.cycles
    assert sorted(work(one)) == sorted(work(other))


def test_a_window_of_the_whole_video_is_none_where_only_some_layers_have_experts() -> None:
    body = {"experts": {**EXPERTS[1], "dense_layers": 1, "dense_ffn_size": 40}}
    late = {"decision_at": "q", "drs": {"instructions_per_sequence": 400}}
    replay = np.arange(8)[None, :, None, None] >= np.full((1, 1, 2, 4), 4)
    case = Case(small_design(body=body, **late), Video(2, 4, 1), schedule="drs", replay=replay)
    same = case.changed({"model.body.window": 9, "model.body.global_layers": (0,)})
    assert same.simulate().cycles == case.simulate().cycles


@given(cases(**{"machine.drs.index_register_bits": 1 << 10}), st.integers(0, 99))
def test_work_does_not_depend_on_who_computes_but_on_how_many(case: Case, seed: int) -> None:
    """Under schedules that count. Time does: a sequence that keeps its core sends nothing."""
    case = replace(case, schedule=("drs", "pack")[seed % 2])
    if case.replay is not None:
        other = replace(case, replay=np.random.default_rng(seed).permuted(case.decided, axis=3))
        assert work(case.simulate()) == work(other.simulate())


@cache
def deep(layers: int) -> Design:
    return override(small_design(), {"model.body.n_layers": layers})


MEASURED = st.tuples(st.floats(1, 1e3), st.floats(1, 4), st.integers(1, 3))
"""Points: the bound in microseconds, how many times longer a step took, and layers."""


@given(st.lists(MEASURED, min_size=1, max_size=5), st.randoms())
def test_constants_depend_on_no_unit_and_no_order(points: list[Any], chance: Any) -> None:
    def constants(unit: float) -> Any:
        return best_constants(
            [
                MeasuredSpeed("", 4e6 / (unit * bound * times), deep(n), (1, 9), unit * bound)
                for bound, times, n in points
            ]
        )

    one, other = constants(1), constants(2)
    chance.shuffle(points)
    near = pytest.approx((one.layer_us, one.bandwidth_share), rel=1e-6, abs=1e-9)
    assert (other.layer_us / 2, other.bandwidth_share) == near
    assert tuple(constants(1)) == near


SMALL, LARGE = (
    {"rows": rows, "cols": 4, "dataflow": "output_stationary", "weight_load": "rows"}
    for rows in (32, 64)
)
ANOMALIES: dict[str, tuple[int, dict[str, Any], str, Any, Any, int, int]] = {
    # Batch, machine, what of it is larger, before and after; cycles of both.
    "private": (6, {"weight_sharing": "private"}, "cores", 2, 6, 51_016, 77_536),
    "a prompt that is split": (4, {"mapping": "hybrid"}, "cores", 4, 6, 21_944, 23_028),
    "keys in another order": (4, {}, "cores", 2, 3, 31_520, 31_712),
    "longer to fill": (1, {"cores": 1}, "array", SMALL, LARGE, 38_846, 67_518),
}


@pytest.mark.parametrize("what", ANOMALIES)
def test_more_of_it_may_be_slower(what: str) -> None:
    batch, machine, field, small, large, before, after = ANOMALIES[what]
    designs = [small_design(batch=batch, **machine, **{field: each}) for each in (small, large)]
    assert [Case(each, Video(1, 4, 5)).simulate().cycles for each in designs] == [before, after]
    assert before < after
