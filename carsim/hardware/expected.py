"""Expected time of a design on a real board, with an interval whose coverage was measured.

Published systems take longer than carsim says, by a factor. The factor depends on the kind of
system (FPGA, GPU, NPU) and on what starts its kernels (``overheads.control``). The table
``latency_intervals.csv`` has a factor and a 90 % interval for each population of published systems
(:mod:`carsim.validate.intervals` makes the table, and describes the statistics).

Choice of the population (:func:`populations`): systems of the design's kind and control; if fewer
than three are published, or the design states no control, all systems of its kind; if there are
fewer than three of these, all systems. A wider population gives a wider interval.

A calibrated design (``overheads.calibration``) is centred on its fit. With three or more measured
points, the interval comes from the errors of its own points that were left out of the fit. With
fewer, its width is that of published systems of its kind, each predicted from one of its other
rows, or that of all systems if it is wider (:func:`widest`).

Where the model was not measured in its precision, or no model of its family was, the interval is at
least as wide as that of published systems that were predicted across the same difference: from
rows of other precisions, of other families, or both.

Networks whose tokens pass a layer together (diffusion, depth) are limited by products, which tells
nothing of decoding, and the reverse. Their factor and interval come from published times of
diffusion transformers on GPUs (``forward_intervals.csv``; :func:`expected_of_forwards`), whatever
the design is calibrated to: a calibration is of decoding. Fewer than three FPGAs, NPUs or other
chips have published times whose network and machine are known, so that their designs take the
interval of GPUs, and say so. No depth encoder has one, which is said where nothing else is.

No expected time is less than the time in which memories and arrays could do the work at their peak
(:meth:`Expected.not_below`).

Simplifications: the factor was measured on decoding steps, and is applied to the prompt of a
latency as well. Systems count as exchangeable, although several share a runtime
or a vendor. It is one factor for all policies, batches and contexts of a design. Seconds of a
text encoder or a pixel decoder that a sample states are not multiplied
(:meth:`Expected.beside_stated`).
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from math import exp, log, pi, sqrt
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from carsim.base.files import packaged_rows
from carsim.base.statistics import student_95
from carsim.base.text import count

if TYPE_CHECKING:
    from carsim.hardware.overheads import CalibrationRecord, Overheads
    from carsim.hardware.technology.base import PublishedKind, Technology

TABLE = "latency_intervals.csv"

COVERAGE_TABLE = "latency_coverage.csv"

FORWARD_TABLE = "forward_intervals.csv"

FORWARD_COVERAGE_TABLE = "forward_coverage.csv"

LEVEL = 0.9
"""Share of published rows that an interval should hold."""

LEAST_SYSTEMS = 3
"""Fewest systems of a population, and fewest points of a design's own. Two would give Student's t
one degree of freedom, and an interval of a factor of 6 standard deviations to either side."""

LEAST_SD = 0.045
"""Least standard deviation of the logarithm of a time. Published measurements of the same work on
the same chip differ by 4.5 % on average (development rows, ``carsim validate boards``)."""

ALL = "all"
"""Population of all systems."""

CALIBRATED = "calibrated"
"""Prefix of the names of populations of calibrated systems."""

OWN = "own"
"""Population of a design's own measured points."""

FORWARDS = "forwards gpu"
"""Population of published times of diffusion transformers on GPUs."""

TRANSFERS = {
    "precision": "from another precision",
    "family": "from another family of models",
    "both": "from another precision and family of models",
}
"""Difference between a design's model and those of its calibration -> its words in a title."""


@dataclass(frozen=True, slots=True)
class Expected:
    """Time on a real board over the time that carsim gives.

    Attributes:
        pool: Population that it comes from.
        systems: Published systems in it; 0 for a design's own points.
        rows: Their rows, or the design's own points.
        factor: Expected factor on a time.
        low: Factor at the low end of the 90 % interval.
        high: Factor at the high end.
        remark: What a reader has to know of the choice of the population; may be empty.
    """

    pool: str
    systems: int
    rows: int
    factor: float
    low: float
    high: float
    remark: str = ""

    @property
    def title(self) -> str:
        """The population in words.

        >>> Expected("fpga/bare_metal", 8, 11, 0.99, 0.6, 1.94).title
        '8 published FPGA systems with control bare_metal'
        >>> Expected("own", 0, 4, 1.0, 0.9, 1.1).title
        '4 measured points of its own'
        """
        if self.pool == OWN:
            return f"{count(self.rows, 'measured point')} of its own"
        if self.pool == FORWARDS:
            text = f"{self.systems} published GPU systems with diffusion transformers"
            return f"{text}; {self.remark}" if self.remark else text
        first, _, rest = self.pool.partition(" ")
        if first in TRANSFERS:
            kind = rest.partition(" ")[2]
            of_kind = "" if kind == ALL else f"{kind.upper()} "
            text = f"{self.systems} {of_kind}systems calibrated {TRANSFERS[first]}"
            return f"{text}; {self.remark}" if self.remark else text
        name = self.pool.removeprefix(f"{CALIBRATED} ")
        kind, _, control = name.partition("/")
        origin = "published" if name == self.pool else "calibrated"
        text = f"{self.systems} {origin} systems of all kinds"
        if kind != ALL:
            text = f"{self.systems} {origin} {kind.upper()} systems"
        if control:
            text += f" with control {control}"
        return f"{text}; {self.remark}" if self.remark else text

    def not_below(self, at_peak: float) -> "Expected":
        """The factors where none is less than that at the peak of memories and arrays.

        Of 239 published rows, none is faster than the data-sheet peak of its memory allows.

        Args:
            at_peak: Time at the peak, as a share of carsim's time.
        """
        if at_peak <= self.low:
            return self
        return replace(
            self,
            factor=max(self.factor, at_peak),
            low=max(self.low, at_peak),
            high=max(self.high, at_peak),
        )

    def beside_stated(self, share: float) -> "Expected":
        """The factors on a time of which a part is stated, not simulated, and stays as it is.

        >>> Expected("all", 3, 3, factor=2.0, low=1.0, high=4.0).beside_stated(0.5).high
        2.5

        Args:
            share: The stated part of the time.
        """
        if not share:
            return self
        return replace(
            self,
            factor=share + (1 - share) * self.factor,
            low=share + (1 - share) * self.low,
            high=share + (1 - share) * self.high,
        )

    @property
    def centred(self) -> "Expected":
        """The interval about a factor of 1, equally wide."""
        half = log(self.high / self.low) / 2
        return replace(self, factor=1.0, low=exp(-half), high=exp(half))


@cache
def expected_factors() -> dict[str, Expected]:
    """The table, by population."""
    return _expected_rows(TABLE)


@cache
def forward_factors() -> dict[str, Expected]:
    """The table of networks whose tokens pass a layer together, by population."""
    return _expected_rows(FORWARD_TABLE)


def _expected_rows(table: str) -> dict[str, Expected]:
    """A table of factors, by population."""
    rows = packaged_rows("carsim.hardware", table)
    factors = TypeAdapter(list[Expected]).validate_python(rows)
    return {factor.pool: factor for factor in factors}


@dataclass(frozen=True, slots=True)
class Coverage:
    """Measured coverage of 90 % intervals that were made without the rows that test them.

    Attributes:
        pool: Population, without what starts the kernels.
        rows: Rows that were tested; all rows of their system were left out of the interval.
        inside: Rows that lie inside.
    """

    pool: str
    rows: int
    inside: int


@cache
def _coverages() -> dict[str, Coverage]:
    """The tables of coverages, by population."""
    rows = [
        *packaged_rows("carsim.hardware", COVERAGE_TABLE),
        *packaged_rows("carsim.hardware", FORWARD_COVERAGE_TABLE),
    ]
    coverages = TypeAdapter(list[Coverage]).validate_python(rows)
    return {coverage.pool: coverage for coverage in coverages}


def coverage_of(pool: str) -> Coverage:
    """The measured coverage of intervals of a population, or of the wider one that was tested.

    >>> coverage_of("fpga/bare_metal").pool, coverage_of("both one gpu").pool
    ('fpga', 'both one')
    """
    table = _coverages()
    kind = pool.partition("/")[0]
    return table.get(kind) or table[kind.rpartition(" ")[0]]


def populations(kind: str, control: str | None) -> list[str]:
    """Populations of a system, from the nearest to the widest.

    >>> populations("fpga", "firmware"), populations("asic", None)
    (['fpga/firmware', 'fpga', 'all'], ['asic', 'all'])
    """
    nearest = [] if control is None else [f"{kind}/{control}"]
    return [*nearest, kind, ALL]


def interval_of(log_sd: float, n: int) -> float:
    """Half-width of a 90 % prediction interval for one more value, as a difference of logarithms.

    Args:
        log_sd: Standard deviation of the logarithms; :data:`LEAST_SD` if it is less.
        n: Independent values that it was estimated from, at least 2.
    """
    return student_95(n - 1) * max(log_sd, LEAST_SD) * sqrt(1 + 1 / n)


def widest(intervals: Iterable[Expected]) -> Expected:
    """The interval with the largest ratio of its ends; the first of equals.

    Calibrated systems of one kind are few: three FPGAs with one runtime each would give an interval
    that a fourth one leaves. So a kind takes the width of all kinds where that is wider.
    """
    return max(intervals, key=lambda interval: interval.high / interval.low)


def transfer_prefix(transfer: str, points: int) -> str:
    """Beginning of the names of populations that were predicted across a difference of models.

    Args:
        transfer: A key of :data:`TRANSFERS`.
        points: Measured points of the calibration.
    """
    return f"{transfer} {'several' if points >= LEAST_SYSTEMS else 'one'} "


def expected_of(overheads: "Overheads", technology: "Technology", transfer: str = "") -> Expected:
    """The factor of a machine.

    Args:
        overheads: Of the machine.
        technology: Of its board.
        transfer: Difference between the model and the calibrated ones, a key of :data:`TRANSFERS`;
            empty if there is none.
    """
    kind = technology.published_kind(overheads.control)
    if overheads.calibration is None:
        choice = populations(kind.name, overheads.control)
        nearest = _first(choice)
        return replace(nearest, remark=_remark(kind, overheads.control, nearest.pool))
    calibrated = _calibrated(overheads.calibration, kind.name)
    if not transfer:
        return calibrated
    prefix = transfer_prefix(transfer, overheads.calibration.points)
    moved = _of_published(overheads.calibration, prefix, kind.name)
    return widest([calibrated, moved])


def expected_of_forwards(
    overheads: "Overheads", technology: "Technology", *, splits: bool, makes_depth: bool
) -> Expected:
    """The factor of a machine whose network has a forward of many tokens.

    Args:
        overheads: Of the machine.
        technology: Of its board.
        splits: Its mapping splits matrices or heads over the cores. Those of the published GPUs
            deal tokens to the cores.
        makes_depth: Its network makes a depth map. Those of the published times make videos and
            images.
    """
    known = forward_factors()[FORWARDS]
    kind = technology.published_kind(overheads.control)
    remark = ""
    if kind.name != "gpu":
        remark = f"none is {kind.without_forwards or kind.unpublished}"
    elif makes_depth:
        remark = "none makes a depth map"
    elif splits:
        remark = "none was simulated with a mapping that splits matrices or heads"
    return replace(known, remark=remark)


def _calibrated(calibration: "CalibrationRecord", kind: str) -> Expected:
    """The factor of a calibrated machine with a model like the measured ones."""
    if (log_sd := _own_log_sd(calibration)) is not None:
        half = interval_of(log_sd, calibration.points)
        return Expected(OWN, 0, calibration.points, factor=1.0, low=exp(-half), high=exp(half))
    return _of_published(calibration, f"{CALIBRATED} ", kind)


def _of_published(calibration: "CalibrationRecord", prefix: str, kind: str) -> Expected:
    """The interval of calibrated published systems, centred on the design's own points."""
    table = expected_factors()
    names = [f"{prefix}{name}" for name in populations(kind, control=None)]
    nearest = widest(table[name] for name in names if name in table)
    measured = count(calibration.points, "measured point")
    return replace(nearest.centred, remark=f"centred on {measured} of its own")


def _first(names: Iterable[str]) -> Expected:
    """The factor of the first population that the table has."""
    table = expected_factors()
    return next(table[name] for name in names if name in table)


def _own_log_sd(calibration: "CalibrationRecord") -> float | None:
    """Standard deviation of a calibrated design's own errors; None where too little is known.

    Records of earlier versions have the mean size of the errors alone, which is
    sqrt(2 / pi) standard deviations of a normal distribution.
    """
    if calibration.points < LEAST_SYSTEMS:
        return None
    if calibration.log_sd is not None:
        return calibration.log_sd
    return None if calibration.error is None else calibration.error * sqrt(pi / 2)


def _remark(kind: "PublishedKind", control: str | None, pool: str) -> str:
    """A remark where the population is wider than the design's own kind and control."""
    if kind.unpublished:
        return f"none is {kind.unpublished}"
    if control is not None and pool != f"{kind.name}/{control}":
        return f"fewer than {LEAST_SYSTEMS} have control {control}"
    return ""
