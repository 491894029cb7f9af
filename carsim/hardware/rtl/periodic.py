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
        layer = Signal(8)
        token = Signal(16)
        frame_turn = Signal(10)  # frame mod period
        layer_turn = Signal(10)  # (layer + frame) mod period
        next_frame_turn = Signal(10)  # frame mod period of the token that follows
        after_frame_0 = Signal()
        ends_frame = Signal()
        m.d.comb += [
            ends_frame.eq(token == self.last_token),
            next_frame_turn.eq(Mux(ends_frame, self._next(frame_turn), frame_turn)),
            self.replays.eq(after_frame_0 & (layer_turn != 0)),
        ]
        with m.If(self.clear):
            for register in (layer, token, frame_turn, layer_turn, after_frame_0):
                m.d.sync += register.eq(0)
        with m.Elif(self.step):
            m.d.sync += [layer.eq(layer + 1), layer_turn.eq(self._next(layer_turn))]
            with m.If(layer == self.last_layer):
                m.d.sync += [
                    layer.eq(0),
                    token.eq(token + 1),
                    layer_turn.eq(next_frame_turn),
                    frame_turn.eq(next_frame_turn),
                ]
                with m.If(ends_frame):
                    m.d.sync += [token.eq(0), after_frame_0.eq(1)]
        return m

    def _next(self, turn: Signal) -> Value:
        """The number after ``turn``, modulo the period."""
        return Mux(turn == self.last_turn, 0, turn + 1)
