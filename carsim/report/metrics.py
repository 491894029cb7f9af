"""The figures of a policy: one table of them, for pages, comparisons and frames."""

from collections.abc import Callable
from dataclasses import dataclass

from carsim.report.stored import StoredPolicy
from carsim.text import number, percent


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure of a policy.

    Attributes:
        key: Its name in frames and JSON, with its unit.
        label: Its name for people.
        of: Takes it from a policy; None where there was nothing to divide by.
        show: Writes it.
    """

    key: str
    label: str
    of: Callable[[StoredPolicy], float | None]
    show: Callable[[float], str] = number

    def text(self, policy: StoredPolicy) -> str:
        """The figure of a policy as people read it."""
        value = self.of(policy)
        return "-" if value is None else self.show(value)


METRICS = (
    Metric("latency_s", "latency of a batch [s]", lambda policy: policy.latency_s),
    Metric("s_per_video", "time per video [s]", lambda policy: policy.s_per_video),
    Metric("ms_per_token", "per token step [ms]", lambda policy: policy.ms_per_token),
    Metric(
        "latency_without_head_s",
        "batch without the head [s]",
        lambda policy: policy.latency_without_head_s,
    ),
    Metric(
        "speedup_over_dense",
        "speed-up over dense",
        lambda policy: policy.speedup_over_dense,
        lambda value: f"{value:.3f}",
    ),
    Metric(
        "replay_ratio_eligible_steps",
        "replay ratio, eligible",
        lambda policy: policy.replay_ratio_eligible_steps,
        percent,
    ),
    Metric(
        "replay_ratio_all_steps",
        "replay ratio, all steps",
        lambda policy: policy.replay_ratio_all_steps,
        percent,
    ),
    Metric("cores_busy", "cores busy", lambda policy: policy.cores_busy, percent),
    Metric(
        "macs_done_over_possible",
        "MACs done / possible",
        lambda policy: policy.macs_done_over_possible,
        percent,
    ),
    Metric(
        "memory_utilisation_of_peak",
        "fullest memory, of its peak",
        lambda policy: max(policy.memory_utilisation_of_peak.values(), default=None),
        percent,
    ),
    Metric("energy_per_video_j", "energy per video [J]", lambda row: row.energy_per_video_j.value),
    Metric(
        "energy_above_idle_per_video_j",
        "of it above idle [J]",
        lambda policy: policy.energy_above_idle_per_video_j,
    ),
    Metric("average_power_w", "average power [W]", lambda policy: policy.average_power_w),
    Metric(
        "memory_gb_per_video",
        "memory traffic per video [GB]",
        lambda policy: sum(policy.memory_gb_per_video.values()),
    ),
    Metric(
        "wasted_gb_per_video",
        "of it fetched in vain [GB]",
        lambda policy: policy.wasted_gb_per_video,
    ),
)

BY_KEY = {metric.key: metric for metric in METRICS}
