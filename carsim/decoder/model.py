"""A body with its embeddings: from prompt bytes and visual tokens to hidden states and logits."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from carsim.base.errors import InputError
from carsim.decisions.trace import Geometry
from carsim.decoder.safetensors import load_safetensors, save_safetensors
from carsim.decoder.structures import parse_shapes

TEXT_SYMBOLS = 256
"""Prompts are UTF-8 bytes."""

_SHAPES = parse_shapes(
    "wq: L q d, wk: L kv d, wv: L kv d, wo: L d q, w_gate: L F d, w_up: L F d, w_down: L d F, "
    "ln_attn: L d, ln_mlp: L d, ln_final: d, embed_text: text d, embed_visual: codes d, begin: d, "
    "head: codes d"
)
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
    :class:`~carsim.decisions.trace.Geometry`. It must have been trained with RMS epsilon 1e-5 and
    rotary theta 10000.

    Raises:
        InputError: The file or its metadata cannot be read, an array is missing or has another
            shape, or holds NaN or infinity.
    """
    checkpoint = load_safetensors(path)
    try:
        numbers = {key: int(checkpoint.metadata[key]) for key in _GEOMETRY_KEYS}
        geometry = Geometry(name=checkpoint.metadata["name"], **numbers)
    except (KeyError, ValueError, ValidationError) as error:
        problem = f"expected name and {', '.join(_GEOMETRY_KEYS)}, got {checkpoint.metadata}"
        cure = "save the checkpoint with carsim.decoder.model.save_model"
        raise InputError(f"{path}: metadata", problem, cure) from error
    model = DecoderModel(
        geometry, checkpoint.tensors, f"checkpoint {path.name}, sha256 {checkpoint.sha256}"
    )
    _check(model, str(path))
    return model


def save_model(path: Path, model: DecoderModel, *, overwrite: bool = False) -> None:
    """Write a checkpoint that :func:`load_model` reads.

    Raises:
        InputError: An array is missing or has another shape, the file exists and ``overwrite`` is
            off, or the folder is not writable.
    """
    _check(model, str(path))
    metadata = {key: str(getattr(model.geometry, key)) for key in ("name", *_GEOMETRY_KEYS)}
    save_safetensors(path, model.arrays, metadata, overwrite=overwrite)


def _check(model: DecoderModel, place: str) -> None:
    shape = model.geometry
    sizes = {"L": shape.n_layers, "d": shape.hidden_size, "F": shape.ffn_size}
    sizes |= {"q": shape.n_heads * shape.head_dim, "kv": shape.n_kv_heads * shape.head_dim}
    sizes |= {"text": TEXT_SYMBOLS, "codes": len(model.arrays.get("embed_visual", ()))}
    if set(model.arrays) != set(_SHAPES):
        odd = sorted(set(model.arrays) ^ set(_SHAPES))
        problem = f"arrays missing or unknown: {', '.join(odd)}"
        raise InputError(place, problem, f"needs {', '.join(_SHAPES)}")
    for name, letters in _SHAPES.items():
        array, wanted = model.arrays[name], tuple(sizes[letter] for letter in letters.split())
        if array.shape != wanted or not np.isfinite(array).all():
            problem = f"expected finite numbers of shape {wanted}, got shape {array.shape}"
            raise InputError(f"{place}: array {name!r}", problem, "export the checkpoint again")
