"""Overheads of a board from measured decoding speeds: one constant, or two where data tell.

Model: a measured step takes the hardware bound of its design plus ``layer_us`` per layer. From
three points on, the bound may also be longer by a factor, as kernels do not reach the bandwidth
that the memory sustains (``bandwidth_share``). The factor is kept only if it lowers the error of
points that were left out of the fit. Constants minimise the squares of relative errors and are
never negative. This form was chosen among five on published rows of the development split
(docs/calibrate.md).

Simplifications: neither constant depends on context, batch or size of the layer; the factor is of
the whole bound, which memories limit.
"""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import StringIO
from math import inf
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import numpy as np

from carsim.base.errors import InputError
from carsim.base.files import read_text
from carsim.base.text import number
from carsim.cost.capacity import capacity
from carsim.cost.fit import memory_rows
from carsim.decisions.trace.stated import text_of
from carsim.design import Design, load_design
from carsim.hardware.overheads import CalibrationRecord, Overheads
from carsim.runs.decode import decode
from carsim.workload.geometry import Video
from carsim.workload.workload import workload_of

COLUMNS = ("tokens_per_s", "workload", "set")
"""Columns of a file of measured points; the last may be absent or empty."""

MAX_BYTES = 1_000_000

MOST_ERROR = 0.25
"""Error of a fitted point above which a warning is due: 90 % of published rows that were left out
of a fit lie within this factor (``carsim validate boards``)."""

MOST_TIMES = 100
"""Times that a point may be slower than the hardware bound; of published rows none is 8 times."""

ROUNDING = 1e-9
"""A constant that explains a smaller share of every step is none: its sign is that of rounding."""

ONE_CONSTANT = (
    "these points cannot tell time per layer from lost bandwidth: all overhead is charged per layer"
)

EXAMPLE = "say 'tokens_per_s=24.4 @ text:16+128'"


class Constants(NamedTuple):
    """Microseconds per layer, and share of the bandwidth that kernels reach; or the bound alone."""

    layer_us: float = 0.0
    bandwidth_share: float = 1.0


@dataclass(frozen=True)
class MeasuredSpeed:
    """One measured decoding speed and the hardware bound of the same work.

    Attributes:
        text: The workload as given.
        tokens_per_s: Measured decoding speed of the whole batch, prompt left out.
        design: The design without overheads of control.
        contexts: Tokens that the first and the last timed step attended to.
        bound_us: Microseconds of a step by the hardware bound.
        place: Name in error messages.
    """

    text: str
    tokens_per_s: float
    design: Design
    contexts: tuple[int, int]
    bound_us: float
    place: str = ""

    @property
    def measured_us(self) -> float:
        """Measured microseconds of a step."""
        return 1e6 * self.design.policy.batch / self.tokens_per_s

    def error(self, constants: Constants) -> float:
        """Relative error of the speed with these constants."""
        layers_us = constants.layer_us * self.design.model.body.n_layers
        return self.measured_us / (self.bound_us / constants.bandwidth_share + layers_us) - 1


@dataclass(frozen=True)
class Fit:
    """Constants of some points, and how well they hold.

    Attributes:
        points: At least one.
        constants: As fitted to all points.
        left_out: Relative error of each point by the constants of all others; empty for one point.
        notes: What the data cannot tell, a sentence each.
    """

    points: tuple[MeasuredSpeed, ...]
    constants: Constants
    left_out: tuple[float, ...]
    notes: tuple[str, ...]

    @property
    def residual(self) -> float:
        """Mean size of the relative errors over all points."""
        return fmean(abs(point.error(self.constants)) for point in self.points)

    @property
    def left_out_error(self) -> float | None:
        """Mean size of the relative errors of points that were left out."""
        return fmean(map(abs, self.left_out)) if self.left_out else None

    def overheads(self, runtime: str) -> Overheads:
        """The section that a design takes, bound to what was measured."""
        designs = [point.design for point in self.points]
        board, error = designs[0].board, self.left_out_error
        layers = [design.model.body.n_layers for design in designs]
        batches = [design.policy.batch for design in designs]
        firsts, lasts = zip(*(point.contexts for point in self.points), strict=True)
        calibration = CalibrationRecord(
            board=board.name,
            fabric_clock_mhz=board.fabric_clock_mhz,
            weight_bits=tuple(sorted({float(d.model.weights.bits_per_element) for d in designs})),
            runtime=runtime,
            contexts=(min(firsts), max(lasts)),
            layers=(min(layers), max(layers)),
            batches=(min(batches), max(batches)),
            points=len(designs),
            error=None if error is None else round(error, 4),
        )
        fitted = {
            "layer_us": round(self.constants.layer_us, 3),
            "bandwidth_share": round(self.constants.bandwidth_share, 4),
            "calibration": calibration,
        }
        return designs[0].machine.overheads.model_copy(update=fitted)


def measured_points(
    design: str, measured: Sequence[str], overrides: Sequence[str] = ()
) -> tuple[MeasuredSpeed, ...]:
    """Read measured points and find the hardware bound of each.

    Args:
        design: The design's file or shipped name.
        measured: ``tokens_per_s=24.4 @ text:16+128``, or the name of a CSV file.
        overrides: Changes of the design for all points.

    Raises:
        InputError: No point, a point that cannot be read, or a design that already states
            overheads.
    """
    points = [
        _point(design, place, row, overrides) for text in measured for place, row in _rows(text)
    ]
    if not points:
        raise InputError("`measured`", "gives no point", EXAMPLE)
    first = points[0].design.board
    for point in points:
        board = point.design.board
        if (board.name, board.fabric_clock_mhz) != (first.name, first.fabric_clock_mhz):
            problem = "is of another board or clock than the first point"
            raise InputError(point.place, problem, "calibrate each by itself")
    return tuple(points)


def fit(points: Sequence[MeasuredSpeed]) -> Fit:
    """Fit constants to measured points.

    Raises:
        InputError: A point is faster than the hardware bound, or a constant would be negative.
    """
    terms, left_out = _best_terms(points)
    constants = _solve(points, terms)
    by_speed = sorted(points, key=lambda each: each.bound_us / each.measured_us)
    slowest, fastest = by_speed[0], by_speed[-1]
    if constants is None or fastest.bound_us > fastest.measured_us:
        speed = f"{number(fastest.tokens_per_s)} tokens/s"
        bound = number(1e6 * fastest.design.policy.batch / fastest.bound_us)
        problem = f"{speed} are faster than the bound of {bound}: the overhead would be negative"
        cure = "check clock, bits per weight, memory and ports of the design"
        raise InputError(fastest.place, problem, cure)
    times = slowest.measured_us / slowest.bound_us
    if times > MOST_TIMES:
        speed = f"{number(slowest.tokens_per_s)} tokens/s"
        problem = f"{speed} are {number(times)} times slower than the hardware bound"
        cure = "give tokens per second, and the workload that was timed"
        raise InputError(slowest.place, problem, cure)
    notes = [] if terms == 2 else [ONE_CONSTANT]
    worst = max(points, key=lambda point: abs(point.error(constants)))
    off = worst.error(constants)
    if abs(off) > MOST_ERROR:
        note = f"these overheads do not explain all points: {worst.text} is {100 * off:+.0f} % off"
        notes.insert(0, f"{note}; measure it again, or calibrate it by itself")
    return Fit(tuple(points), constants, left_out, tuple(notes))


def best_constants(points: Sequence[MeasuredSpeed]) -> Constants:
    """The constants of :func:`fit` for any points; no overhead where it would be negative."""
    return _solve(points, _best_terms(points)[0]) or Constants()


def _best_terms(points: Sequence[MeasuredSpeed]) -> tuple[int, tuple[float, ...]]:
    """Number of constants that predict left-out points best, and the errors of these points."""
    ways = ((terms, _left_out(points, terms)) for terms in ((1, 2) if len(points) >= 3 else (1,)))
    known = [(terms, errors) for terms, errors in ways if errors]
    return min(known, key=lambda way: fmean(map(abs, way[1])), default=(1, ()))


def _solve(points: Sequence[MeasuredSpeed], terms: int) -> Constants | None:
    """Least squares of relative errors in time; None if undetermined or negative."""
    layers = np.array([point.design.model.body.n_layers for point in points], float)
    bound = np.array([point.bound_us for point in points])
    took = np.array([point.measured_us for point in points])
    columns = np.stack([layers, bound][:terms], axis=1) / took[:, None]
    found, _, rank, _ = np.linalg.lstsq(columns, (took - bound) / took, rcond=1e-6)
    found[np.abs(found * columns.max(axis=0)) < ROUNDING] = 0.0
    if rank < terms or min(found) < 0:
        return None
    return Constants(float(found[0]), 1 / (1 + float(found[1])) if terms == 2 else 1.0)


def _left_out(points: Sequence[MeasuredSpeed], terms: int) -> tuple[float, ...] | None:
    """Relative error of each point by the constants of the others; None where they have none."""
    errors = []
    for index, point in enumerate(points):
        others = [*points[:index], *points[index + 1 :]]
        constants = _solve(others, terms) if len(others) >= terms else None
        if constants is None:
            return None
        errors.append(point.error(constants))
    return tuple(errors)


def _rows(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Place in error messages and columns, of one point or of a file."""
    if Path(text).suffix != ".csv":
        speed, at, workload = text.partition("@")
        name, equals, value = speed.partition("=")
        if not (at and equals) or name.strip() != "tokens_per_s":
            raise InputError("`measured`", f"got {text!r}", EXAMPLE)
        row = {"tokens_per_s": value.strip(), "workload": workload.strip()}
        yield f"`measured` {text!r}", row
        return
    content = read_text(Path(text), MAX_BYTES).removeprefix("\ufeff")
    lines = csv.DictReader(StringIO(content), skipinitialspace=True)
    columns = lines.fieldnames or []
    if sorted({*columns, "set"}) != sorted(COLUMNS) or len({*columns}) < len(columns):
        problem = f"its columns are {', '.join(columns) or 'none'}"
        raise InputError(text, problem, f"write {', '.join(COLUMNS)} (set may be absent)")
    for row in lines:
        place = f"{text}:{lines.line_num}"
        if None in row or None in row.values():
            problem = f"has more or fewer cells than {len(columns)} columns"
            raise InputError(place, problem, "write a cell for each column, decimals with a point")
        yield place, row


def _point(design: str, place: str, row: dict[str, str], overrides: Sequence[str]) -> MeasuredSpeed:
    changes = row.get("set", "").split()
    try:
        made = load_design(design, [*overrides, *changes])
    except InputError as error:
        if not changes:
            raise
        known = error.named()
        problem = f"{known.place}: {known.problem}"
        raise InputError(f"{place}, column set", problem, known.cure) from None
    overheads = made.machine.overheads
    if overheads.stated or overheads.calibration is not None:
        field = (*overheads.stated, "calibration")[0]
        where = f"{made.name}: machine.overheads.{field}"
        problem = "is already set, and would be counted twice"
        raise InputError(where, problem, "calibrate the design without it")
    try:
        tokens_per_s = float(row["tokens_per_s"])
    except ValueError:
        tokens_per_s = 0.0
    if not 0 < tokens_per_s < inf:
        problem = f"tokens_per_s is {row['tokens_per_s']!r}"
        raise InputError(place, problem, "give a number above 0")
    contexts = _contexts(place, row["workload"], made)
    bound_us = 1e6 * decode(made, *contexts).seconds_per_step
    text = " ".join([row["workload"], *changes])
    return MeasuredSpeed(text, tokens_per_s, made, contexts, bound_us, place)


def _contexts(place: str, text: str, design: Design) -> tuple[int, int]:
    """Tokens that the first and the last new token of a text attend to, which memories can hold."""
    try:
        work = workload_of(text)
        if work.kind != "text" or None in (work.tokens, work.prompt):
            raise InputError(place, f"got the workload {text!r}", "say text:16+128")
        prompt, tokens = text_of(work, design.model)
    except InputError as error:
        raise InputError(place, error.problem, error.cure) from None
    last = prompt + tokens
    longest = Video(n_frames=last, tokens_per_frame=1, prompt_tokens=0)
    for row in memory_rows(capacity(design, longest, None)):
        if not row.ok:
            cure = "give the workload that was timed, or the memory of the board"
            raise InputError(place, f"{last:,} tokens of context do not fit: {row.misfit}", cure)
    return prompt + 1, last
