"""A body with its embeddings: from prompt bytes and visual tokens to hidden states and logits.

Two kinds: a trained checkpoint, or random weights for traces of which only the statistics matter.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from carsim.base.errors import InputError
from carsim.decisions.trace import Geometry
from carsim.decoder.content.tokens import Codebook
from carsim.decoder.safetensors import load_safetensors, save_safetensors
from carsim.decoder.structures import Array, parse_shapes

TEXT_SYMBOLS = 256
"""Prompts are UTF-8 bytes."""

_LIKENESS = 0.9
_SLOW_GAIN = 2.0
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


def random_model(geometry: Geometry, codebook: Codebook, seed: int) -> DecoderModel:
    """Untrained weights whose scores still depend on what is seen.

    Model: Gaussian matrices, residual branches scaled by 1 / sqrt(2 L) (as in GPT-2). Two things a
    trained model has are put in by hand, without which replay decisions would be noise:

    * visual embeddings are a random projection of the code's pixels, so that patches that look
      alike are fed alike;
    * in the sixth of each head's planes that the rotary embedding turns slowest, queries and keys
      are twice as large and keys are 0.9 times the query plus independent noise of equal total
      variance. TAS then measures how alike a token and its predecessor are, as FastCar observes
      of trained models (arXiv 2505.14709, section 3), which match content in the slow planes
      (arXiv 2410.06205). In faster planes the released score, whose query is not rotated, would
      swing with the absolute position of the key, and so in all rows at once.

    Simplification: nothing else is learned; logits mean nothing, and which layers replay most is
    chance. Where query heads share a key head, its key resembles the first one's query.
    """
    rng = np.random.default_rng([seed, 0])
    shape = geometry
    layers, d, ffn = shape.n_layers, shape.hidden_size, shape.ffn_size
    q, kv = shape.n_heads * shape.head_dim, shape.n_kv_heads * shape.head_dim

    def gaussian(*size: int) -> Array:
        values: Array = rng.standard_normal(size) / np.sqrt(size[-1])
        return values

    branch = 1 / np.sqrt(2 * layers)
    planes = np.arange(shape.head_dim) % (shape.head_dim // 2)  # of each dimension of a head
    slow = planes >= shape.head_dim // 2 - max(1, shape.head_dim // 12)
    gain = np.where(slow, _SLOW_GAIN, 1.0)[:, None]  # [hd, 1]
    heads_q = gaussian(layers, q, d).reshape(layers, shape.n_heads, shape.head_dim, d)
    heads_k = gaussian(layers, kv, d).reshape(layers, shape.n_kv_heads, shape.head_dim, d)
    first_served = heads_q[:, :: shape.n_heads // shape.n_kv_heads]
    alike = _LIKENESS * first_served + np.sqrt(1 - _LIKENESS**2) * heads_k
    heads_k = np.where(slow[:, None], alike, heads_k)
    pixels = codebook.codes.astype(float)
    pixels -= pixels.mean(axis=0)
    looks = pixels @ rng.standard_normal((pixels.shape[1], d))
    arrays = {
        "wq": (gain * heads_q).reshape(layers, q, d),
        "wk": (gain * heads_k).reshape(layers, kv, d),
        "wv": gaussian(layers, kv, d),
        "wo": branch * gaussian(layers, d, q),
        "w_gate": gaussian(layers, ffn, d),
        "w_up": gaussian(layers, ffn, d),
        "w_down": 2 * branch * gaussian(layers, d, ffn),  # gating halves what comes through
        "ln_attn": np.ones((layers, d)),
        "ln_mlp": np.ones((layers, d)),
        "ln_final": np.ones(d),
        "embed_text": rng.standard_normal((TEXT_SYMBOLS, d)),
        "embed_visual": looks / np.sqrt((looks**2).mean()),
        "begin": rng.standard_normal(d),
        "head": gaussian(codebook.n_codes, d),
    }
    return DecoderModel(geometry, {k: a.astype(np.float32) for k, a in arrays.items()}, "random")


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
        raise InputError(
            f"{path}: metadata",
            f"expected name and {', '.join(_GEOMETRY_KEYS)}, got {checkpoint.metadata}",
            "save the checkpoint with carsim.decoder.model.save_model",
        ) from error
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
    sizes = {
        "L": shape.n_layers,
        "d": shape.hidden_size,
        "q": shape.n_heads * shape.head_dim,
        "kv": shape.n_kv_heads * shape.head_dim,
        "F": shape.ffn_size,
        "text": TEXT_SYMBOLS,
        "codes": len(model.arrays.get("embed_visual", ())),
    }
    if set(model.arrays) != set(_SHAPES):
        odd = sorted(set(model.arrays) ^ set(_SHAPES))
        raise InputError(
            place, f"arrays missing or unknown: {', '.join(odd)}", f"needs {', '.join(_SHAPES)}"
        )
    for name, letters in _SHAPES.items():
        array, wanted = model.arrays[name], tuple(sizes[letter] for letter in letters.split())
        if array.shape != wanted or not np.isfinite(array).all():
            raise InputError(
                f"{place}: array {name!r}",
                f"expected finite numbers of shape {wanted}, got shape {array.shape}",
                "export the checkpoint again",
            )
