"""Utilisation over time: how busy cores and memories are while a batch is decoded."""

import math
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from carsim.base.digests import problems
from carsim.base.errors import InputError
from carsim.base.files import admit
from carsim.report.figures import style
from carsim.report.figures.plot import DASHES, Panel, Plot, Series

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

MEMORY_COLOURS = (style.GREEN, style.PURPLE, style.SKY)
"""Colours of memories, in order."""


def utilisation_frame(report: "Report", usage: "Usage") -> "pd.DataFrame":
    """Means over runs of consecutive steps of the first batch, a row each.

    :data:`carsim.metrics.columns.COLUMNS` has the meaning of the columns.

    Args:
        report: The report.
        usage: Utilisation by step of its chosen row.
    """
    import pandas as pd

    plan = report.chosen.simulation.plan
    steps_per_run = math.ceil(plan.n_steps / MAX_BINS)  # the last run can have fewer
    first_steps = np.arange(0, plan.n_steps, steps_per_run)
    steps_per_frame = plan.video.tokens_per_frame // plan.tokens_per_step
    first_steps_of_frames = first_steps - first_steps % steps_per_frame
    cycles = usage.cycles.astype(np.float64)
    # Step s begins at time_s[s]; the last element is the end of the last step.
    time_s = np.concatenate([[0.0], np.cumsum(cycles)]) / (usage.clock_mhz * 1e6)

    def mean(shares: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Weighted means over runs of steps, of a share by step."""
        sums = np.add.reduceat(shares * weights, first_steps)
        return sums / np.add.reduceat(weights, first_steps)

    columns = {
        "start_s": time_s[first_steps],
        "end_s": time_s[np.append(first_steps[1:], plan.n_steps)],
        "frame_start_s": time_s[first_steps_of_frames],
        "core_busy": mean(usage.core_busy, cycles),
        "replay_ratio": mean(usage.replay_ratio, np.ones_like(cycles)),
    }
    for name, shares in usage.memory_utilisation.items():
        columns[f"{name}{OF_PEAK}"] = mean(shares, cycles)
    return pd.DataFrame(columns, index=pd.RangeIndex(len(first_steps), name="run"))


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
        is_unchanged = not problems(folder, UTILISATION).get(UTILISATION)
        is_complete = len(frame) > 0 and set(NEEDED) <= set(frame)
        if is_unchanged and is_complete and np.isfinite(frame).all(axis=None):
            return frame
    except (OSError, ValueError):
        pass  # pandas cannot read it: the file is broken, too
    raise InputError(str(path), "is truncated or broken", "run again with `out` and `overwrite`")


def utilisation_plot(run: "StoredRun", numbers: "pd.DataFrame") -> Plot:
    """Utilisation above, the replay ratio that drives it below.

    Vertical lines are frames, or forwards where all tokens of a sample pass together.
    """
    series = [_steps(numbers, "core_busy", name="cores busy", colour=style.ORANGE)]
    colours = cycle(MEMORY_COLOURS)
    dashes = cycle(DASHES[1:])
    for column in numbers:
        if not str(column).endswith(OF_PEAK):
            continue
        memory = str(column).removesuffix(OF_PEAK)
        steps = _steps(
            numbers,
            str(column),
            name=f"{memory}, of its peak rate",
            colour=next(colours),
        )
        series.append(replace(steps, dash=next(dashes)))
    replayed = _steps(numbers, "replay_ratio", name="replayed", colour=style.BLUE)
    utilisation = Panel("", tuple(series), "utilisation [%]", share=3)
    if run.spec().model.sample is None:
        time_label = "seconds since the end of prefill; vertical lines: frames"
    else:
        time_label = "seconds since the first forward begins; vertical lines: forwards"
    replay = Panel(time_label, (replayed,), "replayed [%]")
    end_s = float(numbers["end_s"].iloc[-1])
    frame_starts_s = np.unique(numbers["frame_start_s"])[1:].tolist()
    panels = [
        replace(panel, x_range=(0.0, end_s), y_range=(0, 102), verticals=frame_starts_s)
        for panel in (utilisation, replay)
    ]
    return Plot(
        f"utilisation over the first batch: {run.design}, {run.own.policy}",
        tuple(panels),
        alt="Utilisation and replay over time",
        shares="x",
        misfit=not run.fits,
    )


def _steps(numbers: "pd.DataFrame", column: str, *, name: str, colour: str) -> Series:
    """A share over time, as percent: steps from the start of each run of decoding steps."""
    edges_s = [*numbers["start_s"].tolist(), float(numbers["end_s"].iloc[-1])]
    percent = (100 * numbers[column]).tolist()
    return Series(name, edges_s, percent, "steps", colour)
