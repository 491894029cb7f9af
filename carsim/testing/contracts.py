"""Contracts of kinds: each check takes an instance and raises an AssertionError that says why.

The package's own kinds are held to the same checks by its tests.
"""

from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

import numpy as np

from carsim.base.errors import PluginError
from carsim.design import load_design
from carsim.hardware.mapping import MAPPINGS as CORE_MAPPINGS
from carsim.hardware.memory import AccessPattern, MemoryStandard, sustained
from carsim.hardware.memory.base import MAPPINGS
from carsim.hardware.schedule import REPLAYS, Registers, Schedule, slots_per_core
from carsim.hardware.technology import Technology
from carsim.metrics import Metric
from carsim.testing import forwards, skip
from carsim.testing.attention import ATTENTION_CHECKS
from carsim.testing.machines import MAPPING_CHECKS, small_report
from carsim.testing.promise import holds
from carsim.testing.replay import RULE_CHECKS


def check_kind(role: str, kind: Any) -> list[str]:
    """The promises of its contract that a kind breaks; empty if it keeps all.

    Args:
        role: Role of its registry, such as ``schedule``.
        kind: An instance; of a memory, a speed bin.
    """
    broken = []
    for check in CONTRACTS[role]:
        try:
            check(kind)
        except PluginError as error:
            broken.append(f"{check.__name__}: {error.problem}")
        except Exception as error:  # whatever a kind from outside does
            broken.append(f"{check.__name__}: {type(error).__name__}: {error}")
    return broken


def assigns(schedule: Schedule) -> None:
    """Every sequence that computes gets one core with room, and a row depends on itself alone."""
    for batch, cores in product(range(1, 7), repeat=2):
        masks = np.array(list(product([False, True], repeat=batch)))
        assigned = schedule.assign(masks, cores)
        holds((assigned != REPLAYS) == masks, "those that compute, and no others, have a core")
        holds(assigned < cores, "a core that there is")
        load = (assigned[:, :, None] == np.arange(cores)).sum(axis=1)
        holds(load <= slots_per_core(batch, cores), "no core has more than slots_per_core")
        alone = np.concatenate([schedule.assign(row[None], cores) for row in masks])
        holds(alone == assigned, "a layer-step depends on nothing but itself")


def dispatches(schedule: Schedule) -> None:
    """The dispatcher sends what computes to its core, in the stated time."""
    import simpy

    for batch, cores, cycles in product(range(1, 5), range(1, 4), (0, 3)):
        registers = Registers(
            latch_cycles=5,
            scan_cycles_per_sequence=2,
            instructions_per_sequence=2,
            cycles_per_instruction=cycles,
        )
        for computing in product([False, True], repeat=batch):
            sent: list[tuple[int, ...]] = []
            env = simpy.Environment()
            send: Any = lambda *message: sent.append(message)  # noqa: B023, E731
            env.process(schedule.dispatch(env, registers, computing, cores, send))
            env.run()
            stated = schedule.dispatch_cycles(registers, batch, cores)
            holds(env.now == stated, f"dispatch takes dispatch_cycles, {stated}, not {env.now}")
            (assigned,) = schedule.assign(np.array([computing]), cores).tolist()
            expected = [
                (sequence, instruction, core)
                for sequence, core in enumerate(assigned)
                if core != REPLAYS
                for instruction in range(registers.instructions_per_sequence)
            ]
            holds(sorted(sent) == expected, "every instruction is sent once, to the assigned core")


def fits(schedule: Schedule) -> None:
    """A schedule that is fitted to a machine keeps the same promises."""

    def cycles_of(tried: Schedule, computing: int) -> int:
        return int((tried.assign(np.arange(6)[None] < computing, 3) == 0).sum())

    assigns(schedule.fitted(cycles_of, 6, 3))


def is_a_memory(row: MemoryStandard) -> None:
    """A speed bin agrees with itself."""
    family = row.family
    holds(family.mapping in MAPPINGS, f"a mapping of {', '.join(MAPPINGS)}")
    holds(row.source, "a source")
    holds(row.name.startswith(family.name), "a name that begins with its family's")
    holds(
        0 <= family.precharge_nck <= family.activate_nck,
        "a precharge takes no longer than activate",
    )
    holds(
        family.column_nck <= family.activate_nck,
        "a column command takes no longer than an activate",
    )
    holds(family.transfers_per_clock in (2, 4, 8, 16), "2, 4, 8 or 16 transfers per clock")
    holds(family.request_bytes % 32 == 0, "requests of whole 32 bytes")
    holds(row.with_timings({}) == row, "timings that a memory of the family can have")
    holds(0.02 < row.trfc_nck / row.trefi_nck < 0.11, "refreshes take 2 to 11 % of the time")


def sustains(row: MemoryStandard) -> None:
    """A stream in sequence is the best that there is."""
    best = sustained(row, AccessPattern()).efficiency
    holds(best <= 1 - row.trfc_nck / row.trefi_nck, "no more than refreshes leave")
    for access in (
        AccessPattern(chunk_bytes=64, random=True),
        AccessPattern(chunk_bytes=4096, random=True),
        AccessPattern(6, 1024),
        AccessPattern(16, 64, aligned=True),
        AccessPattern(chunk_bytes=4096, random=True, read_fraction=0.7),
    ):
        holds(0 < sustained(row, access).efficiency <= 1.01 * best, f"{access} is no better")


def is_a_technology(technology: Technology, design: Any = None) -> None:
    """Amounts are those of the table of resources whatever the mapping, and none is negative.

    Args:
        technology: The technology.
        design: A design that is built in it; the shipped ``u280`` if left out.
    """
    design = load_design("u280") if design is None else design
    board = design.board.model_copy(update={"technology": technology})
    design = design.model_copy(update={"board": board})
    technology.check_board(board)
    names = set(technology.resource_kinds)
    used = technology.resources(design)
    holds(set(technology.available(board)) == names, "available: one entry per resource")
    holds(set(used.totals) == names, "resources: those of the table, and all of them")
    for mapping in CORE_MAPPINGS:
        machine = design.machine.model_copy(update={"mapping": mapping})
        mapped = technology.resources(design.model_copy(update={"machine": machine}))
        holds(mapped.by_component == used.by_component, "resources are those of any mapping")
    for amounts in used.by_component.values():
        holds([amount >= 0 for amount in amounts.values()], "no amount is negative")
    holds([used.totals[name] > 0 for name in names], "a design takes some of each resource")
    holds([row.cure and row.unit for row in technology.rows(board, used)], "a unit and a cure")
    powers = list(technology.idle_power(design, used))
    holds(powers, "idle power")
    holds([power.amount >= 0 for power in powers], "no power is negative")
    holds([type(line) is str for line in technology.warnings(design, used)], "warnings are texts")
    again = type(technology).model_validate(technology.model_dump())
    holds(again == technology, "fields come back from files")


def is_a_metric(metric: Metric) -> None:
    """The figure is a number, a truth value, a text or None, and the same each time."""
    report = small_report()
    for row in report.rows:
        value = metric.of(row, report)
        holds(value is None or isinstance(value, bool | int | float | str), "a plain value")
        holds(value == metric.of(row, report), "the same each time")
        holds(metric.text(value), "a text")
    holds(metric.meaning, "a meaning")


def untested(role: str, kind: Any) -> dict[str, str]:
    """What a kind refuses, so that none of its promises was tested there, and why.

    Args:
        role: Role of its registry, such as ``skip``.
        kind: An instance.
    """
    if role not in REFUSALS:
        return {}
    try:
        return REFUSALS[role](kind)
    except Exception:  # whatever a kind from outside does; its checks have said so
        return {}


Check = Callable[[Any], None]

CONTRACTS: Mapping[str, tuple[Check, ...]] = {
    "schedule": (assigns, dispatches, fits),
    "mapping": MAPPING_CHECKS,
    "attention policy": ATTENTION_CHECKS,
    "replay rule": RULE_CHECKS,
    "skip": skip.SKIP_CHECKS,
    "DRAM standard": (is_a_memory, sustains),
    "technology": (is_a_technology,),
    "metric": (is_a_metric,),
}
"""Role of a registry -> the checks of its contract."""

REFUSALS: Mapping[str, Callable[[Any], dict[str, str]]] = {
    "attention policy": forwards.refusals,
    "skip": skip.refusals,
}
"""Role of a registry -> what a kind of it refuses, and why."""
