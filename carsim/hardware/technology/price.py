"""US dollars of what a design is built in: a chip with package and memories, or a bought board.

Model of a chip, after Chiplet Actuary (Feng and Ma, DAC 2022): dies per wafer of 300 mm with a
scribe lane of 0.2 mm and an edge of 5 mm; negative binomial yield, ``(1 + area * defects / 10) **
-10``; an organic substrate of four times the die, or with stacks of memory an interposer
under die and stacks. Tests and assembly are a share of the rest. Memory is GiB times a price
(:mod:`carsim.hardware.technology.interface`).

Prices are of parts at volume: no mask, no design (some 300 million USD at 7 nm), no circuit board,
cooling, host or margin. Prices of boards are what one costs in a shop, which has all of these.

Simplifications: no salvage of dies with defects; no wafer that a stack spoils.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import fsum, pi, sqrt
from typing import NamedTuple

from pydantic import Field

from carsim.base.constant import Constant
from carsim.base.sizes import NonNegativeFloat
from carsim.hardware.technology.constant import CONSTANTS, rows_of

ENDS = ("value", "low", "high")
"""Ends of a constant's interval, by name."""

WAFER_RADIUS_MM = 150.0
WAFER_EDGE_MM = 5.0
SCRIBE_LANE_MM = 0.2
CLUSTERING = 10
"""Parameter of the negative binomial yield."""


class Price(NamedTuple):
    """Price of one part, in USD, with its interval.

    Attributes:
        part: The part, such as ``die``.
        value: Best estimate.
        low: If all constants err downwards.
        high: If all constants err upwards.
    """

    part: str
    value: float
    low: float
    high: float


class BoardPrice(Constant):
    """What a board costs in a shop, in USD: a dated constant that counts for its own memories."""

    date: str = Field(pattern=r"^20\d\d(-\d\d)?$", description="year, or year and month")
    memory_gbps: NonNegativeFloat = Field(description="peak of the memories that it comes with")
    memory_gib: NonNegativeFloat = Field(description="their capacity")


BOARDS: Mapping[str, BoardPrice] = {
    row.pop("board"): BoardPrice.model_validate(row, strict=False) for row in rows_of("boards")
}
"""Name of a board -> its price: ``data/boards.csv``, dated. No shop was asked by this table."""


def total(prices: Iterable[Price]) -> Price | None:
    """All parts together; None where no price is known."""
    priced = tuple(prices)
    if not priced:
        return None
    return Price(
        part="all",
        value=fsum(price.value for price in priced),
        low=fsum(price.low for price in priced),
        high=fsum(price.high for price in priced),
    )


def die_usd(area_mm2: float, node: str, end: str) -> float:
    """A good die.

    Args:
        area_mm2: Its area.
        node: Process.
        end: ``value``, ``low`` or ``high`` of the constants.

    >>> round(die_usd(100.0, "7nm", "value"), 2)  # 572 dies, 91.4 % of them good
    17.88
    """
    usable_radius_mm = WAFER_RADIUS_MM - WAFER_EDGE_MM
    die_and_lane_mm2 = area_mm2 + 2 * SCRIBE_LANE_MM * sqrt(area_mm2) + SCRIBE_LANE_MM**2
    of_full_wafer = pi * usable_radius_mm**2 / die_and_lane_mm2
    cut_at_edge = pi * 2 * usable_radius_mm / sqrt(2 * die_and_lane_mm2)
    dies = max(of_full_wafer - cut_at_edge, 0.5)
    defects_per_cm2: float = getattr(CONSTANTS[f"defects_per_cm2.{node}"], end)
    defects = defects_per_cm2 * area_mm2 / 100
    good_dies = dies * (1 + defects / CLUSTERING) ** -CLUSTERING
    wafer_usd: float = getattr(CONSTANTS[f"wafer_usd.{node}"], end)
    return wafer_usd / good_dies


def chip_prices(
    die_mm2: Sequence[float], node: str, stack_mm2: float, memories: Iterable[Price]
) -> list[Price]:
    """Parts of a packaged chip with its memories.

    Args:
        die_mm2: Area of the die at each of :data:`ENDS`.
        node: Its process.
        stack_mm2: Floor of stacks on an interposer.
        memories: Price of each memory.
    """
    package_usd_per_mm2 = CONSTANTS["substrate_usd_per_mm2"].ends
    package_name = "package"
    if stack_mm2:
        package_usd_per_mm2 = CONSTANTS["interposer_usd_per_mm2"].ends
        package_name = "interposer and package"
    die_usds = [die_usd(mm2, node, end) for mm2, end in zip(die_mm2, ENDS, strict=True)]
    package_usds = [
        usd_per_mm2 * (mm2 + stack_mm2)
        for usd_per_mm2, mm2 in zip(package_usd_per_mm2, die_mm2, strict=True)
    ]
    prices = [_of_ends("die", die_usds), _of_ends(package_name, package_usds), *memories]
    test_share = CONSTANTS["test_share"]
    tests = Price(
        part="test and assembly",
        value=test_share.value * fsum(price.value for price in prices),
        low=test_share.low * fsum(price.low for price in prices),
        high=test_share.high * fsum(price.high for price in prices),
    )
    return [*prices, tests]


def _of_ends(part: str, usd: Sequence[float]) -> Price:
    """Price of a part from its price at each of :data:`ENDS`."""
    value, low, high = usd
    return Price(part=part, value=value, low=low, high=high)
