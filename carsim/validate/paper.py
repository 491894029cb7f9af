"""The latencies that FastCar publishes, simulated: ``carsim validate paper``.

Eight rows (arXiv 2505.14709, tables 1 and 2) of a whole video: a prompt of 62 tokens and 8 frames
of 256, without the head, as dense and sparse rows are explained without it. Decisions are drawn at
the published ratios, independently, with a fixed seed. Three numbers are fitted (:data:`FITTED`);
all other rows are predictions.

That attention is split by heads while MLPs are not is a choice of structure, made with all rows in
view: no machine of another kind comes within the bounds, and the best of them stand beside the set.
Whoever counts it as fitted has four choices instead of three; predictions are such given the split.

Beside it stands the set of all machines that explain the rows about equally
(:mod:`carsim.validate.paper_set`); which those are was searched for by ``studies/paper/search.py``,
what they predict is worked out anew.
"""

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import cast

import numpy as np

from carsim.design import Design, load_design
from carsim.design.policy import Schedule
from carsim.machine.batches import make_batches
from carsim.machine.hardware import Hardware
from carsim.machine.memo import PhaseMemo
from carsim.machine.plan import Plan
from carsim.machine.simulate import simulate
from carsim.technology.fit import FitReport, check_fit
from carsim.trace import dense
from carsim.validate.paper_machine import (
    PAPER_VIDEO,
    AttentionBy,
    Candidate,
    RatioOf,
    candidate_design,
    drawn_decisions,
)
from carsim.validate.paper_rows import DENSE, PaperRow, null_latency_s, paper_rows
from carsim.validate.paper_set import Explanation, explain

MEAN_BOUND, WORST_BOUND = 0.025, 0.065
"""Stated bounds of the absolute error: mean over all rows, and worst row."""

FITTED = {"dense": "clock", "replay20": "cores, batch", "replay80": "cores, batch"}
"""What was fitted to which row."""

DESIGN = "u280_fastcar"
"""Name of the design that holds the fitted numbers."""

SEED = 20250514
"""Of the drawn decisions."""


@dataclass(frozen=True, slots=True)
class PaperResult:
    """One row beside its simulation. Errors are relative, positive if too slow.

    Attributes:
        row: What was published.
        simulated_s: Simulated latency.
        other_s: The same with the published ratio taken over all steps instead of eligible ones.
        null_s: What the naive rival predicts.
        null_other_s: What it predicts with the ratio taken over all steps.
        fitted: What was fitted to this row; empty for a prediction.
    """

    row: PaperRow
    simulated_s: float
    other_s: float
    null_s: float
    null_other_s: float
    fitted: str

    @property
    def error(self) -> float:
        """Of the simulation."""
        return self.simulated_s / self.row.latency_s - 1

    @property
    def other_error(self) -> float:
        """Of the simulation under the other definition of the ratio."""
        return self.other_s / self.row.latency_s - 1

    @property
    def null_error(self) -> float:
        """Of the naive rival."""
        return self.null_s / self.row.latency_s - 1


@dataclass(frozen=True)
class PaperReport:
    """All rows, and the set.

    Attributes:
        candidate: What was simulated.
        clock_mhz: Its clock.
        results: The rows in the order of publication.
        members: Machines that explain the rows about equally, best first.
        rivals: The best machines of other kinds, by what they are.
        fit: The fit of the design.
    """

    candidate: Candidate
    clock_mhz: float
    results: tuple[PaperResult, ...]
    members: tuple[Explanation, ...]
    rivals: tuple[tuple[str, Explanation], ...]
    fit: FitReport

    @property
    def mean_error(self) -> float:
        """Mean absolute error over all rows."""
        return _mean([result.error for result in self.results])

    @property
    def worst(self) -> PaperResult:
        """The row that is furthest off."""
        return max(self.results, key=lambda result: abs(result.error))

    @property
    def predicted_mean_error(self) -> float:
        """Mean absolute error over the rows to which nothing was fitted."""
        return _mean([result.error for result in self.results if not result.fitted])

    @property
    def null_other_mean_error(self) -> float:
        """Mean absolute error of the naive rival with the ratio taken over all steps."""
        return _mean([each.null_other_s / each.row.latency_s - 1 for each in self.results])

    @property
    def null_is_nearer(self) -> tuple[str, ...]:
        """Rows for which the naive rival has the smaller error, but for the one it starts from."""
        return tuple(
            each.row.name
            for each in self.results
            if each.row.name != DENSE and abs(each.null_error) < abs(each.error)
        )

    @property
    def null_mean_error(self) -> float:
        """Mean absolute error of the naive rival over all rows."""
        return _mean([result.null_error for result in self.results])

    @property
    def other_mean_error(self) -> float:
        """Mean absolute error under the other definition of the ratio."""
        return _mean([result.other_error for result in self.results])

    @property
    def misfits(self) -> tuple[str, ...]:
        """What of the design does not fit its board."""
        return self.fit.misfits

    @property
    def passes(self) -> bool:
        """Both bounds are kept, and the design fits."""
        kept = self.mean_error <= MEAN_BOUND and abs(self.worst.error) <= WORST_BOUND
        return kept and not self.misfits


def validate_paper(progress: Callable[[str], None] = lambda _: None) -> PaperReport:
    """Simulate all rows, and evaluate the set.

    Args:
        progress: Told what is being done.
    """
    base, rows = load_design(DESIGN), paper_rows()
    candidate = Candidate(base.machine.cores, base.policy.batch)
    clock_mhz = base.board.fabric_clock_mhz
    simulated = simulate_rows(base, candidate, clock_mhz, rows, progress=progress)
    other = simulate_rows(
        base, replace(candidate, ratio_of="all"), clock_mhz, rows, progress=progress
    )
    body = base.model.body
    results = tuple(
        PaperResult(
            row=row,
            simulated_s=latency_s,
            other_s=other_s,
            null_s=null_latency_s(row, rows, body),
            null_other_s=null_latency_s(row, rows, body, "all"),
            fitted=FITTED.get(row.name, ""),
        )
        for row, latency_s, other_s in zip(rows, simulated, other, strict=True)
    )
    progress("machines that explain the rows about equally")
    groups, candidates = zip(*searched(), strict=True)
    found = explain(base, candidates, rows)
    grouped = list(zip(groups, found, strict=True))
    return PaperReport(
        candidate=candidate,
        clock_mhz=clock_mhz,
        results=results,
        members=tuple(each for group, each in grouped if group == "set"),
        rivals=tuple((group, each) for group, each in grouped if group != "set"),
        fit=check_fit(base, PAPER_VIDEO),
    )


def simulate_rows(
    base: Design,
    candidate: Candidate,
    clock_mhz: float,
    rows: Sequence[PaperRow],
    *,
    schedule: Schedule = "drs",
    progress: Callable[[str], None] = lambda _: None,
) -> list[float]:
    """Simulated latencies of published rows, in seconds, with decisions drawn for each.

    Args:
        base: The design that candidates are variants of.
        candidate: The machine, and how its decisions are drawn.
        clock_mhz: Its clock.
        rows: The rows.
        schedule: Who computes the sequences that do not replay.
        progress: Told which row is being simulated.
    """
    memo = PhaseMemo(Hardware(candidate_design(base, candidate, clock_mhz)))
    seeds = np.random.SeedSequence(SEED).spawn(len(rows))
    latencies = []
    for row, seed in zip(rows, seeds, strict=True):
        progress(f"{row.name}, ratio of {candidate.ratio_of} steps")
        rng = np.random.default_rng(seed)
        latencies.append(_simulated_s(memo, candidate, row, rng, schedule))
    return latencies


def _simulated_s(
    memo: PhaseMemo,
    candidate: Candidate,
    row: PaperRow,
    rng: np.random.Generator,
    schedule: Schedule,
) -> float:
    design = memo.phases.hw.design
    layers, steps = design.model.body.n_layers, PAPER_VIDEO.n_steps
    if row.replay_ratio:
        decisions = drawn_decisions(candidate, row.replay_ratio, layers, rng)
    else:
        decisions = dense(steps, layers, candidate.batch)
    plan = Plan(
        memo.phases,
        PAPER_VIDEO,
        row.attention,
        schedule if row.replay_ratio else "static",
        bool(row.replay_ratio),
        range(steps),
    )
    simulation = simulate(plan, make_batches(decisions, candidate.batch), memo)
    return float(simulation.batch_cycles[0]) / (design.board.fabric_clock_mhz * 1e6)


def searched() -> list[tuple[str, Candidate]]:
    """Group and candidate of every line that the search wrote."""
    text = (files("carsim.validate") / "data" / "fastcar_set.csv").read_text(encoding="utf-8")
    return [
        (
            record["group"],
            Candidate(
                int(record["cores"]),
                int(record["batch"]),
                cast(AttentionBy, record["attention_by"]),
                float(record["correlation"]),
                cast(RatioOf, record["ratio_of"]),
                record["weights"],
            ),
        )
        for record in csv.DictReader(text.splitlines())
    ]


def _mean(errors: Sequence[float]) -> float:
    return float(np.mean(np.abs(errors)))
