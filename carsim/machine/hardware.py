"""A design turned into the constants that hardware models run on: cycles, bytes, rates.

Model: one path per memory (:mod:`carsim.hardware.memory.path`), whose rate follows the access
pattern: weights, and K and V that lie side by side, are as many streams as cores fetch on their
own, in bursts of the ports' longest length; keys that are gathered from many places come in random
chunks (:meth:`Hardware.gather_rate`).

Simplifications: reads only (writes are under 1 % of the bytes of decoding); with private weights
the rate is that of all cores streaming, also where fewer do (ZCU102: 11.29 GB/s for four streams,
15.62 for two), to the disadvantage of schedules that pack sequences.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from math import ceil
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from carsim.base.errors import InputError
from carsim.base.units import bytes_per_cycle
from carsim.design import Design
from carsim.hardware.mapping import MAPPINGS, Mapping
from carsim.hardware.memory import AccessPattern
from carsim.hardware.memory.path import MemoryPath, Path, memory_path
from carsim.hardware.schedule import Schedule
from carsim.workload.ops import Stream

COLUMNS = ("tile_kib", "weight_buffer_kib", "kv_buffer_kib", "exchange_bytes_per_cycle")
"""Numbers of a machine in which designs that are simulated together may differ."""

SECTION_COLUMNS = {
    "array": ("rows", "cols", "pipeline_cycles"),
    "attention_unit": ("rows", "cols"),
    "vector": ("lanes", "pipeline_cycles"),
    "overheads": ("kernel_cycles",),
}
"""Those of its sections. Boards may differ in all but the names of their memories."""


class Rates(NamedTuple):
    """Bytes per cycle of one memory in n phases: fractions in lowest terms, int64[n, 1] each."""

    numerator: NDArray[np.int64]
    denominator: NDArray[np.int64]


Rate = Any
"""Bytes per cycle: a fraction for all phases, or :class:`Rates`."""


def served(rate: Rate, nbytes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Cycles that a memory takes for the bytes of n phases, [n], rounded up."""
    return -(-nbytes * np.ravel(rate.denominator) // np.ravel(rate.numerator))


@dataclass(frozen=True)
class Hardware:
    """Everything about a design that does not change from phase to phase.

    Attributes:
        design: The design.
        bandwidth_factor: Multiplies the rate of every path, to ask what more of it would bring.
    """

    design: Design
    bandwidth_factor: Fraction = Fraction(1)

    @cached_property
    def paths(self) -> tuple[Path, ...]:
        """Paths to the memories of the board, in the order of their names."""
        return tuple(
            replace(path.at(self._pattern(path)), rate=self._rate(path, self._pattern(path)))
            for path in self._memory_paths
        )

    @property
    def designs(self) -> tuple["Hardware", ...]:
        """The hardware of each design: this one."""
        return (self,)

    @property
    def height(self) -> int:
        """Rows of the columns in which designs differ; 1 for a single design."""
        return 1

    def spread(self, at: NDArray[np.intp], *, exact: bool = False) -> "Hardware":
        """This hardware for n phases of the designs ``at``, int[n]; of one, all are the same."""
        return self

    @cached_property
    def rates(self) -> tuple[Rate, ...]:
        """Bytes per cycle by memory."""
        return tuple(path.rate for path in self.paths)

    @cached_property
    def host_cycles(self) -> Any:
        """Fabric cycles of launches, host, sampling and embedding in one token step; int[D]."""
        design = self.design
        of_step_us = design.machine.overheads.of_step_us(design.model.body.n_layers)
        return ceil(of_step_us * design.board.fabric_clock_mhz)

    @cached_property
    def latencies(self) -> tuple[Any, ...]:
        """Cycles from request to first byte, by memory; broadcast weights go on to all cores."""
        machine = self.design.machine
        found = [path.latency_cycles for path in self.paths]
        if machine.cores > 1 and self.is_lockstep(self.mapping.splits_mlp):
            found[self.path_of[Stream.WEIGHTS]] += machine.overheads.broadcast_cycles
        return tuple(found)

    @cached_property
    def fastest_rates(self) -> tuple[Rate, ...]:
        """Bytes per cycle by memory, of the number of streams that it serves best: for bounds."""
        counts = {1 << power for power in range(self.streams.bit_length())} | {self.streams}
        return tuple(
            max(self._rate(path, replace(self._pattern(path), streams=n)) for n in counts)
            for path in self._memory_paths
        )

    def gather_rate(self, index: int, run_bytes: int) -> Rate:
        """Bytes per cycle of a memory that is read in runs of so many bytes at random places."""
        path = self._memory_paths[index]
        if run_bytes >= path.memory.ports.burst_bytes:
            return self.paths[index].rate
        gathered = AccessPattern(chunk_bytes=max(1, run_bytes), random=True)
        return min(self._rate(path, gathered), self.paths[index].rate)

    def _rate(self, path: MemoryPath, pattern: AccessPattern) -> Fraction:
        """Bytes per cycle for a pattern, to a 4096th as all rates are: others overflow 64 bits.

        What the memory sustains is shared with others, and waits for a descriptor with each tile.

        Raises:
            InputError: The others leave nothing.
        """
        machine, share = self.design.machine, self.design.machine.overheads.bandwidth_share
        others = path.memory.other_gbps
        rate = path.rate(pattern) * self.bandwidth_factor * Fraction(share)
        rate -= bytes_per_cycle(others, self.design.board.fabric_clock_mhz)
        if rate <= 0:
            where = f"board.memories.{path.name}.other_gbps"
            raise InputError(where, f"{others:g} GB/s leave nothing of the memory", "give less")
        if descriptor := machine.overheads.descriptor_cycles:
            rate = rate * machine.tile_bytes / (machine.tile_bytes + descriptor * rate)
        return Fraction(max(1, round(4096 * rate)), 4096)

    @cached_property
    def bandwidth_interval(self) -> tuple[Fraction, Fraction]:
        """Factors on all rates that measurements leave plausible: of the memory of the weights."""
        path = self._memory_paths[self.path_of[Stream.WEIGHTS]]
        pattern = self._pattern(path)
        low, high = path.interval(pattern)
        return low / path.rate(pattern), high / path.rate(pattern)

    @cached_property
    def _memory_paths(self) -> tuple[MemoryPath, ...]:
        mhz, memories = self.design.board.fabric_clock_mhz, self.design.board.memories
        return tuple(memory_path(name, memories[name], mhz) for name in sorted(memories))

    @cached_property
    def streams(self) -> int:
        """Operands of an MLP that come side by side: one for all cores in step, else one each."""
        lockstep = self.is_lockstep(self.mapping.splits_mlp)
        return 1 if lockstep else min(self.design.machine.cores, self.rows)

    def _pattern(self, path: MemoryPath) -> AccessPattern:
        return AccessPattern(self.streams, path.memory.ports.burst_bytes)

    @cached_property
    def path_of(self) -> dict[Stream, int]:
        """Index of the memory that holds each streamed operand."""
        names, at = [path.name for path in self.paths], self.design.machine.placement
        held = {Stream.WEIGHTS: at.weights, Stream.KV: at.kv, Stream.HEAD: at.head}
        return {stream: names.index(memory) for stream, memory in held.items()}

    @cached_property
    def replay_path(self) -> int:
        """Index of the memory that holds the replay cache."""
        return [path.name for path in self.paths].index(self.design.machine.placement.replay)

    @cached_property
    def batch(self) -> int:
        """Sequences in lockstep."""
        return self.design.policy.batch

    @cached_property
    def rows(self) -> int:
        """Tokens of one step: those of all sequences in lockstep, which share weights."""
        return self.batch * self.design.policy.tokens_per_step

    @cached_property
    def mapping(self) -> Mapping:
        """The mapping of work to cores."""
        return MAPPINGS[self.design.machine.mapping]

    def is_lockstep(self, split: bool) -> bool:
        """One stream of operands paces all cores: columns of one matrix, or broadcast weights.

        Args:
            split: The matrices of the phase are split over the cores.
        """
        return split or self.design.machine.weight_sharing == "broadcast"

    @cached_property
    def core_names(self) -> list[str]:
        """Names of the cores in accounts and timelines."""
        return [f"core {number}" for number in range(self.design.machine.cores)]

    def busy_share(self, busy_cycles: Any, cycles: Any) -> Any:
        """Share of the core cycles of so many cycles in which cores compute."""
        return busy_cycles / (cycles * self.design.machine.cores)

    def home_of(self, sequence: Any) -> Any:
        """The core of a sequence, or of a token of a set, until its MLP is dispatched."""
        return sequence % self.design.machine.cores

    @cached_property
    def home_loads(self) -> NDArray[np.int64]:  # [C]
        """Tokens of each core where all compute and nothing is split, most loaded first."""
        return self.even_loads(self.rows)

    def even_loads(self, counts: Any) -> NDArray[np.int64]:
        """Sequences of each core where so many are dealt out, most loaded first, [..., C]."""
        even, more = np.divmod(np.asarray(counts)[..., None], self.design.machine.cores)
        return even + (np.arange(self.design.machine.cores) < more)

    def queue_depth(self, schedule: Schedule) -> int | None:
        """Instructions that may wait at a core; None if none ever finds its queue full."""
        if not schedule.central or self.is_lockstep(self.mapping.splits_mlp):
            return None
        return self.design.machine.drs.core_queue_instructions

    def held(self, schedule: Schedule) -> int:
        """Tokens whose MLPs are dispatched together: as many as the Index Register holds."""
        most = self.design.machine.drs.index_register_bits if schedule.central else self.rows
        return min(self.rows, most)

    def dispatch_cycles(self, schedule: Schedule, tokens: int | None = None) -> int:
        """Cycles from the decisions of a layer to the last MLP instruction of so many tokens."""
        machine = self.design.machine
        held = self.held(schedule) if tokens is None else tokens
        return schedule.dispatch_cycles(machine.drs, held, machine.cores)

    def assign(self, schedule: Schedule, computing: NDArray[np.bool_]) -> NDArray[np.int64]:
        """The core of each sequence, -1 for one that replays: bool[n, B] -> int64[n, B]."""
        return schedule.assign(computing, self.design.machine.cores)

    def dispatch(self, schedule: Schedule, env: Any, computing: Sequence[bool], send: Any) -> Any:
        """The dispatcher as a SimPy process: see :meth:`Schedule.dispatch`."""
        machine = self.design.machine
        return schedule.dispatch(env, machine.drs, computing, machine.cores, send)


@dataclass(frozen=True, eq=False)
class Columns(Hardware):
    """Hardware of D designs of one structure; numbers that differ are int64[n, 1] for n phases.

    Attributes:
        hardwares: That of each design.
        at: The design of each phase, int[n].
    """

    hardwares: tuple[Hardware, ...] = ()
    at: NDArray[np.intp] = field(default_factory=lambda: np.zeros(1, np.intp))

    @classmethod
    def of(cls, hardwares: Sequence[Hardware]) -> Hardware:
        """Designs of one :func:`structure_of`; a single one is its own."""
        if len(hardwares) == 1:
            return hardwares[0]
        first = cls(hardwares[0].design, hardwares=tuple(hardwares))
        return first.spread(np.arange(len(hardwares)))

    @property
    def designs(self) -> tuple[Hardware, ...]:
        """The hardware of each design."""
        return self.hardwares

    @property
    def height(self) -> int:
        """Rows of the columns."""
        return len(self.at)

    def spread(self, at: NDArray[np.intp], *, exact: bool = False) -> "Columns":
        """This hardware for n phases of the designs ``at``; exact: with Python's integers."""
        machines = [each.design.machine for each in self.hardwares]
        dtype = object if exact else np.int64

        def columns(sections: Sequence[Any], names: Sequence[str]) -> dict[str, Any]:
            """Fields in which sections differ, [n, 1]."""
            found = {name: [getattr(each, name) for each in sections] for name in names}
            return {
                name: np.array(values, dtype)[at][:, None]
                for name, values in found.items()
                if len(set(values)) > 1
            }

        changes = columns(machines, COLUMNS)
        for name, fields in SECTION_COLUMNS.items():
            sections = [getattr(machine, name) for machine in machines]
            if sections[0] is not None and (differing := columns(sections, fields)):
                changes[name] = sections[0].model_copy(update=differing)
        machine = machines[0].model_copy(update=changes)
        design = self.hardwares[0].design.model_copy(update={"machine": machine})
        return replace(self, design=design, at=at)

    @cached_property
    def paths(self) -> tuple[Path, ...]:
        """Paths of the first design; only their names hold for all."""
        return self.hardwares[0].paths

    @cached_property
    def rates(self) -> tuple[Rate, ...]:
        """Bytes per cycle by memory."""
        return tuple(map(self._column, zip(*(each.rates for each in self.hardwares), strict=True)))

    @cached_property
    def fastest_rates(self) -> tuple[Rate, ...]:
        """The same of the number of streams that a memory serves best."""
        found = zip(*(each.fastest_rates for each in self.hardwares), strict=True)
        return tuple(map(self._column, found))

    def gather_rate(self, index: int, run_bytes: int) -> Rate:
        """As of a single design, for each."""
        return self._column([each.gather_rate(index, run_bytes) for each in self.hardwares])

    @cached_property
    def latencies(self) -> tuple[Any, ...]:
        """Cycles from request to first byte, by memory, [n, 1] each."""
        return tuple(np.array([each.latencies for each in self.hardwares]).T[..., self.at, None])

    @cached_property
    def host_cycles(self) -> Any:
        """As of a single design, int64[D]."""
        return np.array([each.host_cycles for each in self.hardwares])

    def _column(self, rates: Sequence[Rate]) -> Rate:
        if len(set(rates)) == 1:
            return rates[0]
        parts = np.array([(rate.numerator, rate.denominator) for rate in rates])[self.at]
        return Rates(parts[:, :1], parts[:, 1:])


def structure_of(design: Design) -> str:
    """Equal for designs that can be simulated together, as :class:`Columns`."""
    machine = design.machine
    raw = machine.model_dump(mode="json", exclude={*COLUMNS, "overheads"})
    for name, fields in SECTION_COLUMNS.items():
        for each in fields if raw.get(name) else ():
            raw[name].pop(each, None)
    slots = [kib // machine.tile_kib for kib in (machine.weight_buffer_kib, machine.kv_buffer_kib)]
    sizes = design.policy.batch, design.policy.tokens_per_step
    return json.dumps([raw, slots, sizes, sorted(design.board.memories), design.model.as_json])
