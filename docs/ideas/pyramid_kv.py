"""PyramidKV (arXiv 2406.02069): first layers keep many tokens, last layers few."""

from typing import ClassVar, Literal

from carsim.decisions.attention import ATTENTION, Evicting


class PyramidKv(Evicting):
    """Evicts as H2O does; the number of tokens that stay falls from layer to layer."""

    label: ClassVar[str] = "PyramidKV"
    paper: ClassVar[str] = "arXiv 2406.02069"

    kind: Literal["pyramid_kv"] = "pyramid_kv"

    def learn(self, worth, layer, weights):
        """Add the newest token's attention, [B, KV, end]."""
        worth += weights

    def kept_tokens(self, layer, n_layers):
        """From 1.75 to 0.25 times ``keep``; the mean over layers is ``keep``."""
        share = layer / max(1, n_layers - 1)
        return round(self.keep * (1.75 - 1.5 * share))


ATTENTION.register(PyramidKv)
