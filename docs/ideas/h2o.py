"""H2O (arXiv 2306.14048): tokens that are attended to often stay in the cache."""

from typing import ClassVar, Literal

from carsim.decisions.attention import ATTENTION, Evicting


class HeavyHitters(Evicting):
    """Evicts the tokens with the least attention, added up over all steps."""

    label: ClassVar[str] = "H2O"
    paper: ClassVar[str] = "arXiv 2306.14048"

    kind: Literal["h2o"] = "h2o"

    def learn(self, worth, layer, weights):
        """Add the newest token's attention, [B, KV, end]."""
        worth += weights


ATTENTION.register(HeavyHitters)
