"""Tables from which the bounds of a grid are made: what designs decide, work, cost and lack.

Each function makes the cells of one table (:class:`~carsim.explore.grid.Cell`), from a design or
from several together. A figure is the same wherever only axes differ on which it does not depend:
16 values of cores and mapping give the bytes of a million designs. The paths that a table leaves
out are listed here; any other path is taken to matter. :mod:`carsim.explore.bounds` puts the tables
together.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from math import nan
from typing import Any, NamedTuple

import numpy as np

from carsim.account.simulation import simulate_policy_on_designs
from carsim.account.variants import Variant
from carsim.base.groups import grouped
from carsim.base.units import GB
from carsim.cost.capacity import capacity
from carsim.cost.energy import energy
from carsim.cost.fit import FitRow, buffer_rows, memory_rows, resource_fit
from carsim.design import Design
from carsim.explore.evaluate import Asked, Evaluator, at_once
from carsim.explore.expression import Expression
from carsim.explore.grid import Cell, Floats
from carsim.explore.points import DECISION_PATHS
from carsim.explore.unhindered import Unhindered, buffer_traffic, unhindered
from carsim.hardware.technology.base import Resources
from carsim.machine.arrays import MachineArrays
from carsim.machine.batches import Batches
from carsim.machine.hardware import Hardware, structure_of
from carsim.machine.lanes import Ints, LaneOp, lower, operations_of, splits
from carsim.machine.phase import Outcome, Phase
from carsim.machine.phases import Phases
from carsim.machine.plan import Plan
from carsim.metrics import METRICS, PHASES, Setting
from carsim.metrics.table import expected_scale, frames_of
from carsim.program.block import Block
from carsim.program.program import TOKEN
from carsim.program.reads import Reads
from carsim.workload.activity import Activity
from carsim.workload.geometry import Video
from carsim.workload.ops import Share

NOT_DECIDED = ("machine", "board", "energy", "policy.schedule", "policy.skip")
"""Paths on which decisions do not depend."""

NOT_WORKED = (
    *DECISION_PATHS,
    "machine.weight_buffer_kib",
    "machine.kv_buffer_kib",
    "machine.tile_kib",
    "policy.schedule",
    "machine.drs",
    "energy",
    "board.fabric_clock_mhz",
    "board.memories.",
)
"""Paths on which compute cycles, bytes and operations of a decoder do not depend."""

NOT_WORKED_OF_FORWARDS = (
    "machine.kv_buffer_kib",
    "machine.tile_kib",
    "energy",
    "board.fabric_clock_mhz",
    "board.memories.",
)
"""Paths on which they do not depend where all tokens pass a network together.

The weight buffer decides how often activations move, and decisions how tokens are dealt.
"""

NOT_RATED_OR_PRICED = (
    *DECISION_PATHS,
    "machine.weight_buffer_kib",
    "machine.kv_buffer_kib",
    "policy.schedule",
    "machine.drs",
    "energy",
)

NOT_RATED = (
    *NOT_RATED_OR_PRICED,
    "machine.array",
    "machine.vector",
    "machine.activation_buffer_kib",
)
"""Paths on which the rates of clock and memories do not depend; a descriptor comes with a tile."""

NOT_PRICED = (
    *NOT_RATED_OR_PRICED,
    "board.fabric_clock_mhz",
    "machine.cores",
    "machine.mapping",
)
"""Paths on which the energy of an operation does not depend."""

NOT_FITTED = (*DECISION_PATHS, "machine.mapping", "policy.batch", "policy.tokens_per_step")
"""Paths on which no technology's resources, idle power and prices depend, as its contract says."""

NOT_HELD = (
    *DECISION_PATHS,
    "policy.schedule",
    "energy",
    "board.fabric_clock_mhz",
    "machine.vector",
)
"""Paths on which the contents of memories and buffers do not depend."""

COSTLY = 10
"""The work of a design takes so many times as long as its other figures (2.5 ms, 0.25 ms)."""

MOST_ROWS = 1 << 18
"""Tokens of a step x cores of designs whose work is computed at once: some 200 MB."""

WORK = ("cycles", "macs", "vector_ops", "sram_bytes")
"""Work of a phase, before its bytes of each memory."""

LAYERS = tuple(PHASES)
"""Kinds of phases, in the order of a video."""

SKIPPABLE = ("mlp", "output", "attention", "qkv")
"""Kinds of phases that rows may skip, in the order of tables, which end with the last that is."""

ENDS = ("value", "low", "high")
"""Ends of an interval, in the order of tables."""


def decided(point: Asked, evaluator: Evaluator) -> Cell:
    """Decisions: layer-steps in which 0 to B rows compute, and the sum of their contexts."""
    design = point.design
    video = point.video
    batches = evaluator.machines.batches(point)
    tokens = design.policy.tokens_per_step
    n_steps = video.n_steps // tokens
    replay_all, replay_eligible = batches.replay_ratio(video.tokens_per_frame // tokens)
    contexts = video.prompt_tokens + tokens * (1 + np.arange(n_steps))
    return Cell(
        {
            "computing": batches.computing_counts,
            "contexts": contexts @ batches.computing_by_step,
            "batches": batches.replay.shape[0],
            "videos": batches.videos_per_batch,
            "steps": n_steps,
            "tokens": tokens,
            "frames": frames_of(design.model, video),
            "replay_all": replay_all,
            "replay_eligible": replay_eligible,
        }
    )


class _Shared(NamedTuple):
    """Facts that designs share whose work is computed at once."""

    structure: str
    tile_kib: float
    video: Video
    variant: Variant
    batches: Batches


def worked(points: Sequence[Asked], evaluator: Evaluator) -> list[Cell]:
    """Work of all batches by kind of phase, and of single phases that rows skip.

    Figures, where work is cycles, MACs, vector operations, bytes on chip, and bytes of each of M
    memories, and streams are traffic through buffers (:func:`~.unhindered.buffer_traffic`):

    * ``layers_work``, [kinds, 4 + M], ``layers_streams``, [kinds, 2, 2, 1 + M]: of phases that all
      rows compute;
    * ``skipped_work``, [kinds of SKIPPABLE, B + 1, 4 + M], ``skipped_streams``: of one phase in
      which 0 to B rows compute;
    * ``context_work``, ``context_streams``, of the same shapes or empty: what each token of the
      context adds to one phase.
    """
    numbers_of = grouped(
        (
            _Shared(
                structure=structure_of(point.design),
                tile_kib=point.design.machine.tile_kib,
                video=point.video,
                variant=point.variant,
                batches=evaluator.machines.batches(point),
            ),
            number,
        )
        for number, point in enumerate(points)
    )
    cells: dict[int, Cell] = {}
    for shared, numbers in numbers_of.items():
        first = points[numbers[0]]
        machine = MachineArrays.of([Hardware(first.design)])
        rows_of_phases = machine.rows * len(machine.core_names)
        most = min(at_once(first), max(1, MOST_ROWS // rows_of_phases))
        for start in range(0, len(numbers), most):
            chunk = numbers[start : start + most]
            worked_chunk = _worked_together([points[number] for number in chunk], shared.batches)
            cells.update(zip(chunk, worked_chunk, strict=True))
    return [cells[number] for number in range(len(points))]


def _worked_together(points: Sequence[Asked], batches: Batches) -> Iterator[Cell]:
    """Cells of D designs that can be simulated together."""
    machine = MachineArrays.of([Hardware(point.design) for point in points])
    first = points[0]
    plan = Plan.of_video(
        Unhindered(machine),
        first.video,
        attention=first.variant.attention,
        schedule=first.variant.schedule,
        rule=batches.rule,
        further_rules=batches.further_rules,
        reuse=None if batches.tokens is None else batches.tokens.reuse,
    )
    program = plan.program(decided=batches.rule is not None)
    if machine.model.network is None:
        skipped = {block.name for block in program.skipped}
        layers = _work_of_layers(plan, _none_replays(batches), skipped)
    else:  # who computes decides how tokens are dealt: all phases are as the decisions are
        skipped = set()
        layers = _work_of_layers(plan, batches, skipped)
    kinds = [name for n, name in enumerate(SKIPPABLE) if not skipped.isdisjoint(SKIPPABLE[n:])]
    single_phases = np.zeros((len(points), len(kinds), machine.rows + 1, layers.shape[-1]))
    by_context = np.zeros_like(single_phases)
    blocks_of = grouped((block.name, block) for block in program.blocks)
    for name in skipped:
        # Layers may differ in this block, and some may not skip it: the least of all is a bound.
        lines = [_skipped_work(plan, block) for block in blocks_of[name]]
        kind = kinds.index(name)
        single_phases[:, kind] = np.minimum.reduce([line.at_zero for line in lines])
        by_context[:, kind] = np.minimum.reduce([line.slope for line in lines])
    if not by_context.any():
        by_context = by_context[:, :0]
    n_memories = len(machine.memories)
    for design in range(len(points)):
        yield Cell(
            {
                "layers_work": _work(layers[design], n_memories),
                "layers_streams": _streams(layers[design], n_memories),
                "skipped_work": _work(single_phases[design], n_memories),
                "skipped_streams": _streams(single_phases[design], n_memories),
                "context_work": _work(by_context[design], n_memories),
                "context_streams": _streams(by_context[design], n_memories),
            }
        )


def _work(figures: Floats, n_memories: int) -> Floats:
    """Work among the figures of phases, [..., 8 + 5M] to [..., 4 + M]."""
    return figures[..., : len(WORK) + n_memories]


def _streams(figures: Floats, n_memories: int) -> Floats:
    """Traffic through buffers among the figures of phases, [..., 8 + 5M] to [..., 2, 2, 1 + M]."""
    streams = figures[..., len(WORK) + n_memories :]
    return streams.reshape(*figures.shape[:-1], 2, 2, 1 + n_memories)


def _work_of_layers(plan: Plan, batches: Batches, skipped: set[str]) -> Floats:
    """Work of all phases of each kind that no row skips, [D, kinds, 8 + 5M]."""
    machine = plan.machine
    (runs,) = simulate_policy_on_designs(plan, batches)
    n_figures = len(WORK) + len(machine.memories) + 4 * (1 + len(machine.memories))
    layers = np.zeros((machine.n_designs, len(LAYERS), n_figures))
    for run, layers_of_design in zip(runs, layers, strict=True):
        for kind, name in enumerate(LAYERS):
            total = run.totals.get(name)
            if total is not None and name not in skipped:
                work = [getattr(total, figure) for figure in WORK]
                layers_of_design[kind] = [*work, *total.dram_bytes, *total.buffer_traffic]
    return layers


@lru_cache(maxsize=16)
def _none_replays(batches: Batches) -> Batches:
    return replace(batches, replay=np.zeros_like(batches.replay))


class _Line(NamedTuple):
    """Figures of a phase are at least the first array plus the context times the second.

    Attributes:
        at_zero: By how many rows do not replay, [D, B + 1, 8 + 5M].
        slope: What each token of the context adds, [D, B + 1, 8 + 5M].
    """

    at_zero: Floats
    slope: Floats


def _skipped_work(plan: Plan, block: Block) -> _Line:
    """Least work of a block. All rows compute a block that follows no decision.

    Of a block that follows a further decision, it is the least work of any number of rows, as rows
    are counted by the decision of the trace.
    """
    line = _work_by_rows(plan, block)
    if block.follows in (None, TOKEN):
        return line
    return _Line(
        at_zero=np.broadcast_to(line.at_zero.min(axis=1, keepdims=True), line.at_zero.shape),
        slope=np.broadcast_to(line.slope.min(axis=1, keepdims=True), line.slope.shape),
    )


def _work_by_rows(plan: Plan, block: Block) -> _Line:
    """Least work of a block, by how many rows do not replay."""
    machine = plan.machine
    if not block.reads_tokens:
        work = _work_of_phases(machine, block, _computing(machine, block), None)
        return _Line(at_zero=work, slope=np.zeros_like(work))
    lines = [
        _line_below(plan, block, MachineArrays.of([hardware])) for hardware in machine.hardwares
    ]
    return _Line(
        at_zero=np.concatenate([line.at_zero for line in lines]),
        slope=np.concatenate([line.slope for line in lines]),
    )


def _computing(machine: MachineArrays, block: Block) -> Ints:
    """Rows that compute a block where 0, 1, ..., B rows do not replay, int64[B + 1]."""
    not_replaying = np.arange(machine.rows + 1)
    return not_replaying if block.follows is not None else np.full_like(not_replaying, machine.rows)


def _line_below(plan: Plan, block: Block, machine: MachineArrays) -> _Line:
    """The line that no work of one design, in any step of a plan, is below.

    The slope is that between the first and the last context. Work rises with the tokens that are
    read but for whole tiles and bytes, so that the line is hardly below it.
    """
    contexts, first_steps = np.unique(plan.contexts, return_index=True)
    reads = block.reads(plan.steps_at(first_steps))
    assert reads is not None
    rows = _computing(machine, block)
    computing = np.repeat(rows, len(contexts))
    step = np.tile(np.arange(len(contexts)), len(rows))
    work = _work_of_phases(machine, block, computing, reads.take(step))
    work = work.reshape(len(rows), len(contexts), -1)
    context_range = contexts[-1] - contexts[0]
    slope = (work[:, -1] - work[:, 0]) / max(1, context_range)
    at_zero = (work - slope[:, None] * contexts[:, None]).min(axis=1)
    return _Line(at_zero=at_zero[None], slope=slope[None])


def _work_of_phases(
    machine: MachineArrays, block: Block, computing: Ints, reads: Reads | None
) -> Floats:
    """Least work of n phases of a block on each design, [D, n, 8 + 5M].

    Compute is spread over all cores, bytes are those of one core.

    Args:
        machine: The numbers of D designs.
        block: The block.
        computing: Rows that compute, [n].
        reads: Tokens that each phase reads, if the block reads any.
    """
    designs = machine.n_designs
    n_rows = machine.rows
    machine, case = machine.for_cases_on_each_design(len(computing))
    computing = computing[case]
    split = splits(machine, block)
    ops = operations_of(machine, block, None if reads is None else reads.take(case))
    evenly = machine.even_loads(computing)
    on_one_core = np.zeros_like(evenly)
    on_one_core[:, 0] = computing

    def outcome_of(steps: tuple[LaneOp, ...]) -> Outcome:
        """The outcome of steps in which no core waits."""
        no_cycles = np.zeros_like(computing)
        no_bytes = np.zeros((len(computing), len(machine.memories)), np.int64)
        phase = Phase(steps, machine.latencies, no_cycles, no_bytes)
        return unhindered(phase, exchanges=False)

    least = outcome_of(lower(machine, ops, on_one_core, split=split))
    steps = lower(machine, ops, evenly, split=split)
    dram_bytes = least.dram_bytes.copy()
    if block.holds:
        replaying = Share(n_rows - computing, tokens=block.tokens)
        dram_bytes[:, machine.replay_path] += block.replay(machine.model, replaying).replay_bytes
    work = [outcome_of(steps).cycles, least.macs, least.vector_ops, least.sram_bytes]
    traffic = buffer_traffic(machine, steps, len(computing))
    figures = np.column_stack([*work, dram_bytes, traffic]).astype(float)
    return figures.reshape(designs, -1, figures.shape[1])


def rated(point: Asked, _: Evaluator) -> Cell:
    """Clock [Hz], rate and latency of each memory in cycles, a tile, and cycles of the host.

    Cycles of the host are those of a step, and those of the launches that a layer saves where
    nobody computes the blocks that rows skip. ``scale_of_times`` and ``scale_of_rates`` are the
    factors between simulated and expected figures, one for each of :data:`ENDS`.
    """
    design = point.design
    machine = design.machine
    hardware = Hardware(design)
    expected = design.expected
    hertz: float = round(design.board.fabric_clock_mhz * 1e6)
    if machine.overheads.kernels or machine.core_gbps is not None:
        # Times of a table may be below those of products and bytes, and what a core takes in
        # depends on the clock, which tables of work do not know: such a design has no bound.
        hertz = nan
    return Cell(
        {
            "hz": hertz,
            "rates": [float(path.rate) for path in hardware.paths],
            "latencies": hardware.latencies,
            "tile": machine.tile_bytes,
            "host": hardware.host_cycles,
            "skipped_launch": Phases(hardware).skipped_launch_cycles[0],
            **_stated_cycles(design, hertz),
            "scale_of_times": [expected_scale(expected, "lower", end) for end in ENDS],
            "scale_of_rates": [expected_scale(expected, "higher", end) for end in ENDS],
        }
    )


def _stated_cycles(design: Design, hertz: float) -> dict[str, float]:
    """Cycles that a sample states of its text encoder and pixel decoder, less their rounding."""
    sample = design.model.sample
    if sample is None:
        return {"encoder": 0.0, "decoder": 0.0}
    return {
        "encoder": max(0.0, sample.encoder_s * hertz - 1),
        "decoder": max(0.0, sample.chunks * (sample.decoder_s * hertz - 1)),
    }


def fitted(
    metrics: Iterable[str],
    limits: Sequence[Expression],
    with_power: bool,
    point: Asked,
    _: Evaluator,
) -> Cell:
    """Resources of the technology, with the metrics that follow, and watts of an idle board."""
    design = point.design
    fit = resource_fit(design)
    setting = Setting(design, fit)
    figures: dict[str, Any] = {name: METRICS[name].of(None, setting) for name in metrics}
    broken = [limit.text for limit in limits if not limit.holds(figures.__getitem__)]
    figures["share"] = _largest_share(fit.rows)
    if with_power:
        second = Activity(cycles=round(design.board.fabric_clock_mhz * 1e6))
        figures["watts"] = energy(design, second, fit.resources).board.value_j
    return Cell(figures, missing=(*_too_small(fit.rows), *broken))


def held(point: Asked, _: Evaluator) -> Cell:
    """Contents of memories and buffers."""
    design = point.design
    machine = design.machine
    video = point.video
    attention = design.policy.attention
    rule = point.sources.rule(attention) if point.replays else None
    kv_held = point.sources.kv_held(attention, video)
    uses = capacity(
        design,
        video,
        rule,
        kv_held,
        reuse=point.sources.reuse,
    )
    rows = [*memory_rows(uses), *(row for _, row in buffer_rows(design, video))]
    buffers = (machine.weight_buffer_bytes, machine.kv_buffer_bytes)
    figures = {
        "share": _largest_share(rows),
        "used": sum(use.used_bytes for use in uses) / GB,
        "slots": [max(1, nbytes // machine.tile_bytes) for nbytes in buffers],
    }
    return Cell(figures, missing=_too_small(rows))


def _largest_share(rows: Sequence[FitRow]) -> float:
    """The largest share of what there is."""
    return max((row.share for row in rows), default=0.0)


def _too_small(rows: Sequence[FitRow]) -> tuple[str, ...]:
    """Parts of which there is too little."""
    return tuple(row.what for row in rows if not row.ok)


def priced(point: Asked, _: Evaluator) -> Cell:
    """Joules of a MAC, a vector operation, a byte on chip, and a byte of each memory."""
    design = point.design
    no_resources = Resources({})
    activities = [Activity(macs=1), Activity(vector_ops=1), Activity(sram_bytes=1)]
    activities += [Activity(dram_bytes={name: 1}) for name in sorted(design.board.memories)]
    joules = [energy(design, activity, no_resources).board.value_j for activity in activities]
    return Cell({"joules": joules})
