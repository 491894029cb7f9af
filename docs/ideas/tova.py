"""TOVA (arXiv 2401.06104): the newest token's attention alone decides what stays."""

from typing import ClassVar, Literal

from carsim.decisions.attention import ATTENTION, Evicting


class Tova(Evicting):
    """Evicts the tokens to which the last token of the frame attends least, alike in all heads."""

    label: ClassVar[str] = "TOVA"
    paper: ClassVar[str] = "arXiv 2401.06104"
    heads_alike: ClassVar[bool] = True

    kind: Literal["tova"] = "tova"

    def learn(self, worth, layer, weights):
        """The mean over key heads, as TOVA has it: all heads keep the same tokens."""
        worth[:] = weights.mean(axis=1, keepdims=True)


ATTENTION.register(Tova)
