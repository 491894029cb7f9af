"""The temporal attention score in gates: the mean over heads of <q, k>, held against tau.

Formats are those of a design: the query in ``q_bits`` with one step for the token, the key as
cached, in codes of ``k_bits`` with a step and a zero point for each head (``model.kv.group`` is
head_dim). With whole numbers q, code and zero,

    score = q_step / (H sqrt(hd)) * sum over heads of step * (sum over elements of q (code - zero)),

so that the score exceeds tau where the double sum exceeds ``limit``: tau over the factor in front,
rounded down. Nothing in between is rounded: the decision is exact for the formats.

:class:`TasUnit` has multipliers of its own. The machine that carsim simulates needs none: its
vector units multiply (:mod:`carsim.decisions.replay.tas`), and the dispatcher compares.
"""

from typing import NamedTuple

from amaranth.hdl import Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

LATENCY_CYCLES = 5
"""From the cycle of the last elements to that of the decision."""


class TasUnit(wiring.Component):
    """The score of one row after the other, ``lanes`` elements a cycle, heads one by one.

    Rows and heads may follow each other without a gap. With ``heads`` 1 it scores with one head
    alone, as ``rule.head`` of a recipe.

    Ports:
        valid: Elements are there.
        q, k: ``lanes`` elements of the query, whole numbers, and as many codes of the key.
        step, zero: Of the key's head; looked at with its last elements.
        limit: Largest double sum that does not replay; looked at when the row is through.
        decided: A row is through; one cycle long, with ``replay`` and ``total``.
        replay: The sum exceeds the limit, strictly.
        total: The double sum.

    Args:
        heads: Query heads that are scored.
        head_dim: Elements of a head, a multiple of ``lanes``.
        lanes: Products a cycle.
        q_bits: Of an element of the query, with its sign.
        k_bits: Of a code, without sign.
        scale_bits: Of the step, without sign, and of the zero point, with sign.
    """

    def __init__(
        self,
        *,
        heads: int,
        head_dim: int,
        lanes: int,
        q_bits: int = 16,
        k_bits: int = 8,
        scale_bits: int = 16,
    ) -> None:
        self.check(head_dim, lanes)
        self._heads = heads
        self._beats = head_dim // lanes
        self._lanes = lanes
        self._q_bits = q_bits
        self._k_bits = k_bits
        self._scale_bits = scale_bits
        # A sum has a bit for the difference of code and zero, and one for each doubling of terms.
        self._sum_bits = q_bits + max(k_bits, scale_bits) + 1 + ceil_log2(head_dim)
        total_bits = self._sum_bits + scale_bits + 1 + ceil_log2(heads)
        super().__init__(
            {
                "valid": In(1),
                "q": In(signed(q_bits)).array(lanes),
                "k": In(k_bits).array(lanes),
                "step": In(scale_bits),
                "zero": In(signed(scale_bits)),
                "limit": In(signed(total_bits)),
                "decided": Out(1),
                "replay": Out(1),
                "total": Out(signed(total_bits)),
            }
        )

    @staticmethod
    def check(head_dim: int, lanes: int) -> None:
        """Refuse lanes that do not divide a head.

        Raises:
            ValueError: They do not.
        """
        if head_dim % lanes:
            raise ValueError(f"{lanes} lanes do not divide a head of {head_dim} elements")

    def elaborate(self, platform: object) -> Module:
        """A pipeline of five stages, each a cycle long.

        They are: products of the lanes; sums over a head; the zero point taken off; the head's
        scale; the sum over the row and its comparison with the limit.
        """
        m = Module()
        flags = self._flags_of_input(m)

        product_bits = self._q_bits + self._k_bits + 1
        products = [Signal(signed(product_bits), name=f"product_{n}") for n in range(self._lanes)]
        for product, q, k in zip(products, self.q, self.k, strict=True):
            m.d.sync += product.eq(q * k)
        q_sum = Signal(signed(self._q_bits + ceil_log2(self._lanes)))
        m.d.sync += q_sum.eq(sum(self.q))
        flags = _delayed_flags(m, "products", flags)
        step = _delayed(m, "products_step", self.step)
        zero = _delayed(m, "products_zero", self.zero)

        dot = Signal(signed(self._sum_bits))  # sum of q * code
        q_dot = Signal(signed(self._sum_bits))  # sum of q
        with m.If(flags.valid):
            m.d.sync += [
                dot.eq(Mux(flags.first_of_head, 0, dot) + sum(products)),
                q_dot.eq(Mux(flags.first_of_head, 0, q_dot) + q_sum),
            ]
        flags = _delayed_flags(m, "head", flags)
        step = _delayed(m, "head_step", step)
        zero = _delayed(m, "head_zero", zero)

        centred = Signal(signed(self._sum_bits))
        m.d.sync += centred.eq(dot - zero * q_dot)
        flags = _delayed_flags(m, "centred", flags)
        step = _delayed(m, "centred_step", step)

        scaled = Signal(signed(self._sum_bits + self._scale_bits + 1))
        m.d.sync += scaled.eq(centred * step)
        flags = _delayed_flags(m, "scaled", flags)

        running = Signal.like(self.total, name="running")  # sum over the heads before this one
        total = Signal.like(self.total, name="total_with_head")
        m.d.comb += total.eq(running + scaled)
        m.d.sync += self.decided.eq(flags.valid & flags.last_of_row)
        with m.If(flags.valid & flags.last_of_head):
            m.d.sync += [
                running.eq(Mux(flags.last_of_row, 0, total)),
                self.total.eq(total),
                self.replay.eq(total > self.limit),
            ]
        return m

    def _flags_of_input(self, m: Module) -> "_Flags":
        """Count beats of a head and heads of a row; the flags of the elements that enter."""
        beat = Signal(range(self._beats))
        head = Signal(range(self._heads))
        last_beat = Signal()
        last_head = Signal()
        m.d.comb += [last_beat.eq(beat == self._beats - 1), last_head.eq(head == self._heads - 1)]
        with m.If(self.valid):
            m.d.sync += beat.eq(Mux(last_beat, 0, beat + 1))
            with m.If(last_beat):
                m.d.sync += head.eq(Mux(last_head, 0, head + 1))
        return _Flags(
            valid=self.valid,
            first_of_head=beat == 0,
            last_of_head=last_beat,
            last_of_row=last_beat & last_head,
        )


class _Flags(NamedTuple):
    """Flags that travel with the elements from stage to stage.

    Attributes:
        valid: Elements are there.
        first_of_head: They are the first ones of their head.
        last_of_head: They are the last ones of their head.
        last_of_row: They are the last ones of their row.
    """

    valid: Value
    first_of_head: Value
    last_of_head: Value
    last_of_row: Value


def _delayed_flags(m: Module, stage: str, flags: _Flags) -> _Flags:
    """Flags a cycle later, in registers that are named after the stage before them."""
    delayed = [Signal(name=f"{stage}_{name}") for name in _Flags._fields]
    for later, flag in zip(delayed, flags, strict=True):
        m.d.sync += later.eq(flag)
    return _Flags._make(delayed)


def _delayed(m: Module, name: str, value: Signal) -> Signal:
    """A value a cycle later, in a register of that name."""
    later = Signal.like(value, name=name)
    m.d.sync += later.eq(value)
    return later
