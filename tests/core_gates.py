"""Two compute cores in gates and the memory that they share, to hold the machine model to.

Each core has a DMA that works off descriptors, a buffer of several tiles, an array of 8 x 8
multipliers of 8 bits, and a vector adder of 8 lanes. All figures of a phase are registers, so that
one elaborated design plays any number of phases.

A step multiplies the inputs of a core, [tokens, K], with weights [K, N] that stream from memory, in
folds of 8 x 8 weights: 64 bytes, ``tokens`` cycles each. Then the adder adds the products to the
residual, 8 elements a cycle.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from amaranth.hdl import Array, Cat, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.data import ArrayLayout
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from gates_bench import simulate
from ideal import operand
from numpy.typing import NDArray

from carsim.machine.lanes import LaneOp
from carsim.machine.phase import Phase
from carsim.machine.play import play_phases
from carsim.machine.solve import solver

SIDE = 8
"""Rows and columns of the array, lanes of the adder, bytes of a word of memory."""

FOLD_BYTES = SIDE * SIDE
MOST_STEPS, MOST_TOKENS, MOST_BLOCKS, MOST_SLOTS, MOST_FOLDS = 3, 8, 4, 4, 4
BYTES, SUMS = ArrayLayout(signed(8), SIDE), ArrayLayout(signed(32), SIDE)
SEED = 32
WORDS = 2048
"""Of the memory."""


@dataclass(frozen=True)
class GatePhase:
    """A phase of both cores.

    Attributes:
        blocks: K / 8 and N / 8 of each product, so that its weights have as many folds as their
            product; [steps, cores, 2].
        tokens: Of each core.
        tile_folds: Folds of a tile.
        slots: Tiles that a buffer holds.
        latency: Cycles from a request to its first word.
        words, cycles: The memory gives so many words in so many cycles.
        stall: Chance that the memory gives nothing in a cycle.
    """

    blocks: NDArray[np.int64]
    tokens: NDArray[np.int64]
    tile_folds: int
    slots: int
    latency: int
    words: int
    cycles: int
    stall: float


class GateCore(wiring.Component):
    """A DMA fills the buffer, the array empties it, the adder adds what the array has found."""

    def __init__(self) -> None:
        registers = {"steps": 3, "tokens": 4, "tile_folds": 4, "slots": 4, "base": 16, "start": 1}
        super().__init__(
            {name: In(bits) for name, bits in registers.items()}
            | {name: In(4).array(MOST_STEPS) for name in ("rows", "cols")}
            | {"done": Out(1), "asks": Out(1), "length": Out(8), "address": Out(16)}
            | {"word": In(8 * SIDE), "gives": In(1)}
        )
        depth = MOST_TOKENS * MOST_BLOCKS
        self.buffer = Memory(shape=ArrayLayout(BYTES, SIDE), depth=MOST_SLOTS * MOST_FOLDS, init=[])
        self.inputs = Memory(shape=BYTES, depth=depth, init=[])
        self.sums, self.residual = (Memory(shape=SUMS, depth=depth, init=[]) for _ in range(2))

    def elaborate(self, platform: object) -> Module:
        m, freed = Module(), Signal()
        self._compute(m, self._dma(m, freed), freed)
        return m

    def _dma(self, m: Module, freed: Signal) -> Signal:
        """Ask for tile after tile while slots are free; whether a tile has become whole."""
        step, folds_left, free = Signal(3), Signal(8), Signal(4)
        folds = Mux(folds_left < self.tile_folds, folds_left, self.tile_folds)
        m.d.comb += [
            self.asks.eq(~self.start & (free != 0) & (step != self.steps)),
            self.length.eq(folds << 3),
        ]
        m.d.sync += free.eq(free + freed - self.asks)
        with m.If(self.start):
            m.d.sync += [
                step.eq(0), free.eq(self.slots), self.address.eq(self.base),
                folds_left.eq(self.rows[0] * self.cols[0]),
            ]  # fmt: skip
        with m.Elif(self.asks):
            m.d.sync += self.address.eq(self.address + self.length)
            m.d.sync += folds_left.eq(folds_left - folds)
            with m.If(folds_left == folds):
                follows = (step + 1)[:2]
                of_step = Array(self.rows)[follows] * Array(self.cols)[follows]
                m.d.sync += [step.eq(step + 1), folds_left.eq(of_step)]
        # What arrives knows its place by itself: slot after slot, a word after the other.
        m.submodules.lengths = lengths = SyncFIFO(width=8, depth=8)
        count, arrived, slot = Signal(8), Signal(), Signal(4)
        m.d.comb += [
            lengths.w_data.eq(self.length), lengths.w_en.eq(self.asks), lengths.r_en.eq(arrived),
            arrived.eq(self.gives & (count == lengths.r_data - 1)),
        ]  # fmt: skip
        m.submodules.buffer = self.buffer
        write = self.buffer.write_port(granularity=1)
        m.d.comb += [
            write.addr.eq(slot * MOST_FOLDS + count[3:]),
            write.data.eq(self.word.replicate(SIDE)),
            write.en.eq(self.gives << count[:3]),
        ]
        with m.If(self.start):
            m.d.sync += [slot.eq(0), count.eq(0)]
        with m.Elif(self.gives):
            m.d.sync += count.eq(after(count, arrived))
            with m.If(arrived):
                m.d.sync += slot.eq(after(slot, slot == self.slots - 1))
        return arrived

    def _compute(self, m: Module, arrived: Signal, freed: Signal) -> None:
        """A token of a fold each cycle; between steps, eight sums of a token each cycle."""
        step, tiles, slot = Signal(3), Signal(4), Signal(4)
        token, fold, row, col = Signal(4), Signal(4), Signal(4), Signal(4)
        works, adds, last_token, last_row = Signal(), Signal(), Signal(), Signal()
        last_tile, last_fold = Signal(), Signal()
        rows, cols = Array(self.rows)[step[:2]], Array(self.cols)[step[:2]]
        m.d.comb += [
            works.eq(~adds & (tiles != 0)),
            last_token.eq(token == self.tokens - 1),
            last_row.eq(adds | (row == rows - 1)),
            last_tile.eq(last_row & (col == cols - 1)),
            last_fold.eq(adds | last_tile | (fold == self.tile_folds - 1)),
            freed.eq(works & last_token & last_fold),
            self.done.eq(~adds & (step == self.steps)),
        ]
        m.d.sync += tiles.eq(tiles + arrived - freed)
        with m.If(works | adds):
            m.d.sync += token.eq(after(token, last_token))
            with m.If(last_token):
                m.d.sync += [row.eq(after(row, last_row)), fold.eq(after(fold, last_fold))]
                with m.If(last_row):
                    m.d.sync += col.eq(after(col, last_tile))
                with m.If(last_tile):
                    m.d.sync += [adds.eq(works), step.eq(step + adds)]
        with m.If(freed):
            m.d.sync += slot.eq(after(slot, slot == self.slots - 1))
        with m.If(self.start):
            m.d.sync += [step.eq(0), slot.eq(0)]

        # 64 products and their sums by column, and the adder.
        m.submodules.inputs, m.submodules.sums = self.inputs, self.sums
        m.submodules.residual = self.residual
        x, w = (memory.read_port(domain="comb") for memory in (self.inputs, self.buffer))
        read, write = self.sums.read_port(domain="comb"), self.sums.write_port()
        old, new = self.residual.read_port(domain="comb"), self.residual.write_port()
        m.d.comb += [port.addr.eq(col * MOST_TOKENS + token) for port in (read, write, old, new)]
        for n in range(SIDE):
            products = [x.data[k] * w.data[k][n] for k in range(SIDE)]
            m.d.comb += [
                write.data[n].eq(Mux(adds, 0, read.data[n] + sum(products))),
                new.data[n].eq(old.data[n] + read.data[n]),
            ]
        m.d.comb += [
            x.addr.eq(row * MOST_TOKENS + token),
            w.addr.eq(slot * MOST_FOLDS + fold),
            write.en.eq(works | adds),
            new.en.eq(adds),
        ]


def after(value: Signal, is_last: Any) -> Any:
    """The next of a value that counts up, and begins again after the last."""
    return Mux(is_last, 0, value + 1)


class GateMachine(wiring.Component):
    """Two cores, and a memory that gives one request at a time its words, cores in turn.

    The rest of a cycle goes to the next request.
    """

    def __init__(self) -> None:
        registers = {"start": 1, "latency": 8, "words": 8, "cycles": 8, "stalled": 1}
        super().__init__({name: In(bits) for name, bits in registers.items()})
        self.cores = [GateCore() for _ in range(2)]
        self.storage = Memory(shape=BYTES, depth=WORDS, init=[])

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.storage = self.storage
        read = self.storage.read_port(domain="comb")
        now, last, turn = Signal(16), Signal(), Signal()
        due, pops, gives = (Signal(2) for _ in range(3))
        m.d.sync += now.eq(now + 1)
        heads = []
        for number, core in enumerate(self.cores):
            m.submodules[f"core_{number}"] = core
            m.submodules[f"queue_{number}"] = queue = SyncFIFO(width=40, depth=8)
            m.d.comb += [
                core.start.eq(self.start),
                core.word.eq(read.data),
                core.gives.eq(gives[number]),
                queue.w_data.eq(Cat((now + self.latency)[:16], core.length, core.address)),
                queue.w_en.eq(core.asks),
                due[number].eq(queue.r_rdy & ((now - queue.r_data[:16])[:16] < 1 << 15)),
                queue.r_en.eq(pops[number]),
            ]
            heads.append(queue.r_data[16:])
        serving, owner, active, mine, takes = (Signal() for _ in range(5))
        left, place, part, full = Signal(8), Signal(16), Signal(10), Signal(11)
        left_now, place_now, head = Signal(8), Signal(16), Array(heads)[turn]
        m.d.comb += [
            turn.eq(Mux(due.all(), ~last, due[1])),  # among those whose first word can flow
            serving.eq(left != 0),
            active.eq((serving | due.any()) & ~self.stalled),
            mine.eq(Mux(serving, owner, turn)),
            Cat(left_now, place_now).eq(Mux(serving, Cat(left, place), head)),
            full.eq(Mux(serving, part, 0) + self.words),
            read.addr.eq(place_now),
        ]
        with m.If(active):
            m.d.sync += [owner.eq(mine), left.eq(left_now), place.eq(place_now), part.eq(full)]
            m.d.comb += takes.eq(~serving)
            with m.If(full >= self.cycles):
                m.d.comb += gives.eq(1 << mine)
                m.d.sync += [left.eq(left_now - 1), place.eq(place_now + 1)]
                m.d.sync += part.eq(full - self.cycles)
                with m.If((left_now == 1) & (full != self.cycles) & due.any()):
                    m.d.comb += takes.eq(1)
                    m.d.sync += [owner.eq(turn), Cat(left, place).eq(head)]
        with m.If(takes):
            m.d.comb += pops.eq(1 << turn)
            m.d.sync += last.eq(turn)
        with m.If(self.start):
            m.d.sync += last.eq(1)
        return m


def play(phases: list[GatePhase], seed: int, most: int = 20_000) -> list[int]:
    """Cycles of phases, one after the other, with drawn weights and inputs.

    Raises:
        AssertionError: A residual is not the sum of the products, or a phase does not end.
    """
    machine, draw = GateMachine(), np.random.default_rng(seed)
    found: list[int] = []

    async def bench(ctx: Any) -> None:
        for phase in phases:
            wanted = _load(ctx, machine, phase, draw)
            ctx.set(machine.start, 1)
            await ctx.tick()
            ctx.set(machine.start, 0)
            for cycle in range(most):
                ctx.set(machine.stalled, bool(draw.random() < phase.stall))
                if all(ctx.get(core.done) for core in machine.cores):
                    found.append(cycle)
                    break
                await ctx.tick()
            else:
                raise AssertionError("the phase does not end")
            await ctx.tick()
            for core, words in zip(machine.cores, wanted, strict=True):
                for place, word in enumerate(words):
                    assert ctx.get(core.residual.data[place]) == word, "a wrong sum"

    simulate(machine, bench)
    return found


def _load(ctx: Any, machine: GateMachine, phase: GatePhase, draw: np.random.Generator) -> list[Any]:
    """Set registers, weights and inputs; the residuals that follow, words of each core."""
    for name in ("latency", "words", "cycles"):
        ctx.set(getattr(machine, name), getattr(phase, name))
    base, wanted = 0, []
    for core, blocks, tokens in zip(
        machine.cores, phase.blocks.swapaxes(0, 1).tolist(), phase.tokens.tolist(), strict=True
    ):
        registers = {"steps": len(blocks) * (tokens > 0), "tokens": tokens, "base": base}
        registers |= {name: getattr(phase, name) for name in ("tile_folds", "slots")}
        for name, value in registers.items():
            ctx.set(getattr(core, name), value)
        x, total = np.zeros((2, MOST_BLOCKS, MOST_TOKENS, SIDE), np.int64)
        x[:, :tokens] = draw.integers(-128, 128, (tokens, MOST_BLOCKS, SIDE)).swapaxes(0, 1)
        _store(ctx, core.inputs, x)
        _store(ctx, core.residual, total)
        for number, (rows, cols) in enumerate(blocks):
            ctx.set(core.rows[number], rows)
            ctx.set(core.cols[number], cols)
            weights = draw.integers(-128, 128, (cols, rows, SIDE, SIDE))
            base = _store(ctx, machine.storage, weights, base)
            total[:cols] += np.einsum("rtk,crkn->ctn", x[:rows], weights)
        wanted.append(total.reshape(-1, SIDE).tolist())
    return wanted


def _store(ctx: Any, memory: Memory, numbers: NDArray[Any], first: int = 0) -> int:
    """Write numbers as words; the place behind the last one."""
    words = numbers.reshape(-1, SIDE).tolist()
    for place, word in enumerate(words, first):
        ctx.set(memory.data[place], word)
    return first + len(words)


def draw_phase(draw: np.random.Generator, stall: float) -> GatePhase:
    """Both cores have as many steps; all else differs."""
    n_steps = int(draw.integers(1, 4))
    tokens = draw.integers(1, 9, 2)
    if draw.random() < 0.2:
        tokens[draw.integers(2)] = 0
    blocks = draw.integers(1, 5, (2, n_steps, 2)).swapaxes(0, 1)
    cycles, tile_folds, slots, latency = draw.integers((1, 1, 2, 1), (9, 5, 5, 60)).tolist()
    words = int(draw.integers(1, cycles + 1))
    return GatePhase(blocks, tokens, tile_folds, slots, latency, words, cycles, stall)


def as_model(phase: GatePhase) -> Phase:
    """The same work as the machine model has it; stalls make its memory slower."""
    tokens, none = phase.tokens, np.zeros((1, 2), np.int64)
    # [steps, cores]; the adder that follows a step is before the next one, the last one a step.
    rows, cols = np.moveaxis(phase.blocks, -1, 0)
    folds, adds = np.concatenate([rows * cols, none]), np.concatenate([none, cols * tokens])
    rate = Fraction(SIDE * phase.words, phase.cycles) * (1 - Fraction(str(phase.stall)))

    def step(n: int) -> LaneOp:
        last = n == len(cols)
        nbytes, cycles = FOLD_BYTES * folds[n] * (tokens > 0), folds[n] * tokens
        tile_bytes = FOLD_BYTES * phase.tile_folds
        found = operand(nbytes, adds[n] if last else cycles, tile_bytes, phase.slots, rate)
        return found._replace(path=-1) if last else found._replace(pre_cycles=adds[None, n])

    steps = tuple(step(n) for n in range(len(folds)))
    bound = np.zeros(1, np.int64), np.zeros((1, 1), np.int64)
    return Phase(steps, (phase.latency,), *bound)


def compared(phases: int, stall: float, seed: int) -> NDArray[np.int64]:
    """Cycles of drawn phases in gates, ``tile`` and ``fluid``, [phases, 3]."""
    draw = np.random.default_rng(seed)
    drawn = [draw_phase(draw, stall) for _ in range(phases)]
    gates = play(drawn, seed)
    models = [as_model(each) for each in drawn]
    rungs = (
        [int(rung(each).step_end[-1].max()) for each in models]
        for rung in (play_phases, solver.solve)
    )
    return np.array([gates, *rungs]).T


def main() -> None:
    """Print the table of docs/rtl: ``python tests/core_gates.py``."""
    print(f"200 phases drawn with seed {SEED}")
    print("| memory | fidelity | equal to the gates | sum of cycles, % | one phase, % |")
    print("|---|---|---:|---:|---:|")
    for name, stall in (("no stalls", 0.0), ("stalls in 10 % of cycles", 0.1)):
        cycles = compared(200, stall, SEED)
        for rung, found in zip(("tile", "fluid"), cycles.T[1:], strict=True):
            off = 100 * (found / cycles[:, 0] - 1)
            whole = 100 * (found.sum() / cycles[:, 0].sum() - 1)
            equal = int((found == cycles[:, 0]).sum())
            spread = f"{off.min():+.1f} to {off.max():+.1f}"
            print(f"| {name} | `{rung}` | {equal} | {whole:+.2f} | {spread} |")


if __name__ == "__main__":
    main()
