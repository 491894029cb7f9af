"""Read back what ``carsim run --out`` left: the summary, checked key by key.

:mod:`carsim.report.summary` writes the document; the models below are its schema, so that what
shows or compares stored runs works on checked values. Keys that a later carsim adds are ignored.
"""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from carsim.design import Design
from carsim.design.load import build_design
from carsim.errors import InputError
from carsim.machine import Report
from carsim.report.summary import SCHEMA_VERSION, summary

SUMMARY = "summary.json"
AGAIN = "run again with --out and --overwrite"

Finite = Annotated[float, Field(allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Maybe = Finite | None
"""Null where there was nothing to divide by."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")


class StoredTrace(_Part):
    """Name and hash of a trace."""

    name: str
    sha256: str


class StoredVideo(_Part):
    """The video that was decoded."""

    frames: int
    tokens_per_frame: int
    steps: int
    prompt_tokens: int


class StoredJoules(_Part):
    """Joules with their interval."""

    value: Finite
    low: Finite
    high: Finite


class StoredEnergyPart(StoredJoules):
    """Joules of one component."""

    idle: bool


class StoredPolicy(_Part):
    """One row of the comparison; see :func:`carsim.report.summary.summary`."""

    policy: str
    attention: dict[str, Any]
    schedule: str
    replays: bool
    is_bound: bool
    is_chosen: bool
    decisions: str
    latency_s: Positive
    s_per_video: Positive
    ms_per_token: Finite
    speedup_over_dense: Finite
    latency_without_head_s: Finite
    replay_ratio_all_steps: Maybe
    replay_ratio_eligible_steps: Maybe
    cores_busy: Finite
    macs_done_over_possible: Finite
    memory_utilisation_of_peak: dict[str, Finite]
    energy_per_video_j: StoredJoules
    energy_above_idle_per_video_j: Finite
    energy_parts_per_video_j: dict[str, StoredEnergyPart]
    average_power_w: Finite
    memory_gb_per_video: dict[str, Finite]
    wasted_gb_per_video: Finite
    breakdown_s: dict[str, Finite]


class StoredLimit(_Part):
    """What limits one kind of phase of the chosen policy."""

    phase: str
    share_of_time: Finite
    limited_by: str
    compute_share: Finite
    memory_share: Finite
    port_share: Finite
    dependency_share: Finite
    flip_gbps: Maybe
    flip_macs_per_cycle: Maybe


class StoredElasticity(_Part):
    """What 10 % more of a resource brings."""

    resource: str
    simulated: str
    latency_change_per_10_percent: Finite


class StoredMemory(_Part):
    """What a memory sustains."""

    name: str
    peak_gbps: Finite
    dram_gbps: Finite
    port_gbps: Finite
    sustained_gbps: Finite
    limited_by: str
    latency_cycles: int


class StoredFit(_Part):
    """One thing that has to fit."""

    what: str
    needed: int
    available: int
    unit: str
    ok: bool
    detail: str


class StoredRun(_Part):
    """A run as its summary has it."""

    schema_version: Literal[1]
    carsim_version: str
    design: str
    design_sha256: str
    traces: tuple[StoredTrace, ...]
    resampling_seed: int
    fidelity: str
    fits: bool
    misfits: tuple[str, ...]
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
    policies: tuple[StoredPolicy, ...] = Field(min_length=1)
    limits: tuple[StoredLimit, ...]
    elasticities: tuple[StoredElasticity, ...]
    memories: tuple[StoredMemory, ...]
    fit: tuple[StoredFit, ...]
    resolved_design: dict[str, Any]

    @property
    def own(self) -> StoredPolicy:
        """The design's own policy."""
        return next(policy for policy in self.policies if policy.is_chosen)

    @property
    def dense(self) -> StoredPolicy:
        """What speed-ups are relative to."""
        return self.policies[0]

    @property
    def bound(self) -> StoredPolicy | None:
        """What no schedule can beat."""
        return next((policy for policy in self.policies if policy.is_bound), None)

    def spec(self) -> Design:
        """The resolved design.

        Raises:
            InputError: It is none that this carsim knows.
        """
        return build_design(self.resolved_design, f"{SUMMARY}: resolved_design")


def stored(report: Report) -> StoredRun:
    """A report as if it had been written and read back."""
    return _checked(json.loads(json.dumps(summary(report), allow_nan=False)), "summary(report)")


def read_run(folder: str | Path) -> StoredRun:
    """The run that a folder holds.

    Raises:
        InputError: No folder of a run, or one that is broken; one line.
    """
    path = Path(folder) / SUMMARY
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(
            str(folder), f"holds no {SUMMARY} of a run", "make one with carsim run --out DIR"
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "no UTF-8"
        raise InputError(str(path), f"cannot be read ({reason})", AGAIN) from None
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise InputError(str(path), "is truncated or no JSON", AGAIN) from None
    return _checked(document, str(path))


def _checked(document: Any, place: str) -> StoredRun:
    if not isinstance(document, dict) or "schema_version" not in document:
        raise InputError(place, "is no summary of a run", "name a folder of carsim run --out DIR")
    version = document["schema_version"]
    if version != SCHEMA_VERSION:
        raise InputError(
            place,
            f"is of version {version!r:.40}; this carsim reads {SCHEMA_VERSION}",
            "run again with this carsim, or read it with the one that wrote it",
        )
    try:
        # Through JSON text, whose lists strict models take for tuples.
        run = StoredRun.model_validate_json(json.dumps(document))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        where = where if where.isprintable() else repr(where)
        raise InputError(f"{place}: $.{where}", first["msg"].lower(), AGAIN) from None
    if sum(policy.is_chosen for policy in run.policies) != 1:
        raise InputError(f"{place}: $.policies", "not exactly one is_chosen", AGAIN)
    return run
