"""Compare two traces of one recipe, made on different machines.

Sums round differently on different processors, so that scores differ a little, and a score next to
tau may decide otherwise. From then on the residual streams of those rows differ: later flips are
counted but not judged. Simplification: traces of sampled tokens may also part
ways through a token drawn otherwise, which shows as an unexplained difference.
"""

from dataclasses import dataclass

import numpy as np

from carsim.base.errors import InputError
from carsim.decisions.replay import decision_units
from carsim.decisions.trace.file import Trace


@dataclass(frozen=True)
class TraceComparison:
    """Differences of two traces.

    Attributes:
        identical: The files have the same bytes.
        changed_fields: Metadata fields that differ.
        max_tas_error: Largest difference of scores up to a row's first flip, less the spacing of
            the stored numbers, or the step to whose multiples they were kept.
        flipped: Decisions that differ.
        first_flips: Decision units (rows, or what decides together) that differ somewhere.
        unexplained_flips: First flips whose score is farther from tau than the margin.
        ratio_difference: Replay ratio over eligible steps of the second less that of the first.
        margin: Largest difference of scores that rounding is allowed to make under their rule.
        reads_differ: Layer-steps of a head and row in which attention read another number of keys;
            counted, not judged.
    """

    identical: bool
    changed_fields: tuple[str, ...]
    max_tas_error: float
    flipped: int
    first_flips: int
    unexplained_flips: int
    ratio_difference: float
    margin: float
    reads_differ: int = 0

    @property
    def equivalent(self) -> bool:
        """Rounding explains every difference."""
        return (
            not self.changed_fields
            and self.max_tas_error <= self.margin
            and not self.unexplained_flips
        )


def compare_traces(first: Trace, second: Trace) -> TraceComparison:
    """Compare two traces of the same shape.

    Raises:
        InputError: Their shapes differ.
    """
    if first.replay.shape != second.replay.shape:
        raise InputError(
            f"{first.name} and {second.name}",
            f"shapes {first.replay.shape} and {second.replay.shape} (steps, layers, rows) differ",
            "compare traces of one recipe",
        )
    a, b = first.meta.model_dump(), second.meta.model_dump()
    shape = (-1, first.n_rows)
    flips = (first.replay != second.replay).reshape(shape)  # [S * L, B], in order of time
    tas = [trace.tas.reshape(shape).astype(np.float64) for trace in (first, second)]
    rounding = sum(
        np.spacing(np.abs(np.nan_to_num(trace.tas))).reshape(shape) for trace in (first, second)
    )
    step = max(map(_step, (first, second)))
    error = np.nan_to_num(np.abs(tas[0] - tas[1]) - rounding - step)
    taus = np.array([np.nan if tau is None else tau for tau in first.meta.tau_per_layer])
    tau = np.tile(taus, first.n_steps)[:, None]
    distance = np.fmin(np.abs(tas[0] - tau), np.abs(tas[1] - tau)) - rounding - step
    worst, first_flips, unexplained, margin = 0.0, 0, 0, first.meta.rule.margin
    units = decision_units(first.meta.decision_scope, first.meta.guidance_pairs, first.n_rows)
    for unit in units:
        rows = list(unit)
        flipped = flips[:, rows].any(axis=1)
        last = int(flipped.argmax()) if flipped.any() else len(flips) - 1
        worst = max(worst, float(error[: last + 1, rows].max()))
        if flipped.any():
            first_flips += 1
            unexplained += not (distance[last, rows] <= margin).any()
    eligible = slice(first.tokens_per_frame, None)
    reads_differ = 0
    if first.kv_tokens is not None and second.kv_tokens is not None:
        reads_differ = int((first.kv_tokens != second.kv_tokens).sum())
    return TraceComparison(
        identical=first.sha256 == second.sha256,
        changed_fields=tuple(field for field in a if a[field] != b[field]),
        max_tas_error=worst,
        flipped=int(flips.sum()),
        first_flips=first_flips,
        unexplained_flips=unexplained,
        ratio_difference=float(
            second.replay[eligible].sum(dtype=int) - first.replay[eligible].sum(dtype=int)
        )
        / max(1, first.replay[eligible].size),
        margin=margin,
        reads_differ=reads_differ,
    )


def _step(trace: Trace) -> float:
    """Scores were kept to multiples of this when they were captured; 0 if they were not."""
    step = trace.meta.content.get("tas_step", 0.0)
    return step if isinstance(step, float) else 0.0
