"""All parts of the validation, by the name that ``carsim validate`` takes."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from carsim.validate.array import validate_array
from carsim.validate.boards import validate_boards
from carsim.validate.dram import validate_dram
from carsim.validate.fidelity import SHORT_PER_REGIME, validate_fidelity
from carsim.validate.paper import validate_paper
from carsim.validate.part import Part

Progress = Callable[[str], None]


PARTS: Mapping[str, Callable[..., Part]] = MappingProxyType(
    {
        "boards": validate_boards,
        "array": validate_array,
        "dram": validate_dram,
        "paper": validate_paper,
        "fidelity": validate_fidelity,
    }
)
"""Part -> what works it out; every one takes ``progress``, told what is being done."""


def work_out(
    names: Sequence[str],
    short: bool = False,
    progress: Progress = lambda _: None,
    **options: int,
) -> list[Part]:
    """Work out some parts, one after the other.

    Args:
        names: Keys of :data:`PARTS`.
        short: Compare fidelities on a tenth of the designs.
        progress: Told what is being done.
        options: Of the only part asked for.
    """
    found = []
    for name in names:
        if short and name == "fidelity":
            options = {"per_regime": SHORT_PER_REGIME}
        found.append(PARTS[name](lambda now, name=name: progress(f"{name}: {now}"), **options))
    return found
