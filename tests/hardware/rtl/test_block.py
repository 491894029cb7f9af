"""The scheduler block in Amaranth's simulator: driven through its ports, as a host would."""

from collections.abc import Callable
from dataclasses import dataclass, field
from struct import pack, unpack
from typing import Any

import numpy as np
import pytest
import simpy

pytest.importorskip("amaranth", reason="needs the extra carsim[rtl]")

from gates_bench import simulate

from carsim.base.errors import InputError
from carsim.hardware.rtl.block import BlockSize, SchedulerBlock
from carsim.hardware.rtl.registers import REGISTERS, TABLE
from carsim.hardware.schedule import SCHEDULES, Registers
from studies.scheduler_gates.gates import makespan

OFFSETS = {each.name: each.offset for each in (*REGISTERS, TABLE)}
FLAGS = {flag.name: 1 << flag.bit for each in REGISTERS for flag in each.flags}
TAU = 0.25
Beat = tuple[int, int, bool]  # data, sequence, last


def bits(number: float) -> int:
    return int(unpack("<I", pack("<f", number))[0])


@dataclass
class Host:
    """Drives the ports; streams are fed and drained with chance ``pace``.

    A core takes its next instruction ``cycles`` after the one before.
    """

    size: BlockSize
    pace: float = 1.0
    seed: int = 0
    cycles: int = 1
    taken: list[list[Beat]] = field(default_factory=list)
    taken_at: dict[int, int] = field(default_factory=dict)  # data -> cycle

    def run(self, script: Callable[[Any, Any, "Host"], Any]) -> Any:
        self.dut, self.draw = SchedulerBlock(self.size), np.random.default_rng(self.seed)
        self.taken = [[] for _ in range(self.size.cores)]
        self.result: Any = None

        async def bench(ctx: Any) -> None:
            self.result = await script(ctx, self.dut, self)

        simulate(self.dut, bench)
        return self.result

    async def access(self, ctx: Any, name: str, value: int | None = None) -> tuple[int, int]:
        """Write a value, or read: data and response."""
        way, answer = "rr" if value is None else "wb"
        self.put(ctx, f"s_axil_a{way}addr", OFFSETS.get(name, 0xFF0))
        valids = [f"s_axil_a{way}valid", *(["s_axil_wvalid"] if way == "w" else [])]
        for valid in valids:
            self.put(ctx, valid, 1)
        self.put(ctx, "s_axil_wdata", value or 0)
        self.put(ctx, "s_axil_wstrb", 0xF)
        assert ctx.get(getattr(self.dut, f"s_axil_a{way}ready"))
        await ctx.tick()
        for valid in valids:
            self.put(ctx, valid, 0)
        self.put(ctx, f"s_axil_{answer}ready", 1)
        assert ctx.get(getattr(self.dut, f"s_axil_{answer}valid"))
        got = ctx.get(self.dut.s_axil_rdata), ctx.get(getattr(self.dut, f"s_axil_{answer}resp"))
        await ctx.tick()
        return got

    async def configure(self, ctx: Any, **values: int) -> None:
        for name, value in (values | {"CONTROL": 1}).items():
            assert (await self.access(ctx, name, value))[1] == 0

    async def read(self, ctx: Any, name: str) -> int:
        value, response = await self.access(ctx, name)
        assert response == 0
        return value

    async def layer(
        self, ctx: Any, scores: list[tuple[int, bool]], beats: list[Beat], most: int = 5000
    ) -> tuple[str, int]:
        """Feed both streams until the layer ends; how it ended, and the cycles from first score."""
        feeds: dict[str, list[dict[str, int]]] = {
            "score": [{"tdata": data, "tlast": last} for data, last in scores],
            "instr": [{"tdata": data, "tid": b, "tlast": last} for data, b, last in beats],
        }
        at, offered = dict.fromkeys(feeds, 0), dict.fromkeys(feeds, False)
        free = [0] * self.size.cores
        for cycle in range(most):
            for name, feed in feeds.items():
                offered[name] |= at[name] < len(feed) and self.draw.random() < self.pace
                for port, value in (feed[at[name]] if offered[name] else {}).items():
                    self.put(ctx, f"s_axis_{name}_{port}", value)
                self.put(ctx, f"s_axis_{name}_tvalid", offered[name])
            self._drain(ctx, cycle, free)
            for name in feeds:
                taken = offered[name] and ctx.get(getattr(self.dut, f"s_axis_{name}_tready"))
                at[name] += taken
                offered[name] &= not taken
            end = [name for name in ("done", "error") if ctx.get(getattr(self.dut, name))]
            await ctx.tick()
            if end:
                for name in feeds:
                    self.put(ctx, f"s_axis_{name}_tvalid", 0)
                return end[0], cycle
        raise AssertionError("the layer does not end")

    def put(self, ctx: Any, port: str, value: int) -> None:
        ctx.set(getattr(self.dut, port), value)

    def _drain(self, ctx: Any, cycle: int, free: list[int]) -> None:
        for core, taken in enumerate(self.taken):
            port = {name: getattr(self.dut, f"m{core:02}_axis_t{name}") for name in PORTS}
            ready = self.draw.random() < self.pace and cycle >= free[core]
            ctx.set(port["ready"], ready)
            if ready and ctx.get(port["valid"]):
                assert ctx.get(port["dest"]) == core
                free[core] = cycle + self.cycles
                data = ctx.get(port["data"])
                self.taken_at[data] = cycle
                taken.append((data, ctx.get(port["user"]), bool(ctx.get(port["last"]))))


PORTS = ("data", "user", "last", "dest", "valid", "ready")


def packet(values: list[float]) -> list[tuple[int, bool]]:
    return [(bits(value), n == len(values) - 1) for n, value in enumerate(values)]


def program(batch: int, instructions: int, interleaved: bool = False) -> list[Beat]:
    """Instructions of each sequence, one sequence after the other or one of each in turn."""
    order = [(b, n) for b in range(batch) for n in range(instructions)]
    if interleaved:
        order.sort(key=lambda each: each[1])
    return [(b << 8 | n, b, n == instructions - 1) for b, n in order]


def expected(
    values: list[float], beats: list[Beat], cores: int, schedule: str = "drs", table: Any = None
) -> list[list[Beat]]:
    """Each core sees its sequences in the stream's order; ``table``: cores by number computing."""
    computing = [b for b, value in enumerate(values) if not value > np.float32(TAU)]
    turn = (table or {}).get(len(computing), 0)
    turn = turn if 1 <= turn <= cores else cores
    core_of = {b: (b if schedule == "static" else n) % turn for n, b in enumerate(computing)}
    return [[each for each in beats if core_of.get(each[1]) == core] for core in range(cores)]


@pytest.mark.parametrize("pace", [1.0, 0.4])
@pytest.mark.parametrize(
    "built",
    [(1, 1, 1, "tuned"), (3, 5, 2, "drs"), (4, 32, 4, "tuned"), (4, 12, 3, "static"),
     (5, 33, 2, "tuned"), (16, 64, 8, "drs")],
)  # fmt: skip
def test_layers_of_every_kind_reach_the_cores_as_the_schedule_says(built, pace):
    *sizes, schedule = built
    size = BlockSize(*sizes, data_bits=16, schedule=schedule)
    draw = np.random.default_rng([*sizes, round(10 * pace)])
    table: dict[int, int] = {}

    async def script(ctx: Any, dut: Any, host: Host) -> None:
        sent = skipped = 0
        for number in range(4):
            batch = int(draw.integers(1, size.sequences + 1))
            cores = int(draw.integers(1, size.cores + 1))
            values = draw.choice([-np.inf, -0.0, TAU, np.nextafter(TAU, 1, dtype=np.float32),
                                  np.nan, 1.0, np.inf], batch).tolist()  # fmt: skip
            beats = program(batch, int(draw.integers(1, 5)), bool(number % 2))
            if schedule == "tuned" and number:  # before, all cores are in use
                for n in range(1, size.sequences + 1):
                    table[n] = int(draw.integers(1, size.cores + 1))
                    await host.configure(ctx, TABLE=n | table[n] << 8)
                assert (await host.access(ctx, "TABLE", 1 << 16))[1] == 2  # refused
            await host.configure(ctx, BATCH=batch, CORES=cores, THRESHOLD=bits(TAU))
            host.taken = [[] for _ in range(size.cores)]
            end, _ = await host.layer(ctx, packet(values), beats)
            assert end == "done"
            wanted = expected(values, beats, cores, schedule, table)
            assert host.taken[:cores] == wanted
            assert not any(host.taken[cores:])
            sent += sum(map(len, wanted))
            skipped += len(beats) - sum(map(len, wanted))
            assert await host.read(ctx, "LAYERS") == number + 1
            assert await host.read(ctx, "DISPATCHED") == sent
            assert await host.read(ctx, "SKIPPED") == skipped
            assert await host.read(ctx, "STATUS") == 0

    Host(size, pace).run(script)


def test_drs_sends_each_instruction_in_the_cycle_that_simpy_says() -> None:
    """With 5 cycles to latch (the scores' way, the queues), 1 a sequence and 1 an instruction."""
    computing, cores, each = [True, False, True, True, False, True], 3, 4
    registers = Registers(latch_cycles=5, cycles_per_instruction=1, instructions_per_sequence=each)
    env, sent = simpy.Environment(), {}

    def send(sequence: int, instruction: int, core: int) -> None:
        sent[sequence << 8 | instruction] = (int(env.now), core)

    env.process(SCHEDULES["drs"].dispatch(env, registers, computing, cores, send))
    env.run()

    async def script(ctx: Any, dut: Any, host: Host) -> None:
        await host.configure(ctx, BATCH=6, CORES=cores, THRESHOLD=bits(TAU))
        scores = packet([0.0 if computes else 1.0 for computes in computing])
        await host.layer(ctx, scores, program(6, each))
        assert sent == {
            data: (host.taken_at[data], core)
            for core, taken in enumerate(host.taken)
            for data, _, _ in taken
        }

    Host(BlockSize(data_bits=16)).run(script)


@pytest.mark.parametrize(("schedule", "second_pass"), [("drs", 0), ("tuned", 8 + 1)])
def test_an_instruction_a_cycle(schedule: str, second_pass: int) -> None:
    async def script(ctx: Any, dut: Any, host: Host) -> None:
        await host.configure(ctx, BATCH=8, CORES=4, THRESHOLD=bits(TAU))
        _, cycles = await host.layer(ctx, packet([0.0] * 8), program(8, 16))
        # Begin and check, a cycle a score, one to decide and one to change over, a cycle an
        # instruction, and two queues.
        assert cycles == 2 + 8 + 2 + second_pass + 8 * 16 + 2
        assert await host.read(ctx, "STALLED") == 0

    Host(BlockSize(data_bits=16, schedule=schedule)).run(script)


@pytest.mark.parametrize("interleaved", [False, True])
def test_queues_are_as_deep_as_the_simulation_of_their_depth_has_them(interleaved: bool) -> None:
    """The queue of two in front of all cores makes each of the others at most two deeper."""
    batch, instructions, cycles, queue = 8, 16, 20, 2
    beats = program(batch, instructions, interleaved)

    async def script(ctx: Any, dut: Any, host: Host) -> int:
        await host.configure(ctx, BATCH=batch, CORES=4, THRESHOLD=bits(TAU))
        _, done = await host.layer(ctx, packet([0.0] * batch), beats)
        return done + cycles - 1 - (batch + 4)  # from the first instruction to the end of the last

    found = Host(BlockSize(queue=queue, data_bits=16), cycles=cycles).run(script)
    stream = [(b, data & 0xFF) for data, b, _ in beats]
    core_of, each = [b % 4 for b in range(batch)], np.full((batch, instructions), cycles)
    longest, shortest = (makespan(stream, core_of, each, queue + more) for more in (0, 2))
    assert shortest < found <= longest + batch  # a cycle where the core changes
    assert interleaved or longest > 2 * batch // 4 * instructions * cycles


GOOD = {"BATCH": 3, "CORES": 2, "THRESHOLD": bits(TAU)}
WRONG: dict[str, tuple[dict[str, int], dict[str, Any], str]] = {
    "batch 0": ({"BATCH": 0}, {}, "BAD_CONFIG"),
    "batch 33": ({"BATCH": 33}, {}, "BAD_CONFIG"),
    "batch 255": ({"BATCH": 255}, {}, "BAD_CONFIG"),
    "no core": ({"CORES": 0}, {}, "BAD_CONFIG"),
    "five cores": ({"CORES": 5}, {}, "BAD_CONFIG"),
    "255 cores": ({"CORES": 255}, {}, "BAD_CONFIG"),
    "threshold NaN": ({"THRESHOLD": 0xFFC00000}, {}, "BAD_CONFIG"),
    "scores end early": ({}, {"scores": packet([0.0] * 2)}, "BAD_STREAM"),
    "scores end late": ({}, {"scores": packet([0.0] * 4)}, "BAD_STREAM"),
    "sequence of no batch": ({}, {"beats": [(1, 3, False)]}, "BAD_STREAM"),
    "sequence goes on": ({}, {"beats": [(1, 0, True), (2, 0, False)]}, "BAD_STREAM"),
    "no score": ({"TIMEOUT": 90}, {"scores": packet([0.0] * 3)[:1]}, "TIMED_OUT"),
    "no instruction": ({"TIMEOUT": 90}, {"beats": []}, "TIMED_OUT"),
    "no time": ({"TIMEOUT": 0}, {}, "TIMED_OUT"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_ends_in_an_error_and_the_next_layer_is_right(name: str) -> None:
    values, streams, cause = WRONG[name]

    async def script(ctx: Any, dut: Any, host: Host) -> None:
        good = packet([0.0] * 3), program(3, 2)
        await host.configure(ctx, **(GOOD | values))
        fed = streams.get("scores", good[0]), streams.get("beats", good[1])
        end, cycles = await host.layer(ctx, *fed)
        assert end == "error"
        assert cycles <= values.get("TIMEOUT", 90) + 4
        assert await host.read(ctx, "STATUS") == FLAGS["ERROR"] | FLAGS[cause]
        await host.configure(ctx, **GOOD, TIMEOUT=500)
        assert await host.read(ctx, "LAYERS") == 0
        await host.configure(ctx, CLEAR=1)
        for core in range(4):
            ctx.set(getattr(dut, f"m{core:02}_axis_tready"), 1)
        await ctx.tick().repeat(20)  # what was queued before the error leaves
        host.taken = [[] for _ in range(4)]
        end, _ = await host.layer(ctx, *good)
        assert end == "done"
        assert host.taken[:2] == expected([0.0] * 3, good[1], 2)
        assert await host.read(ctx, "STATUS") == 0

    Host(BlockSize(data_bits=16)).run(script)


@pytest.mark.parametrize(("sequences", "bits"), [(1, 1), (2, 1), (4, 2), (5, 3), (32, 5)])
def test_numbers_of_sequences_have_no_bit_too_many(sequences: int, bits: int) -> None:
    assert BlockSize(sequences=sequences).sequence_bits == bits


def test_registers_refuse_what_they_cannot_hold() -> None:
    async def script(ctx: Any, dut: Any, host: Host) -> None:
        refused = 2
        assert await host.read(ctx, "SIZE") == 4 | 32 << 8 | 4 << 16
        assert (await host.access(ctx, "VERSION", 1))[1] == refused
        assert (await host.access(ctx, "nowhere"))[1] == refused
        assert (await host.access(ctx, "BATCH", 256))[1] == refused
        assert (await host.access(ctx, "TABLE", 1 << 8 | 1))[1] == refused  # of `tuned` alone
        await host.configure(ctx, BATCH=30)
        ctx.set(dut.s_axis_score_tvalid, 1)  # a layer begins, with no core
        await ctx.tick().repeat(4)
        assert ctx.get(dut.error)
        await host.configure(ctx, CORES=1, THRESHOLD=bits(TAU), CLEAR=1)
        await ctx.tick().repeat(3)
        assert (await host.access(ctx, "BATCH", 2))[1] == refused
        assert await host.read(ctx, "BATCH") == 30
        assert await host.read(ctx, "STATUS") == FLAGS["BUSY"]

    Host(BlockSize(data_bits=16)).run(script)


@pytest.mark.parametrize(
    "wrong", [{"cores": 17}, {"sequences": 0}, {"queue": 0}, {"data_bits": 4}, {"schedule": "pack"}]
)
def test_sizes_that_cannot_be_built_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=rf"`{next(iter(wrong))}`: got .*; (give|choose)"):
        BlockSize(**wrong)
