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
from studies.content import Row, rows_of
from studies.frames import OfDraft
from studies.record import Archive, Ask

KEEP = 0.25
CHANCE_SEED = 1


class OfPooledQueries(OfDraft):
    """Draft attention whose queries choose together, block by block.

    A floor draws the blocks once for each block of queries.
    """

    def _reads(self, layer: int, q: Array, seen: Bools, first: int) -> Bools | None:
        size = self.policy.block_tokens
        blocks = (first - self.prompt + np.arange(q.shape[2])) // size
        self._block_of_query = blocks - blocks[0]
        pooled = np.empty_like(q)
        for block in np.unique(self._block_of_query):
            mine = self._block_of_query == block
            pooled[:, :, mine] = q[:, :, mine].mean(axis=2, keepdims=True)
        return super()._reads(layer, pooled, seen, first)

    def _drawn(self, shape: tuple[int, ...]) -> Array:
        heads, _, keys = shape
        n_blocks = int(self._block_of_query[-1]) + 1
        of_blocks = super()._drawn((heads, n_blocks, keys))
        drawn: Array = of_blocks[:, self._block_of_query]
        return drawn


def loss_under(archive: Archive, row: Row, kind: type[OfDraft], chance: int | None) -> float:
    """Loss of a row under draft attention, nats per token after frame 0."""
    policy = Draft(keep=KEEP)
    what = ("claims", kind.__name__, policy, chance, row.prompt, row.codes.tobytes())

    def make() -> dict[str, np.ndarray]:
        reader = kind(policy, archive.config, len(row.prompt), chance)
        return {"nats": archive.nats_under(reader, row)}

    return float(archive.once(what, make)["nats"][TOKENS_PER_FRAME:].mean())


def pooling_table(archive: Archive, clips: tuple[str, ...]) -> pd.DataFrame:
    """Losses over dense decoding, a row for each scene.

    Columns: ``keys``: keys are pooled alone; ``both``: queries, too; ``random``: as many blocks,
    drawn for each block of queries.
    """
    rows = rows_of(clips)
    ways: dict[str, tuple[type[OfDraft], int | None]] = {
        "keys": (OfDraft, None),
        "both": (OfPooledQueries, None),
        "random": (OfPooledQueries, CHANCE_SEED),
    }
    table = []
    for row in rows:
        (dense,) = archive.decode([Ask(None, row)])
        line: dict[str, object] = {"clip": row.clip}
        for name, (kind, chance) in ways.items():
            line[name] = loss_under(archive, row, kind, chance) - dense.loss
        table.append(line)
    return pd.DataFrame(table)
