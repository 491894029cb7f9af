"""DraftAttention with pooled queries in the proxy model: the queries of a block choose together.

In decoding, each query chooses its own blocks (:mod:`carsim.decisions.attention.draft`). The paper
pools the queries of a block, too. Under teacher forcing all queries of a frame are known at once,
so that this can be decoded: the mean query of a block scores the mean keys, and all its queries
read what it chose. Simplification: blocks are runs of 16 places in raster order, one row of the
frame, where the paper has patches of 8 x 16.
"""

import numpy as np
import pandas as pd

from carsim.decisions.attention import Draft
from carsim.decisions.attention.base import Bools
from carsim.decoder.content import TOKENS_PER_FRAME
from carsim.decoder.structures import Array
from studies.claims.tables import table
from studies.content import Row, rows_of
from studies.frames import OfDraft
from studies.league.cells import CLIPS as LEAGUE
from studies.record import Archive

KEEP = 0.25


class OfPooledQueries(OfDraft):
    """Draft attention whose queries choose together, block by block."""

    def _reads(self, layer: int, q: Array, seen: Bools, first: int) -> Bools | None:
        size = self.policy.block_tokens
        block_of_query = (first - self.prompt + np.arange(q.shape[2])) // size
        pooled = np.empty_like(q)
        for block in np.unique(block_of_query):
            mine = block_of_query == block
            pooled[:, :, mine] = q[:, :, mine].mean(axis=2, keepdims=True)
        return super()._reads(layer, pooled, seen, first)


def loss_under(archive: Archive, row: Row, keep: float) -> float:
    """Loss of a row under draft attention with pooled queries, nats per token after frame 0."""
    policy = Draft(keep=keep)
    what = ("claims", "pooled queries", policy, row.prompt, row.codes.tobytes())

    def make() -> dict[str, np.ndarray]:
        reader = OfPooledQueries(policy, archive.config, len(row.prompt))
        return {"nats": archive.nats_under(reader, row)}

    return float(archive.once(what, make)["nats"][TOKENS_PER_FRAME:].mean())


def pooling_table(archive: Archive, clips: tuple[str, ...]) -> pd.DataFrame:
    """Losses over dense decoding, a row for each scene of the league that is wanted.

    Columns: ``both``: queries and keys are pooled; ``keys``: keys alone; ``random``: as many
    blocks, drawn for each query. Those two, and dense decoding, are the league's.
    """
    nats = table("league/cells").pivot(index="clip", columns="contestant", values="nats")
    lines = []
    for row in rows_of(LEAGUE[: len(clips)]):
        dense = nats.loc[row.clip, "dense"]
        lines.append(
            {
                "clip": row.clip,
                "both": loss_under(archive, row, KEEP) - dense,
                "keys": nats.loc[row.clip, f"draft {KEEP:g}"] - dense,
                "random": nats.loc[row.clip, f"draft {KEEP:g}, random keys"] - dense,
            }
        )
    return pd.DataFrame(lines)
