"""Numbers of the figures of a stored run, as those of a report."""

import csv
import io
import math
from pathlib import Path

import numpy as np

from carsim.errors import InputError
from carsim.report.figures.breakdown import BreakdownNumbers
from carsim.report.figures.comparison import ComparisonNumbers
from carsim.report.figures.utilisation import OF_PEAK, UtilisationNumbers, run_starts
from carsim.report.stored import AGAIN, SUMMARY, StoredRun
from carsim.workload.ops import CATEGORY_LABELS

UTILISATION = "utilisation.csv"


def comparison_of(run: StoredRun) -> ComparisonNumbers:
    """The numbers of the comparison of policies."""
    design = run.spec()
    return ComparisonNumbers(
        title=f"{run.design} on {design.board.name}, {design.model.name}, "
        f"{run.sequences_per_batch} sequences in lockstep",
        policies=tuple(policy.policy for policy in run.policies),
        seconds_per_video=tuple(policy.seconds_per_video for policy in run.policies),
        speedups=tuple(policy["speedup"] for policy in run.policies),
        energy_j=tuple(
            (
                policy["energy_per_video_j"],
                policy["energy_per_video_low_j"],
                policy["energy_per_video_high_j"],
            )
            for policy in run.policies
        ),
        core_busy=tuple(policy["busy"] for policy in run.policies),
        memory_utilisation=tuple(
            max(policy.memory_utilisation_by_memory.values(), default=0.0)
            for policy in run.policies
        ),
        chosen=run.policies.index(run.own),
        misfit=not run.fits,
    )


def breakdown_of(run: StoredRun) -> BreakdownNumbers:
    """The numbers of where time goes.

    Raises:
        InputError: Time is spent on something that this carsim does not know.
    """
    simulated = [policy for policy in run.policies if not policy.is_bound]
    unknown = {label for policy in simulated for label in policy.breakdown_s}.difference(
        CATEGORY_LABELS
    )
    if unknown:
        raise InputError(
            f"{SUMMARY}: $.policies", f"time goes to {min(unknown)!r}, which is unknown", AGAIN
        )
    return BreakdownNumbers(
        title=f"where the time of a batch goes: {run.design}",
        policies=tuple(policy.policy for policy in simulated),
        seconds=tuple(
            tuple(policy.breakdown_s.get(label, 0.0) for label in CATEGORY_LABELS)
            for policy in simulated
        ),
        chosen=simulated.index(run.own),
        misfit=not run.fits,
    )


def utilisation_of(run: StoredRun, folder: Path) -> UtilisationNumbers | None:
    """The numbers of utilisation over time; None if the folder has none.

    Raises:
        InputError: Its file is broken.
    """
    path = folder / UTILISATION
    if not path.exists():
        return None
    try:
        text = path.read_text(encoding="utf-8")
        lines = list(csv.DictReader(io.StringIO(text, newline=""), strict=True))
        columns = {
            name: np.array([float(line[name]) for line in lines])
            for name in lines[0]
            if name != "run"
        }
        complete = text.endswith("\n") and len(lines) == len(run_starts(run.video.steps))
        sound = complete and all(map(math.isfinite, np.concatenate(list(columns.values()))))
        start, end, frame = (columns[f"{name}_s"] for name in ("start", "end", "frame_start"))
        busy, replay = columns["core_busy"], columns["replay_ratio"]
    except (OSError, ValueError, TypeError, KeyError, IndexError, csv.Error):
        sound = False
    if not sound or (start >= end).any():
        raise InputError(str(path), "is truncated or broken", AGAIN)
    return UtilisationNumbers(
        title=f"utilisation over the first batch: {run.design}, {run.chosen}",
        seconds=np.append(start, end[-1]),
        frame_seconds=np.unique(frame),
        core_busy=busy,
        memory_utilisation={
            name.removesuffix(OF_PEAK): share
            for name, share in columns.items()
            if name.endswith(OF_PEAK)
        },
        replay_ratio=replay,
        misfit=not run.fits,
    )
