"""Work of a forward in plain integers, for comparison with carsim.

A forward is dense, or it is one of a video in which some forwards reuse the last one as a whole
(TeaCache) and tokens of the others reuse MLP outputs of the previous frame (FastCar).

Only the fields of a design are read: nothing of carsim is imported. Counts are those of all rows of
one forward, on cores that share one stream of weights.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple


def up(a: int, b: int) -> int:
    """a / b, rounded up."""
    return -(-a // b)


class Reuse(NamedTuple):
    """What a forward reuses.

    Attributes:
        whole: The forward adds what the last one put out, and computes no layer.
        computing: Tokens of all rows that compute the MLP, of each layer.
        scored: Tokens of a row that are scored in each layer.
    """

    whole: bool
    computing: list[int]
    scored: int


class Passing(NamedTuple):
    """A forward of chunks, in latent frames.

    Attributes:
        parts: Frames that pass, and frames that these attend to.
        moved: Frames of the cache that move.
    """

    parts: list[tuple[int, int]]
    moved: int = 0


def passing(sample: Any) -> Iterator[Passing]:
    """The forwards of a sample in chunks, one after the other, as chunks enter and leave."""
    c = sample.chunk_frames
    window = sample.window_frames or 10**9
    levels = max(sample.rolling, sample.pipelined)
    per_level = sample.steps // levels
    flight: list[list[int]] = []  # of each chunk in flight: its number, and forwards that it had
    entered = 0
    time = 0
    held = 0
    while entered < sample.chunks or flight:
        moved = 0
        if entered < sample.chunks and time % per_level == 0 and (levels > 1 or not flight):
            prompts = [
                max(p for p in range(sample.prompts) if sample.chunks * p // sample.prompts <= k)
                for k in (entered - 1, entered)
                if k >= 0
            ]
            if len(set(prompts)) > 1:
                for renewed in range(min(window, entered * c) // c):
                    yield Passing([(c, (renewed + 1) * c)])
            if held + c > window and sample.cache == "moved":
                moved = window - c - sample.sink_frames
            held = min(window, held + c)
            flight.append([entered, 0])
            entered += 1
        newest = (flight[-1][0] + 1) * c
        if sample.rolling > 1:
            yield Passing([(len(flight) * c, min(window, newest))], moved)
        elif sample.cache == "none":
            yield Passing([(min(window, newest), min(window, newest))])
        else:
            parts = []
            for number, had in flight:
                most = window
                if sample.ranges:
                    most = sample.ranges[had // per_level]
                parts.append((c, min(most, (number + 1) * c)))
            yield Passing(parts, moved)
        time += 1
        for chunk in flight:
            chunk[1] += 1
        if flight[0][1] == sample.steps:
            number, _ = flight.pop(0)
            if sample.clean and sample.cache != "none":
                most = sample.ranges[-1] if sample.ranges else window
                yield Passing([(c, min(most, (number + 1) * c))])


class ForwardOracle:
    """Multiply-accumulates, exponentials and bytes of a forward of a design.

    Args:
        design: A design whose model has a network, with 8-bit weights, K, V and activations.
    """

    def __init__(self, design: Any) -> None:
        self.machine = design.machine
        self.body = design.model.body
        self.network = design.model.network
        self.sample = design.model.sample
        self.rows = design.policy.batch
        self.polished = design.model.polished
        self.split_attention = design.machine.mapping in ("tensor", "heads")
        self.split_mlp = design.machine.mapping == "tensor"
        self.total: Counter[str] = Counter()

    def forward(self, forward: Passing | None = None, reuse: Reuse | None = None) -> Counter[str]:
        """Count a forward; of chunks, one of them.

        Args:
            forward: What passes, of chunks.
            reuse: What is reused, by a network without text in its sequence; None: nothing.
        """
        self.total = Counter()
        self.reuse = reuse
        if self.network.kind == "depth":
            self._depth()
        else:
            self._diffusion(forward)
        return self.total

    # -------------------------------------------------------------- networks

    def _diffusion(self, forward: Passing | None) -> None:
        body, network, sample = self.body, self.network, self.sample
        d, inner = body.hidden_size, body.ffn_size
        height = sample.height // network.stride[1] // network.patch[1]
        width = sample.width // network.stride[2] // network.patch[2]
        frames = 1 + (sample.frames - 1) // network.stride[0]
        if forward is not None:
            frames = sum(passed for passed, _ in forward.parts)
        n = up(frames, network.patch[0]) * height * width
        text = network.text_tokens
        joined = text if network.text in ("streams", "sequence") else 0
        every = n + joined
        patch = network.channels * network.patch[0] * network.patch[1] * network.patch[2]
        out = (network.out_channels or network.channels) * patch // network.channels
        time = network.modulation_width or d
        levels = self.rows * (up(frames, network.patch[0]) if network.timesteps == "frame" else 1)
        # Before the first layer.
        self._chain(n, [(patch, d)], patch, d, split=self.split_mlp)
        self._once([(network.time_features, time), (time, time)], levels)
        for vector in network.vectors:
            self._once([(vector, d), (d, d)], self.rows)
        if network.modulation == "shared":
            self._once([(time, 6 * d)], levels)
        if sample.text_keys == "recomputed" and text:
            of_text = [(network.text_width, d), (d, d)][: network.text_layers]
            self._once(of_text, self.rows * text)
        reuse = self.reuse
        all_tokens = self.rows * n
        if reuse is not None:
            self.total["bytes"] += 2 * all_tokens * d  # the input is compared, and kept
        if reuse is not None and reuse.whole:
            self.total["bytes"] += 3 * all_tokens * d  # what is kept; the residual, read, written
        layers = 0 if reuse is not None and reuse.whole else body.n_layers
        for layer in range(layers):
            dual = network.text == "streams" and layer < network.dual_blocks
            single = network.text == "streams" and not dual
            if network.modulation == "block":
                vectors = network.modulation_vectors
                if network.text == "sequence" or dual:
                    vectors *= 2
                if single:
                    vectors = 3
                self._once([(time, vectors * d)], levels)
            fused = single and network.single_stream == "fused"
            beside = inner if fused else 0
            qkv = [(d, 3 * d + beside)]
            self._chain(
                every,
                qkv,
                d,
                3 * d + beside,
                split=self.split_attention,
                text=joined if dual else 0,
            )
            if network.attention == "alternating":
                self._attend_groups(n, height * width if layer % 2 == 0 else frames)
            elif forward is None:
                self._attend(every, every)
            else:
                of_frame = height * width
                self.total["bytes"] += self.rows * 2 * forward.moved * of_frame * 2 * d
                for passed, attended in forward.parts:
                    self._attend(passed * of_frame, attended * of_frame)
            if reuse is not None:
                self.total["bytes"] += self.rows * reuse.scored * d  # the key of each token
            output = [(d + beside, d)]
            self._chain(
                every,
                output,
                d + beside + d,
                d,
                split=self.split_attention,
                text=joined if dual else 0,
            )
            if network.text == "cross":
                self._chain(n, [(d, d), (d, d)], d, d, split=self.split_attention)
                self._count_attention(n, text)
                if sample.text_keys == "recomputed":
                    self._once([(d, 2 * d)], self.rows * text)
                    self.total["bytes"] += self.rows * text * 2 * d
                else:
                    self.total["bytes"] += self.rows * text * 2 * d
            if reuse is not None:
                computing = reuse.computing[layer]
                self._mlp(computing, d, inner)
                self.total["bytes"] += computing * d + 3 * (all_tokens - computing) * d
            elif not fused:
                self._chain(
                    every,
                    [(d, inner), (inner, d)],
                    d,
                    d,
                    split=self.split_mlp,
                    text=joined if dual else 0,
                )
        # Behind the last layer.
        if reuse is not None and not reuse.whole:
            self.total["bytes"] += all_tokens * d  # kept for later forwards
        if network.modulation == "block":
            self._once([(time, 2 * d)], levels)
        self._chain(n, [(d, out)], d, out, split=self.split_mlp)

    def _depth(self) -> None:
        body, network, sample = self.body, self.network, self.sample
        d = body.hidden_size
        rows, columns = sample.height // network.patch_side, sample.width // network.patch_side
        n = rows * columns + 1 + network.registers
        self._convolve(rows * columns, 1, 3 * network.patch_side**2, d, (rows, columns))
        for _ in range(body.n_layers):
            qkv, out = [(d, 3 * d)], [(d, d)]
            self._chain(n, qkv, d, 3 * d, split=self.split_attention, names=("qkv",))
            self._attend(n, n)
            self._chain(n, out, 2 * d, d, split=self.split_attention, names=("out",))
            mlp = [(d, body.ffn_size), (body.ffn_size, d)]
            self._chain(n, mlp, d, d, split=self.split_mlp, names=("gate_up", "down"))
        if network.recurrent is None:
            self._dpt(rows, columns)
        else:
            self._recurrent(rows, columns)

    def _dpt(self, rows: int, columns: int) -> None:
        """The DPT head on a grid of patches."""
        d, network = self.body.hidden_size, self.network
        one, two, three, four = network.head_channels
        f = network.fusion_channels
        grid, half = (rows, columns), (up(rows, 2), up(columns, 2))
        sizes = [(4 * rows, 4 * columns), (2 * rows, 2 * columns), grid, half]
        for channels in (one, two, three, four):
            self._convolve(rows * columns, 1, d, channels, grid)
        self._convolve(rows * columns, 1, one, 16 * one, grid)
        self._convolve(rows * columns, 1, two, 4 * two, grid)
        self._convolve(half[0] * half[1], 3, four, four, grid)
        for size, channels in zip(sizes, (one, two, three, four), strict=True):
            self._convolve(size[0] * size[1], 3, channels, f, size, biased=False)
        above = [(8 * rows, 8 * columns), *sizes[:3]]
        for number in range(4):
            for _ in range(2 if number == 3 else 4):
                self._convolve(sizes[number][0] * sizes[number][1], 3, f, f, sizes[number])
            self._convolve(above[number][0] * above[number][1], 1, f, f, sizes[number])
        full = network.patch_side * rows, network.patch_side * columns
        self._convolve(above[0][0] * above[0][1], 3, f, f // 2, above[0])
        self._convolve(full[0] * full[1], 3, f // 2, 32, above[0])
        self._convolve(full[0] * full[1], 1, 32, 1, full)

    def _recurrent(self, rows: int, columns: int) -> None:
        """The head of Metric3D v2 on a grid of patches."""
        d, network = self.body.hidden_size, self.network
        one, two, three, _ = network.head_channels
        f = network.fusion_channels
        h = network.recurrent.channels
        # A fourteenth, a seventh and a quarter of the side.
        coarse = (rows, columns)
        middle = (2 * rows, 2 * columns)
        fine = (7 * rows // 2, 7 * columns // 2)
        for _ in range(4):  # readout
            self._at((1, 1), 1, (1 + network.registers) * d, d, biased=False)
            self._at(coarse, 1, d, d)
        self._at(coarse, 1, d, 4 * two)
        self._at(fine, 1, d, one, source=coarse)
        for _ in range(2):  # the deepest feature, then it and the next
            self._at(coarse, 3, d, d)
        self._at(coarse, 1, d, d)
        for _ in range(4):
            self._at(coarse, 3, d, d)
        self._at(middle, 1, d, two, source=coarse)
        for _ in range(4):
            self._at(middle, 3, two, two)
        self._at(fine, 1, two, f + 2, source=middle)
        self._at(fine, 3, f, 256)
        self._at(fine, 1, 256, 256, softmax=True)
        self._at(fine, 3, f, 128)
        self._at(fine, 1, 128, 128)
        self._at(fine, 1, 128, 128)
        self._at(fine, 1, 128, 3)
        for grid, channels in ((fine, one), (middle, two), (coarse, three)):
            for _ in range(2):  # state and context
                self._at(grid, 3, channels, h)
                self._at(grid, 3, h, h, beside=h)
                if channels != h:
                    self._at(grid, 1, channels, h)
                self._at(grid, 3, h, h)
            self._at(grid, 3, h, 3 * h)
        for _ in range(network.recurrent.iterations):
            for _ in range(3):
                self._unit(coarse, 2 * h, h)
            for _ in range(2):
                self._unit(middle, 3 * h, h)
            self._unit(fine, 2 * h + 6, h)
            for outputs in (2, 4):  # changes of depth and of normals
                self._at(fine, 3, h, h)
                self._at(fine, 3, h, outputs)
            self._at(fine, 3, h, h)
            self._at(fine, 1, h, 16 * 9, softmax=True)

    def _unit(self, grid: tuple[int, int], entering: int, h: int) -> None:
        """An update of a recurrent unit."""
        self._at(grid, 3, entering, 2 * h, beside=2 * h)
        self._at(grid, 3, entering, h, beside=3 * h)

    # -------------------------------------------------------------- pieces

    def _mlp(self, computing: int, d: int, inner: int) -> None:
        """The MLP of some tokens of all rows, which are dealt evenly."""
        products = [(d, inner), (inner, d)]
        self._chain_of(computing, products, d, d, split=self.split_mlp)

    def _once(self, products: list[tuple[int, int]], rows: int) -> None:
        """Products of a few rows, whose weights move once."""
        for k, n in products:
            self.total["macs"] += rows * k * n
            self.total["bytes"] += k * n + 2 * n

    def _chain(
        self,
        tokens: int,
        products: list[tuple[int, int]],
        entering: int,
        leaving: int,
        *,
        split: bool,
        text: int = 0,
        names: tuple[str, ...] = (),
    ) -> None:
        """Products of all tokens, one after the other; text tokens may have their own weights."""
        m = self.rows * tokens
        self._chain_of(m, products, entering, leaving, split=split, text=text, names=names)

    def _chain_of(
        self,
        m: int,
        products: list[tuple[int, int]],
        entering: int,
        leaving: int,
        *,
        split: bool,
        text: int = 0,
        names: tuple[str, ...] = (),
    ) -> None:
        """Products of m tokens of all rows, one after the other."""
        tokens = m // self.rows
        parts = [(m, product) for product in products]
        if text:
            image = tokens - text
            parts = [
                (self.rows * share, product) for product in products for share in (image, text)
            ]
        cores = self.machine.cores
        of_core = m if split else up(m, cores)
        columns = cores if split else 1
        widest = max(k + up(n, columns) for k, n in products)
        held = max(1, self.machine.activation_buffer_kib * 1024 // widest)
        tiles = up(of_core, held)
        weights = [k * n + 2 * n for _, (k, n) in parts]
        for number, name in enumerate(names):
            if name in self.polished:
                weights[number] += 6 * products[number][0]
        self.total["macs"] += sum(rows * k * n for rows, (k, n) in parts)
        around = m * (entering + leaving)
        half = self.machine.weight_buffer_kib * 1024 // 2
        between = 0
        for number, ((_, (k, n)), nbytes) in enumerate(zip(parts, weights, strict=True)):
            slices = max(1, up(nbytes, columns * half))
            between += m * k * (slices - 1 if number == 0 else slices)
            if number < len(parts) - 1:
                between += m * n
        spills = tiles > 1
        moved = {
            "tokens": tiles * sum(weights) + spills * around,
            "weights": sum(weights) + spills * (around + between),
        }
        order = self.machine.loop_order
        self.total["bytes"] += min(moved.values()) if order == "best" else moved[order]

    def _attend(self, queries: int, keys: int) -> None:
        """Attention whose keys and values move once for each tile of queries of a head."""
        self._count_attention(queries, keys)
        d = self.body.hidden_size
        of_core, tile, buffer = self._queries_of_core(queries)
        if of_core * 2 * d + 2 * keys * d > buffer:
            self.total["bytes"] += up(of_core, tile) * 2 * keys * d
            self.total["bytes"] += self.rows * queries * 2 * d

    def _attend_groups(self, queries: int, group: int) -> None:
        """Attention in groups, of which each has queries, keys and values of its own."""
        groups = self.rows * queries // group
        self.total["macs"] += 2 * groups * group**2 * self.body.hidden_size
        self.total["exponentials"] += groups * group**2 * self.body.n_heads
        d = self.body.hidden_size
        of_core, tile, buffer = self._queries_of_core(queries)
        if of_core * 2 * d + up(of_core, group) * 2 * group * d > buffer:
            self.total["bytes"] += groups * up(min(group, of_core), tile) * 2 * group * d
            self.total["bytes"] += self.rows * queries * 2 * d

    def _queries_of_core(self, queries: int) -> tuple[int, int, int]:
        """Queries of a core, queries of a tile, and bytes of the buffer that holds them."""
        cores = 1 if self.split_attention else self.machine.cores
        size = self.body.hidden_size // self.body.n_heads
        buffer = self.machine.activation_buffer_kib * 1024
        tile = self.machine.query_tile or max(1, buffer // (5 * size + 8))
        return up(self.rows * queries, cores), tile, buffer

    def _count_attention(self, queries: int, keys: int) -> None:
        """Products and exponentials of attention."""
        pairs = self.rows * queries * keys
        self.total["macs"] += 2 * pairs * self.body.hidden_size
        self.total["exponentials"] += pairs * self.body.n_heads

    def _at(
        self,
        grid: tuple[int, int],
        side: int,
        inputs: int,
        outputs: int,
        *,
        source: tuple[int, int] | None = None,
        biased: bool = True,
        beside: int = 0,
        softmax: bool = False,
    ) -> None:
        """A convolution whose outputs lie on a grid."""
        places = grid[0] * grid[1]
        start = grid if source is None else source
        self._convolve(places, side, inputs, outputs, start, biased=biased, beside=beside)
        self.total["exponentials"] += softmax * self.rows * places * outputs

    def _convolve(
        self,
        places: int,
        side: int,
        inputs: int,
        outputs: int,
        source: tuple[int, int],
        *,
        biased: bool = True,
        beside: int = 0,
    ) -> None:
        """A convolution from a grid of places to others, where ``beside`` channels are read."""
        m = self.rows * places
        entering = self.rows * source[0] * source[1]
        weights = side * side * inputs * outputs
        self.total["macs"] += m * weights
        self.total["bytes"] += weights + 2 * outputs * biased
        self.total["bytes"] += 6 * inputs * ("convolution" in self.polished)
        cores = 1 if self.split_mlp else self.machine.cores
        buffer = self.machine.activation_buffer_kib * 1024
        once = m * (outputs + beside)
        if up(entering * inputs + once, cores) > buffer:
            again = side if side * source[1] * inputs > buffer else 1
            self.total["bytes"] += again * entering * inputs + once
