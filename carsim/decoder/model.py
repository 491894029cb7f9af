"""A body with its embeddings: from prompt bytes and visual tokens to hidden states and logits.

A checkpoint is a ``.safetensors`` file: eight bytes of header length (little endian), a JSON header
naming each tensor's type, shape and byte range, then the bytes. Simplification: half, single and
double precision only.
"""

import hashlib
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from carsim.base.errors import InputError
from carsim.base.files import read_file
from carsim.decisions.trace.meta import Geometry
from carsim.decisions.trace.npz import MAX_BYTES, write_bytes

TEXT_SYMBOLS = 256
"""Prompts are UTF-8 bytes."""

_TYPES = {"F16": "<f2", "F32": "<f4", "F64": "<f8"}
_CURE = "write the checkpoint again with carsim.decoder.model.save_model"
_SHAPES = {
    "wq": "L q d",
    "wk": "L kv d",
    "wv": "L kv d",
    "wo": "L d q",
    "w_gate": "L F d",
    "w_up": "L F d",
    "w_down": "L d F",
    "ln_attn": "L d",
    "ln_mlp": "L d",
    "ln_final": "d",
    "begin": "d",
    "embed_text": "text d",
    "embed_visual": "codes d",
    "head": "codes d",
}
"""Arrays, and the letters of their shapes: L layers, d hidden size, q and kv sizes of all query and
key heads, F feed-forward size, text symbols, visual codes."""

_GEOMETRY_KEYS = ("n_layers", "hidden_size", "n_heads", "n_kv_heads", "head_dim", "ffn_size")


@dataclass(frozen=True, eq=False)
class DecoderModel:
    """Geometry, matrices, and where they came from.

    Attributes:
        geometry: Shape of the body.
        arrays: ``wq wk wv wo w_gate w_up w_down`` [L, out, in] (y = x @ W.T), ``ln_attn ln_mlp``
            [L, d], ``ln_final`` [d], ``embed_text`` [256, d], ``embed_visual`` [K, d], ``begin``
            [d] (fed where no visual token is there yet), ``head`` [K, d] (logits = hidden @
            head.T).
        source: For the metadata of a trace.
    """

    geometry: Geometry
    arrays: dict[str, NDArray[Any]]
    source: str

    @property
    def n_codes(self) -> int:
        """K."""
        return len(self.arrays["embed_visual"])


def load_model(path: Path) -> DecoderModel:
    """A trained checkpoint: ``.safetensors`` with the arrays of :class:`DecoderModel`.

    Its metadata gives ``name`` and, as text, the numbers of
    :class:`~carsim.decisions.trace.meta.Geometry`. It must have been trained with RMS epsilon 1e-5
    and rotary theta 10000.

    Raises:
        InputError: The file or its metadata cannot be read, an array is missing or has another
            shape, or holds NaN or infinity.
    """
    data = read_file(path, MAX_BYTES)
    start = 8 + int.from_bytes(data[:8], "little")
    try:
        if len(data) < 8 or start > len(data):
            raise ValueError("truncated header")
        header = json.loads(data[8:start])
        metadata = dict(header.pop("__metadata__", {}))
        tensors = {name: _tensor(data[start:], entry) for name, entry in header.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        problem = f"not a readable .safetensors file ({str(error)[:80]})"
        raise InputError(str(path), problem, _CURE) from error
    try:
        sizes = {key: int(metadata[key]) for key in _GEOMETRY_KEYS}
        geometry = Geometry.model_validate({"name": metadata["name"], **sizes})
    except (KeyError, ValueError, ValidationError) as error:
        problem = f"expected name and {', '.join(_GEOMETRY_KEYS)}, got {metadata}"
        raise InputError(f"{path}: metadata", problem, _CURE) from error
    digest = hashlib.sha256(data).hexdigest()
    source = f"checkpoint {path.name}, sha256 {digest}"
    model = DecoderModel(geometry, tensors, source=source)
    _check(model, path)
    return model


def _tensor(data: bytes, entry: dict[str, Any]) -> NDArray[Any]:
    """A tensor of a checkpoint, from the bytes of all tensors and its entry in the header.

    Raises:
        ValueError: Its byte range does not fit.
    """
    dtype = np.dtype(_TYPES[entry["dtype"]])
    shape = entry["shape"]
    start, end = entry["data_offsets"]
    is_in_file = 0 <= start <= end <= len(data)
    if not is_in_file or end - start != math.prod(shape) * dtype.itemsize:
        raise ValueError("byte range does not fit the shape or the file")
    return np.frombuffer(data[start:end], dtype).reshape(shape)


def save_model(path: Path, model: DecoderModel, *, overwrite: bool = False) -> None:
    """Write a checkpoint that :func:`load_model` reads.

    Raises:
        InputError: An array is missing or has another shape, the file exists and ``overwrite`` is
            off, or the folder is not writable.
    """
    _check(model, path)
    metadata = {key: str(getattr(model.geometry, key)) for key in ("name", *_GEOMETRY_KEYS)}
    header: dict[str, Any] = {"__metadata__": metadata}
    data = b""
    for name, array in model.arrays.items():
        kind = next(key for key, code in _TYPES.items() if np.dtype(code) == array.dtype)
        byte_range = [len(data), len(data) + array.nbytes]
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": byte_range}
        data += array.astype(_TYPES[kind]).tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # tensors start on a multiple of eight bytes
    write_bytes(path, len(text).to_bytes(8, "little") + text + data, overwrite=overwrite)


def _check(model: DecoderModel, path: Path) -> None:
    """Refuse a model whose arrays are missing, unknown, of another shape, or not finite."""
    body = model.geometry
    sizes = {
        "L": body.n_layers,
        "d": body.hidden_size,
        "F": body.ffn_size,
        "q": body.n_heads * body.head_dim,
        "kv": body.n_kv_heads * body.head_dim,
        "text": TEXT_SYMBOLS,
        "codes": len(model.arrays.get("embed_visual", ())),
    }
    if wrong_names := sorted(model.arrays.keys() ^ _SHAPES.keys()):
        problem = f"arrays missing or unknown: {', '.join(wrong_names)}"
        raise InputError(str(path), problem, f"needs {', '.join(_SHAPES)}")
    for name, letters in _SHAPES.items():
        array = model.arrays[name]
        shape = tuple(sizes[letter] for letter in letters.split())
        if array.shape != shape or not np.isfinite(array).all():
            problem = f"expected finite numbers of shape {shape}, got shape {array.shape}"
            raise InputError(f"{path}: array {name!r}", problem, "export the checkpoint again")
