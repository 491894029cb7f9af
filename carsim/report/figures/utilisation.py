"""Utilisation over time: how busy cores and memories are while a batch is decoded."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from carsim.report.figures import style

if TYPE_CHECKING:
    import pandas as pd

    from carsim.machine import Report
    from carsim.machine.timeline import Usage

OF_PEAK = "_of_peak"
"""Ends the names of columns that hold the utilisation of a memory."""

MAX_BINS = 256
"""More points than this are not told apart at the width of the figure."""


@dataclass(frozen=True, eq=False)
class UtilisationNumbers:
    """Means over runs of consecutive steps of the first batch. K such runs.

    Attributes:
        title: What is shown.
        seconds: When each run starts, and when the last ends, float64[K + 1]; prefill comes before.
        frame_seconds: When each frame starts, float64[T].
        core_busy: Share of core cycles in which cores compute, float64[K].
        memory_utilisation: Share of its peak rate at which each memory moves bytes, float64[K].
        replay_ratio: Share of decisions that replay, float64[K].
        misfit: The design does not fit its board.
    """

    title: str
    seconds: NDArray[np.float64]
    frame_seconds: NDArray[np.float64]
    core_busy: NDArray[np.float64]
    memory_utilisation: Mapping[str, NDArray[np.float64]]
    replay_ratio: NDArray[np.float64]
    misfit: bool

    def frame(self) -> "pd.DataFrame":
        """The same as a frame of pandas, a line per run, with the start of the frame it is in."""
        import pandas as pd

        frames = np.searchsorted(self.frame_seconds, self.seconds[:-1], side="right") - 1
        index = pd.RangeIndex(len(self.core_busy), name="run")
        columns = {
            "start_s": self.seconds[:-1],
            "end_s": self.seconds[1:],
            "frame_start_s": self.frame_seconds[frames],
            "core_busy": self.core_busy,
            "replay_ratio": self.replay_ratio,
        }
        memories = {f"{name}{OF_PEAK}": share for name, share in self.memory_utilisation.items()}
        return pd.DataFrame(columns | memories, index=index)


def utilisation_numbers(report: "Report", usage: "Usage") -> UtilisationNumbers:
    """The numbers of the figure.

    Args:
        report: The report.
        usage: Utilisation by step of its chosen row.
    """
    video = report.chosen.simulation.plan.video
    n_steps = video.n_steps
    starts = run_starts(n_steps)
    cycles = usage.cycles.astype(np.float64)
    lengths = np.add.reduceat(cycles, starts)
    ends = np.concatenate([[0.0], np.cumsum(cycles)]) / (usage.clock_mhz * 1e6)
    steps = np.diff(np.append(starts, n_steps))

    def mean(shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Means over time, of shares by step."""
        weighted: NDArray[np.float64] = np.add.reduceat(shares * cycles, starts)
        return weighted / lengths

    return UtilisationNumbers(
        title=f"utilisation over the first batch: {report.design.name}, "
        f"{report.chosen.variant.name}",
        seconds=ends[np.append(starts, n_steps)],
        frame_seconds=ends[: -1 : video.tokens_per_frame],
        core_busy=mean(usage.core_busy),
        memory_utilisation={name: mean(u) for name, u in usage.memory_utilisation.items()},
        replay_ratio=np.add.reduceat(usage.replay_ratio, starts) / steps,
        misfit=not report.fit.fits,
    )


def run_starts(n_steps: int) -> NDArray[np.int_]:
    """First step of each run: at most ``MAX_BINS`` runs, all but the last of the same length."""
    return np.arange(0, n_steps, -(-n_steps // MAX_BINS))


def draw_utilisation(numbers: UtilisationNumbers) -> Figure:
    """Utilisation above, the replay ratio that drives it below; frames as vertical lines."""
    with style.style():
        figure = style.new_figure(10, 4.6, numbers.title, misfit=numbers.misfit)
        busy, replay = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
        colours = cycle([style.GREEN, style.PURPLE, style.SKY])
        busy.stairs(
            100 * numbers.core_busy,
            numbers.seconds,
            baseline=None,
            color=style.ORANGE,
            linewidth=1.4,
            label="cores busy",
        )
        for (name, shares), colour in zip(
            numbers.memory_utilisation.items(), colours, strict=False
        ):
            busy.stairs(
                100 * shares,
                numbers.seconds,
                baseline=None,
                color=colour,
                linewidth=1.4,
                label=f"{name}, of its peak rate",
            )
        busy.set_ylim(0, 102)
        busy.set_ylabel("utilisation [%]")
        replay.stairs(
            100 * numbers.replay_ratio, numbers.seconds, fill=True, color=style.SKY, alpha=0.6
        )
        replay.set_ylim(0, 100)
        replay.set_ylabel("replayed [%]")
        replay.set_xlabel("seconds since the end of prefill; vertical lines: frames")
        for axes in (busy, replay):
            axes.grid(axis="y")
            axes.set_xlim(0, numbers.seconds[-1])
            for seconds in numbers.frame_seconds[1:]:
                axes.axvline(seconds, color=style.GREY, linewidth=0.5, linestyle=":")
        figure.legend(*busy.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure
