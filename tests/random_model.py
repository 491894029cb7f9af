"""Untrained weights whose scores still depend on what is seen."""

import numpy as np
from numpy.typing import NDArray

from carsim.decisions.trace.meta import Geometry
from carsim.decoder.content import Codebook
from carsim.decoder.model import TEXT_SYMBOLS, DecoderModel

LIKENESS, SLOW_GAIN = 0.9, 2.0


def random_model(geometry: Geometry, codebook: Codebook, seed: int) -> DecoderModel:
    """Gaussian matrices, residual branches scaled by 1 / sqrt(2 L), and two traits of trained ones.

    Visual embeddings are a random projection of pixels. In the sixth of each head's planes that the
    rotary embedding turns slowest, queries and keys are twice as large, and keys are 0.9 times the
    query plus noise. So TAS measures how alike a token and its predecessor are.
    """
    rng, shape = np.random.default_rng([seed, 0]), geometry
    layers, d, ffn, size = shape.n_layers, shape.hidden_size, shape.ffn_size, shape.head_dim
    q, kv = shape.n_heads * size, shape.n_kv_heads * size

    def gaussian(*sizes: int) -> NDArray[np.float64]:
        return rng.standard_normal(sizes) / np.sqrt(sizes[-1])

    branch = 1 / np.sqrt(2 * layers)
    slow = np.arange(size) % (size // 2) >= size // 2 - max(1, size // 12)
    gain = np.where(slow, SLOW_GAIN, 1.0)[:, None]  # [hd, 1]
    heads_q = gaussian(layers, q, d).reshape(layers, shape.n_heads, size, d)
    heads_k = gaussian(layers, kv, d).reshape(layers, shape.n_kv_heads, size, d)
    first_served = heads_q[:, :: shape.n_heads // shape.n_kv_heads]
    alike = LIKENESS * first_served + np.sqrt(1 - LIKENESS**2) * heads_k
    heads_k = np.where(slow[:, None], alike, heads_k)
    pixels = codebook.codes - codebook.codes.mean(axis=0)
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
