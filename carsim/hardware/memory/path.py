"""The way between the fabric and one memory: bandwidth by access pattern, and latency.

Model: the sustained rate is the lesser of what the DRAM sustains for the access pattern
(:mod:`carsim.hardware.memory.sustained`) and what its ports carry. Streams that take turns reach
the memory in the pieces that bursts are cut to (:class:`~carsim.hardware.memory.section.Ports`);
random chunks reach it whole, as the controller's queue brings their pieces together. Addresses go
round the channels in stripes (:mod:`carsim.hardware.memory.striping`).

A bandwidth that was measured on the board (``efficiency_low``, ``efficiency_high``) replaces the
model's rate of long reads: the rate is at the middle of the two ends, which are its interval.
Other access patterns gain or lose by the same factor, up to the peak. The ports stay a limit. A
range of other boards (``published_efficiency_low``, ``published_efficiency_high``) leaves the rate
at the model's value and is its interval, widened to hold that value.

Simplifications: a port's share of a burst does not depend on which other ports are active; ports
carry equal shares; a busy channel holds up no port that has bursts left to ask for.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from carsim.base.errors import InputError
from carsim.base.text import number
from carsim.base.units import bytes_per_cycle, ns_to_cycles
from carsim.hardware.memory.base import MemoryStandard
from carsim.hardware.memory.section import Memory
from carsim.hardware.memory.sustained import Sustained, idle_latency_ns, sustained
from carsim.hardware.memory.traffic import AccessPattern

MODEL_ERROR = 0.05
"""Relative error of the model's bandwidth of long reads.

It erred by at most 4.3 % on seven devices with a published bandwidth, and is held to 2 % (DDR4) and
5 % (HBM2) of cycle-accurate simulators (``carsim validate dram``)."""


@dataclass(frozen=True, slots=True)
class Path:
    """The way between the fabric and one memory, for one access pattern.

    Attributes:
        name: Name of the memory.
        rate: Sustained bytes per fabric cycle.
        latency_cycles: From request to first byte, in an idle system.
        peak_gbps: Peak bandwidth of the memory.
        dram_gbps: What the memory sustains for this access pattern.
        port_gbps: What the ports carry.
    """

    name: str
    rate: Fraction
    latency_cycles: int
    peak_gbps: float
    dram_gbps: float
    port_gbps: float

    @property
    def sustained_gbps(self) -> float:
        """The lesser of memory and ports."""
        return min(self.dram_gbps, self.port_gbps)

    @property
    def limited_by(self) -> str:
        """``memory`` or ``port``, whichever carries less."""
        return "port" if self.port_gbps < self.dram_gbps else "memory"


def port_gbps(memory: Memory, latency_ns: float, run_bytes: int | None = None) -> float:
    """Bandwidth of the ports of a memory, in GB/s.

    Each port loses ``burst_overhead_beats`` per burst and can have ``outstanding`` bursts in
    flight, so it carries the lesser of its data width at that efficiency and bursts over latency,
    and no more than its share of a port of the controller.

    Args:
        memory: The memory.
        latency_ns: From request to first byte.
        run_bytes: Contiguous bytes of a request, made of bursts; one longest burst if left out.
    """
    ports = memory.ports
    run = run_bytes or ports.burst_bytes
    bursts = -(-run // ports.burst_bytes)
    beat_bytes = ports.bits / 8
    beats = -(-8 * run // ports.bits)
    beats_with_overhead = beats + bursts * ports.burst_overhead_beats
    peak_gbps = beat_bytes * ports.clock_mhz * 1e-3
    wire_gbps = peak_gbps * (run / beat_bytes) / beats_with_overhead
    # Little's law: bytes in flight over the latency.
    in_flight_gbps = ports.outstanding * (run / bursts) / latency_ns
    one_port_gbps = min(wire_gbps, in_flight_gbps)
    if ports.controller_gbps is not None:
        sharing_ports = min(ports.count, ports.ports_per_controller)
        one_port_gbps = min(one_port_gbps, ports.controller_gbps / sharing_ports)
    return ports.count * one_port_gbps


@dataclass(frozen=True)
class MemoryPath:
    """The way between the fabric and one memory, whatever the access pattern.

    Attributes:
        name: Name of the memory.
        memory: Its section of the design.
        clock_mhz: Clock of the fabric.
    """

    name: str
    memory: Memory
    clock_mhz: float
    _path_of: dict[AccessPattern, Path] = field(default_factory=dict, repr=False, compare=False)

    @functools.cached_property
    def standard(self) -> MemoryStandard:
        """Timings of the memory."""
        try:
            row = self.memory.part
            row.width(self.memory.channel_bits)
        except InputError as error:
            field_of_design = f"$.board.memories.{self.name}.{error.place}"
            raise InputError(field_of_design, error.problem, error.cure) from None
        return row

    @functools.cached_property
    def idle_ns(self) -> float:
        """Latency from request to data in an idle system."""
        return idle_latency_ns(self.standard) + self.memory.interconnect_ns

    @property
    def latency_cycles(self) -> int:
        """Latency from request to data in an idle system, in fabric cycles."""
        return ns_to_cycles(self.idle_ns, self.clock_mhz)

    def rate(self, pattern: AccessPattern) -> Fraction:
        """Sustained bytes per fabric cycle for a pattern; a new one takes some 20 ms."""
        return self.at(pattern).rate

    def interval(self, pattern: AccessPattern) -> tuple[Fraction, Fraction]:
        """Lowest and highest rate that measurements leave plausible, around :meth:`rate`.

        The interval of the memory holds for long reads; other patterns lose or gain the same share.
        """
        path = self.at(pattern)
        low, high = self._end_factors
        least = self._rate(min(path.dram_gbps * low, path.port_gbps))
        most_gbps = min(path.dram_gbps * high, path.peak_gbps, path.port_gbps)
        return max(least, Fraction(1, 4096)), self._rate(most_gbps)

    @property
    def width_remark(self) -> str:
        """A line on a channel that is wider than the standard's; empty if it is not.

        Narrower channels are usual: a board may solder fewer devices than a module has.
        """
        usual_bits = self.standard.channel_bits
        channel_bits = self.memory.channel_bits
        if channel_bits <= usual_bits:
            return ""
        times = number(channel_bits / usual_bits)
        return (
            f"memory {self.name}: a channel of {channel_bits} bits is {times} times as wide as one "
            f"of {self.memory.standard}; set channel_bits: {usual_bits}, and count its channels"
        )

    @property
    def remark(self) -> str:
        """A line on a measured bandwidth that contradicts model or ports; empty if none does."""
        if self.memory.measured_efficiency is None:
            return ""
        low, high = self.memory.measured_efficiency
        interval = number(low) if low == high else f"{number(low)} to {number(high)}"
        measured = f"memory {self.name}: the measured {interval} of its peak"
        port_share = port_gbps(self.memory, self.idle_ns) / self.memory.peak_gbps
        if port_share < self._efficiency:
            return f"{measured} is more than its ports carry in the model, {number(port_share)}"
        modelled_share = min(self._modelled_efficiency, port_share)
        if abs(self._efficiency / modelled_share - 1) <= MODEL_ERROR:
            return ""
        return (
            f"{measured} replaces the model's {number(modelled_share)}; the model erred by at most "
            f"{100 * MODEL_ERROR:.0f} % on published devices"
        )

    def at(self, pattern: AccessPattern) -> Path:
        """The path for one pattern.

        Raises:
            InputError: The table of standards has no such memory, or nothing comes through its
                ports.
        """
        if pattern not in self._path_of:
            self._path_of[pattern] = self._path(pattern)
        return self._path_of[pattern]

    def _path(self, pattern: AccessPattern) -> Path:
        """The path for one pattern, calculated anew; errors as of :meth:`at`."""
        modelled = self._sustained(pattern)
        dram_gbps = min(modelled.sustained_gbps * self._measured_factor, modelled.peak_gbps)
        ports = port_gbps(self.memory, self.idle_ns, pattern.chunk_bytes)
        rate = self._rate(min(dram_gbps, ports))
        if not rate:
            least_gbps, limit = min((ports, "ports"), (dram_gbps, "memory"))
            rate_text = f"sustains {least_gbps:.3g} GB/s (limit: {limit})"
            problem = f"{rate_text}, less than a byte in 8,192 cycles"
            cure = "raise its data rate or ports, or lower its timings or interconnect_ns"
            raise InputError(f"$.board.memories.{self.name}", problem, cure)
        return Path(
            name=self.name,
            rate=rate,
            latency_cycles=self.latency_cycles,
            peak_gbps=modelled.peak_gbps,
            dram_gbps=dram_gbps,
            port_gbps=ports,
        )

    def _sustained(self, pattern: AccessPattern) -> Sustained:
        """Bandwidth that the memory sustains for a pattern of the fabric."""
        memory = self.memory
        chunk_bytes = pattern.chunk_bytes
        if pattern.is_contiguous:
            chunk_bytes = memory.ports.burst_bytes  # contiguous chunks of any length are alike
        elif pattern.streams > 1 and not pattern.random:
            chunk_bytes = min(chunk_bytes, memory.ports.piece_bytes)
        mapping = pattern.mapping or memory.mapping
        at_memory = replace(pattern, chunk_bytes=chunk_bytes, mapping=mapping)
        return sustained(
            self.standard, at_memory, striping=memory.striping, channel_bits=memory.channel_bits
        )

    @functools.cached_property
    def _modelled_efficiency(self) -> float:
        """Share of the peak that the model gives long reads."""
        long_reads = AccessPattern(chunk_bytes=self.memory.ports.burst_bytes)
        return self._sustained(long_reads).efficiency

    @functools.cached_property
    def _efficiency(self) -> float:
        """Share of the peak that long reads sustain: measured (middle of range), or modelled."""
        if self.memory.measured_efficiency is None:
            return self._modelled_efficiency
        low, high = self.memory.measured_efficiency
        return (low + high) / 2

    @functools.cached_property
    def _measured_factor(self) -> float:
        """Measured over modelled bandwidth of long reads; 1 where nothing was measured."""
        if self.memory.measured_efficiency is None or not self._modelled_efficiency:
            return 1.0  # timings under which nothing moves are refused with the rate
        return self._efficiency / self._modelled_efficiency

    @functools.cached_property
    def _end_factors(self) -> tuple[float, float]:
        """Ends of the efficiency of long reads over the efficiency itself, which lies within."""
        memory = self.memory
        if memory.measured_efficiency is not None:
            low, high = memory.measured_efficiency
            return low / self._efficiency, high / self._efficiency
        modelled = self._modelled_efficiency
        if not modelled:
            return 1.0, 1.0
        low = memory.published_efficiency_low or modelled
        high = memory.published_efficiency_high or modelled
        return min(1.0, low / modelled), max(1.0, high / modelled)

    def _rate(self, gbps: float) -> Fraction:
        return bytes_per_cycle(gbps, self.clock_mhz)


memory_path = functools.lru_cache(maxsize=1024)(MemoryPath)
"""The path to one memory; the same object for the same arguments, so that rates are cached."""


def bandwidth_remarks(memories: Mapping[str, Memory], clock_mhz: float) -> list[str]:
    """Lines on memories whose bandwidth may be wrong.

    The measured bandwidth contradicts the model or the ports, or a channel is wider than usual.

    Args:
        memories: Memories of a board by name.
        clock_mhz: Clock of the fabric.
    """
    paths = [memory_path(name, memory, clock_mhz) for name, memory in memories.items()]
    remarks = [remark for path in paths for remark in (path.remark, path.width_remark)]
    return [remark for remark in remarks if remark]
