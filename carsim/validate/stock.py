"""Speed-ups of shipped designs next to FastCar's published ones, with no number fitted to a row.

The designs were made for other questions than the paper's machine, so that a difference says how
far a gain depends on the machine. Decisions are drawn in two ways at the published ratios:
*correlated* within guidance pairs, as in the shipped traces ``published_*``, and *independent*.
"""

from collections.abc import Callable, Sequence

from carsim.decisions.trace.drawn import agreement_of
from carsim.decisions.trace.shipped import traces_folder
from carsim.design import Body, load_design
from carsim.metrics import Comparison
from carsim.runs.pipeline import run
from carsim.validate.paper_rows import DENSE, SKIPPING, PaperRow, skipping_s
from carsim.validate.part import Group
from carsim.workload.workload import Workload

DESIGNS = ("zcu102", "u280")
"""Shipped designs that decode one guidance pair a batch."""


def stock_speedups(
    rows: Sequence[PaperRow], body: Body, progress: Callable[[str], None] = lambda _: None
) -> Group:
    """Speed-up of each design at each published ratio that a shipped trace has."""
    published_s = next(row.latency_s for row in rows if row.name == DENSE)
    compared = []
    for row in rows:
        ratio, name = row.replay_ratio, f"published_{100 * row.replay_ratio:.0f}"
        if not ratio or row.attention != rows[0].attention:
            continue
        agree = agreement_of(0.0, ratio)
        works = {
            "correlated": Workload("trace", traces=(str(traces_folder() / f"{name}.npz"),)),
            "independent": Workload("video", replay=ratio, pairs=agree, seed=0),
        }
        for design in map(load_design, DESIGNS):
            for kind, work in works.items():
                progress(f"{design.name}, {kind} decisions at {ratio:.0%}")
                found = run(
                    design, workload=work, allow_misfit=True, resample_seed=0, what_if=False
                )
                compared.append(
                    Comparison(
                        f"{design.name}, {ratio:.0%} replay, {kind} decisions",
                        published_s / row.latency_s,
                        found.baseline.latency_s / found.chosen.latency_s,
                        published_s / skipping_s(row, rows, body),
                        None,
                        row.source,
                        "x",
                    )
                )
    return Group("speed-up, nothing fitted", tuple(compared), SKIPPING)
