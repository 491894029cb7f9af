"""The table of all metrics. Terminal, JSON, frames, CSV, pages and studies are renderings of it.

To add a metric, add one row to the table: every output then has it. One from outside is registered:
``METRICS.register(Metric(...))``.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from operator import attrgetter

from carsim.base.registry import Registry
from carsim.base.text import with_ends
from carsim.base.units import GB
from carsim.hardware.technology import TECHNOLOGIES, Technology
from carsim.hardware.technology.price import total
from carsim.machine.limits import shares_by_limit
from carsim.machine.row import RowResult
from carsim.machine.simulate import LAYER_PHASES
from carsim.metrics.metric import Metric, Run, Value

PHASES = {
    "prefill": "prefill",
    "qkv": "QKV projection",
    "attention": "attention",
    "output": "output projection",
    "mlp": "MLP and replay",
    "head": "head",
}
"""Kinds of phases in the order of a video -> English name. Their times add up to a latency."""

RESOURCES: dict[str, str] = {}
"""Resource of any technology -> title. A design of another technology has None of it."""
for _technology in TECHNOLOGIES.values():
    for _name, _kind in _technology.resource_kinds.items():
        RESOURCES.setdefault(_name, _kind.title)

INTERVALS = {
    "latency_s": ("latency_low_s", "latency_high_s"),
    "seconds_per_video": ("seconds_per_video_low", "seconds_per_video_high"),
    "energy_per_video_j": ("energy_per_video_low_j", "energy_per_video_high_j"),
    "area_mm2": ("area_low_mm2", "area_high_mm2"),
    "cost_usd": ("cost_low_usd", "cost_high_usd"),
    "energy_per_token_j": ("energy_per_token_low_j", "energy_per_token_high_j"),
}
"""Metric -> the metrics that are the ends of its interval."""

Get = Callable[[RowResult, Run], Value]


def _phase_seconds(phase: str) -> Get:
    return lambda row, run: row.seconds_by_phase.get(phase, 0.0)


def _phase_limit(phase: str) -> Get:
    return lambda row, run: {each.phase: each.limited_by for each in row.limits}.get(phase)


def _speedup(row: RowResult, run: Run) -> Value:
    return None if run.dense_latency_s is None else run.dense_latency_s / row.latency_s


def _with_ends(metric: Metric, why: tuple[str, str], get: Callable[[int], Get]) -> Iterator[Metric]:
    """A metric and, if it has an interval, its ends.

    Args:
        metric: The metric.
        why: Conditions of the lower and of the upper end.
        get: Takes the lower (0) or the upper end (1).
    """
    yield metric
    for which, name in enumerate(INTERVALS.get(metric.name, ())):
        yield replace(
            metric,
            name=name,
            title=f"{metric.title}, {('low', 'high')[which]}",
            meaning=f"{metric.meaning}, if {why[which]}",
            value=get(which),
            shown="no" if metric.of_design else "detail",
            short="",
        )


def _ends(text: str, low: str = "lower", high: str = "upper") -> tuple[str, str]:
    return text.format(low), text.format(high)


def _interval(of: str) -> Callable[[int], Get]:
    return lambda which: (
        lambda row, run: row.latency_factors and row.latency_factors[which] * getattr(row, of)
    )


def _joules(of: str) -> Callable[[int], Get]:
    return lambda which: lambda row, run: getattr(getattr(row, of), ("low_j", "high_j")[which])


def _frames_per_s(row: RowResult, run: Run) -> Value:
    video = row.simulation.plan.video
    return None if video.kind == "text" else video.n_frames / row.seconds_per_video


def _resource(name: str, title: str) -> Metric:
    meaning = f"{title[0].upper() + title[1:]} that the design takes"
    unit = "mm2" if name.endswith("_mm2") else ""

    def used(row: RowResult, run: Run) -> Value:
        return run.fit.counts[name].used if name in run.fit.counts else None

    return Metric(name, unit, title, meaning, "sum over components", "lower", used, True, "no")


def _clock_ratio(row: RowResult, run: Run) -> Value:
    board = run.design.board
    fastest_mhz = board.technology.published_clock_mhz(run.design, run.fit.resources)
    return None if fastest_mhz is None else board.fabric_clock_mhz / fastest_mhz


def _area(which: int) -> Get:
    return lambda row, run: run.fit.intervals.get("area_mm2", (None, None))[which]


def _price(end: str) -> Get:
    return lambda row, run: getattr(total(run.fit.prices), end, None)


_JOULES = "energy of all batches / videos"
_PER_TOKEN = "energy of all batches without their prompts / tokens of all streams"
_PRICE = "sum over die, package, memories and tests, or price of the board"
_MEMORY = _ends("memory sustains the {} measured on such boards; runs only", "most", "least")
_ENERGY = _ends("every constant of energy is at its {} end, and time if known")
_AREA = _ends("every constant of area is at its {} end")
_COST = _ends("every constant of area and price is at its {} end")
_LARGEST = "largest of compute, memory, port and dependency"

# One row per metric: name, unit, title / meaning / formula, better, value.
# fmt: off
_ROWS = (
    *_with_ends(
        Metric("latency_s", "s", "latency of a batch",
               "Time from the prompt to the last token of a batch, mean over the batches",
               "cycles / clock / batches", "lower", lambda row, run: row.latency_s),
        _MEMORY, _interval("latency_s"),
    ),
    *_with_ends(
        Metric("seconds_per_video", "s", "time per video",
               "Latency of a batch divided by the videos that it finishes",
               "latency_s / videos_per_batch", "lower", lambda row, run: row.seconds_per_video,
               shown="headline", headline_of="video", short="seconds per video"),
        _MEMORY, _interval("seconds_per_video"),
    ),
    Metric("speedup", "x", "speed-up over dense",
           "How many times as fast as dense decoding on the same machine",
           "dense_latency_s / latency_s", "higher", _speedup,
           shown="headline", headline_of="video", short="speed-up"),
    Metric("stream_tokens_per_s", "tokens/s", "speed per stream",
           "Tokens per second of one video or text, prompt left out; a guidance pair is one stream",
           "tokens of a stream / (latency_s - prefill_s)", "higher",
           lambda row, run: row.stream_tokens_per_s,
           shown="headline", headline_of="text", short="tokens/s per stream"),
    Metric("tokens_per_s", "tokens/s", "speed in all",
           "Tokens per second of all streams of a batch together, prompt left out",
           "stream_tokens_per_s * videos_per_batch", "higher", lambda row, run: row.tokens_per_s,
           shown="headline", headline_of="text", short="tokens/s in all"),
    Metric("ms_per_token", "ms", "time per token step",
           "Time of one decode step of the batch, without prefill",
           "1000 * (latency_s - prefill_s) / steps", "lower", lambda row, run: row.ms_per_token,
           shown="headline", headline_of="text", short="ms per step"),
    Metric("frames_per_s", "frames/s", "frames per second",
           "Frames of all videos of a batch together per second, prompt included",
           "frames / seconds_per_video", "higher", _frames_per_s),
    Metric("first_token_s", "s", "time to first token",
           "Time from the prompt to the end of the step after it, which emits the first token",
           "prefill_s + time of the first step", "lower", lambda row, run: row.first_token_s,
           shown="headline", headline_of="text", short="first token [s]"),
    Metric("body_latency_s", "s", "latency without the head",
           "Latency of a batch without its head",
           "latency_s - head_s", "lower", lambda row, run: row.body_latency_s),
    Metric("bound_latency_s", "s", "bound of the latency",
           "Lower bound of the latency for schedules that give whole sequences to these cores",
           "sum over phases of max(compute on balanced cores, bytes / bandwidth)", "lower",
           lambda row, run: row.bound_latency_s),
    Metric("dense_latency_s", "s", "latency of dense decoding",
           "Latency of a batch that is decoded densely, sequences dealt out statically",
           "latency_s of the dense row", None, lambda row, run: run.dense_latency_s, shown="no"),
    *(
        Metric(f"{phase}_s", "s", f"time in {label}",
               f"Part of the latency of a batch that is spent in {label}",
               f"cycles of {phase} / clock / batches", "lower", _phase_seconds(phase))
        for phase, label in PHASES.items()
    ),
    *_with_ends(
        Metric("energy_per_video_j", "J", "energy per video",
               "Energy of the whole board per finished video",
               _JOULES, "lower", lambda row, run: row.energy_per_video.value_j,
               shown="headline", headline_of="video", short="joules"),
        _ENERGY, _joules("energy_per_video"),
    ),
    *_with_ends(
        Metric("energy_per_token_j", "J", "energy per token",
               "Energy of the whole board per token of a stream, prompt left out",
               _PER_TOKEN, "lower", lambda row, run: row.energy_per_token.value_j,
               shown="headline", headline_of="text", short="joules per token"),
        _ENERGY, _joules("energy_per_token"),
    ),
    Metric("energy_above_idle_per_video_j", "J", "energy above idle",
           "Part of the energy per video that an idle board would not use in the same time",
           "energy_per_video_j - idle power * seconds_per_video", "lower",
           lambda row, run: row.energy.above_idle.value_j / row.videos),
    Metric("average_power_w", "W", "average power",
           "Power of the whole board, mean over the run",
           "energy_per_video_j / seconds_per_video", "lower", lambda row, run: row.average_power_w),
    Metric("busy", "share", "cores busy",
           "Share of the core cycles in which a core computes",
           "busy core cycles / (cores * cycles)", "higher", lambda row, run: row.busy,
           shown="headline", headline_of="video"),
    Metric("mac_utilisation", "share", "MAC utilisation",
           "Multiply-accumulates done, as a share of those that the arrays could do",
           "MACs / (macs_per_cycle * cycles)", "higher", lambda row, run: row.mac_utilisation),
    Metric("memory_utilisation", "share", "memory, of peak",
           "Bytes moved, as a share of what the peak rate allows; of the busiest memory",
           "bytes / (peak rate * time)", "higher",
           lambda row, run: max(row.ddr_utilisation.values(), default=None),
           shown="headline", short="memory busy"),
    Metric("memory_gb_per_video", "GB", "memory traffic per video",
           "Bytes moved to and from all external memories per finished video",
           "bytes / 1e9 / videos", "lower", lambda row, run: row.dram_gb_per_video),
    Metric("step_gb", "GB", "memory traffic per step",
           "Bytes moved to and from all external memories in a mean decode step",
           "bytes of decoding / 1e9 / steps", "lower", lambda row, run: row.roofline.gb),
    Metric("bandwidth_only_ms", "ms", "time per step, bandwidth alone",
           "Time of a decode step if nothing but its bytes took time",
           "max(bytes / sustained rate) over memories / steps", "lower",
           lambda row, run: row.roofline.bandwidth_ms),
    Metric("step_gmacs", "1e9 MACs", "MACs per step",
           "Multiply-accumulates of a mean decode step of the batch",
           "MACs of decoding / 1e9 / steps", "lower", lambda row, run: row.roofline.gmacs),
    Metric("compute_only_ms", "ms", "time per step, compute alone",
           "Time of a decode step if nothing but its multiply-accumulates took time",
           "MACs / (macs_per_cycle * clock) / steps", "lower",
           lambda row, run: row.roofline.compute_ms),
    Metric("replay_eligible", "share", "replay ratio",
           "Replayed decisions, as a share of those after the first frame, which never replays",
           "replayed / decisions after frame 0", "higher", lambda row, run: row.replay_eligible),
    Metric("replay_all", "share", "replay ratio, all steps",
           "Replayed decisions, as a share of all decisions",
           "replayed / decisions", "higher", lambda row, run: row.replay_all),
    Metric("limit", "", "limit",
           "What limits the phases that take most of the time", _LARGEST, None,
           lambda row, run: next(iter(shares_by_limit(row.limits)), None), shown="no"),
    *(
        Metric(f"limit_{phase}", "", f"limit of {PHASES[phase]}",
               f"What limits the phase {PHASES[phase]}", _LARGEST, None, _phase_limit(phase),
               shown="no")
        for phase in LAYER_PHASES
    ),
    Metric("batches", "", "batches",
           "Batches decoded one after the other; times are means over them",
           "sequences of the trace / sequences per batch", None, lambda row, run: row.n_batches,
           shown="no"),
    Metric("videos_per_batch", "", "videos per batch",
           "Videos that a batch finishes; a guidance pair makes one video",
           "sequences per batch / sequences per video", None,
           lambda row, run: row.batches.videos_per_batch, shown="no"),
    Metric("decisions", "", "decisions",
           "Where the replay decisions come from", "", None, lambda row, run: row.batches.label,
           shown="no"),
    Metric("fits", "", "fits its board",
           "Whether the design fits its board",
           "fill <= 1", None, lambda row, run: run.fit.fits, of_design=True, shown="no"),
    Metric("fill", "share", "fill of the board",
           "Use of the scarcest resource, memory or buffer; above 100 % it does not fit",
           "max(needed / available)", "lower",
           lambda row, run: max(row.share for row in run.fit.rows),
           of_design=True, shown="no"),
    Metric("clock_ratio", "x", "clock over published",
           "Clock over the fastest of published designs of such an occupancy or node",
           "clock / fastest published clock", None, _clock_ratio,
           of_design=True, shown="no"),
    *(
        each
        for name, title in RESOURCES.items()
        for each in _with_ends(_resource(name, title), _AREA, _area)
    ),
    *_with_ends(
        Metric("cost_usd", "USD", "price",
               "Price of a chip with package and memories, parts alone, or of a board in a shop",
               _PRICE, "lower", _price("value"), of_design=True, shown="no"),
        _COST, lambda which: _price(("low", "high")[which]),
    ),
    Metric("memory_used_gb", "GB", "memory used",
           "Bytes that all external memories hold", "weights + KV + replay cache", "lower",
           lambda row, run: sum(use.used_bytes for use in run.fit.memories) / GB,
           of_design=True, shown="no"),
    Metric("macs_per_cycle", "", "MACs per cycle",
           "Multiply-accumulates that all cores can do in a cycle",
           "cores * rows * columns", "lower",
           lambda row, run: run.design.machine.macs_per_cycle, of_design=True, shown="no"),
)
# fmt: on

METRICS: Registry[Metric] = Registry("metric", attrgetter("name"), _ROWS)
"""Every metric by its name."""

WITHOUT_DENSE = frozenset(METRICS) - {"speedup", "dense_latency_s"}
"""Shipped metrics that need no dense decoding."""


def _add_resources(technology: type[Technology]) -> None:
    for name, resource in technology.resource_kinds.items():
        if name not in METRICS:
            RESOURCES[name] = resource.title
            METRICS.register(_resource(name, resource.title))


TECHNOLOGIES.follow(_add_resources)


def headline(kind: str) -> list[Metric]:
    """The metrics in the table of policies of a video or a text."""
    return [m for m in METRICS.values() if m.shown == "headline" and m.headline_of in ("", kind)]


def interval_text(name: str, look_up: Callable[[str], Value]) -> str:
    """A figure with its interval in brackets, where it has one, and without its unit."""
    text = METRICS[name].text(look_up(name))
    ends = [METRICS[end].text(look_up(end)) for end in INTERVALS.get(name, ())]
    return with_ends(text, ends[0], ends[1], " to ") if ends and "-" not in ends else text


def figures(row: RowResult | None, run: Run) -> dict[str, Value]:
    """All figures of a row by the names of :data:`METRICS`.

    Args:
        row: The row; None for a design that was not simulated.
        run: Its report, or a :class:`carsim.metrics.Setting`.
    """
    return {name: metric.of(row, run) for name, metric in METRICS.items()}
