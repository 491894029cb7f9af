"""The best k of a row of scores: what DraftAttention asks to choose its blocks.

A score and its index make one key, compared as one number, so that of equal scores the later wins,
as in :func:`carsim.decisions.attention.search.best`. Two designs find the same keys:

* :class:`Heap` is the unit that carsim assumes (:mod:`carsim.decisions.attention.search`): entries
  in RAM, a comparator for each level. A key below the least of those found is discarded, one a
  cycle; one that replaces it sinks through the levels, and the next key may follow **two cycles**
  later, since a level must be written before the one above it may look at it again.
* :class:`Sorter` keeps its entries in registers with a comparator each and takes any key every
  cycle.

Both are as deep as the largest k; fewer are wanted with ``k``.
"""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out


class Sorter(wiring.Component):
    """Sorted registers: a key takes its place and moves all smaller ones on.

    Ports:
        clear: Forget all; no key may be there in the same cycle.
        valid: A key is there, ``score`` with ``index``.
        found: Index of the entry ``at``, best first; meaningful for as many as were put in.

    Args:
        entries: Largest k.
        score_bits: Of a score, without sign.
        index_bits: Of an index.
    """

    def __init__(self, entries: int, score_bits: int = 16, index_bits: int = 16) -> None:
        self._entries, self._index_bits = entries, index_bits
        self._bits = score_bits + index_bits
        super().__init__(
            {
                "clear": In(1),
                "valid": In(1),
                "score": In(score_bits),
                "index": In(index_bits),
                "at": In(range(entries)),
                "found": Out(index_bits),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Each cell looks at the new key, and at what the cell before it made of it."""
        m = Module()
        key = (self.score << self._index_bits) | self.index
        above: Signal | None = None
        before: tuple[Signal, ...] = ()
        indices = Signal(self._entries * self._index_bits)
        for n in range(self._entries):
            held, full = Signal(self._bits, name=f"held_{n}"), Signal(name=f"full_{n}")
            wins = Signal(name=f"wins_{n}")
            m.d.comb += [
                wins.eq(~full | (key > held)),
                indices.word_select(n, self._index_bits).eq(held[: self._index_bits]),
            ]
            with m.If(self.clear):
                m.d.sync += full.eq(0)
            with m.Elif(self.valid & wins):
                if above is None:
                    m.d.sync += [held.eq(key), full.eq(1)]
                else:
                    m.d.sync += [
                        held.eq(Mux(above, before[0], key)),
                        full.eq(Mux(above, before[1], 1)),
                    ]
            above, before = wins, (held, full)
        m.d.comb += self.found.eq(indices.word_select(self.at, self._index_bits))
        return m


class Heap(wiring.Component):
    """A pipelined heap whose root is the least of the best k.

    It begins with all entries empty, which is less than any key. Reading an entry empties it, so
    that the list is read once, entry 0 to ``k - 1``, when ``busy`` is low.

    Ports:
        k: Entries in use, at least 1; stable.
        valid, score, index: A key is offered, and taken if ``ready``.
        ready: Low in the cycle after a key has replaced the root.
        busy: Keys are sinking.
        read: Read and empty the entry ``at``; not while ``busy`` or ``valid``.
        at: Place in the heap, level by level, the root first.
        filled: The entry was in use, in the same cycle.
        found: Its index.

    Args:
        levels: Levels; 2 ** levels - 1 is the largest k.
        score_bits: Of a score, without sign.
        index_bits: Of an index.
    """

    def __init__(self, levels: int, score_bits: int = 16, index_bits: int = 16) -> None:
        self._levels, self._index_bits = levels, index_bits
        self._bits = score_bits + index_bits
        super().__init__(
            {
                "k": In(range(2**levels)),
                "valid": In(1),
                "ready": Out(1),
                "score": In(score_bits),
                "index": In(index_bits),
                "busy": Out(1),
                "read": In(1),
                "at": In(range(2**levels - 1)),
                "filled": Out(1),
                "found": Out(index_bits),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """A stage a level: the entry becomes the least of the key and its children."""
        m = Module()
        # An entry is a key with a bit on top, 0 where it is empty.
        key_bits, levels = self._bits + 1, self._levels
        stages = [self._ports(m, level) for level in range(levels)]
        sinks = [Signal(name=f"sinks_{level}") for level in range(levels)]
        keys = [Signal(key_bits, name=f"key_{level}") for level in range(levels)]
        places = [Signal(level, name=f"place_{level}") for level in range(levels)]

        root = Signal(key_bits)
        m.d.comb += [
            self.ready.eq(~sinks[0]),
            self.busy.eq(sum(sinks) != 0),
        ]
        offered = (1 << self._bits) | (self.score << self._index_bits) | self.index
        m.d.sync += sinks[0].eq(0)
        with m.If(self.valid & self.ready & (offered > root)):
            m.d.sync += [sinks[0].eq(1), keys[0].eq(offered)]

        for level in range(levels):
            self._sink(m, level, root, stages, sinks, keys, places)

        # Reading and emptying: the place as the heap numbers it, from 1.
        number = Signal(range(2**levels))
        m.d.comb += number.eq(self.at + 1)
        for level in range(levels):
            here = number >> level == 1
            if level == 0:
                entry = root
                with m.If(self.read & here):
                    m.d.sync += root.eq(0)
            else:
                # The children's ports of the level above: the left one, the right one.
                for side in range(2):
                    port, write = stages[level][side]
                    with m.If(self.read & here & (number[0] == side)):
                        m.d.comb += [
                            port.addr.eq(number[1:level] if level > 1 else 0),
                            write.addr.eq(number[1:level] if level > 1 else 0),
                            write.data.eq(0),
                            write.en.eq(1),
                            self.filled.eq(port.data[-1]),
                            self.found.eq(port.data[: self._index_bits]),
                        ]
                continue
            with m.If(here):
                m.d.comb += [
                    self.filled.eq(entry[-1]),
                    self.found.eq(entry[: self._index_bits]),
                ]
        return m

    def _ports(self, m: Module, level: int) -> list[tuple[Any, Any]]:
        """RAM of a level below the root: left children, and right children."""
        found = []
        for side in range(2 * (level > 0)):
            ram = Memory(shape=self._bits + 1, depth=2 ** (level - 1), init=[])
            m.submodules[f"level_{level}_{side}"] = ram
            found.append((ram.read_port(domain="comb"), ram.write_port()))
        return found

    def _sink(
        self,
        m: Module,
        level: int,
        root: Signal,
        stages: list[list[tuple[Any, Any]]],
        sinks: list[Signal],
        keys: list[Signal],
        places: list[Signal],
    ) -> None:
        """One level: read both children, write the least here, pass the key on if it is larger."""
        deepest = level == self._levels - 1
        key, place = keys[level], places[level]
        stays = Signal(self._bits + 1, name=f"stays_{level}")
        m.d.comb += stays.eq(key)
        if not deepest:
            (left, _), (right, _) = stages[level + 1]
            m.d.sync += sinks[level + 1].eq(0)
            with m.If(sinks[level]):
                m.d.comb += [left.addr.eq(place), right.addr.eq(place)]
            # A child beyond k does not exist: nothing is less than it.
            number = (1 << level) | place
            has_left, has_right = 2 * number <= self.k, 2 * number + 1 <= self.k
            goes_right = Signal(name=f"goes_right_{level}")
            least = Signal(self._bits + 1, name=f"least_{level}")
            m.d.comb += [
                goes_right.eq(has_right & (right.data < left.data)),
                least.eq(Mux(goes_right, right.data, left.data)),
            ]
            with m.If(sinks[level] & has_left & (least < key)):
                m.d.comb += stays.eq(least)
                m.d.sync += [
                    sinks[level + 1].eq(1),
                    keys[level + 1].eq(key),
                    places[level + 1].eq((place << 1) | goes_right),
                ]
        with m.If(sinks[level]):
            if level == 0:
                m.d.sync += root.eq(stays)
            else:
                for side in range(2):
                    _, write = stages[level][side]
                    own = place[0] == side
                    m.d.comb += [
                        write.addr.eq(place[1:]),
                        write.data.eq(stays),
                        write.en.eq(own),
                    ]
