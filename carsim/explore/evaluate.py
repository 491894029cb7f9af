"""Evaluate points: one policy on one machine each, as a flat row of metrics.

Only the design's own policy is simulated, and dense decoding for the speed-up. What points have in
common is kept from one to the next: decisions, and the phases of a hardware. A point that is
refused or does not fit is a row that says so; nothing is raised.
"""

import json
import math
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, Generic, TypeVar

import numpy as np

from carsim.design import Design, StreamingAttention, load_design, override
from carsim.design.load import PRESET_PATHS
from carsim.errors import InputError
from carsim.explore.axis import PSEUDO_PATHS
from carsim.explore.code import code_sha256
from carsim.explore.metrics import PHASES
from carsim.explore.points import Point
from carsim.explore.quality import Quality
from carsim.explore.study import Study, trace_names
from carsim.machine.compare import (
    decisions_for,
    own_variant,
    run_variant,
    trace_for,
    variants,
    video_of,
)
from carsim.machine.hardware import Hardware
from carsim.machine.limits import phase_limits
from carsim.machine.memo import PhaseMemo
from carsim.machine.result import RowResult, Variant
from carsim.machine.simulate import LAYER_PHASES
from carsim.technology.fit import FitReport, check_fit
from carsim.trace import Decisions, Trace, dense
from carsim.units import GB
from carsim.workload.geometry import Video
from carsim.yaml_file import shown

KEPT_HARDWARES = 3
KEPT_DECISIONS = 6
KEPT_BASELINES = 1024
"""Of each, so many are kept from point to point; they bound the memory of a worker."""

MOST_STEPS = 131_072
"""Of one video; decisions of 32 layers and 32 rows are then 134 MB."""

Item = TypeVar("Item")
Row = dict[str, Any]


@dataclass(frozen=True)
class Context:
    """What a worker needs beside the points; all of it travels to other machines.

    Attributes:
        key: Hash of it.
        code: Of the process that asks, see :func:`carsim.explore.code.code_sha256`.
        designs: By the name in the study; the first is the base.
        design_paths: Files of the designs, opened again only where a point names a preset.
        traces: By the name in the study.
        default_traces: Names of the traces of points without an axis ``trace``.
        fidelity: As in :func:`carsim.machine.run`.
        resample_seed: As there.
        baseline: Simulate dense decoding, too.
        allow_misfit: Simulate points that do not fit.
        quality: Measured quality, or None.
        quality_sampling: How tokens were drawn where quality was measured.
    """

    key: str
    code: str
    designs: Mapping[str, Design]
    design_paths: Mapping[str, str]
    traces: Mapping[str, Trace]
    default_traces: tuple[str, ...]
    fidelity: str
    resample_seed: int | None
    baseline: bool
    allow_misfit: bool
    quality: Quality | None
    quality_sampling: str


def context_of(study: Study) -> Context:
    """The context of a study."""
    return Context(
        key=study.inputs_sha256,
        code=code_sha256(),
        designs=dict(study.designs),
        design_paths=dict(study.design_paths),
        traces=dict(study.traces),
        default_traces=study.default_traces,
        fidelity=study.file.fidelity,
        resample_seed=study.file.resample,
        baseline=study.file.baseline,
        allow_misfit=study.file.allow_misfit,
        quality=study.quality,
        quality_sampling=study.file.quality_sampling,
    )


class Evaluator:
    """Evaluates points of one context, keeping what they share.

    Args:
        context: The context.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._memos: _Kept[PhaseMemo] = _Kept(KEPT_HARDWARES)
        self._decisions: _Kept[Decisions] = _Kept(KEPT_DECISIONS)
        self._baselines: _Kept[float] = _Kept(KEPT_BASELINES)

    def evaluate(self, point: Point) -> Row:
        """A row: ``status``, ``reason``, ``seconds`` that it took, and metrics."""
        start = perf_counter()
        try:
            row = self._row(point)
        except InputError as error:
            place = error.place.removeprefix("--set ")
            row = {"status": "invalid", "reason": str(InputError(place, error.problem, error.cure))}
        row["seconds"] = round(perf_counter() - start, 4)
        return {key: _plain(value) for key, value in row.items()}

    # ---------------------------------------------------------------- private

    def _row(self, point: Point) -> Row:
        context = self._context
        design = self._design(point.changes)
        names = trace_names(point.changes.get("trace", context.default_traces), "trace")
        traces = [context.traces[name] for name in names]
        video = _asked_for(video_of(design, traces), point.changes)
        fit = check_fit(design, video)
        row: Row = {"status": "ok", "reason": "", **_size(design, fit)}
        if not fit.fits:
            row |= {"status": "misfit", "reason": "; ".join(fit.misfits)}
        if point.changes.get("replay", True):
            row |= self._quality(design, traces, video)
        if not fit.fits and not context.allow_misfit:
            return row
        key = hardware_key(design)
        memo = self._memos.get(key, lambda: PhaseMemo(Hardware(design, context.fidelity)))
        variant = _variant(design, point.changes)
        decisions = self._decisions.get(
            (names, variant.attention, variant.replays, video, _deciding(design)),
            lambda: decisions_for(design, variant, traces, context.resample_seed, video),
        )
        own = run_variant(design, variant, decisions, video, fit, memo)
        row |= _metrics(own)
        if context.baseline:
            latency = self._baselines.get(
                (key, video), lambda: dense_latency_s(design, traces[0], video, fit, memo)
            )
            row |= {"dense_latency_s": latency, "speedup": latency / row["latency_s"]}
        return row

    def _design(self, changes: Mapping[str, Any]) -> Design:
        context = self._context
        name = changes.get("design", next(iter(context.designs)))
        fields = {path: _tupled(v) for path, v in changes.items() if path not in PSEUDO_PATHS}
        if not any(path in PRESET_PATHS for path in fields):
            return override(context.designs[name], fields)
        # A preset is merged beneath what the file says, so that the file is read again.
        texts = [f"{path}={json.dumps(value)}" for path, value in fields.items()]
        return load_design(context.design_paths[name], texts)

    def _quality(self, design: Design, traces: list[Trace], video: Video) -> Row:
        quality, policy = self._context.quality, design.policy
        if quality is None:
            return {}
        if video.tokens_per_frame != traces[0].tokens_per_frame:
            return {"quality_note": "measured at another number of tokens per frame"}
        attention, tau = policy.attention, policy.tau
        if tau == "captured":
            # Layers that never replay are exempt in what was measured as well.
            taus = trace_for(own_variant(design), traces).meta.tau_per_layer
            own = {tau for tau in taus if tau is not None and math.isfinite(tau)}
            captured = own.pop() if len(own) == 1 else None
        else:
            captured = tau if isinstance(tau, int | float) else None
        if captured is None:
            return {"quality_note": "each layer has a tau of its own; measured is one for all"}
        columns, note = quality.at(
            captured,
            frames=video.n_frames,
            scope=policy.decision_scope,
            window=attention.window if isinstance(attention, StreamingAttention) else 0,
            sampling=self._context.quality_sampling,
        )
        return {**columns, "quality_note": note}


def hardware_key(design: Design) -> str:
    """Equal for designs whose phases are equal, however they are scheduled and paid for.

    What no phase depends on is left out by name; all else counts as hardware.
    """
    raw = design.model_dump(mode="json", exclude={"name", "description", "energy"})
    for field in ("tau", "schedule", "decision_scope", "attention", "sparse_attention"):
        del raw["policy"][field]
    for field in ("name", "device", "lut", "dsp", "bram36", "uram", "static_w", "host_w"):
        del raw["board"][field]
    for memory in raw["board"]["memories"].values():
        del memory["capacity_gib"], memory["reserve_mib"]
    return json.dumps(raw, sort_keys=True)


def dense_latency_s(
    design: Design, trace: Trace, video: Video, fit: FitReport, memo: PhaseMemo
) -> float:
    """Latency of dense decoding under static scheduling; all batches being alike, of one."""
    variant = next(each for each in variants(design) if not each.replays)
    batch = design.policy.batch
    one = dense(video.n_steps, trace.n_layers, batch)
    return run_variant(design, variant, one, video, fit, memo).latency_s


# -------------------------------------------------------------------- private


class _Kept(Generic[Item]):
    """The last few things that were made, by what they were made from."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._items: OrderedDict[Hashable, Item] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], Item]) -> Item:
        """The one that was made before, or a new one."""
        if key in self._items:
            self._items.move_to_end(key)
        else:
            self._items[key] = make()
            if len(self._items) > self._size:
                self._items.popitem(last=False)
        return self._items[key]


def _variant(design: Design, changes: Mapping[str, Any]) -> Variant:
    """The design's own policy, or what it is without replay.

    Raises:
        InputError: ``replay`` is neither true nor false.
    """
    variant, replay = own_variant(design), changes.get("replay", True)
    if not isinstance(replay, bool):
        raise InputError("replay", f"got {shown(replay)}", "give true or false")
    return variant if replay else replace(variant, schedule="static", replays=False)


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
    return Video(n_frames, tokens, captured.prompt_tokens)


def _deciding(design: Design) -> tuple[Hashable, ...]:
    """What decisions depend on beside trace and attention."""
    policy = design.policy
    return policy.tau, policy.decision_scope, policy.batch


def _size(design: Design, fit: FitReport) -> Row:
    used = fit.resources
    return {
        "fits": fit.fits,
        "fill": max(row.needed / max(row.available, 1) for row in fit.rows),
        "dsp": used.dsp,
        "bram36": used.bram36,
        "uram": used.uram,
        "lut": used.lut,
        "memory_used_gb": sum(use.used_bytes for use in fit.memories) / GB,
        "macs_per_cycle": design.machine.macs_per_cycle,
    }


def _metrics(own: RowResult) -> Row:
    joules = own.energy_per_video
    bound = replace(own, is_bound=True)
    limits = {limit.phase: limit for limit in phase_limits(own.simulation)}
    time_of: Counter[str] = Counter()
    for each in limits.values():
        time_of[each.limit] += each.cycles
    seconds = own.seconds_by_phase
    return {
        "latency_s": own.latency_s,
        **{f"{phase}_s": seconds.get(phase, 0.0) for phase in PHASES},
        "seconds_per_video": own.seconds_per_video,
        "ms_per_token": own.ms_per_token,
        "body_latency_s": own.body_latency_s,
        "bound_latency_s": bound.latency_s,
        "energy_per_video_j": joules.value_j,
        "energy_per_video_low_j": joules.low_j,
        "energy_per_video_high_j": joules.high_j,
        "average_power_w": own.average_power_w,
        "busy": own.busy,
        "mac_utilisation": own.mac_utilisation,
        "memory_gb_per_video": own.dram_gb_per_video,
        "wasted_gb_per_video": own.wasted_bytes / GB / own.videos,
        "memory_utilisation": max(own.ddr_utilisation.values()),
        "replay_all": own.replay_all,
        "replay_eligible": own.replay_eligible,
        "limit": time_of.most_common(1)[0][0],
        **{f"limit_{phase}": limits[phase].limit for phase in LAYER_PHASES if phase in limits},
        "batches": own.n_batches,
        "videos_per_batch": own.batches.videos_per_batch,
        "decisions": own.batches.label,
    }


def _tupled(value: Any) -> Any:
    """Lists of YAML as the tuples that strict validation wants."""
    return tuple(value) if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    """What JSON can hold: numbers that are none become nothing."""
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
