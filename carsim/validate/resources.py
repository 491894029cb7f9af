"""Resources and power of published FPGA designs, next to what carsim says of their configurations.

``data/published_resources.csv`` names designs of ``configs/published``, which were written without
these figures in view, except for buffers whose sizes are not published. Power is that of the board,
or what Vivado estimates: the device with its processors, without DRAM. HLSTransform (arXiv
2405.00738) is left out: its 9 W are those of Vivado and a cloud's tools, measured or not, and its
latency is that of a report of synthesis.
"""

from math import fsum

from carsim.base.text import number, span
from carsim.cost.energy import energy
from carsim.hardware.technology.fpga import Fpga
from carsim.metrics import Comparison
from carsim.runs.decode import decode
from carsim.validate.peers import data_rows
from carsim.validate.published import published_design, published_rows

OF_DRAM = ("memory", "standby")
"""Components of energy that Vivado leaves out begin so."""


def resource_comparisons() -> dict[str, tuple[Comparison, ...]]:
    """Published against predicted, by resource, and watts as ``power_w``.

    The note of a row is the interval of its prediction.
    """
    contexts = {row.config: (row.first_context, row.last_context) for row in published_rows()}
    found: dict[str, list[Comparison]] = {}
    for row in data_rows("published_resources.csv"):
        design, what = published_design(row["config"]), row["config"]
        used = design.board.technology.resources(design)
        for name, kind in Fpga.resource_kinds.items():
            if row[name]:
                ours = used.totals[name]
                low, high = (ours * ratio for ratio in Fpga.published_ratios[name])
                compared = _compared(what, row[name], ours, low, high, row["source"], kind.unit)
                found.setdefault(name, []).append(compared)
        run = decode(design, *contexts[row["config"]])
        seconds = run.seconds_per_step * len(run.contexts)
        parts = [
            part
            for part in energy(design, run.simulation.activity, used).parts
            if row["power_of"] == "board" or not part.component.startswith(OF_DRAM)
        ]
        ours, low, high = (
            fsum(getattr(part, end) for part in parts) / seconds
            for end in ("value_j", "low_j", "high_j")
        )
        compared = _compared(what, row["power_w"], ours, low, high, row["source"], "W")
        found.setdefault("power_w", []).append(compared)
    return {name: tuple(rows) for name, rows in found.items()}


def _compared(
    what: str, published: str, ours: float, low: float, high: float, source: str, unit: str
) -> Comparison:
    ends = span(number(low, 3), number(high, 3), " to ")
    return Comparison(what, float(published), ours, None, None, source, unit, ends)
