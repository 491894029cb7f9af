"""FastCar's published latencies, simulated by ``carsim run``, and two simple rivals.

Eight rows (arXiv 2505.14709, tables 1 and 2: VILA-U-7B-256 on an Alveo U280) of a whole video: a
prompt of 62 tokens and 8 frames of 256, without the head, as dense and sparse rows are explained
without it. Decisions are drawn at the published ratios, independently, with a fixed seed.

The *line* is one latency of rows that never replay, and start and slope of a line over the replay
ratio: three numbers, fitted to all rows. *Linear skipping* is the dense latency less the share of
the work that is skipped: one number. Both subtract the keys and values that sparse attention does
not read. Work is counted in multiply-accumulates.

Speed-ups of shipped designs, which were made for other questions, say how far a gain depends on
the machine. Their decisions are drawn in two ways: *correlated* within guidance pairs, as in the
shipped traces ``published_*_correlated``, and *independent*.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from operator import sub, truediv
from typing import Literal

import numpy as np
from pydantic import TypeAdapter

from carsim.account.row import RowResult
from carsim.base.yaml_file import parse_yaml
from carsim.decisions.attention import Attention
from carsim.decisions.trace.drawn import agreement_of
from carsim.decisions.trace.shipped import trace_path
from carsim.design import Design, load_design, override
from carsim.metrics.comparison import Comparison
from carsim.runs.pipeline import run
from carsim.validate.part import Group, Part
from carsim.validate.peers import data_rows
from carsim.workload.body import Body
from carsim.workload.geometry import Video
from carsim.workload.workload import Workload

PAPER_VIDEO = Video(n_frames=8, tokens_per_frame=256, prompt_tokens=62)
"""FastCar section 6: 8 frames of 256 tokens. VILA-U's prompts have 50 to 65 tokens."""

RatioOf = Literal["eligible", "all"]
"""The steps that a replay ratio counts: those after the first frame, or all."""

DESIGN = "u280_fastcar"
"""Name of the design that holds the fitted numbers."""

DENSE = "dense"
"""Name of the row of dense decoding."""

LINE = "a fitted line"

SKIPPING = "linear skipping"

MEAN_BOUND = 0.025
"""Stated bound of the absolute error, mean over all rows."""

WORST_BOUND = 0.065
"""Stated bound of the absolute error of the worst row."""

OPERATIONS_SAVED = 0.45
"""Share of all operations that is saved at a replay ratio of :data:`AT_RATIO` (FastCar section
6)."""

AT_RATIO = 0.80
"""Replay ratio of :data:`OPERATIONS_SAVED`."""

STOCK = ("zcu102", "u280")
"""Shipped designs that decode one guidance pair a batch."""

CHOICES = (
    "Chosen with all eight rows in view: studies/paper/search.py ranks 70,560 machines by their "
    "mean error over the rows, and this is the best whose sequences decide independently. Cores, "
    "batch, attention split by heads, and the ratio counted over eligible steps (the first frame "
    "left out) follow from that choice; the clock is fitted to the dense row. The line has three "
    "numbers, fitted to all eight."
)
CONSISTENT = (
    "Consistency: no row tests the machine. A line with three numbers comes nearer to all eight; "
    "machines that explain the latencies about equally stand in studies/paper. Rival of "
    "efficiency: constant power, with the line's latencies."
)


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
    attention: Attention
    latency_s: float
    efficiency: float
    source: str


@cache
def paper_rows() -> tuple[PaperRow, ...]:
    """All rows, in the order of publication; the first is dense decoding."""
    file = "fastcar_paper.csv"
    adapter = TypeAdapter(PaperRow)
    rows = []
    for row in data_rows(file):
        attention = parse_yaml(row["attention"], file)
        fields = {**row, "name": row["row"], "attention": attention}
        rows.append(adapter.validate_python(fields))
    return tuple(rows)


def _kv_macs(row: PaperRow, body: Body) -> float:
    """Multiply-accumulates with keys and values of a token, mean over a video."""
    contexts = np.array([PAPER_VIDEO.context(step) for step in range(PAPER_VIDEO.n_steps)])
    mean_tokens = float(row.attention.reads(contexts).tokens.mean())
    return 2 * body.n_layers * body.q_size * mean_tokens


def unread_share(row: PaperRow, body: Body) -> float:
    """Share of the dense work that sparse attention saves."""
    full = _kv_macs(paper_rows()[0], body)
    return (full - _kv_macs(row, body)) / (body.weights + full)


def replayed_share(ratio: float, body: Body, ratio_of: RatioOf = "eligible") -> float:
    """Share of the dense work that replay saves at a published ratio."""
    eligible = 1 if ratio_of == "all" else 1 - 1 / PAPER_VIDEO.n_frames
    replayed = ratio * eligible * body.mlp_weights
    return replayed / (body.weights + _kv_macs(paper_rows()[0], body))


def skipping_s(row: PaperRow, body: Body) -> float:
    """Latency that linear skipping predicts for a row from the dense one.

    >>> rows, body = paper_rows(), load_design("u280").model.body
    >>> [round(skipping_s(row, body), 1) for row in (rows[0], rows[4])]
    [689.7, 496.5]
    """
    saved = replayed_share(row.replay_ratio, body) + unread_share(row, body)
    return paper_rows()[0].latency_s * (1 - saved)


def line_s(body: Body) -> list[float]:
    """Latency that the fitted line predicts for each row.

    Least mean relative error. Such a fit passes through as many rows as it has numbers, so all
    levels of rows that never replay, and all lines through pairs of others, are tried.
    """
    rows = paper_rows()
    ratios = np.array([row.replay_ratio for row in rows])
    latencies = np.array([row.latency_s for row in rows])
    unread_s = latencies[0] * np.array([unread_share(row, body) for row in rows])
    fitted = np.empty(len(rows))
    for group in (ratios == 0, ratios > 0):
        # Latencies that the rows would have if they read all keys lie on a line of the ratio.
        x = ratios[group]
        y = (latencies + unread_s)[group]
        unread = unread_s[group]
        lines = []
        for i, j in product(range(len(x)), repeat=2):
            width = (x[j] - x[i]) or 1  # a row with itself gives a level
            lines.append(y[i] + (x - x[i]) * (y[j] - y[i]) / width - unread)
        errors = [np.abs(line / (y - unread) - 1).sum() for line in lines]
        fitted[group] = lines[int(np.argmin(errors))]
    return fitted.tolist()


def independent(ratio: float) -> Workload:
    """The video of the paper, with decisions at a ratio of eligible steps that do not correlate."""
    if not ratio:
        return Workload("video")
    return Workload("video", replay=ratio, pairs=agreement_of(0.0, ratio))


def simulate_row(base: Design, row: PaperRow, schedule: str | None = None) -> RowResult:
    """A published row on a design, as ``carsim run --workload`` simulates it.

    Args:
        base: The design.
        row: The row.
        schedule: Who computes the sequences that do not replay; the design's own if left out.
    """
    changes = {
        "policy.attention": row.attention.model_dump(),
        "policy.schedule": schedule or base.policy.schedule,
        "policy.compare": (),
    }
    work = independent(row.replay_ratio)
    return run(override(base, changes), workload=work, what_if=False).chosen


def validate_paper(progress: Callable[[str], None] = lambda _: None) -> Part:
    """Simulate all rows.

    Args:
        progress: Told what is being done.
    """
    base = load_design(DESIGN)
    rows = paper_rows()
    body = base.model.body
    progress("rows at their ratios of eligible steps")
    simulated = [simulate_row(base, row) for row in rows]
    published_s = [row.latency_s for row in rows]
    ours_s = [result.latency_s for result in simulated]
    of_line_s = line_s(body)
    of_skipping_s = [skipping_s(row, body) for row in rows]
    published_joules = [1 / row.efficiency for row in rows]  # up to a factor
    ours_joules = [result.energy_per_video.value_j for result in simulated]
    latencies = _compared("s", published_s, ours=ours_s, rival=of_line_s)
    skipping = _compared("s", published_s, ours=ours_s, rival=of_skipping_s)
    saved = _over_dense(sub, "s", published_s, ours=ours_s, rival=of_line_s)
    efficiency = _over_dense(truediv, "x", published_joules, ours=ours_joules, rival=of_line_s)
    bounds = {"mean": MEAN_BOUND, "worst": WORST_BOUND}
    groups = (
        Group("latency of a video in s", latencies, LINE, bounds),
        Group("the same rows", skipping, SKIPPING, shown=False),
        Group("time saved over dense in s", saved, LINE, shown=False),
        Group("efficiency over dense", efficiency, "constant power"),
        Group("operations saved", (_operations(body),), "ratio of all steps"),
        stock_speedups(body, progress),
    )
    title = (
        f"FastCar's published rows on a U280: {base.policy.batch} sequences on {base.machine.text} "
        f"at {base.board.fabric_clock_mhz:g} MHz, prompt included, head left out"
    )
    return Part("paper", title, groups, (CHOICES, CONSISTENT))


def _compared(
    unit: str, published: Sequence[float], *, ours: Sequence[float], rival: Sequence[float]
) -> tuple[Comparison, ...]:
    """A comparison for each row, of the published figure, carsim's and a rival's."""
    return tuple(
        Comparison(
            row.name,
            published_of_row,
            ours=ours_of_row,
            rival=rival_of_row,
            bound=None,
            source=row.source,
            unit=unit,
            note="fitted: clock" if row.name == DENSE else "",
        )
        for row, published_of_row, ours_of_row, rival_of_row in zip(
            paper_rows(), published, ours, rival, strict=True
        )
    )


def _over_dense(
    gain: Callable[[float, float], float],
    unit: str,
    published: Sequence[float],
    *,
    ours: Sequence[float],
    rival: Sequence[float],
) -> tuple[Comparison, ...]:
    """Gain of each row over dense; errors of latency look small, as most of it stays.

    Args:
        gain: Gain of a figure of dense decoding over that of a row.
        unit: Unit of a gain.
        published: Published figures, dense decoding first.
        ours: Figures of carsim.
        rival: Figures of the rival.
    """

    def gains(figures: Sequence[float]) -> list[float]:
        return [gain(figures[0], figure) for figure in figures]

    compared = _compared(unit, gains(published), ours=gains(ours), rival=gains(rival))
    return compared[1:]


def _operations(body: Body) -> Comparison:
    """Share of all operations that replay saves, as published and as calculated."""
    return Comparison(
        f"at {AT_RATIO:.0%} replay",
        OPERATIONS_SAVED,
        ours=replayed_share(AT_RATIO, body),
        rival=replayed_share(AT_RATIO, body, "all"),
        bound=None,
        source="FastCar section 6",
        unit="share",
    )


def stock_speedups(body: Body, progress: Callable[[str], None] = lambda _: None) -> Group:
    """Speed-up of shipped designs at the published ratios, with no number fitted to a row."""
    dense, *sparse_rows = paper_rows()
    compared = []
    for row in sparse_rows:
        ratio = row.replay_ratio
        if not ratio or row.attention != dense.attention:
            continue
        trace = trace_path(f"published_{100 * ratio:.0f}_correlated")
        correlated = Workload("trace", traces=(str(trace),))
        works = {"correlated": correlated, "independent": independent(ratio)}
        for design, (kind, work) in product(map(load_design, STOCK), works.items()):
            progress(f"{design.name}, {kind} decisions at {ratio:.0%}")
            report = run(design, workload=work, allow_misfit=True, resample_seed=0, what_if=False)
            compared.append(
                Comparison(
                    f"{design.name}, {ratio:.0%} replay, {kind} decisions",
                    dense.latency_s / row.latency_s,
                    ours=report.baseline.latency_s / report.chosen.latency_s,
                    rival=dense.latency_s / skipping_s(row, body),
                    bound=None,
                    source=row.source,
                    unit="x",
                )
            )
    return Group("speed-up, nothing fitted", tuple(compared), SKIPPING)
