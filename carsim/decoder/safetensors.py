"""Reading and writing ``.safetensors`` checkpoints: the part of the format that is needed here.

Layout: eight bytes of header length (little endian), a JSON header naming each tensor's type,
shape and byte range, then the bytes. Simplification: half, single and double precision only.
"""

import hashlib
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from carsim.base.errors import InputError
from carsim.base.files import read_file
from carsim.decisions.trace.npz import MAX_BYTES, write_bytes

_TYPES = {"F16": "<f2", "F32": "<f4", "F64": "<f8"}
_CURE = "write the checkpoint again as .safetensors with F16, F32 or F64 tensors"


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """Tensors of a file, its free-text metadata, and its hash in hexadecimal."""

    tensors: dict[str, NDArray[Any]]
    metadata: dict[str, str]
    sha256: str


def load_safetensors(path: Path) -> Checkpoint:
    """Read a whole checkpoint.

    Raises:
        InputError: The file is missing, too large, truncated, or not of the format.
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
    return Checkpoint(tensors, metadata, hashlib.sha256(data).hexdigest())


def save_safetensors(
    path: Path,
    tensors: dict[str, NDArray[Any]],
    metadata: dict[str, str],
    *,
    overwrite: bool = False,
) -> None:
    """Write a checkpoint, whole or not at all.

    Raises:
        InputError: The file exists and ``overwrite`` is off, or the folder is not writable.
    """
    header: dict[str, Any] = {"__metadata__": metadata}
    blobs: list[bytes] = []
    offset = 0
    for name, tensor in tensors.items():
        kind = next(key for key, code in _TYPES.items() if np.dtype(code) == tensor.dtype)
        blobs.append(tensor.astype(_TYPES[kind]).tobytes())
        end = offset + len(blobs[-1])
        header[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # tensors start on a multiple of eight bytes
    write_bytes(
        path, b"".join([len(text).to_bytes(8, "little"), text, *blobs]), overwrite=overwrite
    )


def _tensor(data: bytes, entry: dict[str, Any]) -> NDArray[Any]:
    dtype = np.dtype(_TYPES[entry["dtype"]])
    start, end = entry["data_offsets"]
    if not (0 <= start <= end <= len(data)) or end - start != math.prod(
        entry["shape"], start=dtype.itemsize
    ):
        raise ValueError("byte range does not fit the shape or the file")
    return np.frombuffer(data[start:end], dtype).reshape(entry["shape"])
