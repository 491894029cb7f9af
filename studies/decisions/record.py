"""Decode rows once and keep what the studies need: decisions, scores, losses, and observations.

Files lie in ``out/studies``, named by the weights and by all that was asked for: what is there
already is read instead of decoded again.
"""

import hashlib
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from carsim.decoder.content import TOKENS_PER_FRAME
from carsim.decoder.layers import rms_norm
from carsim.decoder.model import Model, load_model
from carsim.decoder.structures import Array, Config, Policy
from carsim.replay import Tas
from studies.decisions.content import FIRST_LAYER, SCRATCH, TWIN, Row
from studies.decisions.whole import Decoder, Layer


@dataclass(frozen=True, eq=False)
class Closed:
    """Rows decoded closed-loop under one policy. R rows, S steps, L layers.

    Attributes:
        tas: float32[S, L, R].
        replay: bool[S, L, R].
        nats: float32[S, R], loss of the clip's true code at each step.
        best: int16[S, R], the likeliest code.
    """

    tas: Array
    replay: NDArray[np.bool_]
    nats: Array
    best: NDArray[np.int16]

    @property
    def ratio(self) -> float:
        """Replay ratio over eligible steps, all layers."""
        return float(self.replay[TOKENS_PER_FRAME:].mean())

    @property
    def loss(self) -> NDArray[np.float64]:
        """Mean loss after frame 0 of each row, nats a token, [R]."""
        return self.nats[TOKENS_PER_FRAME:].mean(axis=0, dtype=np.float64)

    def agreement(self, other: "Closed") -> NDArray[np.float64]:
        """Share of steps after frame 0 in which both find the same code likeliest, [R]."""
        return (self.best == other.best)[TOKENS_PER_FRAME:].mean(axis=0)


@dataclass(frozen=True, eq=False)
class Observed:
    """Dense decoding, seen from inside. float32[R, L, E]; E steps after frame 0.

    "Change" is the length of the difference to the same place one frame before.

    Attributes:
        released: TAS with the query before the rotary embedding.
        paper: TAS with the query after it.
        cosine_released: Mean over heads of the cosine of query and key that ``released`` compares.
        cosine_paper: The same for ``paper``.
        mlp_cosine: Cosine of the MLP outputs.
        mlp_change: Change of the MLP output.
        mlp_length: Length of the MLP output.
        input_change: Change of the residual stream before the layer.
        attention_change: Change of what attention adds.
        middle_change: Change of the residual stream before the MLP.
        middle_length: Length of the residual stream before the MLP.
        normed_change: Change of what the MLP is fed.
    """

    released: Array
    paper: Array
    cosine_released: Array
    cosine_paper: Array
    mlp_cosine: Array
    mlp_change: Array
    mlp_length: Array
    input_change: Array
    attention_change: Array
    middle_change: Array
    middle_length: Array
    normed_change: Array


class Archive:
    """Decodes with one model, unless the same has been decoded before.

    Args:
        model: The twin, or another; the shipped one when left out.
        folder: Where files lie.
        n_frames: T.

    Attributes:
        weights: Digest of the model's arrays.
        seconds: Processor seconds spent on decoding so far.
    """

    def __init__(
        self, model: Model | None = None, folder: Path = SCRATCH, n_frames: int = 8
    ) -> None:
        self.model = model or load_model(TWIN)
        self.folder = folder
        self.config = Config(self.model.geometry, TOKENS_PER_FRAME, n_frames)
        self._decoder = Decoder(self.model, self.config)
        digest = hashlib.sha256()
        for name in sorted(self.model.arrays):
            digest.update(np.ascontiguousarray(self.model.arrays[name]).tobytes())
        self.weights = digest.hexdigest()
        self.seconds = 0.0

    @property
    def n_layers(self) -> int:
        """L."""
        return self.model.geometry.n_layers

    def tau(self, tau: float, first_layer: int = FIRST_LAYER) -> tuple[float, ...]:
        """One threshold per layer: infinite below the first layer that may replay."""
        return tuple(np.inf if i < first_layer else tau for i in range(self.n_layers))

    def closed(self, policy: Policy, rows: Sequence[Row]) -> Closed:
        """Rows under a policy, each decoded closed-loop."""
        kept = [self._row(policy, row, "closed") for row in rows]
        return Closed(**{name: np.stack([one[name] for one in kept], -1) for name in kept[0]})

    def observed(self, rows: Sequence[Row]) -> Observed:
        """Rows decoded densely, seen from inside."""
        kept = [self._row(self.dense, row, "observed") for row in rows]
        return Observed(**{name: np.stack([one[name] for one in kept]) for name in kept[0]})

    @property
    def dense(self) -> Policy:
        """Scores everywhere, in the paper's form, and never replays."""
        return Policy((np.inf,) * self.n_layers, Tas(form="paper"))

    def _row(self, policy: Policy, row: Row, kind: str) -> dict[str, NDArray[Any]]:
        """Arrays of a row, decoded now or before; dense rows are always observed, too."""
        asked = repr((policy, row.prompt, self.config)).encode() + row.codes.tobytes()
        key = hashlib.sha256(self.weights.encode() + asked).hexdigest()[:20]
        path = self.folder / f"{kind}-{key}.npz"
        if not path.exists():
            eye = Eye(self.model, self.config) if policy == self.dense else None
            arrays = {"closed": self._decode(policy, row, eye)}
            if eye:
                arrays["observed"] = eye.arrays()
            self.folder.mkdir(parents=True, exist_ok=True)
            for name, made in arrays.items():
                partial = self.folder / f"{name}-{key}.{os.getpid()}.npz"
                np.savez(partial, **made)
                partial.replace(self.folder / f"{name}-{key}.npz")
        with np.load(path) as stored:
            return dict(stored)

    def _decode(self, policy: Policy, row: Row, eye: "Eye | None") -> dict[str, NDArray[Any]]:
        began = time.process_time()
        decoded = self._decoder.decode(policy, row.prompt, row.codes, eye)
        logits = decoded.hidden @ self.model.arrays["head"].astype(np.float32).T  # [S, K]
        logits -= logits.max(axis=1, keepdims=True)
        nats = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(logits)), row.codes]
        self.seconds += time.process_time() - began
        return {
            "tas": decoded.tas,
            "replay": decoded.replay,
            "nats": nats,
            "best": logits.argmax(axis=1).astype(np.int16),
        }


class Eye:
    """Looks at every layer of a row and measures what :class:`Observed` holds."""

    def __init__(self, model: Model, config: Config) -> None:
        self._norms = model.arrays["ln_mlp"].astype(config.dtype)
        self._config = config
        self._layers: list[dict[str, Array]] = []

    def __call__(self, layer: Layer) -> None:
        """Look at a layer."""
        n = self._config.tokens_per_frame
        served = layer.q.shape[1] // layer.k.shape[1]
        key = np.repeat(layer.k[:-n], served, axis=1)  # [E, H, hd]
        middle = layer.entered + layer.attended
        normed = rms_norm(middle, self._norms[layer.index], self._config.rms_eps)
        measures = {
            "mlp_cosine": cosine(layer.mlp[n:], layer.mlp[:-n]),
            "mlp_change": change(layer.mlp, n),
            "mlp_length": np.linalg.norm(layer.mlp[n:], axis=-1),
            "input_change": change(layer.entered, n),
            "attention_change": change(layer.attended, n),
            "middle_change": change(middle, n),
            "middle_length": np.linalg.norm(middle[n:], axis=-1),
            "normed_change": change(normed, n),
        }
        for form, query in (("released", layer.q[n:]), ("paper", layer.q_rotated[n:])):
            measures[form] = (query * key).sum(-1).mean(-1) / np.sqrt(key.shape[-1])
            measures[f"cosine_{form}"] = cosine(query, key).mean(-1)
        self._layers.append(measures)

    def arrays(self) -> dict[str, Array]:
        """[L, E] each."""
        first = self._layers[0]
        return {
            name: np.stack([layer[name] for layer in self._layers]).astype(np.float32)
            for name in first
        }


def change(values: Array, n: int) -> Array:
    """Length of the difference to n steps before, [S, d] to [S - n]."""
    return np.linalg.norm(values[n:] - values[:-n], axis=-1)


def cosine(a: Array, b: Array) -> Array:
    """Cosine over the last axis; 0 where either is 0."""
    lengths = np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)
    return (a * b).sum(-1) / np.maximum(lengths, 1e-30)
