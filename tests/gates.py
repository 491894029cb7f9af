"""Run gates and SimPy on the same layers, and note what each sends when."""

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import simpy
from amaranth.hdl import Elaboratable, Module
from amaranth.lib.memory import Memory
from amaranth.sim import Simulator

from carsim.hardware.schedule import SCHEDULES, Registers, Schedule

Ready = Callable[[int, int], bool]
"""Whether a core takes an instruction in a cycle."""

IDLE_CYCLES = 3
"""Between two dispatches; any number does."""

MOST_CYCLES = 2_000
"""A dispatch that takes longer hangs."""


@dataclass(frozen=True)
class Sent:
    """An instruction that a core has taken, in a cycle counted from the start of the dispatch."""

    cycle: int
    sequence: int
    instruction: int
    core: int


@dataclass(frozen=True)
class Dispatched:
    """One dispatch: what was sent, the cycle in which it was over, and whether it was refused."""

    sent: tuple[Sent, ...]
    end: int
    error: bool = False


def tag(sequence: int, instruction: int) -> int:
    """Stands in the instruction memory, so that what arrives says what it is."""
    return sequence << 12 | instruction


def in_simpy(
    schedule: Schedule,
    registers: Registers,
    computing: Sequence[bool],
    cores: int,
    ready: Ready,
) -> Dispatched:
    """One dispatch by the process of carsim.hardware.schedule; cores take what they can."""
    env = simpy.Environment()
    sent: list[Sent] = []

    def send(sequence: int, instruction: int, core: int) -> simpy.Event:
        now = int(env.now)
        taken = next(cycle for cycle in count(now) if ready(core, cycle))
        sent.append(Sent(taken, sequence, instruction, core))
        return env.timeout(taken - now)

    env.process(schedule.dispatch(env, registers, computing, cores, send))
    env.run()
    return Dispatched(in_order(sent), int(env.now))


def in_order(sent: Sequence[Sent]) -> tuple[Sent, ...]:
    """By cycle; cores that take at the same time by number."""
    return tuple(sorted(sent, key=lambda each: (each.cycle, each.core)))


class WithProgram(Elaboratable):
    """A scheduler with its instruction memories: one for all cores, or one a core."""

    def __init__(self, scheduler: Any, registers: Registers, cores: int, central: bool) -> None:
        self.scheduler = scheduler
        self._central = central
        slots, step, memories = registers.index_register_bits, 1, 1
        if not central:
            slots, step, memories = -(-slots // cores), cores, cores
        self._programs = [
            [
                tag(first + step * slot, number)
                for slot in range(slots)
                for number in range(registers.instructions_per_sequence)
            ]
            for first in range(memories)
        ]
        self.words: list[Any] = []

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.scheduler = self.scheduler
        for number, program in enumerate(self._programs):
            m.submodules[f"program_{number}"] = memory = Memory(
                shape=24, depth=len(program), init=program
            )
            port = memory.read_port()
            address = self.scheduler.address
            m.d.comb += [
                port.en.eq(self.scheduler.fetch[number]),
                port.addr.eq(address if self._central else address[number]),
            ]
            self.words.append(port.data)
        return m


class Gates:
    """A scheduler in Amaranth's simulator; several layers one after the other.

    Args:
        scheduler: Scheduler or OwnChecks.
        kind: Schedule.
        cores: Cores.
        registers: As it was built with.
    """

    def __init__(self, scheduler: Any, kind: str, cores: int, registers: Registers) -> None:
        self._dut, self._cores, self._registers = scheduler, cores, registers
        self._central = SCHEDULES[kind].central
        self._top = WithProgram(scheduler, registers, cores, self._central)

    def run(
        self,
        layers: Sequence[Sequence[bool]],
        ready: Ready,
        batches: Sequence[int] | None = None,
    ) -> list[Dispatched]:
        """Dispatch layers; a batch beyond the Index Register in as many dispatches as groups.

        Args:
            layers: Decisions.
            ready: Which cores take an instruction.
            batches: Numbers of sequences that the port is told, if not those of the layers.
        """
        found: list[Dispatched] = []

        async def bench(ctx: Any) -> None:
            dut = self._dut
            for computing, batch in zip(layers, batches or map(len, layers), strict=True):
                ctx.set(dut.batch, batch)
                ctx.set(dut.computing, sum(1 << b for b, bit in enumerate(computing) if bit))
                trigger = dut.start
                while True:
                    found.append(await self._dispatch(ctx, trigger, ready, len(computing)))
                    await ctx.tick().repeat(IDLE_CYCLES)
                    if not (self._central and ctx.get(dut.more)):
                        break
                    trigger = dut.proceed

        simulator = Simulator(self._top)
        simulator.add_clock(1e-6)
        simulator.add_testbench(bench)
        simulator.run()
        return found

    async def _dispatch(self, ctx: Any, trigger: Any, ready: Ready, batch: int) -> Dispatched:
        dut, cores = self._dut, self._cores
        sent: list[Sent] = []
        for cycle in range(MOST_CYCLES):
            ctx.set(trigger, cycle == 0)
            ready_now = [ready(core, cycle) for core in range(cores)]
            ctx.set(dut.ready, sum(1 << core for core, bit in enumerate(ready_now) if bit))
            valid = ctx.get(dut.valid)
            if self._central:
                assert valid & (valid - 1) == 0, "one instruction for two cores"
            taken = [core for core in range(cores) if valid >> core & 1 and ready_now[core]]
            sent.extend(self._taken(ctx, cycle, core) for core in taken)
            done, error = ctx.get(dut.done), ctx.get(dut.error)
            await ctx.tick()
            if done:
                return Dispatched(in_order(sent), cycle, bool(error))
            assert not error, "an error that is not the end"
        raise AssertionError("the dispatch does not end")

    def _taken(self, ctx: Any, cycle: int, core: int) -> Sent:
        word = ctx.get(self._top.words[0 if self._central else core])
        sequence = ctx.get(self._dut.sent if self._central else self._dut.sent[core])
        # Groups share the instructions, which are relocated by the sequence.
        width = self._registers.index_register_bits
        assert word >> 12 == sequence % width, "another sequence's instruction"
        return Sent(cycle, sequence, word & 0xFFF, core)


def by_groups(
    kind: str,
    registers: Registers,
    layers: Sequence[Sequence[bool]],
    cores: int,
    ready: Ready,
) -> list[Dispatched]:
    """What SimPy says of layers whose batch may exceed the Index Register."""
    schedule = SCHEDULES[kind]
    found = []
    for computing in layers:
        width = registers.index_register_bits if schedule.central else len(computing)
        for first in range(0, len(computing), width):
            group = computing[first : first + width]
            of_group = in_simpy(schedule, registers, group, cores, ready)
            sent = (
                Sent(each.cycle, first + each.sequence, each.instruction, each.core)
                for each in of_group.sent
            )
            found.append(Dispatched(tuple(sent), of_group.end))
    return found


def mutant(module: str, old: str, new: str) -> ModuleType:
    """A module of carsim.hardware.rtl with a change in its source, which must occur once."""
    original = importlib.import_module(f"carsim.hardware.rtl.{module}")
    source = Path(str(original.__file__)).read_text(encoding="utf-8")
    assert source.count(old) == 1, f"{old!r} occurs {source.count(old)} times in {module}"
    changed = ModuleType(original.__name__)
    exec(compile(source.replace(old, new), f"mutant of {module}", "exec"), changed.__dict__)
    return changed
