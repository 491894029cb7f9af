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
from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator
from ideal import operand
from numpy.typing import NDArray

from carsim.machine import parts, solver
from carsim.machine.lanes import Step
from carsim.machine.phase import Phase

SIDE = 8
"""Rows and columns of the array, lanes of the adder, bytes of a word of memory."""

FOLD_BYTES = SIDE * SIDE
MOST_STEPS, MOST_TOKENS, MOST_BLOCKS, MOST_SLOTS, MOST_FOLDS = 3, 8, 4, 4, 4
SEED = 32
WORDS = 2048
"""Of the memory."""


@dataclass(frozen=True)
class GateStep:
    """A product of one core: K / 8 and N / 8, so that weights have ``rows * cols`` folds."""

    rows: int
    cols: int


@dataclass(frozen=True)
class GatePhase:
    """A phase of all cores.

    Attributes:
        steps: Of each core, as many for each.
        tokens: Of each core.
        tile_folds: Folds of a tile.
        slots: Tiles that a buffer holds.
        latency: Cycles from a request to its first word.
        words, cycles: The memory gives so many words in so many cycles.
        stall: Chance that the memory gives nothing in a cycle.
    """

    steps: tuple[tuple[GateStep, ...], ...]
    tokens: tuple[int, ...]
    tile_folds: int
    slots: int
    latency: int
    words: int
    cycles: int
    stall: float = 0.0


class SharedMemory(wiring.Component):
    """One request at a time, cores in turn; the rest of a cycle goes to the next request."""

    def __init__(self, cores: int) -> None:
        self._cores = cores
        of_core = {"asks": 1, "length": 8, "address": 16}
        super().__init__(
            {f"{name}_{c}": In(bits) for c in range(cores) for name, bits in of_core.items()}
            | {"start": In(1), "latency": In(8), "words": In(8), "cycles": In(8), "stalled": In(1)}
            | {"word": Out(8 * SIDE), "gives": Out(cores)}
        )
        self.storage = Memory(shape=8 * SIDE, depth=WORDS, init=[])

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.storage = self.storage
        read = self.storage.read_port(domain="comb")
        now, last = Signal(16), Signal(range(self._cores))
        m.d.sync += now.eq(now + 1)
        heads, due = [], Signal(self._cores)
        pops = Signal(self._cores)
        for core in range(self._cores):
            m.submodules[f"queue_{core}"] = queue = SyncFIFO(width=40, depth=8)
            length, address = (getattr(self, f"{n}_{core}") for n in ("length", "address"))
            m.d.comb += [
                queue.w_data.eq(Cat((now + self.latency)[:16], length, address)),
                queue.w_en.eq(getattr(self, f"asks_{core}")),
                due[core].eq(queue.r_rdy & ((now - queue.r_data[:16])[:16] < 1 << 15)),
                queue.r_en.eq(pops[core]),
            ]
            heads.append(queue.r_data[16:])
        # The next in turn among those whose first word can flow.
        turn = Signal(range(self._cores))
        for step in reversed(range(1, self._cores + 1)):
            for core in range(self._cores):
                with m.If(due[core] & (last == (core - step) % self._cores)):
                    m.d.comb += turn.eq(core)
        serving, owner = Signal(), Signal(range(self._cores))
        left, place, part = Signal(8), Signal(16), Signal(10)
        active, mine = Signal(), Signal.like(owner)
        left_now, place_now, full, takes = Signal(8), Signal(16), Signal(11), Signal()
        head = Array(heads)[turn]
        m.d.comb += [
            active.eq((serving | due.any()) & ~self.stalled),
            mine.eq(Mux(serving, owner, turn)),
            left_now.eq(Mux(serving, left, head[:8])),
            place_now.eq(Mux(serving, place, head[8:])),
            full.eq(Mux(serving, part, 0) + self.words),
            read.addr.eq(place_now),
            self.word.eq(read.data),
        ]
        with m.If(active):
            m.d.sync += [serving.eq(1), owner.eq(mine), left.eq(left_now), place.eq(place_now)]
            m.d.sync += part.eq(full)
            m.d.comb += takes.eq(~serving)
            with m.If(full >= self.cycles):
                m.d.comb += self.gives.eq(1 << mine)
                m.d.sync += [
                    left.eq(left_now - 1), place.eq(place_now + 1), part.eq(full - self.cycles),
                ]  # fmt: skip
                with m.If(left_now == 1):
                    with m.If((full != self.cycles) & due.any()):
                        m.d.comb += takes.eq(1)
                        m.d.sync += [owner.eq(turn), left.eq(head[:8]), place.eq(head[8:])]
                    with m.Else():
                        m.d.sync += serving.eq(0)
        with m.If(takes):
            m.d.comb += pops.eq(1 << turn)
            m.d.sync += last.eq(turn)
        with m.If(self.start):
            m.d.sync += last.eq(self._cores - 1)
        return m


class GateCore(wiring.Component):
    """A DMA fills the buffer, the array empties it, the adder adds what the array has found."""

    def __init__(self) -> None:
        registers = {"steps": 3, "tokens": 4, "tile_folds": 4, "slots": 4, "base": 16}
        descriptors = {"rows": 4, "cols": 4}
        super().__init__(
            {name: In(bits) for name, bits in registers.items()}
            | {name: In(bits).array(MOST_STEPS) for name, bits in descriptors.items()}
            | {"start": In(1), "done": Out(1), "asks": Out(1), "length": Out(8)}
            | {"address": Out(16), "word": In(8 * SIDE), "gives": In(1)}
        )
        lanes = {"shape": 32 * SIDE, "init": []}
        self.inputs = Memory(shape=8 * SIDE, depth=MOST_TOKENS * MOST_BLOCKS, init=[])
        self.sums = Memory(depth=MOST_TOKENS * MOST_BLOCKS, **lanes)
        self.residual = Memory(depth=MOST_TOKENS * MOST_BLOCKS, **lanes)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        running, freed = Signal(), Signal()
        with m.If(self.start):
            m.d.sync += running.eq(1)
        arrived = self._dma(m, running, freed)
        self._compute(m, running, arrived, freed)
        return m

    def _dma(self, m: Module, running: Signal, freed: Signal) -> Signal:
        """Ask for tile after tile while slots are free; whether a tile has become whole."""
        step, folds_left, free = Signal(3), Signal(8), Signal(4)
        count, arrived = Signal(8), Signal()
        folds = Mux(folds_left < self.tile_folds, folds_left, self.tile_folds)
        m.d.comb += [
            self.asks.eq(running & (free != 0) & (step != self.steps)),
            self.length.eq(folds << 3),
        ]
        m.d.sync += free.eq(free + freed - self.asks)
        with m.If(self.start):
            m.d.sync += [
                step.eq(0), free.eq(self.slots), self.address.eq(self.base),
                folds_left.eq(self.rows[0] * self.cols[0]),
            ]  # fmt: skip
        with m.Elif(self.asks):
            m.d.sync += [
                self.address.eq(self.address + self.length),
                folds_left.eq(folds_left - folds),
            ]
            with m.If(folds_left == folds):
                follows = (step + 1)[:2]
                m.d.sync += [
                    step.eq(step + 1),
                    folds_left.eq(Array(self.rows)[follows] * Array(self.cols)[follows]),
                ]
        # What arrives knows its place by itself: slot after slot, a word after the other.
        m.submodules.lengths = lengths = SyncFIFO(width=8, depth=8)
        write_slot, wraps = Signal(4), Signal()
        m.d.comb += [
            lengths.w_data.eq(self.length), lengths.w_en.eq(self.asks), lengths.r_en.eq(arrived),
            arrived.eq(self.gives & (count == lengths.r_data - 1)),
            wraps.eq(write_slot == self.slots - 1),
        ]  # fmt: skip
        self.banks = []
        for bank in range(SIDE):
            memory = Memory(shape=8 * SIDE, depth=MOST_SLOTS * MOST_FOLDS, init=[])
            m.submodules[f"bank_{bank}"] = memory
            write = memory.write_port()
            m.d.comb += [
                write.addr.eq(write_slot * MOST_FOLDS + count[3:]),
                write.data.eq(self.word),
                write.en.eq(self.gives & (count[:3] == bank)),
            ]
            self.banks.append(memory.read_port(domain="comb"))
        with m.If(self.start):
            m.d.sync += [write_slot.eq(0), count.eq(0)]
        with m.Elif(self.gives):
            m.d.sync += count.eq(Mux(arrived, 0, count + 1))
            with m.If(arrived):
                m.d.sync += write_slot.eq(Mux(wraps, 0, write_slot + 1))
        return arrived

    def _compute(self, m: Module, running: Signal, arrived: Signal, freed: Signal) -> None:
        """A token of a fold each cycle; between steps, eight sums of a token each cycle."""
        step, tiles, slot = Signal(3), Signal(4), Signal(4)
        token, fold, row, col = Signal(4), Signal(4), Signal(4), Signal(4)
        adds, add_token, add_col, add_cols = Signal(), Signal(4), Signal(4), Signal(4)
        works, last_token, last_fold, last_tile = Signal(), Signal(), Signal(), Signal()
        here = step[:2]
        last_row, last_col = row == Array(self.rows)[here] - 1, col == Array(self.cols)[here] - 1
        m.d.comb += [
            works.eq(running & ~adds & (tiles != 0) & (step != self.steps)),
            last_token.eq(token == self.tokens - 1),
            last_tile.eq(last_row & last_col),
            last_fold.eq((fold == self.tile_folds - 1) | last_tile),
            freed.eq(works & last_token & last_fold),
            self.done.eq(running & ~adds & (step == self.steps)),
        ]
        m.d.sync += tiles.eq(tiles + arrived - freed)
        with m.If(works):
            m.d.sync += token.eq(Mux(last_token, 0, token + 1))
            with m.If(last_token):
                m.d.sync += [
                    row.eq(Mux(last_row, 0, row + 1)),
                    col.eq(Mux(last_tile, 0, Mux(last_row, col + 1, col))),
                    fold.eq(Mux(last_fold, 0, fold + 1)),
                ]
        with m.If(freed):
            m.d.sync += slot.eq(Mux(slot == self.slots - 1, 0, slot + 1))
            with m.If(last_tile):
                m.d.sync += [step.eq(step + 1), adds.eq(1), add_cols.eq(Array(self.cols)[here])]
        with m.If(adds):
            m.d.sync += add_token.eq(Mux(add_token == self.tokens - 1, 0, add_token + 1))
            with m.If(add_token == self.tokens - 1):
                m.d.sync += add_col.eq(add_col + 1)
                with m.If(add_col == add_cols - 1):
                    m.d.sync += [adds.eq(0), add_col.eq(0)]
        with m.If(self.done):
            m.d.sync += running.eq(0)
        with m.If(self.start):
            m.d.sync += [step.eq(0), slot.eq(0)]
        place = Mux(adds, add_col * MOST_TOKENS + add_token, col * MOST_TOKENS + token)
        self._array(m, works, adds, row * MOST_TOKENS + token, place, slot * MOST_FOLDS + fold)

    def _array(
        self, m: Module, works: Signal, adds: Signal, source: Any, place: Any, fold: Any
    ) -> None:
        """64 products and their sums by column, and the adder."""
        m.submodules.inputs, m.submodules.sums = self.inputs, self.sums
        m.submodules.residual = self.residual
        x = self.inputs.read_port(domain="comb")
        read, write = self.sums.read_port(domain="comb"), self.sums.write_port()
        old, new = self.residual.read_port(domain="comb"), self.residual.write_port()
        m.d.comb += [x.addr.eq(source), *(bank.addr.eq(fold) for bank in self.banks)]
        m.d.comb += [port.addr.eq(place) for port in (read, write, old, new)]
        m.d.comb += [write.en.eq(works | adds), new.en.eq(adds)]
        sums, added = [], []
        for n in range(SIDE):
            products = [
                x.data.word_select(k, 8).as_signed() * bank.data.word_select(n, 8).as_signed()
                for k, bank in enumerate(self.banks)
            ]
            total, result = Signal(signed(32), name=f"sum_{n}"), Signal(32, name=f"result_{n}")
            m.d.comb += [
                total.eq(read.data.word_select(n, 32) + sum(products)),
                result.eq(old.data.word_select(n, 32) + read.data.word_select(n, 32)),
            ]
            sums.append(total)
            added.append(result)
        m.d.comb += [
            write.data.eq(Mux(adds, Const(0, 32 * SIDE), Cat(*sums))),
            new.data.eq(Cat(*added)),
        ]


class GateMachine(wiring.Component):
    """Cores and their memory."""

    def __init__(self, cores: int) -> None:
        self.cores = [GateCore() for _ in range(cores)]
        self.memory = SharedMemory(cores)
        super().__init__({"start": In(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.memory = self.memory
        m.d.comb += self.memory.start.eq(self.start)
        for number, core in enumerate(self.cores):
            m.submodules[f"core_{number}"] = core
            m.d.comb += [
                *(
                    getattr(self.memory, f"{name}_{number}").eq(getattr(core, name))
                    for name in ("asks", "length", "address")
                ),
                core.start.eq(self.start),
                core.word.eq(self.memory.word),
                core.gives.eq(self.memory.gives[number]),
            ]
        return m


def play(phases: list[GatePhase], seed: int, most: int = 20_000) -> list[int]:
    """Cycles of phases, one after the other, with drawn weights and inputs.

    Raises:
        AssertionError: A residual is not the sum of the products, or a phase does not end.
    """
    machine, draw = GateMachine(2), np.random.default_rng(seed)
    found: list[int] = []

    async def bench(ctx: Any) -> None:
        for phase in phases:
            wanted = _load(ctx, machine, phase, draw)
            ctx.set(machine.start, 1)
            await ctx.tick()
            ctx.set(machine.start, 0)
            through = [not tokens for tokens in phase.tokens]
            for cycle in range(most):
                ctx.set(machine.memory.stalled, bool(draw.random() < phase.stall))
                for number, core in enumerate(machine.cores):
                    through[number] |= bool(ctx.get(core.done))
                if all(through):
                    found.append(cycle)
                    break
                await ctx.tick()
            assert all(through), "the phase does not end"
            await ctx.tick()
            for core, expected in zip(machine.cores, wanted, strict=True):
                for (column, token), value in expected.items():
                    word = ctx.get(core.residual.data[column * MOST_TOKENS + token])
                    assert word == value, "a wrong sum"

    simulator = Simulator(machine)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return found


def _load(
    ctx: Any, machine: GateMachine, phase: GatePhase, draw: np.random.Generator
) -> list[dict[tuple[int, int], int]]:
    """Set registers, weights and inputs; the residuals that follow, by column block and token."""
    ctx.set(machine.memory.latency, phase.latency)
    ctx.set(machine.memory.words, phase.words)
    ctx.set(machine.memory.cycles, phase.cycles)
    base, wanted = 0, []
    for core, steps, tokens in zip(machine.cores, phase.steps, phase.tokens, strict=True):
        ctx.set(core.steps, len(steps) if tokens else 0)
        for name in ("tile_folds", "slots"):
            ctx.set(getattr(core, name), getattr(phase, name))
        ctx.set(core.tokens, tokens)
        ctx.set(core.base, base)
        x = draw.integers(-128, 128, (tokens, MOST_BLOCKS * SIDE))
        for block in range(MOST_BLOCKS):
            for token in range(tokens):
                ctx.set(
                    core.inputs.data[block * MOST_TOKENS + token],
                    _packed(x[token, block * SIDE :][:SIDE], 8),
                )
        total = np.zeros((tokens, MOST_BLOCKS * SIDE), np.int64)
        for place in range(MOST_BLOCKS * MOST_TOKENS):
            ctx.set(core.residual.data[place], 0)
        for number, step in enumerate(steps):
            ctx.set(core.rows[number], step.rows)
            ctx.set(core.cols[number], step.cols)
            for col in range(step.cols):
                for row in range(step.rows):
                    weights = draw.integers(-128, 128, (SIDE, SIDE))
                    for k in range(SIDE):
                        ctx.set(machine.memory.storage.data[base], _packed(weights[k], 8))
                        base += 1
                    total[:, col * SIDE :][:, :SIDE] += x[:, row * SIDE :][:, :SIDE] @ weights
        wanted.append(
            {
                (col, token): _packed(total[token, col * SIDE :][:SIDE], 32)
                for col in range(max(step.cols for step in steps))
                for token in range(tokens)
            }
        )
    return wanted


def _packed(values: Any, bits: int) -> int:
    return sum((int(v) & (1 << bits) - 1) << n * bits for n, v in enumerate(values))


def draw_phase(draw: np.random.Generator, stall: float) -> GatePhase:
    """Both cores have as many steps; all else differs."""
    n_steps = int(draw.integers(1, 4))
    tokens = [int(each) for each in draw.integers(1, 9, 2)]
    if draw.random() < 0.2:
        tokens[int(draw.integers(2))] = 0
    steps = tuple(
        tuple(GateStep(*(int(n) for n in draw.integers(1, 5, 2))) for _ in range(n_steps))
        for _ in range(2)
    )
    cycles = int(draw.integers(1, 9))
    return GatePhase(
        steps=steps,
        tokens=(tokens[0], tokens[1]),
        tile_folds=int(draw.integers(1, 5)),
        slots=int(draw.integers(2, 5)),
        latency=int(draw.integers(1, 60)),
        words=int(draw.integers(1, cycles + 1)),
        cycles=cycles,
        stall=stall,
    )


def as_model(phase: GatePhase) -> Phase:
    """The same work as the machine model has it; stalls make its memory slower."""
    tokens, none = np.array(phase.tokens), np.zeros((1, 2), np.int64)
    # [steps, cores]; the adder that follows a step is before the next one, the last one a step.
    cols, rows = (
        np.array([[getattr(step, name) for step in of_core] for of_core in phase.steps]).T
        for name in ("cols", "rows")
    )
    folds, adds = np.concatenate([rows * cols, none]), np.concatenate([none, cols * tokens])
    rate = Fraction(SIDE * phase.words, phase.cycles) * (1 - Fraction(str(phase.stall)))

    def step(n: int) -> Step:
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
        [int(rung(each).ended[-1].max()) for each in models]
        for rung in (parts.simulate, solver.solve)
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
