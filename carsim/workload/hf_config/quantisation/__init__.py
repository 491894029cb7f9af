"""Formats of quantised checkpoints: one reader each, by the name that files give them.

A reader takes the format's section of a file, and returns a :class:`Scheme`: the form of each
matrix. To add a format, write a module with such a function, and enter it in :data:`READERS`.
"""

from collections.abc import Callable, Mapping
from typing import Any

from carsim.base.section import FieldError
from carsim.base.yaml_file import shown
from carsim.workload.hf_config.keys import SET_WEIGHTS
from carsim.workload.hf_config.quantisation.auto_round import read_auto_round
from carsim.workload.hf_config.quantisation.awq import read_awq
from carsim.workload.hf_config.quantisation.bitsandbytes import read_bitsandbytes
from carsim.workload.hf_config.quantisation.compressed_tensors import read_compressed_tensors
from carsim.workload.hf_config.quantisation.exl2 import read_exl2
from carsim.workload.hf_config.quantisation.fields import Fields
from carsim.workload.hf_config.quantisation.form import Form, Scheme, plain
from carsim.workload.hf_config.quantisation.fp8 import read_fp8
from carsim.workload.hf_config.quantisation.gptq import read_gptq
from carsim.workload.hf_config.quantisation.hqq import read_hqq
from carsim.workload.hf_config.quantisation.mlx import read_mlx
from carsim.workload.hf_config.quantisation.modelopt import read_modelopt
from carsim.workload.hf_config.quantisation.mxfp4 import read_mxfp4
from carsim.workload.hf_config.quantisation.torchao import read_torchao

READERS: Mapping[str, Callable[[Fields], Scheme]] = {
    "auto-round": read_auto_round,
    "awq": read_awq,
    "bitsandbytes": read_bitsandbytes,
    "compressed-tensors": read_compressed_tensors,
    "exl2": read_exl2,
    "exl3": read_exl2,
    "fp8": read_fp8,
    "gptq": read_gptq,
    "hqq": read_hqq,
    "mlx": read_mlx,
    "modelopt": read_modelopt,
    "mxfp4": read_mxfp4,
    "torchao": read_torchao,
}
"""``quant_method`` -> reader."""

SYNONYMS: Mapping[str, str] = {
    "auto_round": "auto-round",
    "compressed_tensors": "compressed-tensors",
    "fbgemm_fp8": "fp8",
    "intel/auto-round": "auto-round",
    "marlin": "gptq",
}
"""Other names of formats."""

SECTION = "quantization_config"
MLX_SECTION = "quantization"
SIDECAR = "hf_quant_config.json"
"""ModelOpt's own file, beside ``config.json``."""


def read_scheme(config: Mapping[str, Any], sidecar: Mapping[str, Any] | None) -> Scheme | None:
    """Forms that a file asks for; None: it is not quantised.

    Args:
        config: Keys of ``config.json``.
        sidecar: Keys of ModelOpt's file beside it; None if there is none.

    Raises:
        FieldError: An unknown format, or a value that makes no sense.
    """
    section = config.get(SECTION)
    if section is None and sidecar is not None:
        return read_modelopt(Fields(sidecar, ""))
    if section is None and isinstance(config.get(MLX_SECTION), Mapping):
        return read_mlx(Fields(config[MLX_SECTION], MLX_SECTION))
    if section is None:
        return None
    fields = Fields(config, "").inner(SECTION)
    method = fields.text("quant_method")
    if not method:
        method = _method_of_keys(fields)
    reader = READERS.get(SYNONYMS.get(method, method))
    if reader is None:
        problem = f"{shown(method)} is none of {', '.join(READERS)}"
        raise FieldError(fields.at("quant_method"), problem, SET_WEIGHTS)
    return reader(fields)


def _method_of_keys(fields: Fields) -> str:
    """The format of a section that does not name it, as MLX and ModelOpt write it."""
    if "quant_algo" in fields.raw or "quantization" in fields.raw:
        return "modelopt"
    if "load_in_4bit" in fields.raw or "load_in_8bit" in fields.raw:
        return "bitsandbytes"
    return "mlx" if {"bits", "group_size"} <= fields.raw.keys() else ""


__all__ = ["READERS", "SIDECAR", "Form", "Scheme", "plain", "read_scheme"]
