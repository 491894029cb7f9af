"""MLX: groups with a scale and a bias of 16 bits; embedding and classifier are quantised as well.

An entry with a module's name gives its own bits, or leaves it out (``false``).
Source: ml-explore/mlx, ``python/mlx/nn/layers/quantized.py``.
"""

from fractions import Fraction

from carsim.workload.hf_config.quantisation.fields import Fields, is_named
from carsim.workload.hf_config.quantisation.form import Form, Scheme
from carsim.workload.hf_config.tensors import Matrix

SCALE_BITS = 16


def read_mlx(fields: Fields) -> Scheme:
    """Forms of an MLX file."""
    usual = _form(fields, fields)
    by_module = {key: _form(section, fields) for key, section in fields.sections().items()}
    left_out = [key for key, value in fields.raw.items() if value is False]

    def form_of(matrix: Matrix) -> Form | None:
        if is_named(matrix, left_out):
            return None
        for module, form in by_module.items():
            if is_named(matrix, [module]):
                return form
        return usual

    return Scheme(f"MLX, {fields.bits('bits')} bits", form_of)


def _form(own: Fields, usual: Fields) -> Form:
    """Form of an entry; what it leaves out is that of the whole file."""
    group = own.whole("group_size", usual.whole("group_size", 64))
    bits = Fraction(own.bits("bits", usual.bits("bits")))
    if own.text("mode", usual.text("mode", "affine")).startswith(("mxfp", "nvfp")):
        return Form(bits, group=group, scale_bits=8)
    return Form(bits, group=group, scale_bits=SCALE_BITS, zero_bits=SCALE_BITS)
