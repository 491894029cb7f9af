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
from math import fsum
from typing import TYPE_CHECKING, NamedTuple

from carsim.base.errors import InputError
from carsim.hardware.technology.constant import CONSTANTS, Constant, rows_of

if TYPE_CHECKING:
    from carsim.hardware.memory.section import Memory


class Interface(NamedTuple):
    """What one family of memory needs on a chip and beside it.

    Attributes:
        bits: Data bits of a package.
        phy_mm2: PHY of so many bits, at any node.
        controller_mm2: Controller of so many bits at 7 nm.
        pj_per_bit: Energy of the chip's side of the interface.
        usd_per_gib: Price of the memory.
        least_gib: Smallest package.
        stack_mm2: Floor of a stack on an interposer; 0 for packages on the circuit board.
    """

    bits: int
    phy_mm2: Constant
    controller_mm2: Constant
    pj_per_bit: Constant
    usd_per_gib: Constant
    least_gib: float
    stack_mm2: float = 0.0

    def packages(self, memory: "Memory") -> int:
        """Packages or stacks that the channels of a memory need."""
        return -(-memory.channels * memory.channel_bits // self.bits)

    def gib(self, memory: "Memory") -> float:
        """GiB that are bought for a memory: what it holds, or the smallest packages."""
        return max(memory.capacity_gib, self.packages(memory) * self.least_gib)


def _interface(row: dict[str, str]) -> Interface:
    """A row of the table, whose constants are named by their kinds."""
    names = ("phy_mm2", "controller_mm2", "interface_pj_per_bit", "usd_per_gib")
    phy, controller, joules, usd = (CONSTANTS[f"{name}.{row[name]}"] for name in names)
    least_gib, stack_mm2 = float(row["least_gib"]), float(row["stack_mm2"])
    return Interface(int(row["bits"]), phy, controller, joules, usd, least_gib, stack_mm2)


INTERFACES = {row["family"]: _interface(row) for row in rows_of("interfaces")}
"""``data/interfaces.csv``: by family, as the names of standards begin. Smallest packages: HBM3
comes in stacks of 16 and 24 GB (SK hynix; six of 16 GB are on an H100), HBM2 in stacks of 4 GB
(U280). Others, and floors of stacks (HBM2: 7.75 x 11.87 mm, later 10 to 11 mm square), are from
memory, not checked; floors make some 10 % of a price."""

CHANNELS, CAPACITY = (0.25, 0.5, 1, 2, 4), (1.0, 1.5)
"""Times those of a preset: what a search chooses from."""


def interface_of(memory: "Memory") -> Interface:
    """The interface that a memory needs.

    Raises:
        InputError: Nothing is known of its family.
    """
    family = memory.standard.partition("-")[0]
    if family not in INTERFACES:
        cure = f"choose a standard of {', '.join(INTERFACES)}"
        raise InputError("$.board.memories", f"no area of an interface to {family} is known", cure)
    return INTERFACES[family]


def interface_mm2(memory: "Memory", logic: float, end: str) -> float:
    """Area of PHYs and controllers.

    Args:
        memory: The memory.
        logic: Area of logic over that of 7 nm.
        end: ``value``, ``low`` or ``high`` of the constants.
    """
    each = interface_of(memory)
    phy, controller = (getattr(one, end) for one in (each.phy_mm2, each.controller_mm2))
    share = memory.channels * memory.channel_bits / each.bits  # of one package
    phys = each.packages(memory) if each.stack_mm2 else share
    return float(phys * phy + share * controller * logic)


def memory_choices(
    memories: "Mapping[str, Memory]", also: Mapping[str, object]
) -> Iterable[tuple[str, Mapping[str, object]]]:
    """Each memory with :data:`CHANNELS` and :data:`CAPACITY` times what it has, in whole stacks.

    Args:
        memories: Memories of a chip, by name.
        also: Further changes of the design.
    """
    for name, memory in memories.items():
        for more, roomier in product(CHANNELS, CAPACITY):
            channels, gib = more * memory.channels, more * roomier * memory.capacity_gib
            part = channels * memory.channel_bits % interface_of(memory).bits
            if channels != int(channels) or (part and interface_of(memory).stack_mm2):
                continue
            changes = {
                "channels": int(channels),
                "capacity_gib": gib,
                "ports.count": max(1, round(more * memory.ports.count)),
            }
            changed = {f"board.memories.{name}.{key}": value for key, value in changes.items()}
            yield f"{channels:g} x {memory.standard}, {gib:g} GiB", {**changed, **also}


def stack_mm2(memories: "Iterable[Memory]") -> float:
    """Floor of all stacks on an interposer; 0 where there is none."""
    known = ((interface_of(each), each) for each in memories)
    return fsum(interface.stack_mm2 * interface.packages(each) for interface, each in known)
