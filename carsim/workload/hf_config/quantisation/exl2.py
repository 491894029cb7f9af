"""EXL2 and EXL3: a mean of bits over the layers, and bits of the classifier.

The mean counts scales as well. The embedding is not quantised. Simplification: all matrices of the
layers have the mean; a file's single matrices have from 2 to 8 bits.
Source: turboderp/exllamav2, ``doc/convert.md``.
"""

from carsim.workload.hf_config.quantisation.fields import Fields
from carsim.workload.hf_config.quantisation.form import Form, Scheme
from carsim.workload.hf_config.tensors import Matrix

HEAD_BITS = 6
"""Bits of the classifier unless others are asked for (``convert.py -hb``)."""


def read_exl2(fields: Fields) -> Scheme:
    """Forms of an EXL2 or EXL3 file."""
    mean = fields.mean_bits("bits")
    head = fields.mean_bits("head_bits", HEAD_BITS)

    def form_of(matrix: Matrix) -> Form | None:
        if matrix.role in ("embedding", "router"):
            return None
        return Form(head if matrix.role == "head" else mean)

    return Scheme(f"EXL, {float(mean):g} bits", form_of)
