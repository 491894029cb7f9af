"""torchao: the name of a scheme and its options; the classifier is not quantised.

Source: pytorch/ao, ``torchao/quantization/quant_api.py``; transformers, ``TorchAoConfig``.
"""

import re
from fractions import Fraction
from typing import NamedTuple

from carsim.base.section import FieldError
from carsim.base.yaml_file import shown
from carsim.workload.hf_config.keys import SET_WEIGHTS
from carsim.workload.hf_config.quantisation.fields import Fields, is_named
from carsim.workload.hf_config.quantisation.form import PER_OUTPUT, Form, Scheme
from carsim.workload.hf_config.tensors import Matrix


class Recipe(NamedTuple):
    """A scheme of torchao.

    Attributes:
        form: Form of the weights.
        activation_bits: Bits of the inputs of products; None: they are not rounded.
        has_groups: ``group_size`` sets the size of a group.
    """

    form: Form
    activation_bits: int | None = None
    has_groups: bool = False


RECIPES = {
    "int4weightonly": Recipe(
        Form(Fraction(4), group=128, scale_bits=16, zero_bits=16), has_groups=True
    ),
    "int8weightonly": Recipe(Form(Fraction(8), group=PER_OUTPUT, scale_bits=16)),
    "int8dynamicactivationint8weight": Recipe(
        Form(Fraction(8), group=PER_OUTPUT, scale_bits=16), activation_bits=8
    ),
    "int8dynamicactivationint4weight": Recipe(
        Form(Fraction(4), group=32, scale_bits=32), activation_bits=8, has_groups=True
    ),
    "float8weightonly": Recipe(Form(Fraction(8), group=PER_OUTPUT, scale_bits=32)),
    "float8dynamicactivationfloat8weight": Recipe(
        Form(Fraction(8), group=PER_OUTPUT, scale_bits=32), activation_bits=8
    ),
}
"""Schemes by their name without underscores and without ``Config``."""


def read_torchao(fields: Fields) -> Scheme:
    """Forms of a torchao file."""
    name, options = _scheme(fields)
    key = re.sub(r"_|config$", "", name.lower())
    recipe = RECIPES.get(key)
    if recipe is None:
        problem = f"{shown(name)} is none of {', '.join(RECIPES)}"
        raise FieldError(fields.at("quant_type"), problem, SET_WEIGHTS)
    form = recipe.form
    if recipe.has_groups:
        form = Form(
            form.bits,
            group=options.whole("group_size", form.group),
            scale_bits=form.scale_bits,
            zero_bits=form.zero_bits,
        )
    left_out = fields.names("modules_to_not_convert")
    with_ends = fields.flag("include_input_output_embeddings")

    def form_of(matrix: Matrix) -> Form | None:
        is_end = matrix.role in ("head", "embedding")
        if is_named(matrix, left_out) or (is_end and not with_ends):
            return None
        return form if matrix.is_plain or is_end else None

    return Scheme(f"torchao, {name}", form_of, activation_bits=recipe.activation_bits)


def _scheme(fields: Fields) -> tuple[str, Fields]:
    """Name of the scheme and its options, as older files and newer ones have them."""
    if isinstance(fields.raw.get("quant_type"), str):
        return fields.text("quant_type"), fields.inner("quant_type_kwargs")
    usual = fields.inner("quant_type").inner("default")
    return usual.text("_type"), usual.inner("_data")
