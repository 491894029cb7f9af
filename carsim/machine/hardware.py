"""A design turned into the constants that hardware models run on: cycles, bytes, rates.

Model: one path per memory (:mod:`carsim.memory.path`).

Simplifications: the access pattern is that of the design as a whole - as many streams as cores
fetch on their own, in bursts of the ports' longest length, reads only (writes are under 1 % of the
bytes of decoding).
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from carsim.design import Design
from carsim.machine.drs import dispatch_cycles, slots_per_core
from carsim.memory import AccessPattern, Path, memory_path
from carsim.workload.ops import Slice, Stream


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
                memory_path(name, memory, board.fabric_clock_mhz).at(
                    AccessPattern(streams, memory.ports.burst_bytes)
                )
                for name, memory in sorted(board.memories.items())
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
