"""A video in chunks, token by token in plain loops: a second implementation of the decoder.

Nothing of carsim is imported: weights come as an object with arrays of the names that
``carsim.decoder.chunked.model`` documents. Lists of floats stand for vectors.
"""

import math
from typing import Any

Vector = list[float]


def times(vector: Vector, matrix: Any) -> Vector:
    """vector @ matrix."""
    return [
        math.fsum(vector[i] * float(matrix[i][j]) for i in range(len(vector)))
        for j in range(len(matrix[0]))
    ]


def normed(vector: Vector) -> Vector:
    """Mean 0, variance 1."""
    mean = math.fsum(vector) / len(vector)
    variance = math.fsum((x - mean) ** 2 for x in vector) / len(vector)
    return [(x - mean) / math.sqrt(variance + 1e-6) for x in vector]


def modulated(vector: Vector, scale: Vector, shift: Vector) -> Vector:
    """norm(x) (1 + scale) + shift."""
    return [x * (1 + a) + b for x, a, b in zip(normed(vector), scale, shift, strict=True)]


def bend(x: float) -> float:
    """GELU by tanh."""
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def turned(head: Vector, frame: int) -> Vector:
    """A head of a token of a frame, each pair (i, i + half) turned by its angle."""
    half = len(head) // 2
    out = [0.0] * len(head)
    for i in range(half):
        angle = frame * 10_000.0 ** (-i / half)
        out[i] = head[i] * math.cos(angle) - head[i + half] * math.sin(angle)
        out[i + half] = head[i + half] * math.cos(angle) + head[i] * math.sin(angle)
    return out


def product(a: Vector, b: Vector) -> float:
    """Scalar product."""
    return math.fsum(x * y for x, y in zip(a, b, strict=True))


def cosine(a: Vector, b: Vector) -> float:
    """Cosine of two vectors."""
    return product(a, b) / math.sqrt(product(a, a) * product(b, b))


def distance(a: Vector, b: Vector) -> float:
    """Square of the distance of two vectors."""
    return math.fsum((x - y) ** 2 for x, y in zip(a, b, strict=True))


def signature(vector: Vector, planes: Any) -> list[tuple[bool, ...]]:
    """The sides of each table's planes on which a vector lies."""
    return [
        tuple(product(vector, [float(x) for x in plane]) > 0 for plane in table) for table in planes
    ]


def rounded(vector: Vector, bits: int) -> Vector:
    """A vector in few bits an element, symmetric, with one scale."""
    most = 2 ** (bits - 1) - 1
    scale = max(abs(x) for x in vector) / most
    return [round(x / scale) * scale for x in vector]


class ChunkOracle:
    """Makes one video.

    Args:
        model: Weights and sizes.
        steps: Denoising steps of a chunk.
        tau: Tokens of a higher score replay the MLP of the previous frame; None: none does.
        across_chunks: Also the first frame of a chunk.
        reuses: Forwards that take outputs of the last one that computed; None: none does.
        taken: Modules whose outputs they take; ``stack``: that of all layers together.
        merge: Least cosine of keys that merge, and what represents a group; None: none merge.
        planes: Hyperplanes of signatures by table, of which a query's keys share one; None: all.
        best: Share of the keys that a query scores, and bits of an element; None: all.
        prompt: Hyperplanes, and first tokens of the prompt that are scored anyway; None: all are.
    """

    def __init__(
        self,
        model: Any,
        steps: int,
        *,
        tau: float | None = None,
        across_chunks: bool = True,
        reuses: list[bool] | None = None,
        taken: tuple[str, ...] = (),
        merge: tuple[float, str] | None = None,
        planes: Any = None,
        best: tuple[float, int] | None = None,
        prompt: tuple[Any, int] | None = None,
    ) -> None:
        self.merge, self.planes, self.best, self.chosen = merge, planes, best, prompt
        self.groups: list[list[list[dict[str, Any]]]] = []
        self.model, self.steps, self.tau = model, steps, tau
        self.across_chunks, self.reuses, self.taken = across_chunks, reuses, taken
        self.cache: list[list[tuple[list[Vector], list[Vector]]]] = [[] for _ in model.layers]
        self.last_frame: dict[tuple[int, int], list[Vector]] = {}
        self.kept: dict[Any, list[Vector]] = {}
        self.replayed: list[tuple[int, int, int]] = []  # forward, layer, token
        self.scores: dict[tuple[int, int, int], float] = {}
        self.shares: list[float] = []  # of the held keys that a query scores

    def video(self, noise: Any, text: Any) -> list[list[Vector]]:
        """Clean chunks."""
        words = [times(list(map(float, word)), self.model.text_in) for word in text]
        self.prompt = [
            [
                (
                    self.heads(times(word, layer.cross_key)),
                    self.heads(times(word, layer.cross_value)),
                )
                for word in words
            ]
            for layer in self.model.layers
        ]
        chunks = []
        for number, drawn in enumerate(noise):
            tokens = [list(map(float, token)) for token in drawn]
            for step in range(self.steps):
                time, later = 1 - step / self.steps, 1 - (step + 1) / self.steps
                moves, _ = self.forward(tokens, number, step, time)
                tokens = [
                    [x + (later - time) * v for x, v in zip(token, move, strict=True)]
                    for token, move in zip(tokens, moves, strict=True)
                ]
            _, written = self.forward(tokens, number, self.steps, 0.0)
            for layer, pairs in enumerate(written):
                self.cache[layer] += pairs
                self.write(layer, number, pairs)
            chunks.append(tokens)
        return chunks

    def heads(self, vector: Vector) -> list[Vector]:
        """A vector in its heads."""
        size = len(vector) // self.model.shape.n_heads
        return [vector[i : i + size] for i in range(0, len(vector), size)]

    def modulation(self, time: float, layer: Any) -> list[Vector]:
        """The six vectors of a layer."""
        angles = [1000 * time * 10_000.0 ** (-i / 16) for i in range(16)]
        features = [math.cos(a) for a in angles] + [math.sin(a) for a in angles]
        embedded = [bend(x) for x in times(features, self.model.time_in)]
        flat = times(embedded, self.model.time_out)
        d = len(flat) // 6
        return [
            [flat[six * d + i] + float(layer.table[six][i]) for i in range(d)] for six in range(6)
        ]

    def mixed(self, query: list[Vector], seen: Any) -> Vector:
        """One token's attention; ``seen`` has (key, value, tokens it stands for) of each head."""
        out: Vector = []
        for vector, of_head in zip(query, seen, strict=True):
            scores = [
                product(vector, key) / math.sqrt(len(vector)) + math.log(count)
                for key, _, count in of_head
            ]
            top = max(scores)
            weights = [math.exp(score - top) for score in scores]
            total = math.fsum(weights)
            for i in range(len(vector)):
                mixed = math.fsum(
                    weight * value[i]
                    for weight, (_, value, _) in zip(weights, of_head, strict=True)
                )
                out.append(mixed / total)
        return out

    def seen_by(self, level: int, place: int, query: list[Vector], pairs: Any) -> Any:
        """Keys that a token scores, head by head."""
        seen = []
        for head, vector in enumerate(query):
            earlier = [
                (group["key"], group["value"], group["count"]) for group in self.held(level, head)
            ]
            own = [(keys[head], values[head], 1) for keys, values in pairs]
            every = earlier + own
            keep = list(range(len(every)))
            if self.planes is not None:
                code = signature(vector, self.planes)
                keep = [
                    i
                    for i in keep
                    if any(
                        a == b
                        for a, b in zip(code, signature(every[i][0], self.planes), strict=True)
                    )
                ]
            if self.best is not None:
                share, bits = self.best
                products = [product(vector, rounded(key, bits)) for key, _, _ in every]
                order = sorted(range(len(every)), key=lambda i: -products[i])
                keep = order[: math.ceil(share * len(every))]
            mine = len(earlier) + place
            scored = sorted({*keep, mine})
            self.shares.append(len(scored) / len(every))
            seen.append([every[i] for i in scored])
        return seen

    def held(self, level: int, head: int) -> list[dict[str, Any]]:
        """Groups of a head; every token is one where none merge."""
        while len(self.groups) <= level:
            self.groups.append([[] for _ in range(self.model.shape.n_heads)])
        return self.groups[level][head]

    def write(self, level: int, chunk: int, pairs: Any) -> None:
        """Take the tokens of a clean chunk into the groups of every head."""
        shape = self.model.shape
        for head in range(shape.n_heads):
            groups = self.held(level, head)
            old = list(groups)
            for place, (keys, values) in enumerate(pairs):
                frame = chunk * shape.chunk_frames + place // shape.frame_tokens
                plain = turned(keys[head], -frame)
                new = {"key": keys[head], "value": values[head], "count": 1}
                new |= {"plain": plain, "mean": plain}
                if self.merge is None or not old:
                    groups.append(new)
                    continue
                theta, kind = self.merge
                cosines = [cosine(plain, group["looked_at"]) for group in old]
                nearest = max(range(len(old)), key=lambda i: cosines[i])
                if cosines[nearest] < theta:
                    groups.append(new)
                else:
                    self.join(old[nearest], new, frame, kind)
            for group in groups:
                group["looked_at"] = group["plain"]

    def join(self, group: dict[str, Any], new: dict[str, Any], frame: int, kind: str) -> None:
        """One more member of a group."""
        count = group["count"] + 1
        for name, of in (("mean", "plain"), ("value", "value")):
            group[name] = [m + (x - m) / count for m, x in zip(group[name], new[of], strict=True)]
        group["count"] = count
        if kind == "latest":
            group["key"], group["plain"] = new["key"], new["plain"]
        elif kind == "mean":
            group["plain"] = group["mean"]
            group["key"] = turned(group["mean"], frame)
        elif distance(group["plain"], group["mean"]) >= (1 - 1e-9) * distance(
            new["plain"], group["mean"]
        ):
            group["key"], group["plain"] = new["key"], new["plain"]

    def words_for(self, level: int, queries: list[list[Vector]]) -> Any:
        """Tokens of the prompt that the queries of a chunk score, head by head."""
        words = self.prompt[level]
        seen = []
        for head in range(self.model.shape.n_heads):
            keep = list(range(len(words)))
            if self.chosen is not None:
                planes, sinks = self.chosen
                codes = [signature(query[head], planes) for query in queries]
                met = [
                    any(
                        a == b
                        for code in codes
                        for a, b in zip(code, signature(keys[head], planes), strict=True)
                    )
                    for keys, _ in words
                ]
                keep = [i for i in keep if met[i] or i < sinks] or [0]
            seen.append([(words[i][0][head], words[i][1][head], 1) for i in keep])
        return seen

    def forward(self, tokens: list[Vector], chunk: int, step: int, time: float) -> Any:
        """Velocities, and keys and values of every layer."""
        model, shape = self.model, self.model.shape
        n = shape.frame_tokens
        number = chunk * (self.steps + 1) + step
        takes = self.reuses is not None and self.reuses[number]
        stream = []
        for place, token in enumerate(tokens):
            entered = times(token, model.patch_in)
            stream.append(
                [x + float(p) for x, p in zip(entered, model.places[place % n], strict=True)]
            )
        begun = [list(x) for x in stream]
        written = []
        if takes and "stack" in self.taken:
            stream = [
                [x + y for x, y in zip(a, b, strict=True)]
                for a, b in zip(stream, self.kept["stack"], strict=True)
            ]
        else:
            for level, layer in enumerate(model.layers):
                at = (number, chunk, step, level)
                written.append(self.through(stream, layer, time, at, takes=takes))
            self.kept["stack"] = [
                [x - y for x, y in zip(a, b, strict=True)]
                for a, b in zip(stream, begun, strict=True)
            ]
        return [times(normed(x), model.patch_out) for x in stream], written

    def through(self, stream: Any, layer: Any, time: float, at: Any, *, takes: bool) -> Any:
        """One layer; changes the stream in place."""
        _, chunk, _, level = at
        shape = self.model.shape
        n = shape.frame_tokens
        shift, scale, gate, mlp_shift, mlp_scale, mlp_gate = self.modulation(time, layer)
        queries, pairs = [], []
        for place, x in enumerate(stream):
            frame = chunk * shape.chunk_frames + place // n
            h = modulated(x, scale, shift)
            queries.append([turned(head, frame) for head in self.heads(times(h, layer.query))])
            keys = [turned(head, frame) for head in self.heads(times(h, layer.key))]
            pairs.append((keys, self.heads(times(h, layer.value))))
        if not (takes and "attention" in self.taken):
            self.kept[level, "attention"] = [
                times(self.mixed(query, self.seen_by(level, place, query, pairs)), layer.output)
                for place, query in enumerate(queries)
            ]
        for x, y in zip(stream, self.kept[level, "attention"], strict=True):
            for i in range(len(x)):
                x[i] += gate[i] * y[i]
        if not (takes and "cross" in self.taken):
            asking = [self.heads(times(normed(x), layer.cross_query)) for x in stream]
            words = self.words_for(level, asking)
            self.kept[level, "cross"] = [
                times(self.mixed(query, words), layer.cross_output) for query in asking
            ]
        for x, y in zip(stream, self.kept[level, "cross"], strict=True):
            for i in range(len(x)):
                x[i] += y[i]
        if not (takes and "mlp" in self.taken):
            self.kept[level, "mlp"] = self.mlps(
                stream, layer, (mlp_scale, mlp_shift), at, (queries, pairs)
            )
        for x, y in zip(stream, self.kept[level, "mlp"], strict=True):
            for i in range(len(x)):
                x[i] += mlp_gate[i] * y[i]
        return pairs

    def mlps(self, stream: Any, layer: Any, vectors: Any, at: Any, made: Any) -> list[Vector]:
        """The MLP of every token, or that of its place in the frame before."""
        number, _, step, level = at
        queries, pairs = made
        n = self.model.shape.frame_tokens
        before = self.last_frame.get((step, level)) if self.across_chunks else None
        outputs: list[Vector] = []
        for place, x in enumerate(stream):
            key, source = None, None
            if self.tau is not None and step < self.steps:
                if place >= n:
                    key, source = pairs[place - n][0], outputs[place - n]
                elif before is not None:
                    key, source = self.cache[level][-n + place][0], before[place]
            if key is not None and source is not None:
                query = queries[place]
                size = len(query[0])
                of_heads = [
                    product(q, k) / math.sqrt(size) for q, k in zip(query, key, strict=True)
                ]
                score = math.fsum(of_heads) / len(of_heads)
                self.scores[number, level, place] = score
                if self.tau is not None and score > self.tau:
                    self.replayed.append((number, level, place))
                    outputs.append(list(source))
                    continue
            inner = [bend(y) for y in times(modulated(x, *vectors), layer.up)]
            outputs.append(times(inner, layer.down))
        self.last_frame[step, level] = outputs[-n:]
        return outputs
