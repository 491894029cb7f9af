"""A run as one document: everything that was found, with the names of the metric table.

The models below are the schema of ``summary.json``, which :mod:`carsim.report.summary_file` writes
and reads; all that shows or compares runs works on :class:`StoredRun`. Keys that a later carsim
adds are ignored.
"""

from importlib.metadata import version
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from carsim.base.errors import InputError
from carsim.base.units import GB
from carsim.decisions.trace.meta import STATED
from carsim.design import Design
from carsim.design.load import build_design
from carsim.hardware.expected import expected_of
from carsim.machine.row import RowResult
from carsim.metrics import METRICS, Value, figures
from carsim.metrics.frames import key_of, limit_records
from carsim.metrics.metric import finite
from carsim.metrics.table import RESOURCES
from carsim.report.notes import notes_of
from carsim.runs.report import Report

SUMMARY = "summary.json"
AGAIN = "run again with `out` and `overwrite`"

Finite = Annotated[float, Field(allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", defer_build=True)


Part = TypeVar("Part", bound=_Part)


class StoredTrace(_Part):
    """Name and hash of a trace."""

    name: str
    sha256: str


class StoredVideo(_Part):
    """The video or text that was decoded."""

    frames: int
    tokens_per_frame: int
    steps: int
    prompt_tokens: int
    kind: Literal["video", "text"] = "video"


class StoredEnergyPart(_Part):
    """Joules of one component; ``idle`` if it takes them by being there.

    Parts of the same ``constant`` err together; empty in files of carsim 0.1.
    """

    value: Finite
    low: Finite
    high: Finite
    idle: bool
    constant: str = ""


class StoredPolicy(_Part):
    """One row of the comparison: what it is, and every metric by its name.

    Metrics are extra fields; :meth:`get` takes any, ``policy[name]`` one that must be a number.
    """

    model_config = ConfigDict(extra="allow", defer_build=True)
    __pydantic_extra__: dict[str, bool | int | Finite | str | None]

    policy: str
    key: str
    attention: dict[str, Any]
    schedule: str
    replays: bool
    is_bound: bool
    is_chosen: bool
    decisions_source: str = ""
    decisions: str
    latency_s: Positive
    seconds_per_video: Positive
    latency_cycles_by_batch: tuple[int, ...] | None = None
    memory_utilisation_by_memory: dict[str, Finite]
    memory_gb_per_video_by_memory: dict[str, Finite]
    energy_parts_per_video_j: dict[str, StoredEnergyPart]
    breakdown_s: dict[str, Finite]

    def get(self, name: str) -> Value:
        """A metric; None where there was nothing to divide by, or an older carsim had none."""
        value: Value = getattr(self, name, None)
        return value

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


class StoredLimit(_Part):
    """The limit of one kind of phase of the chosen policy."""

    phase: str
    share_of_time: Finite
    limited_by: str
    compute_share: Finite
    memory_share: Finite
    port_share: Finite
    dependency_share: Finite
    flip_gbps: Finite | None
    flip_macs_per_cycle: Finite | None


class StoredElasticity(_Part):
    """Change of latency with 10 % more of a resource."""

    resource: str
    simulated: str
    latency_change_per_10_percent: Finite


class StoredMemory(_Part):
    """Sustained rate and contents of a memory."""

    name: str
    peak_gbps: Finite
    dram_gbps: Finite
    port_gbps: Finite
    sustained_gbps: Finite
    limited_by: str
    latency_cycles: int
    contents_bytes: dict[str, int] = {}
    free_bytes: int = 0


class StoredFit(_Part):
    """One thing that has to fit."""

    what: str
    needed: int | Finite
    available: int | Finite
    unit: str
    ok: bool
    detail: str


class StoredWork(_Part):
    """Size of the simulation: layer-steps of all rows, and the phases they are made of.

    ``interpolated``: the times of some were taken from those of shorter and longer ones.
    """

    layer_steps: int
    different_phases: int
    interpolated: bool = False


class StoredExpected(_Part):
    """Factors on all latencies that are expected on a real board, and where they come from."""

    factor: Positive
    low: Positive
    high: Positive
    title: str
    systems: int
    rows: int


class StoredRun(_Part):
    """A run as its summary has it.

    ``bandwidth_interval`` has the factors on all rates between which latencies have their interval;
    None where the board names no interval.
    """

    schema_version: Literal[2]
    carsim_version: str
    design: str
    design_sha256: str
    traces: tuple[StoredTrace, ...]
    resampling_seed: int
    fidelity: str
    fits: bool
    misfits: tuple[str, ...]
    result: str = ""
    expected: StoredExpected | None = None
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    video: StoredVideo
    batches: int
    sequences_per_batch: int
    videos_per_batch: int
    rows_left_out: int
    chosen: str
    head_included: bool
    head_s: Finite
    latency_without_head_s: Finite
    latency_with_head_s: Finite
    bandwidth_interval: tuple[Positive, Positive] | None = None
    simulated: StoredWork = StoredWork(layer_steps=0, different_phases=0)
    policies: tuple[StoredPolicy, ...] = Field(min_length=1)
    limits: tuple[StoredLimit, ...]
    elasticities: tuple[StoredElasticity, ...]
    memories: tuple[StoredMemory, ...]
    fit: tuple[StoredFit, ...]
    resolved_design: dict[str, Any]

    @property
    def is_stated(self) -> bool:
        """The decoding was stated; no trace was captured or drawn before."""
        return all(trace.name.startswith(STATED) for trace in self.traces)

    def named(self, text: str) -> str:
        """A text about videos, about texts if those were decoded."""
        return text.replace("video", self.video.kind)

    @property
    def own(self) -> StoredPolicy:
        """The design's own policy."""
        return next(policy for policy in self.policies if policy.is_chosen)

    @property
    def dense(self) -> StoredPolicy:
        """The policy that speed-ups refer to."""
        return self.policies[0]

    @property
    def bound(self) -> StoredPolicy | None:
        """The bound for schedules of whole sequences."""
        return next((policy for policy in self.policies if policy.is_bound), None)

    def spec(self) -> Design:
        """The resolved design.

        Raises:
            InputError: This carsim does not know it.
        """
        return build_design(self.resolved_design, f"{SUMMARY}: resolved_design")


def stored(report: Report) -> StoredRun:
    """A report as if it had been written and read back."""
    design, chosen = report.design, report.chosen
    video = chosen.simulation.plan.video
    low, high = map(float, chosen.simulation.plan.hw.bandwidth_interval)
    beyond = design.extrapolation(video.prompt_tokens + 1, video.max_context)
    return StoredRun(
        schema_version=2,
        carsim_version=version("carsim"),
        design=design.name,
        design_sha256=design.sha256,
        traces=tuple(StoredTrace(name=name, sha256=sha256) for name, sha256 in report.traces),
        resampling_seed=report.seed,
        fidelity=chosen.simulation.plan.phases.fidelity,
        fits=report.fit.fits,
        misfits=tuple(report.fit.misfits),
        warnings=(*report.fit.warnings, *filter(None, [beyond])),
        result=design.machine.overheads.label,
        expected=_expected(design),
        notes=tuple(notes_of(report)),
        video=_part(
            StoredVideo, video, frames=video.n_frames, steps=chosen.simulation.plan.n_steps
        ),
        batches=chosen.n_batches,
        sequences_per_batch=design.policy.batch,
        videos_per_batch=chosen.batches.videos_per_batch,
        rows_left_out=chosen.batches.left_out_rows,
        chosen=chosen.variant.name,
        head_included=design.machine.include_head,
        head_s=report.head_seconds,
        latency_without_head_s=chosen.body_latency_s,
        latency_with_head_s=chosen.body_latency_s + report.head_seconds,
        bandwidth_interval=(low, high) if chosen.latency_factors else None,
        simulated=_work(report),
        policies=tuple(_policy(row, report) for row in report.rows),
        limits=tuple(
            StoredLimit(**{key: finite(value) for key, value in record.items()})
            for record in limit_records(report)
        ),
        elasticities=tuple(
            _part(StoredElasticity, each, latency_change_per_10_percent=each.change)
            for each in report.elasticities
        ),
        memories=_memories(report),
        fit=tuple(_part(StoredFit, row) for row in report.fit.rows),
        resolved_design=design.model_dump(mode="json"),
    )


def _part(model: type[Part], source: object, **fields: Any) -> Part:
    """A model with the fields that are given, and all others from attributes of the same name."""
    names = model.model_fields.keys() - fields.keys()
    return model(**{name: getattr(source, name) for name in names}, **fields)


def _work(report: Report) -> StoredWork:
    simulated, chosen = [row for row in report.rows if not row.is_bound], report.chosen
    steps = chosen.simulation.plan.n_steps * report.design.model.body.n_layers
    return StoredWork(
        layer_steps=sum(row.n_batches for row in simulated) * steps,
        different_phases=report.phases_simulated,
        interpolated=report.interpolated,
    )


def _memories(report: Report) -> tuple[StoredMemory, ...]:
    uses = {use.memory: use for use in report.fit.memories}
    return tuple(
        _part(
            StoredMemory,
            path,
            contents_bytes={c.content: c.nbytes for c in uses[path.name].contents},
            free_bytes=uses[path.name].free_bytes,
        )
        for path in report.chosen.simulation.plan.hw.paths
    )


def _expected(design: Design) -> StoredExpected:
    factors = expected_of(design.machine.overheads)
    return _part(StoredExpected, factors, low=factors.ends[0], high=factors.ends[1])


def _policy(row: RowResult, report: Report) -> StoredPolicy:
    return StoredPolicy(
        policy=row.variant.name,
        key=key_of(row),
        attention=row.variant.attention.model_dump(mode="json"),
        schedule=row.variant.schedule,
        replays=row.variant.replays,
        is_bound=row.is_bound,
        is_chosen=row is report.chosen,
        decisions_source=row.batches.source,
        latency_cycles_by_batch=None
        if row.is_bound
        else tuple(row.simulation.batch_cycles.tolist()),
        memory_utilisation_by_memory=row.ddr_utilisation,
        memory_gb_per_video_by_memory={
            name: nbytes / GB / row.videos for name, nbytes in row.dram_bytes.items()
        },
        energy_parts_per_video_j={
            part.component: StoredEnergyPart(
                **{end: getattr(part, f"{end}_j") for end in ("value", "low", "high")},
                idle=part.idle,
                constant=part.constant,
            )
            for part in row.energy_parts_per_video.parts
        },
        breakdown_s=row.seconds_by_category,
        **{  # type: ignore[arg-type]
            name: value
            for name, value in figures(row, report).items()
            if name not in RESOURCES or name in report.fit.counts  # none of other technologies
        },
    )
