"""Optimistic figures of whole boxes of machines: no machine of a box is better.

A box has one value of each axis of kinds, and a range of each axis of sizes
(:mod:`carsim.explore.space`). Three of its corners are looked at:

- the *fast* corner has the largest sizes: it has the most multipliers, lanes and bandwidth, and its
  activation buffer reads the weights of a prompt the fewest times;
- the *small* corner has the smallest sizes: nothing in the box takes less of a growing resource
  (:attr:`~carsim.hardware.technology.base.Technology.growing`), and nothing is cheaper;
- the *roomy* corner has the smallest array and the largest buffers: if its memories or buffers
  cannot hold the workload, none can.

Model of time: each kind of phase takes the longest of its multiply-accumulates on all multipliers,
its element operations on all lanes, its exponentials in all softmax units if cores have them, and
its bytes at the rate that the memory sustains at best.
The work is that of the simulated fast corner. Phases do not overlap, as in the simulation. Model of
energy: MACs, bytes of memory, and the idle power of the small corner in the least time.

Simplifications: fill and drain, waiting, odd shapes, launches and dispatch take no time; operations
and bytes on chip take no energy. :data:`MARGIN` covers times that are rounded to cycles.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from math import fsum, inf, log2, prod
from typing import NamedTuple

from carsim.account.forward_limits import exponentials_of
from carsim.base.errors import InputError
from carsim.cost.capacity import capacity
from carsim.cost.energy import energy
from carsim.cost.fit import buffer_rows, memory_rows, resource_fit
from carsim.design import Design
from carsim.explore.bench import Bench
from carsim.explore.possible import Interval
from carsim.explore.space import (
    ACTIVATION_BUFFER,
    BATCH,
    CLOCK,
    COLS,
    CORES,
    EXPONENTIALS,
    KV_BUFFER,
    LANES,
    MAPPING,
    MEMORY,
    ROWS,
    TILE,
    WEIGHT_BUFFER,
    Space,
    Values,
)
from carsim.hardware.mapping import MAPPINGS
from carsim.hardware.technology.price import total as total_price
from carsim.machine.hardware import Hardware
from carsim.metrics import PHASES
from carsim.metrics.table import frames_of
from carsim.workload.activity import Activity
from carsim.workload.elements import SOFTMAX_OPS

MARGIN = 1e-3
"""Share by which bounds of times are lowered: cycles and rates are rounded."""

Range = tuple[int, int]
"""First and last place of an axis' values."""


@dataclass(frozen=True)
class Box:
    """Machines of a space: one value of each axis of kinds, a range of each axis of sizes.

    Attributes:
        space: The space.
        kinds: Value of each axis of kinds, by name.
        ranges: Range of each axis of sizes, in their order.
    """

    space: Space
    kinds: Values
    ranges: tuple[Range, ...]

    @classmethod
    def whole(cls, space: Space, kinds: Values) -> "Box":
        """All sizes."""
        return cls(space, kinds, tuple((0, len(axis.values) - 1) for axis in space.sizes))

    def trimmed(self) -> "Box | None":
        """The box without sizes whose buffers hold fewer than two tiles; None if nothing is left.

        Such machines are refused when they are opened.
        """
        names = [axis.name for axis in self.space.sizes]
        ranges = dict(zip(names, self.ranges, strict=True))
        tiles = self.space.axes[TILE].values
        first_tile, last_tile = ranges[TILE]
        for name in (WEIGHT_BUFFER, KV_BUFFER):
            values = self.space.axes[name].values
            first, last = ranges[name]
            while first <= last and values[first] < 2 * tiles[first_tile]:
                first += 1
            if first > last:
                return None
            while values[last] < 2 * tiles[last_tile]:
                last_tile -= 1
            ranges[name] = first, last
        ranges[TILE] = first_tile, last_tile
        return replace(self, ranges=tuple(ranges.values()))

    @property
    def count(self) -> int:
        """Machines of the box."""
        return prod(last - first + 1 for first, last in self.ranges)

    @property
    def fast(self) -> Values:
        """The fast corner. Its tiles are the largest, which wait for the fewest descriptors."""
        return self._corner(last=frozenset(axis.name for axis in self.space.sizes))

    @property
    def small(self) -> Values:
        """The small corner."""
        return self._corner(last=frozenset())

    @property
    def roomy(self) -> Values:
        """The roomy corner."""
        buffers = {axis.name for axis in self.space.sizes} - {ROWS, COLS, LANES, TILE}
        return self._corner(last=frozenset(buffers))

    def machines(self) -> Iterator[Values]:
        """Every machine of the box."""
        names = [axis.name for axis in self.space.sizes]
        pairs = zip(self.space.sizes, self.ranges, strict=True)
        values = [axis.values[first : last + 1] for axis, (first, last) in pairs]
        for combination in product(*values):
            yield {**self.kinds, **dict(zip(names, combination, strict=True))}

    def split(self) -> "list[Box]":
        """Two boxes, cut through the axis that spans the most doublings; the faster one first."""
        spans = [
            0.0
            if first == last
            else log2(axis.values[last] / axis.values[first]) * WEIGHT.get(axis.name, 1.0)
            for axis, (first, last) in zip(self.space.sizes, self.ranges, strict=True)
        ]
        widest = spans.index(max(spans))
        first, last = self.ranges[widest]
        middle = (first + last) // 2
        halves = []
        for half in ((middle + 1, last), (first, middle)):
            ranges = (*self.ranges[:widest], half, *self.ranges[widest + 1 :])
            halves.append(replace(self, ranges=ranges))
        return halves

    def _corner(self, last: frozenset[str]) -> Values:
        """A corner with the last values of some axes, and the first ones of the others."""
        corner = dict(self.kinds)
        for axis, ends in zip(self.space.sizes, self.ranges, strict=True):
            corner[axis.name] = axis.values[ends[axis.name in last]]
        return corner


WEIGHT: Mapping[str, float] = {ROWS: 2.0, COLS: 2.0, ACTIVATION_BUFFER: 1.5, LANES: 1.5}
"""Axes that decide the most are cut first: a doubling of theirs counts for more."""


class PhaseWork(NamedTuple):
    """Work of all phases of a kind, over all batches.

    Attributes:
        macs: Multiply-accumulates.
        vector_ops: Element operations, exponentials among them.
        dram_bytes: Bytes by memory, in the order of their names.
        exponentials: Exponentials of forwards, at least and at most.
    """

    macs: int
    vector_ops: int
    dram_bytes: tuple[int, ...]
    exponentials: Range = (0, 0)

    def seconds(self, cores_hz: float, fast: Values, rates: tuple[float, ...]) -> float:
        """Least seconds on some cores.

        Args:
            cores_hz: Cores that compute at the same time, times their clock.
            fast: Sizes of a core.
            rates: Bytes a second of each memory.
        """
        least, most = self.exponentials
        rate = fast.get(EXPONENTIALS, 0)
        on_lanes = self.vector_ops
        in_units = 0.0
        if rate:  # softmax has a unit of its own
            on_lanes -= SOFTMAX_OPS * most
            in_units = least / (rate * cores_hz)
        products = self.macs / (fast[ROWS] * fast[COLS] * cores_hz)
        elements = on_lanes / (fast[LANES] * cores_hz)
        in_memories = [
            nbytes / bytes_per_s
            for nbytes, bytes_per_s in zip(self.dram_bytes, rates, strict=True)
            if nbytes
        ]
        return max(products, elements, in_units, max(in_memories, default=0.0))


class Work(NamedTuple):
    """Work of a machine on the workload.

    Attributes:
        phases: By kind of phase.
        batches: Batches that are decoded one after the other.
        videos: Videos, or texts, of a batch.
        steps: Steps of a batch.
        tokens: Tokens of each stream in a step.
        frames: Frames of a video.
        host_us: Microseconds of the host in a step.
        deals_tokens: All tokens of a forward are dealt to cores.
    """

    phases: Mapping[str, PhaseWork]
    batches: int
    videos: int
    steps: int
    tokens: int
    frames: int
    host_us: float
    deals_tokens: bool = False


class Optimist:
    """Optimistic figures of boxes on one workload.

    Args:
        bench: Simulates the fast corners, whose work is taken.
    """

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._work: dict[tuple[object, ...], Work | None] = {}
        self._rates: dict[tuple[object, ...], tuple[float, ...]] = {}

    def costs(self, box: Box) -> dict[str, Interval]:
        """Least price and least growing resources of the box, without a simulation."""
        small = box.space.design(box.small)
        technology = small.board.technology
        used = technology.resources(small)
        intervals = {name: Interval(used.totals.get(name, 0.0), inf) for name in technology.growing}
        price = total_price(technology.prices(small))
        if price is not None and technology.growing:
            intervals["cost_usd"] = Interval(price.value, inf)
            intervals["cost_low_usd"] = Interval(price.low, inf)
            intervals["cost_high_usd"] = Interval(price.high, inf)
        return intervals

    def lacks(self, box: Box) -> str:
        """Parts that are too small in every machine of the box; empty if one may fit.

        Raises:
            InputError: The workload does not suit the machines.
        """
        smallest = box.space.design(box.small)
        technology = smallest.board.technology
        used = technology.resources(smallest)
        counts = technology.counts(smallest.board, used)
        for name in technology.growing & counts.keys():
            if counts[name].used > counts[name].available:
                return technology.resource_kinds[name].title
        design = box.space.design(box.roomy)
        sources = self._bench.sources(design)
        attention = design.policy.attention
        rule = sources.rule(attention) if sources.replays_any else None
        video = sources.video
        kv_held = sources.kv_held(attention, video)
        uses = capacity(
            design,
            video,
            rule,
            kv_held,
            reuse=sources.reuse,
        )
        rows = [*memory_rows(uses), *(row for _, row in buffer_rows(design, video))]
        return next((row.what for row in rows if not row.ok), "")

    def times(self, box: Box) -> dict[str, Interval]:
        """Intervals of the metrics of time; none where the machine cannot be simulated.

        Raises:
            InputError: The workload does not suit the machines.
        """
        fast = box.fast
        work = self._work_of(box, fast)
        if work is None:
            return {}
        cores_hz = _busy_cores(fast, work) * fast[CLOCK] * 1e6
        rates = self._rates_of(box, fast)
        seconds = {
            name: (1 - MARGIN) * phase.seconds(cores_hz, fast, rates) / work.batches
            for name, phase in work.phases.items()
        }
        return _timed(work, seconds)

    def joules(self, box: Box) -> dict[str, Interval]:
        """Interval of the energy per video; none where the machine cannot be simulated."""
        work = self._work_of(box, box.fast)
        times = self.times(box)
        if work is None:
            return {}
        return _joules(work, times["latency_s"].low, box.space.design(box.small))

    # ---------------------------------------------------------------- private

    def _work_of(self, box: Box, fast: Values) -> Work | None:
        """Work of the fast corner, which depends on kinds and on the activation buffer alone.

        In a network the weight buffer decides, too, how often activations move.

        None where the machine cannot simulate the corner: nothing is known of the box then.
        """
        key = (
            box.space.base.model.as_json,
            *sorted(box.space.base.board.memories),
            *(value for name, value in box.kinds.items() if name != MEMORY),
            fast[ACTIVATION_BUFFER],
            fast[WEIGHT_BUFFER] if box.space.base.model.network is not None else 0,
        )
        if key not in self._work:
            self._work[key] = self._simulated_work(box.space.design(fast))
        return self._work[key]

    @staticmethod
    def _broadcasts(box: Box) -> bool:
        """One fetch of weights feeds all cores."""
        return box.space.base.machine.weight_sharing == "broadcast"

    def _simulated_work(self, design: Design) -> Work | None:
        """Work of a design by kind of phase, from its simulation; None where it is refused."""
        if design.machine.overheads.kernels:
            return None  # times of a table do not follow from work
        (measured,) = self._bench.measure([self._bench.fitted(design)])
        if isinstance(measured, InputError):
            return None
        row = measured.row
        plan = row.simulation.plan
        has_forwards = design.model.network is not None
        scores = exponentials_of(plan) if has_forwards else {}
        phases = {}
        for name, total in row.simulation.totals.items():
            if name in PHASES:
                least, most = scores.get(name, (0, 0))
                phases[name] = PhaseWork(
                    macs=total.macs,
                    vector_ops=total.vector_ops,
                    dram_bytes=total.dram_bytes,
                    exponentials=(row.n_batches * least, row.n_batches * most),
                )
        return Work(
            phases=phases,
            batches=row.n_batches,
            videos=row.batches.videos_per_batch,
            steps=plan.n_steps,
            tokens=plan.tokens_per_step,
            frames=frames_of(design.model, plan.video),
            host_us=design.machine.overheads.of_step_us(design.model.body.n_layers),
            deals_tokens=has_forwards,
        )

    def _rates_of(self, box: Box, fast: Values) -> tuple[float, ...]:
        """The most bytes a second that each memory sustains, in the order of their names."""
        lockstep = MAPPINGS[fast[MAPPING]].splits_mlp or self._broadcasts(box)
        streams = 1 if lockstep else min(fast[CORES], fast[BATCH])
        key = (box.space.board, fast[MEMORY], streams, fast[CLOCK], fast[TILE])
        if key not in self._rates:
            design = box.space.design(fast)
            hertz = round(design.board.fabric_clock_mhz * 1e6)
            hardware = Hardware(design)
            both = zip(hardware.rates, hardware.fastest_rates, strict=True)
            self._rates[key] = tuple(float(max(map(Fraction, pair))) * hertz for pair in both)
        return self._rates[key]


def _busy_cores(fast: Values, work: Work) -> int:
    """Cores that can compute at the same time: where nothing is split, one a sequence."""
    if work.deals_tokens or MAPPINGS[fast[MAPPING]].needs_broadcast:
        return int(fast[CORES])
    return min(int(fast[CORES]), int(fast[BATCH]) * work.tokens)


def _timed(work: Work, seconds: Mapping[str, float]) -> dict[str, Interval]:
    """Intervals of metrics of time from the least seconds of a batch by phase."""
    host_s = (1 - MARGIN) * 1e-6 * work.host_us * work.steps
    prefill_s = seconds.get("prefill", 0.0)
    latency_s = fsum(seconds.values()) + host_s
    decode_s = latency_s - prefill_s
    least = {f"{name}_s": value for name, value in seconds.items()}
    least |= {
        "latency_s": latency_s,
        "seconds_per_video": latency_s / work.videos,
        "ms_per_token": 1e3 * decode_s / work.steps,
        "first_token_s": prefill_s,
        "body_latency_s": latency_s - seconds.get("head", 0.0),
    }
    intervals = {name: Interval(value, inf) for name, value in least.items()}
    stream_rate = work.tokens * work.steps / decode_s if decode_s else inf
    intervals["stream_tokens_per_s"] = Interval(0.0, stream_rate)
    intervals["tokens_per_s"] = Interval(0.0, stream_rate * work.videos)
    if work.frames and latency_s:
        intervals["frames_per_s"] = Interval(0.0, work.frames * work.videos / latency_s)
    return intervals


ENERGIES = frozenset({"energy_per_video_j"})


def _joules(work: Work, latency_s: float, small: Design) -> dict[str, Interval]:
    """Interval of the energy per video."""
    names = sorted(small.board.memories)
    moved = zip(*(phase.dram_bytes for phase in work.phases.values()), strict=True)
    hertz = small.board.fabric_clock_mhz * 1e6
    activity = Activity(
        cycles=int(latency_s * work.batches * hertz),
        macs=sum(phase.macs for phase in work.phases.values()),
        dram_bytes=dict(zip(names, map(sum, moved), strict=True)),
    )
    joules = energy(small, activity, resource_fit(small).resources).board.value_j
    return {"energy_per_video_j": Interval(joules / work.videos / work.batches, inf)}
