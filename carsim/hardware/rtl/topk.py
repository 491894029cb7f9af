"""The best k of a row of scores: the unit with which a policy of attention chooses blocks.

A score and its index make one key, compared as one number, so that of equal scores the later wins,
as in :func:`carsim.decisions.attention.search.best`.

:class:`Sorter` merges runs of 1, 2, 4, ... keys in a chain of :class:`Merger` and gives a row out
best first, so that its first k are the best k. It takes a score every cycle, whatever the scores
are, and rows follow each other without a gap. A pipelined heap holds each key once instead of
twice, but waits a cycle after each score that it keeps, since a level must be written before the
level above can compare with it again.
"""

from amaranth.hdl import C, Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

SLACK = 3
"""Entries of a queue beyond a run, so that a run that follows never waits."""

LONG_RUN = 1024
"""Keys of a run whose queue fills a block RAM: one entry more, and a cycle lost with each run."""


class Merger(wiring.Component):
    """Makes one sorted run of each two, a key a cycle.

    Runs enter two queues in turn. The last run of a row stays alone if their number is odd.

    Ports:
        key, last, final, valid, ready: Runs, best key first; ``last`` of a run, ``final`` of a row.
        merged_key, merged_last, merged_final, merged_valid, merged_ready: Runs of twice the length.

    Args:
        length: Longest run that enters.
        bits: Of a key.
    """

    def __init__(self, length: int, bits: int) -> None:
        self._length = length
        self._bits = bits
        stream_bits = {"key": bits, "last": 1, "final": 1, "valid": 1}
        incoming = {name: In(width) for name, width in stream_bits.items()}
        merged = {f"merged_{name}": Out(width) for name, width in stream_bits.items()}
        handshake = {"ready": Out(1), "merged_ready": In(1)}
        super().__init__(incoming | merged | handshake)

    def elaborate(self, platform: object) -> Module:
        """A comparator between the heads of two queues, and a register behind it.

        Runs of queue ``a`` and of queue ``b`` are merged. A last run that stays alone enters ``a``,
        with an empty entry in ``b``.
        """
        m = Module()
        goes = Signal()  # a key enters the register
        wins = Signal()  # it is the one of queue a
        ends = Signal()  # it is the last one of the merged run
        alone = Signal()  # the run in queue a stays alone
        takes = Signal(2)  # a bit for each queue: its head is taken
        through = Signal(2)  # a bit for each queue: its run is through
        final = Signal()  # the run of queue b is the last one of the row
        words, valids = self._queues(m, takes)
        word_a, word_b = words
        key_a = word_a[: self._bits]
        last_a = word_a[self._bits]
        key_b = word_b[: self._bits]
        last_b, final_b, is_empty = word_b[self._bits :]
        m.d.comb += [
            goes.eq((through | valids).all() & (self.merged_ready | ~self.merged_valid)),
            alone.eq(is_empty & ~through[1]),
            wins.eq(~through[0] & (through[1] | alone | (key_a > key_b))),
            ends.eq(Mux(wins, last_a & (through[1] | alone), last_b & through[0])),
            takes[0].eq(goes & wins),
            takes[1].eq(goes & (~wins | (alone & last_a))),
        ]
        with m.If(goes):
            m.d.sync += [
                self.merged_key.eq(Mux(wins, key_a, key_b)),
                self.merged_last.eq(ends),
                self.merged_final.eq(ends & Mux(through[1], final, final_b)),
                through.eq(Mux(ends, 0, through | Cat(wins & last_a, ~wins & last_b))),
            ]
        with m.If(takes[1]):
            m.d.sync += final.eq(final_b)
        with m.If(self.merged_ready | goes):
            m.d.sync += self.merged_valid.eq(goes)
        return m

    def _queues(self, m: Module, takes: Signal) -> tuple[list[Signal], Signal]:
        """The heads of both queues, each in a register, and whether they are there."""
        side = Signal()  # the queue that the run enters
        accepted = Signal()
        stays_alone = Signal()
        rooms = Signal(2)
        valids = Signal(2)
        words = []
        m.d.comb += [
            self.ready.eq(rooms.all()),
            accepted.eq(self.valid & self.ready),
            stays_alone.eq(~side & self.final),
        ]
        with m.If(accepted & self.last):
            m.d.sync += side.eq(~side & ~self.final)
        for number in range(2):
            flags = Cat(self.last, self.final, stays_alone)[: 1 + 2 * number]
            word = Signal(self._bits + len(flags), name=f"word_{number}")
            slack = SLACK if self._length < LONG_RUN else 1
            queue = SyncFIFOBuffered(width=len(word), depth=self._length + slack)
            m.submodules[f"queue_{number}"] = queue
            m.d.comb += [
                rooms[number].eq(queue.w_rdy),
                queue.w_data.eq(Cat(self.key, flags)),
                queue.w_en.eq(accepted & ((side == number) | (stays_alone & number))),
                queue.r_en.eq(takes[number] | ~valids[number]),
            ]
            with m.If(queue.r_en):
                m.d.sync += [word.eq(queue.r_data), valids[number].eq(queue.r_rdy)]
            words.append(word)
        return words, valids


class Sorter(wiring.Component):
    """Sorts row after row.

    Ports:
        score, index, last, valid, ready: Scores of a row; ``last`` with the last one.
        best, best_last, best_valid, best_ready: Indices of the row, best score first. They begin
            when the row is through, and go on while the next row is taken.

    Args:
        entries: Most scores of a row, a power of 2.
        score_bits: Of a score, without sign.
        index_bits: Of an index.
    """

    def __init__(self, entries: int, score_bits: int = 16, index_bits: int = 16) -> None:
        self._entries = entries
        self._bits = score_bits + index_bits
        input_bits = {
            "score": score_bits,
            "index": index_bits,
            "last": 1,
            "valid": 1,
            "best_ready": 1,
        }
        output_bits = {"ready": 1, "best": index_bits, "best_last": 1, "best_valid": 1}
        inputs = {name: In(bits) for name, bits in input_bits.items()}
        outputs = {name: Out(bits) for name, bits in output_bits.items()}
        super().__init__(inputs | outputs)

    def elaborate(self, platform: object) -> Module:
        """Mergers, each for runs of twice the length."""
        m = Module()
        # The runs that enter the first merger are single keys: each is the last of its run.
        stream = {
            "key": Cat(self.index, self.score),
            "last": C(1),
            "final": self.last,
            "valid": self.valid,
        }
        ready = self.ready
        for level in range(ceil_log2(self._entries)):
            merger = Merger(2**level, self._bits)
            m.submodules[f"level_{level}"] = merger
            for name, value in stream.items():
                m.d.comb += getattr(merger, name).eq(value)
            m.d.comb += ready.eq(merger.ready)
            stream = {name: getattr(merger, f"merged_{name}") for name in stream}
            ready = merger.merged_ready
        m.d.comb += [
            self.best.eq(stream["key"]),
            self.best_last.eq(stream["final"]),
            self.best_valid.eq(stream["valid"]),
            ready.eq(self.best_ready),
        ]
        return m
