"""Counts of diffusion transformers and depth encoders against published ones.

Parameters are those of all that a preset describes. Operations are those of the programs that are
simulated (:mod:`carsim.program.sample`), summed over their blocks. ``data/diffusion_counts.csv``
names the source of each figure, and what the source leaves out.
"""

from collections.abc import Callable, Mapping

from carsim.base.section import tuples
from carsim.base.yaml_file import parse_yaml
from carsim.design.load import preset
from carsim.metrics.comparison import Comparison
from carsim.program.sample import forward_macs, text_macs
from carsim.validate.part import Group, Part
from carsim.validate.peers import data_rows
from carsim.workload.model import Model

UNITS: Mapping[str, float] = {"GMAC": 1e9, "TFLOP": 0.5e12, "PFLOP": 0.5e15, "G": 1e9}
"""Unit of a figure -> multiply-accumulates, or parameters, in it."""

ATTENTION_NAMES = ("attention",)
"""Blocks that tables without attention leave out; cross-attention's products with text as well."""


def validate_diffusion(progress: Callable[[str], None] = lambda _: None) -> Part:
    """Compare parameters and operations with everything that was published of them.

    Args:
        progress: Told what is being compared.
    """
    progress("parameters and operations")
    rows = list(data_rows("diffusion_counts.csv"))
    operations = [_comparison(row) for row in rows if row["counts"] != "parameters"]
    parameters = [_comparison(row) for row in rows if row["counts"] == "parameters"]
    groups = (
        Group("operations", tuple(operations)),
        Group("parameters", tuple(parameters)),
    )
    notes = (
        "Tables of TeaCache and MagCache leave attention out of their FLOPs: with it, Wan 1.3B "
        "takes 28.3 PFLOP instead of 8.21, HunyuanVideo at 544 x 960 takes 214 instead of 45.9.",
    )
    title = "Diffusion transformers and depth encoders: parameters and operations"
    return Part("diffusion", title, groups, notes)


def preset_model(name: str, changes: str = "") -> Model:
    """A preset with another sample.

    Args:
        name: Name of the preset.
        changes: Fields of the sample, such as ``height=512 width=512``.
    """
    raw = dict(preset("model", name, "diffusion_counts.csv"))
    fields = (word.partition("=") for word in changes.split())
    changed = {key: parse_yaml(value, key) for key, _, value in fields}
    raw["sample"] = {**raw["sample"], **changed}
    return Model.model_validate(tuples(raw))


def sample_macs(model: Model) -> int:
    """Multiply-accumulates of a whole sample without chunks, all passes of guidance included."""
    sample = model.sample
    assert sample is not None
    of_forward = sum(forward_macs(model).values())
    return sample.passes * (sample.steps * of_forward + text_macs(model))


def linear_macs(model: Model) -> int:
    """Multiply-accumulates of a whole sample without products of queries, keys and values."""
    sample = model.sample
    assert sample is not None
    network, body = model.network, model.body
    assert network is not None
    macs = forward_macs(model)
    of_text = 0
    if getattr(network, "text", "") == "cross":
        tokens = network.tokens(sample)
        of_text = 2 * body.n_layers * tokens * network.text_tokens * body.q_size  # type: ignore[union-attr]
    others = sum(count for name, count in macs.items() if name not in ATTENTION_NAMES)
    return sample.passes * sample.steps * (others - of_text)


def _comparison(row: Mapping[str, str]) -> Comparison:
    """A published count beside carsim's."""
    model = preset_model(row["model"], row["sample"])
    count_of: dict[str, Callable[[Model], int]] = {
        "parameters": lambda model: model.parameters,
        "forward": lambda model: sum(forward_macs(model).values()),
        "sample": sample_macs,
        "linear": linear_macs,
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
