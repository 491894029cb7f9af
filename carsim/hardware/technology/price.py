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

import csv
from collections.abc import Iterable, Mapping
from importlib import resources
from math import fsum, pi, sqrt
from typing import NamedTuple

from pydantic import Field

from carsim.base.section import NonNegativeFloat
from carsim.hardware.technology.constant import Constant

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


def _boards() -> dict[str, BoardPrice]:
    """Prices of the boards that ship, by name."""
    folder, texts = resources.files("carsim.hardware.technology"), ("board", "date", "source")
    found = {}
    for row in csv.DictReader(folder.joinpath("data/boards.csv").read_text("utf-8").splitlines()):
        fields = {name: cell if name in texts else float(cell) for name, cell in row.items()}
        name = str(fields.pop("board"))
        found[name] = BoardPrice.model_validate(fields)
    return found


BOARDS: Mapping[str, BoardPrice] = _boards()
"""Name of a board -> its price: ``data/boards.csv``, dated. No shop was asked by this table."""


def total(prices: Iterable[Price]) -> Price | None:
    """All parts together; None where no price is known."""
    parts = tuple(prices)
    if not parts:
        return None
    return Price("all", *(fsum(getattr(part, end) for part in parts) for end in ENDS))


def _constant(value: float, low: float, high: float, source: str) -> Constant:
    return Constant(value=value, low=low, high=high, source=source)


_DEFECTS = (
    "per cm2, Chiplet Actuary (parameter.ini); TSMC says 0.09 of N7 (VLSI 2019); high: LLMCompass' "
    "ttm-cas; low is an engineering estimate"
)
_CSET = "gross price of a wafer, CSET, AI chips, 2020, as Chiplet Actuary; low and high: 25 % and "

WAFER_USD: Mapping[str, Constant] = {
    "28nm": _constant(2891.0, 2200.0, 3500.0, _CSET + "20 % off, an engineering estimate"),
    "16nm": _constant(3984.0, 3000.0, 5000.0, _CSET + "25 % off, an engineering estimate"),
    "7nm": _constant(9346.0, 7000.0, 12000.0, _CSET + "28 % off, an engineering estimate"),
}
DEFECTS_PER_CM2: Mapping[str, Constant] = {
    "28nm": _constant(0.07, 0.05, 0.1, _DEFECTS),
    "16nm": _constant(0.08, 0.05, 0.1, _DEFECTS),
    "7nm": _constant(0.09, 0.06, 0.15, _DEFECTS),
}
SUBSTRATE_USD_PER_MM2 = _constant(
    0.02,
    0.02,
    0.1,
    "Chiplet Actuary: 0.005 per mm2 on four times the die; high is an engineering estimate",
)
INTERPOSER_USD_PER_MM2 = _constant(
    0.25,
    0.08,
    0.51,
    "of die and stacks; high: H100, 750 USD of packaging (siliconanalysts.com, 2026) on 814 mm2 "
    "and six stacks; low: Chiplet Actuary's wafer of 1,937 USD, micro bumps, substrate; value is "
    "between them",
)
TEST_SHARE = _constant(
    0.15,
    0.05,
    0.38,
    "test and assembly over all else, siliconanalysts.com, 2026: MI300X 0.13, H100 0.38; low is an "
    "engineering estimate",
)


def die_usd(area_mm2: float, node: str, end: str) -> float:
    """A good die.

    Args:
        area_mm2: Its area.
        node: Process, a key of :data:`WAFER_USD`.
        end: ``value``, ``low`` or ``high`` of the constants.

    >>> round(die_usd(100.0, "7nm", "value"), 2)  # 572 dies, 91.4 % of them good
    17.88
    """
    lane, radius = 0.2, 150 - 5
    pitch = area_mm2 + 2 * lane * sqrt(area_mm2) + lane**2
    dies = max(pi * radius**2 / pitch - pi * 2 * radius / sqrt(2 * pitch), 0.5)
    defects = float(getattr(DEFECTS_PER_CM2[node], end)) * area_mm2 / 100
    return float(getattr(WAFER_USD[node], end)) / (dies * (1 + defects / 10) ** -10)


def chip_prices(
    die_mm2: Mapping[str, float], node: str, stack_mm2: float, memories: Iterable[Price]
) -> list[Price]:
    """Parts of a packaged chip with its memories.

    Args:
        die_mm2: Area of the die at each of :data:`ENDS`.
        node: Its process.
        stack_mm2: Floor of stacks on an interposer.
        memories: Price of each memory.
    """

    def price(part: str, at: Mapping[str, float]) -> Price:
        return Price(part, *(at[end] for end in ENDS))

    per_mm2 = INTERPOSER_USD_PER_MM2 if stack_mm2 else SUBSTRATE_USD_PER_MM2
    parts = [
        price("die", {end: die_usd(die_mm2[end], node, end) for end in ENDS}),
        price(
            "interposer and package" if stack_mm2 else "package",
            {end: getattr(per_mm2, end) * (die_mm2[end] + stack_mm2) for end in ENDS},
        ),
        *memories,
    ]
    tests = {
        end: getattr(TEST_SHARE, end) * fsum(getattr(part, end) for part in parts) for end in ENDS
    }
    return [*parts, price("test and assembly", tests)]
