"""Utilisation over time: how busy cores and memories are while a batch is decoded."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from carsim.base.digests import problems
from carsim.base.errors import InputError
from carsim.report.figures import style
from carsim.report.figures.plot import Dash, Panel, Plot, Series

if TYPE_CHECKING:
    import pandas as pd

    from carsim.report.stored import StoredRun
    from carsim.runs.report import Report
    from carsim.runs.timeline import Usage

UTILISATION = "utilisation.csv"

OF_PEAK = "_of_peak"
"""Ends the names of columns that hold the utilisation of a memory."""

MAX_BINS = 256
"""More points than this are not told apart at the width of the figure."""


@dataclass(frozen=True, eq=False)
class UtilisationNumbers:
    """Means over runs of consecutive steps of the first batch. K such runs.

    Attributes:
        seconds: When each run starts, and when the last ends, float64[K + 1]; prefill comes before.
        frame_seconds: When each frame starts, float64[T].
        core_busy: Share of core cycles in which cores compute, float64[K].
        memory_utilisation: Share of its peak rate at which each memory moves bytes, float64[K].
        replay_ratio: Share of decisions that replay, float64[K].
    """

    seconds: NDArray[np.float64]
    frame_seconds: NDArray[np.float64]
    core_busy: NDArray[np.float64]
    memory_utilisation: Mapping[str, NDArray[np.float64]]
    replay_ratio: NDArray[np.float64]

    def frame(self) -> "pd.DataFrame":
        """The same as a frame of pandas, a line per run, with the start of the frame it is in."""
        import pandas as pd

        frames = np.searchsorted(self.frame_seconds, self.seconds[:-1], side="right") - 1
        columns = {
            "start_s": self.seconds[:-1],
            "end_s": self.seconds[1:],
            "frame_start_s": self.frame_seconds[frames],
            "core_busy": self.core_busy,
            "replay_ratio": self.replay_ratio,
        }
        memories = {f"{name}{OF_PEAK}": share for name, share in self.memory_utilisation.items()}
        index = pd.RangeIndex(len(self.core_busy), name="run")
        return pd.DataFrame(columns | memories, index=index)


def utilisation_numbers(report: "Report", usage: "Usage") -> UtilisationNumbers:
    """The numbers of the figure.

    Args:
        report: The report.
        usage: Utilisation by step of its chosen row.
    """
    plan = report.chosen.simulation.plan
    starts = run_starts(plan.n_steps)
    cycles = usage.cycles.astype(np.float64)
    ends = np.concatenate([[0.0], np.cumsum(cycles)]) / (usage.clock_mhz * 1e6)

    def mean(shares: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Weighted means over runs, of a share by step."""
        found: NDArray[np.float64] = np.add.reduceat(shares * weights, starts)
        return found / np.add.reduceat(weights, starts)

    return UtilisationNumbers(
        seconds=ends[np.append(starts, plan.n_steps)],
        frame_seconds=ends[: -1 : plan.video.tokens_per_frame // plan.tokens_per_step],
        core_busy=mean(usage.core_busy, cycles),
        memory_utilisation={
            name: mean(shares, cycles) for name, shares in usage.memory_utilisation.items()
        },
        replay_ratio=mean(usage.replay_ratio, np.ones_like(cycles)),
    )


def run_starts(n_steps: int) -> NDArray[np.int_]:
    """First step of each run: at most ``MAX_BINS`` runs, all but the last of the same length."""
    return np.arange(0, n_steps, -(-n_steps // MAX_BINS))


def read_utilisation(run: "StoredRun", folder: Path) -> UtilisationNumbers | None:
    """The numbers that a run left in its folder; None if it left none.

    Raises:
        InputError: Their file is broken.
    """
    import pandas as pd

    path = folder / UTILISATION
    if not path.exists():
        return None
    try:
        frame = pd.read_csv(path, index_col="run", dtype="float64")
        is_whole = len(frame) == len(run_starts(run.video.steps))
        is_whole &= not problems(folder, UTILISATION).get(UTILISATION)
        is_whole &= path.read_bytes().endswith(b"\n") and bool(np.isfinite(frame).all(axis=None))
        start, end = frame["start_s"].to_numpy(), frame["end_s"].to_numpy()
        if is_whole and (start < end).all():
            return UtilisationNumbers(
                seconds=np.append(start, end[-1]),
                frame_seconds=np.unique(frame["frame_start_s"]),
                core_busy=frame["core_busy"].to_numpy(),
                memory_utilisation={
                    str(name).removesuffix(OF_PEAK): shares.to_numpy()
                    for name, shares in frame.items()
                    if str(name).endswith(OF_PEAK)
                },
                replay_ratio=frame["replay_ratio"].to_numpy(),
            )
    except (OSError, ValueError, TypeError, KeyError):
        pass
    raise InputError(str(path), "is truncated or broken", "run again with `out` and `overwrite`")


def utilisation_plot(run: "StoredRun", numbers: UtilisationNumbers) -> Plot:
    """Utilisation above, the replay ratio that drives it below; frames as vertical lines."""
    seconds = numbers.seconds.tolist()
    looks: tuple[tuple[str, Dash], ...] = (
        (style.GREEN, "dash"),
        (style.PURPLE, "dot"),
        (style.SKY, "solid"),
    )

    def steps(name: str, shares: NDArray[np.float64], colour: str, dash: Dash) -> Series:
        return Series(name, seconds, (100 * shares).tolist(), "steps", colour, dash=dash)

    busy = [steps("cores busy", numbers.core_busy, style.ORANGE, "solid")]
    busy += [
        steps(f"{name}, of its peak rate", shares, *look)
        for (name, shares), look in zip(
            numbers.memory_utilisation.items(), cycle(looks), strict=False
        )
    ]
    replayed = steps("replayed", numbers.replay_ratio, style.BLUE, "solid")
    x_label = "seconds since the end of prefill; vertical lines: frames"
    ends, frames = (0.0, seconds[-1]), numbers.frame_seconds[1:].tolist()
    return Plot(
        f"utilisation over the first batch: {run.design}, {run.own.policy}",
        (
            Panel(
                "",
                tuple(busy),
                "utilisation [%]",
                x_range=ends,
                y_range=(0, 102),
                verticals=frames,
                share=3,
            ),
            Panel(
                x_label,
                (replayed,),
                "replayed [%]",
                x_range=ends,
                y_range=(0, 102),
                verticals=frames,
            ),
        ),
        alt="Utilisation and replay over time",
        shares="x",
        misfit=not run.fits,
    )
