"""The table of all metrics. Terminal, JSON, frames, CSV, pages and studies are renderings of it.

To add a metric, add one row to the table: every output then has it. One from outside is registered:
``METRICS.register(Metric(...))``.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from operator import attrgetter
from typing import Literal, NamedTuple

from carsim.account.limits import shares_by_limit
from carsim.account.row import RowResult
from carsim.base.registry import Registry
from carsim.base.text import with_ends
from carsim.base.units import GB
from carsim.cost.capacity import KV_CACHE, OLDER_KV
from carsim.hardware.expected import Expected
from carsim.hardware.technology import TECHNOLOGIES, Technology
from carsim.hardware.technology.price import total
from carsim.metrics.metric import Metric, Run, Value, with_checked_value
from carsim.workload.activity import Activity
from carsim.workload.geometry import Video
from carsim.workload.model import Model

LAYER_PHASES = ("qkv", "attention", "output", "mlp")
"""Blocks of a decoder's layer, whose limits are metrics."""

FORWARD_PHASES = {
    "enter": "patches, time and text",
    "refiner": "text refiner",
    "modulation": "modulation",
    "cross": "cross-attention",
    "leave": "output patches",
    "convolution": "convolutions",
    "pixels": "pixel decoder",
}
"""Kinds of phases that networks have beside those of a decoder -> English name."""

PHASES = {
    "prefill": "prefill",
    "qkv": "QKV projection",
    "attention": "attention",
    "output": "output projection",
    "mlp": "MLP and replay",
    "head": "head",
    **FORWARD_PHASES,
}
"""Kinds of phases -> English name. Their times, and that of the host, add up to a latency."""

RESOURCES: dict[str, str] = {}
"""Resource of any technology -> title. A design of another technology has None of it."""
for _technology in TECHNOLOGIES.values():
    for _name, _kind in _technology.resource_kinds.items():
        RESOURCES.setdefault(_name, _kind.title)

INTERVALS = {
    "latency_s": ("latency_low_s", "latency_high_s"),
    "seconds_per_video": ("seconds_per_video_low", "seconds_per_video_high"),
    "stream_tokens_per_s": ("stream_tokens_per_s_low", "stream_tokens_per_s_high"),
    "tokens_per_s": ("tokens_per_s_low", "tokens_per_s_high"),
    "ms_per_token": ("ms_per_token_low", "ms_per_token_high"),
    "energy_per_video_j": ("energy_per_video_low_j", "energy_per_video_high_j"),
    "area_mm2": ("area_low_mm2", "area_high_mm2"),
    "cost_usd": ("cost_low_usd", "cost_high_usd"),
    "energy_per_token_j": ("energy_per_token_low_j", "energy_per_token_high_j"),
    "expected_latency_s": ("expected_latency_low_s", "expected_latency_high_s"),
    "expected_seconds_per_video": (
        "expected_seconds_per_video_low",
        "expected_seconds_per_video_high",
    ),
    "expected_ms_per_token": ("expected_ms_per_token_low", "expected_ms_per_token_high"),
    "expected_stream_tokens_per_s": (
        "expected_stream_tokens_per_s_low",
        "expected_stream_tokens_per_s_high",
    ),
    "expected_tokens_per_s": ("expected_tokens_per_s_low", "expected_tokens_per_s_high"),
    "expected_frames_per_s": ("expected_frames_per_s_low", "expected_frames_per_s_high"),
}
"""Metric -> the metrics that are the ends of its interval."""

EXPECTED = {
    "expected_latency_s": "latency_s",
    "expected_seconds_per_video": "seconds_per_video",
    "expected_ms_per_token": "ms_per_token",
    "expected_stream_tokens_per_s": "stream_tokens_per_s",
    "expected_tokens_per_s": "tokens_per_s",
    "expected_frames_per_s": "frames_per_s",
}
"""Metric that is expected on a real board -> the simulated metric that it is scaled from."""

OF_DECODING = ("ms_per_token", "stream_tokens_per_s", "tokens_per_s")
"""Simulated metrics that leave the prompt out."""

Get = Callable[[RowResult, Run], Value]


def _phase_seconds(phase: str) -> Get:
    """Get the seconds of a phase."""
    if phase in FORWARD_PHASES:  # a decoder has none of them, a network may
        return lambda row, run: row.seconds_by_phase.get(phase)
    return lambda row, run: row.seconds_by_phase.get(phase, 0.0)


def _phase_limit(phase: str) -> Get:
    """Get what limits a phase; None if the row has no such phase."""
    return lambda row, run: {limit.phase: limit.limited_by for limit in row.limits}.get(phase)


def _speedup(row: RowResult, run: Run) -> Value:
    """Speed-up over dense decoding; None if that was not simulated."""
    return None if run.dense_latency_s is None else run.dense_latency_s / row.latency_s


GetEnd = Callable[[int], Get]
"""Gives what gets the lower (0) or the upper end (1) of an interval."""


def _with_ends(metric: Metric, conditions: tuple[str, str], get_end: GetEnd) -> Iterator[Metric]:
    """A metric and, if it has an interval, its ends.

    Args:
        metric: The metric.
        conditions: Conditions of the lower and of the upper end.
        get_end: Gets the lower (0) or the upper end (1).
    """
    yield metric
    for end, name in enumerate(INTERVALS.get(metric.name, ())):
        yield replace(
            metric,
            name=name,
            title=f"{metric.title}, {('low', 'high')[end]}",
            meaning=f"{metric.meaning}, if {conditions[end]}",
            value=get_end(end),
            shown="no" if metric.of_design else "detail",
            short="",
        )


def _ends(text: str, low: str = "lower", high: str = "upper") -> tuple[str, str]:
    """The condition of the lower and of the upper end; braces in the text stand for the word."""
    return text.format(low), text.format(high)


def _interval(attribute: str) -> GetEnd:
    """Ends of a time of a row, which is in proportion to its latency."""

    def get_end(end: int) -> Get:
        def value(row: RowResult, run: Run) -> Value:
            if not row.latency_factors:
                return None
            return row.latency_factors[end] * getattr(row, attribute)

        return value

    return get_end


class Shares(NamedTuple):
    """Parts of a simulated time of which an expected time depends beside the factor.

    Attributes:
        at_peak: Time in which memories and arrays could do the work at their peak. No expected time
            of what is simulated is less.
        stated: Time of text encoder and pixel decoder, which a sample states.
    """

    at_peak: float = 0.0
    stated: float = 0.0


ALL_SCALED = Shares()
"""Nothing is stated, and the peak is not known."""


def expected_scale(
    expected: Expected, better: Literal["higher", "lower"], end: str, shares: Shares = ALL_SCALED
) -> float:
    """What a simulated time or rate is multiplied by to get the expected one.

    Args:
        expected: Time on a real board over the time that is simulated.
        better: ``lower`` for a time, ``higher`` for a rate.
        end: ``value``, or the ``low`` or ``high`` end of the interval of the product.
        shares: Parts of the simulated time that the factor does not scale.
    """
    of_simulated = 1 - shares.stated
    factors = expected.not_below(shares.at_peak / of_simulated).beside_stated(shares.stated)
    if better == "lower":
        return {"value": factors.factor, "low": factors.low, "high": factors.high}[end]
    # A rate is lowest where the time is longest.
    return 1 / {"value": factors.factor, "low": factors.high, "high": factors.low}[end]


@lru_cache(maxsize=4)
def _shares(row: RowResult) -> tuple[Shares, Shares]:
    """Parts of the simulated time of all work, and of decoding alone."""
    simulation = row.simulation
    latency_s = row.latency_s * row.n_batches
    prompt_s = row.seconds_by_phase.get("prefill", 0.0) * row.n_batches
    decoding_s = latency_s - prompt_s
    stated_s = 0.0
    stated_of_decoding_s = 0.0
    if (sample := row.design.model.sample) is not None:
        stated_s = row.n_batches * sample.stated_s
        stated_of_decoding_s = row.n_batches * sample.chunks * sample.decoder_s
    of_all = Shares(
        at_peak=_seconds_at_peak(row, simulation.activity) / latency_s,
        stated=stated_s / latency_s,
    )
    of_decoding = Shares(
        at_peak=_seconds_at_peak(row, simulation.decode_activity) / decoding_s,
        stated=stated_of_decoding_s / decoding_s,
    )
    return of_all, of_decoding


def _seconds_at_peak(row: RowResult, work: Activity) -> float:
    """Seconds of some work if its memories and arrays did it at their peak."""
    hw = row.simulation.plan.hw
    macs_per_s = hw.design.machine.macs_per_cycle * hw.design.board.fabric_clock_mhz * 1e6
    seconds = [work.dram_bytes.get(path.name, 0) / (path.peak_gbps * GB) for path in hw.paths]
    seconds.append(work.macs / macs_per_s)
    return max(seconds)


def _expected(simulated: Metric, end: str) -> Get:
    """Get a time or rate that is expected on a real board, or an end of its interval."""
    better = simulated.better
    assert better is not None

    def value(row: RowResult, run: Run) -> Value:
        bare = simulated.value(row, run)
        if not isinstance(bare, int | float):
            return None
        shares = _shares(row)[simulated.name in OF_DECODING]
        return bare * expected_scale(run.expected, better, end, shares)

    return value


def _expected_ends(simulated: Metric) -> GetEnd:
    """Ends of an expected time or rate."""
    return lambda end: _expected(simulated, ("low", "high")[end])


def _expected_metrics(rows: Iterable[Metric]) -> Iterator[Metric]:
    """Metrics that are expected on a real board, with the ends of their intervals."""
    simulated = {metric.name: metric for metric in rows}
    for name, simulated_name in EXPECTED.items():
        metric = simulated[simulated_name]
        is_time = metric.better == "lower"
        expected = replace(
            metric,
            name=name,
            title=f"expected {metric.title}",
            meaning=f"{metric.meaning}; expected on a real board, by published systems of its kind",
            formula=f"{simulated_name} {'*' if is_time else '/'} factor of published systems",
            value=_expected(metric, "value"),
            shown="detail",
            short="",
        )
        yield from _with_ends(expected, _PUBLISHED, _expected_ends(metric))


def _step_interval(end: int) -> Get:
    """Milliseconds of a decode step at the upper (0) or the lower end (1) of the bandwidth."""

    def value(row: RowResult, run: Run) -> Value:
        if not row.decode_factors:
            return None
        return row.decode_factors[end] * row.ms_per_token

    return value


def _speed_interval(attribute: str) -> GetEnd:
    """Ends of a speed of decoding, at the lower and at the upper end of the bandwidth."""

    def get_end(end: int) -> Get:
        def value(row: RowResult, run: Run) -> Value:
            if not row.decode_factors:
                return None
            # The lower end of a speed is where the time is longest.
            return getattr(row, attribute) / row.decode_factors[1 - end]

        return value

    return get_end


def _joules(attribute: str) -> GetEnd:
    """Ends of an energy of a row."""

    def get_end(end: int) -> Get:
        name = ("low_j", "high_j")[end]
        return lambda row, run: getattr(getattr(row, attribute), name)

    return get_end


def frames_of(model: Model, video: Video) -> int:
    """Frames of a video as it is looked at: pixel frames of what a network makes; 0 of a text."""
    if model.network is not None and model.sample is not None:
        return model.network.pixel_frames(model.sample)
    return 0 if video.kind == "text" else video.n_frames


def _frames_per_s(row: RowResult, run: Run) -> Value:
    """Frames per second; None of a text."""
    frames = frames_of(row.design.model, row.simulation.plan.video)
    return frames / row.seconds_per_video if frames else None


def _kv_cache_gb(row: RowResult, run: Run) -> Value:
    contents = [content for use in run.fit.memories for content in use.contents]
    return sum(each.nbytes for each in contents if each.content in (KV_CACHE, OLDER_KV)) / GB


def _first_frame_s(row: RowResult, run: Run) -> Value:
    """Time to the first frame of a network; None of a decoder."""
    return None if row.design.model.network is None else row.first_token_s


def _first_token_s(row: RowResult, run: Run) -> Value:
    """Time to the first token of a decoder; None of a network."""
    return row.first_token_s if row.design.model.network is None else None


def _resource(name: str, title: str) -> Metric:
    """The metric of a resource; None of designs of another technology."""
    meaning = f"{title[0].upper() + title[1:]} that the design takes"
    unit = "mm2" if name.endswith("_mm2") else ""

    def used(row: RowResult, run: Run) -> Value:
        return run.fit.counts[name].used if name in run.fit.counts else None

    return Metric(name, unit, title, meaning, "sum over components", "lower", used, True, "no")


def _clock_ratio(row: RowResult, run: Run) -> Value:
    """Clock over the fastest clock of published designs of such a size; None if unknown."""
    board = run.design.board
    fastest_mhz = board.technology.published_clock_mhz(run.design, run.fit.resources)
    return None if fastest_mhz is None else board.fabric_clock_mhz / fastest_mhz


def _area(end: int) -> Get:
    """Get an end of the area; None of a board."""
    return lambda row, run: run.fit.intervals.get("area_mm2", (None, None))[end]


def _price(end: str) -> Get:
    """Get the price, or an end of its interval: ``value``, ``low`` or ``high``."""
    return lambda row, run: getattr(total(run.fit.prices), end, None)


_JOULES = "energy of all batches / videos"
_PER_TOKEN = "energy of all batches without their prompts / tokens of all streams"
_PRICE = "sum over die, package, memories and tests, or price of the board"
_MEMORY = _ends("memory sustains the {} that was measured; runs only", "most", "least")
_OF_TEXTS = _ends("memory sustains the {} that was measured; runs of texts only", "most", "least")
_ENERGY = _ends("every constant of energy is at its {} end, and time if known")
_AREA = _ends("every constant of area is at its {} end")
_COST = _ends("every constant of area and price is at its {} end")
_PUBLISHED = _ends("the board is at the {} end of the 90 % interval of published systems")
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
    *_with_ends(
        Metric("stream_tokens_per_s", "tokens/s", "speed per stream",
               "Tokens per second of one video or text, prompt left out; a guidance pair is one "
               "stream",
               "tokens of a stream / (latency_s - prefill_s)", "higher",
               lambda row, run: row.stream_tokens_per_s,
               shown="headline", headline_of="text", short="tokens/s per stream"),
        _OF_TEXTS[::-1], _speed_interval("stream_tokens_per_s"),
    ),
    *_with_ends(
        Metric("tokens_per_s", "tokens/s", "speed in all",
               "Tokens per second of all streams of a batch together, prompt left out",
               "stream_tokens_per_s * videos_per_batch", "higher",
               lambda row, run: row.tokens_per_s,
               shown="headline", headline_of="text", short="tokens/s in all"),
        _OF_TEXTS[::-1], _speed_interval("tokens_per_s"),
    ),
    *_with_ends(
        Metric("ms_per_token", "ms", "time per token step",
               "Time of one decode step of the batch, without prefill",
               "1000 * (latency_s - prefill_s) / steps", "lower",
               lambda row, run: row.ms_per_token,
               shown="headline", headline_of="text", short="ms per step"),
        _OF_TEXTS, _step_interval,
    ),
    Metric("frames_per_s", "frames/s", "frames per second",
           "Frames of all videos of a batch together per second, prompt included; of a network "
           "its pixel frames, or images",
           "frames / seconds_per_video", "higher", _frames_per_s, only_for="video"),
    Metric("first_frame_s", "s", "time to first frame",
           "Time until the first frames are there: all forwards of a sample, or the denoising "
           "forwards of its first chunk; of networks only",
           "prefill_s + forwards of the sample or first chunk + pixels_s of it", "lower",
           _first_frame_s, only_for="network"),
    Metric("last_chunk_s", "s", "time of the last chunk",
           "Time of the last chunk of a video in chunks, from the end of the one before to its "
           "own; of several in flight, the last one that leaves while all noise levels are taken",
           "forwards of the last chunk + its pixel decoder", "lower",
           lambda row, run: row.last_chunk_s, only_for="network", shown="no"),
    Metric("first_token_s", "s", "time to first token",
           "Time from the prompt to the end of the step after it, which emits the first token",
           "prefill_s + time of the first step", "lower", _first_token_s,
           shown="headline", headline_of="text", short="first token [s]", only_for="decoder"),
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
               f"cycles of {phase} / clock / batches", "lower", _phase_seconds(phase),
               only_for="network" if phase in FORWARD_PHASES else "")
        for phase, label in PHASES.items()
    ),
    *_with_ends(
        Metric("energy_per_video_j", "J", "energy per video",
               "Energy of the whole board per finished video, in the simulated time",
               _JOULES, "lower", lambda row, run: row.energy_per_video.value_j,
               shown="headline", headline_of="video", short="joules"),
        _ENERGY, _joules("energy_per_video"),
    ),
    *_with_ends(
        Metric("energy_per_token_j", "J", "energy per token",
               "Energy of the whole board per token of a stream in the simulated time, prompt left "
               "out",
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
           lambda row, run: max(row.ddr_utilisation.values(), default=None)),
    Metric("memory_sustained_share", "share", "memory busy",
           "Bytes of decode steps, as a share of what their memory sustains behind its ports in "
           "that time; of the busiest memory",
           "bytes of decoding / (sustained rate * time of decoding)", "higher",
           lambda row, run: row.memory_sustained_share, shown="headline"),
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
    Metric("policy_name", "", "policy",
           "Name of the policy, as figures and tables have it", "", None,
           lambda row, run: row.variant.name, shown="no"),
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
    Metric("kv_cache_gb", "GB", "KV cache",
           "Bytes of keys and values that all external memories hold, those of a prompt included",
           "tokens * bytes of a key and value * layers * rows", "lower", _kv_cache_gb,
           of_design=True, shown="no"),
    Metric("macs_per_cycle", "", "MACs per cycle",
           "Multiply-accumulates that all cores can do in a cycle",
           "cores * rows * columns", "lower",
           lambda row, run: run.design.machine.macs_per_cycle, of_design=True, shown="no"),
)
# fmt: on

_SHIPPED = (*_ROWS, *_expected_metrics(_ROWS))

METRICS: Registry[Metric] = Registry(
    "metric", attrgetter("name"), _SHIPPED, taken=with_checked_value
)
"""Every metric by its name."""

NEEDS_DENSE = frozenset({"speedup", "dense_latency_s"})
"""Shipped metrics that need dense decoding."""

WITHOUT_DENSE = frozenset(METRICS) - NEEDS_DENSE
"""Shipped metrics that need no dense decoding."""


def _add_resources(technology: type[Technology]) -> None:
    """Add metrics of the resources of a technology from outside."""
    for name, resource in technology.resource_kinds.items():
        if name not in METRICS:
            RESOURCES[name] = resource.title
            METRICS.register(_resource(name, resource.title))


TECHNOLOGIES.follow(_add_resources)


def headline(kind: str) -> list[Metric]:
    """The metrics in the table of policies of a video or a text."""
    metrics = []
    for metric in METRICS.values():
        is_of_kind = metric.headline_of in ("", kind)
        if metric.shown == "headline" and is_of_kind:
            metrics.append(metric)
    return metrics


def interval_text(name: str, look_up: Callable[[str], Value]) -> str:
    """A figure with its interval in brackets, where it has one, and without its unit."""
    text = METRICS[name].text(look_up(name))
    if name not in INTERVALS:
        return text
    low_name, high_name = INTERVALS[name]
    low = METRICS[low_name].text(look_up(low_name))
    high = METRICS[high_name].text(look_up(high_name))
    is_known = low != "-" and high != "-"
    return with_ends(text, low, high, " to ") if is_known else text


def figures(row: RowResult | None, run: Run) -> dict[str, Value]:
    """All figures of a row by the names of :data:`METRICS`.

    Args:
        row: The row; None for a design that was not simulated.
        run: Its report, or a :class:`carsim.metrics.Setting`.
    """
    return {name: metric.of(row, run) for name, metric in METRICS.items()}
