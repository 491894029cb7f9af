"""What an idea saves on three machines, next to dense decoding and to simpler ideas.

All replays are of one share: the idea's. *FastCar* is its rule, captured on the same scenes at that
share. *Periodic* is a schedule of whole layers, *random* draws places. Neither has a score. An idea
that decides about attention by itself is compared with ways that skip as much of it.

A policy that moves older tokens to a second memory is priced on machines that have one: the largest
beside that of the cache.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from carsim.account.row import RowResult
from carsim.base.registry import field_name
from carsim.decisions.attention import AttentionPolicy
from carsim.decisions.attention.base import Bools
from carsim.decisions.replay import Periodic
from carsim.decisions.trace import Trace
from carsim.design import Design, load_design, override
from carsim.program.skips.by_decision import SkipByDecision
from carsim.runs.pipeline import run

MACHINES = ("zcu102", "u280", "asic_28nm")
TWO_MEMORIES = ("zcu102_16gb", "u280")
"""Machines with a second memory."""

BY_DECISION = {"policy.skip": {"kind": field_name(SkipByDecision)}, "machine.decision_at": "q"}
"""What a machine does where attention and MLP follow decisions of their own."""

SEED = 0
PERIODIC = "periodic replay"
"""Name of a schedule of whole layers."""


@dataclass(frozen=True)
class Price:
    """One way on one machine.

    Attributes:
        machine: Name of the design.
        way: Name of what decodes.
        seconds: Of a video.
        joules: Of a video.
        speedup: Over dense decoding.
        ratio: Replayed share of eligible steps.
        label: Where its decisions come from.
    """

    machine: str
    way: str
    seconds: float
    joules: float
    speedup: float
    ratio: float
    label: str


def prices_of_rule(idea: Trace, fastcar: Trace | None) -> list[Price]:
    """Prices of a trace and of decisions of the same share.

    Args:
        idea: Decisions of the idea.
        fastcar: Decisions of FastCar's rule on the same scenes, if there are scenes.
    """
    free = idea.meta.model_copy(update={"rule": Periodic()})
    like = Trace(idea.replay, idea.tas, free, further=idea.further)
    traces = {"idea": idea}
    if fastcar is not None:
        traces["FastCar"] = fastcar
    traces[PERIODIC] = _decided(idea, like, scheduled, "periodic, equal share")
    traces["random"] = _decided(idea, like, drawn, "random, equal share")
    return [price for machine in MACHINES for price in _on_machine(machine, traces)]


def _decided(idea: Trace, like: Trace, decide: Callable[[Bools, int], Bools], label: str) -> Trace:
    """A trace with other decisions than the idea's, for each of its decisions.

    Args:
        idea: The idea.
        like: Metadata of the trace.
        decide: Gives decisions bool[S, L, B] from those of the idea and a number of frames.
        label: Name of the trace.
    """
    trace = Trace.from_decisions(decide(idea.replay, idea.n_frames), like, label)
    for name, scored in idea.further.items():
        other = Trace.from_decisions(decide(scored.replay, idea.n_frames), like, label)
        trace = trace.with_decision(name, other)
    return trace


def prices_of_policy(policy: AttentionPolicy, idea: Trace) -> list[Price]:
    """Prices of an attention policy next to dense decoding."""
    prices = []
    for machine in TWO_MEMORIES if policy.uses_far_memory else MACHINES:
        design = load_design(machine)
        changes: dict[str, object] = {"policy.attention": policy.model_dump()}
        if policy.uses_far_memory:
            changes["machine.placement.kv_far"] = second_memory(design)
        design = override(design, changes)
        report = run(design, [idea], resample_seed=SEED, what_if=False, allow_misfit=True)
        dense = report.row("dense, static")
        for way, row in (("dense", dense), ("idea", _sparse_row(report.rows, policy))):
            seconds = row.seconds_per_video
            prices.append(
                Price(
                    machine=machine,
                    way=way,
                    seconds=seconds,
                    joules=row.energy_per_video.value_j,
                    speedup=dense.seconds_per_video / seconds,
                    ratio=row.replay_eligible,
                    label=row.batches.label,
                )
            )
    return prices


def second_memory(design: Design) -> str:
    """Name of the largest memory beside that of the KV cache."""
    near = design.machine.placement.kv
    others = {name: each for name, each in design.board.memories.items() if name != near}
    return max(others, key=lambda name: others[name].usable_bytes)


def scheduled(replay: Bools, n_frames: int) -> Bools:
    """Frames of layers in turn, as many as come nearest to the share that replays.

    Args:
        replay: bool[S, L, B].
        n_frames: T.
    """
    _, layers, rows = replay.shape
    wanted = replay.mean() * n_frames * layers
    slots = [(frame, layer) for frame in range(1, n_frames) for layer in range(1, layers)]
    # In turn: layers of one frame compute one after the other.
    slots.sort(key=lambda slot: ((slot[0] + slot[1]) % 2, slot))
    frames = np.zeros((n_frames, len(replay) // n_frames, layers, rows), np.bool_)
    for frame, layer in slots[: round(wanted)]:
        frames[frame, :, layer] = True
    return frames.reshape(replay.shape)


def drawn(replay: Bools, n_frames: int) -> Bools:
    """Decisions with as many replays in each frame, layer and row, at drawn places.

    Args:
        replay: bool[S, L, B].
        n_frames: T.
    """
    frames = replay.reshape(n_frames, -1, *replay.shape[1:])
    rng = np.random.default_rng(SEED)
    return rng.permuted(frames, axis=1).reshape(replay.shape)


def _on_machine(machine: str, traces: dict[str, Trace]) -> list[Price]:
    prices = []
    design = load_design(machine)
    if traces["idea"].further:
        design = override(design, BY_DECISION)
    for way, trace in traces.items():
        report = run(design, [trace], resample_seed=SEED, what_if=False, allow_misfit=True)
        dense = report.row("dense, static")
        rows = [("dense", dense)] if way == "idea" else []
        for name, row in (*rows, (way, report.chosen)):
            prices.append(
                Price(
                    machine=machine,
                    way=name,
                    seconds=row.seconds_per_video,
                    joules=row.energy_per_video.value_j,
                    speedup=dense.seconds_per_video / row.seconds_per_video,
                    ratio=row.replay_eligible,
                    label=row.batches.label,
                )
            )
    return prices


def _sparse_row(rows: tuple[RowResult, ...], policy: AttentionPolicy) -> RowResult:
    """The row of the policy without replay."""
    return next(row for row in rows if row.variant.attention == policy and not row.variant.replays)
