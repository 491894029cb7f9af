"""Every policy of the registries, and pairs of them, on one machine: which trick pays here?

Replays are the workload's. Without a trace, or a share that it states, as many are drawn as the
league of policies measured (``studies/league``), with the correlations of a captured trace. What an
attention policy reads is exact where it follows from the context. Else it is assumed: the share of
the context, and the length of its runs, that the league measured over ten scenes of 8 frames
(``tricks.csv`` beside this file). Losses of quality are not printed: the league measured them on a
proxy model that hardly needs its MLPs (``studies/proxy``).

Simplifications: counts measured at 8 frames are the same at any other number of them, in all layers
and heads. Two policies of attention exclude each other.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import numpy as np

from carsim.account.row import Candidate, simulate_rows
from carsim.account.variants import Variant
from carsim.base.errors import InputError
from carsim.base.files import packaged_rows
from carsim.base.text import Figure, Table, number
from carsim.cost.fit import FitReport, check_fit
from carsim.decisions.attention import ATTENTION, PLAIN
from carsim.decisions.attention.base import AttentionPolicy, Bools
from carsim.decisions.choose import Sources
from carsim.decisions.replay import FASTCAR, NO_WORK, RULES, ReplayRule, Seen
from carsim.decisions.trace.drawn import MEASURED
from carsim.decisions.trace.stated import stated_trace
from carsim.design import Design, override
from carsim.hardware.schedule import BASELINE
from carsim.hardware.technology.base import amount
from carsim.machine.batches import Batches, make_batches
from carsim.machine.hardware import Hardware
from carsim.machine.phases import Phases
from carsim.program.block import machine_shape
from carsim.runs.pipeline import sources_of
from carsim.workload.geometry import Video
from carsim.workload.workload import Workload

W4A4 = {"machine.array.arithmetic": "int4", "model.activations.bits": 4, "model.polished": ["down"]}
"""QuartDepth (arXiv 2503.16709); weights, cache and cached outputs get fewer bits besides."""

DENSE = "dense"
"""Name of dense attention in the league."""


class Measured(NamedTuple):
    """What the league measured of a trick.

    Attributes:
        density: Share of the context that a step reads.
        run_tokens: Keys of one run of the cache.
        held: Share of the context that the fullest head holds in the end.
        ratio: Share of the eligible steps that replay.
    """

    density: float
    run_tokens: float
    held: float
    ratio: float


@dataclass(frozen=True)
class Trick:
    """A policy, or a pair of them, on the machine.

    Attributes:
        name: Its parts.
        seconds: Per video; None where it could not be simulated.
        joules: Likewise.
        on_chip: Resources that it takes beyond dense decoding, in words.
        lacks: What does not fit, or why it was not simulated; empty if it fits.
        is_assumed: Decisions or reads are assumed.
    """

    name: str
    seconds: float | None
    joules: float | None
    on_chip: str
    lacks: str
    is_assumed: bool


@cache
def league() -> Mapping[tuple[str, bool, bool], Measured]:
    """Measurements by attention, bits cut to W4A4, and replay."""
    return {
        (row["attention"], bool(row["bits"]), bool(row["replay"])): Measured(
            *(float(row[name]) for name in Measured._fields)
        )
        for row in packaged_rows("carsim.explore", "tricks.csv")
    }


@cache
def attentions() -> Mapping[str, AttentionPolicy]:
    """Policies by name: those of the league, and what else is registered, as it is by default."""
    rows = packaged_rows("carsim.explore", "tricks.csv")
    named = {row["attention"]: json.loads(row["fields"]) for row in rows}
    found = {name: ATTENTION[each["kind"]].model_validate(each) for name, each in named.items()}
    kinds = {each.kind for each in found.values()}
    unmeasured = [kind for key, kind in ATTENTION.items() if key not in kinds]
    others = [kind.model_validate({}) for kind in unmeasured if not kind.joins_others]
    return found | {each.label: each for each in others}


def tricks_of(design: Design, workload: Workload | None = None) -> tuple[Trick, ...]:
    """Dense decoding, every policy of the registries, and pairs of them, on a design's machine.

    Raises:
        InputError: The workload is a text, in which nothing replays.
    """
    work = workload or Workload("video")
    if work.kind == "text":
        cure = "take video:8, or compare two designs"
        raise InputError("`tricks`", "compares policies of videos, and this is a text", cure)
    if work.kind == "video" and work.replay is None:
        work = replace(work, replay=league()[DENSE, False, True].ratio)
    plain = override(design, {"policy.attention": {"kind": PLAIN.kind}})
    drawn = MEASURED if work.pairs is None else None
    traces = work.traces or [stated_trace(work, plain.model, plain.policy.batch, drawn)]
    bench = _Bench(sources_of(plain, traces), plain)
    return tuple(bench.trick(*which) for which in _combinations())


def tricks_table(tricks: tuple[Trick, ...]) -> Table:
    """A line per trick; dense decoding is the first."""
    dense = tricks[0]

    def figures(trick: Trick) -> tuple[str, ...]:
        if trick.seconds is None or trick.joules is None or dense.seconds is None:
            return "-", "-", "-"
        mark = " assumed" if trick.is_assumed else ""
        cells = (trick.seconds, dense.seconds / trick.seconds, trick.joules)
        return tuple(Figure(f"{number(cell)}{mark}", cell) for cell in cells)

    return Table(
        ("trick", "s per video", "gain", "J per video", "more on chip", "lacks"),
        tuple((each.name, *figures(each), each.on_chip, each.lacks or "-") for each in tricks),
        marked=frozenset(i for i, each in enumerate(tricks) if each.lacks),
    )


# -------------------------------------------------------------------- private


def _combinations() -> Iterator[tuple[str, ReplayRule | None, bool]]:
    """Attention, rule of replay, W4A4: alone first, then pairs with FastCar's rule and W4A4."""
    others = [name for name in attentions() if name != DENSE]
    yield from ((name, None, False) for name in (DENSE, *others))
    yield DENSE, None, True
    yield from ((DENSE, kind.model_validate({}), False) for kind in RULES.values())
    yield from ((name, FASTCAR, False) for name in others)
    yield from ((name, None, True) for name in others)
    yield DENSE, FASTCAR, True


class _Bench:
    """Simulates tricks on one design, keeping what they share."""

    def __init__(self, sources: Sources, design: Design) -> None:
        self._sources, self._design = sources, design
        self._video = sources.video
        self._machine, self._decided = cache(self._make_machine), cache(self._decide)
        self._plain = check_fit(design, self._video, None)

    def trick(self, name: str, rule: ReplayRule | None, w4a4: bool) -> Trick:
        attention = attentions()[name]
        parts = [name] * (name != DENSE) + ["W4A4"] * w4a4
        title = " + ".join([*parts, *([f"replay by {rule.label}"] if rule else [])])
        counts = league().get((name, w4a4, rule is not None), league().get((name, False, False)))
        try:
            if attention.records and counts is None:
                raise InputError("trick", "reads depend on the data, and none were measured")
            design, phases = self._machine(w4a4)
            design = override(design, {"policy.attention": dict(attention.used)})
        except InputError as error:
            return Trick(title, None, None, "-", error.problem, False)
        batches, held = self._decided(rule), None
        if attention.records and counts is not None:
            batches = self._reading(batches, counts)
            most = int(np.ceil(counts.held * self._video.max_context))
            held = np.full(design.model.body.n_layers, most, np.int64)
        fit = check_fit(design, self._video, rule, held)
        schedule = design.policy.schedule if rule else BASELINE.kind
        variant = Variant(attention, schedule, replays=rule is not None)
        (row,) = simulate_rows([Candidate(design, fit)], variant, batches, self._video, phases)
        return Trick(
            title or "dense decoding",
            row.seconds_per_video,
            row.energy_per_video.value_j,
            self._more(fit),
            "; ".join(
                f"{amount(each.needed - each.available, each.unit)} of {each.what}"
                for each in fit.rows
                if not each.ok
            ),
            attention.records or not (rule is None or self._is_exact(rule, attention)),
        )

    def _is_exact(self, rule: ReplayRule, attention: AttentionPolicy) -> bool:
        """Replays follow from a schedule, or were captured under such a rule and attention."""
        meta = self._sources.trace_for(PLAIN).meta
        made = meta.rule.kind, meta.attention.kind
        captured = not meta.made_up and made == (rule.kind, attention.kind)
        return captured or self._looks_at_nothing(rule)

    def _looks_at_nothing(self, rule: ReplayRule) -> bool:
        return rule.work(machine_shape(self._design.model)) == NO_WORK

    def _make_machine(self, w4a4: bool) -> tuple[Design, Phases]:
        design, bits = self._design, {"weights": 4, "kv": 4, "replay": 8}
        if w4a4:
            held = design.model.model_dump()
            fewer = {f"model.{key}.bits": min(n, held[key]["bits"]) for key, n in bits.items()}
            design = override(design, {**W4A4, **fewer})
        return design, Phases(Hardware(design))

    def _decide(self, rule: ReplayRule | None) -> Batches:
        """Decisions of a rule: those of the workload, or of its schedule if it looks at nothing."""
        found = self._sources.decisions(PLAIN, replays=rule is not None)
        if rule is not None and (found.rule is None or found.rule.kind != rule.kind):
            found = replace(found, rule=rule, method=rule.method)
        if rule is not None and self._looks_at_nothing(rule):
            replays = _scheduled(rule, self._video, found.n_layers)
            found = replace(found, replay=np.broadcast_to(replays[..., None], found.replay.shape))
        policy = self._design.policy
        return make_batches(found, policy.batch, policy.tokens_per_step)

    def _reading(self, batches: Batches, counts: Measured) -> Batches:
        """The decisions with the share of the context, in runs, that was measured."""
        shape = batches.replay.shape[:3]
        context = self._video.prompt_tokens + 1 + np.arange(shape[1])
        tokens = np.clip(np.rint(counts.density * context).astype(np.int64), 1, context)
        runs = np.clip(np.rint(tokens / counts.run_tokens).astype(np.int64), 1, tokens)
        tokens, runs = (np.broadcast_to(each[None, :, None], shape) for each in (tokens, runs))
        return replace(batches, reads=(tokens, runs))

    def _more(self, fit: FitReport) -> str:
        """Resources beyond those of dense decoding."""
        kinds = self._design.board.technology.resource_kinds
        parts = []
        for name, (used, _) in fit.counts.items():
            if extra := used - self._plain.counts[name].used:
                parts.append(f"{'+' * (extra > 0)}{amount(extra, kinds[name].unit)}")
        return ", ".join(parts) or "-"


def _scheduled(rule: ReplayRule, video: Video, n_layers: int) -> Bools:
    """Replays of a rule that looks at nothing, [S, L]; the first frame never replays."""
    nothing = np.zeros((1, 1, 1))
    replays = np.zeros((video.n_frames, n_layers), np.bool_)
    for frame, layer in np.ndindex(*replays.shape):
        seen = Seen(nothing, nothing, lambda _: nothing, nothing[0], video.tokens_per_frame, frame)
        replays[frame, layer] = frame > 0 and rule.score(None, layer, 0, seen)[0] > 0.5
    return np.repeat(replays, video.tokens_per_frame, axis=0)
