"""Lower bounds of the objectives of a whole grid, from tables of its axes and without its designs.

Each part of a figure is tabulated over the axes on which it depends
(:mod:`carsim.explore.bound_tables`), and broadcasting makes the grid of it.

Model: a kind of phase takes the later of its compute cycles (nobody waits), its bytes over the
memory's rate, and what a buffer of m slots lets through: a tile comes a latency and its own
transfer after the tile whose slot it takes was computed on, so that tiles take an m-th of the sum
of these. Blocks that rows skip are bounded by how many rows compute, whatever the schedule: compute
spread over all cores, bytes as on one. Where such a block reads a cache, the bound of a phase is a
line over the context, and counts of layer-steps and sums of their contexts are enough. Where all
tokens pass a network together, the work of each kind of phase is that of the decisions themselves,
as they decide how tokens are dealt to cores. Energy follows from the least time and work. What a
design takes of its board and replay ratios are exact.

Mean power is the idle power plus the energy of the work over the time. Nothing here limits how long
a design may take, so that the bound of mean power is the idle power alone.

Simplifications: dispatch, exchange before MLPs and filling of buffers take no time. The first step
after a prompt takes no time in the bound of the time to the first token. A metric that is not in
:data:`TIMED` or exact has no bound, and neither has a refused design.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial, reduce
from typing import NamedTuple

import numpy as np

from carsim.base.units import GB
from carsim.explore.bound_tables import (
    COSTLY,
    LAYERS,
    NOT_DECIDED,
    NOT_FITTED,
    NOT_HELD,
    NOT_PRICED,
    NOT_RATED,
    NOT_WORKED,
    NOT_WORKED_OF_FORWARDS,
    SKIPPABLE,
    WORK,
    decided,
    fitted,
    held,
    priced,
    rated,
    worked,
)
from carsim.explore.grid import Booleans, Floats, GridStudy
from carsim.explore.pareto import directions
from carsim.metrics import INTERVALS, METRICS
from carsim.metrics.table import EXPECTED, OF_DECODING, RESOURCES

MARGIN = 1e-9
"""Relative; rounding of estimates stays far below."""

NOTHING: Floats = np.zeros(())
"""Start of sums of arrays that broadcast to each other."""


@dataclass(frozen=True)
class Bounds:
    """Least figures of a whole grid; arrays broadcast to its shape.

    Attributes:
        cycles: Cycles of all batches by kind of phase, and of the host.
        work: MACs, vector operations, bytes on chip, and bytes of each memory, [..., 3 + M], by
            kind of phase.
        decisions: Table of what designs decide.
        rates: Table of clocks, memories and the host.
        joules_of_one: Joules of one unit of the work, [..., 3 + M]; None where energy is not
            asked for.
        idle_watts: Watts of an idle board; None where energy is not asked for.
    """

    cycles: Mapping[str, Floats]
    work: Mapping[str, Floats]
    decisions: Mapping[str, Floats]
    rates: Mapping[str, Floats]
    joules_of_one: Floats | None
    idle_watts: Floats | None

    def seconds(self, *left_out: str) -> Floats:
        """Seconds of all batches."""
        return sum(_without(self.cycles, left_out), NOTHING) / self.rates["hz"]

    def latency(self, *left_out: str) -> Floats:
        """Seconds of a batch."""
        return self.seconds(*left_out) / self.decisions["batches"]

    def stated_share(self, *left_out: str) -> Floats:
        """Stated seconds of text encoder and pixel decoder, as a share of the least seconds."""
        cycles = self.rates["decoder"]
        if "prefill" not in left_out:
            cycles = cycles + self.rates["encoder"]
        stated_s = cycles / self.rates["hz"]
        share: Floats = stated_s / self.latency(*left_out)
        return share

    @property
    def videos_of_all(self) -> Floats:
        """Videos of all batches."""
        return self.videos * self.decisions["batches"]

    def joules(self, *left_out: str) -> Floats:
        """Joules of all batches."""
        return self.joules_above_idle(*left_out) + self.watts_when_idle() * self.seconds(*left_out)

    def joules_above_idle(self, *left_out: str) -> Floats:
        """Joules of all batches beyond those that an idle board draws."""
        assert self.joules_of_one is not None
        work = sum(_without(self.work, left_out), NOTHING)
        dynamic: Floats = (work * self.joules_of_one).sum(axis=-1)
        return dynamic

    def watts_when_idle(self) -> Floats:
        """Watts of an idle board."""
        assert self.idle_watts is not None
        return self.idle_watts

    def memory_bytes(self) -> Floats:
        """Bytes of all batches to and from all memories."""
        work = sum(self.work.values(), NOTHING)
        moved: Floats = work[..., len(WORK) - 1 :].sum(axis=-1)
        return moved

    def prompt_seconds(self) -> Floats:
        """Seconds of the prompt of a batch."""
        return self.cycles["prefill"] / self.rates["hz"] / self.decisions["batches"]

    @property
    def videos(self) -> Floats:
        """Videos of a batch."""
        return self.decisions["videos"]

    @property
    def stream_rate(self) -> Floats:
        """Most tokens per second of a stream."""
        tokens = self.decisions["tokens"] * self.decisions["steps"]
        return tokens / self.latency("prefill")


def _without(by_kind: Mapping[str, Floats], left_out: tuple[str, ...]) -> Iterator[Floats]:
    return (figures for name, figures in by_kind.items() if name not in left_out)


def _energy_per_token(bounds: Bounds) -> Floats:
    decisions = bounds.decisions
    tokens = bounds.videos * decisions["batches"] * decisions["steps"] * decisions["tokens"]
    return bounds.joules("prefill") / tokens


Bound = Callable[[Bounds], Floats]

SIMULATED: Mapping[str, Bound] = {
    "latency_s": Bounds.latency,
    "seconds_per_video": lambda b: b.latency() / b.videos,
    "ms_per_token": lambda b: 1e3 * b.latency("prefill") / b.decisions["steps"],
    "body_latency_s": lambda b: b.latency("head"),
    "first_token_s": Bounds.prompt_seconds,
    "prefill_s": Bounds.prompt_seconds,
    "energy_per_video_j": lambda b: b.joules() / b.videos_of_all,
    "energy_above_idle_per_video_j": lambda b: b.joules_above_idle() / b.videos_of_all,
    "average_power_w": Bounds.watts_when_idle,
    "memory_gb_per_video": lambda b: b.memory_bytes() / GB / b.videos_of_all,
    "energy_per_token_j": _energy_per_token,
    "stream_tokens_per_s": lambda b: b.stream_rate,
    "tokens_per_s": lambda b: b.stream_rate * b.videos,
    "frames_per_s": lambda b: b.decisions["frames"] * b.videos / b.latency(),
}
"""Simulated metric -> no design has a better one."""


OF_ENERGY = (
    "energy_per_video_j",
    "energy_per_token_j",
    "energy_above_idle_per_video_j",
    "average_power_w",
)
"""Metrics whose bounds need constants of energy and the idle power."""


def _expected_bounds() -> Iterator[tuple[str, Bound]]:
    """Bounds of expected times and rates: those of simulated ones, times each design's factor."""
    for name, simulated in EXPECTED.items():
        is_time = METRICS[simulated].better == "lower"
        scale = "scale_of_times" if is_time else "scale_of_rates"
        for end, metric in enumerate((name, *INTERVALS[name])):
            left_out = ("prefill",) if simulated in OF_DECODING else ()
            yield metric, partial(_scaled, SIMULATED[simulated], scale, end, left_out)


def _scaled(
    bound: Bound, scale: str, end: int, left_out: tuple[str, ...], bounds: Bounds
) -> Floats:
    """A bound times one of the three factors (:data:`~.bound_tables.ENDS`) of each design.

    The factor does not scale stated seconds.

    Args:
        bound: Bound of the simulated metric.
        scale: Table of the factors.
        end: Number of the factor.
        left_out: Kinds of phases that the metric leaves out.
        bounds: Least figures of the grid.
    """
    factor = bounds.rates[scale][..., end]
    stated = bounds.stated_share(*left_out)
    if scale == "scale_of_times":
        return bound(bounds) * (factor + (1 - factor) * stated)
    # The factor of a rate is the inverse of that of its time.
    return bound(bounds) * (factor / (1 + (factor - 1) * stated))


TIMED: Mapping[str, Bound] = {**SIMULATED, **dict(_expected_bounds())}
"""Metric -> no design has a better one."""

DECIDED = ("replay_all", "replay_eligible")


def unbounded(objectives: Mapping[str, int]) -> list[str]:
    """Objectives, of some with their signs, of which no bound is known."""
    timed = {
        name for name, sign in objectives.items() if name in TIMED and sign == _usual_sign(name)
    }
    bounded = timed.union(_of_board(objectives), DECIDED, ("memory_used_gb", "fill"))
    return [name for name in objectives if name not in bounded]


def _usual_sign(metric: str) -> int:
    """1 if less of a metric is better, else -1."""
    return directions([metric])[metric]


def _of_board(names: Iterable[str]) -> tuple[str, ...]:
    """Metrics, of some, that the fit of a design gives."""
    ends = ("area_low_mm2", "area_high_mm2", "cost_usd", "cost_low_usd", "cost_high_usd")
    of_fit = (*RESOURCES, *ends, "macs_per_cycle", "clock_ratio")
    return tuple(name for name in names if name in of_fit)


def is_of_board(names: Collection[str]) -> bool:
    """True if the fit of a design gives all of some metrics, exactly."""
    return len(_of_board(names)) == len(names)


class PointBounds(NamedTuple):
    """Bounds of the points of a flattened grid.

    Attributes:
        objectives: Least value of each objective, float[points, objectives]; the objective times -1
            where more is better; -inf where there is no bound.
        missing: By each part of which there may be too little, and each constraint on figures of
            the board that may be broken, bool[points].
    """

    objectives: Floats
    missing: dict[str, Booleans]


def bounds_of(grid: GridStudy) -> PointBounds:
    """Bounds of the objectives of every point, and what points lack."""
    grid.expect(NOT_FITTED, NOT_HELD, NOT_DECIDED)
    signs = directions(grid.study.objectives)
    limits = [limit for limit in grid.study.constraints if is_of_board(limit.names)]
    of_board = _of_board(signs)
    timed = (signs.keys() & TIMED.keys()).difference(unbounded(signs))
    with_power = not timed.isdisjoint(OF_ENERGY)
    if timed:
        grid.expect(_not_worked(grid), cost=COSTLY)
        grid.expect(NOT_RATED)
        if with_power:
            grid.expect(NOT_PRICED)
    metrics = set(of_board).union(*(limit.names for limit in limits))
    fit = grid.table(NOT_FITTED, partial(fitted, metrics, limits, with_power))
    contents = grid.table(NOT_HELD, held)
    decisions = grid.table(NOT_DECIDED, decided)
    exact = {name: fit.figures[name] for name in of_board}
    exact["memory_used_gb"] = contents.figures["used"]
    exact["fill"] = np.maximum(fit.figures["share"], contents.figures["share"])
    exact |= {name: decisions.figures[name] for name in DECIDED}
    least = None
    if timed:
        idle_watts = fit.figures["watts"] if with_power else None
        least = _timed(grid, decisions.figures, contents.figures["slots"], idle_watts)
    columns = np.full((np.prod(grid.shape), len(signs)), -np.inf)
    for column, (name, sign) in zip(columns.T, signs.items(), strict=True):
        if name in exact:
            values = sign * exact[name]
        elif least is not None and name in timed:
            values = sign * TIMED[name](least)
            values = values - MARGIN * abs(values)
        else:
            continue
        column[:] = np.broadcast_to(values, grid.shape).ravel()
    columns[np.isnan(columns)] = -np.inf
    missing = {
        lack: np.broadcast_to(is_missing, grid.shape).ravel()
        for lack, is_missing in (fit.missing | contents.missing).items()
    }
    return PointBounds(columns, missing)


def _not_worked(grid: GridStudy) -> tuple[str, ...]:
    """Paths on which the work of no design of a grid depends."""
    study = grid.study
    paths = {path for axis in study.axes for path in axis.paths}
    other_models = any(path in ("model", "model.preset", "model.from") for path in paths)
    has_network = any(design.model.network is not None for design in study.designs.values())
    return NOT_WORKED_OF_FORWARDS if has_network or other_models else NOT_WORKED


def _timed(
    grid: GridStudy,
    decisions: Mapping[str, Floats],
    slots: Floats,
    idle_watts: Floats | None,
) -> Bounds:
    """Least cycles and work of every point.

    Args:
        grid: The grid.
        decisions: Table of what designs decide.
        slots: Tiles that the weight buffer and the KV buffer hold, [..., 2].
        idle_watts: Watts of an idle board; None where energy is not asked for.
    """
    work_table = grid.table(_not_worked(grid), worked, COSTLY, together=True).figures
    rates = grid.table(NOT_RATED, rated).figures
    joules_of_one = None
    if idle_watts is not None:
        joules_of_one = grid.table(NOT_PRICED, priced).figures["joules"]
    memories = _Memories(
        rates=np.where(rates["rates"] == 0, np.inf, rates["rates"]),  # 0: no such memory
        latency_cycles_per_byte=rates["latencies"] / rates["tile"][..., None],
        slots=slots,
    )
    skipped_kinds = SKIPPABLE[: work_table["skipped_work"].shape[-3]]
    cycles: dict[str, Floats] = {}
    work: dict[str, Floats] = {}
    for kind, name in enumerate(LAYERS):
        layers = _Phases(
            work=work_table["layers_work"][..., kind, :],
            streams=work_table["layers_streams"][..., kind, :, :, :],
        )
        if kind > 0 and name not in skipped_kinds and not layers.work.any():
            continue  # a kind that no design has
        cycles[name] = _least_cycles(layers, memories)
        work[name] = layers.work[..., 1:]
    for kind, name in enumerate(skipped_kinds):
        for skipped in _skipped_phases(work_table, decisions, kind):
            of_one = _least_cycles(skipped.phases, memories)
            # A kind that rows skip in all designs has no phases of its own.
            cycles[name] = cycles.get(name, NOTHING) + skipped.times * of_one
            of_skipped = skipped.times[..., None] * skipped.phases.work[..., 1:]
            work[name] = work.get(name, NOTHING) + of_skipped
    host_cycles = rates["host"] * decisions["steps"] * decisions["batches"]
    nobody_computes = decisions["computing"][..., 0]
    cycles["host"] = host_cycles - rates["skipped_launch"] * nobody_computes
    cycles["prefill"] = cycles["prefill"] + rates["encoder"] * decisions["batches"]
    cycles["pixels"] = rates["decoder"] * decisions["batches"]
    return Bounds(
        cycles=cycles,
        work=work,
        decisions=decisions,
        rates=rates,
        joules_of_one=joules_of_one,
        idle_watts=idle_watts,
    )


class _Memories(NamedTuple):
    """Rates, latencies and slots of memories and buffers; M memories.

    Attributes:
        rates: Bytes a cycle, [..., M].
        latency_cycles_per_byte: Latency of a tile over its bytes, [..., M].
        slots: Tiles that the weight buffer and the KV buffer hold, [..., 2].
    """

    rates: Floats
    latency_cycles_per_byte: Floats
    slots: Floats


class _Phases(NamedTuple):
    """Work of one phase, or of several together.

    Attributes:
        work: Cycles, MACs, vector operations, bytes on chip and of each memory, [..., 4 + M].
        streams: Traffic through weight buffers and KV buffers, [..., 2, 2, 1 + M]
            (:func:`~carsim.explore.unhindered.buffer_traffic`).
    """

    work: Floats
    streams: Floats


def _least_cycles(phases: _Phases, memories: _Memories) -> Floats:
    """Least cycles of some work: of compute, of each memory, and of each buffer."""
    bounds = [phases.work[..., 0]]
    for memory in range(memories.rates.shape[-1]):
        nbytes = phases.work[..., len(WORK) + memory]
        bounds.append(nbytes / memories.rates[..., memory])
    for buffer in range(2):  # weights, then K and V
        compute_cycles = phases.streams[..., buffer, 0, 0]
        transfers = phases.streams[..., buffer, 0, 1:] / memories.rates
        latencies = phases.streams[..., buffer, 1, 1:] * memories.latency_cycles_per_byte
        through_one_slot = compute_cycles + (transfers + latencies).sum(axis=-1)
        bounds.append(through_one_slot / memories.slots[..., buffer])
    return reduce(np.maximum, bounds)


class _Skipped(NamedTuple):
    """Phases in which equally many rows compute.

    Attributes:
        phases: One of them, or all of them together.
        times: How many times ``phases`` is done.
    """

    phases: _Phases
    times: Floats


def _skipped_phases(
    work_table: Mapping[str, Floats], decisions: Mapping[str, Floats], kind: int
) -> Iterator[_Skipped]:
    """Phases of a kind that rows skip, by how many rows compute."""
    computing = decisions["computing"]  # [..., B + 1], layer-steps
    contexts = decisions["contexts"]  # [..., B + 1], sums over these
    reads_cache = kind < work_table["context_work"].shape[-3]
    for n_rows in range(min(work_table["skipped_work"].shape[-2], computing.shape[-1])):
        count = computing[..., n_rows]
        work = work_table["skipped_work"][..., kind, n_rows, :]
        streams = work_table["skipped_streams"][..., kind, n_rows, :, :, :]
        if not reads_cache:
            yield _Skipped(_Phases(work, streams), count)
            continue
        # A line over the context: the phases together have count times its start, and the sum of
        # their contexts times its slope.
        context = contexts[..., n_rows]
        work_of_token = work_table["context_work"][..., kind, n_rows, :]
        streams_of_token = work_table["context_streams"][..., kind, n_rows, :, :, :]
        work = count[..., None] * work + context[..., None] * work_of_token
        streams = count[..., None, None, None] * streams
        streams = streams + context[..., None, None, None] * streams_of_token
        yield _Skipped(_Phases(work, streams), np.ones_like(count))
