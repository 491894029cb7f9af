"""All parts of the validation, by the name that ``carsim validate`` takes."""

from collections import defaultdict
from collections.abc import Callable, Sequence

from carsim.metrics import Comparison
from carsim.validate.array import validate_array
from carsim.validate.boards import validate_boards
from carsim.validate.dram import DramKind
from carsim.validate.dram import validate_dram as dram_report
from carsim.validate.fidelity import SHORT_PER_REGIME, validate_fidelity
from carsim.validate.paper import validate_paper
from carsim.validate.part import Group, Part

Progress = Callable[[str], None]


def validate_dram(progress: Progress = lambda _: None) -> Part:
    """The DRAM model against two cycle-accurate simulators, as a part."""
    progress("rows of two cycle-accurate simulators")
    nearer: list[Group] = []
    against: dict[tuple[str, str], list[Comparison]] = defaultdict(list)
    for kind in dram_report().kinds:
        nearer.append(Group(kind.name, *_rows(kind, None), shown=False))
        for simulator in dict.fromkeys(name for each in kind.checks for name in each.references):
            rows, rival = _rows(kind, simulator)
            against[f"{kind.name.partition(',')[0]}, against {simulator}", rival] += rows
    return Part(
        "dram",
        "DRAM against two cycle-accurate simulators, one channel",
        (
            *nearer,
            *(
                Group(title, tuple(rows), rival, shown=False)
                for (title, rival), rows in against.items()
            ),
        ),
        (
            "Bounds hold for the error against the nearer of the two simulators; errors against "
            "each stand in groups of their own. Null model: 0.9 of the peak bandwidth, whatever is "
            "asked; it says nothing of an idle memory or of a given load.",
        ),
    )


def _rows(kind: DramKind, simulator: str | None) -> tuple[tuple[Comparison, ...], str]:
    """Comparisons with one simulator, or with the nearer of all, and the name of their rival."""
    rows = []
    unit = "ns" if kind.name.startswith("latency") else "of the peak"
    for check in kind.checks:
        counted = check.references
        if simulator is None:
            reference = check.value / (1 + check.error)
            rival = None if check.null_error is None else reference * (1 + check.null_error)
            source = ", ".join(f"{name} {value:.4g}" for name, value in counted.items())
        elif simulator in counted:
            reference, rival, source = counted[simulator], check.null, simulator
        else:
            continue
        bound = kind.bound if simulator is None else None
        what = str(check.situation)
        rows.append(Comparison(what, reference, check.value, rival, bound, source, unit))
    return tuple(rows), "the null model" if rows[0].rival is not None else ""


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
