"""A rule of replay as a user would add it, from outside of the package."""

from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
from toy_policies import in_registry

from carsim.decisions.replay import RULES, DecoderShape, MachineShape, ReplayRule, RuleWork, Seen


class Cosine(ReplayRule):
    """The cosine between a query head and the query that stood there when the row last computed."""

    label: ClassVar[str] = "cosine of queries"
    known_at = "q"
    kind: Literal["cosine"] = "cosine"
    head: int = 0

    def begin(self, shape: DecoderShape) -> Any:
        rows, places = shape.n_rows, shape.tokens_per_frame
        return np.ones((shape.n_layers, rows, places, shape.head_dim), shape.dtype)

    def score(self, state: Any, layer: int, place: int, seen: Seen) -> Any:
        new, held = seen.q[:, self.head], state[layer, :, place]
        lengths = np.linalg.norm(new, axis=-1) * np.linalg.norm(held, axis=-1)
        return (new * held).sum(axis=-1) / lengths

    def computed(self, state: Any, layer: int, place: int, rows: Any, seen: Seen) -> None:
        state[layer, rows, place] = seen.q[rows, self.head]

    def work(self, shape: MachineShape) -> RuleWork:
        return RuleWork(vector_ops=3 * shape.head_dim, held_bytes=2 * shape.head_dim)


TOYS: dict[str, type[ReplayRule]] = {"cosine": Cosine}


registered = partial(in_registry, RULES, TOYS)
