"""Decode rows once and keep what the studies need: decisions, scores and losses.

Files lie in ``out/studies``, named by the weights and by all that was asked for: what is there
already is read instead of decoded again, so that a study may be stopped at any time.
"""

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from carsim.decisions.attention import AttentionPolicy
from carsim.decoder.content import TOKENS_PER_FRAME
from carsim.decoder.model import DecoderModel, load_model
from carsim.decoder.sampling import log_chances
from carsim.decoder.structures import Array, Config
from carsim.decoder.workers import Advance, run_in_workers
from studies.content import SCRATCH, TWIN, Row
from studies.whole import Attend, Bools, Decoded, Decoder, Rule


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
    attention: AttentionPolicy | None = None

    @property
    def what(self) -> tuple[object, ...]:
        """All that its decisions follow from beside the model, for a name."""
        return self.rule, self.row.prompt, self.attention, digest_of(self.row.codes)


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

    def decode(self, asked: Sequence[Ask]) -> list[Kept]:
        """Rows in the order asked for, decoded now or before."""
        due = {self._path(ask.what): ask for ask in asked}
        jobs = [partial(self._kept, ask) for path, ask in due.items() if not path.exists()]
        in_processes(jobs, self._workers)
        return [self._kept(ask) for ask in asked]

    def _kept(self, ask: Ask) -> Kept:
        return Kept(**self.once(ask.what, partial(self._decode, ask)))

    def once(
        self, what: tuple[object, ...], make: Callable[[], dict[str, NDArray[Any]]]
    ) -> dict[str, NDArray[Any]]:
        """Arrays of any kind: made now, or read where they were made before.

        Args:
            what: All that they follow from beside weights and shapes, with a telling ``repr``.
            make: Makes them.
        """
        path = self._path(what)
        if not path.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            unfinished = path.with_suffix(f".{os.getpid()}.npz")
            np.savez(unfinished, **make())
            unfinished.replace(path)
        with np.load(path) as stored:
            return dict(stored)

    def _path(self, what: tuple[object, ...]) -> Path:
        digest = hashlib.sha256(repr((self.weights, self.config, what)).encode()).hexdigest()
        return self.folder / f"{digest[:24]}.npz"

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

    def nats_under(self, attend: Attend, row: Row) -> Array:
        """Loss of the clip's own code at each step under an attention of its own, float32[S]."""
        decoded = self.decoder.decode(None, row.prompt, row.codes, attention=attend)
        return self._nats(decoded, row.codes)

    def _decode(self, ask: Ask) -> dict[str, NDArray[Any]]:
        codes = ask.row.codes
        decoded = self.decoder.decode(ask.rule, ask.row.prompt, codes, attention=ask.attention)
        nats = self._nats(decoded, codes)
        return {"replay": decoded.replay, "score": decoded.score, "nats": nats}

    def _nats(self, decoded: Decoded, codes: NDArray[np.int64]) -> Array:
        logits = decoded.hidden @ self.model.arrays["head"].astype(np.float32).T  # [S, K]
        nats: Array = -log_chances(logits)[np.arange(len(logits)), codes]
        return nats


def in_processes(jobs: Sequence[Callable[[], object]], workers: int) -> None:
    """Call each job that a process can be sent, in so many processes; alone, in this one."""
    pieces = [partial(_call, job) for job in jobs]
    run_in_workers(pieces, total=len(jobs), workers=workers if workers > 1 else 0, progress=None)


def _call(job: Callable[[], object], advance: Advance) -> None:
    job()
    advance(1)
