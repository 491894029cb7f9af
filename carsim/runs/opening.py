"""Open a design: a complete file as it is, or one without a machine with the machine completed."""

from collections.abc import Iterable

from carsim.design import Design
from carsim.design.load import overridden_design, read_design, with_work
from carsim.workload.workload import Workload


def open_design(
    name_or_path: str, overrides: Iterable[str] = (), workload: Workload | None = None
) -> Design:
    """Load a design; if it leaves out the machine, choose one for a workload.

    Only a design without a machine loads the chooser of first designs.

    Args:
        name_or_path: A YAML file, or the name of a shipped design.
        overrides: ``path=value`` texts such as ``machine.cores=8``; values are YAML.
        workload: What a chosen machine is for; None: what the model makes.

    Raises:
        InputError: As of :func:`~carsim.design.load_design`, and as of
            :func:`carsim.runs.first.first_design`.
        MisfitError: No machine fits the board.
    """
    raw, path = read_design(name_or_path)
    raw = with_work(raw, workload, folder=path.parent)
    if "machine" in raw:
        return overridden_design(raw, path, overrides)
    from carsim.runs.first import Wish, completed

    return completed(Wish(raw, path, tuple(overrides), workload=workload))
