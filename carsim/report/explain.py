"""Each line of the first screen with its formula, and with the numbers of a stored run in it.

An :class:`Equation` works a figure of the screen out once more, from other figures of the run. What
a run stores only as a result of the simulation has a formula without numbers.
"""

from collections.abc import Iterator, Sequence
from math import fsum
from typing import Any, NamedTuple

from carsim.account.elasticity import SAMPLED_STEPS, Elasticity
from carsim.account.limits import PhaseLimit
from carsim.base.text import LABEL_WIDTH, Fact, number, percent, signed_percent
from carsim.hardware.expected import LEVEL
from carsim.hardware.schedule import SCHEDULES
from carsim.metrics import INTERVALS
from carsim.report.ratios import speedup
from carsim.report.run_tables import phase_name
from carsim.report.run_words import fast_end_is_peak, stated_seconds
from carsim.report.screen import (
    effect_text,
    effects,
    energy_metric,
    energy_parts,
    facts,
    next_limits,
    policy_name,
    resource_now,
    simulated_change,
)
from carsim.report.stored import StoredPolicy, StoredRun
from carsim.workload.sample import Sample


class Equation(NamedTuple):
    """A figure of the screen, worked out from other figures of the run.

    Attributes:
        figure: Its name in words.
        formula: How it follows, in words.
        numbers: The formula with this run's numbers; empty if they are not stored.
        value: Result of the formula; None without numbers.
        printed: The figure that the run stores, which the result must equal; None without one.
        unit: Unit of both; a ``share`` is written as a percentage, a ``change`` with its sign.
    """

    figure: str
    formula: str
    numbers: str = ""
    value: float | None = None
    printed: float | None = None
    unit: str = ""

    def text(self, *, with_formula: bool = True) -> str:
        """The equation in one line.

        Args:
            with_formula: Write the formula in words, too, if there are numbers.
        """
        if self.value is None:
            return f"{self.figure} = {self.formula}"
        words = f"{self.formula} = " if with_formula else ""
        return f"{self.figure} = {words}{self.numbers} = {self.result}"

    @property
    def result(self) -> str:
        """The result with its unit."""
        assert self.value is not None
        if self.unit == "share":
            return percent(self.value)
        if self.unit == "change":
            return signed_percent(self.value)
        return f"{number(self.value)} {self.unit}".strip()


class Explained(NamedTuple):
    """A line of the screen: its label, its text (empty for a row of a table), its equations."""

    label: str
    text: str
    equations: tuple[Equation, ...]


def explained(run: StoredRun) -> list[Explained]:
    """Explain the lines of the screen in their order, each with its equations."""
    equations_of = {
        "design": _design,
        "work": _work,
        "policy": _policy,
        "assumed": _assumed,
        "expected": _expected,
        "simulated": _simulated,
        "speed-up": _speedup,
        "energy": _energy,
        "fits": _fit,
        "left out": _left_out,
    }
    lines = [
        Explained(fact.label, fact.text, tuple(equations_of[fact.label](run)))
        for fact in facts(run)
    ]
    lines += [
        Explained(policy_name(policy), "", tuple(_of_policy(run, policy)))
        for policy in run.policies
    ]
    lines += [
        Explained(phase_name(run, limit.phase), "", tuple(_of_phase(run, limit)))
        for limit in sorted(run.limits, key=lambda each: -each.share_of_time)
    ]
    if run.elasticities:
        of_screen = "\n".join(
            fact.text if fact.label == "10 % more" else f"{fact.label.strip()}: {fact.text}"
            for fact in effects(run)
        )
        lines.append(Explained("10 % more", of_screen, tuple(_effects(run))))
    if run.schedule_note:
        lines.append(Explained("note", run.schedule_note, tuple(_schedule(run))))
    lines.append(Explained("trust", "", tuple(_trust(run))))
    return lines


def explanation(run: StoredRun) -> Iterator[Fact]:
    """The explained lines for a terminal; a formula in words is written once."""
    written: set[str] = set()
    for line in explained(run):
        texts = [line.text] if line.text else []
        for equation in line.equations:
            texts.append(equation.text(with_formula=equation.formula not in written))
            written.add(equation.formula)
        label = line.label
        if len(label) >= LABEL_WIDTH:  # a row of a table: its name has a line of its own
            yield Fact(label, "")
            label = ""
        yield Fact(label, "\n".join(texts))


def document(run: StoredRun) -> dict[str, Any]:
    """The explained lines as a JSON document."""
    lines = [
        {
            "label": line.label,
            "text": line.text,
            "equations": [equation._asdict() for equation in line.equations],
        }
        for line in explained(run)
    ]
    return {"design": run.design, "lines": lines}


# ------------------------------------------------------- what was simulated


def _design(run: StoredRun) -> Iterator[Equation]:
    machine = run.spec().machine
    array = machine.array
    yield Equation(
        "MACs per cycle",
        "cores x rows x columns",
        f"{machine.cores} x {array.rows} x {array.cols}",
        value=machine.cores * array.rows * array.cols,
        printed=run.own["macs_per_cycle"],
    )


def _work(run: StoredRun) -> Iterator[Equation]:
    video = run.video
    per_step = run.spec().policy.tokens_per_step
    sample = run.spec().model.sample
    if sample is not None:
        yield _forwards(sample, video.steps)
        return
    yield Equation(
        "decode steps",
        "frames x tokens per frame / tokens per step",
        f"{video.frames} x {video.tokens_per_frame:,} / {per_step}",
        value=video.frames * video.tokens_per_frame / per_step,
        printed=video.steps,
    )


def _forwards(sample: Sample, printed: int) -> Equation:
    """The forwards of a sample.

    Args:
        sample: The sample.
        printed: Forwards that the run has.
    """
    formula = "chunks x forwards of a chunk, or of the whole sample"
    numbers = f"{sample.chunks} x {sample.forwards_per_chunk}"
    value = sample.chunks * sample.forwards_per_chunk
    if sample.in_flight > 1:
        levels = sample.in_flight
        clean = sample.chunks * sample.clean
        formula = "(chunks + levels - 1) x steps / levels + clean forwards"
        numbers = f"({sample.chunks} + {levels} - 1) x {sample.steps} / {levels} + {clean}"
        value = (sample.chunks + levels - 1) * sample.steps // levels + clean
    elif sample.prompts > 1:
        formula = "chunks x forwards of a chunk + those that renew the window"
        numbers = f"{numbers} + {sample.renewed_chunks}"
        value += sample.renewed_chunks
    return Equation("forwards", formula, numbers, value=value, printed=printed)


def _policy(run: StoredRun) -> Iterator[Equation]:
    """The ratio over all steps from that over the steps that may replay.

    Of a network, tokens may decide, of which other shares may replay.
    """
    frames = run.video.frames
    if not run.own.replays or frames < 2 or run.spec().model.sample is not None:
        return
    ratio = run.own["replay_eligible"]
    yield Equation(
        "replay ratio of all steps",
        "ratio after frame 0 x (frames - 1) / frames",
        f"{percent(ratio)} x {frames - 1} / {frames}",
        value=ratio * (frames - 1) / frames,
        printed=run.own["replay_all"],
        unit="share",
    )


def _assumed(run: StoredRun) -> Iterator[Equation]:
    placed = run.spec().machine.placement.weights
    for memory in run.memories:
        if memory.name == placed:
            yield Equation(
                f"bandwidth of {placed}",
                "least of what DRAM and ports sustain / peak",
                f"min({number(memory.dram_gbps)}, {number(memory.port_gbps)}) / "
                f"{number(memory.peak_gbps)} GB/s",
                value=min(memory.dram_gbps, memory.port_gbps) / memory.peak_gbps,
                printed=memory.sustained_gbps / memory.peak_gbps,
                unit="share",
            )


# ------------------------------------------------------------------- answer


def _expected(run: StoredRun) -> Iterator[Equation]:
    """The expected time or speed, and the ends of its interval."""
    peak = _at_peak(run)
    yield peak
    expected = run.expected
    if run.video.kind == "text":
        metric = "expected_tokens_per_s"
        equation_of = _expected_speed
        # The low speed belongs to the high factor on times.
        low_factor = expected.high
        high_factor = expected.low
    else:
        metric = "expected_seconds_per_video"
        equation_of = _expected_time
        low_factor = expected.low
        high_factor = expected.high
    low_metric, high_metric = INTERVALS[metric]
    assert peak.value is not None
    for name, factor, printed in (
        ("expected", expected.factor, metric),
        ("expected, low end", low_factor, low_metric),
        ("expected, high end", high_factor, high_metric),
    ):
        yield equation_of(run, name, factor, peak.value)._replace(printed=run.own[printed])
    interval = f"{LEVEL:.0%} interval: {expected.title}"
    yield Equation("factor", f"published over simulated time, {interval}")


def _expected_time(run: StoredRun, name: str, factor: float, at_peak: float) -> Equation:
    """Seconds per video if the simulated time is multiplied; no less than at peak.

    Stated seconds of text encoder and pixel decoder are not multiplied.
    """
    stated_s = stated_seconds(run)
    simulated_s = run.own["seconds_per_video"] - stated_s
    if stated_s:
        scaled = f"max({number(simulated_s)} x {number(factor)}, {number(at_peak)})"
        return Equation(
            name,
            "max((simulated - stated) x factor, at peak) + stated",
            f"{scaled} + {number(stated_s)}",
            value=max(simulated_s * factor, at_peak) + stated_s,
            unit="s",
        )
    return Equation(
        name,
        "max(simulated x factor, at peak)",
        f"max({number(simulated_s)} x {number(factor)}, {number(at_peak)})",
        value=max(simulated_s * factor, at_peak),
        unit="s",
    )


def _expected_speed(run: StoredRun, name: str, factor: float, at_peak: float) -> Equation:
    """Tokens per second if the simulated time is multiplied; no more than at peak."""
    simulated = run.own["tokens_per_s"]
    return Equation(
        name,
        "min(simulated / factor, at peak)",
        f"min({number(simulated)} / {number(factor)}, {number(at_peak)})",
        value=min(simulated / factor, at_peak),
        unit="tokens/s",
    )


def _at_peak(run: StoredRun) -> Equation:
    """The time or speed if memories and arrays did the work at their peak, whichever is slower.

    Of a text, it is the speed of decoding: the prompt is left out.
    """
    is_text = run.video.kind == "text"
    stages = [stage for stage in run.own.stages if stage.stage == "decoding" or not is_text]
    videos = run.batches * run.videos_per_batch
    clock_ghz = run.spec().board.fabric_clock_mhz / 1000
    macs = run.own["macs_per_cycle"]
    gmacs = fsum(stage.gmacs for stage in stages) / videos
    seconds = [gmacs / (macs * clock_ghz)]
    texts = [f"{number(gmacs)} GMAC / {number(macs * clock_ghz)} GMAC/s"]
    for memory in run.memories:
        gigabytes = fsum(stage.memory_gb.get(memory.name, 0.0) for stage in stages) / videos
        if gigabytes:
            seconds.append(gigabytes / memory.peak_gbps)
            texts.append(f"{number(gigabytes)} GB / {number(memory.peak_gbps)} GB/s")
    slowest = f"max({', '.join(texts)})"
    formula = "max(work / peak rate) over arrays and memories"
    if not is_text:
        return Equation("at peak", formula, slowest, value=max(seconds), unit="s")
    tokens = run.video.steps * run.spec().policy.tokens_per_step
    return Equation(
        "at peak",
        f"new tokens / {formula}",
        f"{tokens:,} / {slowest}",
        value=tokens / max(seconds),
        unit="tokens/s",
    )


def _simulated(run: StoredRun) -> Iterator[Equation]:
    """The simulated time or speed; the first token; the time at the lowest bandwidth."""
    own = run.own
    clock_mhz = run.spec().board.fabric_clock_mhz
    cycles = own.latency_cycles_by_batch or ()
    mean = fsum(cycles) / max(1, len(cycles))
    videos = run.videos_per_batch
    of_batch = Equation(
        "seconds of a batch",
        "mean cycles / clock",
        f"{number(mean)} / {number(clock_mhz)} MHz",
        value=mean / (clock_mhz * 1e6),
        printed=own.latency_s,
        unit="s",
    )
    if run.video.kind == "video":
        yield of_batch
        yield Equation(
            run.named("seconds per video"),
            "seconds of a batch / videos of a batch",
            f"{number(own.latency_s)} / {videos}",
            value=own.latency_s / videos,
            printed=own.seconds_per_video,
            unit="s",
        )
    else:
        yield of_batch
        tokens = run.video.steps * run.spec().policy.tokens_per_step
        prompt_s = own["prefill_s"]
        yield Equation(
            "tokens/s",
            "texts x new tokens / (seconds of a batch - of its prompt)",
            f"{videos} x {tokens:,} / ({number(own.latency_s)} - {number(prompt_s)})",
            value=videos * tokens / (own.latency_s - prompt_s),
            printed=own["tokens_per_s"],
            unit="tokens/s",
        )
        yield Equation("first token", "seconds of the prompt + seconds of the first step")
    if run.bandwidth_interval:
        low, _ = run.bandwidth_interval
        yield Equation(
            "at the lowest bandwidth",
            f"simulated again, {SAMPLED_STEPS} steps evenly spread, all rates x {number(low)}",
        )


def _speedup(run: StoredRun) -> Iterator[Equation]:
    yield _speedup_of(run, run.own)
    ratio = speedup(run)
    if ratio.low != ratio.high:
        yield Equation("its ends", "5 % and 95 % of draws in which both share one bandwidth")


def _speedup_of(run: StoredRun, policy: StoredPolicy) -> Equation:
    """Speed-up of a policy over dense decoding."""
    dense_s = run.dense.latency_s
    policy_s = policy.latency_s
    return Equation(
        "speed-up",
        f"batch of {run.dense.policy} / of this policy, both simulated",
        f"{number(dense_s)} / {number(policy_s)}",
        value=dense_s / policy_s,
        printed=policy["speedup"],
    )


def _end_of_energy(
    run: StoredRun, end: str, joules: Sequence[float], *, printed: float
) -> Equation:
    """The low or high end of joules: the sum of that end of every part."""
    method = f"sum with every constant at its {end} end"
    if run.bandwidth_interval:
        extreme = "highest" if end == "low" else "lowest"
        method += f", and idle power for the time at the {extreme} bandwidth"
    return Equation(
        f"{end} end",
        method,
        " + ".join(map(number, joules)),
        value=fsum(joules),
        printed=printed,
        unit="J",
    )


def _energy(run: StoredRun) -> Iterator[Equation]:
    """Sums over the parts: values, and the low and high ends."""
    metric, per = energy_metric(run)
    low_metric, high_metric = INTERVALS[metric]
    energies = energy_parts(run)
    components = sorted(energies, key=lambda component: -energies[component].value)
    terms = [f"{component} {number(energies[component].value)}" for component in components]
    yield Equation(
        f"J {per}",
        "sum of the parts",
        " + ".join(terms),
        value=fsum(energies[component].value for component in components),
        printed=run.own[metric],
        unit="J",
    )
    low_j = [energies[component].low for component in components]
    yield _end_of_energy(run, "low", low_j, printed=run.own[low_metric])
    high_j = [energies[component].high for component in components]
    yield _end_of_energy(run, "high", high_j, printed=run.own[high_metric])


def _fit(run: StoredRun) -> Iterator[Equation]:
    """Share of each resource that the design takes."""
    for row in run.fit:
        if row.available:
            yield Equation(
                row.what,
                "needed / available",
                f"{number(row.needed)} / {number(row.available)} {row.unit}",
                value=row.needed / row.available,
                printed=row.share,
                unit="share",
            )


def _left_out(run: StoredRun) -> Iterator[Equation]:
    """Time of the head, and what would not fit with it."""
    if not run.head_s:
        return  # the model has none
    with_head_s = run.latency_with_head_s
    without_head_s = run.latency_without_head_s
    difference = f"({number(with_head_s)} - {number(without_head_s)})"
    if run.video.kind == "video":
        yield Equation(
            "head",
            "(seconds of a batch with it - without) / videos",
            f"{difference} / {run.videos_per_batch}",
            value=(with_head_s - without_head_s) / run.videos_per_batch,
            printed=run.head_s / run.videos_per_batch,
            unit="s per video",
        )
    else:
        latency_s = run.own.latency_s
        yield Equation(
            "head",
            "(seconds of a batch with it - without) / seconds of a batch",
            f"{difference} / {number(latency_s)}",
            value=(with_head_s - without_head_s) / latency_s,
            printed=run.head_s / latency_s,
            unit="share",
        )
    for misfit in run.head_misfits:
        yield Equation("with the head", misfit)


# -------------------------------------------------------------------- tables


def _of_policy(run: StoredRun, policy: StoredPolicy) -> Iterator[Equation]:
    """Time or speed of a policy, speed-up, and the memory's share."""
    if policy.is_bound:
        yield Equation(
            "bound",
            "sum over phases of max(compute on balanced cores, bytes / sustained rate), for whole "
            "sequences on these cores; another mapping may be faster",
        )
    if run.video.kind == "video":
        yield Equation(
            "simulated",
            "seconds of a batch / videos of a batch",
            f"{number(policy.latency_s)} / {run.videos_per_batch}",
            value=policy.latency_s / run.videos_per_batch,
            printed=policy.seconds_per_video,
            unit="s",
        )
        yield _speedup_of(run, policy)
    else:
        step_ms = policy["ms_per_token"]
        tokens = run.videos_per_batch * run.spec().policy.tokens_per_step
        yield Equation(
            "simulated",
            "tokens of a step / time of a step",
            f"{tokens} / {number(step_ms)} ms",
            value=tokens / step_ms * 1000,
            printed=policy["tokens_per_s"],
            unit="tokens/s",
        )
    if not policy.is_bound:
        bytes_ms = policy["bandwidth_only_ms"]
        step_ms = policy["ms_per_token"]
        yield Equation(
            "memory busy",
            "time of a step's bytes at the sustained rate / time of a step",
            f"{number(bytes_ms)} / {number(step_ms)} ms",
            value=bytes_ms / step_ms,
            printed=policy["memory_sustained_share"],
            unit="share",
        )


def _of_phase(run: StoredRun, limit: PhaseLimit) -> Iterator[Equation]:
    """Share of a phase, its limit, and what takes over."""
    seconds = run.own.get(f"{limit.phase}_s")
    if isinstance(seconds, float):
        yield Equation(
            "share",
            "seconds of the phase / of a batch; the screen rounds so that shares add up to 100 %",
            f"{number(seconds)} / {number(run.own.latency_s)}",
            value=seconds / run.own.latency_s,
            printed=limit.share_of_time,
            unit="share",
        )
    shares = limit.shares
    texts = ", ".join(f"{name} {percent(share)}" for name, share in shares.items())
    if limit.limited_by != limit.resource:
        texts += f"; most of {limit.resource} are {limit.limited_by}"
    yield Equation("limit", f"largest share of the phase's time: {texts}")
    now = resource_now(run, limit)
    if now is None:
        return
    unit = "MACs per cycle" if limit.resource == "compute" else "GB/s"
    share_now = shares[limit.resource]
    for resource, needed in next_limits(run, limit):
        share_next = shares[resource]
        yield Equation(
            f"{resource} takes over at",
            f"{limit.resource} now x its share / share of {resource}",
            f"{number(now)} x {number(100 * share_now)} % / {number(100 * share_next)} %",
            value=now * share_now / share_next,
            printed=needed,
            unit=unit,
        )


def _effects(run: StoredRun) -> Iterator[Equation]:
    """Changes of the time, and of the prompt alone, scaled to 10 %; those of the screen first."""
    of_prompt = []
    for elasticity in run.elasticities:
        yield _effect(elasticity, elasticity.latency_change_per_10_percent)
        if elasticity.prompt_change_per_10_percent is not None:
            of_prompt.append(elasticity)
    for elasticity in of_prompt:
        assert elasticity.prompt_change_per_10_percent is not None
        yield _effect(elasticity, elasticity.prompt_change_per_10_percent, beginning="prompt: ")


def _effect(elasticity: Elasticity, change_per_10_percent: float, beginning: str = "") -> Equation:
    """The change of a time for 10 % more of a resource, from the enlargement that was simulated.

    Args:
        elasticity: The resource, and by how much it was enlarged.
        change_per_10_percent: Change of the time for 10 % more of it.
        beginning: What the time is of, if not of the whole.
    """
    enlargement = elasticity.enlargement
    simulated = simulated_change(elasticity, change_per_10_percent)
    text = effect_text(elasticity, change_per_10_percent)
    return Equation(
        f"{beginning}{text}, scaled to 10 %",
        "change of the simulated time x 10 % / enlargement",
        f"{signed_percent(simulated, 3)} x 10 % / {percent(enlargement)}",
        value=simulated * 0.1 / enlargement,
        printed=change_per_10_percent,
        unit="change",
    )


def _schedule(run: StoredRun) -> Iterator[Equation]:
    """Gain of the central schedule over the static one, as of the note on schedules."""
    static: StoredPolicy | None = None
    central: StoredPolicy | None = None
    for attention in (run.own.attention, run.dense.attention):
        replaying = [
            policy
            for policy in run.policies
            if policy.replays and not policy.is_bound and policy.attention == attention
        ]
        static = _first_with(replaying, is_central=False)
        central = _first_with(replaying, is_central=True)
        if static is not None and central is not None:
            break
    if static is None or central is None:
        return
    yield Equation(
        "gain",
        f"time of {static.policy} / of {central.policy} - 1",
        f"{number(static.latency_s)} / {number(central.latency_s)} - 1",
        value=static.latency_s / central.latency_s - 1,
        unit="change",
    )


def _first_with(policies: Sequence[StoredPolicy], *, is_central: bool) -> StoredPolicy | None:
    """The first policy whose schedule is central, or is not; None if there is none."""
    for policy in policies:
        if SCHEDULES[policy.schedule].central == is_central:
            return policy
    return None


def _trust(run: StoredRun) -> Iterator[Equation]:
    """How often held-out speeds lay in such intervals, and what no figure says."""
    expected = run.expected
    if expected.tested:
        is_network = run.spec().model.sample is not None
        figures = "times of diffusion on GPUs" if is_network else "decoding speeds"
        yield Equation(
            "coverage",
            f"published {figures} inside / tested, each by an interval from other systems; "
            f"claimed: {LEVEL:.0%}",
            f"{expected.inside:,} / {expected.tested:,}",
            value=expected.inside / expected.tested,
            unit="share",
        )
    if fast_end_is_peak(run):
        yield Equation("fast end", "data-sheet peak: no published row is faster")
    yield Equation("quality", "not predicted: decisions do not tell what a viewer sees")
