"""Intervals of latencies from residuals of published systems, and their measured coverage.

Method: conformal prediction with systems as groups. The residual of a row is the logarithm of
published time over carsim's. The centre is the mean over systems of the mean residual of each. The
half-width is the least distance from it within which lie 90 % of the weight, where every system
weighs 1 / (n + 1), shared by its rows, and one more system lies outside. So a pool needs nine
systems; types of control that have fewer are pooled. Calibrated rows are predicted by one time per
layer, fitted to the other rows of their system.

Coverage is measured by leaving out one system at a time: its rows count as inside or outside of the
interval that the other systems give.

Simplifications: systems count as exchangeable, although several share a runtime or a vendor; the
centre is of the same systems as the half-width, which a strict split would not allow.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import fmean

from carsim.base.groups import grouped
from carsim.base.statistics import wilson
from carsim.hardware.expected import CALIBRATED, EVERY, LEVEL, POOLED, Expected, expected_factors
from carsim.runs.calibrate import MeasuredSpeed, best_constants
from carsim.validate.published import Predicted

LEAST_SYSTEMS = 9
"""Fewest systems of which 90 % may lie inside while one more lies outside."""

Residuals = Mapping[str, Sequence[float]]
"""System -> residuals of its rows."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """Rows of left-out systems that lie inside their interval."""

    pool: str
    inside: int
    rows: int

    @property
    def ends(self) -> tuple[float, float]:
        """Wilson's 95 % interval of the share inside, rows taken as independent.

        >>> [round(end, 3) for end in Coverage("all", 90, 100).ends]
        [0.826, 0.945]
        """
        found = wilson(self.inside, self.rows)
        return found.low, found.high

    @property
    def text(self) -> str:
        """A sentence on the interval of the pool, and on how many rows lie inside."""
        (low, high), table = self.ends, expected_factors()[self.pool]
        return (
            f"Interval of {self.pool}: a latency is expected to be {table.factor:.2f} times "
            f"carsim's ({table.ends[0]:.2f} to {table.ends[1]:.2f}; {table.systems} systems). Of "
            f"rows of systems left out, {self.inside / self.rows:.0%} lie inside ({low:.0%} to "
            f"{high:.0%}; {self.inside} of {self.rows}; 90 % is claimed)."
        )


def interval(pool: str, residuals: Residuals) -> Expected:
    """The expected factor and its spread, rounded as the table has them.

    Args:
        pool: Its name.
        residuals: Of at least nine systems.
    """
    centre = fmean(fmean(each) for each in residuals.values())
    share = 1 / (len(residuals) + 1)
    weighted = sorted(
        (abs(residual - centre), share / len(of_system))
        for of_system in residuals.values()
        for residual in of_system
    )
    held, spread = 0.0, 0.0
    for distance, weight in weighted:
        held, spread = held + weight, distance
        if held >= LEVEL - 1e-9:
            break
    rows = sum(map(len, residuals.values()))
    return Expected(pool, len(residuals), rows, round(exp(centre), 3), round(exp(spread), 3))


def coverage(pool: str, residuals: Residuals) -> Coverage:
    """Coverage of the intervals that leave out one system at a time."""
    inside = 0
    for system, of_system in residuals.items():
        found = interval(pool, {name: each for name, each in residuals.items() if name != system})
        inside += sum(abs(each - log(found.factor)) <= log(found.spread) for each in of_system)
    return Coverage(pool, inside, sum(map(len, residuals.values())))


def pools(predicted: Iterable[Predicted]) -> dict[str, Residuals]:
    """Residuals of each pool: types of control with enough systems, the others, all, calibrated."""
    predicted = list(predicted)
    of_control = grouped(
        (str(each.row.design.machine.overheads.control), each) for each in predicted
    )
    found: dict[str, Residuals] = {}
    pooled: dict[str, list[float]] = {}
    for control, rows in of_control.items():
        systems = grouped((each.row.unit, each.log_excess) for each in rows)
        if len(systems) > LEAST_SYSTEMS:  # one is left out to measure coverage
            found[control] = systems
        else:
            pooled |= {f"{control}: {name}": each for name, each in systems.items()}
    found[POOLED] = pooled
    found[EVERY] = grouped((each.row.unit, each.log_excess) for each in predicted)
    found[CALIBRATED] = grouped(
        (each.row.unit, log(speed / each.row.tok_per_s))
        for each, speed in left_out_speeds(predicted, calibrated_speed)
    )
    return {name: each for name, each in found.items() if len(each) > LEAST_SYSTEMS}


def left_out_speeds(
    predicted: Iterable[Predicted],
    speed: Callable[[MeasuredSpeed, Sequence[MeasuredSpeed]], float],
    same: Callable[[Predicted], object] = id,
    of: Callable[[Predicted], object] = lambda each: each.row.unit,
) -> list[tuple[Predicted, float]]:
    """Speed of each row by other rows of its group; rows without any are left out.

    Args:
        predicted: The rows.
        speed: Gives tokens per second of a point from others.
        same: Rows with equal values of it are left out together, such as those of one model.
        of: The group of a row, by default its system.
    """
    found = []
    for rows in grouped((of(each), each) for each in predicted).values():
        for each in rows:
            others = [other.point for other in rows if same(other) != same(each)]
            if others:
                found.append((each, speed(each.point, others)))
    return found


def calibrated_speed(point: MeasuredSpeed, others: Sequence[MeasuredSpeed]) -> float:
    """Tokens per second with the constants that ``carsim calibrate`` fits to other points."""
    return point.tokens_per_s * (1 + point.error(best_constants(others)))


def one_factor(point: MeasuredSpeed, others: Sequence[MeasuredSpeed]) -> float:
    """Tokens per second with one factor on all time, fitted to other points."""
    factor = exp(fmean(log(other.measured_us / other.bound_us) for other in others))
    return point.tokens_per_s * point.measured_us / (point.bound_us * factor)
