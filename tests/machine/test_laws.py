"""Laws between two runs that differ in one known way, on drawn designs; and laws that do not hold.

:data:`ANOMALIES` has an example of each law that one may expect and that does not hold.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import Case, cases, raw_design

from carsim.design import build_design
from carsim.machine.simulate import Simulation
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


def with_frame(case: Case) -> Case:
    return replace(case, video=replace(case.video, n_frames=case.video.n_frames + 1))


def with_prompt(case: Case) -> Case:
    return replace(case, video=replace(case.video, prompt_tokens=case.video.prompt_tokens + 1))


def with_twice_the_batch(case: Case) -> Case:
    """Rows are the first tokens of all sequences, then the second ones."""
    policy, shape = case.design.policy, case.decided.shape[:3]
    rows = case.decided.reshape(*shape, policy.tokens_per_step, policy.batch)
    replay = None if case.replay is None else np.concatenate([rows, rows], 4).reshape(*shape, -1)
    return replace(case.changed({"policy.batch": 2 * policy.batch}), replay=replay)


NEVER_LESS_WORK: dict[str, Change] = {
    "bits of weights": more("weights.bits", 0.5),
    "bits of keys and values": more("kv.bits", 0.5),
    "bits of cached outputs": more("replay.bits", 0.5),
    "prompt": with_prompt,
    "layers": longer(2, lambda _: 1, more("body.n_layers", 1)),
    "frames": longer(
        1, lambda c: c.video.tokens_per_frame // c.design.policy.tokens_per_step, with_frame
    ),
    "batch": with_twice_the_batch,
}


def work(run: Simulation) -> list[int]:
    """Everything that is moved or calculated."""
    totals = run.totals.values()
    moved = np.sum([total.dram_bytes for total in totals], axis=0).tolist()
    return [*moved, *(sum(getattr(t, of) for t in totals) for of in ("macs", "vector_ops"))]


@given(cases(), st.sampled_from(sorted(NEVER_LESS_WORK)))
def test_more_of_it_is_never_less_work(case: Case, what: str) -> None:
    less, greater = case.simulate(), NEVER_LESS_WORK[what](case).simulate()
    assert all(a <= b for a, b in zip(work(less), work(greater), strict=True))
    if what in ("layers", "frames"):
        assert less.cycles < greater.cycles


def of_memories(field: str, value: Callable[[Any], Any]) -> Change:
    return lambda case: case.changed(
        {f"board.memories.{m}.{field}": value(case.design.board.memories[m]) for m in MEMORIES}
    )


FASTER: dict[str, Change] = {
    "wider channels": of_memories("channel_bits", lambda memory: 2 * memory.channel_bits),
    "more ports": of_memories("ports.count", lambda memory: 2 * memory.ports.count),
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


@given(cases(**{"machine.drs.index_register_bits": 1 << 10}), st.integers(0, 99))
def test_work_does_not_depend_on_who_computes_but_on_how_many(case: Case, seed: int) -> None:
    """Under schedules that count. Time does: a sequence that keeps its core sends nothing."""
    case = replace(case, schedule=("drs", "pack")[seed % 2])
    if case.replay is not None:
        other = replace(case, replay=np.random.default_rng(seed).permuted(case.decided, axis=3))
        assert work(case.simulate()) == work(other.simulate())


SMALL, LARGE = (
    {"rows": rows, "cols": 4, "dataflow": "output_stationary", "weight_load": "rows"}
    for rows in (32, 64)
)
ANOMALIES: dict[str, tuple[int, dict[str, Any], dict[str, Any], int, int]] = {
    # What is larger -> batch; machine before and after; cycles of both.
    "cores that fetch weights for themselves": (
        6,
        {"cores": 2, "weight_sharing": "private"},
        {"cores": 6, "weight_sharing": "private"},
        51_016,
        77_536,
    ),
    "cores over which a prompt is split": (
        4,
        {"cores": 4, "mapping": "hybrid"},
        {"cores": 6, "mapping": "hybrid"},
        21_944,
        23_028,
    ),
    "cores that get their keys in another order": (4, {"cores": 2}, {"cores": 3}, 31_520, 31_712),
    "array that takes longer to fill": (
        1,
        {"cores": 1, "array": SMALL},
        {"cores": 1, "array": LARGE},
        38_846,
        67_518,
    ),
}


@pytest.mark.parametrize("what", ANOMALIES)
def test_more_of_it_may_be_slower(what: str) -> None:
    batch, *machines, before, after = ANOMALIES[what]
    found = []
    for machine in machines:
        raw = raw_design(**machine)
        raw["policy"]["batch"] = batch
        found.append(Case(build_design(raw, "small"), Video(1, 4, 5)).simulate().cycles)
    assert found == [before, after]
    assert before < after
