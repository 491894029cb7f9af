"""Laws between two runs that differ in one known way, on drawn designs.

Four laws hold, and each has a section below:

* more of the workload is never less work;
* a faster memory is never slower;
* one design in other words takes the same time;
* work depends on how many sequences compute, not on which.

Some laws that one may expect do not hold:

* More cores or larger arrays may be slower (:data:`ANOMALIES`). Work is handed out in lists
  (Graham, SIAM J. Appl. Math. 17(2), 1969), and larger arrays take longer to fill.
* More replays may move more bytes. If a single sequence computes, all weights are read, and cached
  outputs come on top.
* Permuted sequences may take another time under schedules that prefer a sequence's own core.
* A deeper queue of instructions may be slower. Cores begin once the first instruction waits for a
  full queue, or else once all have been sent (85,315 and 85,319 cycles of a drawn case, at both
  fidelities).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import EXPERTS, LATENTS, Case, cases, small_design

from carsim.account.simulation import Simulation
from carsim.decisions.attention import Streaming
from carsim.design import Design, override
from carsim.runs.calibrate import MeasuredSpeed, best_constants
from carsim.runs.pipeline import run
from carsim.workload.geometry import Video

Change = Callable[[Case], Case]
"""Makes the second of two cases from the first."""

MEMORIES = ("ddr", "second")

STEP_AXIS = 1
LAYER_AXIS = 2
"""Axes of the decisions of a case: [batches, steps, layers, rows]."""


# More of the workload is never less work.


def more_bits(operand: str) -> Change:
    """Half a bit more for each stored element of an operand, such as ``weights``."""

    def changed(case: Case) -> Case:
        bits = getattr(case.design.model, operand).bits
        return case.changed({f"model.{operand}.bits": bits + 0.5})

    return changed


def repeat_last(case: Case, axis: int, count: int) -> Case:
    """The last decisions along an axis are there once more."""
    if case.replay is None:
        return case
    last = case.decided.take(range(-count, 0), axis)
    return replace(case, replay=np.concatenate([case.decided, last], axis))


def with_a_longer_prompt(case: Case) -> Case:
    longer = replace(case.video, prompt_tokens=case.video.prompt_tokens + 1)
    return replace(case, video=longer)


def with_another_layer(case: Case) -> Case:
    layers = case.design.model.body.n_layers + 1
    changed = case.changed({"model.body.n_layers": layers})
    return replace(changed, replay=repeat_last(case, LAYER_AXIS, 1).replay)


def with_another_frame(case: Case) -> Case:
    steps_per_frame = case.video.tokens_per_frame // case.design.policy.tokens_per_step
    longer = replace(case.video, n_frames=case.video.n_frames + 1)
    return replace(repeat_last(case, STEP_AXIS, steps_per_frame), video=longer)


def rows_by_sequence(case: Case) -> np.ndarray:
    """Decisions [batches, steps, layers, tokens of a step, sequences]."""
    policy = case.design.policy
    return case.decided.reshape(*case.decided.shape[:3], policy.tokens_per_step, policy.batch)


def with_rows(case: Case, rows: np.ndarray) -> Case:
    """Decisions as :func:`rows_by_sequence` gives them; none if the case has none."""
    if case.replay is None:
        return case
    return replace(case, replay=rows.reshape(*rows.shape[:3], -1))


def with_twice_the_batch(case: Case) -> Case:
    """Each sequence is there twice."""
    rows = rows_by_sequence(case)
    doubled = case.changed({"policy.batch": 2 * case.design.policy.batch})
    return with_rows(doubled, np.concatenate([rows, rows], axis=4))


def with_more_keys(case: Case) -> Case:
    """Sparse attention, and layers with a window, read one key more."""
    attention = case.attention
    if attention.kind == "streaming":
        attention = Streaming(sinks=attention.sinks + 1, window=attention.window + 1)
    window = case.design.model.body.window
    changed = case.changed({"model.body.window": window + 1}) if window else case
    return replace(changed, attention=attention)


def with_more_experts(case: Case) -> Case:
    """There is one expert more, and each token takes one more."""
    experts = case.design.model.body.experts
    if experts is None:
        return case
    return case.changed(
        {
            "model.body.experts.count": experts.count + 1,
            "model.body.experts.active": experts.active + 1,
        }
    )


def with_a_higher_rank(case: Case) -> Case:
    latent = case.design.model.body.latent
    return case.changed({"model.body.latent.rank": latent.rank + 1}) if latent else case


def all_cases() -> st.SearchStrategy[Case]:
    """Cases of all models, those included that the oracle does not know."""
    plain = {"model.body.biases": (), "model.polished": (), "model.body.qk_norm": False}
    experts = {**plain, "model.body.mlp": "gated", "model.body.experts": EXPERTS[2]}
    latent = {**plain, "model.body.n_kv_heads": 1, "model.body.latent": LATENTS[1]}
    return cases() | cases(**experts) | cases(**latent)


NEVER_LESS_WORK: dict[str, Change] = {
    "bits of weights": more_bits("weights"),
    "bits of keys and values": more_bits("kv"),
    "bits of cached outputs": more_bits("replay"),
    "prompt": with_a_longer_prompt,
    "layers": with_another_layer,
    "frames": with_another_frame,
    "batch": with_twice_the_batch,
    "keys that are read": with_more_keys,
    "experts": with_more_experts,
    "rank of latents": with_a_higher_rank,
}


def work(simulation: Simulation) -> list[int]:
    """Bytes moved by memory, products and element operations."""
    phases = simulation.totals.values()
    bytes_by_memory = np.sum([phase.dram_bytes for phase in phases], axis=0).tolist()
    macs = sum(phase.macs for phase in phases)
    vector_ops = sum(phase.vector_ops for phase in phases)
    return [*bytes_by_memory, macs, vector_ops]


def is_nowhere_less(less: Iterable[float], greater: Iterable[float]) -> bool:
    return all(a <= b for a, b in zip(less, greater, strict=True))


@given(all_cases(), st.sampled_from(sorted(NEVER_LESS_WORK)))
def test_more_of_it_is_never_less_work(case: Case, what: str) -> None:
    less = case.simulate()
    greater = NEVER_LESS_WORK[what](case).simulate()
    assert is_nowhere_less(work(less), work(greater))
    if what in ("layers", "frames"):
        assert less.cycles < greater.cycles


TOKENS_PER_FRAME = 6


def times_and_work(case: Case, prompt_tokens: int, frames: int) -> list[list[float]]:
    """Latency and work of each policy, on a video or on a text of as many tokens."""
    workload = f"video:{frames},prompt={prompt_tokens}"
    if case.design.policy.batch % 2:
        workload += ",guidance=false"  # as an odd batch has no pairs
    if case.design.model.makes != "video":
        workload = f"text:{prompt_tokens}+{TOKENS_PER_FRAME * frames}"
    report = run(case.design, workload=workload, allow_misfit=True, what_if=False)
    return [[row.latency_s, *work(row.simulation)] for row in report.rows]


@given(
    case=cases(),
    prompt_and_frames=st.sampled_from([(0, 1), (1, 3), (9, 2)]),
    longer=st.sampled_from(["prompt", "frames"]),
)
def test_longer_workloads_are_never_less_work(
    case: Case, prompt_and_frames: tuple[int, int], longer: str
) -> None:
    """Neither a longer prompt nor more frames, or more tokens of a text, are less."""
    case = case.changed({"model.video.tokens_per_frame": TOKENS_PER_FRAME})
    prompt_tokens, frames = prompt_and_frames
    before = times_and_work(case, prompt_tokens, frames)
    if longer == "prompt":
        after = times_and_work(case, prompt_tokens + 1, frames)
    else:
        after = times_and_work(case, prompt_tokens, frames + 1)
    for less, greater in zip(before, after, strict=True):
        assert is_nowhere_less(less, greater)


# A faster memory is never slower.


def with_wider_channels(case: Case) -> Case:
    memories = case.design.board.memories
    return case.changed(
        {f"board.memories.{m}.channel_bits": 2 * memories[m].channel_bits for m in MEMORIES}
    )


def with_more_ports(case: Case) -> Case:
    memories = case.design.board.memories
    return case.changed(
        {f"board.memories.{m}.ports.count": 2 * memories[m].ports.count for m in MEMORIES}
    )


def with_quicker_answers(case: Case) -> Case:
    memories = case.design.board.memories
    return case.changed(
        {f"board.memories.{m}.interconnect_ns": memories[m].interconnect_ns / 2 for m in MEMORIES}
    )


def without_overheads(case: Case) -> Case:
    return case.changed({"machine.overheads": {}})


FASTER: dict[str, Change] = {
    "wider channels": with_wider_channels,
    "more ports": with_more_ports,
    "quicker answers": with_quicker_answers,
    "no overheads": without_overheads,
}


@given(cases(), st.sampled_from(sorted(FASTER)))
def test_faster_memory_is_never_slower(case: Case, what: str) -> None:
    assert FASTER[what](case).simulate().cycles <= case.simulate().cycles


# One design in other words takes the same time.


def renamed(case: Case) -> Case:
    """The memories have each other's names."""
    other_name = {"ddr": "second", "second": "ddr"}
    memories = case.design.board.memories
    swapped = {other_name[name]: memory.model_dump() for name, memory in memories.items()}
    placement = case.design.machine.placement.model_dump()
    places = {use: other_name[name] for use, name in placement.items()}
    return case.changed({"board.memories": swapped, "machine.placement": places})


def in_turn(case: Case) -> Case:
    """Each sequence has the decisions of the next one, each of two cores those of the other."""
    return with_rows(case, np.roll(rows_by_sequence(case), 1, axis=4))


def spelled_out(case: Case) -> Case:
    """Scales as bits per weight, time per layer as time per step, defaults as they come out."""
    overheads = case.design.machine.overheads
    body = case.design.model.body
    changes = {
        "model.weights": {"bits": 4, "group": 32, "scale_bits": 16},
        "model.body.head_size": body.hidden_size // body.n_heads,
        "model.body.window": body.window or case.video.max_context,
    }
    # Launches of a layer are saved with its MLP, those of a step are not.
    if not case.decided.any():
        layers_us = body.n_layers * overheads.layer_us
        changes["machine.overheads.step_us"] = overheads.step_us + layers_us
        changes["machine.overheads.layer_us"] = 0
    return case.changed(changes)


# Each change, and the fields of the cases that it is tried on.
SAME: dict[str, tuple[Change, dict[str, Any]]] = {
    "other names": (renamed, {}),
    "other sequences": (in_turn, {"machine.cores": 2, "policy.batch": 4}),
    "other spelling": (spelled_out, {"model.weights": {"bits": 4.5}}),
}


@pytest.mark.parametrize("what", SAME)
@given(data=st.data())
def test_the_same_said_otherwise_takes_the_same(what: str, data: st.DataObject) -> None:
    change, fields = SAME[what]
    case = replace(data.draw(cases(**fields)), schedule="static")
    one = case.simulate()
    other = change(case).simulate()
    assert one.cycles == other.cycles
    assert sorted(work(one)) == sorted(work(other))


def test_a_window_of_the_whole_video_is_none_where_only_some_layers_have_experts() -> None:
    body = {"experts": {**EXPERTS[1], "dense_layers": 1, "dense_ffn_size": 40}}
    late = {"decision_at": "q", "drs": {"instructions_per_sequence": 400}}
    replay = np.arange(8)[None, :, None, None] >= np.full((1, 1, 2, 4), 4)
    case = Case(small_design(body=body, **late), Video(2, 4, 1), schedule="drs", replay=replay)
    same = case.changed({"model.body.window": 9, "model.body.global_layers": (0,)})
    assert same.simulate().cycles == case.simulate().cycles


# Work depends on how many sequences compute, not on which.


@given(cases(**{"machine.drs.index_register_bits": 1 << 10}), st.integers(0, 99))
def test_work_does_not_depend_on_who_computes_but_on_how_many(case: Case, seed: int) -> None:
    """True of schedules that count. Time differs: a sequence on its own core sends nothing."""
    case = replace(case, schedule=("drs", "pack")[seed % 2])
    if case.replay is not None:
        other = replace(case, replay=np.random.default_rng(seed).permuted(case.decided, axis=3))
        assert work(case.simulate()) == work(other.simulate())


@cache
def deep(layers: int) -> Design:
    return override(small_design(), {"model.body.n_layers": layers})


# Constants of a calibration.


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


# Laws that do not hold.


def array_of(rows: int) -> dict[str, Any]:
    return {"rows": rows, "cols": 4, "dataflow": "output_stationary", "weight_load": "rows"}


@dataclass(frozen=True)
class Anomaly:
    """A machine that is slower with more of something; machines are fields of a small design."""

    less: dict[str, Any]
    more: dict[str, Any]
    cycles_with_less: int
    cycles_with_more: int


ANOMALIES = {
    "private": Anomaly(
        less={"batch": 6, "weight_sharing": "private", "cores": 2},
        more={"batch": 6, "weight_sharing": "private", "cores": 6},
        cycles_with_less=50_992,
        cycles_with_more=77_136,
    ),
    "a prompt that is split": Anomaly(
        less={"batch": 4, "mapping": "hybrid", "cores": 4},
        more={"batch": 4, "mapping": "hybrid", "cores": 6},
        cycles_with_less=21_632,
        cycles_with_more=22_716,
    ),
    "keys in another order": Anomaly(
        less={"batch": 4, "cores": 2},
        more={"batch": 4, "cores": 3},
        cycles_with_less=31_520,
        cycles_with_more=31_712,
    ),
    "longer to fill": Anomaly(
        less={"batch": 1, "cores": 1, "array": array_of(rows=32)},
        more={"batch": 1, "cores": 1, "array": array_of(rows=64)},
        cycles_with_less=38_846,
        cycles_with_more=67_518,
    ),
}


@pytest.mark.parametrize("what", ANOMALIES)
def test_more_of_it_may_be_slower(what: str) -> None:
    anomaly = ANOMALIES[what]
    video = Video(n_frames=1, tokens_per_frame=4, prompt_tokens=5)
    with_less = Case(small_design(**anomaly.less), video).simulate()
    with_more = Case(small_design(**anomaly.more), video).simulate()
    assert with_less.cycles == anomaly.cycles_with_less
    assert with_more.cycles == anomaly.cycles_with_more
    assert with_less.cycles < with_more.cycles
