"""Counts of diffusion transformers and depth encoders, and times on GPUs, against published ones.

Parameters are those of all that a preset describes. Operations are those of the programs that are
simulated (:mod:`carsim.program.sample`), summed over their blocks. ``data/diffusion_counts.csv``
names the source of each figure, and what the source leaves out. Times are those of
:mod:`carsim.validate.forward_times`. Ratios of FPGA accelerators to GPUs are those of
:mod:`carsim.validate.accelerators`.
"""

from collections.abc import Callable, Mapping

from carsim.metrics.comparison import Comparison
from carsim.program.sample import forward_macs
from carsim.validate.accelerators import accelerator_group, accelerator_notes
from carsim.validate.forward_intervals import forward_groups, forward_notes
from carsim.validate.forward_times import forward_times
from carsim.validate.part import Group, Part
from carsim.validate.peers import data_rows
from carsim.validate.preset_counts import (
    linear_macs,
    preset_model,
    sample_macs,
    without_self_attention,
)
from carsim.workload.model import Model

UNITS: Mapping[str, float] = {"GMAC": 1e9, "TFLOP": 0.5e12, "PFLOP": 0.5e15, "G": 1e9}
"""Unit of a figure -> multiply-accumulates, or parameters, in it."""


def validate_diffusion(progress: Callable[[str], None] = lambda _: None) -> Part:
    """Compare parameters, operations and times on GPUs with what was published of them.

    Args:
        progress: Told what is being compared.
    """
    progress("parameters and operations")
    rows = list(data_rows("diffusion_counts.csv"))
    operations = [_comparison(row) for row in rows if row["counts"] != "parameters"]
    parameters = [_comparison(row) for row in rows if row["counts"] == "parameters"]
    progress("times on GPUs")
    times = forward_times()
    progress("accelerators")
    groups = (
        Group("operations", tuple(operations)),
        Group("parameters", tuple(parameters)),
        accelerator_group(),
        *forward_groups(times),
    )
    notes = (
        "Tables of TeaCache and MagCache leave attention out of their FLOPs: with it, Wan 1.3B "
        "takes 28.3 PFLOP instead of 8.21, HunyuanVideo at 544 x 960 takes 214 instead of 45.9.",
        *accelerator_notes(),
        *forward_notes(times),
    )
    title = (
        "Diffusion transformers and depth encoders: parameters, operations, and times on GPUs, "
        "each without the rows of its own system"
    )
    return Part("diffusion", title, groups, notes)


def _comparison(row: Mapping[str, str]) -> Comparison:
    """A published count beside carsim's."""
    model = preset_model(row["model"], row["sample"])
    count_of: dict[str, Callable[[Model], int]] = {
        "parameters": lambda model: model.parameters,
        "forward": lambda model: sum(forward_macs(model).values()),
        "sample": sample_macs,
        "linear": linear_macs,
        "no_self_attention": without_self_attention,
    }
    count = count_of[row["counts"]](model)
    return Comparison(
        row["what"],
        reference=float(row["published"]),
        ours=count / UNITS[row["unit"]],
        rival=None,
        bound=float(row["bound"]),
        source=row["source"],
        unit=row["unit"],
    )
