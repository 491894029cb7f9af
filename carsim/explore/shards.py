"""Shards of a study: its points divided among machines that do not talk to each other.

Each machine evaluates one shard into a folder of its own. :mod:`carsim.explore.merge` joins the
folders. No scheduler is needed: which points a shard has follows from the study alone.
"""

import re
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

from carsim.base.errors import InputError
from carsim.base.yaml_file import shown
from carsim.explore.points import Point, chunks_of

BLOCK = 32
"""Neighbouring points that stay in one shard at most: they are simulated together, as a worker
does. Small studies have smaller blocks, so that all shards get points."""

BLOCKS_PER_SHARD = 8
"""Blocks that each shard of a small study gets at least, so that no shard has all slow points."""

ALL_POINTS = "all points"
"""Part of the study in a store that is no shard."""

MOST = 100_000
"""Shards of a study at most; more is a mistake in a script."""

CURE = "give NUMBER/COUNT, such as 3/16; shards are numbered from 1"


class Shard(NamedTuple):
    """One part of a study.

    Attributes:
        number: Number of the shard, from 1.
        total: Shards of the study.
    """

    number: int
    total: int

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """The shard of a text such as ``3/16``.

        Raises:
            InputError: The text is no shard.

        >>> Shard.parse("3/16")
        Shard(number=3, total=16)
        """
        match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", str(text).strip())
        if match is None:
            raise InputError("`shard`", f"got {shown(text)}", CURE)
        number = int(match[1])
        total = int(match[2])
        if not 1 <= number <= total <= MOST:
            raise InputError("`shard`", f"got {shown(text)}", CURE)
        return cls(number, total)

    @property
    def label(self) -> str:
        """Name of the shard in a store and in messages.

        >>> Shard(3, 16).label
        'shard 3/16'
        """
        return f"shard {self.number}/{self.total}"

    def points_of(self, points: Sequence[Point]) -> list[Point]:
        """The points of the shard, in the order of the study.

        Blocks of neighbours are dealt to the shards in turn. The points of a study of fewer points
        than shards leave some shards empty.
        """
        neighbours = chain.from_iterable(chunks_of(points))
        block = len(points) // (self.total * BLOCKS_PER_SHARD)
        block = min(BLOCK, max(1, block))
        of_shard = []
        for index, point in enumerate(neighbours):
            shard = index // block % self.total
            if shard == self.number - 1:
                of_shard.append(point)
        return sorted(of_shard, key=lambda point: point.ordinal)
