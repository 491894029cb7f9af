"""Which machines explain FastCar's published latencies about equally well.

What an MLP phase takes depends on the decisions only through how many sequences compute. So the
expected latency of a candidate is the sum over n of P(n) times the simulated cycles of the phase
with n computing sequences, and thousands of candidates can be held against the rows without drawing
decisions. Each is scaled to the dense row by its clock.

Simplification, checked by simulating members with drawn decisions: attention is simulated at a few
contexts and interpolated linearly between them. Keys of sparse rows are counted as one run. The
MLP writes its output for later replay in the dense row too: a few KiB beside all weights.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from carsim.decisions.attention import AttentionPolicy
from carsim.decisions.replay import FASTCAR
from carsim.design import Design
from carsim.hardware.schedule import BASELINE, SCHEDULES
from carsim.machine.cases import Cases, RowCases
from carsim.machine.hardware import Hardware
from carsim.machine.phases import Phases
from carsim.program.reads import Reads
from carsim.validate.paper import DENSE, PAPER_VIDEO, PaperRow
from studies.paper.candidates import Candidate, candidate_design, replay_probability

Floats = NDArray[np.float64]

SET_POINTS = 0.003
"""Candidates whose mean error is that near to the best one's explain the rows about equally."""

CONTEXTS = (1, 20, 63, 260, 600, 1100, 1600, 2110)
"""Where attention is simulated; 20 and 260 are sinks and window of the sparse rows."""


@cache
def computing_distribution(batch: int, p_compute: float, correlation: float) -> Floats:
    """P(n of ``batch`` sequences compute), n = 0 .. batch: binomial, or beta-binomial.

    >>> computing_distribution(2, 0.5, 0.0).round(12).tolist()
    [0.25, 0.5, 0.25]
    >>> computing_distribution(2, 0.5, 1 / 3).round(12).tolist()
    [0.333333333333, 0.333333333333, 0.333333333333]
    """
    found: Floats = np.ones(1)
    own, others = (1 - correlation) * p_compute, correlation
    for asked in range(batch):  # an urn of Polya: each sequence knows how many before it compute
        chance = (own + others * np.arange(asked + 1)) / (1 - correlation + others * asked)
        found = np.append(found * (1 - chance), 0) + np.append(0, found * chance)
    return found


class PhaseCycles:
    """Cycles of the phases of one design.

    Args:
        base: The design that candidates are variants of.
        candidate: Cores, batch, attention and weights; correlation and ratio do not matter.
        clock_mhz: Clock of the fabric.
    """

    def __init__(self, base: Design, candidate: Candidate, clock_mhz: float) -> None:
        design = candidate_design(base, candidate, clock_mhz)
        self.clock_mhz = clock_mhz
        self._layers = design.model.body.n_layers
        phases = Phases(Hardware(design))
        batch = candidate.batch
        self._prefill = int(phases.prefill_layer(PAPER_VIDEO.prompt_tokens).cycles[0])
        layer = phases.program(FASTCAR, decided=True).layers[0]
        block_of = {block.name: block for block in layer}
        output = int(phases.of(block_of["output"], Cases()).cycles[0])
        self._projections = int(phases.of(block_of["qkv"], Cases()).cycles[0]) + output
        attention = phases.of(block_of["attention"], Cases(Reads.of_tokens(CONTEXTS)))
        self._attention = tuple(attention.cycles.tolist())
        mlp = block_of["mlp"]
        # Known after Q, the decisions have at least as long as known after attention.
        known = 0 if design.machine.decision_at == "residual" else output
        everyone = Cases(rows=RowCases(np.ones((1, batch), np.bool_), None))
        self._dense = int(phases.of(mlp, everyone, BASELINE).cycles[0])
        computing = np.tri(batch + 1, batch, -1, np.bool_)
        schedule = SCHEDULES[design.policy.schedule]
        known = min(known, phases.machine.dispatch_cycles(schedule))
        cases = Cases(rows=RowCases(computing, np.full(batch + 1, known)))
        self._by_computing = phases.of(mlp, cases, schedule).cycles.astype(np.float64)

    def seconds(self, row: PaperRow, candidate: Candidate, *, prefill: bool = True) -> float:
        """Expected latency of a row.

        Args:
            row: The row.
            candidate: Its correlation and what its ratio counts.
            prefill: The prompt is part of the latency.
        """
        attention = _mean_weights(row.attention) @ self._attention
        p_replay = replay_probability(candidate, row.replay_ratio)
        mlp = float(self._dense)
        if p_replay:
            p_of = computing_distribution(candidate.batch, 1 - p_replay, candidate.correlation)
            first = 1 / PAPER_VIDEO.n_frames
            mlp = first * self._dense + (1 - first) * float(p_of @ self._by_computing)
        cycles = PAPER_VIDEO.n_steps * (self._projections + attention + mlp)
        if prefill:
            cycles += self._prefill
        return float(self._layers * cycles / (self.clock_mhz * 1e6))


@cache
def _mean_weights(attention: AttentionPolicy) -> Floats:
    """How much each of :data:`CONTEXTS` counts in the mean over a video."""
    contexts = PAPER_VIDEO.prompt_tokens + 1 + np.arange(PAPER_VIDEO.n_steps)
    attended = attention.reads(contexts).tokens
    return np.array([np.interp(attended, CONTEXTS, unit).mean() for unit in np.eye(len(CONTEXTS))])


@dataclass(frozen=True)
class Explanation:
    """What a candidate predicts once its clock is fitted to the dense row.

    Attributes:
        candidate: The candidate.
        clock_mhz: Its clock.
        errors: Relative error of each published row, in their order.
    """

    candidate: Candidate
    clock_mhz: float
    errors: tuple[float, ...]

    @property
    def mean_error(self) -> float:
        """Mean absolute error over all rows."""
        return float(np.mean(np.abs(self.errors)))

    @property
    def worst_error(self) -> float:
        """Largest absolute error."""
        return max(abs(error) for error in self.errors)

    @property
    def left_out_errors(self) -> tuple[float, ...]:
        """Error of each row when the clock is what suits the other rows best."""
        ratios = 1 + np.array(self.errors)
        return tuple(
            float(ratio * _best_scale(np.delete(ratios, index)) - 1)
            for index, ratio in enumerate(ratios)
        )


def _best_scale(ratios: Floats) -> float:
    """The factor by which ratios come nearest to 1 in the mean: a weighted median."""
    order = np.argsort(1 / ratios)
    weight = np.cumsum(ratios[order])
    return float(1 / ratios[order][np.searchsorted(weight, weight[-1] / 2)])


def explain(
    base: Design, candidates: Iterable[Candidate], rows: Sequence[PaperRow], *, prefill: bool = True
) -> list[Explanation]:
    """Fit the clock of each candidate to the dense row and predict the others.

    Candidates that no clock brings to the dense row (memory is too slow) are left out.

    Args:
        base: The design that candidates are variants of.
        candidates: The candidates.
        rows: The published rows.
        prefill: The prompt is part of the published latencies.
    """
    dense = next(row for row in rows if row.name == DENSE)
    found = []
    fitted = cache(lambda machine: _fitted(base, machine, dense, prefill))
    for candidate in candidates:
        phases = fitted(replace(candidate, correlation=0.0, ratio_of="eligible"))
        if phases is None:
            continue
        errors = tuple(
            phases.seconds(row, candidate, prefill=prefill) / row.latency_s - 1 for row in rows
        )
        found.append(Explanation(candidate, phases.clock_mhz, errors))
    return found


def _fitted(base: Design, machine: Candidate, dense: PaperRow, prefill: bool) -> PhaseCycles | None:
    clock_mhz = base.board.fabric_clock_mhz
    for _ in range(4):
        phases = PhaseCycles(base, machine, clock_mhz)
        factor = phases.seconds(dense, machine, prefill=prefill) / dense.latency_s
        if abs(factor - 1) < 1e-4:
            return phases
        clock_mhz = round(clock_mhz * factor, 3)
    return None
