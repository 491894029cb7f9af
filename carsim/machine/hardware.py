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
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from carsim.base.errors import InputError
from carsim.base.units import bytes_per_cycle
from carsim.design import Design
from carsim.hardware.mapping import MAPPINGS, Mapping
from carsim.hardware.memory import AccessPattern
from carsim.hardware.memory.path import MemoryPath, Path, memory_path
from carsim.workload.ops import Stream

COLUMNS = ("tile_kib", "weight_buffer_kib", "kv_buffer_kib", "exchange_bytes_per_cycle")
"""Numbers of a machine in which designs that are simulated together may differ."""

SECTION_COLUMNS = {
    "array": ("rows", "cols", "pipeline_cycles"),
    "attention_unit": ("rows", "cols"),
    "vector": ("lanes", "pipeline_cycles", "exponentials_per_cycle"),
    "overheads": ("kernel_cycles",),
}
"""Numbers of the sections of a machine in which designs that are simulated together may differ.

Boards may differ in all but the names of their memories."""


class Rates(NamedTuple):
    """Bytes per cycle of one memory in n phases: fractions in lowest terms, int64[n, 1] each."""

    numerator: NDArray[np.int64]
    denominator: NDArray[np.int64]


Rate = Fraction | Rates
"""Bytes per cycle: a fraction for all phases, or :class:`Rates`."""


def of_one_design(rate: Rate) -> Fraction:
    """The rate of a memory in the phases of a single design."""
    assert isinstance(rate, Fraction)
    return rate


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

    @cached_property
    def rates(self) -> tuple[Fraction, ...]:
        """Bytes per cycle by memory."""
        return tuple(path.rate for path in self.paths)

    @cached_property
    def host_cycles(self) -> int:
        """Fabric cycles of launches, host, sampling and embedding in one token step."""
        design = self.design
        of_step_us = design.machine.overheads.of_step_us(design.model.body.n_layers)
        return ceil(of_step_us * design.board.fabric_clock_mhz)

    @cached_property
    def layer_launch_cycles(self) -> Fraction:
        """Fabric cycles of launches and waits of one layer, exactly: part of ``host_cycles``."""
        design = self.design
        clock_mhz = Fraction(design.board.fabric_clock_mhz)
        return Fraction(design.machine.overheads.layer_us) * clock_mhz

    @cached_property
    def latencies(self) -> tuple[int, ...]:
        """Cycles from request to first byte, by memory; broadcast weights go on to all cores."""
        machine = self.design.machine
        latency_cycles = [path.latency_cycles for path in self.paths]
        if machine.cores > 1 and self.is_lockstep(self.mapping.splits_mlp):
            latency_cycles[self.path_of[Stream.WEIGHTS]] += machine.overheads.broadcast_cycles
        return tuple(latency_cycles)

    @cached_property
    def core_rate(self) -> Fraction | None:
        """Bytes per cycle that one core takes in, to a 4096th; None for as many as come."""
        core_gbps = self.design.machine.core_gbps
        if core_gbps is None:
            return None
        rate = bytes_per_cycle(core_gbps, self.design.board.fabric_clock_mhz)
        rate *= self.bandwidth_factor
        return Fraction(max(1, round(4096 * rate)), 4096)

    @cached_property
    def fastest_rates(self) -> tuple[Fraction, ...]:
        """Bytes per cycle by memory, of the number of streams that it serves best: for bounds."""
        counts = {1 << power for power in range(self.streams.bit_length())} | {self.streams}
        return tuple(
            max(self._rate(path, replace(self._pattern(path), streams=n)) for n in counts)
            for path in self._memory_paths
        )

    def gather_rate(self, index: int, run_bytes: int) -> Fraction:
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
        machine = self.design.machine
        share = machine.overheads.bandwidth_share
        other_gbps = path.memory.other_gbps
        rate = path.rate(pattern) * self.bandwidth_factor * Fraction(share)
        rate -= bytes_per_cycle(other_gbps, self.design.board.fabric_clock_mhz)
        if rate <= 0:
            where = f"board.memories.{path.name}.other_gbps"
            raise InputError(where, f"{other_gbps:g} GB/s leave nothing of the memory", "give less")
        descriptor = machine.overheads.descriptor_cycles
        if descriptor:
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
        clock_mhz = self.design.board.fabric_clock_mhz
        memories = self.design.board.memories
        return tuple(memory_path(name, memories[name], clock_mhz) for name in sorted(memories))

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
        names = [path.name for path in self.paths]
        placement = self.design.machine.placement
        paths = {
            Stream.WEIGHTS: names.index(placement.weights),
            Stream.KV: names.index(placement.kv),
            Stream.HEAD: names.index(placement.head),
        }
        if placement.kv_far is not None:
            paths[Stream.FAR_KV] = names.index(placement.kv_far)
        return paths

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


def structure_of(design: Design) -> str:
    """Equal for designs that :class:`~carsim.machine.arrays.MachineArrays` can hold together."""
    machine = design.machine
    raw = machine.model_dump(mode="json", exclude={*COLUMNS, "overheads"})
    for section, columns in SECTION_COLUMNS.items():
        if not raw.get(section):
            continue
        for column in columns:
            raw[section].pop(column, None)
    if machine.overheads.kernels:
        raw["kernels"] = [entry.model_dump(mode="json") for entry in machine.overheads.kernels]
    slots = [kib // machine.tile_kib for kib in (machine.weight_buffer_kib, machine.kv_buffer_kib)]
    policy = design.policy
    sizes = policy.batch, policy.tokens_per_step, policy.skip.model_dump(mode="json")
    return json.dumps([raw, slots, sizes, sorted(design.board.memories), design.model.as_json])
