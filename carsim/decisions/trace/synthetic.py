"""Decisions drawn at published marginals: a second source beside captured traces.

FastCar (arXiv 2505.14709) publishes how much replays, not which decisions do. **Published** and
used here: the ratios 20, 50, 80 and 87 % (tables 1 and 2), and that the middle layers replay least
(figure 5). **Not published**, and therefore assumed (:mod:`carsim.decisions.trace.assumed`): how
far the layers lie apart, how often the two rows of a guidance pair agree, how long a place keeps
its decision, and how layers and clips correlate. These numbers are measured on a captured trace.

A ratio counts **eligible** steps, those after the first frame, which never replays. The paper does
not say so, but only this reading gives its 45 % of operations saved at 80 % replay, and only this
reading explains its latencies (``studies/paper``). All four ratios are read alike. With 8 frames,
87 % of eligible steps are 76 % of all. Read as a share of all steps, 87 % would be 99.4 % of the
eligible ones: pass that ratio to see what it would mean.

The model is a Gaussian copula (:mod:`carsim.decisions.trace.copula`). Row b replays in layer l at
place i of frame t where a standard normal z[t, i, l, b] exceeds the threshold that gives layer l
its ratio:

* p[l] = sigmoid(offset + dip * x**2) for x from -1 (first layer) to 1 (last). The offset is solved,
  so that the mean of p over layers is the ratio.
* The correlation of z between two decisions at one place is a product of three factors. Rows: 1,
  ``within_pair`` for a guidance pair, ``across_clips`` between clips. Layers: 1, ``across_layers``
  if they differ. Frames d apart: ``lasting + (1 - lasting) * fading**d``, which is
  ``persistence`` for d = 1.

Simplifications: places are independent, although neighbours agree in a real picture (phi 0.3 in
the proxy model); no latency depends on the order of places. All clips have the same ratio (rows of
the proxy model: 35 to 72 %), all layers correlate alike, and no layer is exempt. Every prompt fills
its padding. There is no quality, and there are no scores.
"""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from importlib.metadata import version

import numpy as np
from numpy.typing import NDArray

from carsim.decisions.attention import Dense
from carsim.decisions.replay import Pairs
from carsim.decisions.trace.assumed import TWIN, Assumptions, check_range, measure, profile
from carsim.decisions.trace.copula import Floats, thresholds
from carsim.decisions.trace.decisions import DecisionShape, check_decisions
from carsim.decisions.trace.file import Trace, unscored
from carsim.decisions.trace.geometry import VILA_U_7B
from carsim.decisions.trace.meta import TraceMeta


@dataclass(frozen=True)
class SyntheticModel:
    """All that a synthetic trace depends on.

    Attributes:
        ratio: Share of the eligible steps that replay, in expectation over seeds.
        assumed: What is not published.
        frames: T, at least 2.
        tokens_per_frame: N.
        pairs: Guidance pairs; there are twice as many rows.
        layers: L.
        prompt_tokens: P, of every row.
        seed: Seed of all draws. More frames, or more pairs, leave the decisions of the others.

    Raises:
        InputError: A number that is out of range, or more decisions than a file may hold.
    """

    ratio: float
    assumed: Assumptions = TWIN
    frames: int = 8
    tokens_per_frame: int = 256
    pairs: int = 16
    layers: int = 32
    prompt_tokens: int = 62
    seed: int = 0

    def __post_init__(self) -> None:
        check_range("ratio", self.ratio, 0, 1)
        least = {"frames": 2, "tokens_per_frame": 1, "pairs": 1, "layers": 1, "prompt_tokens": 0}
        for name, smallest in (*least.items(), ("seed", 0)):
            check_range(name, getattr(self, name), smallest, math.inf)
        check_decisions("synthetic trace", self.shape)

    @classmethod
    def like(cls, trace: Trace, ratio: float, seed: int = 0) -> "SyntheticModel":
        """The video and the correlations of a captured trace, at a ratio of one's own.

        Raises:
            InputError: The trace has a single frame, or nothing to measure.
        """
        return cls(
            ratio=ratio,
            assumed=measure(trace),
            frames=trace.n_frames,
            tokens_per_frame=trace.tokens_per_frame,
            pairs=len(trace.meta.guidance_pairs),
            layers=trace.n_layers,
            prompt_tokens=trace.prompt_tokens,
            seed=seed,
        )

    @property
    def shape(self) -> DecisionShape:
        """Shape of the decisions."""
        return DecisionShape(self.frames * self.tokens_per_frame, self.layers, 2 * self.pairs)

    @property
    def guidance_pairs(self) -> Pairs:
        """(conditional, blank) row indices."""
        return tuple((row, row + 1) for row in range(0, 2 * self.pairs, 2))

    @property
    def by_layer(self) -> Floats:
        """float[L]: probability of a replay, p; its mean is the ratio."""
        return profile(self.ratio, self.assumed.dip, self.layers)

    @property
    def standard_error(self) -> float:
        """Standard deviation over seeds that the drawn ratio has at most.

        Decisions correlate at most as their normals do (H. Gebelein, ZAMM 21, 1941), and places are
        independent; the mean over all other factors remains.
        """
        assumed, rows = self.assumed, 2 * self.pairs
        spread = np.sqrt(self.by_layer * (1 - self.by_layer))
        same = (1 - assumed.across_layers) * (spread**2).mean() / self.layers
        layers = assumed.across_layers * spread.mean() ** 2 + same
        across = (1 + assumed.within_pair + (rows - 2) * assumed.across_clips) / rows
        frames = np.arange(self.frames - 1)
        faded = assumed.fading ** np.abs(frames[:, None] - frames)
        over_time = assumed.lasting + (1 - assumed.lasting) * faded.mean()
        return float(np.sqrt(layers * across * over_time / self.tokens_per_frame))

    @property
    def label(self) -> str:
        """The draw in words."""
        equal = ", equal in all layers" if not self.assumed.dip else ""
        return f"{100 * self.ratio:.4g} % of eligible steps{equal}, seed {self.seed}"

    @property
    def command(self) -> str:
        """The command that makes the trace, with all that is assumed, and no default otherwise."""
        own = {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if field.name != "assumed" and getattr(self, field.name) != field.default
        }
        named = (own | asdict(self.assumed)).items()
        options = (f"--{name.replace('_', '-')} {value}" for name, value in named)
        return " ".join(["carsim trace synthesize", *options])


def synthesize(model: SyntheticModel) -> Trace:
    """A trace of drawn decisions; equal models give equal traces."""
    geometry = VILA_U_7B.model_copy(update={"n_layers": model.layers})
    meta = TraceMeta(
        producer="carsim",
        producer_version=version("carsim"),
        decoded=geometry,
        simulated=geometry,
        n_frames=model.frames,
        tokens_per_frame=model.tokens_per_frame,
        prompt_tokens=model.prompt_tokens,
        prompt_lengths=(model.prompt_tokens,) * (2 * model.pairs),
        tau=None,
        attention=Dense(),
        seed=model.seed,
        guidance_pairs=model.guidance_pairs,
        dtype="float64",
        mode="none",
        weights="none",
        content={"synthetic": model.label, "model": asdict(model)},
        command=model.command,
    )
    return unscored(draw(model), meta, meta.made_up)


def draw(model: SyntheticModel) -> NDArray[np.bool_]:
    """Decisions of a model, bool[S, L, B].

    Each pair draws from a generator of its own, frame after frame: more pairs, or more frames,
    leave all other decisions as they are.
    """
    pair, clip = model.assumed.within_pair, model.assumed.across_clips
    threshold = thresholds(model.by_layer)[:, None]
    replay = np.zeros((model.frames, model.tokens_per_frame, *model.shape[1:]), bool)
    everyone = _fields(model, 0, count=1)
    of_pairs = [_fields(model, 1 + index, count=3) for index in range(model.pairs)]
    for frame in replay:
        shared = next(everyone)
        for rows, of_pair in zip(model.guidance_pairs, of_pairs, strict=True):
            own = next(of_pair)
            both = _sharing(shared, own[..., :1], clip / pair if pair else 0.0)
            frame[..., list(rows)] = _sharing(both, own[..., 1:], pair) > threshold
    replay[0] = False
    return replay.reshape(model.shape)


def _fields(model: SyntheticModel, stream: int, count: int) -> Iterator[Floats]:
    """Independent fields of standard normals that correlate over frames and layers.

    Yields:
        float[N, L, count] of frame after frame, so that few are in memory.
    """
    assumed, fading = model.assumed, model.assumed.fading
    rng = np.random.default_rng(np.random.SeedSequence(model.seed, spawn_key=(stream,)))

    def drawn() -> Floats:
        # Before the layers what they share.
        field = rng.standard_normal((model.tokens_per_frame, 1 + model.layers, count))
        return _sharing(field[:, :1], field[:, 1:], assumed.across_layers)

    # Before the frames what lasts over all of them.
    lasting, passing = drawn(), drawn()
    while True:
        yield _sharing(lasting, passing, assumed.lasting)
        passing = fading * passing + math.sqrt(1 - fading**2) * drawn()


def _sharing(shared: Floats, own: Floats, correlation: float) -> Floats:
    """Standard normals that correlate through what they share."""
    mixed: Floats = math.sqrt(correlation) * shared + math.sqrt(1 - correlation) * own
    return mixed
