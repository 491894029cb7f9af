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
from dataclasses import dataclass, replace
from itertools import combinations, product
from math import fsum
from operator import sub, truediv
from typing import Any, Literal, get_args

import numpy as np

from carsim.base.yaml_file import parse_yaml
from carsim.cost.fit import check_fit
from carsim.decisions.attention import AttentionPolicy
from carsim.decisions.trace.drawn import agreement_of
from carsim.decisions.trace.shipped import trace_path
from carsim.design import Design, load_design, override
from carsim.machine.row import RowResult
from carsim.metrics import Comparison
from carsim.runs.pipeline import run
from carsim.validate.part import Group, Part
from carsim.validate.peers import data_rows
from carsim.workload.body import Body
from carsim.workload.geometry import Video
from carsim.workload.workload import Workload

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

MEAN_BOUND, WORST_BOUND = 0.025, 0.065
"""Stated bounds of the absolute error: mean over all rows, and worst row."""

OPERATIONS_SAVED, AT_RATIO = 0.45, 0.80
"""FastCar section 6: 45 % of all operations are saved at 80 % replay."""

STOCK = ("zcu102", "u280")
"""Shipped designs that decode one guidance pair a batch."""

CHOICES = (
    "Chosen with all eight rows in view: studies/paper/search.py ranks 70,560 machines by their "
    "mean error over the rows, and this is the best whose sequences decide independently. Cores, "
    "batch, attention split by heads, and the ratio counted over eligible steps (the first frame "
    "left out) follow from that choice; the clock is fitted to the dense row. The line has three "
    "numbers, fitted to all eight."
)
IDENTIFIED = (
    "Identification: if the latencies include the prompt, every machine that explains the rows "
    "within 0.3 points of the best has one sequence more than cores and splits attention by heads; "
    "cores (3 to 14), correlation, precision and place of the weights stay open. By the dense row "
    "and those at 20 and 80 % alone another machine is nearer: nine cores and ten sequences."
)
CONSISTENT = (
    "Consistency: no row tests the machine. A line with three numbers comes nearer to all eight."
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


def independent(ratio: float) -> Workload:
    """The video of the paper, with decisions at a ratio of eligible steps that do not correlate."""
    if not ratio:
        return Workload("video")
    return Workload("video", replay=ratio, pairs=agreement_of(0.0, ratio))


def simulate_row(
    base: Design, row: PaperRow, *, ratio_of: RatioOf = "eligible", schedule: str | None = None
) -> RowResult:
    """A published row on a design, as ``carsim run --workload`` simulates it.

    Args:
        base: The design.
        row: The row.
        ratio_of: The decisions that the published replay ratio counts.
        schedule: Who computes the sequences that do not replay; the design's own if left out.
    """
    changes = {
        "policy.attention": row.attention.model_dump(),
        "policy.schedule": schedule or base.policy.schedule,
        "policy.compare": (),
    }
    share = 1.0 if ratio_of == "eligible" else PAPER_VIDEO.n_frames / (PAPER_VIDEO.n_frames - 1)
    work = independent(min(1.0, row.replay_ratio * share))
    return run(override(base, changes), workload=work, what_if=False).chosen


def validate_paper(progress: Callable[[str], None] = lambda _: None) -> Part:
    """Simulate all rows.

    Args:
        progress: Told what is being done.
    """
    base = load_design(DESIGN)
    rows, body = paper_rows(base), base.model.body
    progress("rows at their ratios of eligible steps")
    found = [simulate_row(base, row) for row in rows]
    progress("rows at their ratios of all steps")
    of_all = [simulate_row(base, row, ratio_of="all").latency_s for row in rows]
    ours = [each.latency_s for each in found]
    line, skipping = line_s(rows, body), [skipping_s(row, rows, body) for row in rows]
    seconds = _Rows(rows, [row.latency_s for row in rows], ours, line)
    against_skipping = replace(seconds, rival=skipping)
    all_skipping = [skipping_s(row, rows, body, "all") for row in rows]
    joules = [each.energy_per_video.value_j for each in found]
    efficiency = _Rows(rows, [1 / row.efficiency for row in rows], joules, line)
    bounds = {"mean": MEAN_BOUND, "worst": WORST_BOUND}
    of_all_steps = replace(seconds, ours=of_all, rival=all_skipping)
    groups = (
        Group("latency of a video in s", seconds.compared(), LINE, bounds),
        Group("the same rows", against_skipping.compared(), SKIPPING, shown=False),
        Group("time saved over dense in s", seconds.over_dense(sub, "s"), LINE, shown=False),
        Group("ratio of all steps", of_all_steps.compared(), SKIPPING, shown=False),
        Group("efficiency over dense", efficiency.over_dense(truediv, "x"), "constant power"),
        Group("operations saved", (_operations(rows, body),), "ratio of all steps"),
        stock_speedups(rows, body, progress),
    )
    nearer = [
        row.name
        for row, own, rival in zip(rows, ours, skipping, strict=True)
        if row.name != DENSE and abs(rival - row.latency_s) < abs(own - row.latency_s)
    ]
    rivals = (
        "Rivals of latency: a level, and start and slope of a line over the replay ratio, fitted "
        "to the same rows; linear skipping, the dense latency less the skipped share of the work. "
        f"Linear skipping is nearer than carsim for: {', '.join(nearer) or 'no row'}. Rival of "
        "efficiency: constant power, with the line's latencies. Machines that explain the "
        "latencies about equally stand in studies/paper."
    )
    return Part(
        "paper",
        f"FastCar's published rows on a U280: {base.policy.batch} sequences on {base.machine.text} "
        f"at {base.board.fabric_clock_mhz:g} MHz, prompt included, head left out",
        groups,
        (CHOICES, IDENTIFIED, CONSISTENT, rivals),
        check_fit(base, PAPER_VIDEO).misfits,
    )


@dataclass(frozen=True)
class _Rows:
    """A figure of each published row: published, carsim's and a rival's."""

    rows: Sequence[PaperRow]
    published: Sequence[float]
    ours: Sequence[float]
    rival: Sequence[float]

    def compared(self, unit: str = "s") -> tuple[Comparison, ...]:
        """A comparison for each row."""
        figures = zip(self.rows, self.published, self.ours, self.rival, strict=True)
        return tuple(
            Comparison(row.name, published, ours, rival, None, row.source, unit, _note(row))
            for row, published, ours, rival in figures
        )

    def over_dense(
        self, gain: Callable[[float, float], float], unit: str
    ) -> tuple[Comparison, ...]:
        """Gain of each row over dense; errors of latency look small, as most of it stays."""
        dense = next(place for place, row in enumerate(self.rows) if row.name == DENSE)
        figures = self.published, self.ours, self.rival
        gains = ([gain(each[dense], other) for other in each] for each in figures)
        return tuple(row for row in _Rows(self.rows, *gains).compared(unit) if row.what != DENSE)


def _note(row: PaperRow) -> str:
    return "fitted: clock" if row.name == DENSE else ""


def _operations(rows: Sequence[PaperRow], body: Body) -> Comparison:
    ours, rival = (replayed_share(AT_RATIO, rows, body, of) for of in RATIOS)
    what, source = f"at {AT_RATIO:.0%} replay", "FastCar section 6"
    return Comparison(what, OPERATIONS_SAVED, ours, rival, None, source, "share")


def stock_speedups(
    rows: Sequence[PaperRow], body: Body, progress: Callable[[str], None] = lambda _: None
) -> Group:
    """Speed-up of shipped designs at the published ratios, with no number fitted to a row."""
    published_s = next(row.latency_s for row in rows if row.name == DENSE)
    compared = []
    for row in rows:
        ratio = row.replay_ratio
        if not ratio or row.attention != rows[0].attention:
            continue
        trace = str(trace_path(f"published_{100 * ratio:.0f}_correlated"))
        correlated = Workload("trace", traces=(trace,))
        works = {"correlated": correlated, "independent": independent(ratio)}
        gain, rival = (published_s / each for each in (row.latency_s, skipping_s(row, rows, body)))
        for design, (kind, work) in product(map(load_design, STOCK), works.items()):
            progress(f"{design.name}, {kind} decisions at {ratio:.0%}")
            how: dict[str, Any] = {"allow_misfit": True, "resample_seed": 0, "what_if": False}
            found = run(design, workload=work, **how)
            what = f"{design.name}, {ratio:.0%} replay, {kind} decisions"
            ours = found.baseline.latency_s / found.chosen.latency_s
            compared.append(Comparison(what, gain, ours, rival, None, row.source, "x"))
    return Group("speed-up, nothing fitted", tuple(compared), SKIPPING)
