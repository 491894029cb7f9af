"""Work, cycles and joules of a run in plain integers and fractions, for comparison with carsim.

Only the fields of a design are read: nothing of carsim is imported. Every layer-step is counted by
itself, and every core of it. Rates and latencies of memories, and the power of idle logic, are
given.

Attention is dense or streaming; layers or heads may share keys and values, and older tokens may lie
in a second memory (the policies ``shared_layers``, ``shared_heads`` and ``far_cache`` of
``docs/ideas``, and stacks of them).

Not covered: experts, weights of single layers, latent attention, rules of replay other than TAS
over all heads, other policies of attention, contention between lanes.
"""

from collections import Counter
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil, log, prod
from typing import Any


def up(a: int, b: int) -> int:
    """a / b, rounded up."""
    return -(-a // b)


def bits(stored: Any) -> Fraction:
    """Stored bits per element, with the scales of its groups and without pruned weights."""
    scales = Fraction(stored.scale_bits + stored.zero_bits, stored.group) if stored.group else 0
    density = Fraction(str(getattr(stored, "density", 1)))
    return density * (Fraction(str(stored.bits)) + scales + getattr(stored, "index_bits", 0))


@dataclass
class Op:
    """A core's work between two barriers: products (m, k, n, copies), element operations, bytes."""

    gemms: tuple[tuple[int, int, int, int], ...]
    beside: int = 0  # element operations while the array works
    before: int = 0  # element operations before it starts
    stream: str = "weights"  # the operand that is streamed: weights, kv, kv_far, head or nothing
    streamed: int = 0
    kv: int = 0  # bytes of keys and values besides
    far: int = 0  # bytes of keys and values that are written to the second memory
    replay: int = 0  # bytes of the replay cache
    gathered: int = 0  # elements that all cores need next, if each computed its columns
    reading: Fraction = Fraction(1)  # cycles in which the port reads what the array takes in one


@dataclass(frozen=True)
class Cache:
    """How a policy keeps keys and values.

    ``sinks`` and ``window``: tokens that are read at most; None: all. ``layers`` and ``heads``:
    neighbours that share. ``near``: newest tokens that stay in the first memory; None: all.
    """

    sinks: int = 0
    window: int | None = None
    layers: int = 1
    heads: int = 1
    near: int | None = None

    @classmethod
    def of(cls, attention: Any) -> "Cache":
        """The fields of a policy, or of all policies of a stack."""
        parts = attention.policies if attention.kind == "stack" else (attention,)
        fields: dict[str, Any] = {}
        for part in parts:
            fields |= {
                "dense": lambda part: {},
                "streaming": lambda part: {"sinks": part.sinks, "window": part.window},
                "shared_layers": lambda part: {"layers": part.group},
                "shared_heads": lambda part: {"heads": part.group},
                "far_cache": lambda part: {"near": part.near},
            }[part.kind](part)
        return cls(**fields)

    def held(self, context: int) -> int:
        """Of so many tokens, those that are kept."""
        return context if self.window is None else min(context, self.sinks + self.window)

    def far(self, held: int) -> int:
        """Of so many tokens, the older ones."""
        return 0 if self.near is None else max(0, held - self.near)

    def key_heads(self, heads: int) -> int:
        """Of so many key heads, those that are projected and cached."""
        group = min(self.heads, heads)
        return heads if heads % group else heads // group


@dataclass
class Phase:
    """Work of a phase over all cores, and bounds of its cycles.

    ``work``: macs, vector_ops, sram_bytes, and bytes moved by the name of the memory. ``least``:
    no core computes, and no memory moves bytes, any faster. ``most``: one thing after the other.
    ``alone``: exact where everything computes, in one lane from one memory, each operand one tile.
    """

    work: Counter[str] = field(default_factory=Counter)
    least: int = 0
    most: int = 0
    alone: int = 0

    def add(self, other: "Phase", times: int = 1) -> None:
        """So many more phases, one after the other."""
        for what, amount in other.work.items():
            self.work[what] += times * amount
        self.least += times * other.least
        self.most += times * other.most
        self.alone += times * other.alone


@dataclass(frozen=True)
class Layer:
    """What a layer caches: key heads; ``shares``: nothing, it reads those of another layer."""

    key_heads: int
    shares: bool = False


KV = ("kv", "kv_far")


def causal_pairs(tokens: int, window: int | None) -> int:
    """Pairs of a query and a key of a prompt, each query reading the newest of a window."""
    beyond = max(0, tokens - (window or tokens))
    return tokens * (tokens + 1) // 2 - beyond * (beyond + 1) // 2


class Oracle:
    """A design on memories of known rates and latencies.

    ``rates``, ``fastest``: bytes per cycle by memory, for the phases as they are and for bounds.
    ``latencies``: cycles. ``nudge`` multiplies all bits per element. ``used``: cores that the tuned
    schedule uses, by the number of sequences that compute.
    """

    def __init__(
        self,
        design: Any,
        rates: dict[str, Fraction],
        fastest: dict[str, Fraction],
        latencies: dict[str, int],
        nudge: Fraction = Fraction(1),
        used: tuple[int, ...] = (),
    ) -> None:
        self.used = used
        self.model, self.machine, self.policy = design.model, design.machine, design.policy
        self.body, self.cores, self.nudge = self.model.body, self.machine.cores, nudge
        self.design, self.rates, self.fastest = design, rates, fastest
        self.latencies = dict(latencies)
        assert self.body.experts is None
        b, kind = self.body, self.machine.mapping
        self.hd = b.head_size or b.hidden_size // b.n_heads
        self.inner = 2 if b.mlp == "gated" else 1
        self.split = {"tensor": (True, True), "heads": (True, False)}.get(kind, (False, False))
        self.broadcast = self.machine.weight_sharing == "broadcast"
        if self.cores > 1 and (self.broadcast or self.split[1]):
            self.latencies[self.where("weights")] += self.machine.overheads.broadcast_cycles

    def nbytes(self, stored: Any, elements: int) -> int:
        """Bytes of so many elements."""
        return ceil(elements * bits(stored) * self.nudge / 8)

    def stored(self, role: str) -> Any:
        """Precision of the weights of a role."""
        by_role = self.model.weights_by_role
        stored = getattr(by_role, role)
        if stored is None and role.startswith("attention_"):
            stored = by_role.attention
        return self.model.weights if stored is None else stored

    def reading(self, role: str) -> Fraction:
        """The port is made for the usual weights; wider ones take longer, never less."""
        ratio = bits(self.stored(role)) / bits(self.model.weights)
        return max(Fraction(1), ratio.limit_denominator(10_000))

    def kept(self, role: str, k: int) -> int:
        """Of k weights of a role, those that are not pruned."""
        return ceil(Fraction(str(self.stored(role).density)) * k)

    def where(self, what: str) -> str:
        return str(getattr(self.machine.placement, what))

    # ------------------------------------------------------------------ ops of one core

    def product(self, name: str, m: int, k: int, n: int, beside: int, before: int = 0) -> Op:
        """A product with weights; the operations of its biases and polished inputs are added."""
        bias = name in self.body.biases
        roles = {"qkv": "attention_qkv", "out": "attention_output"}
        role = roles.get(name, "mlp")
        weights = self.nbytes(self.stored(role), k * n) + 2 * n * bias
        weights += 6 * self.inputs(name) * (name in self.model.polished)
        gemms = ((m, self.kept(role, k), n, 1),)
        op = Op(gemms, beside + m * n * bias, before, "weights", weights)
        return replace(op, reading=self.reading(role))

    def inputs(self, name: str) -> int:
        heads = self.body.n_heads * self.hd
        return {"out": heads, "down": self.body.ffn_size}.get(name, self.body.hidden_size)

    def logs(self, name: str, elements: int) -> int:
        return 4 * elements * (name in self.model.polished)

    def residual(self, m: int, columns: int) -> int:
        return m * columns * (5 if self.body.post_norms else 1)

    def qkv(self, rows: int, of: int, layer: Layer, tokens: int = 1, scored: bool = False) -> Op:
        """A layer that reads the keys of another one projects queries alone."""
        m, d = rows * tokens, self.body.hidden_size
        q, kv = up(self.body.n_heads, of) * self.hd, up(layer.key_heads, of) * self.hd
        own = 0 if layer.shares else kv
        turned = m * (q + own) * (7 if self.body.qk_norm else 3)
        logs = self.logs("qkv", m * d)
        op = self.product(
            "qkv", m, d, q + 2 * own, turned + logs + rows * q * scored, 4 * m * d + logs
        )
        key = rows * self.nbytes(self.model.kv, kv * scored)
        kept = self.kept("attention_qkv", d)
        gemms = ((m, kept, q, 1), (m, kept, 2 * own, 1))
        return replace(op, gemms=gemms[: 1 if layer.shares else 2], kv=key)

    def attend(
        self, rows: int, of: int, layer: Layer, read: int, queries: int, **causal: Any
    ) -> Op:
        """``queries`` of each of ``rows`` read so many tokens; a prompt's fewer, being causal."""
        heads, kv_heads = up(self.body.n_heads, of), up(layer.key_heads, of)
        group, kv, pairs = up(heads, kv_heads), kv_heads * self.hd, queries * read
        m, n = group * queries, read
        if "pairs" in causal:
            pairs = causal["pairs"]
            m, n = group, pairs
        scored, outside = causal.get("scored", False), causal.get("outside", False)
        written = rows * self.nbytes(self.model.kv, 2 * causal.get("written", queries) * kv)
        moved = rows * self.nbytes(self.model.kv, 2 * causal.get("moved", 0) * kv)
        return Op(
            ((m, self.hd, n, rows * kv_heads), (m, n, self.hd, rows * kv_heads)),
            rows * heads * (4 * pairs + queries * self.hd * scored)
            + self.logs("out", rows * queries * heads * self.hd),
            stream="kv",
            streamed=rows * self.nbytes(self.model.kv, (2 * read + queries * outside) * kv),
            kv=(not layer.shares) * (written + moved),
            far=(not layer.shares) * moved,
            gathered=rows * queries * self.body.n_heads * self.hd,
        )

    def attend_far(self, rows: int, of: int, layer: Layer, far: int, queries: int) -> Op:
        """Queries read the tokens in the second memory; what follows attention is done later."""
        op = self.attend(rows, of, layer, far, queries)
        softmax = 4 * rows * up(self.body.n_heads, of) * queries * far
        return replace(op, beside=softmax, stream="kv_far", kv=0, gathered=0)

    def attend_older(
        self, rows: int, of: int, layer: Layer, tokens: int, far: int, pairs: int
    ) -> Op:
        """Queries of a prompt read older keys, of which some lie in the second memory."""
        op = self.attend(rows, of, layer, far, tokens, pairs=pairs, written=far)
        softmax = 4 * rows * up(self.body.n_heads, of) * pairs
        return replace(op, beside=softmax, stream="kv_far", kv=0, far=op.kv, gathered=0)

    def output(self, m: int, of: int) -> Op:
        q, columns = self.inputs("out"), up(self.body.hidden_size, of)
        op = self.product("out", m, q, columns, self.residual(m, columns) + self.logs("out", m * q))
        return replace(op, gathered=m * self.body.hidden_size)

    def gate_up(self, m: int, of: int) -> Op:
        d, ff = self.body.hidden_size, up(self.body.ffn_size, of)
        logs = self.logs("gate_up", m * d)
        beside = 4 * m * ff + logs + self.logs("down", m * ff)
        op = self.product("gate_up", m, d, self.inner * ff, beside, 4 * m * d + logs)
        return replace(op, gathered=m * self.body.ffn_size)

    def down(self, m: int, of: int, cached: bool = True) -> Op:
        ff, columns = self.body.ffn_size, up(self.body.hidden_size, of)
        beside = self.residual(m, columns) + self.logs("down", m * ff)
        kept = m * self.nbytes(self.model.replay, columns) * cached
        op = self.product("down", m, ff, columns, beside)
        return replace(op, replay=kept, gathered=m * self.body.hidden_size)

    def streamed(self, m: int, of: int, k: int, n: int) -> Op:
        """Logits pass a list of the best 64; those that enter move all of it up."""
        best, columns = min(64, n), up(n, of)
        few = min(64, columns)
        entering = ceil(few * (1 + log(columns / few)))
        op = self.head(m, of, k, n, 4, True)
        gathered = 2 * m * best * self.machine.cores
        return replace(op, beside=op.beside + m * best * entering, gathered=gathered)

    def head(self, m: int, of: int, k: int, n: int, beside: int, normed: bool) -> Op:
        columns = up(n, of)
        weights = self.nbytes(self.stored("head"), k * columns)
        gemms = ((m, self.kept("head", k), columns, 1),)
        op = Op(gemms, m * columns * beside, 4 * m * k * normed, "head", weights, gathered=m * n)
        return replace(op, reading=self.reading("head"))

    def codes(self, m: int, of: int, codes: int) -> Op:
        """Attention of the depth transformer over the codes of a position, which are on chip."""
        head = self.model.head
        heads, hd = m * up(head.n_heads, of), head.hidden_size // head.n_heads
        return Op(((1, hd, codes, heads), (1, codes, hd, heads)), 4 * heads * codes, stream="")

    # ------------------------------------------------------------------ cycles of one core

    def array_cycles(self, op: Op) -> int:
        array, unit = self.machine.array, self.machine.attention_unit
        rows, cols = array.rows, array.cols
        if op.stream in KV and unit is not None:
            rows, cols = unit.rows, unit.cols
        load, skew, cycles = array.weight_load, rows + cols - 2, 0
        for m, k, n, copies in op.gemms:
            tiles, each = {
                "output_stationary": (up(m, rows) * up(n, cols), k),
                "input_stationary": (up(k, rows) * up(m, cols), n),
            }.get(array.dataflow, (up(k, rows) * up(n, cols), m))
            tiles *= copies
            change = rows  # cycles to bring in what stays in the array
            least = 0  # cycles in which all tiles are read, if nothing stays for long
            if array.dataflow in ("dot_product", "weight_stationary"):
                change = ceil(rows * op.reading)
                least = ceil(tiles * op.reading) * (each > 0)
            else:
                each = ceil(each * op.reading)
            if load == "none":
                cycles += max(tiles * each, least)
                cycles += array.pipeline_cycles if array.dataflow == "dot_product" else skew
            elif array.dataflow == "dot_product":
                wait = {"rows": change, "full_fold": change + skew}[load]
                cycles += tiles * (each + wait) + array.pipeline_cycles
            elif load == "rows":
                cycles += change + (tiles - 1) * max(each, change) + each + skew
            else:
                cycles += tiles * (change * (array.dataflow != "output_stationary") + each + skew)
        return cycles + self.machine.overheads.kernel_cycles * len(op.gemms)

    def vector_cycles(self, operations: int) -> int:
        vector = self.machine.vector
        return up(operations, vector.lanes) + vector.pipeline_cycles * (operations > 0)

    def cycles(self, op: Op) -> tuple[int, int]:
        """(Before the array starts, from then on.)"""
        array, vector = self.array_cycles(op), self.vector_cycles(op.beside)
        both = max(array, vector) if self.machine.kernel_fusion else array + vector
        return self.vector_cycles(op.before), both

    # ------------------------------------------------------------------ ops on all cores

    def phase(self, ops: list[Any], loads: list[int], split: bool, moves: bool = False) -> Phase:
        """Ops, each a function of (rows, cores that share them), with so many rows on each core.

        ``moves``: activations travel to another core and back before the first op.
        """
        found, rows, machine = Phase(), sum(loads), self.machine
        loads = [load for load in loads if load]
        one_lane = split or self.broadcast
        lanes, tiles = [0] * len(loads), [0] * len(loads)
        fetched = Fraction(0)
        for index, op_of in enumerate(ops if rows else []):
            whole = op_of(rows, 1)
            hybrid = machine.mapping == "hybrid" and whole.stream not in KV
            pieces, copies, filled = [[(load, 1)] for load in loads], 1, 1
            if moves and index == 0 and not split:
                found.most += self.exchange(2 * rows * self.body.hidden_size)
            gathered = whole.gathered if split else 0
            if split:
                pieces = [[(rows, self.cores)]]
            elif hybrid:  # what is left after whole rounds is split
                left = rows % self.cores
                pieces = [[(rows // self.cores, 1), (left, self.cores)]]
                gathered = op_of(left, 1).gathered
                copies = self.cores if rows >= self.cores else 1
            elif self.broadcast and whole.stream in KV:
                filled = len(loads)  # of one request, in as many buffers
            elif self.broadcast:
                copies = len(loads)  # of the weights, in as many buffers
            costs = [self.cost(op_of, each) for each in pieces]
            counted = [whole]
            if one_lane:
                costs = [(max(c[0] for c in costs), max(c[1] for c in costs))]
            else:
                counted = [op_of(load, 1) for load in loads]
            if machine.weight_sharing == "private_per_sequence" and whole.stream not in KV:
                counted = [
                    replace(op, streamed=load * op.streamed)
                    for op, load in zip(counted, loads, strict=True)
                ]
            for lane, (op, (before, beside)) in enumerate(zip(counted, costs, strict=True)):
                self.book(found.work, op, copies, self.cores if split else 1)
                before += self.exchange(gathered)
                moved = op.streamed + op.kv + op.far + op.replay
                lanes[lane] += before + beside
                tiles[lane] += up(moved, filled * machine.tile_kib << 10)
                fetched += moved
                found.alone = max(found.alone + before, self.arrived(fetched)) + beside
        if rows:
            quick, slow = (
                [ceil(found.work[name] / rate) for name, rate in rates.items()]
                for rates in (self.fastest, self.rates)
            )
            waits = (max(tiles) + 2 * len(ops)) * (max(self.latencies.values()) + 1)
            found.least = max(*lanes, *quick)
            found.most += max(lanes) + sum(slow) + waits
        return found

    def cost(self, op_of: Any, pieces: list[tuple[int, int]]) -> tuple[int, int]:
        """Cycles of a core before its array starts, and from then on."""
        costs = [self.cycles(op_of(*piece)) for piece in pieces if piece[0]]
        return sum(cost[0] for cost in costs), sum(cost[1] for cost in costs)

    def exchange(self, elements: int) -> int:
        """Cycles in which activations cross the network between cores."""
        moved = self.nbytes(self.model.activations, elements)
        return up(moved, self.machine.exchange_bytes_per_cycle) if self.cores > 1 else 0

    def arrived(self, fetched: Fraction) -> int:
        """When so many bytes are there, were all of them asked for at once, from one memory."""
        name = self.where("weights")
        return ceil(self.latencies[name] + fetched / self.rates[name]) if fetched else 0

    def book(self, work: Counter[str], op: Op, copies: int, norms: int) -> None:
        """Count an op; every core takes the norms of matrices that are split."""
        unit, array = self.machine.attention_unit, self.machine.array
        cols = unit.cols if op.stream in KV and unit is not None else array.cols
        passes = 1 if self.machine.kernel_fusion or not op.beside else 3
        held = sum(c * (m * k * up(n, cols) + passes * m * n) for m, k, n, c in op.gemms)
        work["macs"] += sum(prod(gemm) for gemm in op.gemms)
        work["vector_ops"] += op.beside + norms * op.before
        work["sram_bytes"] += 2 * copies * op.streamed + self.nbytes(self.model.activations, held)
        moved_by_use = (op.stream, op.streamed), ("kv", op.kv), ("kv_far", op.far)
        for stream, moved in (*moved_by_use, ("replay", op.replay)):
            if stream and moved:
                work[self.where(stream)] += moved

    # ------------------------------------------------------------------ phases of a run

    def spread(self, rows: int) -> list[int]:
        return [up(rows - core, self.cores) for core in range(self.cores)]

    def step(
        self, layer: Layer, read: int, far: int, scored: bool, outside: bool
    ) -> dict[str, Phase]:
        """The phases of a layer-step before its MLP; ``far`` of the tokens that are read are far.

        New tokens move as many old ones to the second memory, of those that are there.
        """
        sets, split = self.policy.tokens_per_step, self.split[0]
        at_q = scored and self.machine.decision_at == "q"
        rows, sequences = self.spread(self.policy.batch * sets), self.spread(self.policy.batch)
        asked = {"scored": scored and not at_q, "outside": outside and scored and not at_q}
        asked["moved"] = min(far, sets)
        attend = [lambda m, of: self.attend(m, of, layer, read - far, sets, **asked)]
        if far:
            attend.insert(0, lambda m, of: self.attend_far(m, of, layer, far, sets))
        return {
            "qkv": self.phase([lambda m, of: self.qkv(m, of, layer, scored=at_q)], rows, split),
            "attention": self.phase(attend, sequences, split),
            "output": self.phase([self.output], rows, split),
        }

    def mlp(
        self, computing: tuple[bool, ...], schedule: str, decided: bool, replays: bool
    ) -> Phase:
        """MLPs of the rows that compute, replays of the others; outputs are kept for replays."""
        registers, cores, width = self.machine.drs, self.cores, len(computing)
        central = decided and schedule not in ("static", "interleaved_tokens")
        at_once = min(width, registers.index_register_bits) if central else width
        total = Phase()
        for first in range(0, width, at_once):
            group, loads = computing[first : first + at_once], [0] * cores
            slots = up(len(group), cores)
            used = cores
            if central and self.used:
                used = max(self.used[sum(group)], up(sum(group), slots))
            for order, b in enumerate([b for b, computes in enumerate(group) if computes]):
                core = {"drs": order % cores, "pack": order // slots, "tuned": order % used}
                loads[core[schedule] if central else b % cores] += 1
            ops = [self.gate_up, lambda m, of: self.down(m, of, cached=replays)]
            part = self.phase(ops, loads, self.split[1], moves=central)
            replaying, d = len(group) - sum(loads), self.body.hidden_size
            cached = replaying * self.nbytes(self.model.replay, d)
            part.work["vector_ops"] += replaying * d
            part.work["sram_bytes"] += 2 * cached
            part.work[self.where("replay")] += cached
            name, sent = self.where("replay"), len(group) if central else up(len(group), cores)
            per_row = registers.instructions_per_sequence * registers.cycles_per_instruction
            if central:
                per_row += registers.scan_cycles_per_sequence
            fetch = ceil(cached / self.rates[name]) + (self.latencies[name] if cached else 0)
            part.least = max(part.least, fetch, ceil(part.work[name] / self.fastest[name]))
            part.most += decided * (registers.latch_cycles * central + sent * per_row)
            part.most += fetch + self.vector_cycles(replaying * d)
            total.add(part)
        return total

    def prefill(self, tokens: int, layer: Layer, window: int | None, far: int, near: int) -> Phase:
        """One layer of a prompt; weights come again for each block that the activations fill.

        ``far`` tokens are written to the second memory and read from it. Pairs with keys that are
        older than the ``near`` newest are then taken first.
        """
        split, body = self.split, self.body
        of_attention, of_mlp = (self.cores if each else 1 for each in split)
        d, ff, q, kv = body.hidden_size, body.ffn_size, body.n_heads, body.n_kv_heads
        alive = d + up((q + 2 * kv) * self.hd, of_attention) + 2 * up(d, of_attention)
        inner, residual = up(ff, of_mlp), up(d, of_mlp)
        gathered = ff + residual if of_mlp > 1 else residual
        alive = max(alive, residual + max(d + self.inner * inner, gathered))
        rows = self.policy.batch if split[1] else up(self.policy.batch, self.cores)
        needed = rows * tokens * self.nbytes(self.model.activations, alive)
        passes = up(needed, self.machine.activation_buffer_kib << 10)

        def again(op: Op) -> Op:
            return replace(op, streamed=passes * op.streamed)

        newest = causal_pairs(near, window)
        older = causal_pairs(tokens, window) - newest
        here = {"written": tokens - far}

        def attend_newest(m: int, of: int) -> Op:
            return self.attend(
                m, of, layer, tokens - far, tokens, pairs=newest if far else newest + older, **here
            )

        attend = [attend_newest]
        if far:
            attend.insert(0, lambda m, of: self.attend_older(m, of, layer, tokens, far, older))
        ops = [
            lambda m, of: again(self.qkv(m, of, layer, tokens)),
            *attend,
            lambda m, of: again(self.output(m * tokens, of)),
            lambda m, of: again(self.gate_up(m * tokens, of)),
            lambda m, of: again(self.down(m * tokens, of, cached=False)),
        ]
        return self.phase(ops, self.spread(self.policy.batch), split[1])

    def classify(self) -> list[list[Any]]:
        """Ops of each pass of the head, for all rows of a step."""
        head, d = self.model.head, self.body.hidden_size
        mixed = 4 + 2 * (self.policy.batch % 2 == 0)
        if head.kind == "linear":
            return [[lambda m, of: self.streamed(m, of, d, head.vocabulary)]]
        w, ff = head.hidden_size, head.ffn_size
        passes: list[list[Any]] = [[lambda m, of: self.head(m, of, d, w, 0, False)]]
        for code in range(1, head.n_codes + 1):
            layer = [
                lambda m, of: self.head(m, of, w, 3 * w, 0, True),
                lambda m, of, code=code: self.codes(m, of, code),
                lambda m, of: self.head(m, of, w, w, 1, False),
                lambda m, of: self.head(m, of, w, ff, 4, True),
                lambda m, of: self.head(m, of, ff, w, 1, False),
            ]
            passes += [layer] * head.n_layers
            passes += [[lambda m, of: self.head(m, of, w, head.codebook_size, mixed, True)]]
        return passes

    def run(self, video: Any, attention: Any, schedule: str, replay: Any) -> dict[str, Phase]:
        """Sums over all phases of each kind.

        ``replay``: decisions [batches][steps][layers][rows], or None if nothing is decided. Rows
        are the first tokens of all sequences, then the second ones.
        """
        totals: dict[str, Phase] = {}
        known: dict[Any, Phase] = {}

        def add(name: str, times: int, key: Any, make: Any) -> None:
            one = known[name, key] = known.get((name, key)) or make()
            totals.setdefault(name, Phase()).add(one, times)

        sets, body, frame = self.policy.tokens_per_step, self.body, video.tokens_per_frame
        cache = Cache.of(attention)
        key_heads = cache.key_heads(body.n_kv_heads)
        everyone = (True,) * (self.policy.batch * sets)
        batches, overheads = 1 if replay is None else len(replay), self.machine.overheads
        host = ceil(
            (Fraction(overheads.step_us) + Fraction(overheads.layer_us) * body.n_layers)
            * Fraction(self.design.board.fabric_clock_mhz)
        )
        # Products with weights: Q, K, V, output; then those of the MLP, saved where all replay.
        mlp_share = Fraction(self.inner + 1, 4 + self.inner + 1)
        launch = int(
            Fraction(overheads.layer_us) * mlp_share * Fraction(self.design.board.fabric_clock_mhz)
        )
        rows = self.spread(self.policy.batch * sets)
        for batch in range(batches):
            for layer in range(body.n_layers):
                window = None if layer in body.global_layers else body.window
                caches = Layer(key_heads, shares=layer % cache.layers > 0)
                if prompt := video.prompt_tokens:
                    held = cache.held(min(prompt, window or prompt))
                    far = cache.far(held)
                    of_prompt = prompt, caches, window, far, held - far
                    add("prefill", 1, of_prompt, lambda p=of_prompt: self.prefill(*p))
                for step in range(video.n_frames * frame // sets):
                    scored = replay is not None and step >= frame // sets
                    context = video.prompt_tokens + (step + 1) * sets
                    read = min(context, window or context)
                    outside = window is not None and frame >= window
                    read = cache.held(read)
                    outside = outside or (cache.window is not None and frame >= cache.window)
                    case = caches, read, cache.far(read), scored, outside
                    for name in ("qkv", "attention", "output"):
                        add(name, 1, case, lambda n=name, c=case: self.step(*c)[n])
                    decided = replay[batch][step][layer] if replay is not None else ()
                    computing = tuple(not each for each in decided) or everyone
                    who = computing, schedule, scored, replay is not None
                    add("mlp", 1, who, lambda w=who: self.mlp(*w))
            steps = video.n_frames * frame // sets
            if self.machine.include_head:
                for number, ops in enumerate(self.classify()):
                    add("head", steps, number, lambda o=ops: self.phase(o, rows, self.split[1]))
            if host:
                for step in range(steps):
                    idle = [all(row) for row in replay[batch][step]] if replay is not None else []
                    left = host - launch * sum(idle)
                    add("host", 1, left, lambda left=left: Phase(Counter(), left, left, left))
        return totals

    # ------------------------------------------------------------------ joules

    def joules(
        self, work: Counter[str], cycles: int, logic: list[tuple[Any, float]]
    ) -> list[Fraction]:
        """Joules of the board: value, low end, high end.

        ``logic``: constants and amounts of what draws power by being there, in W.
        """
        board, energy, place = self.design.board, self.design.energy, self.machine.placement
        seconds = Fraction(cycles) / (Fraction(board.fabric_clock_mhz) * 10**6)
        pico, static = Fraction(1, 10**12), Fraction(board.static_w) + Fraction(board.host_w)
        arithmetic = self.machine.array.arithmetic
        macs = energy.mac_pj.get(arithmetic) or energy.mac_pj[{"int4x8": "int8"}[arithmetic]]
        parts = [
            (macs, work["macs"] * pico),
            (energy.vector_op_pj, work["vector_ops"] * pico),
            (energy.sram_pj_per_byte, work["sram_bytes"] * pico),
            (energy.static_relative, static * seconds),
            *((constant, Fraction(watts) * seconds) for constant, watts in logic),
        ]
        used = {place.weights, place.kv, place.replay}
        used |= {place.head} if self.machine.include_head else set()
        used |= {place.kv_far} if place.kv_far is not None else set()
        for name, memory in board.memories.items():
            bit, standby = (
                stated.get(memory.family.name) or stated.get("any") or usual
                for stated, usual in (
                    (energy.dram_pj_per_bit, memory.family.dram_pj_per_bit),
                    (energy.dram_background_w_per_gib, memory.family.dram_background_w_per_gib),
                )
            )
            gib = Fraction(memory.capacity_gib) * 8 / (memory.density_gbit or 8)
            parts += [(bit, 8 * work[name] * pico), (standby, gib * seconds * (name in used))]
        joules = [Fraction(0)] * 3
        for constant, amount in parts:
            ends = constant.value, constant.low, constant.high
            joules = [sum_ + Fraction(end) * amount for sum_, end in zip(joules, ends, strict=True)]
        return joules
