"""A sequence per core, but sequences left over after whole rounds are split over all cores.

Nine sequences on four cores take two rounds and a quarter, instead of three.
"""

from carsim.hardware.mapping.base import Mapping


class Hybrid(Mapping):
    """Batch mapping whose remainder is split by columns; needs the weights in every core."""

    kind = "hybrid"
    splits_remainder = True
