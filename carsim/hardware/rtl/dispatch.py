"""The dispatcher of a layer: scores become a mapping, and instructions follow it.

Scores arrive one a sequence and are compared with the threshold. The Index Register (a bit a
sequence: it computes) and the Mapping Registers (its core) are one RAM, written by the schedule:

* ``drs``: a sequence that computes gets the next core in turn, as its score arrives;
* ``static``: so does every sequence, whether or not it computes;
* ``tuned``: round robin over as many cores as a table says for the number of sequences that
  compute. That number is known with the last score, so that a second pass over the RAM gives the
  cores: one cycle a sequence, and one to look the number up.

Then each instruction names its sequence, whose entry of the RAM says whether to send or to discard
it, and where to.
"""

from typing import TYPE_CHECKING

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from carsim.hardware.schedule import BASELINE
from carsim.hardware.schedule.tuned import Tuned

if TYPE_CHECKING:
    from carsim.hardware.rtl.block import BlockSize

TUNED = Tuned.kind
"""The schedule that uses as many cores as a table says."""

MINUS_ZERO = 0x80000000
"""FP32 number that is equal to 0 and has other bits."""

NAN = 0xFF800001
"""Smallest number, in the order of :func:`_ordered`, that stands for none."""


class Dispatcher(wiring.Component):
    """Decisions, mapping and checks of instructions: the block without its queues and registers.

    Ports:
        begin: A layer begins; the cycle before ``deciding``.
        deciding, checking: Scores are taken; instructions are taken.
        batch, cores, threshold: Of the layer; stable from ``begin`` on.
        table: Cores to use (bits 15:8) if as many sequences compute as bits 7:0 say; of no effect
            if these are 0. Only of ``tuned``.
        s_axis_score_*, s_axis_instr_*: As of the block; ``tdata`` of instructions goes by.
        room: There is room for one more instruction.
        write, computes: A decision is there, and what it is.
        decided: All sequences have their decision and core.
        dispatched, skipped: An instruction is accepted, for ``core`` or to be discarded.
        through: Every sequence has had its TLAST.
        bad: TLAST of a score came too early or too late; TID of an instruction is not of the batch,
            or had its TLAST before, and the instruction is dropped.

    Args:
        size: What is built.
    """

    def __init__(self, size: "BlockSize") -> None:
        self._size = size
        input_bits = {
            "begin": 1,
            "deciding": 1,
            "checking": 1,
            "room": 1,
            "threshold": 32,
            "table": 16,
            "batch": bits_for(size.sequences),
            "cores": size.core_bits + 1,
        }
        events = ("write", "computes", "decided", "dispatched", "skipped", "through", "bad")
        ports = {name: In(bits) for name, bits in input_bits.items()}
        ports |= size.incoming
        ports |= {name: Out(1) for name in events}
        ports["core"] = Out(size.core_bits)
        super().__init__(ports)

    def elaborate(self, platform: object) -> Module:
        """Scores first, then instructions; both use the RAM."""
        m = Module()
        # An entry of a sequence: whether it computes (bit 0), and its core.
        mapping = Memory(shape=1 + self._size.core_bits, depth=self._size.sequences, init=[])
        m.submodules.mapping = mapping
        read = mapping.read_port(domain="comb")
        bad_score = self._decide(m)
        self._map(m, mapping, read.data[0])
        bad_instruction = self._check(m, read.data[0])
        m.d.comb += [
            self.bad.eq(bad_score | bad_instruction),
            self.core.eq(read.data[1:]),
            read.addr.eq(self.s_axis_instr_tid),
        ]
        if self._size.schedule == TUNED:
            with m.If(self.deciding):
                m.d.comb += read.addr.eq(self._sequence)
        return m

    def _decide(self, m: Module) -> Value:
        """Compare a score a cycle with the threshold.

        Returns:
            Whether the TLAST of the score that is accepted is wrong.
        """
        arrived = Signal(range(self._size.sequences + 1))
        accepted = Signal()
        limit = Signal(32)
        score = Signal(32)
        decided = Signal()
        replay = Signal()
        m.d.sync += [
            limit.eq(_ordered(Mux(self.threshold == MINUS_ZERO, 0, self.threshold))),
            decided.eq(accepted),
            replay.eq((score > limit) & (score < NAN)),
        ]
        m.d.comb += [
            score.eq(_ordered(self.s_axis_score_tdata)),
            self.s_axis_score_tready.eq(self.deciding & (arrived != self.batch)),
            accepted.eq(self.s_axis_score_tvalid & self.s_axis_score_tready),
            self.write.eq(decided & self.deciding),
            self.computes.eq(~replay),
        ]
        with m.If(self.begin):
            m.d.sync += arrived.eq(0)
        with m.Elif(accepted):
            m.d.sync += arrived.eq(arrived + 1)
        is_last = arrived == self.batch - 1
        return accepted & (self.s_axis_score_tlast != is_last)

    def _map(self, m: Module, mapping: Memory, computes: Value) -> None:
        """Write decisions and cores; ``computes`` is the decision that is read in a second pass."""
        write = mapping.write_port()
        sequence = Signal(range(self._size.sequences + 1))
        self._sequence = sequence
        core = Signal(self._size.core_bits)
        last_core = Signal(8)
        moves_on = Signal()
        is_over = Signal()
        m.d.comb += is_over.eq(self.deciding & (sequence == self.batch))
        if self._size.schedule == TUNED:
            second = self._second_pass(m, is_over, last_core)
            m.d.comb += [
                self.decided.eq(is_over & second),
                write.en.eq(self.write | (self.deciding & second & ~is_over)),
                write.data.eq(Cat(Mux(second, computes, self.computes), core)),
                moves_on.eq(second & computes),
            ]
        else:
            m.d.comb += [
                self.decided.eq(is_over),
                write.en.eq(self.write),
                write.data.eq(Cat(self.computes, core)),
                moves_on.eq(self.computes | (self._size.schedule == BASELINE.kind)),
                last_core.eq(self.cores - 1),
            ]
        m.d.comb += write.addr.eq(sequence)
        with m.If(self.begin | (is_over & ~self.decided)):
            m.d.sync += [sequence.eq(0), core.eq(0)]
        with m.Elif(write.en):
            m.d.sync += sequence.eq(sequence + 1)
            with m.If(moves_on):
                m.d.sync += core.eq(Mux(core == last_core, 0, core + 1))

    def _second_pass(self, m: Module, is_over: Value, last_core: Signal) -> Signal:
        """Count the sequences that compute, and look up the last core of the round robin.

        Entries of the table that were never written, or that exceed the cores in use, stand for
        all of these.

        Args:
            m: Module that the logic is added to.
            is_over: All sequences have been passed once more.
            last_core: Written: the core after which the round robin begins again.

        Returns:
            Whether the second pass runs.
        """
        size = self._size
        # The entry of all sequences may be that of none, as addresses are cut: none needs a core.
        table = Memory(shape=size.core_bits + 1, depth=1 << size.sequence_bits, init=[])
        m.submodules.table = table
        write = table.write_port()
        read = table.read_port(domain="comb")
        second = Signal()
        computing = Signal(range(size.sequences + 1))
        entry = self.table[:8]
        cores_of_entry = self.table[8:]
        m.d.comb += [
            write.addr.eq(entry),
            write.data.eq(Mux(cores_of_entry > size.cores, 0, cores_of_entry)),
            write.en.eq(~is_refused(entry, size.sequences)),
            read.addr.eq(computing),
        ]
        all_cores = (read.data == 0) | (read.data > self.cores)
        with m.If(self.begin):
            m.d.sync += [second.eq(0), computing.eq(0)]
        with m.Elif(is_over):
            used_cores = Mux(all_cores, self.cores, read.data)
            m.d.sync += [second.eq(1), last_core.eq(used_cores - 1)]
        with m.Elif(self.write & self.computes):
            m.d.sync += computing.eq(computing + 1)
        return second

    def _check(self, m: Module, computes: Value) -> Value:
        """Accept instructions, and send or discard them.

        Args:
            m: Module that the logic is added to.
            computes: Decision on the sequence of the instruction.

        Returns:
            Whether an instruction arrives whose sequence is not of the batch or has ended.
        """
        ended_sequences = Signal(range(self._size.sequences + 1))
        has_ended = Signal(self._size.sequences)  # a bit for each sequence
        tid = self.s_axis_instr_tid
        accepted = Signal()
        arrives = Signal()
        unknown = Signal()
        m.d.comb += [
            self.through.eq(self.checking & (ended_sequences == self.batch)),
            self.s_axis_instr_tready.eq(self.checking & ~self.through & self.room),
            arrives.eq(self.s_axis_instr_tvalid & self.s_axis_instr_tready),
            unknown.eq((tid >= self.batch) | has_ended.bit_select(tid, 1).any()),
            accepted.eq(arrives & ~unknown),
            self.dispatched.eq(accepted & computes),
            self.skipped.eq(accepted & ~computes),
        ]
        with m.If(self.begin):
            m.d.sync += [ended_sequences.eq(0), has_ended.eq(0)]
        with m.Elif(accepted & self.s_axis_instr_tlast):
            m.d.sync += [
                ended_sequences.eq(ended_sequences + 1),
                has_ended.bit_select(tid, 1).eq(1),
            ]
        return arrives & unknown


def _ordered(bits: Value) -> Value:
    """An FP32 number as a whole number of the same order."""
    return bits ^ Mux(bits[31], 0xFFFFFFFF, MINUS_ZERO)


def is_refused(count: Value, most: int) -> Value:
    """A number of sequences or cores that no layer can have."""
    return (count == 0) | (count > most)
