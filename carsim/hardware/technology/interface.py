"""Memory interfaces of a chip: area of PHY and controller, joules per bit, packages, prices.

Model: a channel needs a controller, and the PHY of the package that it leads to. HBM comes in
stacks of 1024 bits on an interposer: a stack that serves one channel takes the whole PHY and
stack. Other memories have a PHY per channel and packages of 32 bits. Controllers shrink with logic,
PHYs do not (LLMCompass, Zhang et al., ISCA 2024). A package holds at least ``least_gib``, so that
bandwidth is not bought without capacity.

Idle power of an interface is leakage and clock of its area, as of all other logic.

Simplifications: bumps find room on their interface (some 70 of a 16-bit channel at a pitch of 0.13
mm take 1.2 mm2, as much as its PHY and controller); the edge of the die is long enough.
"""

from collections.abc import Iterable, Mapping
from itertools import product
from math import ceil, fsum
from typing import TYPE_CHECKING

from carsim.base.errors import InputError
from carsim.hardware.memory.family import ChipInterface
from carsim.hardware.memory.table import STANDARDS

if TYPE_CHECKING:
    from carsim.hardware.memory.section import Memory


CHANNELS = (1 / 16, 1 / 8, 1 / 4, 3 / 8, 1 / 2, 3 / 4, 1, 3 / 2, 2, 3, 4)
"""Channels that a search chooses from, as multiples of those of the board's file."""

CAPACITY = (0.5, 1.0, 1.5, 2.0)
"""GiB per channel that a search chooses from, as multiples of those of the board's file. Memory is
never less than the smallest package, and a stack is never larger than 1.5 times that of the file
(HBM3 comes in 16 and 24 GB)."""

LARGEST_STACK = 1.5


def interface_of(memory: "Memory") -> ChipInterface:
    """The interface that a memory needs.

    Raises:
        InputError: Nothing is known of its family.
    """
    family = memory.family
    if family.interface is None:
        families = STANDARDS.families.items()
        usable = [name for name, family in families if family.interface is not None]
        problem = f"no area of an interface to {memory.family.name} is known"
        cure = f"give the family an `interface`, or choose a standard of {', '.join(usable)}"
        raise InputError("$.board.memories", problem, cure)
    return family.interface


def interface_mm2(memory: "Memory", logic: float, end: str) -> float:
    """Area of PHYs and controllers.

    Args:
        memory: The memory.
        logic: Area of logic over that of 7 nm.
        end: ``value``, ``low`` or ``high`` of the constants.
    """
    interface = interface_of(memory)
    phy_mm2: float = getattr(interface.phy_mm2, end)
    controller_mm2: float = getattr(interface.controller_mm2, end)
    packages = memory.channels * memory.channel_bits / interface.bits
    # A stack that serves one channel takes the whole PHY.
    phys = interface.packages(memory) if interface.stack_mm2 else packages
    return phys * phy_mm2 + packages * controller_mm2 * logic


def memory_choices(
    memories: "Mapping[str, Memory]", also: Mapping[str, object]
) -> Iterable[tuple[str, Mapping[str, object]]]:
    """Each memory with :data:`CHANNELS` and :data:`CAPACITY` times what it has, in whole stacks.

    Args:
        memories: Memories of a chip, by name.
        also: Further changes of the design.
    """
    for name, memory in memories.items():
        interface = interface_of(memory)
        for channels_factor, capacity_factor in product(CHANNELS, CAPACITY):
            channels = channels_factor * memory.channels
            if channels != int(channels):
                continue
            if interface.stack_mm2:
                is_part_of_stack = channels * memory.channel_bits % interface.bits
                if is_part_of_stack or capacity_factor > LARGEST_STACK:
                    continue
            gib = channels_factor * capacity_factor * memory.capacity_gib
            changed = memory.model_copy(update={"channels": int(channels), "capacity_gib": gib})
            if interface.gib(changed) > gib:
                continue
            ports = ceil(channels_factor * memory.ports.count)
            below = f"board.memories.{name}"
            changes = {
                f"{below}.channels": int(channels),
                f"{below}.capacity_gib": gib,
                f"{below}.ports.count": ports,
            }
            yield f"{channels:g} x {memory.standard}, {gib:g} GiB", {**changes, **also}


def stack_mm2(memories: "Iterable[Memory]") -> float:
    """Floor of all stacks on an interposer; 0 where there is none."""
    return fsum(
        interface_of(memory).stack_mm2 * interface_of(memory).packages(memory)
        for memory in memories
    )
