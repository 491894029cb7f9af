"""A video in chunks in PyTorch: an independent implementation of the reference decoder.

It is written from the documents and the papers, with modules and functions of PyTorch, and imports
nothing of carsim. Weights come as an object whose arrays have the names that
``carsim.decoder.chunked.model`` documents; the product is always ``x @ W``.

Letters in shapes: n tokens of a chunk, N tokens of a latent frame, t tokens of the prompt, g groups
of keys that a cache holds, d width, H heads, hd elements of a head.

What differs from the NumPy decoder on purpose: each head has a cache of its own that holds groups
alone, and not a slot for every token that ever was; keys of a chunk merge all at once; all tokens
pass the MLP, and those that replay take another output afterwards.

Modules that import this one are skipped where PyTorch is not installed.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from torch import Tensor, nn
from torch.nn import functional

REAL = torch.float64


def tensor(array: Any) -> Tensor:
    """An array in double precision."""
    return torch.tensor(array, dtype=REAL)


def linear(matrix: Any) -> nn.Linear:
    """The layer x @ matrix, without a bias."""
    weight = tensor(matrix)
    layer = nn.Linear(weight.shape[0], weight.shape[1], bias=False, dtype=REAL)
    with torch.no_grad():
        layer.weight.copy_(weight.T)
    return layer


def rotary(heads: Tensor, frames: Tensor) -> Tensor:
    """Rotary embedding (RoFormer, arXiv 2104.09864) by the number of the latent frame.

    Element i and element i + hd / 2 are one complex number, as in LLaMA of transformers.

    Args:
        heads: [..., n, hd].
        frames: Number of the frame of each token, [n].
    """
    half = heads.shape[-1] // 2
    frequencies = 10_000.0 ** (-torch.arange(half, dtype=REAL) / half)
    angles = torch.outer(frames.to(REAL), frequencies)
    pairs = torch.complex(heads[..., :half], heads[..., half:])
    turned = pairs * torch.polar(torch.ones_like(angles), angles)
    return torch.cat([turned.real, turned.imag], dim=-1)


# ------------------------------------------------------------------ the network


class TimeEmbedding(nn.Module):
    """From a noise level to the six modulation vectors that all blocks share (DiT, Wan)."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.inner = linear(model.time_in)
        self.outer = linear(model.time_out)

    def forward(self, time: float) -> Tensor:
        """[6, d]: shift, scale and gate of self-attention, then those of the MLP."""
        half = self.inner.in_features // 2
        frequencies = 10_000.0 ** (-torch.arange(half, dtype=REAL) / half)
        angles = 1000 * time * frequencies
        features = torch.cat([angles.cos(), angles.sin()])
        inner = functional.gelu(self.inner(features), approximate="tanh")
        return self.outer(inner).unflatten(0, (6, -1))


class Block(nn.Module):
    """One layer: modulated self-attention, cross-attention, modulated MLP."""

    def __init__(self, weights: Any, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.table = nn.Parameter(tensor(weights.table))
        self.query = linear(weights.query)
        self.key = linear(weights.key)
        self.value = linear(weights.value)
        self.output = linear(weights.output)
        self.cross_query = linear(weights.cross_query)
        self.cross_key = linear(weights.cross_key)
        self.cross_value = linear(weights.cross_value)
        self.cross_output = linear(weights.cross_output)
        gelu = nn.GELU(approximate="tanh")
        self.mlp = nn.Sequential(linear(weights.up), gelu, linear(weights.down))
        width = self.query.in_features
        self.norm = nn.LayerNorm(width, eps=1e-6, elementwise_affine=False, dtype=REAL)

    def heads(self, tokens: Tensor) -> Tensor:
        """[n, d] -> [H, n, hd]."""
        return tokens.unflatten(1, (self.n_heads, -1)).transpose(0, 1)

    def modulated(self, tokens: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
        """Normalised tokens, scaled and shifted."""
        return self.norm(tokens) * (1 + scale) + shift


# ------------------------------------------------------------------ policies


@dataclass
class Policies:
    """Policies of a video; by default there are none.

    Attributes:
        tau: FastCar: tokens of a higher score take the MLP output of the previous frame.
        across_chunks: The first frame of a chunk may take that of the chunk before.
        dense_steps: First denoising steps, in which no token does.
        reuses: Forwards that take outputs of the last forward that computed.
        taken: Outputs that they take: ``attention``, ``cross``, ``mlp``, or ``stack``, which is
            what all layers add.
        theta: TempCache: least cosine of keys that merge.
        representative: TempCache: ``latest``, ``mean`` or ``medoid``.
        planes: AnnSA by signatures: hyperplanes, [tables, bits, hd].
        keep: AnnSA by a quantised search: share of the keys.
        key_bits: Bits of an element of a searched key; None: exact.
        prompt_planes: AnnCA: hyperplanes, [tables, bits, hd].
        sinks: AnnCA: first tokens of the prompt that are always scored.
    """

    tau: float | None = None
    across_chunks: bool = True
    dense_steps: int = 0
    reuses: list[bool] | None = None
    taken: tuple[str, ...] = ()
    theta: float | None = None
    representative: str = "latest"
    planes: Any = None
    keep: float | None = None
    key_bits: int | None = None
    prompt_planes: Any = None
    sinks: int = 0


def share_signature(queries: Tensor, keys: Tensor, planes: Any) -> Tensor:
    """Pairs that lie on the same side of all planes of one table, bool[n, m] (SimHash).

    Args:
        queries: [n, hd].
        keys: [m, hd].
        planes: [tables, bits, hd].
    """
    normals = tensor(planes)
    sides_of_queries = torch.einsum("nd,tbd->ntb", queries, normals) > 0
    sides_of_keys = torch.einsum("md,tbd->mtb", keys, normals) > 0
    agree = sides_of_queries[:, None] == sides_of_keys[None]  # [n, m, tables, bits]
    return agree.all(dim=-1).any(dim=-1)


def in_few_bits(keys: Tensor, bits: int) -> Tensor:
    """Keys as integers of a symmetric range, with one scale for each key."""
    most = 2 ** (bits - 1) - 1
    scale = keys.abs().amax(dim=-1, keepdim=True) / most
    return torch.round(keys / scale) * scale


@dataclass
class HeadCache:
    """Groups of keys of one head. Every token is a group of its own where none merge.

    Attributes:
        keys: Rotated keys that stand for groups, [g, hd].
        plain: The same keys before rotation, [g, hd].
        values: Means of the values of members, [g, hd].
        means: Means of the keys of members before rotation, [g, hd].
        members: Tokens of each group, [g].
    """

    keys: Tensor
    plain: Tensor
    values: Tensor
    means: Tensor
    members: Tensor

    @classmethod
    def of_tokens(cls, keys: Tensor, plain: Tensor, values: Tensor) -> "HeadCache":
        """Groups of one token each."""
        return cls(keys, plain, values, means=plain.clone(), members=torch.ones(len(keys)))

    def extended(self, other: "HeadCache") -> "HeadCache":
        """These groups, and others."""
        return HeadCache(
            keys=torch.cat([self.keys, other.keys]),
            plain=torch.cat([self.plain, other.plain]),
            values=torch.cat([self.values, other.values]),
            means=torch.cat([self.means, other.means]),
            members=torch.cat([self.members, other.members]),
        )

    def merged(self, chunk: "HeadCache", frames: Tensor, policies: Policies) -> "HeadCache":
        """Let the tokens of a chunk join the nearest group, or become groups of their own.

        The groups are those before the chunk: tokens of one chunk never join each other alone.

        Args:
            chunk: Its tokens.
            frames: Number of the latent frame of each token, [n].
            policies: Threshold and representative.
        """
        if not len(self.keys) or policies.theta is None:
            return self.extended(chunk)
        old = functional.normalize(self.plain, dim=-1)
        new = functional.normalize(chunk.plain, dim=-1)
        highest, nearest = (new @ old.T).max(dim=1)
        joins = highest >= policies.theta
        for group in nearest[joins].unique().tolist():
            joining = torch.nonzero(joins & (nearest == group)).flatten().tolist()
            self._join(group, chunk, joining, frames, policies.representative)
        return self.extended(chunk._only(~joins))

    def _only(self, chosen: Tensor) -> "HeadCache":
        """Some groups."""
        return HeadCache(
            keys=self.keys[chosen],
            plain=self.plain[chosen],
            values=self.values[chosen],
            means=self.means[chosen],
            members=self.members[chosen],
        )

    def _join(
        self, group: int, chunk: "HeadCache", joining: list[int], frames: Tensor, kind: str
    ) -> None:
        """Let tokens join a group, in order.

        Args:
            group: The group.
            chunk: Tokens of the chunk.
            joining: Those that join.
            frames: Number of the latent frame of each token of the chunk, [n].
            kind: Representative of the group.
        """
        count = float(self.members[group])
        sum_of_values = count * self.values[group]
        sum_of_keys = count * self.means[group]
        for token in joining:
            count += 1
            sum_of_values = sum_of_values + chunk.values[token]
            sum_of_keys = sum_of_keys + chunk.plain[token]
            mean = sum_of_keys / count
            is_nearer = True
            if kind == "medoid":
                distance_of_old = torch.dist(self.plain[group], mean).square()
                distance_of_new = torch.dist(chunk.plain[token], mean).square()
                # Two members are equally far from their mean: then the newer one stays.
                is_nearer = bool(distance_of_old >= (1 - 1e-9) * distance_of_new)
            if kind == "mean":
                self.plain[group] = mean
                self.keys[group] = rotary(mean[None], frames[token, None])[0]
            elif is_nearer:
                self.plain[group] = chunk.plain[token]
                self.keys[group] = chunk.keys[token]
        self.members[group] = count
        self.values[group] = sum_of_values / count
        self.means[group] = sum_of_keys / count


# ------------------------------------------------------------------ a video


@dataclass(frozen=True)
class Place:
    """A forward: its number in the video, its chunk, and its step; the last one is clean."""

    number: int
    chunk: int
    step: int
    is_clean: bool


@dataclass
class Seen:
    """What was decided and measured.

    Attributes:
        scores: FastCar's scores by forward, layer and token of the chunk.
        replayed: Forward, layer and token of the chunk of each replay.
        scored: Shares of the held keys that a query scores, by forward, layer and head.
        prompt: Shares of the prompt that are scored, by forward, layer and head.
    """

    scores: dict[tuple[int, int, int], float] = field(default_factory=dict)
    replayed: list[tuple[int, int, int]] = field(default_factory=list)
    scored: list[float] = field(default_factory=list)
    prompt: list[float] = field(default_factory=list)


class ChunkedTorch(nn.Module):
    """Makes one video, chunk by chunk.

    Args:
        model: Sizes and weights.
        steps: Denoising steps of a chunk.
        policies: Policies.
    """

    def __init__(self, model: Any, steps: int, policies: Policies | None = None) -> None:
        super().__init__()
        self.shape = model.shape
        self.steps = steps
        self.policies = policies or Policies()
        self.blocks = nn.ModuleList(Block(layer, model.shape.n_heads) for layer in model.layers)
        self.patch_in = linear(model.patch_in)
        self.patch_out = linear(model.patch_out)
        self.text_in = linear(model.text_in)
        self.time = TimeEmbedding(model)
        self.places = nn.Parameter(tensor(model.places))
        self.norm = nn.LayerNorm(
            model.shape.hidden_size, eps=1e-6, elementwise_affine=False, dtype=REAL
        )
        self.seen = Seen()
        self.caches: list[list[HeadCache]] = [
            [self._empty_cache() for _ in range(model.shape.n_heads)] for _ in model.layers
        ]
        self.words: list[tuple[Tensor, Tensor]] = []  # keys and values of the prompt by layer
        self.clean_keys: dict[int, Tensor] = {}  # of the last frame, by layer, [H, N, hd]
        self.last_frame: dict[tuple[int, int], Tensor] = {}  # MLP outputs by step and layer
        self.kept: dict[tuple[int, str], Tensor] = {}  # outputs by layer and module
        self.added = torch.zeros(0, dtype=REAL)  # by all layers, in the last forward that computed

    @torch.no_grad()
    def video(self, noise: Any, text: Any) -> Tensor:
        """Clean tokens, [chunks, n, channels], by Euler steps of a rectified flow.

        Args:
            noise: [chunks, n, channels].
            text: [t, 24].
        """
        words = self.text_in(tensor(text))
        for block in self.blocks:
            keys = block.heads(block.cross_key(words))
            values = block.heads(block.cross_value(words))
            self.words.append((keys, values))
        levels = torch.linspace(1, 0, self.steps + 1, dtype=REAL)
        chunks = []
        for chunk, tokens in enumerate(tensor(noise)):
            first = chunk * (self.steps + 1)
            for step in range(self.steps):
                place = Place(number=first + step, chunk=chunk, step=step, is_clean=False)
                velocity = self.denoise(tokens, float(levels[step]), place)
                tokens = tokens + (levels[step + 1] - levels[step]) * velocity
            last = first + self.steps
            place = Place(number=last, chunk=chunk, step=self.steps, is_clean=True)
            self.denoise(tokens, 0.0, place)
            chunks.append(tokens)
        return torch.stack(chunks)

    def denoise(self, noisy: Tensor, level: float, place: Place) -> Tensor:
        """One forward, from tokens [n, channels] to their velocity."""
        entered = self.patch_in(noisy) + self.places.repeat(self.shape.chunk_frames, 1)
        if self._takes("stack", place):
            return self.patch_out(self.norm(entered + self.added))
        tokens = entered
        vectors = self.time(level)
        for number, block in enumerate(self.blocks):
            tokens = self._through(block, number, tokens, vectors, place)
        self.added = tokens - entered
        return self.patch_out(self.norm(tokens))

    def _takes(self, module: str, place: Place) -> bool:
        """A forward takes the outputs of a module from the last one that computed it."""
        reuses = self.policies.reuses
        return reuses is not None and reuses[place.number] and module in self.policies.taken

    def _through(
        self, block: Any, number: int, tokens: Tensor, vectors: Tensor, place: Place
    ) -> Tensor:
        """Tokens [n, d] behind a block.

        Args:
            block: The block.
            number: Its number.
            tokens: [n, d].
            vectors: Modulation that all blocks share, [6, d].
            place: The forward.
        """
        shift, scale, gate, mlp_shift, mlp_scale, mlp_gate = vectors + block.table
        frames = place.chunk * self.shape.chunk_frames + torch.arange(
            self.shape.chunk_frames
        ).repeat_interleave(self.shape.frame_tokens)
        entered = block.modulated(tokens, shift, scale)
        plain_keys = block.heads(block.key(entered))
        queries = rotary(block.heads(block.query(entered)), frames)
        keys = rotary(plain_keys, frames)
        values = block.heads(block.value(entered))
        if not self._takes("attention", place):
            mixed = self._attend(self.caches[number], queries, keys, values)
            self.kept[number, "attention"] = block.output(mixed)
        tokens = tokens + gate * self.kept[number, "attention"]
        if not self._takes("cross", place):
            mixed = self._attend_words(number, block.heads(block.cross_query(block.norm(tokens))))
            self.kept[number, "cross"] = block.cross_output(mixed)
        tokens = tokens + self.kept[number, "cross"]
        if not self._takes("mlp", place):
            outputs = block.mlp(block.modulated(tokens, mlp_shift, mlp_scale))
            self.kept[number, "mlp"] = self._replayed(number, outputs, queries, keys, place)
        if place.is_clean:
            self._write(number, keys, plain_keys, values, frames)
        return tokens + mlp_gate * self.kept[number, "mlp"]

    # ---------------------------------------------------------------- attention

    def _attend(
        self, caches: list[HeadCache], queries: Tensor, keys: Tensor, values: Tensor
    ) -> Tensor:
        """Self-attention of a chunk over its cache and itself, [n, d].

        Args:
            caches: Of each head.
            queries: Rotated, [H, n, hd].
            keys: Rotated, of the chunk, [H, n, hd].
            values: Of the chunk, [H, n, hd].
        """
        of_heads = []
        for head, cache in enumerate(caches):
            all_keys = torch.cat([cache.keys, keys[head]])
            all_values = torch.cat([cache.values, values[head]])
            members = torch.cat([cache.members, torch.ones(len(keys[head]))]).to(REAL)
            is_scored = self._searched(queries[head], all_keys)
            # A group of m tokens weighs as much as m equal keys: exp(s + log m) = m exp(s).
            bias = members.log().expand(len(queries[head]), -1)
            bias = bias.masked_fill(~is_scored, -math.inf)
            of_heads.append(
                functional.scaled_dot_product_attention(
                    queries[head], all_keys, all_values, attn_mask=bias
                )
            )
        return torch.cat(of_heads, dim=-1)

    def _searched(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Keys that each query of a head scores, bool[n, m]; a token always scores itself."""
        policies = self.policies
        n, m = len(queries), len(keys)
        found = torch.ones(n, m, dtype=torch.bool)
        if policies.planes is not None:
            found = share_signature(queries, keys, policies.planes)
        if policies.keep is not None:
            searched = keys if policies.key_bits is None else in_few_bits(keys, policies.key_bits)
            best = torch.topk(queries @ searched.T, math.ceil(policies.keep * m), dim=1).indices
            found = torch.zeros(n, m, dtype=torch.bool).scatter(1, best, value=True)
        found |= (
            torch.eye(n, dtype=torch.bool)
            .new_zeros(n, m)
            .diagonal_scatter(torch.ones(n, dtype=torch.bool), offset=m - n)
        )
        self.seen.scored.append(float(found.double().mean()))
        return found

    def _attend_words(self, number: int, queries: Tensor) -> Tensor:
        """Cross-attention to the prompt, [n, d].

        Args:
            number: Number of the block.
            queries: [H, n, hd].
        """
        policies = self.policies
        keys, values = self.words[number]
        of_heads = []
        for head in range(self.shape.n_heads):
            is_scored = torch.ones(len(keys[head]), dtype=torch.bool)
            if policies.prompt_planes is not None:
                met = share_signature(queries[head], keys[head], policies.prompt_planes)
                is_scored = met.any(dim=0)
                is_scored[: policies.sinks] = True
                if not is_scored.any():
                    is_scored[0] = True
            self.seen.prompt.append(float(is_scored.double().mean()))
            of_heads.append(
                functional.scaled_dot_product_attention(
                    queries[head], keys[head][is_scored], values[head][is_scored]
                )
            )
        return torch.cat(of_heads, dim=-1)

    # ---------------------------------------------------------------- replay and cache

    def _replayed(
        self, number: int, outputs: Tensor, queries: Tensor, keys: Tensor, place: Place
    ) -> Tensor:
        """MLP outputs [n, d], where tokens of a high score take that of the frame before.

        Args:
            number: Number of the block.
            outputs: Computed outputs, [n, d].
            queries: Rotated, [H, n, hd].
            keys: Rotated, [H, n, hd].
            place: The forward.
        """
        policies = self.policies
        if policies.tau is None or place.is_clean or place.step < policies.dense_steps:
            by_frame = list(outputs.split(self.shape.frame_tokens))
            self.last_frame[place.step, number] = by_frame[-1]
            return outputs
        n = self.shape.frame_tokens
        before = self.last_frame.get((place.step, number)) if policies.across_chunks else None
        key_before = self.clean_keys.get(number)
        taken = []
        for frame, computed in enumerate(outputs.split(n)):
            here = slice(frame * n, (frame + 1) * n)
            if before is not None and key_before is not None:
                products = (queries[:, here] * key_before).sum(dim=-1)  # [H, N]
                scores = products.mean(dim=0) / math.sqrt(self.shape.head_dim)
                replays = scores > policies.tau
                self._note(place.number, number, frame * n, scores)
                computed = torch.where(replays[:, None], before, computed)
            taken.append(computed)
            before = computed
            key_before = keys[:, here]
        self.last_frame[place.step, number] = taken[-1]
        return torch.cat(taken)

    def _note(self, forward: int, layer: int, first_token: int, scores: Tensor) -> None:
        """Keep the scores of a frame, and which of its tokens replay."""
        assert self.policies.tau is not None
        for place, score in enumerate(scores.tolist()):
            at = (forward, layer, first_token + place)
            self.seen.scores[at] = score
            if score > self.policies.tau:
                self.seen.replayed.append(at)

    def _write(
        self, number: int, keys: Tensor, plain: Tensor, values: Tensor, frames: Tensor
    ) -> None:
        """Write the clean keys and values of a chunk to the caches of a block.

        Args:
            number: Number of the block.
            keys: Rotated, [H, n, hd].
            plain: Before rotation, [H, n, hd].
            values: [H, n, hd].
            frames: Number of the latent frame of each token, [n].
        """
        self.clean_keys[number] = keys[:, -self.shape.frame_tokens :]
        caches = self.caches[number]
        for head, cache in enumerate(caches):
            chunk = HeadCache.of_tokens(keys[head], plain[head], values[head])
            caches[head] = cache.merged(chunk, frames, self.policies)

    def _empty_cache(self) -> HeadCache:
        """The cache of a head before the first chunk."""
        nothing = torch.zeros(0, self.shape.head_dim, dtype=REAL)
        return HeadCache.of_tokens(nothing, nothing, nothing)

    @property
    def held(self) -> float:
        """Groups that are held over tokens of earlier chunks, the mean over layers and heads."""
        shares = []
        for caches in self.caches:
            shares += [len(cache.keys) / float(cache.members.sum()) for cache in caches]
        return sum(shares) / len(shares)
