"""A run as one document: everything that was found, with the names of the metric table.

The models below are the schema of ``summary.json``, a file with a checksum over all of it; all that
shows or compares runs works on :class:`StoredRun`. Parts that a run has in the same form are stored
as they are. Keys that a later carsim adds are ignored.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from carsim.account.elasticity import Elasticity
from carsim.account.limits import PhaseLimit
from carsim.account.row import RowResult
from carsim.account.totals import PhaseTotals
from carsim.base.errors import InputError
from carsim.base.files import read_json
from carsim.base.plugins import plugin_gap
from carsim.base.section import explained
from carsim.base.units import GB
from carsim.cost.capacity import MemoryUse
from carsim.cost.energy import EnergyReport
from carsim.decisions.trace.meta import STATED
from carsim.design import Design
from carsim.design.load import build_design
from carsim.explore.code import manifest
from carsim.hardware.expected import coverage_of
from carsim.hardware.memory.path import Path as MemoryPath
from carsim.hardware.memory.path import bandwidth_remarks
from carsim.hardware.technology.base import FitRow
from carsim.metrics import METRICS, Value, figures
from carsim.metrics.table import RESOURCES
from carsim.report.notes import computed_in_vain, notes_of, rows_left_out, schedule_note
from carsim.runs.assumed import assumed
from carsim.runs.report import Report

SUMMARY = "summary.json"
AGAIN = "run again with `out` and `overwrite`"

SCHEMA_VERSION = 2
"""Version of the keys of :class:`StoredRun`; a change that could break a reader raises it."""

MAX_BYTES = 50_000_000
"""No run has as much to say."""

CHECKSUM = "checksum"
"""Key of the checksum over all others."""

Positive = Annotated[float, Field(gt=0)]


class _Part(BaseModel):
    model_config = ConfigDict(
        frozen=True, strict=True, extra="ignore", allow_inf_nan=False, defer_build=True
    )


Part = TypeVar("Part", bound=_Part)


class StoredTrace(_Part):
    """Name and hash of a trace."""

    name: str
    sha256: str


class StoredVideo(_Part):
    """The video or text that was decoded."""

    kind: Literal["video", "text"]
    frames: int
    tokens_per_frame: int
    steps: int
    prompt_tokens: int


class StoredEnergyPart(_Part):
    """Joules of one component; ``idle`` if it takes them by being there.

    Parts of the same ``constant`` err together.
    """

    value: float
    low: float
    high: float
    idle: bool
    constant: str


class StoredStage(_Part):
    """Work of reading the prompt, or of decoding, over all batches of a run."""

    stage: Literal["prompt", "decoding"]
    seconds: Positive
    gmacs: float
    memory_gb: dict[str, float]


class StoredBlock(_Part):
    """Work of a block of the layers, or of the head, while a run decodes, over all batches."""

    block: str
    seconds: float
    gmacs: float
    memory_gb: dict[str, float]


class StoredPolicy(_Part):
    """One row of the comparison: what it is, and every metric by its name.

    Metrics are extra fields; :meth:`get` takes any, ``policy[name]`` one that must be a number.
    """

    model_config = ConfigDict(extra="allow", defer_build=True)
    __pydantic_extra__: dict[str, Any]

    policy: str
    key: str
    attention: dict[str, Any]
    schedule: str
    replays: bool
    is_bound: bool
    is_chosen: bool
    decisions_source: str
    decisions: str
    latency_s: Positive
    seconds_per_video: Positive
    latency_cycles_by_batch: tuple[int, ...] | None
    memory_utilisation_by_memory: dict[str, float]
    memory_gb_per_video_by_memory: dict[str, float]
    energy_parts_per_video_j: dict[str, StoredEnergyPart]
    energy_parts_per_token_j: dict[str, StoredEnergyPart] = {}
    breakdown_s: dict[str, float]
    stages: tuple[StoredStage, ...] = ()
    blocks: tuple[StoredBlock, ...] = ()

    def get(self, name: str) -> Value:
        """A metric; None where there was nothing to divide by."""
        return getattr(self, name, None)

    def __getitem__(self, name: str) -> float:
        """A metric that is a number.

        Raises:
            InputError: The run has no such number.
        """
        value = self.get(name)
        if isinstance(value, str) or value is None:
            raise InputError(f"{SUMMARY}: {self.policy}", f"holds no number {name}", AGAIN)
        return value

    def text(self, name: str) -> str:
        """A metric as people read it."""
        return METRICS[name].text(self.get(name))


class StoredMemory(_Part):
    """Sustained rate and contents of a memory."""

    name: str
    peak_gbps: float
    dram_gbps: float
    port_gbps: float
    sustained_gbps: float
    limited_by: str
    latency_cycles: int
    contents_bytes: dict[str, int]
    free_bytes: int


class StoredExpected(_Part):
    """Factors on all times that are expected on a real board, and where they come from.

    ``title`` names the population, ``systems`` counts its published systems (0 for the design's own
    points) and ``rows`` their rows. ``tested`` counts the published rows that tested such intervals
    without their own system, and ``inside`` those of them that lay inside; 0 in earlier files.
    """

    factor: Positive
    low: Positive
    high: Positive
    title: str
    systems: int
    rows: int
    tested: int = 0
    inside: int = 0


class Manifest(_Part):
    """Hashes and versions of everything that a run depends on beside its traces and its seed.

    ``command`` repeats it; empty for a run from Python.
    """

    command: str
    design_sha256: str
    calibration_sha256: str
    code_sha256: str
    plugins: dict[str, str]
    versions: dict[str, str]


class StoredRun(_Part):
    """A run as its summary has it.

    ``assumed`` is the line of :mod:`carsim.runs.assumed`, empty in files of earlier versions.
    ``bandwidth_interval`` has the factors on all rates between which latencies have their interval;
    None where the board names no interval. ``schedule_note`` says what a central schedule gains,
    and why; ``head_misfits`` what would not fit if a design that leaves the head out had it. Files
    of earlier versions have neither.
    """

    schema_version: Literal[2]
    assumed: str = ""
    carsim_version: str
    design: str
    design_sha256: str
    traces: tuple[StoredTrace, ...]
    resampling_seed: int
    manifest: Manifest
    fidelity: str
    fits: bool
    misfits: tuple[str, ...]
    result: str
    expected: StoredExpected
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    schedule_note: str = ""
    video: StoredVideo
    batches: int
    sequences_per_batch: int
    videos_per_batch: int
    chosen: str
    head_included: bool
    head_s: float
    head_misfits: tuple[str, ...] = ()
    latency_without_head_s: float
    latency_with_head_s: float
    bandwidth_interval: tuple[Positive, Positive] | None
    policies: tuple[StoredPolicy, ...] = Field(min_length=1)
    limits: tuple[PhaseLimit, ...]
    elasticities: tuple[Elasticity, ...]
    memories: tuple[StoredMemory, ...]
    fit: tuple[FitRow, ...]
    resolved_design: dict[str, Any]

    @property
    def is_stated(self) -> bool:
        """The decoding was stated; no trace was captured or drawn before."""
        return all(trace.name.startswith(STATED) for trace in self.traces)

    def named(self, text: str) -> str:
        """A text about videos, about texts or images if those were made."""
        return text.replace("video", self.made)

    @property
    def made(self) -> str:
        """What was made: ``video``, ``text`` or ``image``."""
        sample = self._section_of_model("sample")
        if sample and sample.get("frames", 1) == 1 and sample.get("chunk_frames") is None:
            return "image"
        return self.video.kind

    @property
    def is_network(self) -> bool:
        """All tokens of a sample passed each layer together."""
        return bool(self._section_of_model("network"))

    def _section_of_model(self, name: str) -> Mapping[str, Any]:
        """A section of the resolved design's model; empty where it has none."""
        model = self.resolved_design.get("model", {})
        section = model.get(name) if isinstance(model, Mapping) else None
        return section if isinstance(section, Mapping) else {}

    @property
    def own(self) -> StoredPolicy:
        """The design's own policy."""
        return next(policy for policy in self.policies if policy.is_chosen)

    @property
    def dense(self) -> StoredPolicy:
        """The policy that speed-ups refer to."""
        return self.policies[0]

    def spec(self) -> Design:
        """The resolved design.

        Raises:
            InputError: This carsim does not know it, perhaps without a plugin of the run.
        """
        return self.built_design

    @cached_property
    def built_design(self) -> Design:
        """The design of :meth:`spec`, which a screen asks for many times."""
        try:
            return build_design(self.resolved_design, f"{SUMMARY}: resolved_design")
        except InputError:
            gap = plugin_gap(self.manifest.plugins)
            if gap is None:
                raise
            raise InputError(SUMMARY, gap.problem, gap.cure) from None


def stored(report: Report) -> StoredRun:
    """A report as if it had been written and read back."""
    design = report.design
    chosen = report.chosen
    fit = report.fit
    plan = chosen.simulation.plan
    coverage = coverage_of(design.expected.pool)
    bandwidth_interval = None
    if chosen.latency_factors:
        low, high = plan.hw.bandwidth_interval
        bandwidth_interval = (float(low), float(high))
    use_of_memory = {use.memory: use for use in fit.memories}
    return _part(
        StoredRun,
        report,
        fit,
        chosen.batches,
        schema_version=2,
        assumed=assumed(report),
        carsim_version=version("carsim"),
        design=design.name,
        design_sha256=design.sha256,
        traces=tuple(StoredTrace(name=name, sha256=sha256) for name, sha256 in report.traces),
        resampling_seed=report.seed,
        manifest=Manifest(**manifest(report.command, design)),
        fidelity=plan.phases.fidelity,
        warnings=tuple(_warnings(report)),
        result=design.machine.overheads.label,
        expected=_part(
            StoredExpected, design.expected, tested=coverage.rows, inside=coverage.inside
        ),
        notes=tuple(notes_of(report)),
        schedule_note=schedule_note(report),
        video=_part(StoredVideo, plan.video, frames=plan.video.n_frames, steps=plan.n_steps),
        batches=chosen.n_batches,
        sequences_per_batch=design.policy.batch,
        chosen=chosen.variant.name,
        head_included=design.machine.include_head,
        head_s=report.head_seconds,
        latency_without_head_s=chosen.body_latency_s,
        latency_with_head_s=chosen.body_latency_s + report.head_seconds,
        bandwidth_interval=bandwidth_interval,
        policies=tuple(_policy(row, report) for row in report.rows),
        memories=tuple(_memory(path, use_of_memory[path.name]) for path in plan.hw.paths),
        fit=fit.rows,
        resolved_design=design.model_dump(mode="json"),
    )


def _warnings(report: Report) -> Iterator[str]:
    """Warnings about what was asked, about the model, and about the design."""
    design = report.design
    video = report.chosen.simulation.plan.video
    for warning in (rows_left_out(report), computed_in_vain(report)):
        if warning:
            yield warning
    yield from design.extrapolations(video.prompt_tokens + 1, video.max_context)
    yield from bandwidth_remarks(design.board.memories, design.board.fabric_clock_mhz)
    yield from report.fit.warnings


def _part(model: type[Part], *sources: object, **fields: Any) -> Part:
    """A stored object, whose fields have the names of those that they are taken from.

    Args:
        model: Class of the stored object.
        sources: Objects with attributes of these names; the first that has an attribute counts.
        fields: Values of fields that no source has, or has in another form.
    """
    values = dict(fields)
    for name in model.model_fields:
        if name not in fields:
            values[name] = next(
                getattr(source, name) for source in sources if hasattr(source, name)
            )
    return model.model_validate(values)


def _memory(path: MemoryPath, use: MemoryUse) -> StoredMemory:
    """Rates of a memory, and what it holds."""
    contents = {content.content: content.nbytes for content in use.contents}
    return _part(StoredMemory, path, use, contents_bytes=contents)


def _policy(row: RowResult, report: Report) -> StoredPolicy:
    """A row of the comparison, with all its metrics as further fields."""
    metrics = figures(row, report)
    for resource in RESOURCES:
        if resource not in report.fit.counts:  # it is one of another technology
            metrics.pop(resource, None)
    moved_gb = {name: nbytes / GB / row.videos for name, nbytes in row.dram_bytes.items()}
    cycles = None if row.is_bound else tuple(row.simulation.batch_cycles.tolist())
    return _part(
        StoredPolicy,
        row.variant,
        policy=row.variant.name,
        attention=row.variant.attention.model_dump(mode="json"),
        is_chosen=row is report.chosen,
        decisions_source=row.batches.source,
        latency_cycles_by_batch=cycles,
        memory_utilisation_by_memory=row.ddr_utilisation,
        memory_gb_per_video_by_memory=moved_gb,
        energy_parts_per_video_j=_joules(row.energy_parts_per_video),
        energy_parts_per_token_j=_joules(row.energy_parts_per_token),
        breakdown_s=row.seconds_by_category,
        stages=_stages(row),
        blocks=_blocks(row),
        **metrics,
    )


def _joules(energy: EnergyReport) -> dict[str, StoredEnergyPart]:
    """Joules by component."""
    joules = {}
    for component in energy.components:
        joules[component.component] = _part(
            StoredEnergyPart,
            component,
            value=component.value_j,
            low=component.low_j,
            high=component.high_j,
        )
    return joules


def _stages(row: RowResult) -> tuple[StoredStage, ...]:
    """What a policy works while it reads the prompt, and while it decodes."""
    if row.is_bound:
        return ()
    prompt = [total for phase, total in row.simulation.totals.items() if phase == "prefill"]
    decoding = [total for phase, total in row.simulation.totals.items() if phase != "prefill"]
    stages = [_stage("prompt", prompt, row), _stage("decoding", decoding, row)]
    return tuple(stage for stage in stages if stage is not None)


def _stage(
    name: Literal["prompt", "decoding"], totals: Sequence[PhaseTotals], row: RowResult
) -> StoredStage | None:
    """The work of a stage; None if it takes no time.

    Args:
        name: The stage.
        totals: Sums over each kind of phase that it has.
        row: The policy.
    """
    cycles = sum(total.cycles for total in totals)
    if not cycles:
        return None
    clock_hz = row.design.board.fabric_clock_mhz * 1e6
    memory_gb = {}
    for index, path in enumerate(row.simulation.plan.hw.paths):
        nbytes = sum(total.dram_bytes[index] for total in totals)
        memory_gb[path.name] = nbytes / GB
    return StoredStage(
        stage=name,
        seconds=cycles / clock_hz,
        gmacs=sum(total.macs for total in totals) / 1e9,
        memory_gb=memory_gb,
    )


def _blocks(row: RowResult) -> tuple[StoredBlock, ...]:
    """Blocks that take any time while a policy decodes; the prompt is a stage."""
    if row.is_bound:
        return ()
    names = [path.name for path in row.simulation.plan.hw.paths]
    clock_hz = row.design.board.fabric_clock_mhz * 1e6
    blocks = []
    for phase, total in row.simulation.totals.items():
        if phase == "prefill" or not total.cycles:
            continue
        moved_gb = [nbytes / GB for nbytes in total.dram_bytes]
        block = StoredBlock(
            block=phase,
            seconds=total.cycles / clock_hz,
            gmacs=total.macs / 1e9,
            memory_gb=dict(zip(names, moved_gb, strict=True)),
        )
        blocks.append(block)
    return tuple(blocks)


def summary(report: Report) -> dict[str, Any]:
    """A report as a JSON document.

    A number that is not finite is null. Equal inputs give an equal document: it holds no dates and
    no paths.
    """
    return sealed(stored(report).model_dump(mode="json"))


def sealed(document: dict[str, Any]) -> dict[str, Any]:
    """A document with its checksum."""
    return document | {CHECKSUM: _checksum(document)}


def read_run(folder: str | Path) -> StoredRun:
    """The run that a folder holds.

    Raises:
        InputError: No folder of a run, or one that is broken; one line.
    """
    path = Path(folder) / SUMMARY
    place = str(path)
    if not path.exists():
        problem = f"holds no {SUMMARY}"
        raise InputError(str(folder), problem, "name the folder of a run that --out has stored")
    document = read_json(path, MAX_BYTES, AGAIN)
    schema_version = document.get("schema_version")
    if schema_version != SCHEMA_VERSION:
        problem = f"is of version {schema_version!r:.40}; this carsim reads {SCHEMA_VERSION}"
        cure = "run again with this carsim, or read it with the one that wrote it"
        raise InputError(place, problem, cure)
    if document.get(CHECKSUM) != _checksum(document):
        raise InputError(place, "is damaged: it does not match its checksum", AGAIN)
    try:
        # Through JSON text, whose lists strict models take for tuples.
        return StoredRun.model_validate_json(json.dumps(document))
    except ValidationError as error:
        raise explained(error, place, document, AGAIN) from None


def _checksum(document: dict[str, Any]) -> str:
    """Checksum of all fields of a document but the checksum itself."""
    content = {key: value for key, value in document.items() if key != CHECKSUM}
    return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
