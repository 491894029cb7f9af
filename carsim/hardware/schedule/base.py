"""What a schedule is: who computes the MLPs that are not replayed, and what telling them costs."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from carsim.base.section import GrownSection
from carsim.base.sizes import PositiveInt

if TYPE_CHECKING:
    import simpy  # only fidelity `tile` loads it

Cycles = Annotated[int, Field(ge=0, le=1_000_000)]
Instructions = Annotated[int, Field(gt=0, le=1_000_000)]
Cores = NDArray[np.int64]
Bools = NDArray[np.bool_]
Process = Generator["simpy.Event", Any, None]
Send = Callable[[int, int, int], "simpy.Event | None"]
"""What the dispatcher tells the cores: (sequence, instruction, core). Returns when the core takes
the instruction, before which nothing else is checked; None if it does at once."""

CyclesOf = Callable[["Schedule", int], int]
"""(Schedule, how many sequences compute) -> cycles of such an MLP on a machine."""

REPLAYS = -1
"""Stands in an assignment for a sequence that replays and needs no core."""


class Registers(GrownSection):
    """Registers and instruction dispatch of FastCar section 5; the key ``machine.drs``.

    The paper gives no cycle counts: the defaults are assumptions.
    """

    later: ClassVar[frozenset[str]] = frozenset({"core_queue_instructions"})

    index_register_bits: PositiveInt = Field(
        32, description="sequences it can hold; larger batches run in groups of this size"
    )
    latch_cycles: Cycles = Field(8, description="to latch the decisions of a layer")
    scan_cycles_per_sequence: Cycles = Field(
        1, description="round robin over the Index Register, one Mapping Register at a time"
    )
    instructions_per_sequence: Instructions = Field(
        64, description="precompiled instructions of one sequence's MLP"
    )
    cycles_per_instruction: Cycles = Field(
        4, description="to check one instruction and discard it or send it to a core"
    )

    core_queue_instructions: Instructions | None = Field(
        None,
        description="instructions that may wait at each core, under a central schedule; null: no "
        "instruction finds a full queue, as with 4 if those of all sequences come in turn",
    )

    @property
    def check_cycles(self) -> int:
        """Cycles to check all instructions of one sequence."""
        return self.instructions_per_sequence * self.cycles_per_instruction


class Schedule(ABC):
    """Assigns the sequences that compute an MLP to cores and dispatches their instructions.

    Contract, which one test holds every kind to:

    * ``assign`` gives every computing sequence exactly one core in range and every replaying one
      :data:`REPLAYS`; a row depends on nothing but that row; no core gets more than
      ``slots_per_core`` sequences;
    * ``dispatch``, which most kinds inherit, sends every instruction of every computing sequence
      once, to the core that ``assign`` names, none of a replaying one, and ends after
      ``dispatch_cycles``;
    * ``fitted``, which few kinds have, returns a schedule that keeps the same promises.

    To add one: a file with a subclass, and a line in ``carsim.hardware.schedule.SCHEDULES``. The
    machine asks for nothing else.
    """

    kind: ClassVar[str]
    """Name in YAML: ``policy.schedule``."""
    label: ClassVar[str]
    """Name in tables."""
    central: ClassVar[bool] = True
    """One dispatcher behind the Index Register serves all cores. It holds a limited number of
    sequences, and activations travel to the core that it picks. If not, every core keeps its own
    sequences and checks their instructions itself."""

    compared: ClassVar[bool] = False
    """Every run shows it; other kinds join where a design names them."""

    interleaves_tokens: ClassVar[bool] = False
    """Where ranges of tokens decide in a forward, a core keeps every C-th token of C cores; if not,
    a core that keeps its own tokens has neighbouring ones. A run of such forwards shows it."""

    @abstractmethod
    def assign(self, computing: Bools, cores: int) -> Cores:  # [n, B] -> [n, B]
        """The core of each sequence, for many layer-steps at once.

        Args:
            computing: Sequences that compute, of each layer-step; the others replay.
            cores: Cores of the machine.
        """

    @abstractmethod
    def dispatch_cycles(self, registers: Registers, batch: int, cores: int) -> int:
        """Cycles from the decisions of a layer to its last instruction.

        It depends on how many sequences there are, not on which compute: every instruction is
        checked, the discarded ones too.
        """

    def dispatch(
        self,
        env: "simpy.Environment",
        registers: Registers,
        computing: Sequence[bool],
        cores: int,
        send: Send,
    ) -> Process:
        """The dispatcher as a SimPy process; it starts when the decisions of a layer are known.

        A central dispatcher latches, scans, then checks the instructions of all sequences; if not,
        core n checks those of sequences n, n + cores, ..., all cores side by side.
        """
        (mapping,) = self.assign(np.array([computing]), cores).tolist()  # the Mapping Registers
        sequences = list(enumerate(mapping))
        if self.central:
            scan_cycles = len(sequences) * registers.scan_cycles_per_sequence
            yield env.timeout(registers.latch_cycles + scan_cycles)
            yield from check_instructions(env, registers, sequences, send)
        else:
            checks = []
            for core in range(cores):
                sequences_of_core = sequences[core::cores]
                check = check_instructions(env, registers, sequences_of_core, send)
                checks.append(env.process(check))
            yield env.all_of(checks)

    def fitted(self, cycles_of: CyclesOf, batch: int, cores: int) -> "Schedule":
        """This schedule for one machine: itself, unless it looks at what the machine takes.

        Args:
            cycles_of: Cycles of an MLP on the machine, under any schedule.
            batch: Sequences that are dispatched together.
            cores: Cores of the machine.
        """
        return self


def slots_per_core(batch: int, cores: int) -> int:
    """Sequences that a core has room for: an even share of the batch, rounded up."""
    return -(-batch // cores)


def check_instructions(
    env: "simpy.Environment", registers: Registers, sequences: Sequence[tuple[int, int]], send: Send
) -> Process:
    """Check the instructions of sequences one after the other, send them or discard them.

    Args:
        env: The event loop.
        registers: What one check costs.
        sequences: Each sequence and its core, :data:`REPLAYS` for one whose instructions are
            discarded.
        send: Told of every instruction sent.
    """
    for sequence, core in sequences:
        for instruction in range(registers.instructions_per_sequence):
            yield env.timeout(registers.cycles_per_instruction)
            if core != REPLAYS:
                accepted = send(sequence, instruction, core)
                if accepted is not None:
                    yield accepted
