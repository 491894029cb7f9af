"""Times of kernels by block and rows, from dense measurements: ``machine.overheads.kernels``.

Two sources:

* *blocks*: a table of ``carsim measure`` (``blocks.csv``), with the time of attention and its
  projections, of the MLP, of gathering rows and of adding cached outputs, by rows and workers.
  Where every number of rows was measured, the table is taken as it is. Where numbers are missing,
  a line ``a + b m`` takes its place if it predicts left-out numbers better than neighbours do.
* *batches*: dense speeds at several batches. A layer takes ``c P + (u + v B) W`` microseconds for P
  products with W weights and B rows, so that a block takes its share of each term. Models of one
  width cannot tell the launch ``c`` of a product from the bytes ``u`` of its weights: then both
  extremes are fitted, their mean is taken, and the interval says what is not known.

Simplifications: attention and its projections are measured as one. Of their time, keys and values
take what their bytes take at the memory's rate; the rest is shared by weights.
"""

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from math import fsum, hypot, log, log1p, sqrt
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from carsim.base.errors import InputError
from carsim.base.files import read_text
from carsim.hardware.kernels import Kernel, KernelTime
from carsim.hardware.overheads import Overheads
from carsim.machine.hardware import Hardware
from carsim.runs.calibrate import MeasuredSpeed, record_of
from carsim.runs.decode import decode
from carsim.workload.ops import Stream

BLOCKS_COLUMNS = ("block", "workers", "rows", "us", "low", "high")
MAX_BYTES = 1_000_000

MEASURED_BLOCKS = ("attention", "mlp", "gather", "replay")
NORMAL_90 = 1.645
"""Half of a 90 % interval in standard deviations."""

LEAST_BATCHES = 3
"""Different batches that tell a constant from a time per row, and leave one for the error."""

ONE_WIDTH = (
    "dense points of one width cannot tell launches from bytes: an MLP takes between its share of "
    "products and its share of weights (another ffn_size would tell)"
)

Floats = NDArray[np.float64]


class BlockTime(NamedTuple):
    """Measured microseconds of a block in one layer, with a 90 % interval."""

    us: float
    low: float
    high: float


@dataclass(frozen=True)
class BlockLine:
    """A line through the times of a block: ``constant_us + row_us * m``.

    Attributes:
        block: Name of the block.
        at_work: Cores at work.
        constant_us: Microseconds without rows.
        row_us: Microseconds for each row.
        low_us: Lower end of the time with one row; 90 %.
        high_us: Upper end.
        error: Mean relative error of numbers of rows that were left out; None for fewer than three.
    """

    block: str
    at_work: int
    constant_us: float
    row_us: float
    low_us: float
    high_us: float
    error: float | None


@dataclass(frozen=True)
class FittedKernels:
    """Times of kernels, and how well they are known.

    Attributes:
        kernels: Entries of the design.
        lines: The line of each measured block.
        left_out: Relative error of each dense point that was left out; empty if none was.
        log_sd: Standard deviation of the logarithm of measured over predicted time.
        notes: What the data cannot tell, a sentence each.
    """

    kernels: tuple[KernelTime, ...]
    lines: tuple[BlockLine, ...]
    left_out: tuple[float, ...]
    log_sd: float
    notes: tuple[str, ...]

    def overheads(self, points: Sequence[MeasuredSpeed], runtime: str) -> Overheads:
        """The section that a design takes, bound to what was measured.

        Args:
            points: The dense points.
            runtime: Software on the board.
        """
        record = record_of(points, runtime, error=None, log_sd=self.log_sd)
        fitted = {"kernels": self.kernels, "calibration": record}
        return points[0].design.machine.overheads.model_copy(update=fitted)


def kernels_of_blocks(file: Path, points: Sequence[MeasuredSpeed]) -> FittedKernels:
    """Times of kernels from a table of blocks.

    Args:
        file: ``blocks.csv`` of ``carsim measure``.
        points: Dense speeds of the same decoder, of one model.

    Raises:
        InputError: A table without these columns or blocks, or points of several models.
    """
    _check_one_model(points)
    tables = read_blocks(file)
    lines = [
        line_of(block, cores, table)
        for (block, cores), table in tables.items()
        if block in ("attention", "mlp")
    ]
    entries: list[KernelTime] = []
    for (block, cores), table in tables.items():
        entries += _entries(block, cores, _completed(table), points[0])
    notes = []
    if ("gather", 1) not in tables:
        notes.append(
            f"{file.name} has no times of gathering and of adding cached outputs, so that these "
            "are free: measure again (carsim measure)"
        )
    return FittedKernels(
        kernels=tuple(entries),
        lines=tuple(lines),
        left_out=(),
        log_sd=_log_sd(tables, points),
        notes=tuple(notes),
    )


def read_blocks(file: Path) -> dict[tuple[str, int], dict[int, BlockTime]]:
    """Times of a table by block and workers, and by rows of a worker in ascending order.

    Raises:
        InputError: The file is none of ``carsim measure``.
    """
    lines = csv.DictReader(
        StringIO(read_text(file, MAX_BYTES, "measure: carsim measure --out DIR"))
    )
    if {*(lines.fieldnames or ())} != {*BLOCKS_COLUMNS}:
        problem = f"its columns are {', '.join(lines.fieldnames or ()) or 'none'}"
        raise InputError(str(file), problem, f"give {', '.join(BLOCKS_COLUMNS)}")
    tables: dict[tuple[str, int], dict[int, BlockTime]] = {}
    for row in lines:
        where = f"{file}:{lines.line_num}"
        if None in row or None in row.values():
            problem = f"has more or fewer cells than {len(BLOCKS_COLUMNS)} columns"
            raise InputError(where, problem, "write a cell for each column")
        block = row["block"]
        if block not in MEASURED_BLOCKS:
            raise InputError(where, f"block is {block!r}", f"give {', '.join(MEASURED_BLOCKS)}")
        try:
            workers = int(row["workers"])
            rows = int(row["rows"])
            time = BlockTime(float(row["us"]), float(row["low"]), float(row["high"]))
        except ValueError:
            raise InputError(where, "has a cell that is no number", "measure again") from None
        if not 0 < time.us < np.inf or rows < 1 or workers < 1:
            problem = f"{block} of {rows} rows takes {time.us:g} us"
            raise InputError(where, problem, "give a time and rows above 0")
        tables.setdefault((block, workers), {})[rows] = time
    if not {("attention", 1), ("mlp", 1)} <= tables.keys():
        problem = "has no times of attention and mlp with one worker"
        raise InputError(str(file), problem, "measure with --workers 1 or 1,2")
    return {key: dict(sorted(tables[key].items())) for key in sorted(tables)}


def line_of(block: str, cores: int, table: Mapping[int, BlockTime]) -> BlockLine:
    """The line that fits the times of a block best, by relative errors.

    Args:
        block: Name of the block.
        cores: Cores at work.
        table: Time by rows.
    """
    rows = np.array(list(table), float)
    micros = np.array([time.us for time in table.values()])
    constant, slope = _line(rows, micros)
    errors = _left_out(rows, micros, _line_at)
    half_widths = [_half_width(time) for time in table.values()]
    if errors:
        half_widths.append(NORMAL_90 * sqrt(fmean(error**2 for error in errors)))
    spread = max(half_widths)
    one = constant + slope
    return BlockLine(
        block=block,
        at_work=cores,
        constant_us=constant,
        row_us=slope,
        low_us=one * (1 - min(1.0, spread)),
        high_us=one * (1 + spread),
        error=fmean(map(abs, errors)) if errors else None,
    )


class BlockWork(NamedTuple):
    """What a block of a layer is made of.

    Attributes:
        products: Products with weights, each of which is launched.
        nbytes: Bytes of the weights.
        weights: Their number.
    """

    products: float
    nbytes: float
    weights: float


class Costs(NamedTuple):
    """Microseconds of a product's launch, of a byte of weights, and of a weight and row."""

    launch_us: float
    byte_us: float
    product_us: float

    def block_us(self, work: BlockWork, rows: float) -> float:
        """Microseconds of a block with some rows."""
        return (
            self.launch_us * work.products
            + self.byte_us * work.nbytes
            + self.product_us * rows * work.weights
        )


def kernels_of_batches(points: Sequence[MeasuredSpeed]) -> FittedKernels:
    """Times of kernels from dense speeds at several batches, and of several widths if there are.

    Args:
        points: Dense speeds on one number of cores.

    Raises:
        InputError: Too few batches, or several numbers of cores.
    """
    batches = {point.design.policy.batch for point in points}
    if len(batches) < LEAST_BATCHES:
        problem = f"the points have {len(batches)} different batch(es)"
        cure = f"measure {LEAST_BATCHES} batches or more, or leave out --kernels"
        raise InputError("`kernels`", problem, cure)
    if len({point.design.machine.cores for point in points}) > 1:
        raise InputError("`kernels`", "the points have several numbers of cores", "give one")
    extremes = _extremes(points)
    mean = Costs._make(fmean(column) for column in zip(*extremes, strict=True))
    first = points[0]
    cores = first.design.machine.cores
    most_rows = max(2, -(-max(batches) // cores))
    entries = list(_cache_entries(first, cores, range(1, most_rows + 1)))
    lines = []
    for block, work in _blocks_of(first).items():
        entries += [
            KernelTime(
                block=block, rows=rows, at_work=cores, us=round(mean.block_us(work, rows), 4)
            )
            for rows in (1, most_rows)
        ]
        ends = [costs.block_us(work, 1) for costs in extremes]
        lines.append(
            BlockLine(
                block=block,
                at_work=cores,
                constant_us=mean.block_us(work, 0),
                row_us=mean.block_us(work, 1) - mean.block_us(work, 0),
                low_us=min(ends),
                high_us=max(ends),
                error=None,
            )
        )
    left_out = tuple(_left_out_batches(points))
    notes = [ONE_WIDTH] if len(extremes) > 1 else []
    squares = [log1p(error) ** 2 for error in left_out]
    of_points = sqrt(fmean(squares)) if squares else 0.0
    log_sd = hypot(of_points, _log_sd_without_mlp(first, extremes))
    return FittedKernels(tuple(entries), tuple(lines), left_out, log_sd, tuple(notes))


# -------------------------------------------------------------------- private


def _check_one_model(points: Sequence[MeasuredSpeed]) -> None:
    if len({point.design.model.as_json for point in points}) > 1:
        problem = "the points are of several models, and the table of blocks is of one"
        raise InputError("`kernels`", problem, "calibrate each model by itself")


def _half_width(taken: BlockTime) -> float:
    """Half of the relative width of a 90 % interval."""
    return (taken.high - taken.low) / (2 * taken.us)


def _log_sd(
    tables: Mapping[tuple[str, int], Mapping[int, BlockTime]], points: Sequence[MeasuredSpeed]
) -> float:
    """Standard deviation of the logarithm of measured over predicted time of dense steps.

    It is the larger of two: what dense speeds differ from the sum of their blocks, and what rounds
    leave uncertain of a block.
    """
    squares = []
    for point in points:
        cores = point.design.machine.cores
        rows = -(-point.design.policy.batch // cores)
        attention = tables.get(("attention", cores), {}).get(rows)
        mlp = tables.get(("mlp", cores), {}).get(rows)
        if attention is not None and mlp is not None:
            layer_us = fsum([attention.us, mlp.us])
            predicted_us = layer_us * point.design.model.body.n_layers
            squares.append(log(point.measured_us / predicted_us) ** 2)
    of_points = sqrt(fmean(squares)) if squares else 0.0
    half_widths: list[float] = []
    for table in tables.values():
        half_widths += map(_half_width, table.values())
    return max(of_points, fmean(half_widths) / NORMAL_90)


def _completed(table: Mapping[int, BlockTime]) -> dict[int, float]:
    """Microseconds by rows: as measured, or of a line that predicts left-out rows better."""
    rows = np.array(list(table), float)
    micros = np.array([time.us for time in table.values()])
    as_measured = {row: time.us for row, time in table.items()}
    is_complete = list(table) == list(range(1, len(table) + 1))
    of_line = _left_out(rows, micros, _line_at)
    of_neighbours = _left_out(rows, micros, np.interp)
    if is_complete or not of_line:
        return as_measured
    if fmean(map(abs, of_neighbours)) <= fmean(map(abs, of_line)):
        return as_measured
    return {row: float(_line_at(float(row), rows, micros)) for row in (min(table), max(table))}


def _left_out(
    rows: Floats, micros: Floats, predict: Callable[[float, Floats, Floats], Any]
) -> list[float]:
    """Relative errors of the numbers of rows between the ends, each predicted from the others."""
    errors = []
    for left_out in range(1, len(rows) - 1):
        others = np.arange(len(rows)) != left_out
        predicted = float(predict(float(rows[left_out]), rows[others], micros[others]))
        errors.append(predicted / float(micros[left_out]) - 1)
    return errors


def _line(rows: Floats, micros: Floats) -> tuple[float, float]:
    """Constant and slope of the line with the least relative errors; neither is negative."""
    if len(rows) < 2:
        return float(micros[0]), 0.0
    slope, constant = np.polyfit(rows, micros, 1, w=1 / micros)
    if slope < 0:
        return float(micros.mean()), 0.0
    if constant < 0:
        return 0.0, float((micros / rows).mean())
    return float(constant), float(slope)


def _line_at(row: float, rows: Floats, micros: Floats) -> float:
    constant, slope = _line(rows, micros)
    return constant + slope * row


def _entries(
    block: str, cores: int, table: Mapping[int, float], point: MeasuredSpeed
) -> Iterator[KernelTime]:
    """Entries of a measured block; of attention, those of projections and of the cache."""
    if block != "attention":
        for rows, us in table.items():
            yield KernelTime(block=cast(Kernel, block), rows=rows, at_work=cores, us=round(us, 4))
        return
    context = fmean(point.contexts)
    cache = {entry.rows: entry.us_per_token for entry in _cache_entries(point, cores, table)}
    of_output = _output_share(point)
    for rows, us in table.items():
        # The cache takes no more than a half, whatever its memory is said to sustain.
        per_token_us = round(min(cache[rows], us / 2 / context), 6)
        left_us = us - per_token_us * context
        times_us = {"attention": 0.0, "qkv": left_us * (1 - of_output)}
        times_us["output"] = left_us * of_output
        for part, part_us in times_us.items():
            yield KernelTime(
                block=cast(Kernel, part),
                rows=rows,
                at_work=cores,
                us=round(part_us, 4),
                us_per_token=per_token_us if part == "attention" else 0.0,
            )


def _cache_entries(point: MeasuredSpeed, cores: int, counts: Iterable[int]) -> Iterator[KernelTime]:
    """Times of keys and values at the rate of their memory, by rows of a core."""
    model = point.design.model
    hardware = Hardware(point.design)
    rate = hardware.paths[hardware.path_of[Stream.KV]].rate
    bytes_per_us = float(rate) * point.design.board.fabric_clock_mhz
    token_us = float(model.kv.bytes_of(model.body.kv_elements)) / bytes_per_us
    for rows in counts:
        yield KernelTime(
            block="attention",
            rows=rows,
            at_work=cores,
            us=0.0,
            us_per_token=round(token_us * rows * cores, 6),
        )


def _output_share(point: MeasuredSpeed) -> float:
    """Share of the projections' weights that the output projection has."""
    body = point.design.model.body
    return body.attended_size * body.hidden_size / body.attention_weights


def _blocks_of(point: MeasuredSpeed) -> dict[Kernel, BlockWork]:
    """Work of the blocks with weights in a mean layer."""
    model = point.design.model
    body = model.body
    mlp = body.mlp_weights / body.n_layers
    output = body.attention_weights * _output_share(point)
    qkv = body.attention_weights - output
    bytes_of_weight = model.body_bytes / body.weights
    products = {"qkv": 3.0, "output": 1.0, "mlp": float(body.mlp_products(dense=False))}
    weights = {"qkv": qkv, "output": output, "mlp": mlp}
    return {
        cast(Kernel, block): BlockWork(
            products=products[block],
            nbytes=weights[block] * bytes_of_weight,
            weights=weights[block],
        )
        for block in products
    }


def _terms(point: MeasuredSpeed) -> list[float]:
    """Products, bytes, and weights times rows of a core, of a layer."""
    works = _blocks_of(point).values()
    rows = -(-point.design.policy.batch // point.design.machine.cores)
    weights = fsum(work.weights for work in works)
    return [
        fsum(work.products for work in works),
        fsum(work.nbytes for work in works),
        rows * weights,
    ]


def _layer_us(point: MeasuredSpeed) -> float:
    """Measured microseconds of a layer, without head and without keys and values."""
    decoded = decode(point.design, *point.contexts)
    head = decoded.simulation.totals.get("head")
    clock_mhz = point.design.board.fabric_clock_mhz
    head_us = 0.0
    if head is not None:
        head_us = head.cycles / len(decoded.contexts) / clock_mhz
    cores = point.design.machine.cores
    rows = -(-point.design.policy.batch // cores)
    (cache,) = _cache_entries(point, cores, [rows])
    n_layers = point.design.model.body.n_layers
    layer_us = (point.measured_us - head_us) / n_layers
    return max(0.1 * layer_us, layer_us - cache.us_per_token * fmean(point.contexts))


def _extremes(points: Sequence[MeasuredSpeed]) -> list[Costs]:
    """Costs that explain the points: one, or both extremes where widths do not tell them apart."""
    terms = np.array([_terms(point) for point in points])
    took_us = np.array([_layer_us(point) for point in points])
    rank = int(np.linalg.matrix_rank(terms / terms.max(axis=0), tol=1e-2))
    if rank == terms.shape[1]:
        return [_non_negative(terms, took_us, (0, 1, 2))]
    return [_non_negative(terms, took_us, columns) for columns in ((0, 2), (1, 2))]


def _non_negative(terms: Floats, took_us: Floats, columns: tuple[int, ...]) -> Costs:
    """Least squares of relative errors over some columns; a negative cost is left out."""
    costs = np.zeros(terms.shape[1])
    used = list(columns)
    while used:
        relative = terms[:, used] / took_us[:, None]
        scale = relative.max(axis=0)
        fitted = np.linalg.lstsq(relative / scale, np.ones(len(took_us)), rcond=None)[0] / scale
        if (fitted >= 0).all():
            costs[used] = fitted
            break
        used.pop(int(np.argmin(fitted * scale)))
    return Costs._make(costs.tolist())


def _log_sd_without_mlp(point: MeasuredSpeed, extremes: Sequence[Costs]) -> float:
    """Standard deviation of the logarithm of the time of a layer whose MLP is skipped.

    Both extremes of the costs agree on whole layers, and differ in what is left without the MLP.
    """
    without_mlp = [work for block, work in _blocks_of(point).items() if block != "mlp"]
    layer_us = [fsum(costs.block_us(work, 1) for work in without_mlp) for costs in extremes]
    return log(max(layer_us) / min(layer_us)) / 2 / NORMAL_90


def _left_out_batches(points: Sequence[MeasuredSpeed]) -> Iterator[float]:
    """Relative error in speed of each point, from the costs that the others give."""
    if len(points) <= LEAST_BATCHES:
        return
    for index, point in enumerate(points):
        others = [*points[:index], *points[index + 1 :]]
        extremes = _extremes(others)
        predicted = fmean(float(np.dot(costs, _terms(point))) for costs in extremes)
        yield _layer_us(point) / predicted - 1
