"""Cut the rows of a trace into the batches that the machine decodes."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from carsim.errors import InputError
from carsim.trace import Decisions


@dataclass(frozen=True, eq=False)
class Batches:
    """Decisions by batch.

    Attributes:
        replay: bool[G, S, L, B].
        videos_per_batch: Finished videos of one batch: guidance pairs, or rows without guidance.
        left_out_rows: Rows of the trace that fill no batch.
        source: Where the decisions come from.
        label: The same, in one phrase.
    """

    replay: NDArray[np.bool_]
    videos_per_batch: int
    left_out_rows: int
    source: str
    label: str


def make_batches(decisions: Decisions, batch: int) -> Batches:
    """Group rows in their order, guidance pairs kept whole and side by side.

    Where there are pairs, rows outside of them are left out: they are no videos of the same kind.

    Args:
        decisions: Decisions of all rows of a trace.
        batch: B, sequences in lockstep.

    Raises:
        InputError: Fewer rows than ``batch``, or a batch that would split a pair.
    """
    paired = [row for pair in decisions.pairs for row in pair]
    order = paired or list(range(decisions.n_rows))
    if batch > len(order):
        kind = "rows in guidance pairs" if len(order) < decisions.n_rows else "rows"
        raise InputError(
            "policy.batch",
            f"{batch} sequences are more than the {len(order)} {kind} of the trace",
            "take a smaller batch, or pass --resample to draw further rows from the trace",
        )
    if decisions.pairs and batch % 2:
        raise InputError(
            "policy.batch",
            f"{batch} sequences would split a guidance pair of the trace",
            "take an even batch",
        )
    n_batches = len(order) // batch
    kept = order[: n_batches * batch]
    steps, layers = decisions.replay.shape[:2]
    grouped = decisions.replay[:, :, kept].reshape(steps, layers, n_batches, batch)
    return Batches(
        replay=np.ascontiguousarray(np.moveaxis(grouped, 2, 0)),
        videos_per_batch=batch // 2 if decisions.pairs else batch,
        left_out_rows=decisions.n_rows - len(kept),
        source=decisions.source,
        label=decisions.label,
    )
