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
from carsim.hardware.technology.constant import Constant

if TYPE_CHECKING:
    from carsim.hardware.memory.section import Memory


def _constant(value: float, low: float, high: float, source: str) -> Constant:
    return Constant(value=value, low=low, high=high, source=source)


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


_DDR_PHY = _constant(
    1.45,
    0.36,
    2.9,
    "LLMCompass (ISCA 2024, cost_model.py), DDR5 PHY of 32 bits; low: its code elsewhere says of "
    "128 bits; high is an engineering estimate",
)
_DDR_CONTROLLER = _constant(
    0.94,
    0.23,
    1.4,
    "LLMCompass (cost_model.py), 90.4 million transistors a 32-bit DDR5 controller, over 96.3 "
    "million per mm2 at 7 nm (its ttm-cas); low as of the PHY; high is an engineering estimate",
)
_DDR_PJ = _constant(
    3.3,
    0.0,
    5.0,
    "built mobile memory interface of 4.3 GB/s in 40 nm: 3.3 mW per Gb/s, below 5 over its range; "
    "low, as figures of memories may include the interface",
)
_HBM_PHY = _constant(
    10.45,
    5.2,
    29.6,
    "LLMCompass (ISCA 2024, cost_model.py), HBM2E PHY of a stack; high: zkSpeed (ISCA 2025), 59.2 "
    "mm2 for two of HBM3, as secondary notes have it; low is an engineering estimate, half of it",
)
_HBM_CONTROLLER = _constant(
    5.74,
    1.4,
    8.6,
    "LLMCompass (cost_model.py), 553 million transistors a stack, over 96.3 million per mm2 at 7 "
    "nm (its ttm-cas); low and high are engineering estimates, a quarter and one and a half times",
)
_HBM_PJ = _constant(
    0.95,
    0.0,
    2.0,
    "built output of 5.12 Gb/s, 0.95 pJ per bit (A-SSCC 2022, IEEE 9980680); low as of DDR; high "
    "is an engineering estimate",
)
_HBM_USD = _constant(
    15.0,
    7.0,
    20.0,
    "MI300X: some 2,900 USD for 192 GB, H100: 1,400 for 80 (siliconanalysts.com, February 2026, "
    "after Epoch AI); low: LLMCompass, spot of October 2023; high is an engineering estimate",
)
_LPDDR_USD = _constant(
    2.5,
    1.5,
    10.0,
    "LPDDR5X: 1.5 to 2.5 USD a GB before the shortage, 2.5 to 5 in the third quarter of 2025, 5.5 "
    "to 10 after (handheld-intel.pages.dev, 2026)",
)
_DDR_USD = _constant(
    2.4,
    1.5,
    10.0,
    "LLMCompass (cost_model.py), DDR5 spot of October 2023; low and high as LPDDR5X",
)
_DDR = Interface(32, _DDR_PHY, _DDR_CONTROLLER, _DDR_PJ, _DDR_USD, 0.5)
_LPDDR = Interface(32, _DDR_PHY, _DDR_CONTROLLER, _DDR_PJ, _LPDDR_USD, 1.0)
_HBM2 = Interface(1024, _HBM_PHY, _HBM_CONTROLLER, _HBM_PJ, _HBM_USD, 4.0, 92.0)
_HBM3 = _HBM2._replace(least_gib=16.0, stack_mm2=121.0)

INTERFACES: Mapping[str, Interface] = {
    **dict.fromkeys(("DDR3", "DDR4", "DDR5"), _DDR),
    **dict.fromkeys(("LPDDR4", "LPDDR4X", "LPDDR5", "LPDDR5X"), _LPDDR),
    "GDDR6": Interface(
        32,
        _constant(3.0, 1.45, 6.0, "engineering estimate, twice DDR5's PHY"),
        _DDR_CONTROLLER,
        _DDR_PJ,
        _constant(
            3.4, 2.4, 13.0, "spot of June 2023 and, high, of February 2022 (3DCenter); low as DDR5"
        ),
        1.0,
    ),
    "HBM2": _HBM2,
    "HBM2E": _HBM2._replace(least_gib=8.0, stack_mm2=110.0),
    "HBM3": _HBM3,
}
"""By family, as the names of standards begin. Smallest packages: HBM3 comes in stacks of 16 and 24
GB (SK hynix; six of 16 GB are on an H100), HBM2 in stacks of 4 GB (U280). Others, and floors of
stacks (HBM2: 7.75 x 11.87 mm, later 10 to 11 mm square), are from memory, not checked; floors make
some 10 % of a price."""


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
    return fsum(
        interface_of(each).stack_mm2 * interface_of(each).packages(each) for each in memories
    )
