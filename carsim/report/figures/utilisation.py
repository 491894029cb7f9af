"""Utilisation over time: how busy cores and memories are while a batch is decoded."""

from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from carsim.base.digests import problems
from carsim.base.errors import InputError
from carsim.base.files import admit
from carsim.report.figures import style
from carsim.report.figures.plot import DASHES, Dash, Panel, Plot, Series

if TYPE_CHECKING:
    import pandas as pd

    from carsim.report.stored import StoredRun
    from carsim.runs.report import Report
    from carsim.runs.timeline import Usage

UTILISATION = "utilisation.csv"

OF_PEAK = "_of_peak"
"""Ends the names of columns that hold the utilisation of a memory."""

NEEDED = ("start_s", "end_s", "frame_start_s", "core_busy", "replay_ratio")
"""Columns without which there is no figure."""

MAX_BINS = 256
"""More points than this are not told apart at the width of the figure."""


def utilisation_frame(report: "Report", usage: "Usage") -> "pd.DataFrame":
    """Means over runs of consecutive steps of the first batch, a row each.

    :data:`carsim.metrics.columns.COLUMNS` has the meaning of the columns.

    Args:
        report: The report.
        usage: Utilisation by step of its chosen row.
    """
    import pandas as pd

    plan = report.chosen.simulation.plan
    starts = np.arange(0, plan.n_steps, -(-plan.n_steps // MAX_BINS))  # of equal runs, but the last
    cycles = usage.cycles.astype(np.float64)
    ends = np.concatenate([[0.0], np.cumsum(cycles)]) / (usage.clock_mhz * 1e6)
    frames = starts - starts % (plan.video.tokens_per_frame // plan.tokens_per_step)

    def mean(shares: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Weighted means over runs, of a share by step."""
        return np.add.reduceat(shares * weights, starts) / np.add.reduceat(weights, starts)

    columns = {
        "start_s": ends[starts],
        "end_s": ends[np.append(starts[1:], plan.n_steps)],
        "frame_start_s": ends[frames],
        "core_busy": mean(usage.core_busy, cycles),
        "replay_ratio": mean(usage.replay_ratio, np.ones_like(cycles)),
    }
    for name, shares in usage.memory_utilisation.items():
        columns[f"{name}{OF_PEAK}"] = mean(shares, cycles)
    return pd.DataFrame(columns, index=pd.RangeIndex(len(starts), name="run"))


def read_utilisation(folder: Path) -> "pd.DataFrame | None":
    """The frame that a run left in its folder; None if it left none.

    Raises:
        InputError: Its file is broken.
    """
    path = folder / UTILISATION
    if not path.exists():
        return None
    import pandas as pd

    try:
        frame = pd.read_csv(admit(path), index_col="run", dtype="float64")
        is_right = not problems(folder, UTILISATION).get(UTILISATION) and len(frame) > 0
        if is_right and {*NEEDED} <= {*frame} and np.isfinite(frame).all(axis=None):
            return frame
    except (OSError, ValueError):
        pass
    raise InputError(str(path), "is truncated or broken", "run again with `out` and `overwrite`")


def utilisation_plot(run: "StoredRun", numbers: "pd.DataFrame") -> Plot:
    """Utilisation above, the replay ratio that drives it below; frames as vertical lines."""
    seconds = [*numbers["start_s"].tolist(), float(numbers["end_s"].iloc[-1])]
    colours = cycle((style.GREEN, style.PURPLE, style.SKY))

    def steps(name: str, column: str, colour: str, dash: Dash) -> Series:
        return Series(name, seconds, (100 * numbers[column]).tolist(), "steps", colour, dash=dash)

    memories = [str(name) for name in numbers if str(name).endswith(OF_PEAK)]
    busy = [steps("cores busy", "core_busy", style.ORANGE, "solid")]
    busy += [
        steps(f"{name.removesuffix(OF_PEAK)}, of its peak rate", name, colour, dash)
        for name, colour, dash in zip(memories, colours, cycle(DASHES[1:]), strict=False)
    ]
    replayed = steps("replayed", "replay_ratio", style.BLUE, "solid")
    x_label = "seconds since the end of prefill; vertical lines: frames"
    ends, frames = (0.0, seconds[-1]), np.unique(numbers["frame_start_s"])[1:].tolist()
    both: dict[str, Any] = {"x_range": ends, "y_range": (0, 102), "verticals": frames}
    above = Panel("", tuple(busy), "utilisation [%]", share=3, **both)
    return Plot(
        f"utilisation over the first batch: {run.design}, {run.own.policy}",
        (above, Panel(x_label, (replayed,), "replayed [%]", **both)),
        alt="Utilisation and replay over time",
        shares="x",
        misfit=not run.fits,
    )
