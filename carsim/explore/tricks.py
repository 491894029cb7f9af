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
    """Measurements of a trick in the league.

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
        joules: Per video; None where it could not be simulated.
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
    """Measurements by attention, whether bits are cut to W4A4, and whether MLPs are replayed."""
    measurements = {}
    for row in packaged_rows("carsim.explore", "tricks.csv"):
        key = (row["attention"], bool(row["bits"]), bool(row["replay"]))
        measurements[key] = Measured(
            density=float(row["density"]),
            run_tokens=float(row["run_tokens"]),
            held=float(row["held"]),
            ratio=float(row["ratio"]),
        )
    return measurements


@cache
def attentions() -> Mapping[str, AttentionPolicy]:
    """Policies by name: those of the league, then all other registered kinds with their defaults.

    Kinds that join policies (:attr:`AttentionPolicy.joins_others`) are left out.
    """
    policies = {}
    measured_kinds = set()
    for row in packaged_rows("carsim.explore", "tricks.csv"):
        fields = json.loads(row["fields"])
        policies[row["attention"]] = ATTENTION[fields["kind"]].model_validate(fields)
        measured_kinds.add(fields["kind"])
    for kind, policy_class in ATTENTION.items():
        if kind not in measured_kinds and not policy_class.joins_others:
            policy = policy_class.model_validate({})
            policies[policy.label] = policy
    return policies


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
    return tuple(bench.trick(combination) for combination in _combinations())


def tricks_table(tricks: tuple[Trick, ...]) -> Table:
    """A line per trick; dense decoding is the first."""
    dense = tricks[0]

    def figures(trick: Trick) -> tuple[str, ...]:
        """Seconds, gain over dense decoding and joules as cells."""
        if trick.seconds is None or trick.joules is None or dense.seconds is None:
            return "-", "-", "-"
        mark = " assumed" if trick.is_assumed else ""
        values = (trick.seconds, dense.seconds / trick.seconds, trick.joules)
        return tuple(Figure(f"{number(value)}{mark}", value) for value in values)

    rows = [(trick.name, *figures(trick), trick.on_chip, trick.lacks or "-") for trick in tricks]
    return Table(
        ("trick", "s per video", "gain", "J per video", "more on chip", "lacks"),
        tuple(rows),
        marked=frozenset(index for index, trick in enumerate(tricks) if trick.lacks),
    )


# -------------------------------------------------------------------- private


class _Combination(NamedTuple):
    """Parts of a trick.

    Attributes:
        attention: Name of an attention policy, see :func:`attentions`.
        rule: Rule by which MLPs are replayed; None if they are not.
        w4a4: Bits are cut to W4A4.
    """

    attention: str
    rule: ReplayRule | None = None
    w4a4: bool = False

    @property
    def name(self) -> str:
        """The parts in words."""
        parts = []
        if self.attention != DENSE:
            parts.append(self.attention)
        if self.w4a4:
            parts.append("W4A4")
        if self.rule:
            parts.append(f"replay by {self.rule.label}")
        return " + ".join(parts) or "dense decoding"

    @property
    def counts(self) -> Measured | None:
        """Measurements of it, or of its attention alone; None if the league has neither."""
        key = (self.attention, self.w4a4, self.rule is not None)
        return league().get(key, league().get((self.attention, False, False)))


def _combinations() -> Iterator[_Combination]:
    """Single tricks first, then pairs with FastCar's rule and with W4A4."""
    sparse = [name for name in attentions() if name != DENSE]
    yield _Combination(DENSE)
    for name in sparse:
        yield _Combination(name)
    yield _Combination(DENSE, w4a4=True)
    for rule in RULES.values():
        yield _Combination(DENSE, rule=rule.model_validate({}))
    for name in sparse:
        yield _Combination(name, rule=FASTCAR)
    for name in sparse:
        yield _Combination(name, w4a4=True)
    yield _Combination(DENSE, rule=FASTCAR, w4a4=True)


class _Bench:
    """Simulates tricks on one design, keeping what they share."""

    def __init__(self, sources: Sources, design: Design) -> None:
        self._sources = sources
        self._design = design
        self._video = sources.video
        self._machine = cache(self._make_machine)
        self._batches_of = cache(self._decide)
        self._plain = check_fit(design, self._video, None)

    def trick(self, combination: _Combination) -> Trick:
        """Simulate a combination, or say why it cannot be simulated."""
        attention = attentions()[combination.attention]
        rule = combination.rule
        counts = combination.counts
        try:
            if attention.records and counts is None:
                raise InputError("trick", "reads depend on the data, and none were measured")
            design, phases = self._machine(combination.w4a4)
            design = override(design, {"policy.attention": dict(attention.used)})
        except InputError as error:
            return Trick(
                name=combination.name,
                seconds=None,
                joules=None,
                on_chip="-",
                lacks=error.problem,
                is_assumed=False,
            )
        batches = self._batches_of(rule)
        held_tokens = None  # as the policy itself says
        if attention.records and counts is not None:
            batches = self._reading(batches, counts)
            held_by_layer = int(np.ceil(counts.held * self._video.max_context))
            held_tokens = np.full(design.model.body.n_layers, held_by_layer, np.int64)
        fit = check_fit(design, self._video, rule, held_tokens)
        schedule = design.policy.schedule if rule else BASELINE.kind
        variant = Variant(attention, schedule, replays=rule is not None)
        (row,) = simulate_rows([Candidate(design, fit)], variant, batches, self._video, phases)
        is_exact = rule is None or self._is_exact(rule, attention)
        return Trick(
            name=combination.name,
            seconds=row.seconds_per_video,
            joules=row.energy_per_video.value_j,
            on_chip=self._more(fit),
            lacks=_lacks(fit),
            is_assumed=attention.records or not is_exact,
        )

    def _is_exact(self, rule: ReplayRule, attention: AttentionPolicy) -> bool:
        """Replays follow from a schedule, or were captured under such a rule and attention."""
        meta = self._sources.trace_for(PLAIN).meta
        has_rule = meta.rule.kind == rule.kind
        has_attention = meta.attention.kind == attention.kind
        is_captured = not meta.assumed and has_rule and has_attention
        return is_captured or self._looks_at_nothing(rule)

    def _looks_at_nothing(self, rule: ReplayRule) -> bool:
        """The rule takes no work to decide: it follows from layer and frame alone."""
        return rule.work(machine_shape(self._design.model)) == NO_WORK

    def _make_machine(self, w4a4: bool) -> tuple[Design, Phases]:
        """The design, with bits cut to W4A4 or not, and the phases of its machine."""
        design = self._design
        if w4a4:
            changes = dict(W4A4)
            precisions = design.model.model_dump()
            for role, most_bits in (("weights", 4), ("kv", 4), ("replay", 8)):
                changes[f"model.{role}.bits"] = min(most_bits, precisions[role]["bits"])
            design = override(design, changes)
        return design, Phases(Hardware(design))

    def _decide(self, rule: ReplayRule | None) -> Batches:
        """Decisions of a rule: those of the workload, or of its schedule if it looks at nothing."""
        decisions = self._sources.decisions(PLAIN, replays=rule is not None)
        if rule is not None:
            if decisions.rule is None or decisions.rule.kind != rule.kind:
                decisions = replace(decisions, rule=rule, method=rule.method)
            if self._looks_at_nothing(rule):
                replays = _scheduled(rule, self._video, decisions.n_layers)
                of_rows = np.broadcast_to(replays[..., None], decisions.replay.shape)
                decisions = replace(decisions, replay=of_rows)
        policy = self._design.policy
        return make_batches(decisions, policy.batch, policy.tokens_per_step)

    def _reading(self, batches: Batches, counts: Measured) -> Batches:
        """The decisions with the share of the context, in runs, that was measured."""
        batches_axis, steps, layers, *_ = batches.replay.shape
        shape = (batches_axis, steps, layers)
        context = self._video.prompt_tokens + 1 + np.arange(steps)
        # Tokens that a step reads, and contiguous runs of them, int64[steps].
        tokens = np.clip(np.rint(counts.density * context).astype(np.int64), 1, context)
        runs = np.clip(np.rint(tokens / counts.run_tokens).astype(np.int64), 1, tokens)
        reads = (
            np.broadcast_to(tokens[None, :, None], shape),
            np.broadcast_to(runs[None, :, None], shape),
        )
        return replace(batches, reads=reads)

    def _more(self, fit: FitReport) -> str:
        """Resources beyond those of dense decoding, in words; a dash for none."""
        kinds = self._design.board.technology.resource_kinds
        texts = []
        for name, count in fit.counts.items():
            extra = count.used - self._plain.counts[name].used
            if extra:
                sign = "+" if extra > 0 else ""  # a negative number has its own
                texts.append(f"{sign}{amount(extra, kinds[name].unit)}")
        return ", ".join(texts) or "-"


def _lacks(fit: FitReport) -> str:
    """Missing amounts of each part, in words; empty if all fits."""
    return "; ".join(
        f"{amount(row.needed - row.available, row.unit)} of {row.what}"
        for row in fit.rows
        if not row.ok
    )


def _scheduled(rule: ReplayRule, video: Video, n_layers: int) -> Bools:
    """Replays of a rule that looks at nothing, [S, L]; the first frame never replays."""
    nothing = np.zeros((1, 1, 1))  # stands for all values, as the rule looks at none
    replays = np.zeros((video.n_frames, n_layers), np.bool_)
    for frame in range(1, video.n_frames):
        seen = Seen(
            q=nothing,
            q_rotated=nothing,
            key=lambda _: nothing,
            mlp_input=nothing[0],
            tokens_per_frame=video.tokens_per_frame,
            frame=frame,
        )
        for layer in range(n_layers):
            score_of_rows = rule.score(None, layer, 0, seen)
            replays[frame, layer] = score_of_rows[0] > 0.5
    return np.repeat(replays, video.tokens_per_frame, axis=0)
