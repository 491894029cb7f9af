"""The rows that FastCar publishes, and what a naive rival makes of them.

Rows: tables 1 and 2 of FastCar (arXiv 2505.14709, ICLR 2026), VILA-U-7B-256 on an Alveo U280.

The naive rival is linear skipping: the dense latency less the replayed share of the MLP's work, and
for sparse attention less that of the keys and values that are no longer read. Work is counted in
multiply-accumulates.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

import numpy as np

from carsim.design import Body, DenseAttention, StreamingAttention
from carsim.validate.paper_machine import PAPER_VIDEO, RatioOf

DENSE = "dense"
"""Name of the row of dense decoding."""


@dataclass(frozen=True, slots=True)
class PaperRow:
    """One published row.

    Attributes:
        name: Short name.
        method: What was run.
        replay_ratio: Published replay ratio.
        attention: What queries attend to.
        latency_s: Published latency of a video.
        source: Where it stands.
    """

    name: str
    method: str
    replay_ratio: float
    attention: DenseAttention | StreamingAttention
    latency_s: float
    source: str


def paper_rows() -> tuple[PaperRow, ...]:
    """All rows, in the order of publication."""
    text = (files("carsim.validate") / "data" / "fastcar_paper.csv").read_text(encoding="utf-8")
    return tuple(
        PaperRow(
            name=record["row"],
            method=record["method"],
            replay_ratio=float(record["replay_ratio"]),
            attention=(
                StreamingAttention(window=int(record["local_window"]))
                if record["local_window"]
                else DenseAttention()
            ),
            latency_s=float(record["latency_s"]),
            source=record["source"],
        )
        for record in csv.DictReader(text.splitlines())
    )


def null_latency_s(
    row: PaperRow, rows: Sequence[PaperRow], body: Body, ratio_of: RatioOf = "eligible"
) -> float:
    """What linear skipping predicts for a row from the dense one.

    Args:
        row: The row.
        rows: All rows.
        body: The transformer that is decoded.
        ratio_of: The steps that the published ratio counts.

    >>> from carsim.design import load_design
    >>> rows = paper_rows()
    >>> body = load_design("u280").model.body
    >>> [round(null_latency_s(row, rows, body), 1) for row in (rows[0], rows[4])]
    [689.7, 496.5]
    """
    dense = next(each for each in rows if each.name == DENSE)
    contexts = [PAPER_VIDEO.context(step) for step in range(PAPER_VIDEO.n_steps)]
    per_token = 2 * body.n_layers * body.q_size
    kv = [
        per_token * float(np.mean([each.attention.attended(context) for context in contexts]))
        for each in (dense, row)
    ]
    eligible = 1 if ratio_of == "all" else 1 - 1 / PAPER_VIDEO.n_frames
    replayed = row.replay_ratio * eligible * body.n_layers * body.mlp_weights
    skipped = replayed + kv[0] - kv[1]
    return dense.latency_s * (1 - skipped / (body.weights + kv[0]))
