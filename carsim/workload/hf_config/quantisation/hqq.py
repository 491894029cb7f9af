"""HQQ: groups with a scale and a zero point of 16 bits; modules may have bits of their own.

Source: mobiusml/hqq, ``hqq/core/quantize.py``; transformers, ``HqqConfig``.
"""

from fractions import Fraction

from carsim.workload.hf_config.quantisation.fields import Fields, is_named
from carsim.workload.hf_config.quantisation.form import PER_OUTPUT, Form, Scheme
from carsim.workload.hf_config.tensors import Matrix

SCALE_BITS = 16


def read_hqq(fields: Fields) -> Scheme:
    """Forms of an HQQ file."""
    config = fields.inner("quant_config")
    usual = None
    by_module: dict[str, Form] = {}
    if "weight_quant_params" in config.raw or not config.sections():
        usual = _form(config.inner("weight_quant_params"))
    else:
        for module, params in config.sections().items():
            if "weight_quant_params" in params.raw:
                params = params.inner("weight_quant_params")
            by_module[module] = _form(params)
    left_out = fields.names("skip_modules") or ("lm_head",)

    def form_of(matrix: Matrix) -> Form | None:
        if not matrix.is_plain or is_named(matrix, left_out):
            return None
        for module, form in by_module.items():
            if is_named(matrix, [module]):
                return form
        return usual

    return Scheme("HQQ", form_of)


def _form(fields: Fields) -> Form:
    """Form of the parameters of a module's weights."""
    group = fields.raw.get("group_size", 64)
    return Form(
        Fraction(fields.bits("nbits", 4)),
        group=PER_OUTPUT if group is None else fields.whole("group_size", 64),
        scale_bits=SCALE_BITS,
        zero_bits=SCALE_BITS,
        flat=group is not None,
    )
