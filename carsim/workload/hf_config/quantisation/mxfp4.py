"""MXFP4 of gpt-oss: the experts have 4 bits, and 8 bits of scale for 32 weights; nothing else has.

Sources: OCP Microscaling Formats 1.0; transformers, ``integrations/mxfp4.py``.
"""

from fractions import Fraction

from carsim.workload.hf_config.quantisation.fields import Fields, is_globbed
from carsim.workload.hf_config.quantisation.form import Form, Scheme
from carsim.workload.hf_config.tensors import Matrix

FORM = Form(Fraction(4), group=32, scale_bits=8)


def read_mxfp4(fields: Fields) -> Scheme:
    """Forms of an MXFP4 file."""
    left_out = fields.names("modules_to_not_convert")

    def form_of(matrix: Matrix) -> Form | None:
        return FORM if matrix.role == "experts" and not is_globbed(matrix, left_out) else None

    return Scheme("MXFP4 experts", form_of)
