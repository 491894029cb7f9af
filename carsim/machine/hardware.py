"""A design turned into the constants that hardware models run on: cycles, bytes, rates.

Model: one path per memory (:mod:`carsim.hardware.memory.path`), whose rate follows the access
pattern: weights, and K and V that lie side by side, are as many streams as cores fetch on their
own, in bursts of the ports' longest length; keys that are gathered from many places come in random
chunks (:meth:`Hardware.gather_rate`).

Simplifications: reads only (writes are under 1 % of the bytes of decoding); with private weights
the rate is that of all cores streaming, also where fewer do (ZCU102: 11.29 GB/s for four streams,
15.62 for two), to the disadvantage of schedules that pack sequences.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from carsim.design import Design
from carsim.hardware.mapping import MAPPINGS, Mapping
from carsim.hardware.memory import AccessPattern, MemoryPath, Path, memory_path
from carsim.hardware.schedule import Schedule
from carsim.workload.ops import Stream


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
            replace(found, rate=self._scaled(found.rate))
            for found in (path.at(self._streams(path)) for path in self._memory_paths)
        )

    @cached_property
    def latencies(self) -> tuple[int, ...]:
        """Cycles from request to first byte, by memory; broadcast weights go on to all cores."""
        machine = self.design.machine
        found = [path.latency_cycles for path in self.paths]
        if machine.cores > 1 and self.is_lockstep(self.mapping.splits_mlp):
            found[self.path_of[Stream.WEIGHTS]] += machine.overheads.broadcast_cycles
        return tuple(found)

    @cached_property
    def fastest_rates(self) -> tuple[Fraction, ...]:
        """Bytes per cycle by memory, of the number of streams that it serves best: for bounds."""
        if self.is_lockstep(self.mapping.splits_mlp):
            return tuple(path.rate for path in self.paths)
        most = min(self.design.machine.cores, self.rows)
        counts = {1 << power for power in range(most.bit_length())} | {most}
        return tuple(
            max(self._scaled(path.rate(replace(self._streams(path), streams=n))) for n in counts)
            for path in self._memory_paths
        )

    def gather_rate(self, index: int, run_bytes: int) -> Fraction:
        """Bytes per cycle of a memory that is read in runs of so many bytes at random places."""
        path = self._memory_paths[index]
        if run_bytes >= path.memory.ports.burst_bytes:
            return self.paths[index].rate
        rate = path.rate(AccessPattern(chunk_bytes=max(1, run_bytes), random=True))
        return min(self._scaled(rate), self.paths[index].rate)

    def _scaled(self, rate: Fraction) -> Fraction:
        """A rate times the factors, to a 4096th as all rates are: others overflow 64 bits."""
        factor = self.bandwidth_factor * Fraction(self.design.machine.overheads.bandwidth_share)
        return Fraction(max(1, round(4096 * rate * factor)), 4096)

    @cached_property
    def bandwidth_interval(self) -> tuple[Fraction, Fraction]:
        """Factors on all rates that measurements leave plausible: of the memory of the weights."""
        path = self._memory_paths[self.path_of[Stream.WEIGHTS]]
        pattern = self._streams(path)
        low, high = path.interval(pattern)
        return low / path.rate(pattern), high / path.rate(pattern)

    @cached_property
    def _memory_paths(self) -> tuple[MemoryPath, ...]:
        board = self.design.board
        return tuple(
            memory_path(name, memory, board.fabric_clock_mhz)
            for name, memory in sorted(board.memories.items())
        )

    def _streams(self, path: MemoryPath) -> AccessPattern:
        lockstep = self.is_lockstep(self.mapping.splits_mlp)
        streams = 1 if lockstep else min(self.design.machine.cores, self.rows)
        return AccessPattern(streams, path.memory.ports.burst_bytes)

    @cached_property
    def path_of(self) -> dict[Stream, int]:
        """Index of the memory that holds each streamed operand."""
        names = [path.name for path in self.paths]
        placement = self.design.machine.placement
        return {
            Stream.WEIGHTS: names.index(placement.weights),
            Stream.KV: names.index(placement.kv),
            Stream.HEAD: names.index(placement.head),
        }

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
    def home_loads(self) -> NDArray[np.int64]:  # [C]
        """Tokens of each core where all compute and nothing is split, most loaded first."""
        return self._spread(self.rows)

    @cached_property
    def home_sequences(self) -> NDArray[np.int64]:  # [C]
        """Sequences of each core, whose caches it reads."""
        return self._spread(self.batch)

    def _spread(self, count: int) -> NDArray[np.int64]:
        cores = self.design.machine.cores
        return np.bincount(np.arange(count) % cores, minlength=cores).astype(np.int64)

    def dispatch_cycles(self, schedule: Schedule) -> int:
        """Cycles from the decisions of a layer to its last MLP instruction sent."""
        machine = self.design.machine
        registers = machine.drs
        held = min(self.rows, registers.index_register_bits) if schedule.central else self.rows
        return schedule.dispatch_cycles(registers, held, machine.cores)
