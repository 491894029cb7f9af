"""The scheduler block: what an FPGA engineer instantiates of the Dynamic Resource Scheduler.

Scores of one layer arrive on an AXI4-Stream, one a sequence. Each is compared with the threshold,
and sequences get their cores (:mod:`carsim.hardware.rtl.dispatch`). Then the instructions of all
sequences arrive on a second stream, with the sequence as TID and TLAST at the last one of each
sequence. An instruction of a sequence that replays is discarded, any other enters the queue of its
core. Each core has an AXI4-Stream of its own, as a core that is not ready would hold up all others
on a common one. Sequences may come one after the other or interleaved.

A layer ends with ``done`` when each sequence has had its TLAST and each core has taken what was
queued, or with ``error``: after at most ``TIMEOUT`` cycles, whatever the ports do. Registers:
:mod:`carsim.hardware.rtl.registers`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from amaranth.hdl import Cat, ClockDomain, ClockSignal, Module, ResetSignal, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from carsim.base.errors import InputError
from carsim.hardware.rtl.axi_lite import AXI_LITE, AxiLiteRegisters
from carsim.hardware.rtl.dispatch import TUNED, Dispatcher, is_refused
from carsim.hardware.rtl.registers import REGISTERS, TABLE, VERSION, Register
from carsim.hardware.schedule import BASELINE, DEFAULT

SCHEDULES = (DEFAULT.kind, BASELINE.kind, TUNED)
"""Ways to give sequences their cores: :mod:`carsim.hardware.rtl.dispatch`."""

LIMITS = {"cores": 16, "sequences": 64, "queue": 1024, "data_bits": 1024}
"""Largest sizes that are built."""

INFINITY = 0x7F800000
"""Bits of an FP32 number; what exceeds them, its sign left out, is no number."""


@dataclass(frozen=True)
class BlockSize:
    """Sizes of a block as it is built; fewer cores and sequences can be used at run time.

    Attributes:
        cores: Cores, each with its queue.
        sequences: Most sequences of a layer.
        queue: Instructions that the queue of a core holds.
        data_bits: Of an instruction, whole bytes.
        schedule: One of :data:`SCHEDULES`.

    Raises:
        InputError: A size is out of range.
    """

    cores: int = 4
    sequences: int = 32
    queue: int = 4
    data_bits: int = 128
    schedule: str = DEFAULT.kind

    def __post_init__(self) -> None:
        for name, most in LIMITS.items():
            value = getattr(self, name)
            if not 1 <= value <= most:
                raise InputError(f"`{name}`", f"got {value}", f"give 1 to {most}")
        if self.schedule not in SCHEDULES:
            cure = f"choose one of {', '.join(SCHEDULES)}"
            raise InputError("`schedule`", f"got {self.schedule!r}", cure)
        if self.data_bits % 8:
            raise InputError("`data_bits`", f"got {self.data_bits}", "give whole bytes of 8 bits")

    @property
    def sequence_bits(self) -> int:
        """Of a sequence's number: TID of the instructions, TUSER of a core."""
        return max(1, (self.sequences - 1).bit_length())

    @property
    def core_bits(self) -> int:
        """Of a core's number: TDEST."""
        return max(1, (self.cores - 1).bit_length())

    @property
    def ports(self) -> dict[str, wiring.Member]:
        """All ports of the module."""
        return {"aclk": In(1), "aresetn": In(1), **AXI_LITE, **self.streams}

    @property
    def registers(self) -> tuple[Register, ...]:
        """Registers of the block."""
        return (*REGISTERS, TABLE) if self.schedule == TUNED else REGISTERS

    @property
    def incoming(self) -> dict[str, wiring.Member]:
        """Ports of scores and instructions, without the data of instructions."""
        handshake = {"tlast": In(1), "tvalid": In(1), "tready": Out(1)}
        score = {"tdata": In(32), **handshake}
        instruction = {"tid": In(self.sequence_bits), **handshake}
        ports = {f"s_axis_score_{name}": port for name, port in score.items()}
        ports |= {f"s_axis_instr_{name}": port for name, port in instruction.items()}
        return ports

    @property
    def streams(self) -> dict[str, wiring.Member]:
        """Ports of all streams, and of what ends a layer, by their names in Verilog."""
        outgoing = {
            "tdata": Out(self.data_bits),
            "tdest": Out(self.core_bits),
            "tuser": Out(self.sequence_bits),
            "tlast": Out(1),
            "tvalid": Out(1),
            "tready": In(1),
        }
        ports = self.incoming
        ports["s_axis_instr_tdata"] = In(self.data_bits)
        for core in range(self.cores):
            ports |= {f"m{core:02}_axis_{name}": port for name, port in outgoing.items()}
        ports["done"] = Out(1)
        ports["error"] = Out(1)
        return ports


class SchedulerCore(wiring.Component):
    """The block without registers: their values are ports.

    Ports:
        enable: A layer begins when its first score arrives.
        clear: Ends an error.
        batch, cores, threshold, timeout: As of the registers; stable while ``busy``.
        table: As of the register, 0 except for one cycle; only of ``tuned``.
        busy: A layer is being dispatched.
        left: Cycles until the layer is stopped with an error.
        bad_config, bad_stream, timed_out: Cause of the error.
        dispatched, skipped: An instruction is accepted, for a core or to be discarded.
        stalled: An instruction waits for a queue.
        s_axis_score_*: An FP32 score a sequence, in order; TLAST with the last one of the layer.
        s_axis_instr_*: Instructions; TID is the sequence, TLAST its last instruction.
        mNN_axis_*: To core NN; TDEST is NN, TUSER the sequence, TLAST its last instruction.
        done: A layer has ended without an error; one cycle long.
        error: A layer has ended in an error; high until ``clear``.

    Args:
        size: What is built.
    """

    def __init__(self, size: BlockSize) -> None:
        self.size = size
        input_bits = {
            "enable": 1, "clear": 1, "batch": 8, "cores": 8, "threshold": 32, "timeout": 32,
            "table": 16,
        }  # fmt: skip
        output_bits = {
            "busy": 1, "left": 32, "bad_config": 1, "bad_stream": 1, "timed_out": 1,
            "dispatched": 1, "skipped": 1, "stalled": 1,
        }  # fmt: skip
        inputs = {name: In(bits) for name, bits in input_bits.items()}
        outputs = {name: Out(bits) for name, bits in output_bits.items()}
        super().__init__(inputs | outputs | size.streams)

    def elaborate(self, platform: object) -> Module:
        """A state machine around dispatcher and queues."""
        m = Module()
        m.submodules.dispatcher = dispatcher = Dispatcher(self.size)
        connect(m, self, dispatcher, self.size.incoming)
        shared = {name: In(1) for name in ("batch", "cores", "threshold", "table")}
        connect(m, self, dispatcher, shared | {"dispatched": Out(1), "skipped": Out(1)})
        self._states(m, dispatcher, self._queues(m, dispatcher))
        return m

    def _queues(self, m: Module, dispatcher: Dispatcher) -> Value:
        """A queue of two that all instructions enter, then one a core; whether all are empty.

        The first one keeps the paths from the queues' levels to ``tready`` apart from those from
        ``tvalid`` to what is counted.
        """
        instruction = Cat(self.s_axis_instr_tdata, self.s_axis_instr_tid, self.s_axis_instr_tlast)
        m.submodules.first = first = SyncFIFO(width=len(instruction) + self.size.core_bits, depth=2)
        target = Signal(self.size.core_bits)
        has_room = Signal(self.size.cores)  # a bit for each core's queue
        waiting = Signal(self.size.cores + 1)  # a bit for each core's queue, and one for the first
        m.d.comb += [
            first.w_data.eq(Cat(instruction, dispatcher.core)),
            first.w_en.eq(self.dispatched),
            first.r_en.eq(has_room.bit_select(target, 1).any()),
            target.eq(first.r_data[len(instruction) :]),
            waiting[-1].eq(first.r_rdy),
            dispatcher.room.eq(first.w_rdy),
            self.stalled.eq(first.r_rdy & ~first.r_en),
        ]
        for core in range(self.size.cores):
            queue = SyncFIFO(width=len(instruction), depth=self.size.queue)
            m.submodules[f"queue_{core}"] = queue
            stream = f"m{core:02}_axis_"
            data: Signal = getattr(self, f"{stream}tdata")
            user: Signal = getattr(self, f"{stream}tuser")
            last: Signal = getattr(self, f"{stream}tlast")
            dest: Signal = getattr(self, f"{stream}tdest")
            valid: Signal = getattr(self, f"{stream}tvalid")
            ready: Signal = getattr(self, f"{stream}tready")
            m.d.comb += [
                queue.w_data.eq(first.r_data),
                queue.w_en.eq(first.r_rdy & (target == core)),
                has_room[core].eq(queue.w_rdy),
                Cat(data, user, last).eq(queue.r_data),
                dest.eq(core),
                valid.eq(queue.r_rdy),
                queue.r_en.eq(ready),
                waiting[core].eq(queue.r_rdy),
            ]
        return waiting == 0

    def _states(self, m: Module, dispatcher: Dispatcher, empty: Value) -> None:
        """IDLE, a check of the configuration, SCORES, INSTRUCTIONS, and ERROR."""
        late = Signal()
        bad_config = Signal()
        is_over = Signal()
        m.d.comb += [
            late.eq(self.busy & ~dispatcher.begin & (self.left == 0)),
            is_over.eq(dispatcher.through & empty),
            bad_config.eq(
                is_refused(self.batch, self.size.sequences)
                | is_refused(self.cores, self.size.cores)
                | (self.threshold[:31] > INFINITY)
            ),
        ]
        m.d.sync += self.left.eq(self.left - 1)

        causes = Cat(self.bad_config, self.bad_stream, self.timed_out)

        def stop(condition: Value) -> None:
            with m.If(condition | late):
                m.d.sync += causes.eq(Cat(dispatcher.begin & bad_config, dispatcher.bad, late))
                m.next = "ERROR"

        with m.FSM(name="state"):
            with m.State("IDLE"), m.If(self.enable & self.s_axis_score_tvalid):
                m.next = "CHECK"
            with m.State("CHECK"):
                m.d.comb += [self.busy.eq(1), dispatcher.begin.eq(1)]
                m.d.sync += self.left.eq(self.timeout)
                m.next = "SCORES"
                stop(bad_config)
            with m.State("SCORES"):
                m.d.comb += [self.busy.eq(1), dispatcher.deciding.eq(1)]
                with m.If(dispatcher.decided):
                    m.next = "INSTRUCTIONS"
                stop(dispatcher.bad)
            with m.State("INSTRUCTIONS"):
                m.d.comb += [self.busy.eq(1), dispatcher.checking.eq(1), self.done.eq(is_over)]
                with m.If(is_over):
                    m.next = "IDLE"
                with m.Else():
                    stop(dispatcher.bad)
            with m.State("ERROR"):
                m.d.comb += self.error.eq(1)
                with m.If(self.clear):
                    m.d.sync += causes.eq(0)
                    m.next = "IDLE"


class SchedulerBlock(wiring.Component):
    """Core and registers in Amaranth's domain ``sync``; ports as :class:`SchedulerTop` has them.

    Args:
        size: What is built.
    """

    def __init__(self, size: BlockSize) -> None:
        self.size = size
        super().__init__({**AXI_LITE, **size.streams})

    def elaborate(self, platform: object) -> Module:
        """Wires, and the counters."""
        m = Module()
        table = ("table",) if TABLE in self.size.registers else ()
        m.submodules.registers = registers = AxiLiteRegisters(self.size.registers)
        m.submodules.core = core = SchedulerCore(self.size)
        connect(m, self, registers, AXI_LITE)
        connect(m, self, core, self.size.streams)
        for name in ("clear", "batch", "cores", "threshold", "timeout", *table):
            m.d.comb += getattr(core, name).eq(getattr(registers, name))
        status = Cat(core.busy, core.error, core.bad_config, core.bad_stream, core.timed_out)
        size = self.size.cores | self.size.sequences << 8 | self.size.queue << 16
        m.d.comb += [
            core.enable.eq(registers.control[0]),
            registers.locked.eq(core.busy),
            registers.read_version.eq(VERSION),
            registers.read_size.eq(size),
            registers.read_status.eq(status),
        ]
        for name in ("layers", "dispatched", "skipped", "stalled"):
            event = core.done if name == "layers" else getattr(core, name)
            counter = Signal(32, name=name)
            m.d.comb += getattr(registers, f"read_{name}").eq(counter)
            with m.If(registers.clear):
                m.d.sync += counter.eq(0)
            with m.Elif(event):
                m.d.sync += counter.eq(counter + 1)
        return m


class SchedulerTop(wiring.Component):
    """The block with a clock ``aclk`` and a synchronous reset ``aresetn``, active low.

    Ports:
        s_axil_*: :class:`carsim.hardware.rtl.axi_lite.AxiLiteRegisters`.
        s_axis_*, mNN_axis_*, done, error: :class:`SchedulerCore`.

    Args:
        size: What is built.
    """

    def __init__(self, size: BlockSize) -> None:
        self.size = size
        super().__init__(size.ports)

    def elaborate(self, platform: object) -> Module:
        """Wires alone."""
        m = Module()
        m.domains.sync = ClockDomain()
        m.submodules.block = block = SchedulerBlock(self.size)
        m.d.comb += [ClockSignal().eq(self.aclk), ResetSignal().eq(~self.aresetn)]
        connect(m, self, block, {**AXI_LITE, **self.size.streams})
        return m


def connect(
    m: Module, outer: wiring.Component, inner: wiring.Component, ports: Mapping[str, wiring.Member]
) -> None:
    """Lead ports of a component to the ports of the same names inside it."""
    for name, port in ports.items():
        inner_port = getattr(inner, name)
        outer_port = getattr(outer, name)
        if port.flow is In:
            m.d.comb += inner_port.eq(outer_port)
        else:
            m.d.comb += outer_port.eq(inner_port)
