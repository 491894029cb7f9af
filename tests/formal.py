"""What the scheduler block promises, as logic around it, and Yosys's SAT solver to prove it."""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from amaranth.asserts import AnyConst, AnySeq
from amaranth.back import rtlil
from amaranth.hdl import Array, Assert, Assume, Cat, Elaboratable, Module, Mux, Signal, Value
from amaranth.lib.wiring import In

from carsim.hardware.rtl.block import INFINITY
from carsim.hardware.rtl.registers import REGISTERS, Access
from carsim.hardware.rtl.synthesise import RUN

PREPARE = "read_rtlil in.il; proc; flatten; memory_map; chformal -lower; opt -full; opt_clean"


def holds(bench: Elaboratable, *, steps: int, induction: bool = False) -> bool:
    """Whether all assertions hold: for ever by induction over ``steps``, or in the first ``steps``.

    Raises:
        RuntimeError: Yosys gives no answer.
    """
    how = f"-tempinduct -maxsteps {steps}" if induction else f"-seq {steps}"
    script = f"{PREPARE}; sat -prove-asserts -set-assumes {how} -verify"
    with TemporaryDirectory() as folder:
        text = rtlil.convert(bench, name="top", platform="formal", ports=[])
        Path(folder, "in.il").write_text(text, encoding="utf-8")
        command = [sys.executable, "-c", RUN, "-p", script]
        ran = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if ran.returncode == 0:
        return True
    if "proof did fail" in ran.stdout + ran.stderr:
        return False
    raise RuntimeError((ran.stdout + ran.stderr)[-4000:])


class Bench(Elaboratable):
    """A component whose inputs are free in every cycle."""

    def __init__(self, dut: Any) -> None:
        self.dut = dut

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.dut = self.dut
        for name, port in self.dut.signature.members.items():
            if port.flow is In:
                m.d.comb += getattr(self.dut, name).eq(self.free(name, port.shape))
        self.promise(m)
        return m

    def free(self, name: str, shape: Any) -> Value:
        return AnySeq(shape)

    def promise(self, m: Module) -> None:
        raise NotImplementedError

    def before(self, m: Module, value: Value) -> Signal:
        """The value of the cycle before."""
        past = Signal(len(value))
        m.d.sync += past.eq(value)
        return past

    def stays_until_ready(self, m: Module, valid: Value, ready: Value, payload: Value) -> None:
        waits, held = self.before(m, valid & ~ready), self.before(m, payload)
        with m.If(waits):
            m.d.comb += [Assert(valid), Assert(payload == held)]


class Interfaces(Bench):
    """A core keeps the rules of AXI4-Stream, and each layer ends in time, whatever the ports do."""

    def promise(self, m: Module) -> None:
        dut = self.dut
        for core in range(dut.size.cores):
            data, user, last, dest, valid, ready = outputs(dut, core)
            self.stays_until_ready(m, valid, ready, Cat(data, user, last, dest))
            m.d.comb += Assert(dest == core)
        config = Cat(dut.batch, dut.cores, dut.threshold, dut.timeout)
        was_busy, was_done = self.before(m, dut.busy), self.before(m, dut.done)
        config_before = self.before(m, config)
        with m.If(was_busy & dut.busy):
            m.d.comb += Assume(config == config_before)
        elapsed, begun = Signal(32), Signal()
        m.d.comb += begun.eq(dut.busy & was_busy)
        m.d.sync += elapsed.eq(Mux(begun, elapsed + 1, 0))
        with m.If(begun):
            m.d.comb += [Assert(elapsed <= dut.timeout), Assert(elapsed + dut.left == dut.timeout)]
        with m.If(was_busy & ~dut.busy):
            m.d.comb += Assert(was_done ^ dut.error)
        cause = dut.bad_config | dut.bad_stream | dut.timed_out
        m.d.comb += [Assert(~(dut.done & dut.error)), Assert(cause == dut.error)]


class AxiLite(Bench):
    """One answer to each request, which stays; a locked configuration does not change."""

    def promise(self, m: Module) -> None:
        dut = self.dut
        self.stays_until_ready(m, dut.s_axil_bvalid, dut.s_axil_bready, dut.s_axil_bresp)
        answer = Cat(dut.s_axil_rdata, dut.s_axil_rresp)
        self.stays_until_ready(m, dut.s_axil_rvalid, dut.s_axil_rready, answer)
        wrote = dut.s_axil_awvalid & dut.s_axil_awready
        m.d.comb += Assert(wrote == (dut.s_axil_wvalid & dut.s_axil_wready))
        for taken, valid, ready in (
            (wrote, dut.s_axil_bvalid, dut.s_axil_bready),
            (dut.s_axil_arvalid & dut.s_axil_arready, dut.s_axil_rvalid, dut.s_axil_rready),
        ):
            owed = Signal()
            m.d.sync += owed.eq(taken | (valid & ~ready))
            m.d.comb += [Assert(valid == owed), Assert(~(taken & valid))]
        config = Cat(
            getattr(dut, each.name.lower()) for each in REGISTERS if each.access is Access.CONFIG
        )
        was_locked, config_before = self.before(m, dut.locked), self.before(m, config)
        with m.If(was_locked):
            m.d.comb += Assert(config == config_before)


class Decision(Bench):
    """A sequence computes unless its score exceeds the threshold, for all FP32 numbers."""

    def free(self, name: str, shape: Any) -> Value:
        return AnyConst(shape) if name == "threshold" else AnySeq(shape)

    def promise(self, m: Module) -> None:
        dut = self.dut
        taken = self.before(m, dut.s_axis_score_tvalid & dut.s_axis_score_tready)
        exceeded = self.before(m, exceeds(dut.s_axis_score_tdata, dut.threshold))
        begun = Signal()
        m.d.sync += begun.eq(1)
        m.d.comb += Assume((begun | ~dut.deciding) & (dut.threshold[:31] <= INFINITY))
        with m.If(dut.write):
            m.d.comb += [Assert(taken), Assert(dut.computes == ~exceeded)]


class Delivery(Bench):
    """Each instruction is taken once, by the core of its sequence, in order; counters add up.

    The core and the place in its order are free constants, so that the proof is of all of them.
    Of scores and threshold only sign and first bits are free, as :class:`Decision` has all.
    """

    def free(self, name: str, shape: Any) -> Value:
        constant = name in ("batch", "cores", "threshold", "timeout")
        return AnyConst(shape) if constant else AnySeq(shape)

    def promise(self, m: Module) -> None:
        dut, most = self.dut, self.dut.size.sequences
        core, place = Signal(dut.size.core_bits), Signal(4)
        m.d.comb += [core.eq(AnyConst(len(core))), place.eq(AnyConst(4))]
        low = dut.s_axis_score_tdata[:28] | dut.threshold[:28]
        m.d.comb += Assume((core < dut.size.cores) & (low == 0))

        # Decisions and cores, said in another way than the block does. The table is written between
        # layers; of two sequences only its entry of both matters.
        scores, computing = Signal(range(most + 1)), Signal(4)
        entry = Signal(8, reset_less=True)  # a reset leaves RAM as it is
        ranks = Array(Signal(4, name=f"rank_{n}") for n in range(most))
        computes = Array(Signal(name=f"computes_{n}") for n in range(most))
        begins = dut.busy & ~self.before(m, dut.busy)
        scored = dut.s_axis_score_tvalid & dut.s_axis_score_tready
        replays = exceeds(dut.s_axis_score_tdata, dut.threshold)
        with m.If(begins):
            m.d.sync += [scores.eq(0), computing.eq(0)]
        with m.Elif(scored):
            m.d.sync += [
                scores.eq(scores + 1),
                ranks[scores].eq(computing),
                computes[scores].eq(~replays),
                computing.eq(computing + ~replays),
            ]
        m.d.comb += Assume(~dut.busy | (dut.table == 0))
        with m.If(dut.table[:8] == most):
            m.d.sync += entry.eq(dut.table[8:])
        is_told = (computing == most) & (entry != 0) & (entry <= dut.cores)
        turn = Mux(is_told & (dut.size.schedule == "tuned"), entry, dut.cores)

        # Instructions that enter, and those that this core takes.
        tid, tlast = dut.s_axis_instr_tid, dut.s_axis_instr_tlast
        enters = dut.s_axis_instr_tvalid & dut.s_axis_instr_tready
        ended = Array(Signal(name=f"ended_{n}") for n in range(most))
        wrong = (tid >= dut.batch) | ended[tid]
        with m.If(begins):
            m.d.sync += [each.eq(0) for each in ended]
        with m.Elif(enters & ~wrong):
            m.d.sync += ended[tid].eq(tlast)
        m.d.comb += [
            Assert(dut.dispatched == (enters & ~wrong & computes[tid])),
            Assert(dut.skipped == (enters & ~wrong & ~computes[tid])),
        ]
        entered, left, known = Signal(4), Signal(4), Signal()
        instruction = Cat(dut.s_axis_instr_tdata, tid, tlast)
        noted = Signal(len(instruction))
        with m.If(dut.dispatched & (ranks[tid] % turn[:2] == core)):
            m.d.sync += entered.eq(entered + 1)
            with m.If(entered == place):
                m.d.sync += [noted.eq(instruction), known.eq(1)]
        for number in range(dut.size.cores):
            data, user, last, _, valid, ready = outputs(dut, number)
            with m.If((core == number) & valid & ready):
                m.d.sync += left.eq(left + 1)
                m.d.comb += Assert(left < entered)
                with m.If(left == place):
                    m.d.comb += [Assert(known), Assert(Cat(data, user, last) == noted)]
        m.d.comb += Assume(entered != 15)
        with m.If(dut.done):
            m.d.comb += [Assert(left == entered), Assert(scores == dut.batch)]
            m.d.comb += [Assert((n >= dut.batch) | ended[n]) for n in range(most)]


class Reaches(Delivery):
    """Promises that no layer of two sequences that compute ends: false, unless nothing can."""

    def promise(self, m: Module) -> None:
        sent = Signal(4)
        with m.If(self.dut.dispatched):
            m.d.sync += sent.eq(sent + 1)
        m.d.comb += Assert(~(self.dut.done & (sent >= 3) & (self.dut.batch == 2)))


def outputs(dut: Any, core: int) -> tuple[Any, ...]:
    names = ("data", "user", "last", "dest", "valid", "ready")
    return tuple(getattr(dut, f"m{core:02}_axis_t{name}") for name in names)


def exceeds(score: Value, tau: Value) -> Value:
    """``score > tau`` of two FP32 numbers, by sign and magnitude; of NaN it is false."""
    size, limit = score[:31], tau[:31]
    both_positive = ~score[31] & ~tau[31] & (size > limit)
    both_negative = score[31] & tau[31] & (size < limit)
    across = ~score[31] & tau[31] & ((size | limit) != 0)
    return (size <= INFINITY) & (both_positive | both_negative | across)
