"""What a rule of replay is told: the decoding that begins, the machine; and the work it answers.

Letters in shapes as in :mod:`carsim.decisions.attention.base`, and d the hidden size.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, NamedTuple

Point = Literal["q", "attention", "residual"]
"""Points of a layer at which a decision can be known, in order: queries are there; attention is
done; the residual stream is complete, and with it the input of the MLP."""


@dataclass(frozen=True, eq=False)
class DecoderShape:
    """A decoding that begins, for rules that keep a state of their own.

    Attributes:
        n_layers: L.
        n_rows: B.
        tokens_per_frame: N.
        hidden_size: d.
        n_heads: H.
        head_dim: hd.
        dtype: Arithmetic.
    """

    n_layers: int
    n_rows: int
    tokens_per_frame: int
    hidden_size: int
    n_heads: int
    head_dim: int
    dtype: Any


@dataclass(frozen=True)
class MachineShape:
    """The model that a machine runs, and the share of it that one core has.

    Attributes:
        n_heads: H.
        n_kv_heads: KV.
        head_dim: hd.
        hidden_size: d.
        activation_bits: Stored bits of an activation.
        of: Cores that share heads and columns; 1 where a core has all of them.
        replay_bits: Stored bits of an element of a held output.
    """

    n_heads: int
    n_kv_heads: int
    head_dim: int
    hidden_size: int
    activation_bits: Fraction
    of: int = 1
    replay_bits: Fraction = Fraction(16)

    def columns(self, n: int) -> int:
        """Of n heads or columns, those of the core with the largest share."""
        return -(-n // self.of)


class RuleWork(NamedTuple):
    """Work of a rule for one row in one layer of one step that is scored.

    Attributes:
        vector_ops: Operations of the vector unit.
        key_elements: Elements of the cached key that is read; attention may read it in any case.
        held_bytes: Bytes held for one place: read where it is scored, written where the row
            computes, and kept for every place of the frame.
        read_bytes: Bytes read where it is scored of what is kept in any case, such as the output
            that is held for the place.
    """

    vector_ops: int = 0
    key_elements: int = 0
    held_bytes: int = 0
    read_bytes: int = 0

    @property
    def scoring_bytes(self) -> int:
        """Bytes that are read for one score, beside keys."""
        return self.held_bytes + self.read_bytes


NO_WORK = RuleWork()
