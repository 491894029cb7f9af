"""All parts of the validation, by the name that ``carsim validate`` takes."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from carsim.validate import PART_NAMES
from carsim.validate.array import validate_array
from carsim.validate.boards import validate_boards
from carsim.validate.diffusion import validate_diffusion
from carsim.validate.dram import validate_dram
from carsim.validate.fidelity import SHORT_PER_REGIME, validate_fidelity
from carsim.validate.paper import validate_paper
from carsim.validate.part import Part
from carsim.validate.replay import validate_replay

Progress = Callable[[str], None]

_WORK = (
    validate_boards,
    validate_array,
    validate_dram,
    validate_paper,
    validate_fidelity,
    validate_diffusion,
    validate_replay,
)
PARTS: dict[str, Callable[..., Part]] = dict(zip(PART_NAMES, _WORK, strict=True))
"""Part -> what works it out, told where to say what is being done."""


def work_out(
    names: Sequence[str],
    short: bool = False,
    progress: Progress = lambda _: None,
    folder: Path | None = None,
) -> list[Part]:
    """Work out some parts, one after the other.

    Args:
        names: Keys of :data:`PARTS`.
        short: Compare fidelities on a tenth of the designs.
        progress: Told what is being done.
        folder: Measurements of the part ``replay`` in place of the shipped ones.
    """
    works = dict(PARTS)
    if short:
        works["fidelity"] = partial(validate_fidelity, per_regime=SHORT_PER_REGIME)
    if folder is not None:
        works["replay"] = partial(validate_replay, folder=folder)
    return [works[name](lambda now, name=name: progress(f"{name}: {now}")) for name in names]
