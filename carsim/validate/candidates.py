"""Machines that may have produced the latencies which FastCar publishes, and decisions for them.

The publication (arXiv 2505.14709, section 6) names the board and the video, not the cores, the
batch, the precision, nor who computes attention. A :class:`Candidate` fixes them. Its MLPs are
computed as section 5 describes: each sequence on one core, the ones that do not replay dealt out by
the scheduler of the design. What else of a layer a core computes follows from the mapping.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from carsim.decisions.trace import Decisions
from carsim.design import Design, override
from carsim.validate.peers import data_rows
from carsim.workload.geometry import Video

PAPER_VIDEO = Video(n_frames=8, tokens_per_frame=256, prompt_tokens=62)
"""FastCar section 6: 8 frames of 256 tokens. VILA-U's prompts have 50 to 65 tokens."""

RatioOf = Literal["eligible", "all"]

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


def searched() -> list[tuple[str, Candidate]]:
    """Group and candidate of every line that ``studies/paper/search.py`` kept."""
    return [
        (
            row["group"],
            Candidate(
                cores=int(row["cores"]),
                batch=int(row["batch"]),
                mapping=row["mapping"],
                correlation=float(row["correlation"]),
                ratio_of="all" if row["ratio_of"] == "all" else "eligible",
                weights=row["weights"],
            ),
        )
        for row in data_rows("fastcar_set.csv")
    ]


def replay_probability(candidate: Candidate, ratio: float, video: Video = PAPER_VIDEO) -> float:
    """Probability of a replay at an eligible step, given the published ratio; at most 1."""
    if candidate.ratio_of == "eligible":
        return ratio
    return min(1.0, ratio * video.n_frames / (video.n_frames - 1))


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


def drawn_decisions(
    candidate: Candidate,
    ratio: float,
    n_layers: int,
    rng: np.random.Generator,
    video: Video = PAPER_VIDEO,
) -> Decisions:
    """Decisions at a published ratio, for studies only.

    Every layer-step draws a probability from a beta distribution and its sequences draw with it, so
    that two of them correlate as the candidate says (a beta-binomial; a correlation of 0 leaves the
    probability as it is). Layer-steps are independent of each other.

    Args:
        candidate: Batch, correlation, and what the ratio counts.
        ratio: Published replay ratio, 0 to 1.
        n_layers: L.
        rng: Source of randomness.
        video: Steps, and the first frame, which never replays.
    """
    p = replay_probability(candidate, ratio, video)
    shape = (video.n_steps, n_layers, candidate.batch)
    chance = np.full((*shape[:2], 1), p)
    if candidate.correlation and 0 < p < 1:
        spread = 1 / candidate.correlation - 1
        chance = rng.beta(p * spread, (1 - p) * spread, chance.shape)
    replay = rng.random(shape) < chance
    replay[: video.tokens_per_frame] = False
    return Decisions(
        replay,
        "independent",
        f"drawn at {ratio:.0%} of {candidate.ratio_of} steps, correlation "
        f"{candidate.correlation:g} within a batch",
    )
