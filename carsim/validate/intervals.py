"""Intervals of times from residuals of published systems, and their measured coverage.

Statistics of a population (:func:`expected_in`). The residual of a row is the logarithm of its
published time over carsim's. Rows of one system are not independent, so that each system counts
once:

* The expected factor is the median over systems of each system's mean residual. A median has the
  least mean size of errors, which is what all tables of errors state; residuals are skewed, as a
  few systems are much slower.
* The interval is a 90 % prediction interval for a row of one more system: Student's t times the
  standard deviation about the mean of the systems, with a floor
  (:func:`carsim.hardware.expected.interval_of`). Each system's rows share its weight in the
  variance, so that the spread within systems counts as well.

Coverage is measured with all rows of the tested system left out: populations are chosen, and their
intervals made, from the other systems alone. The rival's interval comes from the residuals of 0.9
of the peak bandwidth by the same statistics. No interval reaches below the time at the peak.

Simplifications: logarithms of residuals count as normal, and systems as exchangeable, although
several share a runtime or a vendor.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import permutations
from math import exp, log, sqrt
from operator import attrgetter
from statistics import fmean, median
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from carsim.base.groups import grouped
from carsim.base.statistics import wilson
from carsim.base.text import count
from carsim.hardware.expected import (
    ALL,
    CALIBRATED,
    LEAST_SYSTEMS,
    LEVEL,
    OWN,
    TRANSFERS,
    Coverage,
    Expected,
    interval_of,
    populations,
    transfer_prefix,
    widest,
)
from carsim.hardware.overheads import same_precision
from carsim.runs.calibrate import MeasuredSpeed, best_constants, left_out_errors, log_sd_of
from carsim.validate.published import Predicted, Published

USUAL = 0.9
"""Share of the peak bandwidth that the rival takes for granted."""

KINDS = {"fpga": "FPGAs", "gpu": "GPUs", "npu": "NPUs"}
"""Kind of systems -> its name in a sentence."""

TWO_CONSTANTS = "peak, two constants"
"""The rival without a simulator: bytes over peak, and the constants of a calibration."""

Floats = NDArray[np.float64]


class Logs(NamedTuple):
    """Logarithms of a row's published time, and of its time at the peak, over predicted time."""

    residual: float
    floor: float


@dataclass(frozen=True)
class PublishedSystem:
    """Residuals of the rows of one system.

    Attributes:
        name: Its name.
        kind: ``fpga``, ``gpu`` or ``npu``.
        control: What starts its kernels; None if populations are not told apart by it.
        residuals: Logarithm of published over predicted time of at least one row.
        floors: Logarithm of the time at the peak bandwidth over the predicted time, of each row.
    """

    name: str
    kind: str
    control: str | None
    residuals: tuple[float, ...]
    floors: tuple[float, ...]


@dataclass(frozen=True)
class Held:
    """Rows that were tested against intervals made without their system; logarithms of times.

    Attributes:
        systems: Systems that the rows are of.
        residuals: float[rows], published over predicted time.
        middles: float[rows], middle of the interval of each row.
        halves: float[rows], half-width of the interval of each row.
        floors: float[rows], time at the peak bandwidth over predicted time; no interval reaches
            below it.
    """

    systems: int
    residuals: Floats
    middles: Floats
    halves: Floats
    floors: Floats

    @classmethod
    def of(cls, system: PublishedSystem, interval: Expected) -> "Held":
        """Rows of one system against one interval."""
        rows = len(system.residuals)
        log_low = log(interval.low)
        log_high = log(interval.high)
        return cls(
            systems=1,
            residuals=np.array(system.residuals),
            middles=np.full(rows, (log_low + log_high) / 2),
            halves=np.full(rows, (log_high - log_low) / 2),
            floors=np.array(system.floors),
        )

    @classmethod
    def together(cls, parts: Sequence["Held"]) -> "Held":
        """Rows of several systems."""
        return cls(
            systems=sum(held_out.systems for held_out in parts),
            residuals=np.concatenate([held_out.residuals for held_out in parts]),
            middles=np.concatenate([held_out.middles for held_out in parts]),
            halves=np.concatenate([held_out.halves for held_out in parts]),
            floors=np.concatenate([held_out.floors for held_out in parts]),
        )

    @property
    def rows(self) -> int:
        """Rows that were tested."""
        return len(self.residuals)

    @property
    def distances(self) -> Floats:
        """float[rows], distance from the middle of the interval in half-widths; 1 at its ends."""
        return np.abs(self.residuals - self.middles) / self.halves

    @property
    def inside(self) -> int:
        """Rows inside their interval."""
        is_inside = (self.distances <= 1) & (self.residuals >= self.floors)
        return int(is_inside.sum())

    @property
    def coverage(self) -> float:
        """Share of the rows that are inside."""
        return self.inside / self.rows

    @property
    def ends(self) -> tuple[float, float]:
        """Wilson's 95 % interval of the share inside, rows taken as independent."""
        share = wilson(self.inside, self.rows)
        return share.low, share.high

    @property
    def width(self) -> float:
        """Median over rows of the high end over the low end."""
        return self._width(1.0)

    def width_at(self, coverage: float) -> float:
        """Median width after all intervals are stretched until they hold this share of the rows."""
        stretch = float(np.quantile(self.distances, coverage, method="higher"))
        return self._width(stretch)

    def text(self, noun: str = "row") -> str:
        """Coverage and width in words.

        Args:
            noun: What was tested, in the singular.
        """
        low, high = self.ends
        return (
            f"{self.coverage:.0%} of {count(self.rows, noun)} inside "
            f"({low:.0%} to {high:.0%}), median width {self.width:.2f}x"
        )

    def _width(self, stretch: float) -> float:
        """Median over rows of high over low end, of intervals that are so many times as wide."""
        lows = np.maximum(self.middles - stretch * self.halves, self.floors)
        highs = np.maximum(self.middles + stretch * self.halves, self.floors)
        return float(np.exp(np.median(highs - lows)))


def expected_in(pool: str, systems: Iterable[Sequence[float]]) -> Expected:
    """The expected factor of a population and its interval, rounded as the table has them.

    Args:
        pool: Name of the population.
        systems: Residuals of each of at least two systems.
    """
    residuals = [np.array(of_system) for of_system in systems]
    means = [float(of_system.mean()) for of_system in residuals]
    n_systems = len(means)
    middle = fmean(means)
    # Every system has the same weight, however many rows it has.
    squares = [float(((of_system - middle) ** 2).mean()) for of_system in residuals]
    log_sd = sqrt(fmean(squares) * n_systems / (n_systems - 1))
    half = interval_of(log_sd, n_systems)
    return Expected(
        pool=pool,
        systems=n_systems,
        rows=sum(map(len, residuals)),
        factor=round(exp(median(means)), 3),
        low=round(exp(middle - half), 3),
        high=round(exp(middle + half), 3),
    )


def expected_table(systems: Iterable[PublishedSystem], prefix: str = "") -> dict[str, Expected]:
    """Populations of at least three systems, with their factors and intervals.

    Args:
        systems: The published systems.
        prefix: Begins the names of the populations.
    """
    members: dict[str, list[Sequence[float]]] = {}
    for system in systems:
        for pool in populations(system.kind, system.control):
            members.setdefault(pool, []).append(system.residuals)
    return {
        f"{prefix}{pool}": expected_in(f"{prefix}{pool}", residuals)
        for pool, residuals in sorted(members.items())
        if len(residuals) >= LEAST_SYSTEMS
    }


def without_system(systems: Iterable[PublishedSystem], tested: PublishedSystem) -> Expected:
    """Expected factor and interval of a system, from the rows of all others."""
    return _without_system(systems, tested)[0]


def width_without_system(systems: Iterable[PublishedSystem], tested: PublishedSystem) -> Expected:
    """The interval of a calibrated system from the rows of all others, centred on its own fit."""
    return widest(_without_system(systems, tested)).centred


def _without_system(systems: Iterable[PublishedSystem], tested: PublishedSystem) -> list[Expected]:
    """Populations of a system from the nearest to the widest, without its own rows."""
    table = expected_table(system for system in systems if system.name != tested.name)
    pools = populations(tested.kind, tested.control)
    return [table[pool] for pool in pools if pool in table]


def expected_speeds(
    predicted: Sequence[Predicted], seconds: Callable[[Predicted], float]
) -> list[float]:
    """Expected tokens per second of each row, by a factor from the rows of all other systems.

    Args:
        predicted: Published rows.
        seconds: Predicted seconds of a step of a row.
    """
    systems = raw_systems(predicted, seconds)
    factors = {system.name: without_system(systems, system).factor for system in systems}
    speeds = []
    for prediction in predicted:
        expected_seconds = seconds(prediction) * factors[prediction.row.unit]
        speeds.append(1 / expected_seconds)
    return speeds


def left_out_systems(systems: Sequence[PublishedSystem], centred: bool = False) -> dict[str, Held]:
    """Coverage of intervals made without the tested system, by kind of system and for all.

    Args:
        systems: The published systems.
        centred: Only widths come from other systems, as for calibrated designs.
    """
    of_kind: dict[str, list[Held]] = {}
    interval_without = width_without_system if centred else without_system
    for tested in systems:
        held_out = Held.of(tested, interval_without(systems, tested))
        of_kind.setdefault(tested.kind, []).append(held_out)
        of_kind.setdefault(ALL, []).append(held_out)
    return {kind: Held.together(of_systems) for kind, of_systems in of_kind.items()}


def raw_systems(
    predicted: Iterable[Predicted], seconds: Callable[[Predicted], float]
) -> list[PublishedSystem]:
    """Residuals of predictions that use no measurement.

    Args:
        predicted: Published rows.
        seconds: Predicted seconds of a step of a row.
    """

    def logs(rows: Sequence[Predicted]) -> list[Logs]:
        return [_logs(row, seconds(row)) for row in rows]

    return _systems(predicted, logs)


def bare_seconds(each: Predicted) -> float:
    """Seconds of a token as carsim gives them."""
    return 1 / each.speed


def usual_seconds(each: Predicted) -> float:
    """Seconds of a token at 0.9 of the peak bandwidth."""
    return 1 / each.row.at_peak(USUAL)


def calibrated_systems(
    predicted: Iterable[Predicted], point: Callable[[Predicted], MeasuredSpeed]
) -> list[PublishedSystem]:
    """Residuals of rows that are each predicted from one other row of their system.

    Args:
        predicted: Published rows.
        point: The row as a point to calibrate with.
    """

    def logs(rows: Sequence[Predicted]) -> list[Logs]:
        logs_of_pairs = []
        for tested, calibrating in permutations(rows, 2):
            seconds = calibrated_seconds(point(tested), [point(calibrating)])
            logs_of_pairs.append(_logs(tested, seconds))
        return logs_of_pairs

    # A calibrated design takes its width from systems of its kind, whatever starts its kernels.
    return [replace(system, control=None) for system in _systems(predicted, logs)]


def own_held(
    predicted: Iterable[Predicted], point: Callable[[Predicted], MeasuredSpeed]
) -> dict[int, Held]:
    """Coverage of intervals from a system's own points, a row left out in turn.

    Args:
        predicted: Published rows.
        point: The row as a point to calibrate with.

    Returns:
        By the number of points that calibrate: three, and 0 for all other rows of the system. Three
        are the rows that follow the tested one, in the order of the file.
    """
    by_points: dict[int, list[Held]] = {}
    for rows in _by_system(predicted).values():
        if len(rows) <= LEAST_SYSTEMS:
            continue
        for points, most_points in ((LEAST_SYSTEMS, LEAST_SYSTEMS), (0, len(rows) - 1)):
            tests = [_own_test(rows, index, most_points, point=point) for index in range(len(rows))]
            with_interval = [test for test in tests if test is not None]
            if with_interval:
                of_system = replace(Held.together(with_interval), systems=1)
                by_points.setdefault(points, []).append(of_system)
    return {points: Held.together(of_systems) for points, of_systems in by_points.items()}


class TransferTest(NamedTuple):
    """A row that is predicted from rows of other models of its system.

    Attributes:
        tested: The row.
        others: Rows that calibrate.
    """

    tested: Predicted
    others: tuple[Predicted, ...]


def transfer_tests(
    predicted: Iterable[Predicted], transfer: str, points: int
) -> list[TransferTest]:
    """Rows that differ from all rows which calibrate as a design differs from its calibration.

    Args:
        predicted: Published rows.
        transfer: A key of :data:`carsim.hardware.expected.TRANSFERS`. ``precision``: no row that
            calibrates has the precision of the tested one, and one is of its family. ``family``: no
            row is of its family, and one has its precision. ``both``: neither.
        points: 1 for a test with each single row that may calibrate; else a test with all of them,
            which have to be so many.
    """
    tests = []
    for rows in _by_system(predicted).values():
        for tested in rows:
            may_calibrate = [
                row for row in rows if row is not tested and _may(row, tested, transfer)
            ]
            sets = [[row] for row in may_calibrate] if points == 1 else [may_calibrate]
            for calibrating in sets:
                is_enough = len(calibrating) >= points
                if is_enough and _is_transfer(calibrating, tested, transfer):
                    tests.append(TransferTest(tested, tuple(calibrating)))
    return tests


def transfer_systems(
    tests: Iterable[TransferTest], point: Callable[[Predicted], MeasuredSpeed]
) -> list[PublishedSystem]:
    """Residuals of rows that were predicted across a difference of models, by system.

    Args:
        tests: The rows, and those that calibrate.
        point: A row as a point to calibrate with.
    """
    systems = []
    for name, of_system in grouped((test.tested.row.unit, test) for test in tests).items():
        residuals = [_transfer_logs(test, point) for test in of_system]
        system = _system(name, of_system[0].tested, residuals)
        systems.append(replace(system, control=None))
    return systems


def transfer_held(
    predicted: Sequence[Predicted],
    transfer: str,
    points: int,
    point: Callable[[Predicted], MeasuredSpeed],
    calibrated: Sequence[PublishedSystem],
) -> Held:
    """Coverage across a difference of models, all rows of the tested system left out of the width.

    The interval is the wider of that of the row's own calibration and that of the other systems
    that were predicted across the difference.

    Args:
        predicted: Published rows.
        transfer: A key of :data:`carsim.hardware.expected.TRANSFERS`.
        points: 1; :data:`carsim.hardware.expected.LEAST_SYSTEMS` for designs with several points.
        point: A row as a point to calibrate with.
        calibrated: Systems of which each row is predicted from one other row, as of
            :func:`calibrated_systems` with this ``point``.
    """
    tests = transfer_tests(predicted, transfer, points)
    systems = transfer_systems(tests, point)
    held_out = []
    for system in systems:
        across_difference = width_without_system(systems, system)
        of_calibrated = width_without_system(calibrated, system)
        for test in tests:
            if test.tested.row.unit != system.name:
                continue
            of_calibration = None
            if points >= LEAST_SYSTEMS:
                of_calibration = own_interval([point(row) for row in test.others])
            interval = widest([across_difference, of_calibration or of_calibrated])
            tested_row = _system(system.name, test.tested, [_transfer_logs(test, point)])
            held_out.append(Held.of(tested_row, interval))
    return replace(Held.together(held_out), systems=len(systems))


def own_interval(points: Sequence[MeasuredSpeed]) -> Expected | None:
    """The interval of a system from its own points; None where none could be left out of a fit."""
    log_sd = log_sd_of(left_out_errors(points))
    if log_sd is None:
        return None
    half = interval_of(log_sd, len(points))
    return Expected(OWN, 0, len(points), factor=1.0, low=exp(-half), high=exp(half))


def published_table(predicted: Sequence[Predicted]) -> list[Expected]:
    """All rows of the table of intervals: plain populations, then calibrated ones."""
    plain = expected_table(raw_systems(predicted, bare_seconds))
    calibrated = calibrated_systems(predicted, attrgetter("point"))
    table = expected_table(calibrated, f"{CALIBRATED} ")
    moved: list[Expected] = []
    for transfer in TRANSFERS:
        for points in (1, LEAST_SYSTEMS):
            tests = transfer_tests(predicted, transfer, points)
            systems = transfer_systems(tests, attrgetter("point"))
            moved += expected_table(systems, transfer_prefix(transfer, points)).values()
    return [*plain.values(), *table.values(), *moved]


def table_text(rows: Iterable[Expected]) -> str:
    """Rows of the table of intervals as its CSV file has them."""
    lines = [
        f"{row.pool},{row.systems},{row.rows},{row.factor},{row.low},{row.high}" for row in rows
    ]
    return "\n".join(["pool,systems,rows,factor,low,high", *lines, ""])


def coverage_table(predicted: Sequence[Predicted]) -> list[Coverage]:
    """Coverage of each population of intervals, all rows of the tested system left out.

    For a design's own points, each row is predicted from all others of its system.
    """
    by_pool: dict[str, Held] = left_out_systems(raw_systems(predicted, bare_seconds))
    point = attrgetter("point")
    calibrated = calibrated_systems(predicted, point)
    for kind, of_kind in left_out_systems(calibrated, centred=True).items():
        by_pool[f"{CALIBRATED} {kind}"] = of_kind
    by_pool[OWN] = own_held(predicted, point)[0]
    for transfer in TRANSFERS:
        for points in (1, LEAST_SYSTEMS):
            pool = transfer_prefix(transfer, points).strip()
            by_pool[pool] = transfer_held(
                predicted, transfer, points=points, point=point, calibrated=calibrated
            )
    return [
        Coverage(pool, rows=held_out.rows, inside=held_out.inside)
        for pool, held_out in by_pool.items()
    ]


def coverage_text(rows: Iterable[Coverage]) -> str:
    """Rows of the table of coverages as its CSV file has them."""
    lines = [f"{row.pool},{row.rows},{row.inside}" for row in rows]
    return "\n".join(["pool,rows,inside", *lines, ""])


def coverage_notes(predicted: Sequence[Predicted]) -> Iterator[str]:
    """Coverage and width of the intervals next to the rivals', a paragraph for each population."""
    yield (
        "Intervals claim 90 %. All rows of the tested system are left out. In brackets: Wilson's "
        "95 % interval of the coverage, rows taken as independent. The width is the high end of an "
        "interval over its low end."
    )
    yield from _expected_notes(predicted)
    of_carsim = attrgetter("point")
    calibrated = calibrated_systems(predicted, of_carsim)
    rival_calibrated = calibrated_systems(predicted, peak_point)
    yield from _single_row_notes(calibrated, rival_calibrated)
    yield from _own_notes(predicted)
    for transfer, title in TRANSFERS.items():
        for points, rows in ((1, "one row"), (LEAST_SYSTEMS, "three or more rows")):
            ours = transfer_held(
                predicted, transfer, points=points, point=of_carsim, calibrated=calibrated
            )
            rival = transfer_held(
                predicted, transfer, points=points, point=peak_point, calibrated=rival_calibrated
            )
            yield (
                f"Calibrated by {rows} {title}, {count(ours.systems, 'system')}: carsim "
                f"{ours.text('prediction')}; {TWO_CONSTANTS} {rival.text('prediction')}. "
                f"{_narrower(ours, rival)}"
            )


def _expected_notes(predicted: Sequence[Predicted]) -> Iterator[str]:
    """Intervals of expected times next to those of a share of the peak, by kind of system."""
    of_carsim = left_out_systems(raw_systems(predicted, bare_seconds))
    of_rival = left_out_systems(raw_systems(predicted, usual_seconds))
    for kind in _in_order(of_carsim):
        ours = of_carsim[kind]
        rival = of_rival[kind]
        yield (
            f"Expected times, {_title(kind, ours)}: carsim {ours.text()}; {USUAL} of peak "
            f"{rival.text()}. {_narrower(ours, rival)}"
        )


def _single_row_notes(
    calibrated: Sequence[PublishedSystem], rival_calibrated: Sequence[PublishedSystem]
) -> Iterator[str]:
    """Intervals of times calibrated by one other row, next to the rival's, by kind of system."""
    of_carsim = left_out_systems(calibrated, centred=True)
    of_rival = left_out_systems(rival_calibrated, centred=True)
    for kind in _in_order(of_carsim):
        ours = of_carsim[kind]
        rival = of_rival[kind]
        yield (
            f"Calibrated by one other row, {_title(kind, ours)}: carsim {ours.text('prediction')}; "
            f"{TWO_CONSTANTS} {rival.text('prediction')}. {_narrower(ours, rival)}"
        )


def _own_notes(predicted: Sequence[Predicted]) -> Iterator[str]:
    """Intervals from the errors of a system's own rows, next to the rival's."""
    of_carsim = own_held(predicted, attrgetter("point"))
    of_rival = own_held(predicted, peak_point)
    for points, ours in of_carsim.items():
        rival = of_rival[points]
        rows = str(points) if points else "all"
        yield (
            f"Calibrated by {rows} other rows, width from their own errors, "
            f"{count(ours.systems, 'system')}: carsim {ours.text()}; {TWO_CONSTANTS} "
            f"{rival.text()}. {_narrower(ours, rival)}"
        )


def left_out_speeds(
    predicted: Iterable[Predicted],
    speed: Callable[[MeasuredSpeed, Sequence[MeasuredSpeed]], float],
    same: Callable[[Predicted], object] = id,
    of: Callable[[Predicted], object] = lambda each: each.row.unit,
    point: Callable[[Predicted], MeasuredSpeed] = lambda each: each.point,
) -> list[tuple[Predicted, float]]:
    """Speed of each row by other rows of its group; rows without any are left out.

    Args:
        predicted: The rows.
        speed: Gives tokens per second of a point from others.
        same: Rows with equal values of it are left out together, such as those of one model.
        of: The group of a row, by default its system.
        point: The row as a point to calibrate with.
    """
    speeds = []
    for rows in grouped((of(row), row) for row in predicted).values():
        for tested in rows:
            calibrating = [point(row) for row in rows if same(row) != same(tested)]
            if calibrating:
                speeds.append((tested, speed(point(tested), calibrating)))
    return speeds


def few_rows_speeds(
    predicted: Iterable[Predicted],
    number: int,
    point: Callable[[Predicted], MeasuredSpeed] = lambda each: each.point,
) -> list[tuple[Predicted, float]]:
    """Calibrated speed of each row from few other rows of its system.

    Args:
        predicted: The rows.
        number: Rows that calibrate. With one, each other row of the system calibrates in turn; with
            more, those that follow in the order of the file.
        point: The row as a point to calibrate with.
    """
    speeds = []
    for rows in _by_system(predicted).values():
        for index, tested in enumerate(rows):
            following = _following(rows, index)
            sets = [[row] for row in following] if number == 1 else [following[:number]]
            for calibrating in sets:
                if len(calibrating) == number:
                    points = [point(row) for row in calibrating]
                    speeds.append((tested, calibrated_speed(point(tested), points)))
    return speeds


def calibrated_speed(point: MeasuredSpeed, others: Sequence[MeasuredSpeed]) -> float:
    """Tokens per second with the constants that ``carsim calibrate`` fits to other points."""
    return point.tokens_per_s * (1 + point.error(best_constants(others)))


def calibrated_seconds(point: MeasuredSpeed, others: Sequence[MeasuredSpeed]) -> float:
    """Seconds of a token with the constants that ``carsim calibrate`` fits to other points."""
    return 1 / calibrated_speed(point, others)


def one_factor(point: MeasuredSpeed, others: Sequence[MeasuredSpeed]) -> float:
    """Tokens per second with one factor on all time, fitted to other points."""
    factor = exp(fmean(log(other.measured_us / other.bound_us) for other in others))
    return point.tokens_per_s * point.measured_us / (point.bound_us * factor)


def peak_point(each: Predicted) -> MeasuredSpeed:
    """A row as the rival without a simulator calibrates with it.

    A step takes its bytes over the peak bandwidth of the data sheet. Time per layer and share of
    the bandwidth are fitted to it as ``carsim calibrate`` fits them to carsim's time.
    """
    step_us = 1e6 * each.point.design.policy.batch / each.row.at_peak(1.0)
    return replace(each.point, bound_us=step_us, peak_us=step_us, most_share=1.0)


def roofline_point(each: Predicted) -> MeasuredSpeed:
    """A row as the rival that knows phases calibrates with it.

    Each phase of a step (projections, attention, MLP, head) takes the longer of its bytes over the
    peak bandwidth of the data sheet and its multiply-accumulates over the peak of the arrays. No
    latency, buffer, port or dispatch takes time. Constants are fitted as for :func:`peak_point`.
    """
    decoded = each.decode
    design = decoded.design
    macs_per_us = design.machine.macs_per_cycle * design.board.fabric_clock_mhz
    step_us = 0.0
    for total in decoded.simulation.totals.values():
        bytes_us = sum(total.dram_bytes) / (1e3 * each.row.peak_gbps)
        step_us += max(bytes_us, total.macs / macs_per_us) / len(decoded.contexts)
    return replace(each.point, bound_us=step_us, peak_us=step_us, most_share=1.0)


# -------------------------------------------------------------------- private


def _systems(
    predicted: Iterable[Predicted], logs: Callable[[Sequence[Predicted]], Sequence[Logs]]
) -> list[PublishedSystem]:
    """Systems of the rows, without those that have no residual."""
    systems = []
    for name, rows in _by_system(predicted).items():
        logs_of_rows = logs(rows)
        if logs_of_rows:
            systems.append(_system(name, rows[0], logs_of_rows))
    return systems


def _by_system(predicted: Iterable[Predicted]) -> dict[str, list[Predicted]]:
    """Rows by the name of their system."""
    return grouped((row.row.unit, row) for row in predicted)


def _following(rows: Sequence[Predicted], index: int) -> list[Predicted]:
    """All rows but one: those behind it in the order of the file, then those before it."""
    return [*rows[index + 1 :], *rows[:index]]


def _system(name: str, first: Predicted, of_rows: Sequence[Logs]) -> PublishedSystem:
    """Residuals of a system's rows; kind and control are those of its first row."""
    design = first.row.design
    control = design.machine.overheads.control
    return PublishedSystem(
        name=name,
        kind=design.board.technology.published_kind(control).name,
        control=control,
        residuals=tuple(logs.residual for logs in of_rows),
        floors=tuple(logs.floor for logs in of_rows),
    )


def _logs(each: Predicted, seconds: float) -> Logs:
    """Logarithms of a row's times over predicted seconds of a token."""
    return Logs(
        residual=log(1 / each.row.tok_per_s / seconds),
        floor=log(1 / each.row.at_peak(1.0) / seconds),
    )


def _may(other: Predicted, tested: Predicted, transfer: str) -> bool:
    """Whether a row may calibrate for a tested one across a difference of models."""
    same_bits, same_family = _are_alike(other, tested)
    if same_bits and transfer != "family":
        return False
    return not same_family or transfer == "precision"


def _is_transfer(others: Iterable[Predicted], tested: Predicted, transfer: str) -> bool:
    """Whether rows that may calibrate differ from the tested one in nothing else."""
    if transfer == "both":
        return True
    for row in others:
        same_bits, same_family = _are_alike(row, tested)
        differs_in_nothing_else = same_family if transfer == "precision" else same_bits
        if differs_in_nothing_else:
            return True
    return False


def _are_alike(one: Predicted, other: Predicted) -> tuple[bool, bool]:
    """Whether two rows are of one precision, and of one family of models."""
    first = _kind_of_model(one.row)
    second = _kind_of_model(other.row)
    same_bits = same_precision(
        first.weight_bits,
        second.weight_bits,
        activation_bits=first.activation_bits,
        other_activation_bits=second.activation_bits,
    )
    return same_bits, first.family == second.family


class _KindOfModel(NamedTuple):
    """Precision and family of a model, which decide whether a row may calibrate for another."""

    weight_bits: float
    activation_bits: float
    family: str


@cache
def _kind_of_model(row: Published) -> _KindOfModel:
    """Precision and family of a row's model; the design of a row takes a while to load."""
    model = row.design.model
    return _KindOfModel(
        weight_bits=float(model.weights.bits_per_element),
        activation_bits=float(model.activations.bits),
        family=model.family,
    )


def _transfer_logs(test: TransferTest, point: Callable[[Predicted], MeasuredSpeed]) -> Logs:
    """Logarithms of a tested row's times over its time by the rows that calibrate."""
    calibrating = [point(row) for row in test.others]
    return _logs(test.tested, calibrated_seconds(point(test.tested), calibrating))


def _own_test(
    rows: Sequence[Predicted],
    place: int,
    most: int,
    *,
    point: Callable[[Predicted], MeasuredSpeed],
) -> Held | None:
    """A row against the interval of the rows that follow it, of which at most some are used.

    None where these rows give no interval.
    """
    tested = rows[place]
    calibrating = [point(row) for row in _following(rows, place)[:most]]
    interval = own_interval(calibrating)
    if interval is None:
        return None
    logs = _logs(tested, calibrated_seconds(point(tested), calibrating))
    return Held.of(_system(tested.row.unit, tested, [logs]), interval)


def _in_order(of_kind: Iterable[str]) -> list[str]:
    """Kinds of systems, all of them together last."""
    return sorted(of_kind, key=lambda kind: (kind == ALL, kind))


def _title(kind: str, held: Held) -> str:
    """Kind and number of systems in words."""
    return f"{KINDS.get(kind, 'all kinds')}, {count(held.systems, 'system')}"


def _narrower(ours: Held, theirs: Held) -> str:
    """Widths at equal coverage, and which interval is narrower."""
    own_width = ours.width_at(LEVEL)
    rival_width = theirs.width_at(LEVEL)
    verdict = "carsim is narrower" if own_width < rival_width else "the rival is narrower"
    if f"{own_width:.2f}" == f"{rival_width:.2f}":
        verdict = "equal"
    return (
        f"With all intervals stretched or shrunk until {LEVEL:.0%} lie inside: carsim "
        f"{own_width:.2f}x, the rival {rival_width:.2f}x: {verdict}."
    )
