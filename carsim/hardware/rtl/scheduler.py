"""The Dynamic Resource Scheduler of FastCar section 5, and other central schedules.

``start`` says that the last sequence of a layer has its decision. The Index Register latches the
decisions; a scan gives each computing sequence its core in a Mapping Register, by the rule of the
schedule; then the instructions are checked (:mod:`carsim.hardware.rtl.checker`). The Python of the
same is :class:`carsim.hardware.schedule.drs.Drs`.

With ``scan_cycles`` 0 there is no scan and no Mapping Register: instructions come in the order of
sequences, so that the rule can follow the checker, a sequence at a time. That is less logic and
takes less time; Mapping Registers are needed where instructions of sequences are interleaved.

A batch beyond the Index Register goes in groups. The first begins with ``start``, every other one
with ``proceed``, which says that the cores are done with the group before; each begins with core 0.
"""

from typing import NamedTuple

from amaranth.hdl import Array, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from carsim.hardware.rtl.checker import Checker
from carsim.hardware.rtl.rules import RULES
from carsim.hardware.schedule import Registers


def check_clocked(registers: Registers, *names: str) -> None:
    """Refuse what no clocked logic can do.

    Args:
        registers: Cycles, as of ``machine.drs``.
        names: Fields that must be at least 1.

    Raises:
        ValueError: A field is 0.
    """
    for name in names:
        if getattr(registers, name) < 1:
            raise ValueError(f"machine.drs.{name} is 0; clocked logic takes 1 or more")


class SequenceGroup(NamedTuple):
    """Sequences that the Index Register holds at a time.

    Attributes:
        begin: It begins.
        base: The first of its sequences.
        bits: Their decisions.
        count: Their number.
    """

    begin: Signal
    base: Signal
    bits: Signal
    count: Signal


class Scheduler(wiring.Component):
    """Index Register, scan, Mapping Registers and dispatcher.

    Ports:
        start: The decisions of a layer are known; ignored while it is busy.
        proceed: The next group may begin; ignored while it is busy, or if there is none.
        batch: Sequences, 1 to the most; stable. Of any other number nothing is dispatched.
        computing: A bit a sequence, 1 computes; stable until all groups are latched.
        fetch, address, valid, ready: As of the checker.
        sent: Sequence of the instruction that is offered, counted over all groups.
        done: The group is dispatched, or ``error``; one cycle long.
        error: ``batch`` was out of range at ``start``; in the cycle after it, with ``done``.
        more: Groups are left.

    Args:
        kind: Schedule, a key of :data:`carsim.hardware.rtl.rules.RULES`.
        cores: Cores.
        registers: Width of the Index Register, instructions and cycles, as of ``machine.drs``.
        most: Most sequences of a batch; the width of the Index Register if None.

    Raises:
        ValueError: No cycle to latch, or none to check, which no clocked logic can do.
    """

    def __init__(
        self, kind: str, cores: int, registers: Registers, *, most: int | None = None
    ) -> None:
        check_clocked(registers, "latch_cycles", "cycles_per_instruction")
        self._rule, self._cores, self._registers = RULES[kind], cores, registers
        self._width = registers.index_register_bits
        self._most = max(self._width, most or 0)
        super().__init__(
            {
                "start": In(1),
                "proceed": In(1),
                "batch": In(range(self._most + 1)),
                "computing": In(self._most),
                "fetch": Out(1),
                "address": Out(range(self._width * registers.instructions_per_sequence)),
                "valid": Out(cores),
                "ready": In(cores),
                "sent": Out(range(self._most)),
                "done": Out(1),
                "error": Out(1),
                "more": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """A state machine around the checker."""
        m = Module()
        width, registers = self._width, self._registers
        latch_cycles, scan_cycles = registers.latch_cycles, registers.scan_cycles_per_sequence
        m.submodules.rule = rule = self._rule(width, self._cores)
        m.submodules.checker = checker = Checker(
            width=width,
            cores=self._cores,
            instructions=registers.instructions_per_sequence,
            check_cycles=registers.cycles_per_instruction,
        )
        index, latch, group = Signal(width), Signal(), self._groups(m)
        wait = Signal(range(max(2, latch_cycles - 1, scan_cycles)))

        m.d.comb += [
            rule.sequences.eq(group.count),
            rule.clear.eq(latch),
            checker.count.eq(group.count),
            checker.computes.eq(index.bit_select(checker.sequence, 1)),
            self.fetch.eq(checker.fetch),
            self.address.eq(checker.address),
            self.valid.eq(checker.valid),
            checker.ready.eq(self.ready),
            self.sent.eq(checker.sent + group.base),
            self.done.eq(checker.done | self.error),
        ]
        m.d.sync += [checker.begin.eq(0), self.error.eq(0)]
        with m.If(latch):
            m.d.sync += index.eq(group.bits)

        if not scan_cycles:
            m.d.comb += [
                checker.core.eq(rule.core),
                rule.take.eq(checker.leaves & checker.computes),
            ]
        with m.FSM():
            with m.State("IDLE"):
                with m.If(group.begin & is_refused(self.batch, self._most)):
                    m.d.sync += self.error.eq(1)
                with m.Elif(group.begin):
                    if latch_cycles == 1:
                        m.d.comb += latch.eq(1)
                        self._after_latch(m, checker, wait)
                    else:
                        m.d.sync += wait.eq(latch_cycles - 2)
                        m.next = "LATCH"
            with m.State("LATCH"):
                m.d.sync += wait.eq(wait - 1)
                with m.If(wait == 0):
                    m.d.comb += latch.eq(1)
                    self._after_latch(m, checker, wait)
            if scan_cycles:
                self._scan(m, rule, checker, index, group.count, wait)
            with m.State("CHECK"), m.If(checker.done):
                m.next = "IDLE"
        return m

    def _groups(self, m: Module) -> SequenceGroup:
        """The group that is next."""
        width, groups = self._width, -(-self._most // self._width)
        found = SequenceGroup(
            Signal(name="begin"),
            Signal(range(self._most), name="base"),
            Signal(width, name="bits"),
            Signal(range(width + 1), name="count"),
        )
        begin, base, bits, count = found
        if groups == 1:
            m.d.comb += [begin.eq(self.start), bits.eq(self.computing), count.eq(self.batch)]
            return found
        group, left = Signal(range(groups)), Signal()
        firsts = [number * width for number in range(groups)]
        m.d.comb += [
            begin.eq(self.start | (self.proceed & self.more)),
            base.eq(Array(firsts)[group]),
            bits.eq(Array(self.computing[first : first + width] for first in firsts)[group]),
            left.eq((self.batch - base > width) & ~self.error),
            count.eq(Mux(left, width, self.batch - base)),
        ]
        with m.If(self.done):
            m.d.sync += [group.eq(Mux(left, group + 1, 0)), self.more.eq(left)]
        return found

    def _after_latch(self, m: Module, checker: Checker, wait: Signal) -> None:
        """Scan, or check at once."""
        scan_cycles = self._registers.scan_cycles_per_sequence
        if scan_cycles:
            m.d.sync += wait.eq(scan_cycles - 1)
            m.next = "SCAN"
        else:
            m.d.sync += checker.begin.eq(1)
            m.next = "CHECK"

    def _scan(
        self,
        m: Module,
        rule: wiring.Component,
        checker: Checker,
        index: Signal,
        count: Signal,
        wait: Signal,
    ) -> None:
        """A Mapping Register after the other."""
        sequence, written = Signal(range(self._width)), Signal()
        if self._cores > 1:
            m.submodules.mapping = mapping = Memory(
                shape=rule.core.shape(), depth=self._width, init=[]
            )
            write, read = mapping.write_port(), mapping.read_port(domain="comb")
            m.d.comb += [
                read.addr.eq(checker.sequence),
                checker.core.eq(read.data),
                write.addr.eq(sequence),
                write.data.eq(rule.core),
                write.en.eq(written),
            ]
        with m.State("SCAN"):
            m.d.sync += wait.eq(wait - 1)
            with m.If(wait == 0):
                m.d.comb += [
                    written.eq(1),
                    rule.take.eq(index.bit_select(sequence, 1)),
                ]
                m.d.sync += [
                    wait.eq(self._registers.scan_cycles_per_sequence - 1),
                    sequence.eq(sequence + 1),
                ]
                with m.If(sequence == count - 1):
                    m.d.sync += [sequence.eq(0), checker.begin.eq(1)]
                    m.next = "CHECK"


def is_refused(batch: Value, most: int) -> Value:
    """A number of sequences that no schedule can dispatch."""
    return (batch == 0) | (batch > most)


class OwnChecks(wiring.Component):
    """Static schedule: each core keeps its own sequences and checks their instructions itself.

    The Python of the same is :class:`carsim.hardware.schedule.static.Static`: core c has the
    sequences c, c + cores, ..., and all cores check in parallel, from the cycle of ``start`` on.

    Ports:
        start, batch, computing: As of :class:`Scheduler`; ``computing`` is stable until ``done``,
            since each core reads its own decisions where they were made.
        fetch, address: Of the instruction memory of each core.
        valid, ready: A bit a core.
        sent: Sequence of the instruction that is offered, of each core.
        done: All cores are through, or ``error``; one cycle long.
        error: As of :class:`Scheduler`.

    Args:
        cores: Cores.
        registers: Instructions, cycles, and, as ``index_register_bits``, most sequences.

    Raises:
        ValueError: No cycle to check.
    """

    def __init__(self, cores: int, registers: Registers) -> None:
        check_clocked(registers, "cycles_per_instruction")
        self._cores, self._registers = cores, registers
        self._most = registers.index_register_bits
        self._slots = -(-self._most // cores)
        address = range(self._slots * registers.instructions_per_sequence)
        super().__init__(
            {
                "start": In(1),
                "batch": In(range(self._most + 1)),
                "computing": In(self._most),
                "fetch": Out(cores),
                "address": Out(address).array(cores),
                "valid": Out(cores),
                "ready": In(cores),
                "sent": Out(range(self._most)).array(cores),
                "done": Out(1),
                "error": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """A checker a core."""
        m = Module()
        cores, most = self._cores, self._most
        over, through = Signal(cores), Signal(cores)
        refused = is_refused(self.batch, most)
        for core in range(cores):
            checker = Checker(
                width=self._slots,
                cores=1,
                instructions=self._registers.instructions_per_sequence,
                check_cycles=self._registers.cycles_per_instruction,
            )
            m.submodules[f"core_{core}"] = checker
            own = [self.computing[sequence] for sequence in range(core, most, cores)]
            counts = [len(range(core, batch, cores)) for batch in range(most + 1)]
            m.d.comb += [
                checker.begin.eq(self.start & ~refused),
                checker.count.eq(Array(counts)[self.batch]),
                checker.computes.eq(Array(own or [0])[checker.sequence]),
                self.fetch[core].eq(checker.fetch),
                self.address[core].eq(checker.address),
                self.valid[core].eq(checker.valid),
                checker.ready.eq(self.ready[core]),
                self.sent[core].eq(core + cores * checker.sent),
                over[core].eq(through[core] | checker.done),
            ]
        m.d.comb += self.done.eq(over.all() | self.error)
        m.d.sync += [through.eq(Mux(self.done, 0, over)), self.error.eq(self.start & refused)]
        return m
