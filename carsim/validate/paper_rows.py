"""FastCar's published latencies and two simple rivals: a fitted line, and linear skipping.

The *line* is one latency of rows that never replay, and start and slope of a line over the replay
ratio: three numbers, fitted to all rows. *Linear skipping* is the dense latency less the share of
the work that is skipped: one number. Both subtract the keys and values that sparse attention does
not read. Work is counted in multiply-accumulates.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import fsum
from typing import Literal, get_args

import numpy as np

from carsim.base.yaml_file import parse_yaml
from carsim.decisions.attention import AttentionPolicy
from carsim.design import Design, load_design, override
from carsim.validate.peers import data_rows
from carsim.workload.body import Body
from carsim.workload.geometry import Video

PAPER_VIDEO = Video(n_frames=8, tokens_per_frame=256, prompt_tokens=62)
"""FastCar section 6: 8 frames of 256 tokens. VILA-U's prompts have 50 to 65 tokens."""

RatioOf = Literal["eligible", "all"]
RATIOS: tuple[RatioOf, ...] = get_args(RatioOf)
"""The steps that a replay ratio counts: those after the first frame, or all."""

DESIGN = "u280_fastcar"
"""Name of the design that holds the fitted numbers."""

DENSE = "dense"
"""Name of the row of dense decoding."""

LINE, SKIPPING = "a fitted line", "linear skipping"


@dataclass(frozen=True, slots=True)
class PaperRow:
    """One published row.

    Attributes:
        name: Short name.
        replay_ratio: Published replay ratio.
        attention: Attention policy.
        latency_s: Published latency of a video.
        efficiency: Published energy efficiency; its unit is not stated, only ratios are used.
        source: Where it stands.
    """

    name: str
    replay_ratio: float
    attention: AttentionPolicy
    latency_s: float
    efficiency: float
    source: str


def paper_rows(base: Design | None = None) -> tuple[PaperRow, ...]:
    """All rows, in the order of publication.

    Args:
        base: A design, which checks what the rows say of attention.
    """
    base = base or load_design(DESIGN)
    found = []
    for row in data_rows("fastcar_paper.csv"):
        kind = {"policy.attention": parse_yaml(row["attention"], "fastcar_paper.csv")}
        attention = override(base, kind).policy.attention
        latency_s, efficiency = float(row["latency_s"]), float(row["efficiency"])
        measured = (attention, latency_s, efficiency, row["source"])
        found.append(PaperRow(row["row"], float(row["replay_ratio"]), *measured))
    return tuple(found)


def _kv_macs(row: PaperRow, body: Body) -> float:
    """Multiply-accumulates with keys and values of a token, mean over a video."""
    contexts = np.array([PAPER_VIDEO.context(step) for step in range(PAPER_VIDEO.n_steps)])
    return 2 * body.n_layers * body.q_size * float(row.attention.reads(contexts).tokens.mean())


def unread_share(row: PaperRow, rows: Sequence[PaperRow], body: Body) -> float:
    """Share of the dense work that sparse attention saves."""
    full = _kv_macs(dense_row(rows), body)
    return (full - _kv_macs(row, body)) / (body.weights + full)


def replayed_share(
    ratio: float, rows: Sequence[PaperRow], body: Body, ratio_of: RatioOf = "eligible"
) -> float:
    """Share of the dense work that replay saves at a published ratio."""
    eligible = 1 if ratio_of == "all" else 1 - 1 / PAPER_VIDEO.n_frames
    replayed = ratio * eligible * body.mlp_weights
    return replayed / (body.weights + _kv_macs(dense_row(rows), body))


def skipping_s(
    row: PaperRow, rows: Sequence[PaperRow], body: Body, ratio_of: RatioOf = "eligible"
) -> float:
    """Latency that linear skipping predicts for a row from the dense one.

    >>> rows, body = paper_rows(), load_design("u280").model.body
    >>> [round(skipping_s(row, rows, body), 1) for row in (rows[0], rows[4])]
    [689.7, 496.5]
    """
    skipped = replayed_share(row.replay_ratio, rows, body, ratio_of)
    return dense_row(rows).latency_s * (1 - skipped - unread_share(row, rows, body))


def line_s(rows: Sequence[PaperRow], body: Body) -> list[float]:
    """Latency that the fitted line predicts for each row.

    Least mean relative error. Such a fit passes through as many rows as it has numbers, so all
    rows, and all pairs of replaying rows, are tried.
    """
    unread_s = {row.name: dense_row(rows).latency_s * unread_share(row, rows, body) for row in rows}
    plain = [row for row in rows if not row.replay_ratio]
    replaying = [row for row in rows if row.replay_ratio]

    def latency_s(row: PaperRow, start: float, slope: float) -> float:
        return start + slope * row.replay_ratio - unread_s[row.name]

    def error(chosen: Sequence[PaperRow], start: float, slope: float) -> float:
        return fsum(abs(latency_s(row, start, slope) / row.latency_s - 1) for row in chosen)

    levels = [(row.latency_s + unread_s[row.name], 0.0) for row in plain]
    lines = []
    for one, other in combinations(replaying, 2):
        if one.replay_ratio != other.replay_ratio:
            heights = [each.latency_s + unread_s[each.name] for each in (one, other)]
            slope = (heights[1] - heights[0]) / (other.replay_ratio - one.replay_ratio)
            lines.append((heights[0] - slope * one.replay_ratio, slope))
    level = min(levels, key=lambda numbers: error(plain, *numbers))
    line = min(lines, key=lambda numbers: error(replaying, *numbers))
    return [latency_s(row, *(line if row.replay_ratio else level)) for row in rows]


def dense_row(rows: Sequence[PaperRow]) -> PaperRow:
    """The row of dense decoding."""
    return next(row for row in rows if row.name == DENSE)
