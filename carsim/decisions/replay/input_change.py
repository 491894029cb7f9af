"""Replay where the input of the MLP has hardly changed since its output was computed."""

from fractions import Fraction
from math import ceil
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from carsim.base.sizes import MOST, PositiveInt
from carsim.decisions.attention.base import Array, Bools
from carsim.decisions.attention.search import few_bits
from carsim.decisions.replay.base import ReplayRule
from carsim.decisions.replay.seen import Seen
from carsim.decisions.replay.shapes import DecoderShape, MachineShape, RuleWork

SCALE_BITS = 16
"""Scale of a quantised vector: a half-precision number, as presets of models store theirs."""
QUANTISE_OPS = 2
"""Per element: running maximum of magnitudes; scale and round."""
DEQUANTISE_OPS = 1
"""Per element of the held input: times its scale. That of the new one joins the difference."""
COMPARE_OPS = 3
"""Per element: difference; its square, accumulated; the held element's square, accumulated."""

Elements = PositiveInt | None


class InputChange(ReplayRule):
    """Relative change of the MLP's input: -|u - h|^2 / |h|^2, at most 0.

    Model: u is the MLP's input, the residual stream after attention under RMSNorm with its weight;
    h is the input *from which the output that is held for the place was computed*. That may be
    several frames old, since replays chain; change adds up until the row computes again. A tau of
    -0.1 replays where |u - h| is below 0.32 |h|.

    ``bits`` of each element are stored, as symmetric integers of a scale per vector: the largest
    magnitude over 2^(bits - 1) - 1 steps (null: as it is; a machine then stores an activation). u
    is rounded in the same way before it is compared, so that an input that has not changed scores
    0. ``elements`` compares that many, evenly strided (null: all d). In a machine whose model is
    wider or narrower than the decoder, their share of d stays the same, rounded up.

    Simplifications: a change that is 1e9 times the held input, or more, counts as 1e9; the decoder
    keeps scales unrounded, the machine moves 16 bits for each; where matrices are split over cores,
    adding up the cores' partial sums is free.
    """

    label: ClassVar[str] = "input change"
    known_at = "residual"
    cheaper: ClassVar[str] = "the input is rounded once, for the comparison and for what is held"

    kind: Literal["input_change"] = "input_change"
    bits: Annotated[int, Field(ge=2, le=16)] | None = Field(
        8, description="bits of an element of the held inputs"
    )
    elements: Elements = Field(None, description="elements that are compared; all if absent")

    def check(self, n_heads: int, hidden_size: int) -> None:
        """Refuse more elements than there are."""
        if self.elements is not None and self.elements > hidden_size:
            problem = f"rule: {self.elements} elements of a hidden size of {hidden_size}"
            raise ValueError(f"{problem}, give at most {hidden_size}, or null for all")

    def begin(self, shape: DecoderShape) -> Array:
        """Inputs held, as the numbers they stand for: [L, B, N, elements]."""
        elements = shape.hidden_size if self.elements is None else self.elements
        size = (shape.n_layers, shape.n_rows, shape.tokens_per_frame, elements)
        return np.zeros(size, shape.dtype)

    def score(self, state: Array, layer: int, place: int, seen: Seen) -> Array:
        """Minus the relative change of each row, [B]."""
        return self.against(seen.mlp_input, state[layer, :, place])

    def against(self, u: Array, held: Array) -> Array:
        """The score of inputs [B, d] against held ones [B, elements], whatever step they are of."""
        squared_change = ((self.stored(u) - held) ** 2).sum(axis=-1)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            relative = squared_change / (held**2).sum(axis=-1)
            relative = np.where(squared_change == 0, 0, relative)
        return 0 - np.minimum(relative, MOST)

    def computed(self, state: Array, layer: int, place: int, rows: Bools, seen: Seen) -> None:
        """Hold the inputs of the rows that compute."""
        state[layer, rows, place] = self.stored(seen.mlp_input[rows])

    def stored(self, u: Array) -> Array:
        """Inputs as they are held: some elements, in a few bits, [B, d] to [B, elements]."""
        if self.elements is not None:
            evenly_strided = np.arange(self.elements) * u.shape[1] // self.elements
            u = u[:, evenly_strided]
        return u if self.bits is None else few_bits(u, self.bits)

    def at_width(self, decoded: int, simulated: int) -> "InputChange":
        """The rule at another hidden size, of which it compares an equal share."""
        if self.elements is None:
            return self
        count = ceil(Fraction(self.elements * simulated, decoded))
        return self.model_copy(update={"elements": count})

    def work(self, shape: MachineShape) -> RuleWork:
        """Round, compare, and hold a vector."""
        elements = shape.hidden_size if self.elements is None else self.elements
        of_core = shape.columns(elements)
        if self.bits is None:
            held_bytes = ceil(of_core * shape.activation_bits / 8)
            return RuleWork(of_core * COMPARE_OPS, held_bytes=held_bytes)
        ops_of_element = QUANTISE_OPS + DEQUANTISE_OPS + COMPARE_OPS
        held_bits = of_core * self.bits + SCALE_BITS
        return RuleWork(of_core * ops_of_element, held_bytes=-(-held_bits // 8))
