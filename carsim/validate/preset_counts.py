"""Presets of networks with another sample, and their operations."""

from carsim.base.section import tuples
from carsim.base.yaml_file import parse_yaml
from carsim.design.load import preset
from carsim.program.sample import forward_macs, text_macs
from carsim.workload.model import Model
from carsim.workload.network import DiffusionTransformer

ATTENTION_NAMES = ("attention",)
"""Blocks that tables without attention leave out; cross-attention's products with text as well."""


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
    of_text = sample.passes * sample.steps * cross_attention_macs(model)
    return without_self_attention(model) - of_text


def without_self_attention(model: Model) -> int:
    """Multiply-accumulates of a whole sample without self-attention's scores and sums.

    Products of cross-attention are counted.
    """
    sample = model.sample
    assert sample is not None
    macs = forward_macs(model)
    others = sum(count for name, count in macs.items() if name not in ATTENTION_NAMES)
    return sample.passes * sample.steps * others


def cross_attention_macs(model: Model) -> int:
    """Multiply-accumulates of image tokens with keys and values of a text, of one forward.

    They are 0 where no text enters by cross-attention.
    """
    network = model.network
    sample = model.sample
    assert sample is not None
    if not isinstance(network, DiffusionTransformer) or network.text != "cross":
        return 0
    body = model.body
    return 2 * body.n_layers * network.tokens(sample) * network.text_tokens * body.q_size
