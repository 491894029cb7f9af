"""Machines that may have produced the latencies which FastCar publishes.

The publication (arXiv 2505.14709, section 6) names the board and the video, not the cores, the
batch, the precision, nor who computes attention. A :class:`Candidate` fixes them. Its MLPs are
computed as section 5 describes: each sequence on one core, the ones that do not replay dealt out by
the scheduler of the design. What else of a layer a core computes follows from the mapping.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

import pandas as pd

from carsim.design import Design, override
from carsim.validate.paper import PAPER_VIDEO, RatioOf

KEPT = Path(__file__).parent / "candidates.csv"
"""The candidates that ``search.py`` kept."""

_KV4 = {"model.kv": {"bits": 4, "group": 128, "scale_bits": 16, "zero_bits": 16}}
_DDR = {"machine.placement.weights": "ddr"}
WEIGHTS: dict[str, dict[str, object]] = {
    "4 bit in HBM": {},
    "8 bit in HBM": {"model.weights": {"bits": 8}, **_KV4},
    "4 bit in DDR4": {**_DDR, **_KV4},
    "8 bit in DDR4": {"model.weights": {"bits": 8}, **_DDR, **_KV4},
    "16 bit in DDR4": {"model.weights": {"bits": 16}, **_DDR, **_KV4},
}
"""Precision and place of the weights, by what it changes in the design; 16 bits do not fit HBM.

Where there are more of them, or more sequences beside them, keys and values are kept in 4 bits.
"""

ROUNDS_PER_WIDTH = 2
"""Sequences of a core that an array of the design's own width serves at some 290 MHz."""


@dataclass(frozen=True, slots=True, order=True)
class Candidate:
    """One explanation of the published rows.

    Attributes:
        cores: C.
        batch: B, sequences in lockstep.
        mapping: ``machine.mapping``: what of attention a core works on.
        correlation: Between any two sequences' decisions of one layer-step.
        ratio_of: The decisions that the published replay ratio counts: those of all steps, or
            of eligible ones (the first frame left out).
        weights: Key of :data:`WEIGHTS`.
    """

    cores: int
    batch: int
    mapping: str
    correlation: float = 0.0
    ratio_of: RatioOf = "eligible"
    weights: str = "4 bit in HBM"

    def __str__(self) -> str:
        return f"{self.batch} on {self.cores} cores, {self.mapping}"


def own_candidate(design: Design) -> Candidate:
    """The candidate that a design is."""
    return Candidate(design.machine.cores, design.policy.batch, design.machine.mapping)


def searched() -> Iterator[tuple[str, Candidate]]:
    """Group and candidate of every line that ``search.py`` kept."""
    names = [field.name for field in fields(Candidate)]
    for group, *values in pd.read_csv(KEPT)[["group", *names]].itertuples(index=False):
        yield group, Candidate(*values)


def replay_probability(candidate: Candidate, ratio: float) -> float:
    """Probability of a replay at an eligible step, given the published ratio; at most 1."""
    if candidate.ratio_of == "eligible":
        return ratio
    return min(1.0, ratio * PAPER_VIDEO.n_frames / (PAPER_VIDEO.n_frames - 1))


def candidate_design(base: Design, candidate: Candidate, clock_mhz: float) -> Design:
    """The design of a candidate; arrays and activation buffers grow with a core's sequences."""
    rounds = -(-candidate.batch // candidate.cores)
    activations_kib = 64 * max(rounds, -(-candidate.batch // 2))
    width = 1
    while width * ROUNDS_PER_WIDTH < rounds:
        width *= 2
    return override(
        base,
        {
            "board.fabric_clock_mhz": clock_mhz,
            "machine.cores": candidate.cores,
            "machine.mapping": candidate.mapping,
            "machine.array.cols": width * base.machine.array.cols,
            "machine.activation_buffer_kib": max(
                base.machine.activation_buffer_kib, activations_kib
            ),
            "policy.batch": candidate.batch,
            **WEIGHTS[candidate.weights],
        },
    )
