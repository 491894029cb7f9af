"""Evaluate points: one policy on one machine each, as a flat row of metrics.

Only the design's own policy is simulated, and dense decoding for the speed-up. What points have in
common is kept from one to the next. A point that is refused or does not fit is a row that says so.
"""

import json
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from time import process_time
from typing import Any, Generic, NamedTuple, TypeVar

from carsim.base.errors import InputError
from carsim.base.groups import grouped
from carsim.base.yaml_file import shown
from carsim.cost.fit import FitReport
from carsim.decisions.choose import Sources
from carsim.decisions.trace import Trace, dense
from carsim.design import Design, override
from carsim.explore.designs import Designs
from carsim.explore.points import DECISION_PATHS, Point
from carsim.explore.study import Study, trace_names
from carsim.machine.batches import Batches, make_batches
from carsim.machine.hardware import Columns, Hardware, structure_of
from carsim.machine.phases import SOLVED, Phases
from carsim.machine.ranges import bytes_of_step
from carsim.machine.row import Candidate, RowResult, simulate_rows
from carsim.machine.variants import BASE, Variant, own_variant
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
        return own_variant(self.design, replays=self.replays)


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
        rows: list[Row] = [{} for _ in points]
        fitted: dict[int, Fitted] = {}
        twins: dict[str, Fitted] = {}
        for place, point in enumerate(points):
            try:
                twin = twins.get(key := point.without(*DECISION_PATHS))
                fitted[place] = self._fitted(point.changes, twin)
                twins.setdefault(key, fitted[place])
            except InputError as error:
                rows[place] = _refused(error)
        # A design that does not fit is simulated only if the study says so.
        runs = {n: f for n, f in fitted.items() if f.fit.fits or self.study.file.allow_misfit}
        own, dense = dict[int, RowResult](), dict[int, float]()
        try:
            own = dict(zip(runs, self.machines.rows([*runs.values()]), strict=True))
            if self.study.file.baseline is not False:
                latencies_s = self.machines.dense_latencies_s([*runs.values()])
                dense = dict(zip(runs, latencies_s, strict=True))
        except InputError as error:
            if len(points) == 1:
                return [_refused(error)]
            return [row for point in points for row in self._rows([point])]
        for place, each in fitted.items():
            rows[place] = {
                "status": "ok" if each.fit.fits else "misfit",
                "reason": "; ".join(each.fit.misfits),
                **figures(own.get(place), Setting(each.asked.design, each.fit, dense.get(place))),
            }
        return rows

    def _fitted(self, changes: Mapping[str, Any], twin: "Fitted | None") -> "Fitted":
        """A point that is not refused; its twin differs in :data:`DECISION_PATHS` alone."""
        if twin is None:
            asked = self.asked(changes)
            return Fitted(asked, fit_of(asked.design, asked.sources, asked.video, asked.replays))
        decisions = {p: each for p, each in changes.items() if p.startswith(DECISION_PATHS)}
        found = Fitted(self.asked(changes, override(twin.asked.design, decisions)), twin.fit)
        vars(found).update(hardware=twin.hardware, structure=twin.structure)
        return found

    def _sources(self, design: Design, changes: Mapping[str, Any]) -> Sources:
        """The traces of a point, or its workload as one."""
        study, work = self.study, self.study.workload
        if "workload" in changes:
            work = workload_of(changes["workload"])
        if "trace" in changes or work is None:
            names = trace_names(changes.get("trace", study.file.traces), "trace")
            traces = [study.traces[name] for name in names]
        else:
            key = work, design.model.as_json, design.policy.batch
            traces = self._stated.get(key, lambda: list(sources_of(design, workload=work).traces))
        return sources_of(design, traces, resample_seed=study.file.resample)


def at_once(asked: Asked) -> int:
    """Designs like one that can be simulated together in the memory that is set aside for it."""
    nbytes = asked.video.n_steps * bytes_of_step(Hardware(asked.design))
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
        raw["policy"] = design.policy.model_dump(include={"batch", "tokens_per_step"})
        for field in design.board.UNTIMED:
            raw["board"].pop(field, None)
        for memory in raw["board"]["memories"].values():
            del memory["capacity_gib"], memory["reserve_mib"]
        return json.dumps(raw, sort_keys=True)

    @cached_property
    def structure(self) -> str:
        """Equal for designs that can be simulated together."""
        return structure_of(self.asked.design)


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
        keys = (
            (each.structure, each.asked.variant, each.asked.video, self.batches(each.asked))
            for each in points
        )
        decided = grouped(zip(keys, range(len(points)), strict=True))
        # Decisions that meet the same hardware are further batches of one run, which takes half the
        # time; not if attention reads what follows from them.
        groups: dict[Hashable, list[tuple[int, Batches]]] = {}
        for (*same, batches), numbers in decided.items():
            apart = batches if batches.reads else None
            hardwares = frozenset(points[number].hardware for number in numbers)
            group = groups.setdefault((*same, batches.rule, apart, hardwares), [])
            group += [(number, batches) for number in numbers]
        found: dict[int, RowResult] = {}
        for group in groups.values():
            group.sort(key=lambda each: points[each[0]].hardware)
            rows = self._together([(points[number], batches) for number, batches in group])
            found |= {number: row for (number, _), row in zip(group, rows, strict=True)}
        return [found[number] for number in range(len(points))]

    def batches(self, asked: Asked) -> Batches:
        """The decisions that the policy of a point consumes."""
        design, sources, video, _ = asked
        policy, variant = design.policy, asked.variant
        return self.decisions.get(
            (
                tuple(trace.sha256 for trace in sources.traces),
                variant.attention,
                variant.replays,
                video,
                (policy.tau, policy.decision_scope, policy.batch, policy.tokens_per_step),
                (design.model.body.hidden_size, design.model.body.n_layers),
            ),
            lambda: make_batches(
                sources.decisions(variant.attention, replays=variant.replays, video=video),
                policy.batch,
                policy.tokens_per_step,
            ),
        )

    def dense_latencies_s(self, points: Sequence[Fitted]) -> list[float]:
        """Latency of dense decoding of each design; since all batches are alike, of one."""
        keys = [(each.hardware, each.asked.video) for each in points]
        pairs = zip(keys, points, strict=True)
        new = {key: each for key, each in pairs if key not in self.baselines}
        together = (((each.structure, each.asked.video), each) for each in new.values())
        for group in grouped(together).values():
            first = group[0]
            n_layers, policy = first.asked.design.model.body.n_layers, first.asked.design.policy
            decided = dense(first.asked.video.n_steps, n_layers, policy.batch)
            one = make_batches(decided, policy.batch, policy.tokens_per_step)
            rows = self._together([(each, one) for each in group], BASE)
            for each, row in zip(group, rows, strict=True):
                self.baselines[each.hardware, each.asked.video] = row.latency_s
        found = [self.baselines[key] for key in keys]
        for oldest in [*self.baselines][:-KEPT_BASELINES]:
            del self.baselines[oldest]
        return found

    def _together(
        self, points: Sequence[tuple[Fitted, Batches]], variant: Variant | None = None
    ) -> Iterator[RowResult]:
        """Rows of designs of one structure and policy; as many at once as memory allows."""
        first = points[0][0]
        most = at_once(first.asked) if self._fidelity == SOLVED else 1
        for begin in range(0, len(points), most):
            some = points[begin : begin + most]
            hardwares = {each.hardware: Hardware(each.asked.design) for each, _ in some}
            phases = self.phases.get(
                tuple(hardwares),
                lambda found=hardwares: Phases(Columns.of([*found.values()]), self._fidelity),  # type: ignore[misc]
            )
            parts = tuple(dict.fromkeys(batches for _, batches in some))
            batches = parts[0]
            if len(parts) > 1:
                batches = self.decisions.get(parts, lambda parts=parts: Batches.joined(parts))  # type: ignore[misc]
            number = {key: place for place, key in enumerate(hardwares)}
            candidates = [
                Candidate(each.asked.design, each.fit, number[each.hardware], parts.index(own))
                for each, own in some
            ]
            chosen, video = variant or first.asked.variant, first.asked.video
            yield from simulate_rows(candidates, chosen, batches, video, phases)


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


def _refused(error: InputError) -> Row:
    return {"status": "invalid", "reason": str(error.named({"resample_seed": "resample"}))}


def _asked_for(captured: Video, changes: Mapping[str, Any]) -> Video:
    """The video of a point: that of the traces, or as many frames and tokens as it asks for.

    Raises:
        InputError: No whole numbers above 0, or more steps than memory should hold.
    """
    sizes = {"video.frames": captured.n_frames, "video.tokens_per_frame": captured.tokens_per_frame}
    for path in sizes:
        value = changes.get(path, sizes[path])
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise InputError(path, f"got {shown(value)}", "give a whole number above 0")
        sizes[path] = value
    n_frames, tokens = sizes.values()
    if n_frames * tokens > MOST_STEPS:
        raise InputError(
            "video.frames", f"make {n_frames * tokens:,} steps", f"take at most {MOST_STEPS:,}"
        )
    return Video(n_frames, tokens, captured.prompt_tokens, captured.kind)


def _plain(value: Any) -> Any:
    """The value as JSON and columns of a frame can hold it; metrics are finite already."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()  # halves of letters
    is_huge = isinstance(value, int) and not -(1 << 63) <= value < 1 << 63
    return float(value) if is_huge else value
