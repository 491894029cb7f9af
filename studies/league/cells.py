"""Contestants of the league, and what the proxy model does under each of them.

A *cell* is a contestant on a scene: its loss, recall, density and replay ratio under teacher
forcing, and for the rows that the machines run (the first four scenes as guidance pairs) every
decision and count of reads. What was decoded lies in ``out/studies`` and is not decoded again.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from carsim.decisions.attention import (
    Ann,
    AnnCa,
    AttentionPolicy,
    Dense,
    Draft,
    Streaming,
    TempCache,
)
from carsim.decisions.trace.precision import DecoderPrecision, Grouped
from carsim.decoder.group import RowGroup
from carsim.decoder.quantise import quantise
from carsim.decoder.sampling import log_chances
from carsim.decoder.structures import Config, DecoderPolicy, Weights
from studies.content import PACES, TUNING, Row, rows_of
from studies.frames import READERS
from studies.record import Archive, digest_of
from studies.rules import Chance, Counted, TasScore, Threshold, counts_of
from studies.whole import Decoder, Rule

TAU = 2.7
"""Of the traces: about half of the eligible steps replay."""

FLOOR_SEED = 1
CLIPS = tuple(f"{pace}_{number}" for number in range(2) for pace in PACES)
"""Ten scenes, from still to cut."""

PAIRS = 8
"""The machines run the first so many as guidance pairs."""

CALIBRATION_CLIPS = 4
"""Scenes of the tuning walks on whose first frame ranges of activations are found."""

_KV4: dict[str, Any] = {"kv": Grouped(bits=4), "replay": 8}
W4A4 = DecoderPrecision(
    weights=Grouped(bits=4), activations=4, polish=("down",), compensate=True, **_KV4
)
W4A8 = DecoderPrecision(weights=Grouped(bits=4), activations=8, **_KV4)
W4A16 = DecoderPrecision(weights=Grouped(bits=4), **_KV4)


@dataclass(frozen=True)
class Contestant:
    """A way to decode.

    Attributes:
        family: What its strengths have in common.
        strength: Which of them; of what is one of its kind, empty.
        attention: Which keys are read.
        replays: FastCar's rule replays.
        precision: Bits; None is the decoder's own arithmetic, and on a machine the design's own.
        wider: Columns of the machine's arrays, over the design's.
        floor: ``keys``: as many keys are drawn at random; ``skips``: as many replays.
    """

    family: str
    strength: str = ""
    attention: AttentionPolicy = field(default_factory=Dense)
    replays: bool = False
    precision: DecoderPrecision | None = None
    wider: int = 1
    floor: str = ""

    @property
    def name(self) -> str:
        """Name in tables."""
        parts = f"{self.family} {self.strength}".strip()
        parts += " + replay" if self.replays and self.family != "replay" else ""
        return parts + (f", random {self.floor}" if self.floor else "")


def attentions() -> tuple[Contestant, ...]:
    """Every attention policy at its strengths, without replay, the weakest first."""
    return (
        *(Contestant("window", f"{n}", Streaming(window=n)) for n in (512, 256, 128)),
        *(Contestant("draft", f"{keep:g}", Draft(keep=keep)) for keep in (0.5, 0.25, 0.1)),
        *(Contestant("LSH", f"{bits} bit", Ann(bits=bits)) for bits in (3, 4, 6)),
        *(
            Contestant("quantised", f"{keep:g}", Ann(search="quantised", keep=keep))
            for keep in (0.5, 0.25, 0.1)
        ),
        *(Contestant("TempCache", f"{theta:g}", TempCache(theta=theta)) for theta in THETAS),
        *(Contestant("AnnCA", f"{bits} bit", AnnCa(bits=bits)) for bits in (5, 8, 11)),
    )


THETAS = (0.95, 0.8, 0.5)
MIDDLE = ("0.25", "256", "4 bit", "8 bit", "0.8")
"""Strengths at which a policy is held against chance."""


def contestants() -> tuple[Contestant, ...]:
    """All, dense decoding first; each with and without replay."""
    plain = (
        Contestant("dense"),
        *attentions(),
        Contestant("W4A16", precision=W4A16),
        Contestant("W4A8", precision=W4A8),
        Contestant("W4A4", precision=W4A4),
        Contestant("W4A4", "wider", precision=W4A4, wider=2),
        *(
            replace(each, family=f"W4A4 + {each.family}", precision=W4A4)
            for each in attentions()
            if (each.family, each.strength) in {("draft", "0.25"), ("TempCache", "0.8")}
        ),
    )
    replays = tuple(
        replace(each, replays=True, family="replay" if each.family == "dense" else each.family)
        for each in plain
    )
    return plain + replays


def floors() -> tuple[Contestant, ...]:
    """What chance reaches with as many keys, or as many skips."""
    return (
        replace(contestants()[0], family="replay", replays=True, floor="skips"),
        *(
            replace(each, floor="keys")
            for each in attentions()
            if READERS[each.attention.kind].has_floor and each.strength in MIDDLE
        ),
    )


FASTCAR = TasScore()


def fastcar(n_layers: int, tau: float = TAU) -> Threshold:
    """FastCar's rule, layers exempt that never replay."""
    return Threshold.of_all(FASTCAR, [tau] * n_layers)


class Bench:
    """Decodes contestants with one model.

    Args:
        archive: Model, shape of the videos, and what was decoded before.
        rule: What replays.
        calibration: Rows on whose first frame precisions are calibrated.
    """

    def __init__(self, archive: Archive, rule: Threshold, calibration: Sequence[Row] = ()) -> None:
        self.archive, self.rule = archive, rule
        self._calibration = calibration
        self._head = archive.model.arrays["head"].astype(float).T
        self._decoders: dict[DecoderPrecision | None, Decoder] = {}

    def cell(self, who: Contestant, row: Row) -> dict[str, NDArray[Any]]:
        """What a contestant does on a row.

        Returns:
            ``nats`` float64[S]; ``mass`` float32[S, L]; ``replay`` bool[S, L]; ``tokens``, ``runs``
            uint16[S, L, KV]; ``held`` int32[T, L].
        """
        what = (
            "league", who.attention, who.replays and self.rule, who.precision, who.floor,
            who.precision and [each.clip for each in self._calibration], row.prompt,
            digest_of(row.codes),
        )  # fmt: skip
        return self.archive.once(what, partial(self._decode, who, row))

    def _decode(self, who: Contestant, row: Row) -> dict[str, NDArray[Any]]:
        config = self.archive.config
        seed = FLOOR_SEED if who.floor == "keys" else None
        reader = READERS[who.attention.kind](who.attention, config, len(row.prompt), seed)
        rule: Rule | None = self.rule if who.replays else None
        if who.floor == "skips":
            chosen = self.cell(replace(who, floor=""), row)["replay"]
            rule = Counted(Chance(FLOOR_SEED), counts_of(chosen, config.tokens_per_frame))
        if who.precision not in self._decoders:
            self._decoders[who.precision] = self._decoder(who.precision)
        decoder = self._decoders[who.precision]
        decoded = decoder.decode(rule, row.prompt, row.codes, attention=reader)
        logits = decoded.hidden.astype(float) @ self._head
        return {
            "nats": -log_chances(logits)[np.arange(len(logits)), row.codes],
            "mass": reader.mass,
            "replay": decoded.replay,
            "tokens": reader.tokens.astype(np.uint16),
            "runs": reader.runs.astype(np.uint16),
            "held": reader.held,
        }

    def _decoder(self, precision: DecoderPrecision | None) -> Decoder:
        archive = self.archive
        if precision is None:
            return archive.decoder
        return Decoder(archive.model, archive.config, self.weights(precision))

    def weights(self, precision: DecoderPrecision) -> Weights:
        """Weights in a precision, calibrated as ``carsim capture`` does."""
        return quantise(self.group(precision.calibration.frames), precision, lambda done: None)

    def group(self, frames: int) -> RowGroup:
        """The first frames of the rows of calibration, each as a guidance pair."""
        archive, rows = self.archive, [row for row in self._calibration for _ in range(2)]
        steps = frames * archive.config.tokens_per_frame
        return RowGroup(
            config=archive.config,
            policy=DecoderPolicy((None,) * archive.n_layers),
            model=archive.model,
            prompts=tuple(row.prompt for row in rows),
            prompt_tokens=max(len(row.prompt) for row in rows),
            tokens=np.stack([row.codes[:steps] for row in self._calibration], axis=1),
            given_steps=steps,
            sampling=None,
            seeds=tuple((0, number) for number in range(len(self._calibration))),
        )


def scenes(n: int = len(CLIPS), n_frames: int = 8) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
    """Prompted rows of the first n scenes, and both rows of those that the machines run."""
    clips = CLIPS[:n]
    pairs = rows_of(clips[:PAIRS], blank=True, n_frames=n_frames)
    return rows_of(clips, n_frames=n_frames), pairs


def bench(n_frames: int = 8) -> Bench:
    """The proxy model's."""
    archive = Archive(n_frames=n_frames)
    rows = rows_of(TUNING[:CALIBRATION_CLIPS], n_frames=n_frames)
    return Bench(archive, fastcar(archive.n_layers), rows)


def measure(
    bench: Bench, who: Iterable[Contestant], rows: Sequence[Row]
) -> Iterable[dict[str, object]]:
    """A row of ``cells.csv`` for each contestant and scene: means after frame 0."""
    config = bench.archive.config
    for each in who:
        for row in rows:
            yield measured(each, row, bench.cell(each, row), config)


def measured(
    who: Contestant, row: Row, cell: dict[str, NDArray[Any]], config: Config
) -> dict[str, object]:
    """Loss, recall, density and replay ratio of a cell, after frame 0."""
    later = slice(config.tokens_per_frame, None)
    context = len(row.prompt) + 1 + np.arange(config.n_steps)
    return {
        "contestant": who.name,
        "family": who.family,
        "strength": who.strength,
        "replays": who.replays,
        "floor": who.floor,
        "clip": row.clip,
        "nats": cell["nats"][later].mean(),
        "recall": cell["mass"][later].mean(dtype=float),
        "density": cell["tokens"][later].mean(axis=(1, 2)).sum() / context[later].sum(),
        "run_tokens": cell["tokens"][later].sum(dtype=float) / cell["runs"][later].sum(dtype=float),
        "held": cell["held"][-1].mean() / context[-1],
        "held_most": cell["held"][-1].max() / context[-1],
        "ratio": cell["replay"][later].mean(),
    }


def table(bench: Bench, who: Iterable[Contestant], rows: Sequence[Row]) -> pd.DataFrame:
    """All of them."""
    return pd.DataFrame(measure(bench, who, rows))
