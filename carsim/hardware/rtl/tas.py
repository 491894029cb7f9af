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

from amaranth.hdl import Module, Mux, Signal, signed
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
        self._heads, self._beats, self._lanes = heads, head_dim // lanes, lanes
        self._sum_bits = q_bits + max(k_bits, scale_bits) + 1 + ceil_log2(head_dim)
        self._q_bits, self._k_bits, self._scale_bits = q_bits, k_bits, scale_bits
        total_bits = self._sum_bits + scale_bits + 1 + ceil_log2(heads)
        shapes = {"step": scale_bits, "zero": signed(scale_bits), "limit": signed(total_bits)}
        decision = {"decided": 1, "replay": 1, "total": signed(total_bits)}
        super().__init__(
            {"valid": In(1), "q": In(signed(q_bits)).array(lanes), "k": In(k_bits).array(lanes)}
            | {name: In(shape) for name, shape in shapes.items()}
            | {name: Out(shape) for name, shape in decision.items()}
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
        """Products; their sum; the head's sum; its scale; the row's sum, and the comparison."""
        m = Module()
        beat, head = Signal(range(self._beats)), Signal(range(self._heads))
        last_beat, last_head = Signal(), Signal()
        m.d.comb += [last_beat.eq(beat == self._beats - 1), last_head.eq(head == self._heads - 1)]
        with m.If(self.valid):
            m.d.sync += beat.eq(Mux(last_beat, 0, beat + 1))
            with m.If(last_beat):
                m.d.sync += head.eq(Mux(last_head, 0, head + 1))

        # Flags travel with the data: (valid, first of a head, last of a head, last of the row).
        flags = [self.valid, beat == 0, last_beat, last_beat & last_head]
        scale = (self.step, self.zero)

        product_bits = self._q_bits + self._k_bits + 1
        products = [Signal(signed(product_bits), name=f"product_{n}") for n in range(self._lanes)]
        q_sum = Signal(signed(self._q_bits + ceil_log2(self._lanes)))
        m.d.sync += [
            *(each.eq(q * k) for each, q, k in zip(products, self.q, self.k, strict=True)),
            q_sum.eq(sum(self.q)),
        ]
        flags, scale = _next(m, "products", flags, scale)

        dot, q_dot = Signal(signed(self._sum_bits)), Signal(signed(self._sum_bits))
        with m.If(flags[0]):
            m.d.sync += [
                dot.eq(Mux(flags[1], 0, dot) + sum(products)),
                q_dot.eq(Mux(flags[1], 0, q_dot) + q_sum),
            ]
        flags, (step, zero) = _next(m, "head", flags, scale)

        centred = Signal(signed(self._sum_bits))
        m.d.sync += centred.eq(dot - zero * q_dot)
        flags, (step,) = _next(m, "centred", flags, (step,))

        scaled = Signal(signed(self._sum_bits + self._scale_bits + 1))
        m.d.sync += scaled.eq(centred * step)
        flags, _ = _next(m, "scaled", flags, ())

        running, total = Signal.like(self.total), Signal.like(self.total)
        m.d.comb += total.eq(running + scaled)
        m.d.sync += self.decided.eq(flags[0] & flags[3])
        with m.If(flags[0] & flags[2]):
            m.d.sync += [
                running.eq(Mux(flags[3], 0, total)),
                self.total.eq(total),
                self.replay.eq(total > self.limit),
            ]
        return m


def _next(
    m: Module, stage: str, flags: list[Signal], values: tuple[Signal, ...]
) -> tuple[list[Signal], tuple[Signal, ...]]:
    """Flags and values a cycle later."""
    later = [Signal(name=f"{stage}_flag_{n}") for n in range(len(flags))]
    held = tuple(Signal.like(value, name=f"{stage}_{n}") for n, value in enumerate(values))
    m.d.sync += [new.eq(old) for new, old in zip((*later, *held), (*flags, *values), strict=True)]
    return later, held
