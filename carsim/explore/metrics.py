"""The columns of a result: what each is called, which way is better, and what it means."""

from typing import Literal, NamedTuple

from carsim.design.problems import closest
from carsim.errors import InputError
from carsim.machine.simulate import LAYER_PHASES
from carsim.yaml_file import shown

Status = Literal["ok", "misfit", "invalid", "failed"]
"""``misfit``: does not fit its board; ``invalid``: refused, and why; ``failed``: could not be
evaluated (its process died, twice). Only ``ok`` is an answer."""


PHASES = ("prefill", *LAYER_PHASES, "head")
"""What a latency is made of."""


class Metric(NamedTuple):
    """A column of a result.

    Attributes:
        better: ``min``, ``max``, or empty where neither is.
        meaning: What it is, with its unit.
    """

    better: Literal["min", "max", ""]
    meaning: str


METRICS: dict[str, Metric] = {
    "latency_s": Metric("min", "seconds from the prompt to the last token of a batch"),
    "seconds_per_video": Metric("min", "latency over the videos that the batch finishes"),
    **{f"{phase}_s": Metric("min", f"seconds of latency_s in {phase}") for phase in PHASES},
    "ms_per_token": Metric("min", "milliseconds of a step of the batch, prefill left out"),
    "body_latency_s": Metric("min", "latency without the head"),
    "bound_latency_s": Metric("min", "latency that no schedule can beat on these decisions"),
    "dense_latency_s": Metric("", "latency of dense decoding under static on the same machine"),
    "speedup": Metric("max", "dense_latency_s over latency_s"),
    "energy_per_video_j": Metric("min", "joules of the board per finished video"),
    "energy_per_video_low_j": Metric("min", "the same, if all constants err low"),
    "energy_per_video_high_j": Metric("min", "the same, if all constants err high"),
    "average_power_w": Metric("min", "watts of the board"),
    "busy": Metric("max", "share of core cycles in which cores compute"),
    "mac_utilisation": Metric("max", "MACs done over MACs possible"),
    "memory_gb_per_video": Metric("min", "GB moved per finished video, all memories"),
    "wasted_gb_per_video": Metric("min", "GB fetched in vain per finished video"),
    "memory_utilisation": Metric("max", "bytes moved over the peak, of the busiest memory"),
    "replay_all": Metric("max", "replayed decisions over all"),
    "replay_eligible": Metric("max", "replayed decisions over those after the first frame"),
    "limit": Metric("", "what limits the phases that take most of the time"),
    **{f"limit_{phase}": Metric("", f"what limits {phase}") for phase in LAYER_PHASES},
    "batches": Metric("", "batches decoded one after the other; times are means over them"),
    "videos_per_batch": Metric("", "videos that a batch finishes"),
    "decisions": Metric("", "where the decisions come from"),
    "dsp": Metric("min", "DSP slices"),
    "bram36": Metric("min", "block RAMs of 36 kbit"),
    "uram": Metric("min", "UltraRAMs"),
    "lut": Metric("min", "LUTs"),
    "memory_used_gb": Metric("min", "GB that all external memories hold"),
    "macs_per_cycle": Metric("min", "multiply-accumulates per cycle of all cores"),
    "fits": Metric("", "the design fits its board"),
    "fill": Metric("min", "needed over available, of what is scarcest; above 1 does not fit"),
    "quality_loss": Metric("min", "nats per token lost against dense decoding, teacher-forced"),
    "quality_nats": Metric("min", "nats per token, teacher-forced"),
    "quality_dense_nats": Metric("", "the same of dense decoding"),
    "quality_psnr_db": Metric("max", "PSNR against dense decoding"),
    "quality_ssim": Metric("max", "SSIM against dense decoding"),
    "quality_token_agreement": Metric("max", "share of tokens that dense decoding draws, too"),
    "quality_replay_eligible": Metric("max", "eligible replay ratio where quality was measured"),
    "quality_note": Metric("", "why quality is missing"),
}
"""Column -> what it is. Points that were not simulated have resources at most."""

RESULT_COLUMNS = ("status", "reason", "seconds", *METRICS)
"""Columns of a frame of results beside ``point`` and the axes."""


def check_metric(name: str, place: str) -> None:
    """Refuse what is no column of a result.

    Raises:
        InputError: Unknown.
    """
    if name not in METRICS:
        raise InputError(
            place,
            f"no metric {shown(name)}",
            f"{closest(name, METRICS)}known are {', '.join(METRICS)}",
        )


def direction_of(name: str) -> Literal["min", "max"]:
    """Which way of a metric is better.

    Raises:
        InputError: Neither is, or it is unknown.
    """
    check_metric(name, "objective")
    better = METRICS[name].better
    if not better:
        raise InputError(
            f"objective {name}", "is neither better large nor small", "say which: NAME: min or max"
        )
    return better
