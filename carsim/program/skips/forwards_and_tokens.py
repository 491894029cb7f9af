"""Some forwards reuse the last one as a whole; in the others, tokens reuse outputs one by one."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, SerializeAsAny, model_validator

from carsim.base.registry import of_other_kind
from carsim.base.section import FieldError
from carsim.program.program import Layer
from carsim.program.skips.all_layers import SkipAllLayers
from carsim.program.skips.base import Skip
from carsim.program.skips.mlp import SkipMlp

_of_part = of_other_kind(Skip, role="skip", own="forwards_and_tokens", noun="skip")
AnyPart = Annotated[SerializeAsAny[Skip], BeforeValidator(_of_part)]


class SkipForwardsAndTokens(Skip):
    """Two skips: that of forwards which reuse another, and that of tokens in all other forwards.

    It is TeaCache across denoising steps with FastCar across frames: a workload says
    ``every=2,replay=0.6,source=frame``. What both hold is held beside each other. Forwards that
    compute write what later ones reuse for all tokens, also for those that reused an output.

    Where a workload states one of both alone, the part of the other has no effect. A decoder has no
    forwards, so that its rows skip what tokens do.
    """

    label: ClassVar[str] = "forwards, tokens of the others"

    kind: Literal["forwards_and_tokens"] = "forwards_and_tokens"
    forwards: AnyPart = Field(
        SkipAllLayers(), description="what forwards leave out that reuse the last one as a whole"
    )
    tokens: AnyPart = Field(
        SkipMlp(), description="what tokens leave out in the other forwards: a kind with a score"
    )

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        if not self.forwards.of_whole_forwards:
            problem = f"{self.forwards.kind!r} is no skip of whole forwards"
            raise FieldError("forwards", problem, "take all_layers")
        if self.tokens.of_whole_forwards or self.tokens.decides_before:
            problem = f"{self.tokens.kind!r} is decided before the layer, and not by each token"
            raise FieldError("tokens", problem, "take mlp, attention or attention_too")
        return self

    @property
    def of_forwards(self) -> Skip:
        """The part of whole forwards."""
        return self.forwards

    @property
    def of_tokens(self) -> Skip:
        """The part of tokens."""
        return self.tokens

    def mark(self, layer: Layer, number: int) -> Layer:
        """Mark what tokens skip."""
        return self.tokens.mark(layer, number)
