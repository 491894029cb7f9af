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

from carsim.base.sizes import NonNegativeFloat
from carsim.hardware.technology.constant import CONSTANTS, Constant, rows_of

ENDS = ("value", "low", "high")


class Price(NamedTuple):
    """What one part costs, in USD.

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
    parts = tuple(prices)
    if not parts:
        return None
    _, *ends = zip(*parts, strict=True)
    return Price("all", *map(fsum, ends))


def die_usd(area_mm2: float, node: str, end: str) -> float:
    """A good die.

    Args:
        area_mm2: Its area.
        node: Process.
        end: ``value``, ``low`` or ``high`` of the constants.

    >>> round(die_usd(100.0, "7nm", "value"), 2)  # 572 dies, 91.4 % of them good
    17.88
    """
    lane, radius = 0.2, 150 - 5
    pitch = area_mm2 + 2 * lane * sqrt(area_mm2) + lane**2
    dies = max(pi * radius**2 / pitch - pi * 2 * radius / sqrt(2 * pitch), 0.5)
    defects = float(getattr(CONSTANTS[f"defects_per_cm2.{node}"], end)) * area_mm2 / 100
    return float(getattr(CONSTANTS[f"wafer_usd.{node}"], end)) / (dies * (1 + defects / 10) ** -10)


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
    per_mm2 = CONSTANTS[f"{'interposer' if stack_mm2 else 'substrate'}_usd_per_mm2"].ends
    name = "interposer and package" if stack_mm2 else "package"
    areas = list(zip(die_mm2, ENDS, per_mm2, strict=True))
    die = Price("die", *(die_usd(area, node, end) for area, end, _ in areas))
    package = Price(name, *(usd * (area + stack_mm2) for area, _, usd in areas))
    parts = [die, package, *memories]
    shares = zip(CONSTANTS["test_share"].ends, *(part[1:] for part in parts), strict=True)
    tests = (share * fsum(prices) for share, *prices in shares)
    return [*parts, Price("test and assembly", *tests)]
