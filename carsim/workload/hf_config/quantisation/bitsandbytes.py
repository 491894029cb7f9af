"""bitsandbytes: NF4 or FP4 in blocks of 64 weights, or LLM.int8.

The scale of a block has 32 bits. Double quantisation gives it 8, and 256 blocks 32 more; each
matrix keeps an offset of 32 bits, two tables and its shape besides. LLM.int8 has a scale of 32 bits
for each output. The classifier is not quantised.
Source: bitsandbytes, ``bitsandbytes/functional.py``; QLoRA (arXiv 2305.14314), section 3.
"""

from fractions import Fraction

from carsim.base.section import FieldError
from carsim.base.yaml_file import shown
from carsim.workload.hf_config.keys import PUBLISHED
from carsim.workload.hf_config.quantisation.fields import Fields, is_named
from carsim.workload.hf_config.quantisation.form import PER_OUTPUT, Form, Scheme
from carsim.workload.hf_config.tensors import Matrix

BLOCK = 64
"""Weights that share a scale."""
BLOCKS = 256
"""Blocks whose scales share one, in double quantisation."""
TABLE_BITS = 16 * 32
"""Bits of a table of the 16 levels."""
NESTED_TABLE_BITS = 256 * 32
"""Bits of a table of the 256 levels of a scale."""


def read_bitsandbytes(fields: Fields) -> Scheme:
    """Forms of a bitsandbytes file."""
    left_out = fields.names("llm_int8_skip_modules")
    if fields.flag("load_in_8bit") or fields.flag("_load_in_8bit"):
        name = "LLM.int8"
        form = Form(Fraction(8), group=PER_OUTPUT, scale_bits=32)
    else:
        name = fields.text("bnb_4bit_quant_type", "fp4").upper()
        if name not in ("NF4", "FP4"):
            problem = f"should be nf4 or fp4, got {shown(name)}"
            raise FieldError(fields.at("bnb_4bit_quant_type"), problem, PUBLISHED)
        form = _four_bits(is_nested=fields.flag("bnb_4bit_use_double_quant"))

    def form_of(matrix: Matrix) -> Form | None:
        if not matrix.is_plain or matrix.role == "head":
            return None
        return None if is_named(matrix, left_out) else form

    return Scheme(f"bitsandbytes, {name}", form_of)


def _four_bits(*, is_nested: bool) -> Form:
    """Four bits with scales of blocks, which are quantised themselves if nested."""
    if not is_nested:
        return Form(Fraction(4), group=BLOCK, scale_bits=32, tensor_bits=TABLE_BITS, flat=True)
    return Form(
        Fraction(4) + Fraction(32, BLOCK * BLOCKS),
        group=BLOCK,
        scale_bits=8,
        tensor_bits=TABLE_BITS + NESTED_TABLE_BITS + 32,
        flat=True,
    )
