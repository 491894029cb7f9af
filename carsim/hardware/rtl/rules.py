"""The rule of a central schedule: which core is the next computing sequence's."""

from operator import attrgetter

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from carsim.base.registry import Registry
from carsim.hardware.schedule import slots_per_core
from carsim.hardware.schedule.drs import Drs
from carsim.hardware.schedule.pack import Pack


class Rule(wiring.Component):
    """State of a rule between two sequences; ``schedule`` of a class names what it is the rule of.

    Ports:
        clear: Begin anew, with the first computing sequence.
        take: The sequence that is looked at computes, and takes ``core``.
        sequences: Sequences that are dispatched together; stable.
        core: Core of the next sequence that computes.

    Args:
        width: Most sequences.
        cores: Cores.
    """

    def __init__(self, width: int, cores: int) -> None:
        self._width, self._cores = width, cores
        super().__init__(
            {
                "clear": In(1),
                "take": In(1),
                "sequences": In(range(width + 1)),
                "core": Out(range(cores)),
            }
        )


class RoundRobin(Rule):
    """Core 0, 1, ..., cores - 1, 0, ...: :class:`carsim.hardware.schedule.drs.Drs`."""

    schedule = Drs.kind

    def elaborate(self, platform: object) -> Module:
        """One counter."""
        m = Module()
        with m.If(self.clear):
            m.d.sync += self.core.eq(0)
        with m.Elif(self.take):
            m.d.sync += self.core.eq(Mux(self.core == self._cores - 1, 0, self.core + 1))
        return m


class Fill(Rule):
    """One core after the other, each to its last slot: the rule."""

    schedule = Pack.kind

    def elaborate(self, platform: object) -> Module:
        """Two counters; slots by sequences are a table, as a divider would be larger."""
        m = Module()
        slot = Signal(range(self._width))
        of = [max(1, slots_per_core(n, self._cores)) - 1 for n in range(self._width + 1)]
        last = Signal(range(self._width))
        m.d.comb += last.eq(Array(of)[self.sequences])
        with m.If(self.clear):
            m.d.sync += [self.core.eq(0), slot.eq(0)]
        with m.Elif(self.take):
            with m.If(slot == last):
                m.d.sync += [self.core.eq(self.core + 1), slot.eq(0)]
            with m.Else():
                m.d.sync += slot.eq(slot + 1)
        return m


RULES: Registry[type[Rule]] = Registry("RTL rule", attrgetter("schedule"), (RoundRobin, Fill))
"""By the schedule of which each is the scan."""
