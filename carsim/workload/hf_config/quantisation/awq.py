"""AWQ, as AutoAWQ stores it: a scale of 16 bits and a zero point for each group of inputs.

The classifier and routers are not quantised. ``modules_to_not_convert`` leaves out more.
Source: AutoAWQ, ``awq/modules/linear/gemm.py``.
"""

from carsim.workload.hf_config.quantisation.fields import Fields, is_named
from carsim.workload.hf_config.quantisation.form import Form, Scheme
from carsim.workload.hf_config.quantisation.gptq import grouped_form
from carsim.workload.hf_config.tensors import Matrix


def read_awq(fields: Fields) -> Scheme:
    """Forms of an AWQ file."""
    # AutoAWQ's own quant_config.json has these names.
    key = "w_bit" if "w_bit" in fields.raw else "bits"
    group_key = "q_group_size" if "q_group_size" in fields.raw else "group_size"
    bits = fields.bits(key, 4)
    # Each group stores a zero point, whatever ``zero_point`` says.
    form = grouped_form(bits, fields.whole(group_key, 128, least=-1), index_bits=0)
    left_out = fields.names("modules_to_not_convert")

    def form_of(matrix: Matrix) -> Form | None:
        is_kept = matrix.role in ("head", "router") or is_named(matrix, left_out)
        return None if is_kept or not matrix.is_plain else form

    return Scheme(f"AWQ, {bits} bits", form_of)
