"""The columns of a result: what each is called, which way is better, and what it means."""

from collections import Counter
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, NamedTuple

from carsim.design import Design
from carsim.design.problems import closest
from carsim.errors import InputError
from carsim.machine.limits import phase_limits
from carsim.machine.result import RowResult
from carsim.machine.simulate import LAYER_PHASES
from carsim.technology.fit import FitReport
from carsim.units import GB
from carsim.yaml_file import shown

# ---- Stands in for ``from carsim.metrics import METRICS, OLD_NAMES, Baseline, Setting, figures``.

PHASES = ("prefill", *LAYER_PHASES, "head")
"""What a latency is made of."""


class Metric(NamedTuple):
    """A column of a result.

    Attributes:
        better: ``lower``, ``higher``, or None where neither is.
        meaning: What it is, with its unit.
    """

    better: Literal["lower", "higher"] | None
    meaning: str


METRICS: dict[str, Metric] = {
    "latency_s": Metric("lower", "seconds from the prompt to the last token of a batch"),
    "seconds_per_video": Metric("lower", "latency over the videos that the batch finishes"),
    **{f"{phase}_s": Metric("lower", f"seconds of latency_s in {phase}") for phase in PHASES},
    "ms_per_token": Metric("lower", "milliseconds of a step of the batch, prefill left out"),
    "body_latency_s": Metric("lower", "latency without the head"),
    "bound_latency_s": Metric("lower", "latency that no schedule can beat on these decisions"),
    "dense_latency_s": Metric(None, "latency of dense decoding under static on the same machine"),
    "speedup": Metric("higher", "dense_latency_s over latency_s"),
    "energy_per_video_j": Metric("lower", "joules of the board per finished video"),
    "energy_per_video_low_j": Metric("lower", "the same, if all constants err low"),
    "energy_per_video_high_j": Metric("lower", "the same, if all constants err high"),
    "average_power_w": Metric("lower", "watts of the board"),
    "busy": Metric("higher", "share of core cycles in which cores compute"),
    "mac_utilisation": Metric("higher", "MACs done over MACs possible"),
    "memory_gb_per_video": Metric("lower", "GB moved per finished video, all memories"),
    "memory_utilisation": Metric("higher", "bytes moved over the peak, of the busiest memory"),
    "replay_all": Metric("higher", "replayed decisions over all"),
    "replay_eligible": Metric("higher", "replayed decisions over those after the first frame"),
    "limit": Metric(None, "what limits the phases that take most of the time"),
    **{f"limit_{phase}": Metric(None, f"what limits {phase}") for phase in LAYER_PHASES},
    "batches": Metric(None, "batches decoded one after the other; times are means over them"),
    "videos_per_batch": Metric(None, "videos that a batch finishes"),
    "decisions": Metric(None, "where the decisions come from"),
    "dsp": Metric("lower", "DSP slices"),
    "bram36": Metric("lower", "block RAMs of 36 kbit"),
    "uram": Metric("lower", "UltraRAMs"),
    "lut": Metric("lower", "LUTs"),
    "memory_used_gb": Metric("lower", "GB that all external memories hold"),
    "macs_per_cycle": Metric("lower", "multiply-accumulates per cycle of all cores"),
    "fits": Metric(None, "the design fits its board"),
    "fill": Metric("lower", "needed over available, of what is scarcest; above 1 does not fit"),
    "quality_loss": Metric("lower", "nats per token lost against dense decoding, teacher-forced"),
    "quality_nats": Metric("lower", "nats per token, teacher-forced"),
    "quality_dense_nats": Metric(None, "the same of dense decoding"),
    "quality_psnr_db": Metric("higher", "PSNR against dense decoding"),
    "quality_ssim": Metric("higher", "SSIM against dense decoding"),
    "quality_token_agreement": Metric("higher", "share of tokens that dense decoding draws, too"),
    "quality_replay_eligible": Metric("higher", "eligible replay ratio where quality was measured"),
    "quality_note": Metric(None, "why quality is missing"),
}
"""Column -> what it is. Points that were not simulated have resources at most."""

OLD_NAMES: dict[str, str] = {}
"""Name in older stores -> name today."""


@dataclass(frozen=True)
class Baseline:
    """Latency of dense decoding."""

    latency_s: float


@dataclass(frozen=True)
class Setting:
    """What some figures need beside their row."""

    design: Design
    fit: FitReport
    baseline: Baseline | None = None


def figures(own: RowResult | None, run: Setting) -> dict[str, Any]:
    """All figures of a row, or of a design that was not simulated."""
    fit = run.fit
    size = {
        "fits": fit.fits,
        "fill": max(row.needed / max(row.available, 1) for row in fit.rows),
        **{name: value for name, value in asdict(fit.resources).items() if name in METRICS},
        "memory_used_gb": sum(use.used_bytes for use in fit.memories) / GB,
        "macs_per_cycle": run.design.machine.macs_per_cycle,
    }
    if own is None:
        return size
    joules, limits = own.energy_per_video, {p.phase: p for p in phase_limits(own.simulation)}
    time_of: Counter[str] = Counter()
    for each in limits.values():
        time_of[each.limit] += each.cycles
    seconds = own.seconds_by_phase
    dense = run.baseline and {
        "dense_latency_s": run.baseline.latency_s,
        "speedup": run.baseline.latency_s / own.latency_s,
    }
    return {
        **size,
        "latency_s": own.latency_s,
        **{f"{phase}_s": seconds.get(phase, 0.0) for phase in PHASES},
        "seconds_per_video": own.seconds_per_video,
        "ms_per_token": own.ms_per_token,
        "body_latency_s": own.body_latency_s,
        "bound_latency_s": replace(own, is_bound=True).latency_s,
        "energy_per_video_j": joules.value_j,
        "energy_per_video_low_j": joules.low_j,
        "energy_per_video_high_j": joules.high_j,
        "average_power_w": own.average_power_w,
        "busy": own.busy,
        "mac_utilisation": own.mac_utilisation,
        "memory_gb_per_video": own.dram_gb_per_video,
        "memory_utilisation": max(own.ddr_utilisation.values()),
        "replay_all": own.replay_all,
        "replay_eligible": own.replay_eligible,
        "limit": time_of.most_common(1)[0][0],
        **{f"limit_{phase}": limits[phase].limit for phase in LAYER_PHASES if phase in limits},
        "batches": own.n_batches,
        "videos_per_batch": own.batches.videos_per_batch,
        "decisions": own.batches.label,
        **(dense or {}),
    }


# ---- End of what stands in.

Status = Literal["ok", "misfit", "invalid", "failed"]
"""``misfit``: does not fit its board; ``invalid``: refused, and why; ``failed``: could not be
evaluated, since its process died, twice. Only ``ok`` is an answer."""

RESULT_COLUMNS = ("status", "reason", "seconds", *METRICS)
"""Columns of a frame of results beside ``point`` and the axes."""


def check_metric(name: str, place: str) -> None:
    """Refuse what is no column of a result.

    Raises:
        InputError: Unknown.
    """
    if name not in METRICS:
        cure = f"{closest(name, METRICS)}known are {', '.join(METRICS)}"
        raise InputError(place, f"no metric {shown(name)}", cure)


def direction_of(name: str) -> Literal["min", "max"]:
    """Which way of a metric is better.

    Raises:
        InputError: Neither is, or it is unknown.
    """
    check_metric(name, "objective")
    better = METRICS[name].better
    if better is None:
        problem = "is neither better large nor small"
        raise InputError(f"objective {name}", problem, "say which: NAME: min or max")
    return "min" if better == "lower" else "max"
