"""The proxy model as a differentiable network in PyTorch: the body that carsim.decoder decodes.

Model: LLaMA-style decoder (RMSNorm, rotary rotate-half with theta 10000, SwiGLU, no biases) with
parameters under the names and in the layout of :class:`carsim.decoder.model.DecoderModel`, so that
export is a copy. Simplification: whole sequences at once and no replay; training is dense, as
FastCar's models were trained.
"""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from carsim.decisions.trace.meta import Geometry
from carsim.decoder.content import TOKENS_PER_FRAME, Codebook
from carsim.decoder.model import TEXT_SYMBOLS, DecoderModel

RMS_EPS, ROPE_THETA = 1e-5, 10000.0

# Distances that single heads of the first layers attend to when training starts. A step is fed the
# token before the one it predicts, so that the aligned token of the frame before stands 255 back.
_ALIGNED = TOKENS_PER_FRAME - 1
FIRST_GAZES = (
    (_ALIGNED, _ALIGNED - 1, 15, 1),  # same place, right of it; above and left in this frame
    (_ALIGNED, _ALIGNED - 16, _ALIGNED + 16, _ALIGNED + 1),  # same place; below, above, left of it
    (_ALIGNED, _ALIGNED + TOKENS_PER_FRAME, 16, 14),  # same place, one and two frames ago
)
_GAZE_STRENGTH = 10.0  # squared length per rotary pair: 1.2 nats between neighbouring places
_GAZE_SLOWEST = 0.01  # rad per place; slower rotary pairs hardly tell distances below 512 apart

# Where queries and keys start alike: the third of each head's rotary pairs that turns slowest, by
# at most 0.6 rad from one frame to the next.
_ALIKE_PART = 1 / 3
_ALIKE_GAIN = 1.5


@dataclass(frozen=True)
class Shape:
    """Sizes of the proxy model; 32 layers (and 256 tokens a frame) are VILA-U's.

    ``head_size`` 0 divides the width by the heads; another value makes attention narrower.
    """

    n_layers: int = 32
    hidden_size: int = 128
    n_heads: int = 4
    ffn_size: int = 344
    n_codes: int = 512
    head_size: int = 0

    @property
    def head_dim(self) -> int:
        """Numbers per head."""
        return self.head_size or self.hidden_size // self.n_heads

    @property
    def attention_size(self) -> int:
        """Numbers of all heads of a token."""
        return self.n_heads * self.head_dim


class Twin(nn.Module):
    """Parameters, all zero until :func:`initialise`, and the forward pass.

    Args:
        shape: Sizes.
        products: Type in which matrices are multiplied; all else is single precision.
    """

    def __init__(self, shape: Shape, products: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.shape = shape
        self._products = products
        n, d, ffn, wide = shape.n_layers, shape.hidden_size, shape.ffn_size, shape.attention_size
        sizes = {
            "wq": (n, wide, d),
            "wk": (n, wide, d),
            "wv": (n, wide, d),
            "wo": (n, d, wide),
            "w_gate": (n, ffn, d),
            "w_up": (n, ffn, d),
            "w_down": (n, d, ffn),
            "ln_attn": (n, d),
            "ln_mlp": (n, d),
            "ln_final": (d,),
            "embed_text": (TEXT_SYMBOLS, d),
            "embed_visual": (shape.n_codes, d),
            "begin": (d,),
            "head": (shape.n_codes, d),
        }
        for name, size in sizes.items():
            self.register_parameter(name, nn.Parameter(torch.zeros(size)))

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Logits.

        Args:
            tokens: int64[B, S], symbols of one joint vocabulary: prompt bytes, then codes from
                :data:`TEXT_SYMBOLS` on, then the begin symbol.
            positions: int64[B, S].

        Returns:
            [B, S, K].
        """
        table = torch.cat([self.embed_text, self.embed_visual, self.begin[None]])
        return self._body(F.embedding(tokens, table), *rotary(positions, self.shape)) @ self.head.T

    def _body(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        kind = self._products
        # Unbound once, so that the gradient of a stack is gathered once and not layer by layer.
        stacks = (
            torch.cat([self.wq, self.wk, self.wv], 1).to(kind),
            self.wo.to(kind),
            torch.cat([self.w_gate, self.w_up], 1).to(kind),
            self.w_down.to(kind),
            self.ln_attn,
            self.ln_mlp,
        )
        for weights in zip(*(stack.unbind(0) for stack in stacks), strict=True):
            x = layer(x, *weights, cos, sin)
        return rms_norm(x, self.ln_final)


def layer(
    x: Tensor,
    qkv: Tensor,
    out: Tensor,
    gate_up: Tensor,
    down: Tensor,
    ln_attn: Tensor,
    ln_mlp: Tensor,
    cos: Tensor,
    sin: Tensor,
) -> Tensor:
    """One decoder layer, [B, S, d] to [B, S, d]; matrices come in the type of their products."""
    batch, length, _ = x.shape
    kind, head_dim = qkv.dtype, cos.shape[-1]
    projected = F.linear(rms_norm(x, ln_attn).to(kind), qkv).float()
    q, k, v = projected.view(batch, length, 3, -1, head_dim).permute(2, 0, 3, 1, 4)
    q, k = rotate(q, cos, sin).to(kind), rotate(k, cos, sin).to(kind)
    attended = F.scaled_dot_product_attention(q, k, v.to(kind), is_causal=True)
    x = x + F.linear(attended.transpose(1, 2).reshape(batch, length, -1), out)
    gate, up = F.linear(rms_norm(x, ln_mlp).to(kind), gate_up).chunk(2, -1)
    return x + F.linear(F.silu(gate) * up, down)


def initialise(twin: Twin, codebook: Codebook, seed: int, *, plain: bool = False) -> None:
    """Set all parameters.

    Gaussian matrices with residual branches scaled by 1 / sqrt(2 L), as in GPT-2. With ``plain``
    that is all. Otherwise three things are put in by hand, because finding them takes a narrow
    network most of its training, and all are free to change:

    * codes are fed, and read out, as the principal components of their pixels (plus noise), so
      that codes that look alike start alike;
    * the twelve heads of the first three layers start by attending to fixed distances
      (:data:`FIRST_GAZES`): channel 0 of every embedding is 1, and their query and key are fixed
      multiples of it whose rotary phases agree at that distance;
    * in the slowest rotary pairs of every head, queries and keys start as the same rows of a random
      orthogonal matrix, so that a head begins by looking for what is like itself. Models of width
      4096 find slow pairs for content by themselves (arXiv 2410.06205).
    """
    rng = np.random.default_rng([seed, 1])
    shape = twin.shape
    d = shape.hidden_size
    arrays: dict[str, np.ndarray] = {}
    for name, parameter in twin.named_parameters():
        size = tuple(parameter.shape)
        arrays[name] = (
            np.ones(size)
            if name.startswith("ln_")
            else rng.standard_normal(size) / np.sqrt(1 if "embed" in name else size[-1])
        )
    arrays["wo"] /= np.sqrt(2 * shape.n_layers)
    arrays["w_down"] /= np.sqrt(2 * shape.n_layers)
    arrays["begin"] = rng.standard_normal(d)
    if not plain:
        _put_in(arrays, shape, codebook, rng)
    with torch.no_grad():
        for name, parameter in twin.named_parameters():
            parameter.copy_(torch.from_numpy(arrays[name]))


def _put_in(
    arrays: dict[str, np.ndarray], shape: Shape, codebook: Codebook, rng: np.random.Generator
) -> None:
    """Write principal components, gazing heads and alike slow planes over random parameters."""
    d, head_dim = shape.hidden_size, shape.head_dim
    pixels = codebook.codes.astype(float)
    left, spread, _ = np.linalg.svd(pixels - pixels.mean(axis=0), full_matrices=False)
    n_looks = min(spread.size, d - 1)
    looks = left[:, :n_looks] * np.sqrt(len(pixels)) * (spread / spread[0])[:n_looks] ** 0.5
    arrays["embed_visual"] *= 0.5
    arrays["embed_visual"][:, 1 : 1 + n_looks] += looks
    arrays["head"] = arrays["embed_visual"] / d
    for name in ("embed_text", "embed_visual"):
        arrays[name][:, 0] = 1
    arrays["begin"][0] = 1

    speeds = ROPE_THETA ** -(np.arange(head_dim // 2) / (head_dim // 2))
    speeds = speeds[speeds >= _GAZE_SLOWEST]
    pairs = len(speeds)
    for layer, gazes in enumerate(FIRST_GAZES[: shape.n_layers]):
        for head, distance in enumerate(gazes[: shape.n_heads]):
            rows = slice(head * head_dim, (head + 1) * head_dim)
            query, key = np.zeros(head_dim), np.zeros(head_dim)
            query[:pairs] = np.cos(speeds * distance)
            query[head_dim // 2 :][:pairs] = -np.sin(speeds * distance)
            key[:pairs] = 1
            for name, constant in (("wq", query), ("wk", key)):
                arrays[name][layer, rows] *= 0.3
                arrays[name][layer, rows, 0] = np.sqrt(_GAZE_STRENGTH) * constant
    slow = np.arange(d) % head_dim % (head_dim // 2) >= (1 - _ALIKE_PART) * (head_dim // 2)
    for layer in range(shape.n_layers):
        directions, _ = np.linalg.qr(rng.standard_normal((d, d)))
        arrays["wq"][layer, slow] = _ALIKE_GAIN * directions[: slow.sum()]
        arrays["wk"][layer, slow] = arrays["wq"][layer, slow]


def to_model(twin: Twin) -> DecoderModel:
    """The proxy model as the NumPy decoder takes it, in half precision."""
    shape = twin.shape
    geometry = Geometry(
        name="twin",
        n_layers=shape.n_layers,
        hidden_size=shape.hidden_size,
        n_heads=shape.n_heads,
        n_kv_heads=shape.n_heads,
        head_dim=shape.head_dim,
        ffn_size=shape.ffn_size,
    )
    tensors = twin.named_parameters()
    arrays = {key: each.detach().cpu().numpy().astype(np.float16) for key, each in tensors}
    return DecoderModel(geometry, arrays, "studies/proxy")


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    """Root-mean-square norm over the last axis."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + RMS_EPS) * weight


def rotary(positions: Tensor, shape: Shape) -> tuple[Tensor, Tensor]:
    """Cosine and sine, [B, 1, S, hd] each; both halves of a head share their angles."""
    half = torch.arange(0, shape.head_dim, 2, device=positions.device) / shape.head_dim
    angles = positions[:, None, :, None] * ROPE_THETA**-half
    both = torch.cat([angles, angles], -1)
    return both.cos(), both.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding in the rotate-half layout."""
    low, high = x.chunk(2, -1)
    return x * cos + torch.cat([-high, low], -1) * sin
