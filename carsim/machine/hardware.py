"""A design turned into the constants that hardware models run on: cycles, bytes, rates.

Model: one path per memory, whose sustained rate is the lesser of what the DRAM sustains for the
design's access pattern (:mod:`carsim.memory.sustained`) and what its ports carry.

Simplifications: the access pattern is that of the design as a whole - as many streams as cores
fetch on their own, in bursts of the ports' longest length, reads only (writes are under 1 % of the
bytes of decoding); a port's share of a burst does not depend on which other ports are active.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from carsim.design import Design, Memory
from carsim.errors import InputError
from carsim.mapping import MAPPINGS, Mapping
from carsim.memory import sustained as dram
from carsim.schedule import Schedule
from carsim.units import bytes_per_cycle, ns_to_cycles
from carsim.workload.ops import Stream

BURST_BYTES = 64
"""What a controller fetches at once: one burst of a 64-bit channel."""


@dataclass(frozen=True, slots=True)
class Path:
    """The way between the fabric and one memory.

    Attributes:
        name: Name of the memory.
        rate: Sustained bytes per fabric cycle.
        latency_cycles: From request to first byte, in an idle system.
        peak_gbps: Peak bandwidth of the memory.
        dram_gbps: What the memory sustains for this access pattern.
        port_gbps: What the ports carry.
        dram_limit: What keeps the memory from its peak.
    """

    name: str
    rate: Fraction
    latency_cycles: int
    peak_gbps: float
    dram_gbps: float
    port_gbps: float
    dram_limit: str

    @property
    def sustained_gbps(self) -> float:
        """The lesser of memory and ports."""
        return min(self.dram_gbps, self.port_gbps)

    @property
    def limited_by(self) -> str:
        """``memory`` or ``port``, whichever carries less."""
        return "port" if self.port_gbps < self.dram_gbps else "memory"


def port_gbps(memory: Memory, latency_ns: float) -> float:
    """What the ports of a memory carry, in GB/s.

    Each port loses ``burst_overhead_beats`` per burst and can have ``outstanding`` bursts in
    flight, so it carries the lesser of its data width at that efficiency and bursts over latency.
    """
    ports = memory.ports
    beat_bytes = ports.bits / 8
    beats = ports.max_burst_bytes / beat_bytes
    wire = beat_bytes * ports.clock_mhz * 1e-3 * beats / (beats + ports.burst_overhead_beats)
    in_flight = ports.outstanding * ports.max_burst_bytes / latency_ns
    return ports.count * min(wire, in_flight)


def memory_path(name: str, memory: Memory, streams: int, clock_mhz: float) -> Path:
    """The path to one memory for a given number of concurrent streams.

    Raises:
        InputError: The table of standards has no such memory, or nothing comes through its ports.
    """
    access = dram.Access(
        pattern="streams",
        chunk_bytes=memory.ports.max_burst_bytes,
        streams=streams,
        read_fraction=1.0,
        outstanding=None,
    )
    try:
        timings = dram.standard(memory.standard, density_gbit=memory.density_gbit)
        sustained = dram.sustained(
            timings, access, channels=memory.channels, channel_bits=memory.channel_bits
        )
    except InputError as error:
        problem = f"{error.place}: {error.problem}"
        raise InputError(f"$.board.memories.{name}", problem, error.cure) from None
    idle_ns = dram.idle_latency_ns(timings) + memory.interconnect_ns
    ports = port_gbps(memory, idle_ns)
    rate = bytes_per_cycle(min(sustained.sustained_gbps, ports), clock_mhz)
    if not rate:
        problem = f"carries {ports:.3g} GB/s through its ports, less than a kB/s"
        cure = "raise ports.bits, clock_mhz or outstanding, or lower interconnect_ns"
        raise InputError(f"$.board.memories.{name}", problem, cure)
    return Path(
        name=name,
        rate=rate,
        latency_cycles=ns_to_cycles(idle_ns, clock_mhz),
        peak_gbps=sustained.peak_gbps,
        dram_gbps=sustained.sustained_gbps,
        port_gbps=ports,
        dram_limit=sustained.limit,
    )


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
        machine, board = self.design.machine, self.design.board
        streams = 1 if self.is_lockstep(self.mapping.splits_mlp) else min(machine.cores, self.batch)
        return tuple(
            replace(path, rate=path.rate * self.bandwidth_factor)
            for path in (
                memory_path(name, board.memories[name], streams, board.fabric_clock_mhz)
                for name in sorted(board.memories)
            )
        )

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
    def mapping(self) -> Mapping:
        """How work is laid over the cores."""
        return MAPPINGS[self.design.machine.mapping]

    def is_lockstep(self, split: bool) -> bool:
        """One stream of operands paces all cores: columns of one matrix, or broadcast weights.

        Args:
            split: The matrices of the phase are split over the cores.
        """
        return split or self.design.machine.weight_sharing == "broadcast"

    @cached_property
    def home_loads(self) -> NDArray[np.int64]:  # [C]
        """Sequences of each core where all compute and nothing is split, most loaded first."""
        cores = self.design.machine.cores
        return np.bincount(np.arange(self.batch) % cores, minlength=cores).astype(np.int64)

    def dispatch_cycles(self, schedule: Schedule) -> int:
        """Cycles from the decisions of a layer to its last MLP instruction sent."""
        machine = self.design.machine
        registers = machine.drs
        held = min(self.batch, registers.index_register_bits) if schedule.central else self.batch
        return schedule.dispatch_cycles(registers, held, machine.cores)
