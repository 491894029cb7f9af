"""Evaluate points: one policy on one machine each, as a flat row of metrics.

Only the design's own policy is simulated, and dense decoding for the speed-up. What points have in
common is kept from one to the next. A point that is refused or does not fit is a row that says so.

One point in :data:`JUDGED` is judged: a phase of it is drawn and played on the SimPy machine, too
(:mod:`carsim.machine.judge`). Nothing else is ever raised than that the two differ.
"""

import json
import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from time import perf_counter
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from carsim.base.errors import InputError, SolverError
from carsim.base.yaml_file import shown
from carsim.cost.fit import FitReport
from carsim.decisions.choose import Sources
from carsim.decisions.trace import Trace, dense
from carsim.design import Design, override
from carsim.design.load import PRESET_PATHS
from carsim.explore.axis import PSEUDO_PATHS
from carsim.explore.points import Point
from carsim.explore.study import Study, trace_names
from carsim.machine.batches import Batches, make_batches
from carsim.machine.hardware import Hardware
from carsim.machine.judge import disagreement
from carsim.machine.phases import SOLVED, Phases
from carsim.machine.row import RowResult, simulate_row
from carsim.machine.variants import BASE, Variant, own_variant
from carsim.metrics import Baseline, Setting, figures
from carsim.runs.first import open_design
from carsim.runs.pipeline import fit_of, sources_of
from carsim.workload.geometry import Video
from carsim.workload.workload import workload_of

JUDGED = 64
"""Of so many points one is judged, by its hash; the draw is the same whenever it is evaluated."""

KEPT_HARDWARES = 3
KEPT_DECISIONS = 6
KEPT_BASELINES = 1024
"""Objects of each kind that are kept from point to point; this bounds a worker's memory."""

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


class Evaluator:
    """Evaluates points of one study, keeping what they share.

    Args:
        study: The study.

    Attributes:
        machines: The machine, and what points share of it.
    """

    def __init__(self, study: Study) -> None:
        self.study = study
        self.machines = Machines(study.file.fidelity)
        self._stated: Kept[list[Trace]] = Kept(KEPT_DECISIONS)

    def evaluate(self, point: Point) -> Row:
        """A row: ``status``, ``reason``, ``seconds`` that it took, and metrics.

        Raises:
            SolverError: The point is judged, and the solver is wrong.
        """
        start = perf_counter()
        try:
            row = self._row(point)
        except SolverError:
            raise
        except InputError as error:
            row = {"status": "invalid", "reason": str(error.named({"resample_seed": "resample"}))}
        row["seconds"] = round(perf_counter() - start, 4)
        return {key: _plain(value) for key, value in row.items()}

    def asked(self, changes: Mapping[str, Any], design: Design | None = None) -> Asked:
        """Design, decisions and video of a point.

        Args:
            changes: The fields that it sets.
            design: The design, if it has been made already.

        Raises:
            InputError: The point is refused.
        """
        design = self.design(changes) if design is None else design
        sources = self._sources(design, changes)
        video = _asked_for(sources.video, changes)
        sources.check_sets(video)
        replays = changes.get("replay", True)
        if not isinstance(replays, bool):
            raise InputError("replay", f"got {shown(replays)}", "give true or false")
        return Asked(design, sources, video, replays)

    def design(self, changes: Mapping[str, Any]) -> Design:
        """The design of a point."""
        name = changes.get("design", next(iter(self.study.designs)))
        fields = {path: value for path, value in changes.items() if path not in PSEUDO_PATHS}
        if not any(path in PRESET_PATHS for path in fields):
            return override(self.study.designs[name], fields)
        # A preset is merged beneath what the file says, so that the file is read again.
        texts = [f"{path}={json.dumps(value)}" for path, value in fields.items()]
        return open_design(self.study.design_paths[name], texts, self.study.workload)

    def quality(self, design: Design, sources: Sources, video: Video) -> Row:
        """Measured quality of a design's policy, or why there is none."""
        quality, policy, traces = self.study.quality, design.policy, sources.traces
        if quality is None:
            return {}
        if video.tokens_per_frame != traces[0].tokens_per_frame:
            return {"quality_note": "measured at another number of tokens per frame"}
        if design.model.body.n_layers != traces[0].n_layers:
            return {"quality_note": "measured at another number of layers"}
        meta = sources.trace_for(policy.attention).meta
        if meta.made_up:
            return {"quality_note": f"unknown: decisions are {meta.made_up}"}
        tau: object = policy.tau
        if tau == "captured":
            # Layers that never replay are exempt in what was measured as well.
            per_layer = meta.tau_per_layer
            own = {tau for tau in per_layer if tau is not None and math.isfinite(tau)}
            tau = own.pop() if len(own) == 1 else None
        if not isinstance(tau, int | float):
            return {"quality_note": "each layer has a tau of its own; measured is one for all"}
        columns, note = quality.at(
            tau,
            frames=video.n_frames,
            scope=policy.decision_scope,
            window=getattr(policy.attention, "window", 0),
            sampling=self.study.file.quality_sampling,
        )
        return {**columns, "quality_note": note}

    # ---------------------------------------------------------------- private

    def _row(self, point: Point) -> Row:
        study = self.study
        design, sources, video, replays = self.asked(point.changes)
        fit = fit_of(design, sources, video)
        own = baseline = None
        if fit.fits or study.file.allow_misfit:
            own = self.machines.row(design, sources, video, fit, replays=replays)
            self._judge(point, own)
            if study.file.baseline:
                baseline = Baseline(self.machines.dense_latency_s(design, video, fit))
        return {
            "status": "ok" if fit.fits else "misfit",
            "reason": "; ".join(fit.misfits),
            **figures(own, Setting(design, fit, baseline)),
            **(self.quality(design, sources, video) if replays else {}),
        }

    def _judge(self, point: Point, row: RowResult) -> None:
        seed = int(point.id, 16)
        if self.study.file.fidelity != SOLVED or seed % JUDGED:
            return
        differs = disagreement(row.simulation.plan, row.batches, seed)
        if differs is not None:
            raise SolverError(
                f"point {dict(point.values)}",
                differs,
                "this is a bug of carsim: please report it with the study; 'fidelity: tile' in the "
                "study plays every tile and needs no solver",
            )

    def _sources(self, design: Design, changes: Mapping[str, Any]) -> Sources:
        """The traces of a point, or its workload as one."""
        study, work = self.study, self.study.workload
        if "workload" in changes:
            work = workload_of(changes["workload"])
        if "trace" in changes or work is None:
            names = trace_names(changes.get("trace", study.file.traces), "trace")
            traces = [study.traces[name] for name in names]
        else:
            key = work, design.model.model_dump_json(), design.policy.batch
            traces = self._stated.get(key, lambda: list(sources_of(design, workload=work).traces))
        return sources_of(design, traces, resample_seed=study.file.resample)


class Machines:
    """The one place where points meet the machine; keeps what they share.

    Args:
        fidelity: As in :func:`carsim.runs.pipeline.run`.
    """

    def __init__(self, fidelity: str) -> None:
        self._fidelity = fidelity
        self.phases: Kept[Phases] = Kept(KEPT_HARDWARES)
        self.decisions: Kept[Batches] = Kept(KEPT_DECISIONS)
        self.baselines: Kept[float] = Kept(KEPT_BASELINES)

    def row(
        self, design: Design, sources: Sources, video: Video, fit: FitReport, *, replays: bool
    ) -> RowResult:
        """The design's own policy, or what it is without replay."""
        variant = own_variant(design, replays=replays)
        batches = self.batches(design, sources, video, variant)
        return simulate_row(design, variant, batches, video, fit, self._phases(design))

    def batches(self, design: Design, sources: Sources, video: Video, variant: Variant) -> Batches:
        """The decisions that a policy on a design consumes."""
        policy = design.policy
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

    def dense_latency_s(self, design: Design, video: Video, fit: FitReport) -> float:
        """Latency of dense decoding; since all batches are alike, of one."""

        def simulate() -> float:
            batch, at_once = design.policy.batch, design.policy.tokens_per_step
            one = make_batches(
                dense(video.n_steps, design.model.body.n_layers, batch), batch, at_once
            )
            return simulate_row(design, BASE, one, video, fit, self._phases(design)).latency_s

        return self.baselines.get((hardware_key(design), video), simulate)

    def _phases(self, design: Design) -> Phases:
        key = hardware_key(design)
        return self.phases.get(key, lambda: Phases(Hardware(design), self._fidelity))


def hardware_key(design: Design) -> str:
    """Equal for designs whose phases are equal, however they are scheduled and paid for.

    What no phase depends on is left out by name; all else counts as hardware.
    """
    raw = design.model_dump(mode="json", exclude={"name", "description", "energy"})
    raw["policy"] = {
        "batch": design.policy.batch,
        "tokens_per_step": design.policy.tokens_per_step,
    }
    for field in design.board.UNTIMED:
        raw["board"].pop(field, None)
    for memory in raw["board"]["memories"].values():
        del memory["capacity_gib"], memory["reserve_mib"]
    return json.dumps(raw, sort_keys=True)


class Kept(Generic[Item]):
    """The last few things that were made, by what they were made from."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._items: OrderedDict[Hashable, Item] = OrderedDict()

    def __len__(self) -> int:
        return len(self._items)

    def get(self, key: Hashable, make: Callable[[], Item]) -> Item:
        """The one that was made before, or a new one."""
        item = self._items.pop(key) if key in self._items else make()
        self._items[key] = item
        if len(self._items) > self._size:
            self._items.popitem(last=False)
        return item


# -------------------------------------------------------------------- private


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
    """The value as JSON can hold it: NaN and infinities become None."""
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
