"""Evaluate points: one policy on one machine each, as a flat row of metrics.

Only the design's own policy is simulated, and dense decoding for the speed-up. What points have in
common is kept from one to the next. A point that is refused or does not fit is a row that says so.
"""

import json
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from time import process_time
from traceback import extract_tb
from typing import Any, Generic, NamedTuple, TypeVar

from carsim.account.ranges import bytes_of_step
from carsim.account.row import Candidate, RowResult, simulate_rows
from carsim.account.variants import BASE, Variant, own_variant
from carsim.base.answers import told
from carsim.base.errors import InputError, PluginError
from carsim.base.groups import grouped
from carsim.base.paths import is_within
from carsim.base.plugins import blamed
from carsim.base.yaml_file import shown
from carsim.cost.fit import FitReport
from carsim.decisions.choose import Sources
from carsim.decisions.trace import Trace, dense
from carsim.design import Design, override
from carsim.explore.designs import Designs
from carsim.explore.points import DECISION_PATHS, Point
from carsim.explore.study import Study, trace_names
from carsim.machine.arrays import MachineArrays
from carsim.machine.batches import Batches, make_batches
from carsim.machine.hardware import Hardware, structure_of
from carsim.machine.phases import SOLVED, Phases
from carsim.metrics import Setting, figures
from carsim.runs.pipeline import fit_of, sources_of
from carsim.workload.geometry import Video
from carsim.workload.workload import workload_of

KEPT_BYTES = 1 << 27
"""Bytes of phases, and of decisions, that are kept from point to point, though at least the last
of each; this bounds a worker's memory."""

PHASE_BYTES = 200
"""Of the outcome of a phase on a board of two memories."""

KEPT_BASELINES = 1 << 12
"""Latencies of dense decoding that are kept."""

TOGETHER = 128
"""Points at most that are evaluated together; the first are fewer, until it is known how long they
take."""

TOGETHER_S = 1.0
"""Seconds that those may take, in which a process can not be interrupted."""

TOGETHER_BYTES = 1 << 26
"""Memory that designs simulated together take: fewer of longer videos are. Between 2**25 and 2**27
the time of a point is the same; below, calls cost more, above, arrays leave the cache."""

MOST_STEPS = 131_072
"""Steps of one video at most; decisions of 32 layers and 32 rows are then 134 MB."""

FAULTS = (Exception, SystemExit)
"""Raised by one point, of which a sweep survives; a plugin may even call ``sys.exit``."""

Item = TypeVar("Item")
Row = dict[str, Any]


class Asked(NamedTuple):
    """Design, decisions and video of a point, and whether MLPs are replayed at all."""

    design: Design
    sources: Sources
    video: Video
    replays: bool

    @property
    def variant(self) -> Variant:
        """The design's own policy, or what it is without replay."""
        by_token = self.sources.reuse is not None
        return own_variant(self.design, replays=self.replays, by_token=by_token)


class Evaluator:
    """Evaluates points of one study, keeping what they share.

    Args:
        study: The study.

    Attributes:
        designs: Designs of the points.
        machines: The machine, and what points share of it.
        together: As many points are worth evaluating together.
    """

    def __init__(self, study: Study) -> None:
        self.study = study
        self.machines = Machines(study.file.fidelity)
        self._stated: Kept[list[Trace]] = Kept(
            lambda traces: sum(trace.replay.nbytes for trace in traces)
        )
        self.together = 32 if study.file.fidelity == SOLVED else 1
        self.designs = Designs(study)

    def evaluate(self, points: Sequence[Point]) -> list[Row]:
        """A row for each point: ``status``, ``reason``, its processor ``seconds``, and metrics."""
        start = process_time()
        rows = self._rows(points)
        share = max(1e-6, (process_time() - start) / len(points))  # a clock may be coarse
        if len(points) > 1:
            self.together = max(1, min(TOGETHER, 4 * self.together, int(TOGETHER_S / share)))
        for row in rows:
            row["seconds"] = round(share, 4)
        return [{key: _plain(value) for key, value in row.items()} for row in rows]

    def simulated(self, points: Sequence[Point]) -> list[tuple[RowResult, FitReport]]:
        """The simulated row of each point, and the fit of its design.

        Raises:
            InputError: A point is refused.
        """
        fitted = [self._fitted(point.changes, None) for point in points]
        rows = self.machines.rows(fitted)
        return [(row, point.fit) for row, point in zip(rows, fitted, strict=True)]

    def asked(self, changes: Mapping[str, Any], design: Design | None = None) -> Asked:
        """Design, decisions and video of a point.

        Args:
            changes: The fields that it sets.
            design: The design, if it has been made already.

        Raises:
            InputError: The point is refused.
        """
        design = self.designs.of(changes) if design is None else design
        sources = self._sources(design, changes)
        video = _asked_for(sources.video, changes)
        sources.check_sets(video)
        replays = changes.get("replay", True)
        if not isinstance(replays, bool):
            raise InputError("replay", f"got {shown(replays)}", "give true or false")
        return Asked(design, sources, video, replays and sources.replays_any)

    # ---------------------------------------------------------------- private

    def _rows(self, points: Sequence[Point]) -> list[Row]:
        """A row for each point; of one that fails, a row that says why."""
        rows: list[Row] = [{} for _ in points]
        fitted: dict[int, Fitted] = {}  # by the number of the point among these
        twins: dict[str, Fitted] = {}
        for number, point in enumerate(points):
            try:
                without_decisions = point.without(*DECISION_PATHS)
                fitted[number] = self._fitted(point.changes, twins.get(without_decisions))
                twins.setdefault(without_decisions, fitted[number])
            except FAULTS as error:
                rows[number] = _row_of(error)
        # A design that does not fit is simulated only if the study says so.
        allow_misfit = self.study.file.allow_misfit
        simulated = {n: point for n, point in fitted.items() if point.fit.fits or allow_misfit}
        results: dict[int, RowResult] = {}
        dense_latency_s: dict[int, float] = {}
        try:
            to_simulate = list(simulated.values())
            results = dict(zip(simulated, self.machines.rows(to_simulate), strict=True))
            if self.study.file.baseline is not False:
                latencies_s = self.machines.dense_latencies_s(to_simulate)
                dense_latency_s = dict(zip(simulated, latencies_s, strict=True))
        except FAULTS as error:
            if len(points) == 1:
                return [_row_of(error)]
            return [row for point in points for row in self._rows([point])]
        for number, point_fit in fitted.items():
            fit = point_fit.fit
            setting = Setting(point_fit.asked.design, fit, dense_latency_s.get(number))
            try:
                metrics = figures(results.get(number), setting)
            except FAULTS as error:
                rows[number] = _row_of(error)
                continue
            status = "ok" if fit.fits else "misfit"
            rows[number] = {"status": status, "reason": "; ".join(fit.misfits), **metrics}
        return rows

    def _fitted(self, changes: Mapping[str, Any], twin: "Fitted | None") -> "Fitted":
        """A point that is not refused; its twin differs in :data:`DECISION_PATHS` alone."""
        if twin is None:
            point = self.asked(changes)
            return Fitted(point, fit_of(point.design, point.sources, point.video, point.replays))
        decisions = {
            path: value
            for path, value in changes.items()
            if any(is_within(path, decided) for decided in DECISION_PATHS)
        }
        design = override(twin.asked.design, decisions)
        fitted = Fitted(self.asked(changes, design), twin.fit)
        vars(fitted).update(hardware=twin.hardware, structure=twin.structure)
        return fitted

    def _sources(self, design: Design, changes: Mapping[str, Any]) -> Sources:
        """The traces of a point, or its workload as one."""
        study = self.study
        work = study.workload
        if "workload" in changes:
            work = workload_of(changes["workload"])
        if "trace" in changes or work is None:
            names = trace_names(changes.get("trace", study.file.traces), "trace")
            traces = [study.traces[name] for name in names]
        else:
            key = (work, design.model.as_json, design.policy.batch)
            traces = self._stated.get(key, lambda: list(sources_of(design, workload=work).traces))
        return sources_of(design, traces, resample_seed=study.file.resample)


def at_once(asked: Asked) -> int:
    """Designs like one that can be simulated together in the memory that is set aside for it."""
    nbytes = asked.video.n_steps * bytes_of_step(Hardware(asked.design).streams)
    return max(1, TOGETHER_BYTES // nbytes)


@dataclass(frozen=True, eq=False)
class Fitted:
    """A point to simulate, and the fit of its design on its board."""

    asked: Asked
    fit: FitReport

    @cached_property
    def hardware(self) -> str:
        """Equal for designs whose phases are equal, however they are scheduled and paid for.

        What no phase depends on is left out by name; all else counts as hardware.
        """
        design = self.asked.design
        raw = design.model_dump(mode="json", exclude={"name", "description", "energy"})
        raw["policy"] = design.policy.model_dump(include={"batch", "tokens_per_step", "skip"})
        for field in design.board.UNTIMED:
            raw["board"].pop(field, None)
        for memory in raw["board"]["memories"].values():
            del memory["capacity_gib"], memory["reserve_mib"]
        return json.dumps(raw, sort_keys=True)

    @cached_property
    def structure(self) -> str:
        """Equal for designs that can be simulated together."""
        return structure_of(self.asked.design)


class _Decided(NamedTuple):
    """Objects that points share whose decisions, policies and structures are equal."""

    structure: str
    variant: Variant
    video: Video
    batches: Batches


class Machines:
    """The one place where points meet the machine; keeps what they share.

    Args:
        fidelity: As in :func:`carsim.runs.pipeline.run`.
    """

    def __init__(self, fidelity: str) -> None:
        self._fidelity = fidelity
        self.phases: Kept[Phases] = Kept(lambda phases: PHASE_BYTES * phases.kept)
        self.decisions: Kept[Batches] = Kept(lambda batches: 2 * batches.replay.nbytes)
        self.baselines: dict[Hashable, float] = {}

    def rows(self, points: Sequence[Fitted]) -> list[RowResult]:
        """A row for each point; those of one structure and schedule are simulated together.

        Raises:
            InputError: One of them cannot be simulated.
        """
        numbers_of = grouped((self._decided(point), number) for number, point in enumerate(points))
        # Decisions that meet the same hardware are further batches of one run, which takes half the
        # time; not if attention reads what follows from them.
        groups: dict[Hashable, list[tuple[int, Batches]]] = {}
        for decided, numbers in numbers_of.items():
            batches = decided.batches
            run = (
                decided.structure,
                decided.variant,
                decided.video,
                batches.rule,
                batches if batches.reads else None,
                None if batches.tokens is None else batches.tokens.kind,
                frozenset(points[number].hardware for number in numbers),
            )
            groups.setdefault(run, []).extend((number, batches) for number in numbers)
        rows: dict[int, RowResult] = {}
        for group in groups.values():
            group.sort(key=lambda number_and_batches: points[number_and_batches[0]].hardware)
            results = self._together([(points[number], batches) for number, batches in group])
            rows |= {number: row for (number, _), row in zip(group, results, strict=True)}
        return [rows[number] for number in range(len(points))]

    def _decided(self, point: Fitted) -> "_Decided":
        """Key of a point: equal for points that are simulated together."""
        return _Decided(
            structure=point.structure,
            variant=point.asked.variant,
            video=point.asked.video,
            batches=self.batches(point.asked),
        )

    def batches(self, asked: Asked) -> Batches:
        """The decisions that the policy of a point consumes."""
        policy = asked.design.policy
        body = asked.design.model.body
        variant = asked.variant
        key = (
            tuple(trace.sha256 for trace in asked.sources.traces),
            variant.attention,
            variant.replays,
            asked.video,
            (policy.tau, policy.decision_scope, policy.batch, policy.tokens_per_step),
            (body.hidden_size, body.n_layers),
            # The decisions that blocks follow, and what labels say of them.
            (asked.sources.skip, tuple(asked.sources.skipped)),
        )

        def make() -> Batches:
            decisions = asked.sources.decisions(
                variant.attention, replays=variant.replays, video=asked.video
            )
            return make_batches(decisions, policy.batch, policy.tokens_per_step)

        return self.decisions.get(key, make)

    def dense_latencies_s(self, points: Sequence[Fitted]) -> list[float]:
        """Latency of dense decoding of each design; since all batches are alike, of one."""
        keys = [(point.hardware, point.asked.video) for point in points]
        pairs = zip(keys, points, strict=True)
        new = {key: point for key, point in pairs if key not in self.baselines}
        groups = grouped(((point.structure, point.asked.video), point) for point in new.values())
        for group in groups.values():
            first = group[0].asked
            policy = first.design.policy
            nothing_replays = dense(
                first.video.n_steps, first.design.model.body.n_layers, policy.batch
            )
            one_batch = make_batches(nothing_replays, policy.batch, policy.tokens_per_step)
            rows = self._together([(point, one_batch) for point in group], BASE)
            for point, row in zip(group, rows, strict=True):
                self.baselines[point.hardware, point.asked.video] = row.latency_s
        latencies_s = [self.baselines[key] for key in keys]
        for oldest in [*self.baselines][:-KEPT_BASELINES]:
            del self.baselines[oldest]
        return latencies_s

    def _together(
        self, points: Sequence[tuple[Fitted, Batches]], variant: Variant | None = None
    ) -> Iterator[RowResult]:
        """Rows of designs of one structure and policy; as many at once as memory allows."""
        first = points[0][0].asked
        most = at_once(first) if self._fidelity == SOLVED else 1
        for start in range(0, len(points), most):
            chunk = points[start : start + most]
            hardwares = {point.hardware: Hardware(point.asked.design) for point, _ in chunk}
            members = tuple(dict.fromkeys(batches for _, batches in chunk))
            number_of = {hardware: number for number, hardware in enumerate(hardwares)}
            candidates = [
                Candidate(
                    point.asked.design,
                    point.fit,
                    number_of[point.hardware],
                    members.index(batches),
                )
                for point, batches in chunk
            ]
            yield from simulate_rows(
                candidates,
                variant or first.variant,
                self._joined(members),
                first.video,
                self._phases(hardwares),
            )

    def _phases(self, hardwares: Mapping[str, Hardware]) -> Phases:
        """Phases of several hardwares, by their keys; kept from one call to the next."""

        def make() -> Phases:
            return Phases(MachineArrays.of([*hardwares.values()]), self._fidelity)

        return self.phases.get(tuple(hardwares), make)

    def _joined(self, members: tuple[Batches, ...]) -> Batches:
        """Several decisions as the batches of one run; kept from one call to the next."""
        if len(members) == 1:
            return members[0]
        return self.decisions.get(members, lambda: Batches.joined(members))


class Kept(Generic[Item]):
    """Things that were made, by what they were made from, as many as :data:`KEPT_BYTES` hold.

    Args:
        nbytes: Bytes of a thing, which may grow.
    """

    def __init__(self, nbytes: Callable[[Item], int]) -> None:
        self._nbytes = nbytes
        self._items: OrderedDict[Hashable, Item] = OrderedDict()

    @property
    def nbytes(self) -> int:
        """Bytes of all that is kept."""
        return sum(map(self._nbytes, self._items.values()))

    def get(self, key: Hashable, make: Callable[[], Item]) -> Item:
        """The one that was made before, or a new one; the longest unused go first."""
        if key in self._items:
            self._items.move_to_end(key)
            return self._items[key]
        item = self._items[key] = make()
        while len(self._items) > 1 and self.nbytes > KEPT_BYTES:
            self._items.popitem(last=False)
        return item


# -------------------------------------------------------------------- private


def _row_of(error: BaseException) -> Row:
    """The row of a point that is refused, or of one whose evaluation raised an exception."""
    if isinstance(error, InputError) and not isinstance(error, PluginError):
        return {"status": "invalid", "reason": str(error.named({"resample_seed": "resample"}))}
    plugin_error = error if isinstance(error, PluginError) else blamed(error)
    if plugin_error is not None:
        return {"status": "failed", "reason": str(plugin_error)}
    frame = extract_tb(error.__traceback__)[-1]
    line = f"{Path(frame.filename).name}:{frame.lineno}"
    return {"status": "failed", "reason": f"{line}: {frame.name}() fails ({told(error)})"}


def _asked_for(captured: Video, changes: Mapping[str, Any]) -> Video:
    """The video of a point: that of the traces, or as many frames and tokens as it asks for.

    Raises:
        InputError: No whole numbers above 0, or more steps than memory should hold.
    """
    n_frames = _positive(changes, "video.frames", captured.n_frames)
    tokens = _positive(changes, "video.tokens_per_frame", captured.tokens_per_frame)
    if n_frames * tokens > MOST_STEPS:
        raise InputError(
            "video.frames", f"make {n_frames * tokens:,} steps", f"take at most {MOST_STEPS:,}"
        )
    return Video(n_frames, tokens, captured.prompt_tokens, captured.kind)


def _positive(changes: Mapping[str, Any], path: str, usual: int) -> int:
    """The whole number above 0 that a point sets, or the usual one.

    Raises:
        InputError: The point sets anything else.
    """
    value = changes.get(path, usual)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InputError(path, f"got {shown(value)}", "give a whole number above 0")
    return value


def _plain(value: Any) -> Any:
    """The value as JSON and columns of a frame can hold it; metrics are finite already."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()  # halves of letters
    is_huge = isinstance(value, int) and not -(1 << 63) <= value < 1 << 63
    return float(value) if is_huge else value
