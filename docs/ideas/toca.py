"""ToCa (arXiv 2410.05317), for one token at a time: importance by attention, and by age.

ToCa computes the tokens that matter most in attention, and those that were cached for long. Here a
token replays where its attention goes to its own place one frame ago, unless that is old.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from carsim.decisions.replay import RULES, ReplayRule


class ToCa(ReplayRule):
    """Mean attention weight of the aligned key, less a penalty for each frame of age."""

    label: ClassVar[str] = "ToCa"
    paper: ClassVar[str] = "arXiv 2410.05317"

    kind: Literal["toca"] = "toca"
    per_frame: Annotated[float, Field(ge=0)] = 0.02

    def score(self, state, layer, place, seen):
        """[B]."""
        aligned = seen.attention_weights[:, :, -1 - seen.tokens_per_frame]  # [B, H]
        return aligned.mean(axis=1) - self.per_frame * seen.age


RULES.register(ToCa)
