"""Decode rows once and keep what the studies need: decisions, scores and losses.

Files lie in ``out/studies``, named by the weights and by all that was asked for: what is there
already is read instead of decoded again, so that a study may be stopped at any time.
"""

import hashlib
import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.progress import track

from carsim.decisions.attention import Dense, Streaming
from carsim.decoder.content import TOKENS_PER_FRAME
from carsim.decoder.model import DecoderModel, load_model
from carsim.decoder.structures import Array, Config
from studies.content import SCRATCH, TWIN, Row
from studies.whole import Bools, Decoder, Rule


@dataclass(frozen=True)
class Ask:
    """What is decoded: a row under a rule.

    Attributes:
        rule: What replays; None: nothing.
        row: The row.
        attention: Which keys are attended to; None: all.
    """

    rule: Rule | None
    row: Row
    attention: Dense | Streaming | None = None


@dataclass(frozen=True, eq=False)
class Kept:
    """A row that was decoded; S steps, L layers.

    Attributes:
        replay: bool[S, L].
        score: float32[S, L], NaN where none was evaluated.
        nats: float32[S], loss of the clip's own code at each step.
    """

    replay: Bools
    score: Array
    nats: Array

    @property
    def ratio(self) -> float:
        """Replay ratio over eligible steps, all layers."""
        return float(self.replay[TOKENS_PER_FRAME:].mean())

    @property
    def loss(self) -> float:
        """Mean loss after frame 0, nats per token."""
        return float(self.nats[TOKENS_PER_FRAME:].mean(dtype=np.float64))


def digest_of(codes: NDArray[Any]) -> str:
    """A hash of tokens, for the names of what was decoded of them."""
    return hashlib.sha256(codes.tobytes()).hexdigest()


class Archive:
    """Decodes with one model, unless the same has been decoded before.

    Args:
        model: The proxy model, or another; the shipped one when left out.
        folder: Where files lie.
        n_frames: T.
        workers: Processes, of one thread each.
    """

    def __init__(
        self,
        model: DecoderModel | None = None,
        folder: Path = SCRATCH,
        n_frames: int = 8,
        workers: int = 1,
    ) -> None:
        self.model = model or load_model(TWIN)
        self.folder = folder
        self.config = Config(self.model.geometry, TOKENS_PER_FRAME, n_frames)
        self._workers = workers

    @property
    def n_layers(self) -> int:
        """L."""
        return self.model.geometry.n_layers

    def decode(self, asked: Sequence[Ask], what: str = "decoding") -> list[Kept]:
        """Rows in the order asked for, decoded now or before.

        Args:
            asked: What.
            what: For the progress bar.
        """
        paths = [self._path(ask) for ask in asked]
        due = {path: ask for path, ask in zip(paths, asked, strict=True) if not path.exists()}
        self.folder.mkdir(parents=True, exist_ok=True)
        if due and self._workers > 1:
            context = multiprocessing.get_context("forkserver")
            os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
            with ProcessPoolExecutor(self._workers, context, _ready, (self,)) as pool:
                jobs = [pool.submit(_work, ask, path) for path, ask in due.items()]
                for job in track(jobs, what, transient=True):
                    job.result()
        else:
            for path, ask in due.items():
                self._keep(ask, path)
        return [_load(path) for path in paths]

    def once(
        self, what: tuple[object, ...], make: Callable[[], dict[str, NDArray[Any]]]
    ) -> dict[str, NDArray[Any]]:
        """Arrays of any kind: made now, or read where they were made before.

        Args:
            what: All that they follow from beside weights and shapes, with a telling ``repr``.
            make: Makes them.
        """
        digest = hashlib.sha256(repr((self.weights, self.config, what)).encode()).hexdigest()
        path = self.folder / f"{digest[:24]}.npz"
        if not path.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            partial = path.with_suffix(f".{os.getpid()}.npz")
            np.savez(partial, **make())
            partial.replace(path)
        with np.load(path) as stored:
            return dict(stored)

    def _path(self, ask: Ask) -> Path:
        asked = repr((self.weights, ask.rule, ask.row.prompt, ask.attention, self.config))
        digest = hashlib.sha256(asked.encode() + ask.row.codes.tobytes())
        return self.folder / f"{digest.hexdigest()[:24]}.npz"

    @cached_property
    def weights(self) -> str:
        """A hash of the model's arrays, which names what was decoded with them."""
        digest = hashlib.sha256()
        for name in sorted(self.model.arrays):
            digest.update(np.ascontiguousarray(self.model.arrays[name]).tobytes())
        return digest.hexdigest()

    @cached_property
    def decoder(self) -> Decoder:
        """The decoder of the model."""
        return Decoder(self.model, self.config)

    def _keep(self, ask: Ask, path: Path) -> None:
        codes = ask.row.codes
        decoded = self.decoder.decode(ask.rule, ask.row.prompt, codes, attention=ask.attention)
        logits = decoded.hidden @ self.model.arrays["head"].astype(np.float32).T  # [S, K]
        logits -= logits.max(axis=1, keepdims=True)
        nats = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(logits)), codes]
        partial = path.with_suffix(f".{os.getpid()}.npz")
        np.savez(partial, replay=np.packbits(decoded.replay), score=decoded.score, nats=nats)
        partial.replace(path)


def _load(path: Path) -> Kept:
    with np.load(path) as stored:
        score = stored["score"]
        replay = np.unpackbits(stored["replay"], count=score.size).reshape(score.shape)
        return Kept(replay.astype(bool), score, stored["nats"])


_archive: Archive


def _ready(archive: Archive) -> None:
    global _archive
    _archive = archive


def _work(ask: Ask, path: Path) -> None:
    _archive._keep(ask, path)
