"""AnnCA on prompts of 512 tokens: what it reads, what that is worth, and what a machine gains.

A scene's caption is repeated until it has 512 bytes, which are its tokens.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from carsim import load_trace
from carsim.decisions.attention import AnnCa
from carsim.decoder.content import TOKENS_PER_FRAME
from carsim.decoder.structures import Array, Config
from carsim.explore.evaluate import Machines
from studies.claims.draft_map import softmax
from studies.content import Row, rows_of
from studies.frames import OfAnnCa
from studies.league import cells, machines
from studies.league.longer import Kept
from studies.record import Archive, Ask

PROMPT = 512
BITS = 8
CHANCE_SEED = 1
MOST_OF_IT = 0.9
MACHINES = ("zcu102_head", "zcu102_16gb")
"""Of a batch of at most eight sequences."""

LIKE = "vilau_8f"
"""The trace that gives the rest of the metadata."""


def long_rows(clips: tuple[str, ...], *, blank: bool = False) -> tuple[Row, ...]:
    """Rows of scenes whose prompts have 512 tokens."""
    return tuple(
        replace(row, prompt=(row.prompt * PROMPT)[:PROMPT]) for row in rows_of(clips, blank=blank)
    )


class LookingAnnCa(OfAnnCa):
    """AnnCA, which also sums up how dense attention would spread its mass over the prompt.

    Attributes:
        prompt_mass: For each frame, layer and key head: mass on each token of the prompt, over that
            on all of them, mean over queries, [T, L, KV, P].
        chosen: Tokens of the prompt that are read, bool[T, L, KV, P].
    """

    def __init__(self, policy: Any, config: Config, prompt: int, chance: int | None = None) -> None:
        super().__init__(policy, config, prompt, chance)
        shape = config.geometry
        size = config.n_frames, shape.n_layers, shape.n_kv_heads, prompt
        self.prompt_mass = np.zeros(size, np.float32)
        self.chosen = np.zeros(size, bool)

    def _attend(self, layer: int, q: Array, k: Array, v: Array, first: int) -> Array:
        out = super()._attend(layer, q, k, v, first)
        frame = (first - self.prompt) // self._n
        if frame > 0:
            keys = k[:, None, : self.prompt]  # [KV, 1, P, hd]
            scores = (q * q.dtype.type(q.shape[-1] ** -0.5)) @ keys.swapaxes(-1, -2)
            spread = softmax(scores).mean(axis=1).sum(axis=1)  # [KV, P]
            self.prompt_mass[frame, layer] += spread / self._n
            self.chosen[frame, layer] = self._read[layer]
        return out


def share_needed(mass: Array) -> float:
    """Least share of the tokens with 90 % of the mass, mean over frames, layers and heads.

    Args:
        mass: Mass on each token, [.., tokens].

    >>> share_needed(np.array([[0.0, 0.95, 0.05, 0.0]]))
    0.25
    """
    falling = -np.sort(-mass, axis=-1)
    needed = (falling.cumsum(axis=-1) < MOST_OF_IT).sum(axis=-1) + 1
    return float(needed.mean() / mass.shape[-1])


def of_caption(mass: Array, prompt: bytes) -> Array:
    """Mass on each token of the caption, that on its copies added up, [.., caption].

    Args:
        mass: Mass on each token of the prompt, [.., P].
        prompt: A caption that is repeated.

    >>> of_caption(np.array([0.5, 0.25, 0.0, 0.25]), b"abab")
    array([0.5, 0.5])
    """
    length = next(n for n in range(1, len(prompt)) if prompt[n:] == prompt[:-n])
    token = np.arange(len(prompt)) % length
    return np.stack([mass[..., token == place].sum(axis=-1) for place in range(length)], axis=-1)


def loss_of_chance(archive: Archive, row: Row) -> float:
    """Loss with as many tokens of the prompt as AnnCA reads, drawn at random."""
    policy = AnnCa(bits=BITS)
    what = ("claims", "random tokens", policy, CHANCE_SEED, row.prompt, row.codes.tobytes())

    def make() -> dict[str, Any]:
        reader = OfAnnCa(policy, archive.config, len(row.prompt), CHANCE_SEED)
        return {"nats": archive.nats_under(reader, row)}

    return float(archive.once(what, make)["nats"][TOKENS_PER_FRAME:].mean())


def looked(archive: Archive, row: Row) -> dict[str, Any]:
    """What AnnCA does on a row.

    Returns:
        ``nats`` [S]; ``tokens`` and ``runs`` [S, L, KV]; ``held`` [T, L]; ``read``: share of the
        prompt that is read; ``mass``: share of the prompt's mass on it; ``needed``: least share of
        the prompt with 90 % of the mass; ``needed_once``: the same of the caption, all copies of a
        token counted as one.
    """
    policy = AnnCa(bits=BITS)
    what = ("claims", "looking at copies", policy, row.prompt, row.codes.tobytes())

    def make() -> dict[str, Any]:
        reader = LookingAnnCa(policy, archive.config, len(row.prompt))
        nats = archive.nats_under(reader, row)
        mass = reader.prompt_mass[1:]
        chosen = reader.chosen[1:]
        return {
            "nats": nats,
            "tokens": reader.tokens,
            "runs": reader.runs,
            "held": reader.held,
            "read": chosen.mean(),
            "mass": (mass * chosen).sum(axis=-1).mean(),
            "needed": share_needed(mass),
            "needed_once": share_needed(of_caption(mass, row.prompt)),
        }

    return archive.once(what, make)


def prompt_table(archive: Archive, clips: tuple[str, ...]) -> pd.DataFrame:
    """Losses over dense decoding with the same prompt, and shares: a row for each scene.

    ``read``, ``mass``, ``needed`` and ``needed_once`` are those of :func:`looked`, means over
    frames 1 on, layers and heads. As many tokens drawn at random have ``read`` of the mass, in the
    mean.
    """
    table = []
    for row in long_rows(clips):
        (dense,) = archive.decode([Ask(None, row)])
        own = looked(archive, row)
        table.append(
            {
                "clip": row.clip,
                "ann_ca": own["nats"][TOKENS_PER_FRAME:].mean() - dense.loss,
                "random": loss_of_chance(archive, row) - dense.loss,
                "read": float(own["read"]),
                "mass": float(own["mass"]),
                "needed": float(own["needed"]),
                "needed_once": float(own["needed_once"]),
            }
        )
    return pd.DataFrame(table)


def machine_table(archive: Archive, clips: tuple[str, ...]) -> pd.DataFrame:
    """Seconds a video under dense attention and under AnnCA: a row for each machine.

    The first four scenes, as guidance pairs whose blank prompts have 512 tokens, too, run on each
    machine.
    """
    shipped = load_trace(LIKE)
    meta = shipped.meta.model_copy(update={"prompt_tokens": PROMPT})
    like = replace(shipped, meta=meta)
    contestants = {
        "dense": cells.Contestant("dense"),
        "ann_ca": cells.Contestant("AnnCA", f"{BITS} bit", AnnCa(bits=BITS)),
    }
    table = []
    for name in MACHINES:
        rows = long_rows(clips[: machines.LEAST_ROWS // 2], blank=True)
        lengths = [len(row.prompt) for row in rows]
        kept = []
        for row in rows:
            own = looked(archive, row)
            nothing = np.zeros((archive.config.n_steps, archive.n_layers), bool)
            kept.append(Kept(nothing, own["tokens"], own["runs"], own["held"]))
        line: dict[str, object] = {"machine": name}
        for column, who in contestants.items():
            trace = machines.trace_of(who, kept, lengths, like)
            design = machines.design_of(name, who)
            line[column] = machines.simulated(Machines("fluid"), design, trace)["seconds"]
        table.append(line)
    return pd.DataFrame(table)
