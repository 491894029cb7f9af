"""The rule ``periodic`` in gates: counters in place of scores, threshold and comparator.

Layer ``l`` replays in frame ``t`` where ``(l + t) mod period`` is not 0, and computes in frame 0,
for all sequences alike (:mod:`carsim.decisions.replay.periodic`).
"""

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class PeriodicUnit(wiring.Component):
    """Decisions of a video, layer by layer and token by token.

    Ports:
        clear: A video begins.
        step: The layer is over; the next one follows, or the first layer of the next token.
        last_layer, last_token, last_turn: Layers of the model, tokens of a frame and the period,
            each less 1; stable from ``clear`` on.
        replays: The layer replays.
    """

    def __init__(self) -> None:
        lasts = {"last_layer": In(8), "last_token": In(16), "last_turn": In(10)}
        super().__init__({"clear": In(1), "step": In(1), **lasts, "replays": Out(1)})

    def elaborate(self, platform: object) -> Module:
        """Counters of layers and tokens, frame mod period, and (layer + frame) mod period."""
        m = Module()
        layer, token = Signal.like(self.last_layer), Signal.like(self.last_token)
        frame, place, first = (Signal.like(self.last_turn) for _ in range(3))
        later, ends = Signal(), Signal()
        m.d.comb += [
            ends.eq(token == self.last_token),
            first.eq(Mux(ends, self._next(frame), frame)),
            self.replays.eq(later & (place != 0)),
        ]
        with m.If(self.clear):
            m.d.sync += [signal.eq(0) for signal in (layer, token, frame, place, later)]
        with m.Elif(self.step):
            m.d.sync += [layer.eq(layer + 1), place.eq(self._next(place))]
            with m.If(layer == self.last_layer):
                m.d.sync += [layer.eq(0), token.eq(token + 1), place.eq(first), frame.eq(first)]
                with m.If(ends):
                    m.d.sync += [token.eq(0), later.eq(1)]
        return m

    def _next(self, turn: Signal) -> Value:
        return Mux(turn == self.last_turn, 0, turn + 1)
