"""FP8 as DeepSeek-V3 and transformers store it: scales for blocks of weights, or for a matrix.

Activations are rounded to 8 bits, with scales that are found while decoding (``dynamic``) or lie in
the file (``static``), one for each matrix. The classifier is not quantised.
Source: transformers, ``integrations/finegrained_fp8.py``; vLLM, ``quantization/fp8.py``.
"""

from fractions import Fraction

from carsim.base.section import FieldError
from carsim.base.yaml_file import shown
from carsim.workload.hf_config.keys import PUBLISHED
from carsim.workload.hf_config.quantisation.fields import Fields, is_named
from carsim.workload.hf_config.quantisation.form import Form, Scheme
from carsim.workload.hf_config.tensors import Matrix

SCALE_BITS = 32


def read_fp8(fields: Fields) -> Scheme:
    """Forms of an FP8 file."""
    scheme = fields.text("activation_scheme", "dynamic")
    if scheme not in ("dynamic", "static"):
        problem = f"should be dynamic or static, got {shown(scheme)}"
        raise FieldError(fields.at("activation_scheme"), problem, PUBLISHED)
    # A static scale of the inputs lies beside that of the weights.
    input_scale_bits = SCALE_BITS if scheme == "static" else 0
    block = fields.raw.get("weight_block_size")
    if block is None:
        form = Form(Fraction(8), tensor_bits=SCALE_BITS + input_scale_bits)
    else:
        outputs, inputs = _block(block, fields)
        form = Form(
            Fraction(8),
            group=inputs,
            block_outputs=outputs,
            scale_bits=SCALE_BITS,
            tensor_bits=input_scale_bits,
        )
    left_out = fields.names("modules_to_not_convert") + fields.names("ignored_layers")

    def form_of(matrix: Matrix) -> Form | None:
        # Routers of DeepSeek are no Linear; files whose routers are name them.
        is_kept = matrix.role in ("head", "embedding", "router") or is_named(matrix, left_out)
        return None if is_kept else form

    return Scheme(f"FP8, {scheme} activations", form_of, activation_bits=8)


def _block(block: object, fields: Fields) -> tuple[int, int]:
    """Outputs and inputs that share a scale."""
    is_pair = isinstance(block, list) and len(block) == 2
    sizes = block if isinstance(block, list) else []
    if not is_pair or not all(type(size) is int and 0 < size <= 65_536 for size in sizes):
        problem = f"should be two sizes such as [128, 128], got {shown(block)}"
        raise FieldError(fields.at("weight_block_size"), problem, PUBLISHED)
    return sizes[0], sizes[1]
