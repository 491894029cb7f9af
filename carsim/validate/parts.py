"""All parts of the validation, by the name that ``carsim validate`` takes."""

from collections.abc import Callable, Sequence

from carsim.metrics import Comparison
from carsim.validate.array import validate_array
from carsim.validate.boards import validate_boards
from carsim.validate.dram import DramKind
from carsim.validate.dram import validate_dram as _dram_report
from carsim.validate.fidelity import SHORT_PER_REGIME, validate_fidelity
from carsim.validate.paper import validate_paper
from carsim.validate.part import Group, Part

Progress = Callable[[str], None]


def validate_dram(progress: Progress = lambda _: None) -> Part:
    """The DRAM model against two cycle-accurate simulators, as a part."""
    progress("rows of two cycle-accurate simulators")
    return Part(
        "dram",
        "One DDR4 channel against DRAMsim3 and Ramulator 2.1",
        tuple(_group(kind) for kind in _dram_report().kinds),
        (
            "A prediction between the two simulators has no error, one outside is compared with "
            "the nearer. Null model: 0.9 of the peak bandwidth, whatever is asked; it says nothing "
            "of an idle memory or of a given load.",
        ),
    )


def _group(kind: DramKind) -> Group:
    rows = []
    for check in kind.checks:
        reference = check.value / (1 + check.error)
        rival = None if check.null_error is None else reference * (1 + check.null_error)
        counted = ", ".join(f"{name} {value:.4g}" for name, value in check.references.items())
        rows.append(
            Comparison(
                str(check.situation), reference, check.value, rival, kind.bound, counted,
                "ns" if kind.name.startswith("latency") else "share of the peak",
            )
        )  # fmt: skip
    rivalled = all(row.rival is not None for row in rows)
    return Group(kind.name, tuple(rows), "the null model" if rivalled else "", shown=False)


PARTS: dict[str, Callable[..., Part]] = {
    "boards": validate_boards,
    "array": validate_array,
    "dram": validate_dram,
    "paper": validate_paper,
    "fidelity": validate_fidelity,
}
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
