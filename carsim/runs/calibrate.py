"""Overheads of a board from measured decoding speeds: one constant, or two where data tell.

Model: a measured step takes the time of its design without runtime overhead plus ``layer_us`` per
layer. From three points on, that time may also be longer by a factor, as kernels do not reach the
bandwidth that the memory sustains (``bandwidth_share``). The factor is kept only if it lowers the
error of points that were left out of the fit. Constants minimise the squares of relative errors
and are never negative. This form was chosen among five on published rows of the development split
(docs/howto/calibrate.md).

A board may be faster than its modelled ports. Then no time is charged per layer, and the share is
above 1: at most the data-sheet peak of the weights' memory over its modelled bandwidth. A speed
above the peaks of memories and arrays is refused.

Simplifications: neither constant depends on context, batch or size of the layer; the factor is of
the whole time without overhead, which memories limit. Points are of dense decoding. They cannot
tell which part of ``layer_us`` belongs to the MLP, so a replay saves the MLP's share of
the layer's products (:meth:`carsim.program.program.Program.skipped_share_of_products`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from math import fsum, inf, log1p, sqrt
from pathlib import Path
from statistics import fmean
from typing import Literal, NamedTuple

import numpy as np

from carsim.base.errors import InputError
from carsim.base.files import read_text
from carsim.base.section import tuples
from carsim.base.text import number
from carsim.cost.capacity import capacity
from carsim.cost.fit import memory_rows
from carsim.decisions.trace.stated import text_of
from carsim.design import Design, load_design
from carsim.design.load import override, preset, shipped_presets
from carsim.hardware.overheads import CalibrationRecord, Overheads
from carsim.runs.decode import Decode, decode
from carsim.runs.measured import PARAMETERS_TOLERANCE, BenchModel, MeasuredRow, rows_of_file
from carsim.workload.geometry import Video
from carsim.workload.model import Model
from carsim.workload.workload import workload_of

MAX_BYTES = 1_000_000

MOST_ERROR = 0.25
"""Error of a fitted point above which a warning is due: 90 % of published rows that were left out
of a fit lie within this factor (``carsim validate boards``)."""

MOST_TIMES = 100
"""Times that a point may be slower than the time without runtime overhead; of published rows none
is 8 times."""

LEAST_STREAMED = 0.8
"""Least share of the time in phases that memories or ports limit, for a speed above the modelled
one to say something about bandwidth. Small models on Torch2RISCV are up to 29 % faster than
modelled because of latencies, and larger models on that board are not (``carsim validate
boards``)."""

LONGEST_LAYER_US = 1660.0
"""Longest time per layer of a published system: LLaMA-3-70B on an M1 Max (``carsim validate``)."""

ROUNDING = 1e-9
"""A constant that explains a smaller share of every step is none: its sign is that of rounding."""

ONE_CONSTANT = (
    "these points cannot tell time per layer from lost bandwidth: all overhead is charged per layer"
)

UNKNOWN_OF_REPLAY = (
    "dense points cannot tell which part of layer_us belongs to the MLP: a replay saves the MLP's "
    "share of the layer's products"
)

Form = Literal["layers", "layers and share", "share"]
"""Fitted constants: a time per layer, a share of the bandwidth besides, or this share alone."""

EXAMPLE = "say 'tokens_per_s=24.4 @ text:16+128'"


class Constants(NamedTuple):
    """Microseconds per layer, and share of the bandwidth that kernels reach; or no overhead."""

    layer_us: float = 0.0
    bandwidth_share: float = 1.0


@dataclass(frozen=True)
class MeasuredSpeed:
    """One measured decoding speed and the time without runtime overhead of the same work.

    Attributes:
        text: The workload as given.
        tokens_per_s: Measured decoding speed of the whole batch, prompt left out.
        design: The design without overheads of control.
        contexts: Tokens that the first and the last timed step attended to.
        bound_us: Microseconds of a step without runtime overhead.
        place: Name in error messages.
        peak_us: Microseconds of a step at the data-sheet peak of memories and arrays.
        most_share: Peak bandwidth of the weights' memory over its modelled bandwidth, at least 1.
        streamed: Share of ``bound_us`` in phases that memories or ports limit.
    """

    text: str
    tokens_per_s: float
    design: Design
    contexts: tuple[int, int]
    bound_us: float
    place: str = ""
    peak_us: float = 0.0
    most_share: float = 1.0
    streamed: float = 1.0

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
        errors: Relative error of the speed of each point with these constants. With a share of the
            bandwidth above 1, each point is simulated again.
        left_out: Relative error of each point by the constants of all others; empty for one point.
        notes: What the data cannot tell, a sentence each.
    """

    points: tuple[MeasuredSpeed, ...]
    constants: Constants
    errors: tuple[float, ...]
    left_out: tuple[float, ...]
    notes: tuple[str, ...]

    @property
    def residual(self) -> float:
        """Mean size of the relative errors over all points."""
        return fmean(map(abs, self.errors))

    @property
    def assumption(self) -> str | None:
        """What dense points cannot tell of a design that replays; None without time per layer."""
        return UNKNOWN_OF_REPLAY if self.constants.layer_us else None

    @property
    def left_out_error(self) -> float | None:
        """Mean size of the relative errors of points that were left out."""
        return fmean(map(abs, self.left_out)) if self.left_out else None

    def overheads(self, runtime: str) -> Overheads:
        """The section that a design takes, bound to what was measured."""
        calibration = record_of(
            self.points, runtime, error=self.left_out_error, log_sd=log_sd_of(self.left_out)
        )
        fitted = {
            "layer_us": round(self.constants.layer_us, 3),
            "bandwidth_share": round(self.constants.bandwidth_share, 4),
            "calibration": calibration,
        }
        return self.points[0].design.machine.overheads.model_copy(update=fitted)


def record_of(
    points: Sequence[MeasuredSpeed], runtime: str, *, error: float | None, log_sd: float | None
) -> CalibrationRecord:
    """What overheads are bound to that some points gave.

    Args:
        points: At least one.
        runtime: Software on the board.
        error: Mean relative error of points that were left out.
        log_sd: Standard deviation of the logarithm of measured over calibrated time.
    """
    designs = [point.design for point in points]
    board = designs[0].board
    layers = [design.model.body.n_layers for design in designs]
    batches = [design.policy.batch for design in designs]
    firsts, lasts = zip(*(point.contexts for point in points), strict=True)
    precisions = sorted({_precision(design) for design in designs})
    return CalibrationRecord(
        board=board.name,
        fabric_clock_mhz=board.fabric_clock_mhz,
        weight_bits=tuple(weight_bits for weight_bits, _ in precisions),
        activation_bits=tuple(activation_bits for _, activation_bits in precisions),
        families=tuple(sorted({design.model.family for design in designs})),
        machines=tuple(sorted({design.machine.text for design in designs})),
        runtime=runtime,
        contexts=(min(firsts), max(lasts)),
        layers=(min(layers), max(layers)),
        batches=(min(batches), max(batches)),
        points=len(designs),
        error=None if error is None else round(error, 4),
        log_sd=None if log_sd is None else round(log_sd, 4),
    )


@dataclass(frozen=True)
class MeasuredPoints:
    """Points of files and texts.

    Attributes:
        points: At least one.
        notes: Rows that could not be used, and doubts, a sentence each.
    """

    points: tuple[MeasuredSpeed, ...]
    notes: tuple[str, ...]


def measured_points(
    design: str, measured: Sequence[str], overrides: Sequence[str] = ()
) -> MeasuredPoints:
    """Read measured points and simulate each without runtime overhead.

    Args:
        design: The design's file or shipped name.
        measured: ``tokens_per_s=24.4 @ text:16+128``, or the name of a file
            (:mod:`carsim.runs.measured` lists the formats).
        overrides: Changes of the design for all points.

    Raises:
        InputError: No point, a point that cannot be read, or a design that already states
            overheads.
    """
    points: list[MeasuredSpeed] = []
    notes: list[str] = []
    devices: set[str] = set()
    for row in [row for text in measured for row in _rows(text)]:
        changes = list(row.changes)
        if row.model is not None:
            devices.add(row.model.device)
            model_changes = _changes_of(design, row.model, overrides)
            if model_changes is None:
                notes.append(_unknown_model(row.model))
                continue
            changes += model_changes
        points.append(_point(design, row, changes, overrides))
    if not points:
        problem = notes[0] if notes else "gives no point"
        raise InputError("`measured`", problem, EXAMPLE)
    first = points[0].design.board
    for point in points:
        board = point.design.board
        if (board.name, board.fabric_clock_mhz) != (first.name, first.fabric_clock_mhz):
            problem = "is of another board or clock than the first point"
            raise InputError(point.place, problem, "calibrate each by itself")
    if doubt := _device_doubt(devices, first.name):
        notes.append(doubt)
    return MeasuredPoints(tuple(points), tuple(dict.fromkeys(notes)))


def fit(points: Sequence[MeasuredSpeed]) -> Fit:
    """Fit constants to measured points.

    Raises:
        InputError: A point is faster than the peak of its memory, or absurdly slow.
    """
    by_speed = sorted(points, key=lambda point: point.bound_us / point.measured_us)
    slowest = by_speed[0]
    fastest = by_speed[-1]
    for point in points:
        if point.measured_us < (point.peak_us or point.bound_us):
            _refuse_faster_than_peak(point)
    times = slowest.measured_us / slowest.bound_us
    if times > MOST_TIMES:
        speed = f"{number(slowest.tokens_per_s)} tokens/s"
        problem = f"{speed} are {number(times)} times slower than without runtime overhead"
        cure = "give tokens per second, and the workload that was timed"
        raise InputError(slowest.place, problem, cure)
    form, left_out = _best_form(points)
    constants = _solve(points, form) or Constants()
    errors = tuple(point.error(constants) for point in points)
    if constants.bandwidth_share > 1:
        errors = tuple(_simulated_error(point, constants) for point in points)
    notes = [ONE_CONSTANT] if form == "layers" else []
    if fastest.bound_us > fastest.measured_us:
        notes.insert(0, _faster_than_modelled(fastest))
    worst, off = max(zip(points, errors, strict=True), key=lambda pair: abs(pair[1]))
    if abs(off) > MOST_ERROR:
        note = f"these overheads do not explain all points: {worst.text} is {100 * off:+.0f} % off"
        notes.insert(0, f"{note}; measure it again, or calibrate it by itself")
    if constants.layer_us > LONGEST_LAYER_US:
        notes.append(
            f"{number(constants.layer_us)} us per layer are more than any published system takes "
            f"({number(LONGEST_LAYER_US)}): check the design and the measurement"
        )
    return Fit(tuple(points), constants, errors, left_out, tuple(notes))


def best_constants(points: Sequence[MeasuredSpeed]) -> Constants:
    """The constants of :func:`fit` for any points; no overhead where none can be determined."""
    return _solve(points, _best_form(points)[0]) or Constants()


def left_out_errors(points: Sequence[MeasuredSpeed]) -> tuple[float, ...]:
    """Relative error of each point by the constants of all others; empty where there are none."""
    return _best_form(points)[1]


def log_sd_of(errors: Sequence[float]) -> float | None:
    """Standard deviation of the logarithm of measured over calibrated time.

    Args:
        errors: Relative errors of points that were left out of the fit.

    Returns:
        None for fewer than two errors.
    """
    if len(errors) < 2:
        return None
    squares = [log1p(error) ** 2 for error in errors]
    return sqrt(fsum(squares) / (len(squares) - 1))


def _precision(design: Design) -> tuple[float, float]:
    """Bits per weight, scales included, and bits of an activation."""
    model = design.model
    return float(model.mean_stored_bits), float(model.activations.bits)


def _refuse_faster_than_peak(point: MeasuredSpeed) -> None:
    """Raise the error of a point that no software could reach."""
    speed = f"{number(point.tokens_per_s)} tokens/s"
    most = number(1e6 * point.design.policy.batch / (point.peak_us or point.bound_us))
    problem = f"{speed} are faster than the {most} at the peak of its memory and arrays"
    cure = "check clock, bits per weight, memory and array of the design"
    raise InputError(point.place, problem, cure)


def _faster_than_modelled(point: MeasuredSpeed) -> str:
    """A sentence on a point that is faster than the time without runtime overhead."""
    faster = 100 * (point.bound_us / point.measured_us - 1)
    if point.streamed >= LEAST_STREAMED:
        cause = f"the board beats the modelled memory and ports by {faster:.1f} %"
        return f"{cause} ({point.text}); check clock, bits per weight and ports of the design"
    cause = f"the board beats the model by {faster:.1f} % ({point.text})"
    return f"{cause}, and latencies limit the model there: a bandwidth does not explain it"


def _simulated_error(point: MeasuredSpeed, constants: Constants) -> float:
    """Relative error of the speed of a point that is simulated with these constants."""
    changes = {
        "machine.overheads.layer_us": constants.layer_us,
        "machine.overheads.bandwidth_share": constants.bandwidth_share,
    }
    seconds = decode(override(point.design, changes), *point.contexts).seconds_per_step
    return point.measured_us / (1e6 * seconds) - 1


def _best_form(points: Sequence[MeasuredSpeed]) -> tuple[Form, tuple[float, ...]]:
    """Constants that predict left-out points best, and the errors of these points."""
    forms: list[Form] = ["layers"]
    if len(points) >= 3:
        forms.append("layers and share")
    solvable = [form for form in forms if _solve(points, form) is not None]
    ways = [(form, errors) for form in solvable if (errors := _left_out(points, form))]
    if ways:
        return min(ways, key=lambda way: fmean(map(abs, way[1])))
    if solvable:
        return solvable[0], ()
    return "share", _left_out(points, "share") or ()


def _solve(points: Sequence[MeasuredSpeed], form: Form) -> Constants | None:
    """Least squares of relative errors in time; None if undetermined or out of range."""
    layers = np.array([point.design.model.body.n_layers for point in points], float)
    bound = np.array([point.bound_us for point in points])
    took = np.array([point.measured_us for point in points])
    if form == "share":
        # The share that minimises the squares of relative errors, within what memories allow.
        streamed = np.array([point.streamed >= LEAST_STREAMED for point in points])
        if not streamed.any():
            return None
        ratios = (bound / took)[streamed]
        share = float((ratios @ ratios) / ratios.sum())
        most_share = min(point.most_share for point in points)
        return Constants(bandwidth_share=min(share, most_share))
    terms = [layers] if form == "layers" else [layers, bound]
    columns = np.stack(terms, axis=1) / took[:, None]
    fitted, _, rank, _ = np.linalg.lstsq(columns, (took - bound) / took, rcond=1e-6)
    fitted[np.abs(fitted * columns.max(axis=0)) < ROUNDING] = 0.0
    if rank < len(terms) or fitted[0] < 0:
        return None
    share = 1 / (1 + float(fitted[1])) if len(terms) == 2 else 1.0
    if not 0 < share <= 1:
        return None
    return Constants(float(fitted[0]), share)


def _left_out(points: Sequence[MeasuredSpeed], form: Form) -> tuple[float, ...] | None:
    """Relative error of each point by the constants of the others; None where they have none."""
    errors = []
    for index, point in enumerate(points):
        others = [*points[:index], *points[index + 1 :]]
        needed = 2 if form == "layers and share" else 1
        constants = _solve(others, form) if len(others) >= needed else None
        if constants is None:
            return None
        errors.append(point.error(constants))
    return tuple(errors)


def _rows(text: str) -> Iterator[MeasuredRow]:
    """Rows of a text that states one point, or of a file."""
    is_point = "@" in text or (text.startswith("tokens_per_s") and not Path(text).exists())
    if not is_point:
        yield from rows_of_file(text, read_text(Path(text), MAX_BYTES))
        return
    speed, at_sign, workload = text.partition("@")
    name, equals, value = speed.partition("=")
    if not (at_sign and equals) or name.strip() != "tokens_per_s":
        raise InputError("`measured`", f"got {text!r}", f"{EXAMPLE}, or name a file")
    yield MeasuredRow(f"`measured` {text!r}", value.strip(), workload.strip())


def _changes_of(design: str, bench: BenchModel, overrides: Sequence[str]) -> list[str] | None:
    """Changes that give a design the model of a row of llama-bench; None if no preset is it."""
    setting = bench.precision_changes()
    if not any(override.startswith("policy.batch=") for override in overrides):
        setting.append("policy.batch=1")  # llama-bench decodes a single sequence
    if _is_of(load_design(design, overrides).model, bench):
        return setting
    for name in shipped_presets()["model"]:
        if _is_of(_preset_model(name), bench):
            return [f"model.preset={name}", *setting]
    return None


@cache
def _preset_model(name: str) -> Model:
    return Model.model_validate(tuples(preset("model", name, "model.preset")))


def _is_of(model: Model, bench: BenchModel) -> bool:
    """Whether a model has the parameters of one of llama-bench, tied embeddings once or twice."""
    counts = {model.parameters, model.parameters + model.head.stored_weights(model.body)}
    return any(abs(count / bench.parameters - 1) <= PARAMETERS_TOLERANCE for count in counts)


def _unknown_model(bench: BenchModel) -> str:
    return (
        f"{bench.name} is left out: no preset has {bench.parameters / 1e9:.3g}e9 parameters (give "
        "its row in a CSV file with model.preset or model.body in column set)"
    )


def _device_doubt(devices: set[str], board: str) -> str:
    """A line where files name another device than the board of the design; empty otherwise."""
    named = sorted(device for device in devices if device)
    if len(named) > 1:
        return f"the rows are of several devices: {', '.join(named)}; calibrate each by itself"
    if named and not _words(board) & _words(named[0]):
        return f"the rows are of {named[0]}, and the design is of {board}"
    return ""


def _words(name: str) -> set[str]:
    """Words of a device's name that have a digit, which tell devices apart."""
    words = name.lower().replace("-", " ").split()
    return {word for word in words if any(letter.isdigit() for letter in word)}


def _point(
    design: str, row: MeasuredRow, changes: Sequence[str], overrides: Sequence[str]
) -> MeasuredSpeed:
    try:
        made = load_design(design, [*overrides, *changes])
    except InputError as error:
        if not changes:
            raise
        known = error.named()
        problem = f"{known.place}: {known.problem}"
        where = f"{row.place}, column set" if row.model is None else row.place
        raise InputError(where, problem, known.cure) from None
    overheads = made.machine.overheads
    if overheads.stated or overheads.calibration is not None:
        field = (*overheads.stated, "calibration")[0]
        where = f"{made.name}: machine.overheads.{field}"
        problem = "is already set, and would be counted twice"
        raise InputError(where, problem, "calibrate the design without it")
    try:
        tokens_per_s = float(row.tokens_per_s)
    except ValueError:
        tokens_per_s = 0.0
    if not 0 < tokens_per_s < inf:
        problem = f"tokens_per_s is {row.tokens_per_s!r}"
        raise InputError(row.place, problem, "give a number above 0")
    contexts = _contexts(row.place, row.workload, made)
    return point_of(
        text=" ".join([row.workload, *(row.changes if row.model is None else [row.model.name])]),
        tokens_per_s=tokens_per_s,
        decoded=decode(made, *contexts),
        contexts=contexts,
        place=row.place,
    )


def point_of(
    text: str,
    tokens_per_s: float,
    decoded: Decode,
    contexts: tuple[int, int],
    place: str = "",
) -> MeasuredSpeed:
    """A measured speed next to the simulated time of its work.

    Args:
        text: The work in words.
        tokens_per_s: Measured decoding speed of the whole batch.
        decoded: The work on the design without overheads.
        contexts: Tokens that the first and the last timed step attended to.
        place: Name in error messages.
    """
    return MeasuredSpeed(
        text=text,
        tokens_per_s=tokens_per_s,
        design=decoded.design,
        contexts=contexts,
        bound_us=1e6 * decoded.seconds_per_step,
        place=place,
        peak_us=1e6 * decoded.peak_seconds_per_step,
        most_share=max(1.0, decoded.design.most_bandwidth_share),
        streamed=fsum(decoded.limit_shares.get(limit, 0.0) for limit in ("memory", "port")),
    )


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
