"""Grouped-query attention (GQA, arXiv 2305.13245): neighbouring heads share one key and value.

The paper pools the heads of a trained model to their mean, and trains on. Here nothing is trained
after the pooling.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from carsim.decisions.attention import ATTENTION, AttentionPolicy


class SharedHeads(AttentionPolicy):
    """Every ``group`` neighbouring key heads share their mean key and value."""

    label: ClassVar[str] = "shared heads"
    paper: ClassVar[str] = "arXiv 2305.13245"

    kind: Literal["shared_heads"] = "shared_heads"
    group: Annotated[int, Field(ge=1)] = 4

    @classmethod
    def trivial(cls):
        """Each head for itself."""
        return cls(group=1)

    def kept_key_heads(self, n_kv_heads):
        """Heads that are cached; a model with fewer heads than a group keeps one."""
        group = min(self.group, n_kv_heads)
        return n_kv_heads if n_kv_heads % group else n_kv_heads // group


ATTENTION.register(SharedHeads)
