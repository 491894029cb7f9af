"""carsim and its rivals against measured replay, from dense rows alone: ``carsim validate replay``.

A folder of ``carsim measure`` has dense rows (``dense.csv``, ``blocks.csv``, ``host.yaml``) and
measured speed-ups (``replay.csv``). :func:`predict` opens the former and the traces, which have the
decisions that were forced; only :func:`read_measured` opens the latter. carsim is calibrated as
``carsim calibrate`` does, on the dense rows of this number of workers. Where that is refused, its
time without runtime overhead stands in, and a note says so.

A setting whose noise is more than half of its effect is counted and not scored.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from carsim.account.row import Candidate, simulate_rows
from carsim.account.variants import BASE, Variant
from carsim.base.errors import InputError
from carsim.base.groups import grouped
from carsim.base.text import count
from carsim.base.yaml_file import read_mapping
from carsim.decisions.trace import Trace, load_trace
from carsim.design import Design, override
from carsim.machine.batches import make_batches
from carsim.machine.hardware import Hardware
from carsim.machine.phases import Phases
from carsim.measure.folder import BLOCKS, HOST, NOISE, REPLAY, SETUP, TRACES, dense_file, rows_in
from carsim.measure.settings import Schedule
from carsim.measure.shape import shape_of, weights_of
from carsim.metrics.comparison import Comparison
from carsim.runs.calibrate import MeasuredSpeed, fit, measured_points
from carsim.runs.kernel_times import kernels_of_blocks
from carsim.runs.pipeline import fit_of, sources_of
from carsim.validate.part import Group, Part
from carsim.validate.replay_rivals import RIVALS, SHORT_NAMES, DenseEvidence, Replay

TITLE = "Speed-up by replay, predicted from dense rows alone"

CARSIM = "carsim, blocks calibrated"
BY_LAYER = "carsim, layers calibrated"
BARE = "carsim, not calibrated"

SHORT_CARSIM = {BY_LAYER: "by layer", BARE: "not calibrated"}
"""Other ways to use carsim, by name in headings."""

EFFECT_SHARE = 0.5
"""Share of an effect that noise may reach for the setting to be scored."""

LOSS = 0.98
"""Speed-up below which replay loses by more than noise."""

SCHEDULES: Mapping[Schedule, str] = {"none": "static", "static": "static", "dynamic": "drs"}
"""Assignment of rows to workers -> carsim's schedule."""


class Key(NamedTuple):
    """A setting of a folder."""

    folder: str
    trace: str
    workers: int
    schedule: Schedule

    @property
    def crew(self) -> str:
        """Workers and their assignment in words."""
        if self.workers == 1:
            return "1 worker"
        return f"{count(self.workers, 'worker')}, {self.schedule}"


@dataclass(frozen=True)
class MeasuredReplay:
    """A measured speed-up.

    Attributes:
        key: The setting.
        batch: Rows.
        ratio: Replay ratio of the steps after the first.
        agreement: Share of decisions on which two rows agree.
        speedup: Dense time over time.
        low: Lower end over resampled rounds.
        high: Upper end.
        noise: Relative difference of two dense settings of this batch.
    """

    key: Key
    batch: int
    ratio: float
    agreement: float
    speedup: float
    low: float
    high: float
    noise: float

    @property
    def is_scored(self) -> bool:
        """The noise is at most half of the effect."""
        return self.noise <= EFFECT_SHARE * abs(self.speedup - 1)

    def covers(self, speedup: float) -> bool:
        """Whether a prediction lies within the measured ends, widened by the noise."""
        return self.low * (1 - self.noise) <= speedup <= self.high * (1 + self.noise)

    @property
    def text(self) -> str:
        """The setting in words."""
        return (
            f"{self.key.folder}, {self.key.crew}, batch {self.batch}, replay {self.ratio:.0%}, "
            f"agreement {self.agreement:.0%}"
        )


@dataclass(frozen=True)
class Predictions:
    """Predicted speed-ups of a folder.

    Attributes:
        speedups: By setting and name of the predictor.
        refused: Numbers of workers whose calibration was refused, each with the reason.
    """

    speedups: Mapping[Key, Mapping[str, float]]
    refused: Mapping[int, str]


def validate_replay(
    progress: Callable[[str], None] = lambda _: None, folder: Path | None = None
) -> Part:
    """Compare carsim and its rivals with measured replay.

    Args:
        progress: Told what is being predicted.
        folder: A folder of ``carsim measure``, or of several; the shipped rows by default.

    Raises:
        InputError: No such folder, or files that are none of ``carsim measure``.
    """
    folders = measured_folders(shipped_rows() if folder is None else folder)
    predicted: dict[Key, Mapping[str, float]] = {}
    measured: list[MeasuredReplay] = []
    notes: list[str] = []
    for measured_folder in folders:
        progress(measured_folder.name)
        predictions = predict(measured_folder)
        predicted |= predictions.speedups
        measured += read_measured(measured_folder)
        notes.append(_setup_note(measured_folder))
        for workers, reason in predictions.refused.items():
            notes.append(
                f"{measured_folder.name}, {workers} workers: carsim calibrate refuses the dense "
                f"rows ({reason}); the time without runtime overhead stands in."
            )
    scored = [row for row in measured if row.is_scored]
    if not scored:
        problem = f"no setting of {len(measured)} has an effect above twice its noise"
        raise InputError(str(folders[0].parent), problem, "measure longer, on an idle machine")
    return Part("replay", TITLE, tuple(_groups(scored, predicted)), (
        *_summary(measured, scored, predicted), *notes
    ))  # fmt: skip


def shipped_rows() -> Path:
    """The folder of the measurements that ship with carsim."""
    return Path(str(files("carsim.validate"))) / "data" / "replay"


def measured_folders(folder: Path) -> list[Path]:
    """A folder of ``carsim measure``, or those inside a folder.

    Raises:
        InputError: There is none.
    """
    if (folder / HOST).is_file():
        return [folder]
    inside = sorted(file.parent for file in folder.glob(f"*/{HOST}")) if folder.is_dir() else []
    if not inside:
        cure = "make one with: carsim measure --out DIR"
        raise InputError(str(folder), "is no folder of carsim measure", cure)
    return inside


def predict(folder: Path) -> Predictions:
    """Predict all settings of a folder from its dense rows; measured replay is never opened.

    Args:
        folder: A folder of ``carsim measure``.
    """
    traces = {file.stem: load_trace(file) for file in sorted((folder / TRACES).glob("*.npz"))}
    blocks = _blocks(folder)
    speedups: dict[Key, dict[str, float]] = {}
    refused: dict[int, str] = {}
    for workers in sorted({workers for _, workers in blocks}):
        measured = measured_points(str(folder / HOST), [str(folder / dense_file(workers))])
        points = measured.points
        dense = _evidence(folder, points, blocks, workers)
        kernels = kernels_of_blocks(folder / BLOCKS, points).overheads(points, "")
        machines = {CARSIM: _Simulated(points, kernels.model_dump()), BARE: _Simulated(points)}
        try:
            machines[BY_LAYER] = _Simulated(points, fit(points).overheads("").model_dump())
        except InputError as error:
            refused[workers] = error.problem
            machines[BY_LAYER] = machines[BARE]
        schedules: Sequence[Schedule] = ("none",) if workers == 1 else ("static", "dynamic")
        for name, trace in traces.items():
            if trace.n_rows % workers:
                continue
            for schedule in schedules:
                replay = Replay(trace.replay, schedule, workers)
                predictions = {
                    rival: predictor(dense, replay) for rival, predictor in RIVALS.items()
                }
                for machine, simulated in machines.items():
                    predictions[machine] = simulated.speedup(trace, schedule)
                speedups[Key(folder.name, name, workers, schedule)] = predictions
    return Predictions(speedups, refused)


def read_measured(folder: Path) -> list[MeasuredReplay]:
    """Measured speed-ups of a folder."""
    measured = []
    for row in rows_in(folder / REPLAY):
        key = Key(folder.name, Path(row["trace"]).stem, int(row["workers"]), _schedule(row))
        measured.append(
            MeasuredReplay(
                key=key,
                batch=int(row["batch"]),
                ratio=float(row["ratio"]),
                agreement=float(row["agreement"]),
                speedup=float(row["speedup"]),
                low=float(row["low"]),
                high=float(row["high"]),
                noise=float(row["noise"]),
            )
        )
    return measured


class _Simulated:
    """carsim's speed-ups on the designs of dense points, one for each batch."""

    def __init__(
        self, points: Sequence[MeasuredSpeed], overheads: Mapping[str, Any] | None = None
    ) -> None:
        self._designs: dict[int, Design] = {}
        for point in points:
            design = point.design
            if overheads is not None:
                design = override(design, {"machine.overheads": dict(overheads)})
            self._designs[design.policy.batch] = design
        self._phases: dict[int, Phases] = {}
        self._dense_ms: dict[int, float] = {}

    def speedup(self, trace: Trace, schedule: Schedule) -> float:
        """Dense decoding time over that with the decisions of a trace, prompt left out."""
        batch = trace.n_rows
        if batch not in self._dense_ms:
            self._phases[batch] = Phases(Hardware(self._designs[batch]))
            self._dense_ms[batch] = self._step_ms(trace, BASE)
        replaying = Variant(BASE.attention, SCHEDULES[schedule], replays=True)
        return self._dense_ms[batch] / self._step_ms(trace, replaying)

    def _step_ms(self, trace: Trace, variant: Variant) -> float:
        """Milliseconds of a step of a trace on the design of its number of rows."""
        design = self._designs[trace.n_rows]
        sources = sources_of(design, [trace])
        video = sources.video
        candidate = Candidate(design, fit_of(design, sources, video))
        decisions = sources.decisions(variant.attention, replays=variant.replays)
        batches = make_batches(decisions, sources.batch, sources.tokens_per_step)
        phases = self._phases[trace.n_rows]
        (row,) = simulate_rows([candidate], variant, batches, video, phases)
        return row.ms_per_token


def _blocks(folder: Path) -> dict[tuple[str, int], dict[int, float]]:
    """Microseconds of a block by rows, for each block and number of workers."""
    blocks: dict[tuple[str, int], dict[int, float]] = {}
    for row in rows_in(folder / BLOCKS):
        table = blocks.setdefault((row["block"], int(row["workers"])), {})
        table[int(row["rows"])] = float(row["us"])
    return blocks


def _evidence(
    folder: Path,
    points: Sequence[MeasuredSpeed],
    blocks: Mapping[tuple[str, int], Mapping[int, float]],
    workers: int,
) -> DenseEvidence:
    """Evidence of a folder that rivals may use: dense steps, blocks, and sizes of the decoder."""
    setup = read_mapping(folder / SETUP)
    shape = shape_of(setup["measures"]["model"])
    weights = weights_of(shape)
    return DenseEvidence(
        workers=workers,
        attention_weights=weights.attention,
        mlp_weights=weights.mlp,
        n_layers=shape.n_layers,
        step_us={point.design.policy.batch: point.measured_us for point in points},
        blocks=blocks,
    )


def _schedule(row: Mapping[str, str]) -> Schedule:
    """The schedule of a row, one of those that are measured."""
    for schedule in SCHEDULES:
        if row["schedule"] == schedule:
            return schedule
    raise InputError(REPLAY, f"schedule is {row['schedule']!r}", f"give {', '.join(SCHEDULES)}")


def _groups(
    scored: Sequence[MeasuredReplay], predicted: Mapping[Key, Mapping[str, float]]
) -> Iterator[Group]:
    """All rows against each rival; parts of the rows against the table of dense blocks."""
    strongest = list(RIVALS)[-1]
    for rival, short in {**SHORT_CARSIM, **SHORT_NAMES}.items():
        yield _group(f"all scored ({short})", scored, predicted, rival)
    splits: dict[str, Callable[[MeasuredReplay], str]] = {
        "layers": lambda row: f"{row.key.folder} layers",
        "workers": lambda row: row.key.crew,
        "batch": lambda row: f"batch {row.batch}",
        "agreement": lambda row: "rows agree" if row.agreement == 1 else "rows decide alone",
    }
    for name_of in splits.values():
        for name, rows in sorted(grouped((name_of(row), row) for row in scored).items()):
            yield _group(name, rows, predicted, strongest)


def _group(
    name: str,
    rows: Sequence[MeasuredReplay],
    predicted: Mapping[Key, Mapping[str, float]],
    rival: str,
) -> Group:
    """Measured speed-ups of some rows beside those of carsim and of a rival."""
    compared = []
    for row in rows:
        speedups = predicted[row.key]
        comparison = Comparison(
            what=row.text,
            reference=row.speedup,
            ours=speedups[CARSIM],
            rival=speedups[rival],
            bound=None,
            source="carsim measure",
            note=f"noise {row.noise:.1%}",
        )
        compared.append(comparison)
    return Group(name, tuple(compared), rival, shown=False)


def _summary(
    measured: Sequence[MeasuredReplay],
    scored: Sequence[MeasuredReplay],
    predicted: Mapping[Key, Mapping[str, float]],
) -> Iterator[str]:
    """Counts that means hide: rows without a score, within noise, signs, schedules."""
    yield (
        f"{len(measured)} settings were measured, {len(scored)} are scored. For the others, the "
        "noise (dense against dense) is more than half of the effect. Mean noise of all settings: "
        f"{100 * fmean(row.noise for row in measured):.1f} %."
    )
    names = [CARSIM, *SHORT_CARSIM, *RIVALS]
    inside = {name: sum(row.covers(predicted[row.key][name]) for row in scored) for name in names}
    yield "Within the measured ends and noise: " + _counts(inside) + f" of {len(scored)}."
    losing = [row for row in scored if row.speedup < LOSS]
    seen = {name: sum(predicted[row.key][name] < 1 for row in losing) for name in names}
    yield (
        f"Replay loses more than {1 - LOSS:.0%} in {len(losing)} scored settings. Predicted as "
        f"losing: {_counts(seen)}."
    )
    wrong = {
        name: sum((predicted[row.key][name] > 1) != (row.speedup > 1) for row in scored)
        for name in names
    }
    yield f"Wrong sign of the effect: {_counts(wrong)} of {len(scored)}."
    yield from _schedule_notes(measured, predicted, names)


def _schedule_notes(
    measured: Sequence[MeasuredReplay],
    predicted: Mapping[Key, Mapping[str, float]],
    names: Sequence[str],
) -> Iterator[str]:
    """Gain of dynamic over static assignment, measured and predicted."""
    by_key = {row.key: row for row in measured}
    gains = []
    for key, dynamic in by_key.items():
        if key.schedule == "dynamic":
            static = by_key[key._replace(schedule="static")]
            gain = dynamic.speedup / static.speedup - 1
            predictions = {
                name: predicted[dynamic.key][name] / predicted[static.key][name] - 1
                for name in names
            }
            gains.append((gain, predictions))
    if gains:
        means = ", ".join(
            f"{name} {100 * fmean(predictions[name] for _, predictions in gains):+.1f} %"
            for name in names
        )
        yield (
            f"Dynamic over static assignment, mean of {len(gains)} pairs of all settings: measured "
            f"{100 * fmean(gain for gain, _ in gains):+.1f} %; {means}."
        )


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in counts.items())


def _setup_note(folder: Path) -> str:
    """The machine of a folder in one sentence."""
    setup = read_mapping(folder / SETUP)
    machine = setup["machine"]
    libraries = dict(setup["libraries"])
    device = libraries.pop("device")
    named = ", ".join(f"{name} {text}" for name, text in libraries.items())
    caches = ", ".join(f"{level} {kib} KiB" for level, kib in machine["caches_kib"].items())
    rounds = sorted({int(row["rounds"]) for row in rows_in(folder / NOISE)})
    return (
        f"{folder.name}: {setup['weights_mb']} MB of weights on {machine['cpu']} ({device}), "
        f"{machine['cpus']} CPUs, {caches}; {named}; one thread a worker; load "
        f"{setup['load']}; {' to '.join(map(str, rounds))} rounds; {setup['date']}."
    )
