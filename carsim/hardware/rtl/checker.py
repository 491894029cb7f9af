"""The instruction dispatcher: check instruction after instruction, send it or discard it.

The checker walks over the precompiled instructions of sequence 0, 1, ... and asks for each whether
its sequence computes, and where. The instruction memory is read in the same cycle, so that its
output register is what a core sees: the checker itself never holds an instruction.
"""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out


class Checker(wiring.Component):
    """Checks the instructions of ``count`` sequences, ``check_cycles`` cycles each.

    An instruction that computes is offered to its core and held until the core takes it (valid and
    ready); the next check begins in the cycle in which it is taken. Nothing overtakes: a core that
    is not ready holds up all others, as one dispatcher serves them in order.

    Ports:
        begin: First cycle of the first check.
        count: Sequences; stable from ``begin`` to ``done``.
        sequence: Whose instruction is checked.
        computes: It computes; asked of the register by the parent.
        core: Its core, if it does.
        leaves: The last instruction of ``sequence`` is checked in this cycle.
        fetch, address: Enable and address of the instruction memory, whose output follows a cycle
            later and stays while ``fetch`` is low.
        valid: The output of the memory is for this core, one bit a core, one bit at most.
        ready: The core takes it if it is offered.
        sent: Sequence of the instruction that is offered.
        done: The last check is over, and what it sent is taken; one cycle long.

    Args:
        width: Most sequences.
        cores: Cores.
        instructions: Instructions of each sequence.
        check_cycles: Cycles of a check, at least 1.
    """

    def __init__(self, *, width: int, cores: int, instructions: int, check_cycles: int) -> None:
        self._instructions, self._check_cycles = instructions, check_cycles
        self._cores = cores
        super().__init__(
            {
                "begin": In(1),
                "count": In(range(width + 1)),
                "sequence": Out(range(width)),
                "computes": In(1),
                "core": In(range(cores)),
                "leaves": Out(1),
                "fetch": Out(1),
                "address": Out(range(width * instructions)),
                "valid": Out(cores),
                "ready": In(cores),
                "sent": Out(range(width)),
                "done": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Three counters and a register of one bit a core."""
        m = Module()
        active, ending = Signal(), Signal()
        instruction = Signal(range(self._instructions))
        wait = Signal(range(self._check_cycles), init=self._check_cycles - 1)
        running, stalled, check, last = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            running.eq(active | (self.begin & (self.count != 0))),
            stalled.eq((self.valid & ~self.ready).any()),
            check.eq(running & ~stalled & (wait == 0)),
            self.leaves.eq(check & (instruction == self._instructions - 1)),
            last.eq(self.leaves & (self.sequence == self.count - 1)),
            self.fetch.eq(check),
            self.done.eq((ending & ~stalled) | (self.begin & (self.count == 0))),
        ]
        with m.If(~stalled):
            m.d.sync += [self.valid.eq(0), ending.eq(0)]
        with m.If(running):
            m.d.sync += active.eq(1)
            with m.If(~stalled):
                m.d.sync += wait.eq(Mux(wait == 0, self._check_cycles - 1, wait - 1))
        with m.If(check):
            m.d.sync += [
                self.valid.eq(self.computes << self.core),
                self.sent.eq(self.sequence),
                self.address.eq(self.address + 1),
                instruction.eq(instruction + 1),
            ]
        with m.If(self.leaves):
            m.d.sync += [instruction.eq(0), self.sequence.eq(self.sequence + 1)]
        with m.If(last):
            m.d.sync += [
                active.eq(0),
                ending.eq(1),
                self.sequence.eq(0),
                self.address.eq(0),
            ]
        return m


class Program(wiring.Component):
    """The instruction memory: the host writes it, one checker reads it.

    Ports:
        fetch, address: Of the checker.
        word: The instruction, a cycle later, for the core that the checker names.
        write, place, written: Of the host: enable, address and instruction.

    Args:
        sequences: Sequences whose instructions it holds.
        instructions: Of each.
        bits: Of an instruction.
    """

    def __init__(self, sequences: int, instructions: int, bits: int = 128) -> None:
        self._depth, self._bits = sequences * instructions, bits
        place = range(self._depth)
        super().__init__(
            {
                "fetch": In(1),
                "address": In(place),
                "word": Out(bits),
                "write": In(1),
                "place": In(place),
                "written": In(bits),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Block RAM with a port for each."""
        m = Module()
        m.submodules.memory = memory = Memory(shape=self._bits, depth=self._depth, init=[])
        read, write = memory.read_port(), memory.write_port()
        m.d.comb += [
            read.en.eq(self.fetch),
            read.addr.eq(self.address),
            self.word.eq(read.data),
            write.en.eq(self.write),
            write.addr.eq(self.place),
            write.data.eq(self.written),
        ]
        return m
