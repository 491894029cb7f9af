"""Attention and its projections split by heads, all else a sequence per core."""

from carsim.hardware.mapping.base import Mapping


class Heads(Mapping):
    """Attention and its projections split by heads, all else a sequence per core."""

    kind = "heads"
    splits_attention = True
