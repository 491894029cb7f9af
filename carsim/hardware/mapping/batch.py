"""A sequence per core: FastCar's mapping."""

from carsim.hardware.mapping.base import Mapping


class Batch(Mapping):
    """A sequence per core: FastCar's mapping."""

    kind = "batch"
