"""Every matrix split by columns over all cores."""

from carsim.hardware.mapping.base import Mapping


class Tensor(Mapping):
    """Every matrix split by columns over all cores."""

    kind = "tensor"
    splits_attention = True
    splits_mlp = True
