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

from carsim.design import Design, Memory
from carsim.errors import InputError
from carsim.machine.drs import dispatch_cycles, slots_per_core
from carsim.memory import sustained as dram
from carsim.units import bytes_per_cycle, ns_to_cycles
from carsim.workload.ops import Slice, Stream

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
        fidelity: ``fluid`` (bandwidth shared between flows) or ``tile`` (every tile requested).
        bandwidth_factor: Multiplies the rate of every path, to ask what more of it would bring.
    """

    design: Design
    fidelity: str = "fluid"
    bandwidth_factor: Fraction = Fraction(1)

    @cached_property
    def paths(self) -> tuple[Path, ...]:
        """Paths to the memories of the board, in the order of their names."""
        machine, board = self.design.machine, self.design.board
        streams = 1 if self.is_lockstep else min(machine.cores, self.batch)
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
    def of_attention(self) -> "Hardware":
        """The hardware as attention and its projections see it: split by heads, or this one."""
        machine = self.design.machine
        if machine.splits_attention == machine.splits_mlp or machine.cores == 1:
            return self
        split = machine.model_copy(update={"mapping": "tensor"})
        return replace(self, design=self.design.model_copy(update={"machine": split}))

    @cached_property
    def is_tensor(self) -> bool:
        """Every matrix is split by columns over the cores."""
        return self.design.machine.splits_mlp

    @cached_property
    def is_lockstep(self) -> bool:
        """One stream of weights paces all cores: broadcast weights, or slices of one matrix."""
        return self.is_tensor or self.design.machine.weight_sharing == "broadcast"

    @cached_property
    def part(self) -> Slice:
        """The share of every matrix that one core works on."""
        return Slice(self.design.machine.cores if self.is_tensor else 1)

    @cached_property
    def home_loads(self) -> tuple[int, ...]:
        """Sequences of each core where all compute and nothing is split, most loaded first."""
        cores = self.design.machine.cores
        return tuple(self.batch // cores + (c < self.batch % cores) for c in range(cores))

    @cached_property
    def slots(self) -> int:
        """Sequences that one core has room for."""
        return slots_per_core(self.batch, self.design.machine.cores)

    def dispatch_cycles(self, schedule: str) -> int:
        """Cycles from the decisions of a layer to its last MLP instruction sent."""
        machine = self.design.machine
        # Without a register, static takes the whole batch at once.
        group = self.batch if schedule == "static" else machine.drs.index_register_bits
        return dispatch_cycles(machine.drs, schedule, min(self.batch, group), machine.cores)
