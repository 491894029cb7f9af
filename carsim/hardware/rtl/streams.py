"""The streams of the scheduler block: scores become a mapping, instructions follow it."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from carsim.hardware.rtl.tas import Comparator

MINUS_ZERO = 0x80000000
"""FP32 number that is equal to 0 and has other bits."""


class Assigner(wiring.Component):
    """Compares one score a cycle and gives each sequence that computes the next core in turn.

    Ports:
        begin: A layer begins; the cycle before ``active``.
        active: Scores are taken.
        batch, cores, threshold: Of the layer; stable from ``begin`` on.
        tdata, tlast, tvalid, tready: Stream of scores.
        write: The decision on ``sequence`` is ``computes``, on ``core``.
        through: All decisions are written.
        bad: TLAST came too early or too late.

    Args:
        sequences: Most sequences.
        core_bits: Of a core's number.
    """

    def __init__(self, sequences: int, core_bits: int) -> None:
        count = range(sequences + 1)
        super().__init__(
            {
                "begin": In(1),
                "active": In(1),
                "batch": In(count),
                "cores": In(core_bits + 1),
                "threshold": In(32),
                "tdata": In(32),
                "tlast": In(1),
                "tvalid": In(1),
                "tready": Out(1),
                "write": Out(1),
                "sequence": Out(count),
                "computes": Out(1),
                "core": Out(core_bits),
                "through": Out(1),
                "bad": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Two counters around the comparator, which takes a cycle."""
        m = Module()
        arrived = Signal.like(self.batch)
        taken, is_last = Signal(), Signal()
        m.submodules.comparator = comparator = Comparator()
        limit, tau = Signal(32), Mux(self.threshold == MINUS_ZERO, 0, self.threshold)
        m.d.sync += limit.eq(tau ^ Mux(tau[31], 0xFFFFFFFF, MINUS_ZERO))
        m.d.comb += [
            self.tready.eq(self.active & (arrived != self.batch)),
            taken.eq(self.tvalid & self.tready),
            is_last.eq(arrived == self.batch - 1),
            self.bad.eq(taken & (self.tlast != is_last)),
            comparator.valid.eq(taken),
            comparator.score.eq(self.tdata),
            comparator.limit.eq(limit),
            self.write.eq(comparator.decided & self.active),
            self.computes.eq(~comparator.replay),
            self.through.eq(self.active & (self.sequence == self.batch)),
        ]
        with m.If(self.begin):
            m.d.sync += [arrived.eq(0), self.sequence.eq(0), self.core.eq(0)]
        with m.Else():
            with m.If(taken):
                m.d.sync += arrived.eq(arrived + 1)
            with m.If(self.write):
                m.d.sync += self.sequence.eq(self.sequence + 1)
            with m.If(self.write & self.computes):
                m.d.sync += self.core.eq(Mux(self.core == self.cores - 1, 0, self.core + 1))
        return m


class Gate(wiring.Component):
    """Accepts the instructions of a layer, and knows when each sequence has had its last one.

    Ports:
        begin: A layer begins; before ``active``.
        active: Instructions are taken.
        batch: Sequences of the layer; stable while it is ``active``.
        tid, tlast, tvalid, tready: Stream of instructions, of which ``tdata`` goes by.
        room: There is room for one more.
        accepted: An instruction of this layer is taken.
        through: Every sequence has had its TLAST.
        bad: TID is not of the batch, or had its TLAST before; that instruction is dropped.

    Args:
        sequences: Most sequences.
    """

    def __init__(self, sequences: int) -> None:
        self._sequences = sequences
        super().__init__(
            {
                "begin": In(1),
                "active": In(1),
                "batch": In(range(sequences + 1)),
                "tid": In(max(1, (sequences - 1).bit_length())),
                "tlast": In(1),
                "tvalid": In(1),
                "tready": Out(1),
                "room": In(1),
                "accepted": Out(1),
                "through": Out(1),
                "bad": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """A bit a sequence, and a counter."""
        m = Module()
        ended, finished = Signal.like(self.batch), Signal(self._sequences)
        taken, unknown = Signal(), Signal()
        m.d.comb += [
            self.through.eq(self.active & (ended == self.batch)),
            self.tready.eq(self.active & ~self.through & self.room),
            taken.eq(self.tvalid & self.tready),
            unknown.eq((self.tid >= self.batch) | finished.bit_select(self.tid, 1).any()),
            self.bad.eq(taken & unknown),
            self.accepted.eq(taken & ~unknown),
        ]
        with m.If(self.begin):
            m.d.sync += [ended.eq(0), finished.eq(0)]
        with m.Elif(self.accepted & self.tlast):
            m.d.sync += [ended.eq(ended + 1), finished.bit_select(self.tid, 1).eq(1)]
        return m
