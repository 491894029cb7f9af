"""Rules of replay: what they look at, and how they decide. All are frozen, so that a name says all.

A *measure* gives each place of a frame a score; higher means that a replay is expected to harm
less. A *rule* turns scores into decisions: by a threshold as FastCar does, or by a count that is
given for every layer and frame, so that rules can be compared at exactly the same replay ratio
everywhere.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from carsim.decisions.replay import InputChange, Tas
from carsim.decoder.structures import Array, Config
from studies.content import EXEMPT
from studies.whole import Bools, Rule, Seen

PAPER = Tas(form="paper")
WHOLE = InputChange(bits=None)


class Measure(Protocol):
    """Scores the places of a frame."""

    def score(self, seen: Seen) -> Array:
        """[N], higher where a replay is expected to harm less."""
        ...


@dataclass(frozen=True)
class TasScore:
    """A temporal attention score.

    Attributes:
        rule: Its form, its heads, and its key.
    """

    rule: Tas = PAPER

    def score(self, seen: Seen) -> Array:
        """As :class:`Measure` has it."""
        keys = seen.keys[self.rule.offset : self.rule.offset + len(seen.q)]
        return self.rule.of(seen.q, seen.q_rotated, keys)


@dataclass(frozen=True)
class ChangeScore:
    """Minus the relative change of the MLP's input.

    Attributes:
        rule: Its bits and elements.
        since: ``held``: since the output was computed that is held; ``before``: since one frame
            ago.
    """

    rule: InputChange = WHOLE
    since: Literal["held", "before"] = "held"

    def score(self, seen: Seen) -> Array:
        """As :class:`Measure` has it."""
        then = seen.u_held if self.since == "held" else seen.u_before
        return self.rule.against(seen.u, self.rule.stored(then))


@dataclass(frozen=True)
class SameCode:
    """Whether the code that is fed is the one fed one frame before: no arithmetic at all."""

    def score(self, seen: Seen) -> Array:
        """As :class:`Measure` has it: 1 or 0."""
        return (seen.fed == seen.fed_before).astype(seen.u.dtype)


@dataclass(frozen=True)
class OutputChange:
    """The oracle: minus the length of the error of a replay. It computes what it saves."""

    def score(self, seen: Seen) -> Array:
        """As :class:`Measure` has it."""
        error: Array = -np.linalg.norm(seen.fresh - seen.held, axis=-1)
        return error


@dataclass(frozen=True)
class Chance:
    """Independent random numbers.

    Attributes:
        seed: Of them.
    """

    seed: int

    def score(self, seen: Seen) -> Array:
        """As :class:`Measure` has it."""
        rng = np.random.default_rng([self.seed, seen.frame, seen.layer])
        return rng.random(len(seen.u)).astype(seen.u.dtype)


@dataclass(frozen=True)
class Threshold:
    """Replay where the score exceeds tau, strictly, as FastCar decides.

    Attributes:
        measure: The score.
        tau: One for all layers, or one for each.
    """

    measure: Measure
    tau: float | tuple[float, ...]

    def decide(self, seen: Seen) -> tuple[Bools, Array | None]:
        """As :class:`~studies.whole.Rule` has it."""
        scores = self.measure.score(seen)
        tau = self.tau[seen.layer] if isinstance(self.tau, tuple) else self.tau
        return scores.astype(np.float64) > tau, scores

    @classmethod
    def of_all(cls, measure: Measure, taus: Sequence[float]) -> "Threshold":
        """The thresholds of the layers, but that those which never replay have none."""
        return cls(measure, tuple(np.inf if i in EXEMPT else tau for i, tau in enumerate(taus)))


@dataclass(frozen=True, eq=False)
class Counted:
    """Replay the best-scored places, as many as is said; ties go by chance.

    Attributes:
        measure: The score.
        counts: int[T, L], places that replay; none in frame 0.
    """

    measure: Measure
    counts: NDArray[np.int64] = field(repr=False)

    def __repr__(self) -> str:
        """All that decides, for the name of what was decoded."""
        return f"Counted({self.measure!r}, {hashlib.sha256(self.counts.tobytes()).hexdigest()})"

    def decide(self, seen: Seen) -> tuple[Bools, Array | None]:
        """As :class:`~studies.whole.Rule` has it."""
        scores = self.measure.score(seen)
        rng = np.random.default_rng([seen.frame, seen.layer])
        order = np.lexsort([rng.random(len(scores)), -scores])
        replay = np.zeros(len(scores), bool)
        replay[order[: self.counts[seen.frame, seen.layer]]] = True
        return replay, scores


@dataclass(frozen=True, eq=False)
class Given:
    """Decisions that were made elsewhere.

    Attributes:
        replay: bool[S, L].
    """

    replay: Bools = field(repr=False)

    def __repr__(self) -> str:
        """All that decides, for the name of what was decoded."""
        packed = np.packbits(self.replay).tobytes()
        return f"Given({self.replay.shape}, {hashlib.sha256(packed).hexdigest()})"

    def decide(self, seen: Seen) -> tuple[Bools, Array | None]:
        """As :class:`~studies.whole.Rule` has it."""
        n = len(seen.u)
        return self.replay[seen.frame * n : (seen.frame + 1) * n, seen.layer].copy(), None


@dataclass(frozen=True)
class Damped:
    """Another rule, with a gain on what is replayed.

    Attributes:
        rule: Decides.
        gain: Factor at each replay: 0 adds nothing, 1 replays as FastCar does.
    """

    rule: Rule
    gain: float | tuple[float, ...]

    def decide(self, seen: Seen) -> tuple[Bools, Array | None]:
        """As :class:`~studies.whole.Rule` has it."""
        return self.rule.decide(seen)


def schedule(config: Config, share: float | Fraction) -> Bools:
    """Decisions of a schedule, bool[S, L]: all places of a layer replay in some frames, in turn.

    The first frame and the exempt layers never replay. At one half, layer + frame is odd.

    Args:
        config: Shapes.
        share: Of the frames in which a layer replays, a fraction such as 3/4.
    """
    of = Fraction(share).limit_denominator(8)
    frame = np.arange(config.n_frames)[:, None]
    layer = np.arange(config.geometry.n_layers)
    turn = (frame + layer) % of.denominator
    due = (turn >= of.denominator - of.numerator) & (frame > 0) & ~np.isin(layer, EXEMPT)
    return due.repeat(config.tokens_per_frame, axis=0)


def permuted(replay: Bools, tokens_per_frame: int, seed: int, *, per_layer: bool = True) -> Bools:
    """Decisions with the places of all frames permuted alike, so that counts and ages are equal.

    Args:
        replay: bool[S, L].
        tokens_per_frame: N.
        seed: Of the permutations.
        per_layer: One permutation for each layer; else one for all.
    """
    rng = np.random.default_rng([seed, 3])
    frames = replay.reshape(-1, tokens_per_frame, replay.shape[1])
    one = rng.permutation(tokens_per_frame)
    out = np.empty_like(frames)
    for layer in range(frames.shape[2]):
        order = rng.permutation(tokens_per_frame) if per_layer else one
        out[:, :, layer] = frames[:, order, layer]
    return out.reshape(replay.shape)


def counts_of(replay: Bools, tokens_per_frame: int) -> NDArray[np.int64]:
    """Places that replay in each frame and layer, int[T, L], from decisions bool[S, L]."""
    return replay.reshape(-1, tokens_per_frame, replay.shape[1]).sum(axis=1)
