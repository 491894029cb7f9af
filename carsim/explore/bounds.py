"""Lower bounds of the objectives of a whole grid, from tables of its axes and without its designs.

A figure is the same wherever only axes differ on which it does not depend. So each part of it is
tabulated over the other axes, and broadcasting makes the grid of it: 16 values of cores and mapping
give the bytes of a million designs. The axes that a table leaves out are listed here; any other
path is taken to matter.

Model: a kind of phase takes the later of its compute cycles (nobody waits), its bytes over the
memory's rate, and what a buffer of m slots lets through: a tile comes a latency and its own
transfer after the tile whose slot it takes was computed on, so that tiles take an m-th of the sum
of these. MLPs are bounded by how many sequences compute, whatever the schedule: compute spread over
all cores, bytes as on one. Energy follows from the least time and work. What a design takes of its
board and replay ratios are exact.

Simplifications: dispatch, exchange before MLPs and filling of buffers take no time. A metric that
is not in :data:`TIMED` or exact has no bound, and neither has a refused design.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial, reduce
from sys import intern
from typing import Any

import numpy as np
from numpy.typing import NDArray

from carsim.base.groups import grouped
from carsim.base.units import GB
from carsim.cost.capacity import capacity
from carsim.cost.energy import energy
from carsim.cost.fit import FitRow, buffer_rows, memory_rows, resource_fit
from carsim.decisions.replay import ReplayRule
from carsim.explore.evaluate import Asked, Evaluator, at_once
from carsim.explore.expression import Expression
from carsim.explore.grid import Cell, Floats, GridStudy
from carsim.explore.pareto import directions
from carsim.explore.points import DECISION_PATHS as SOFT
from carsim.explore.unhindered import Unhindered, buffer_traffic, unhindered
from carsim.hardware.technology.base import Resources
from carsim.machine.batches import Batches
from carsim.machine.hardware import Columns, Hardware, structure_of
from carsim.machine.lanes import Ints, Step, lower
from carsim.machine.phase import Outcome, Phase
from carsim.machine.phase_ops import at_residual, felt_by_mlp, mlp_ops
from carsim.machine.plan import Plan
from carsim.machine.simulate import simulate_designs
from carsim.metrics import METRICS, PHASES, Setting
from carsim.metrics.table import RESOURCES
from carsim.workload.activity import Activity
from carsim.workload.mlp import replay_op
from carsim.workload.ops import Share

BUFFERS = ("machine.weight_buffer_kib", "machine.kv_buffer_kib", "machine.tile_kib")
NOT_DECIDED = ("machine", "board", "energy", "policy.schedule")
"""Paths on which decisions do not depend."""

NOT_WORKED = (
    *(*SOFT, *BUFFERS, "policy.schedule", "machine.drs", "energy"),
    *("board.fabric_clock_mhz", "board.memories."),
)
"""Paths on which compute cycles, bytes and operations do not depend."""

NOT_RATED = (
    *(*SOFT, *BUFFERS[:2], "policy.schedule", "machine.drs", "energy"),
    *("machine.array", "machine.vector", "machine.activation_buffer_kib"),
)
"""Paths on which the rates of clock and memories do not depend; a descriptor comes with a tile."""

NOT_PRICED = (*NOT_RATED[:-3], "board.fabric_clock_mhz", "machine.cores", "machine.mapping")
"""Paths on which the energy of an operation does not depend."""

NOT_FITTED = (*SOFT, "machine.mapping", "policy.batch", "policy.tokens_per_step")
"""Paths on which no technology's resources, idle power and prices depend, as its contract says."""

NOT_HELD = (*SOFT, "policy.schedule", "energy", "board.fabric_clock_mhz", "machine.vector")
"""Paths on which the contents of memories and buffers do not depend."""

LACKS = "lacks "
"""Begins the names of figures that are 1 where a part does not fit, and 0 or absent elsewhere."""

COSTLY = 10
"""The work of a design takes so many times as long as its other figures (2.5 ms, 0.25 ms)."""

MOST_ROWS = 1 << 18
"""Tokens of a step x cores of designs whose work is computed at once: some 200 MB."""

MARGIN = 1e-9
"""Relative; rounding of estimates stays far below."""

NOTHING: Floats = np.zeros(())
"""Start of sums of arrays that broadcast to each other."""

WORK = ("cycles", "macs", "vector_ops", "sram_bytes")
LAYERS = tuple(name for name in PHASES if name != "mlp")


def _decided(asked: Asked, evaluator: Evaluator) -> Cell:
    """Decisions: how many sequences compute."""
    design, video = asked.design, asked.video
    batches = evaluator.machines.batches(asked)
    tokens = design.policy.tokens_per_step
    ratios = batches.replay_ratio(video.tokens_per_frame // tokens)
    return {
        "computing": batches.computing_counts,
        "batches": batches.replay.shape[0],
        "videos": batches.videos_per_batch,
        "steps": video.n_steps // tokens,
        "tokens": tokens,
        "frames": video.n_frames,
        "replay_all": ratios[0],
        "replay_eligible": ratios[1],
    }


def _worked(asked: Sequence[Asked], evaluator: Evaluator) -> list[Cell]:
    """Work of all batches by kind of phase, [kinds, 4 + M]; MLPs by how many compute, [B + 1].

    Traffic through buffers likewise, [kinds or B + 1, 2, 2, 1 + M].
    """
    every = [(structure_of(a.design), a.design.machine.tile_kib, a.video, a.variant) for a in asked]
    decided = (evaluator.machines.batches(each) for each in asked)
    groups = grouped(zip(zip(every, decided, strict=True), range(len(asked)), strict=True))
    found: dict[int, Cell] = {}
    for (_, batches), numbers in groups.items():
        first = Hardware(asked[numbers[0]].design)
        of_mlps = first.rows * first.home_loads.size
        most = min(at_once(asked[numbers[0]]), max(1, MOST_ROWS // of_mlps))
        for some in (numbers[n : n + most] for n in range(0, len(numbers), most)):
            found |= zip(some, _worked_together([asked[n] for n in some], batches), strict=True)
    return [found[n] for n in range(len(asked))]


def _worked_together(asked: Sequence[Asked], batches: Batches) -> Iterator[Cell]:
    """Cells of D designs that can be simulated together."""
    hw, first = Columns.of([Hardware(each.design) for each in asked]), asked[0]
    plan = Plan.of(Unhindered(hw), first.video, first.variant, batches.rule)
    (runs,) = simulate_designs(plan, _none_replays(batches))
    every = len(WORK) + len(hw.paths)
    layers = np.zeros((len(asked), len(LAYERS), every + 4 * (1 + len(hw.paths))))
    for run, own in zip(runs, layers, strict=True):
        for place, name in enumerate(LAYERS):
            if total := run.totals.get(name):
                work = [getattr(total, figure) for figure in WORK]
                own[place] = [*work, *total.dram_bytes, *total.booked]
    kinds, rule = first.design.model.body.layers_by_mlp(), felt_by_mlp(hw, batches.rule)
    mlp = np.minimum.reduce([_mlp_work(hw, rule, each) for each in kinds])
    for cells in ({"layers": a, "mlp": b} for a, b in zip(layers, mlp, strict=True)):
        streams = {
            f"{name}_streams": found[:, every:].reshape(-1, 2, 2, 1 + len(hw.paths))
            for name, found in cells.items()
        }
        yield {**{name: found[:, :every] for name, found in cells.items()}, **streams}


@lru_cache(maxsize=16)
def _none_replays(batches: Batches) -> Batches:
    return replace(batches, replay=np.zeros_like(batches.replay))


def _mlp_work(hw: Hardware, rule: ReplayRule | None, dense: bool) -> Ints:
    """Least work of an MLP, dense or of experts, by how many compute, [D, B + 1, 8 + 5M]."""
    designs, n = len(hw.designs), hw.rows + 1
    hw, computing = hw.spread(np.repeat(np.arange(designs), n)), np.tile(np.arange(n), designs)
    split, model = hw.mapping.splits_mlp, hw.design.model
    spread = hw.even_loads(computing)
    together = np.zeros_like(spread)
    together[:, 0] = computing
    ops = mlp_ops(hw, dense=dense, normed=at_residual(rule), rule=rule)

    def of(steps: tuple[Step, ...]) -> Outcome:
        none = np.zeros_like(computing)
        phase = Phase(steps, hw.latencies, none, np.zeros((len(none), len(hw.paths)), np.int64))
        return unhindered(phase, exchanges=False)

    least, evenly = of(lower(hw, ops, together, split=split)), lower(hw, ops, spread, split=split)
    nbytes, cycles = least.dram_bytes.copy(), of(evenly).cycles
    replay = replay_op(model, Share(hw.rows - computing), damped=rule is not None and rule.damps)
    nbytes[:, hw.replay_path] += replay.replay_bytes
    figures = (cycles, least.macs, least.vector_ops, least.sram_bytes)
    found = np.column_stack([*figures, nbytes, buffer_traffic(hw, evenly, len(computing))])
    return found.reshape(designs, n, -1)


def _rated(asked: Asked, _: Evaluator) -> Cell:
    """Clock [Hz], rate and latency of each memory in cycles, a tile, and the host in a step."""
    hw = Hardware(asked.design)
    return {
        "hz": round(asked.design.board.fabric_clock_mhz * 1e6),
        "rates": [float(path.rate) for path in hw.paths],
        "latencies": hw.latencies,
        "tile": asked.design.machine.tile_bytes,
        "host": hw.host_cycles,
    }


def _fitted(
    wanted: Iterable[str],
    limits: Sequence[Expression],
    with_power: bool,
    asked: Asked,
    _: Evaluator,
) -> Cell:
    """Resources of the technology, with the metrics that follow, and watts of an idle board."""
    design = asked.design
    fit = resource_fit(design)
    figures: dict[str, Any] = {n: METRICS[n].of(None, Setting(design, fit)) for n in wanted}
    broken = [each.text for each in limits if not each.holds(figures.__getitem__)]
    figures |= _shares(fit.rows)
    figures |= {intern(LACKS + text): True for text in broken}
    if with_power:
        second = Activity(cycles=round(design.board.fabric_clock_mhz * 1e6))
        figures["watts"] = energy(design, second, fit.resources).board.value_j
    return figures


def _held(asked: Asked, _: Evaluator) -> Cell:
    """Contents of memories and buffers."""
    design, sources, video = asked.design, asked.sources, asked.video
    attention = design.policy.attention
    rule = sources.rule(attention) if asked.replays else None
    kv_held = sources.kv_held(attention, video)
    uses = capacity(design, video, rule, kv_held)
    rows = [*memory_rows(uses), *(row for _, row in buffer_rows(design, video))]
    used_gb, machine = sum(use.used_bytes for use in uses) / GB, design.machine
    buffers = (machine.weight_buffer_bytes, machine.kv_buffer_bytes)
    slots = [max(1, nbytes // machine.tile_bytes) for nbytes in buffers]
    return {**_shares(rows), "used": used_gb, "slots": slots}


def _shares(rows: Sequence[FitRow]) -> Cell:
    """The largest share of what there is, and parts that do not fit, which few designs have."""
    lacks = {intern(LACKS + row.what): True for row in rows if not row.ok}
    return {"share": max((row.share for row in rows), default=0.0), **lacks}


def _priced(asked: Asked, _: Evaluator) -> Cell:
    """Joules of a MAC, a vector operation, a byte on chip, and a byte of each memory."""
    design, none = asked.design, Resources({})
    units: list[dict[str, Any]] = [{figure: 1} for figure in WORK[1:]]
    units += [{"dram_bytes": {name: 1}} for name in sorted(design.board.memories)]
    return {"joules": [energy(design, Activity(**each), none).board.value_j for each in units]}


@dataclass(frozen=True)
class Bounds:
    """Least figures of a whole grid; arrays broadcast to its shape.

    Attributes:
        cycles: Cycles of all batches by kind of phase, and of the host.
        work: MACs, vector operations, bytes on chip, and bytes of each memory, [..., 3 + M], by
            kind of phase.
        parts: Tables by name.
    """

    cycles: Mapping[str, Floats]
    work: Mapping[str, Floats]
    parts: Mapping[str, Floats]

    def seconds(self, *left_out: str) -> Floats:
        """Seconds of all batches."""
        return sum(_without(self.cycles, left_out), NOTHING) / self.parts["hz"]

    def latency(self, *left_out: str) -> Floats:
        """Seconds of a batch."""
        return self.seconds(*left_out) / self.parts["batches"]

    def joules(self, *left_out: str) -> Floats:
        """Joules of all batches."""
        work = sum(_without(self.work, left_out), NOTHING)
        dynamic: Floats = (work * self.parts["joules"]).sum(axis=-1)
        return dynamic + self.parts["watts"] * self.seconds(*left_out)

    @property
    def stream_rate(self) -> Floats:
        """Most tokens per second of a stream."""
        parts = self.parts
        return parts["tokens"] * parts["steps"] / self.latency("prefill")


def _without(by_kind: Mapping[str, Floats], left_out: tuple[str, ...]) -> Iterator[Floats]:
    return (each for name, each in by_kind.items() if name not in left_out)


Bound = Callable[[Bounds], Floats]

TIMED: Mapping[str, Bound] = {
    "latency_s": Bounds.latency,
    "seconds_per_video": lambda b: b.latency() / b.parts["videos"],
    "ms_per_token": lambda b: 1e3 * b.latency("prefill") / b.parts["steps"],
    "body_latency_s": lambda b: b.latency("head"),
    "energy_per_video_j": lambda b: b.joules() / b.parts["videos"] / b.parts["batches"],
    "energy_per_token_j": lambda b: (
        b.joules("prefill")
        / (b.parts["videos"] * b.parts["batches"] * b.parts["steps"] * b.parts["tokens"])
    ),
    "stream_tokens_per_s": lambda b: b.stream_rate,
    "tokens_per_s": lambda b: b.stream_rate * b.parts["videos"],
    "frames_per_s": lambda b: b.parts["frames"] * b.parts["videos"] / b.latency(),
}
"""Metric -> no design has a better one."""

DECIDED = ("replay_all", "replay_eligible")


def unbounded(objectives: Mapping[str, int]) -> list[str]:
    """Those of some objectives, each with its sign, of which no bound is known."""
    timed = {n for n, sign in objectives.items() if n in TIMED and sign == directions([n])[n]}
    known = timed.union(_of_board(objectives), DECIDED, ("memory_used_gb", "fill"))
    return [name for name in objectives if name not in known]


def _of_board(names: Iterable[str]) -> tuple[str, ...]:
    """Those of some metrics that the fit of a design gives."""
    ends = ("area_low_mm2", "area_high_mm2", "cost_usd", "cost_low_usd", "cost_high_usd")
    known = (*RESOURCES, *ends, "macs_per_cycle", "clock_ratio")
    return tuple(name for name in names if name in known)


def bounds_of(grid: GridStudy) -> tuple[Floats, dict[str, NDArray[np.bool_]]]:
    """Bounds of the objectives of every point, of which less is better, and what points lack.

    Returns:
        float[points, objectives], -inf where there is no bound; and by each part of which there may
        be too little, and each constraint on such figures that may be broken, bool[points].
    """
    grid.expect(NOT_FITTED, NOT_HELD, NOT_DECIDED)
    signs = directions(grid.study.objectives)
    limits = [e for e in grid.study.constraints if len(_of_board(e.names)) == len(e.names)]
    wanted = _of_board(signs)
    figures = {*wanted}.union(*(each.names for each in limits))
    timed = (signs.keys() & TIMED.keys()).difference(unbounded(signs))
    with_power = any(name.startswith("energy") for name in timed)
    if timed:
        grid.expect(NOT_WORKED, cost=COSTLY)
        grid.expect(NOT_RATED, *([NOT_PRICED] if with_power else []))
    fitted = grid.table(NOT_FITTED, partial(_fitted, figures, limits, with_power))
    held = grid.table(NOT_HELD, _held)
    exact = {name: fitted[name] for name in wanted} | {"memory_used_gb": held["used"]}
    exact["fill"] = np.maximum(fitted["share"], held["share"])
    decided = grid.table(NOT_DECIDED, _decided)
    exact |= {name: decided[name] for name in DECIDED}
    found = _timed(grid, decided, fitted, held["slots"], with_power) if timed else None
    columns = np.full((np.prod(grid.shape), len(signs)), -np.inf)
    for column, (name, sign) in zip(columns.T, signs.items(), strict=True):
        if name in exact:
            values = sign * exact[name]
        elif found is not None and name in timed:
            values = sign * TIMED[name](found)
            values = values - MARGIN * abs(values)
        else:
            continue
        column[:] = np.broadcast_to(values, grid.shape).ravel()
    columns[np.isnan(columns)] = -np.inf
    lacks = {n.removeprefix(LACKS): e == 1 for n, e in (fitted | held).items() if LACKS in n}
    return columns, {n: np.broadcast_to(e, grid.shape).ravel() for n, e in lacks.items()}


def _timed(
    grid: GridStudy,
    decided: Mapping[str, Floats],
    fitted: Mapping[str, Floats],
    slots: Floats,
    with_power: bool,
) -> Bounds:
    """Least cycles and work of every point."""
    worked = grid.table(NOT_WORKED, _worked, COSTLY, together=True)
    rated = grid.table(NOT_RATED, _rated)
    rates = np.where(rated["rates"] == 0, np.inf, rated["rates"])  # no such memory
    delays = rated["latencies"] / rated["tile"][..., None]

    def later(name: str, n: int) -> Floats:
        """Cycles of the nth work of a table."""
        work, streams = worked[name][..., n, :], worked[f"{name}_streams"][..., n, :, :, :]
        served = [work[..., len(WORK) + m] / rates[..., m] for m in range(rates.shape[-1])]
        for at in range(2):
            transfers = streams[..., at, 0, 1:] / rates + streams[..., at, 1, 1:] * delays
            through = streams[..., at, 0, 0] + transfers.sum(axis=-1)
            served.append(through / slots[..., at])
        return reduce(np.maximum, served, work[..., 0])

    cycles = {name: later("layers", i) for i, name in enumerate(LAYERS)}
    work = {name: worked["layers"][..., i, 1:] for i, name in enumerate(LAYERS)}
    computing, mlp = decided["computing"], worked["mlp"]
    counts = range(min(mlp.shape[-2], computing.shape[-1]))
    cycles["mlp"] = sum((computing[..., n] * later("mlp", n) for n in counts), NOTHING)
    work["mlp"] = sum((computing[..., n, None] * mlp[..., n, 1:] for n in counts), NOTHING)
    cycles["host"] = rated["host"] * decided["steps"] * decided["batches"]
    parts = {**decided, **rated}
    if with_power:
        parts |= {"watts": fitted["watts"], **grid.table(NOT_PRICED, _priced)}
    return Bounds(cycles, work, parts)
