"""A check of what a file says against the weight files beside it, byte for byte.

``model.safetensors.index.json`` has the bytes of all tensors; the headers of ``.safetensors`` files
have those of each one. Tensors of towers for pictures or sound, and of layers that predict further
tokens, are left out where headers name them.

The headers are read by the library safetensors (extra ``checkpoint``).
"""

import math
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from carsim.base.environment import is_installed, library
from carsim.base.errors import InputError, first_line
from carsim.base.files import admit, read_json
from carsim.base.text import count
from carsim.base.yaml_file import MAX_BYTES
from carsim.workload.body import Body
from carsim.workload.hf_config.quantisation import Form
from carsim.workload.hf_config.tensors import Matrix

INDEX = "model.safetensors.index.json"
WHOLE = "model.safetensors"
_FETCH = "fetch it again, whole"

DTYPE_BITS = {"BOOL": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "BF16": 16, "F4": 4}
"""Bits of types of safetensors whose names do not end in them."""

OTHER_PARTS = re.compile(
    r"(^|\.)(vision\w*|visual|image_\w+|audio\w*|multi_modal\w*|mm_projector|aligner|connector"
    r"|gen_\w+|vqmodel|mtp|rotary_emb)(\.|$)"
)
"""Tensors that belong to no layer of the text."""

_LAYER = re.compile(r"(?:^|\.)layers\.([0-9]+)\.")


class StoredSizeWarning(UserWarning):
    """The weight files beside a model's file do not hold what the file says."""


class StoredMatrix(NamedTuple):
    """A matrix and the form in which it is stored."""

    matrix: Matrix
    form: Form


def expected_bytes(stored: list[StoredMatrix], body: Body, bits: int) -> int:
    """Bytes of all tensors that a model's file asks for.

    Args:
        stored: All matrices.
        body: The layers, whose norms, biases and positions are added.
        bits: Bits of what is not quantised.
    """
    matrix_bytes = sum(entry.form.stored_bytes(entry.matrix) for entry in stored)
    unquantised = body.norms + body.all_biases + body.position_weights
    return matrix_bytes + unquantised * bits // 8


def check_stored(config: Path, expected: int, n_layers: int) -> None:
    """Compare the bytes that a model should take with those of the weight files beside its file.

    Nothing is said where they are equal, or where there are no such files.

    Args:
        config: The ``config.json``.
        expected: Bytes by :func:`expected_bytes`.
        n_layers: Layers of the model; later ones predict further tokens.

    Raises:
        InputError: A weight file is damaged, or the index is no index, or names some files that are
            absent and others that are there.
    """
    folder = config.parent
    index = folder / INDEX
    files = [folder / WHOLE] if admit(folder / WHOLE).is_file() else []
    if admit(index).is_file():
        document = read_json(index, 8 * MAX_BYTES)
        files = _shards(index, document)
        if not files:
            _compare(config, expected, _total(index, document), f"{INDEX} has")
            return
    if not files:
        return
    if not is_installed("safetensors"):
        note = f"{config}: its weight files are not checked, as the library safetensors is missing"
        warnings.warn(f"{note}; pip install carsim[checkpoint]", StoredSizeWarning, stacklevel=2)
        return
    stored_bytes = 0
    for path in files:
        for tensor in _tensors(path):
            if not _is_of_other_parts(tensor.name, n_layers):
                stored_bytes += tensor.nbytes
    _compare(config, expected, stored_bytes, f"its {count(len(files), 'weight file')} hold")


def _compare(config: Path, expected: int, stored_bytes: int, source: str) -> None:
    """Say by how much two numbers of bytes differ, if they do.

    Args:
        config: File of the configuration.
        expected: Bytes of the weights as it describes them.
        stored_bytes: Bytes of the weights that are there.
        source: What says so, with its verb.
    """
    if stored_bytes == expected:
        return
    difference = abs(stored_bytes - expected)
    percent = 100 * difference / expected
    direction = "more" if stored_bytes > expected else "less"
    note = f"{config}: as described, the weights take {expected:,} bytes; {source} {stored_bytes:,}"
    text = f"{note}, {difference:,} {direction} ({percent:.2g} %)"
    warnings.warn(text, StoredSizeWarning, stacklevel=2)


def _is_of_other_parts(name: str, n_layers: int) -> bool:
    """The tensor belongs to a tower, or to a layer beyond the model's."""
    layer = _LAYER.search(name)
    is_beyond = layer is not None and int(layer[1]) >= n_layers
    return is_beyond or OTHER_PARTS.search(name) is not None


def _total(index: Path, document: dict[str, Any]) -> int:
    """Bytes of all tensors, as an index says it."""
    metadata = document.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    if isinstance(total, float) and total.is_integer():  # as some tools write it
        total = int(total)
    if isinstance(total, bool) or not isinstance(total, int) or total <= 0:
        raise InputError(f"{index}: $.metadata.total_size", "is no number of bytes", _FETCH)
    return total


def _shards(index: Path, document: dict[str, Any]) -> list[Path]:
    """Files that an index names; none where all of them are absent."""
    weight_map = document.get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise InputError(f"{index}: $.weight_map", "is missing", _FETCH)
    names = sorted({name for name in weight_map.values() if isinstance(name, str)})
    strange = [name for name in names if Path(name).name != name]
    if strange:
        raise InputError(
            f"{index}: $.weight_map", f"names {strange[0]!r}, no file beside it", _FETCH
        )
    paths = [index.parent / name for name in names]
    absent = [path.name for path in paths if not admit(path).is_file()]
    if not absent:
        return paths
    if len(absent) < len(paths):
        problem = f"names {count(len(absent), 'absent file')} of {len(paths)}: {absent[0]}"
        raise InputError(f"{index}: $.weight_map", problem, "fetch the absent files")
    note = f"{index}: names {count(len(absent), 'file')}, none of which lies beside it"
    warnings.warn(f"{note}; its total_size is checked alone", StoredSizeWarning, stacklevel=2)
    return []


class _Tensor(NamedTuple):
    """A tensor of a weight file."""

    name: str
    nbytes: int


def _tensors(path: Path) -> Iterator[_Tensor]:
    """Tensors that the header of a ``.safetensors`` file names."""
    safetensors = library("safetensors", str(path))
    try:
        with safetensors.safe_open(admit(path), framework="numpy") as opened:
            for name in opened.keys():  # noqa: SIM118 - it is no mapping
                tensor = opened.get_slice(name)
                bits = math.prod(tensor.get_shape()) * _bits(tensor.get_dtype())
                yield _Tensor(name, -(-bits // 8))
    except (OSError, safetensors.SafetensorError) as error:
        problem = f"is no complete safetensors file ({first_line(error)})"
        raise InputError(str(path), problem, _FETCH) from None


def _bits(dtype: str) -> int:
    """Bits of an element of a type of safetensors."""
    return DTYPE_BITS.get(dtype) or int(re.sub(r"\D", "", dtype) or 8)
