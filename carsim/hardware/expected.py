"""Expected latency on a real board, with an interval whose coverage was measured.

Published systems take longer than carsim says, by a factor that depends on what starts their
kernels (``overheads.control``). ``latency_intervals.csv`` has, for each type of control, the factor
expected and a 90 % interval around it, from residuals of published rows
(:mod:`carsim.validate.intervals` makes the table). Types with few systems are pooled; a design
that states no control has the interval of all systems.
"""

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from carsim.base.files import packaged_rows

if TYPE_CHECKING:
    from carsim.hardware.overheads import Overheads

TABLE = "latency_intervals.csv"
LEVEL = 0.9
"""Share of published rows that an interval should hold."""

POOLED, EVERY, CALIBRATED = "pooled", "all", "calibrated"
"""Pools that are not a type of control: small types together, all systems, and rows that a
constant fitted to other rows of the same system predicts."""


TITLES = {
    POOLED: "rare types of control pooled",
    EVERY: "all types of control pooled",
    CALIBRATED: "calibrated on other rows",
}
"""Pool -> what it holds."""


@dataclass(frozen=True, slots=True)
class Expected:
    """Time on a real board over the time that carsim gives.

    Attributes:
        pool: Types of control that it comes from.
        systems: Published systems in it.
        rows: Their rows.
        factor: Expected factor on a latency.
        spread: Factor between the expected value and either end of the interval, 1 or more.
    """

    pool: str
    systems: int
    rows: int
    factor: float
    spread: float

    @property
    def title(self) -> str:
        """Content of the pool, in words."""
        return TITLES.get(self.pool, self.pool.replace("_", " "))

    @property
    def ends(self) -> tuple[float, float]:
        """Factors on a latency at the low and the high end."""
        return self.factor / self.spread, self.factor * self.spread


@cache
def expected_factors() -> dict[str, Expected]:
    """The table, by pool."""
    rows = TypeAdapter(list[Expected]).validate_python(packaged_rows("carsim.hardware", TABLE))
    return {row.pool: row for row in rows}


def expected_of(overheads: "Overheads") -> Expected:
    """The factor of a machine with these overheads."""
    known = expected_factors()
    pool = CALIBRATED if overheads.calibration is not None else overheads.control or EVERY
    return known.get(pool, known[POOLED])
