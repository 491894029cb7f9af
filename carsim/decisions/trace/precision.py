"""The precision of a decoding: how many bits each kind of number has that is stored or multiplied.

Integers are asymmetric: a scale and a zero point belong to what is said here. 16 bits stand for the
decoder's own arithmetic, in which nothing is rounded.
"""

from collections.abc import Collection, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import Field, PositiveInt, model_validator

from carsim.base.section import GrownSection, Section

Bits = Literal[2, 3, 4, 8, 16]

Product = Literal["qkv", "out", "gate_up", "down"]
"""The products with weights in a layer. ``out`` is the output projection of attention, ``down`` the
last one of the MLP."""

PRODUCTS: tuple[Product, ...] = get_args(Product)


def in_short(
    weights: float, activations: float, kv: float, replay: float, polished: Collection[str]
) -> str:
    """A precision in few letters, of a decoding or of a machine; polished products in one order.

    >>> in_short(4, 8, 3.5, 16, ["down"])
    'W4A8 KV3.5 replay 16, polished down'
    """
    names = [product for product in PRODUCTS if product in polished]
    return f"W{weights:g}A{activations:g} KV{kv:g} replay {replay:g}" + (
        f", polished {' '.join(names)}" if names else ""
    )


class Grouped(Section):
    """Bits of numbers that share scale and zero point in groups; a bare number says the bits.

    Attributes:
        bits: Bits of a number.
        group: Neighbours that share a scale: along the inputs of a weight matrix, or within one
            key or value of a head. Left out: an output channel, or a whole head.
    """

    bits: Bits
    group: PositiveInt | None = None

    @model_validator(mode="before")
    @classmethod
    def _bare_bits(cls, raw: Any) -> Any:
        return {"bits": raw} if isinstance(raw, int) else raw


class Calibration(Section):
    """Samples from which ranges, polishing and compensation are found: a teacher-forced prefix.

    Attributes:
        clips: Number of clips from the first on, both rows of each; fewer if there are fewer.
        frames: Number of frames from the first on, after the prompt; fewer if there are fewer.
    """

    clips: PositiveInt = 4
    frames: PositiveInt = 1


class DecoderPrecision(GrownSection):
    """Bits of everything, and what is done about outliers (QuartDepth, arXiv 2503.16709).

    Attributes:
        weights: The four matrices of a layer.
        activations: Inputs of the four products, static ranges per channel.
        kv: Keys and values as they are cached; each token has scales of its own.
        replay: MLP outputs as they are held for replay; each output has a scale of its own.
        polish: Products whose inputs are rounded on a logarithmic scale.
        compensate: Weights make up for what rounding their inputs does, as well as they can.
        reconstruct: Weights are rounded up or down so that outputs change least, instead of to the
            nearest value.
        calibration: Samples for ``activations``, ``polish``, ``compensate`` and ``reconstruct``.
    """

    later: ClassVar[frozenset[str]] = frozenset({"reconstruct"})

    weights: Grouped = Grouped(bits=16)
    activations: Bits = 16
    kv: Grouped = Grouped(bits=16)
    replay: Literal[4, 8, 16] = 16
    polish: Annotated[tuple[Product, ...], Field(max_length=len(PRODUCTS))] = ()
    compensate: bool = False
    reconstruct: bool = False
    calibration: Calibration = Calibration()

    @property
    def short(self) -> str:
        """Bits that concern a machine, such as ``W4A8 KV4 replay 8``."""
        return in_short(self.weights.bits, self.activations, self.kv.bits, self.replay, self.polish)

    @property
    def text(self) -> str:
        """The precision as a phrase."""
        remedies = ", compensated" * self.compensate + ", reconstructed" * self.reconstruct
        return self.short + remedies

    def check(self, inputs: Sequence[int], head_dim: int) -> None:
        """Check that groups divide what they are groups of.

        Args:
            inputs: Widths of the inputs of the body's matrices.
            head_dim: Width of a head's keys and values.

        Raises:
            ValueError: They do not.
        """
        for field, sizes in {"weights": inputs, "kv": (head_dim,)}.items():
            group = getattr(self, field).group
            if group is not None and any(size % group for size in sizes):
                shown = ", ".join(str(size) for size in dict.fromkeys(sizes))
                raise ValueError(f"precision.{field}: group {group} does not divide all of {shown}")

    @model_validator(mode="after")
    def _means_something(self) -> Self:
        """Refuse fields that have no effect at these bits."""
        if self.activations == 16 and (self.polish or self.compensate):
            raise ValueError("polish and compensate do nothing for activations of 16 bits")
        if self.weights.bits == 16 and self.reconstruct:
            raise ValueError("reconstruct does nothing for weights of 16 bits; leave it out")
        if len(set(self.polish)) < len(self.polish):
            raise ValueError("polish lists a product twice")
        return self
