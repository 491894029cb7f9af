"""Predictors of the speed-up by replay that need no simulator; dense rows are all they see.

* *linear skipping*: the share of a layer's products that is skipped, 1 / (1 - ratio x share).
* *bytes over bandwidth*: weights that are read; a worker skips those of an MLP where none of its
  rows computes it.
* *roofline*: each block takes the longer time of its bytes and its products; bandwidth and products
  a second are fitted to the dense steps.
* *a + b m*: each block takes a constant and a time per row, both fitted to the dense blocks.
* *table*: the dense time of each block at this number of rows. A worker that computes alone takes
  times of one worker, if these were measured.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from carsim.measure.settings import Schedule, computing_rows

Bools = NDArray[np.bool_]

ROOFLINE_POINTS = 400
"""Ratios of products a second to bandwidth that the roofline's fit tries."""


@dataclass(frozen=True)
class DenseEvidence:
    """Dense rows of one decoder on one machine with one number of workers.

    Attributes:
        workers: Worker processes.
        attention_weights: Weights of the attention block of a layer.
        mlp_weights: Weights of the MLP of a layer.
        n_layers: Layers.
        step_us: Microseconds of a dense step by batch.
        blocks: Microseconds of a block in one layer by rows of a worker, for each block
            (``attention``, ``mlp``) and number of workers.
    """

    workers: int
    attention_weights: int
    mlp_weights: int
    n_layers: int
    step_us: Mapping[int, float]
    blocks: Mapping[tuple[str, int], Mapping[int, float]]

    def block_us(self, block: str, rows: int, active: int) -> float:
        """Dense time of a block, interpolated between measured numbers of rows; 0 without rows.

        Args:
            block: ``attention`` or ``mlp``.
            rows: Rows of the fullest worker.
            active: Workers that compute.
        """
        if rows == 0:
            return 0.0
        alone = self.blocks.get((block, 1), {})
        table = alone if active == 1 and rows in alone else self.blocks[block, self.workers]
        return float(np.interp(rows, list(table), list(table.values())))


@dataclass(frozen=True, eq=False)
class Replay:
    """Decisions of a replay, and who computes.

    Attributes:
        decisions: bool[S, L, B].
        schedule: Assignment of rows to workers.
        workers: Worker processes.
    """

    decisions: Bools
    schedule: Schedule
    workers: int

    @property
    def batch(self) -> int:
        """Rows."""
        return self.decisions.shape[2]

    @property
    def counts(self) -> NDArray[np.int64]:
        """Rows that each worker computes, [S, L, workers]."""
        plan = computing_rows(self.decisions, self.workers, self.schedule)
        return np.array([[[len(rows) for rows in layer] for layer in step] for step in plan])


def linear_skipping(dense: DenseEvidence, replay: Replay) -> float:
    """Speed-up if skipped products are saved, and nothing else counts."""
    share = dense.mlp_weights / (dense.attention_weights + dense.mlp_weights)
    return float(1 / (1 - replay.decisions.mean() * share))


def bytes_over_bandwidth(dense: DenseEvidence, replay: Replay) -> float:
    """Speed-up if weights that are read are all that takes time."""
    visits = replay.counts.size
    fetches = int((replay.counts > 0).sum())
    attention = visits * dense.attention_weights
    return (attention + visits * dense.mlp_weights) / (attention + fetches * dense.mlp_weights)


def roofline(dense: DenseEvidence, replay: Replay) -> float:
    """Speed-up if each block takes the longer of bytes and products, fitted to dense steps."""
    ridge = ridge_of(dense)
    share = replay.batch // dense.workers
    fullest = replay.counts.max(axis=-1)
    attention = dense.attention_weights * max(1.0, share / ridge) * fullest.size
    mlps = dense.mlp_weights * np.maximum(1.0, fullest / ridge)
    dense_mlps = dense.mlp_weights * max(1.0, share / ridge) * fullest.size
    return float((attention + dense_mlps) / (attention + mlps[fullest > 0].sum()))


def ridge_of(dense: DenseEvidence) -> float:
    """Rows from which on products take longer than weights, of the best fit to dense steps.

    All weights of a step take max(1, rows / ridge) times the time of their bytes, so that bandwidth
    is a factor, and the ridge is what decides ratios. Errors are relative.
    """
    rows = np.array(list(dense.step_us), float) / dense.workers
    step_us = np.array(list(dense.step_us.values()))
    ridges = np.geomspace(1.0, 2 * rows.max(), ROOFLINE_POINTS)
    errors = []
    for ridge in ridges:
        relative = np.maximum(1.0, rows / ridge) / step_us
        factor = relative.sum() / (relative**2).sum()
        errors.append(((factor * relative - 1) ** 2).sum())
    return float(ridges[int(np.argmin(errors))])


def affine(dense: DenseEvidence, replay: Replay) -> float:
    """Speed-up if each block takes a constant and a time per row, fitted to dense blocks."""
    share = replay.batch // dense.workers
    fullest = replay.counts.max(axis=-1)
    attention = _line(dense.blocks["attention", dense.workers], share) * fullest.size
    table = dense.blocks["mlp", dense.workers]
    of_rows = np.array([0.0] + [_line(table, rows) for rows in range(1, replay.batch + 1)])
    return float((attention + of_rows[share] * fullest.size) / (attention + of_rows[fullest].sum()))


def table_of_blocks(dense: DenseEvidence, replay: Replay) -> float:
    """Speed-up by dense times of blocks at each number of rows."""
    share = replay.batch // dense.workers
    attention = dense.block_us("attention", share, dense.workers)
    dense_mlp = dense.block_us("mlp", share, dense.workers)
    mlps = 0.0
    layer_steps = replay.counts.reshape(-1, replay.workers)
    for counts in layer_steps:
        active = int((counts > 0).sum())
        mlps += dense.block_us("mlp", int(counts.max()), active)
    total = len(layer_steps)
    return total * (attention + dense_mlp) / (total * attention + mlps)


def _line(table: Mapping[int, float], rows: int) -> float:
    """Value at a number of rows of the line that fits a table best, by relative errors."""
    counts: Sequence[int] = list(table)
    micros = np.array(list(table.values()))
    if len(counts) < 2:
        return float(micros[0])
    slope, constant = np.polyfit(counts, micros, 1, w=1 / micros)
    return float(constant + slope * rows)


RIVALS = {
    "linear skipping": linear_skipping,
    "bytes over bandwidth": bytes_over_bandwidth,
    "roofline of dense steps": roofline,
    "a + b m of dense blocks": affine,
    "table of dense blocks": table_of_blocks,
}
"""Predictors by name, from the plainest to the one that takes most dense rows."""

SHORT_NAMES = {
    "linear skipping": "linear",
    "bytes over bandwidth": "bytes",
    "roofline of dense steps": "roofline",
    "a + b m of dense blocks": "a + b m",
    "table of dense blocks": "table",
}
"""Names of predictors in headings."""
