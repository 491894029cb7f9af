"""Registers behind AXI4-Lite, made from their description."""

from collections.abc import Sequence

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from carsim.hardware.rtl.registers import Access, Register

ADDRESS_BITS = 12
"""4 KiB, the smallest range that an AXI interconnect assigns."""

_CHANNELS = (
    ("aw", In, Out, {"addr": ADDRESS_BITS, "prot": 3}),
    ("w", In, Out, {"data": 32, "strb": 4}),
    ("b", Out, In, {"resp": 2}),
    ("ar", In, Out, {"addr": ADDRESS_BITS, "prot": 3}),
    ("r", Out, In, {"data": 32, "resp": 2}),
)
AXI_LITE = {
    f"s_axil_{channel}{name}": port
    for channel, forward, backward, fields in _CHANNELS
    for name, port in {
        **{field: forward(bits) for field, bits in fields.items()},
        "valid": forward(1),
        "ready": backward(1),
    }.items()
}
"""Ports of the interface, by the names that FPGA tools recognise."""

SLVERR = 0b10


class AxiLiteRegisters(wiring.Component):
    """One transfer at a time in each direction; an answer follows in the next cycle.

    A write is answered with SLVERR and does nothing if its address is unknown or read-only, if it
    sets a bit that the register lacks, if it writes only some bytes, or if it is to a register of
    the configuration while ``locked``.

    Ports:
        locked: Registers of the configuration cannot be written.
        read_NAME: Value of a register that the host only reads.
        NAME: Value of a register that the host writes; of a pulse, high for one cycle.
        s_axil_*: AXI4-Lite.

    Args:
        registers: Their description.
    """

    def __init__(self, registers: Sequence[Register]) -> None:
        self._registers = registers
        ports = {"locked": In(1), **AXI_LITE}
        for register in registers:
            name = register.name.lower()
            if register.access is Access.READ:
                ports[f"read_{name}"] = In(32)
            else:
                ports[name] = Out(register.bits, init=register.reset)
        super().__init__(ports)

    def elaborate(self, platform: object) -> Module:
        """Two independent halves: writes and reads."""
        m = Module()
        self._write(m)
        self._read(m)
        return m

    def _write(self, m: Module) -> None:
        """Address and data are taken together, while no answer waits."""
        accepted = Signal()
        m.d.comb += [
            accepted.eq(self.s_axil_awvalid & self.s_axil_wvalid & ~self.s_axil_bvalid),
            self.s_axil_awready.eq(accepted),
            self.s_axil_wready.eq(accepted),
        ]
        with m.If(self.s_axil_bready):
            m.d.sync += self.s_axil_bvalid.eq(0)
        # A write is refused unless one of the registers below accepts it.
        with m.If(accepted):
            m.d.sync += [self.s_axil_bvalid.eq(1), self.s_axil_bresp.eq(SLVERR)]
        for register in self._registers:
            if register.access is Access.READ:
                continue
            value = getattr(self, register.name.lower())
            sets_bits_beyond = (self.s_axil_wdata >> register.bits).any()
            refused = sets_bits_beyond | ~self.s_axil_wstrb.all()
            if register.access is Access.CONFIG:
                refused |= self.locked
            if register.access is Access.PULSE:
                m.d.sync += value.eq(0)
            is_addressed = self.s_axil_awaddr == register.offset
            with m.If(accepted & is_addressed & ~refused):
                m.d.sync += [self.s_axil_bresp.eq(0), value.eq(self.s_axil_wdata)]

    def _read(self, m: Module) -> None:
        """The value of the cycle in which the address is taken."""
        accepted = Signal()
        m.d.comb += [
            accepted.eq(self.s_axil_arvalid & ~self.s_axil_rvalid),
            self.s_axil_arready.eq(accepted),
        ]
        with m.If(self.s_axil_rready):
            m.d.sync += self.s_axil_rvalid.eq(0)
        with m.If(accepted):
            m.d.sync += [
                self.s_axil_rvalid.eq(1),
                self.s_axil_rdata.eq(0),
                self.s_axil_rresp.eq(SLVERR),
            ]
            with m.Switch(self.s_axil_araddr):
                for register in self._registers:
                    name = register.name.lower()
                    is_input = register.access is Access.READ
                    value = getattr(self, f"read_{name}" if is_input else name)
                    with m.Case(register.offset):
                        m.d.sync += [self.s_axil_rdata.eq(value), self.s_axil_rresp.eq(0)]
