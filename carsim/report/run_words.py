"""A run in words: what terminal and page print, and the sentences that the studio shares."""

from collections.abc import Iterator, Sequence
from math import fsum

from carsim.base.text import Table, count, number, percent, signed_percent
from carsim.design import Design
from carsim.hardware.expected import Expected
from carsim.metrics import INTERVALS, interval_text
from carsim.report import run_tables as tables
from carsim.report.ratios import speedup
from carsim.report.stored import StoredPolicy, StoredRun

MOST_LINES = 4
"""Phases, parts of energy, resources and misfits that the short output lists."""

SAME = 0.005
"""Policies whose times differ by less than this share count as equally fast."""

Section = tuple[str, Sequence[str | Table]]
"""A heading and the parts below it."""


def short_sections(run: StoredRun) -> Iterator[Section]:
    """Answer, policies, limits, fit, energy and origin of a run, in at most 45 lines."""
    design = run.spec()
    mark = "" if run.fits else " - MISFIT"
    yield "" if run.fits else misfit_mark(design), [" ".join(answer(run))]
    table = tables.policies_table(run)
    yield f"Policies on {run.design}{mark}", [table, _kind_of_result(run), *advice(run)]
    table = tables.limits_table(run, most=MOST_LINES)
    yield "What limits the design", [table, _roofline(run), *_best_resource(run)]
    rest = [*_fit_in_words(run), _energy_in_words(run), _origin(run)]
    yield f"Does it fit {design.board.name}?{mark}", rest


def more_sections(run: StoredRun) -> Iterator[Section]:
    """Everything else that is known of a run."""
    yield "What was simulated", [Table(("", ""), tuple(tables.asked(run)), text_columns=2)]
    yield "All metrics, means over batches", [tables.metrics_table(run), *tables.labels(run)]
    yield f"Where the time of {run.own.policy} goes", [tables.breakdown_table(run)]
    yield "What limits each phase", [tables.limits_table(run), tables.limits_note(run)]
    yield "What 10 % more of a resource would bring", [tables.elasticities_table(run)]
    yield f"What the {run.spec().board.name} holds", [tables.fit_table(run), *tables.held(run)]
    yield "Where the energy goes", [tables.energy_table(run)]
    yield "Notes", [f"- {note}" for note in run.notes]


def misfit_mark(design: Design) -> str:
    """The line that marks every output of a design that does not fit."""
    return f"MISFIT: {design.name} does not fit {design.board.name}"


def answer(run: StoredRun) -> Iterator[str]:
    """The main results in three sentences; one more for a text without the head."""
    own, dense = run.own, run.dense
    faster = "" if own is dense else f"{_speedup(run)} times as fast as {dense.policy}"
    if run.video.kind == "video":
        yield f"{own.policy} takes {_seconds(run)}."
        faster = faster and f"is {faster} ({dense.text('seconds_per_video')} s) and "
        yield f"It {faster}uses {_joules(own, 'energy_per_video_j')} per {run.video.kind}."
        yield _head(run)
        return
    streams = f"{count(run.videos_per_batch, 'stream')} of {own.text('stream_tokens_per_s')}"
    yield (
        f"{own.policy} decodes {own.text('tokens_per_s')} tokens/s ({streams}), "
        f"{own.text('ms_per_token')} ms per step{faster and ', '}{faster}."
    )
    prompt = count(run.video.prompt_tokens, "token")
    yield (
        f"The first token comes after {own.text('first_token_s')} s, of which the prompt of "
        f"{prompt} takes {own.text('prefill_s')} s."
    )
    seconds = number(own.latency_s)
    yield f"A token uses {_joules(own, 'energy_per_token_j')}; the batch takes {seconds} s."
    if not run.head_included:
        yield _head(run)


def advice(run: StoredRun) -> Iterator[str]:
    """The policy to choose and its condition, if decisions to replay are compared.

    Policies with the same attention and decisions have the same quality: of these, the first in
    the table that is within :data:`SAME` of the fastest is named.
    """
    dense = run.dense
    picks = [_simplest(run, policy) for policy in run.policies if not policy.is_bound]
    if not any(policy.replays for policy in picks):
        return
    fastest = min(picks, key=lambda policy: policy.seconds_per_video)
    texts = [
        f"{_timed(policy)} if you accept {_approximations(policy, dense)}"
        for policy in (fastest, _simplest(run, run.own))
        if policy.seconds_per_video < (1 - SAME) * dense.seconds_per_video
    ]
    texts = list(dict.fromkeys([*texts, f"{_timed(dense)} otherwise"]))
    yield f"Choose {'; '.join(texts)}."


def _simplest(run: StoredRun, kind: StoredPolicy) -> StoredPolicy:
    """The first policy as fast as any with the same attention and decisions."""
    own = [policy for policy in run.policies if not policy.is_bound]
    wanted = (kind.replays, kind.attention)
    alike = [policy for policy in own if (policy.replays, policy.attention) == wanted]
    most_s = (1 + SAME) * min(policy.seconds_per_video for policy in alike)
    return next(policy for policy in alike if policy.seconds_per_video <= most_s)


def _kind_of_result(run: StoredRun) -> str:
    text = f"Times: {run.result}{_expected(run)}."
    if run.own.replays:
        label, source = run.own.decisions, run.own.decisions_source
        text += f" Decisions: {label if source in label else f'{source}, {label}'}."
    return text


def _expected(run: StoredRun) -> str:
    """Seconds expected on a real board, with their interval from published systems."""
    known, unit = run.expected, "s"
    figures = [each * run.own.seconds_per_video for each in (known.factor, known.low, known.high)]
    if run.video.kind == "text":
        unit, speed = "tokens/s", run.own["stream_tokens_per_s"]
        figures = [speed / each for each in (known.factor, known.high, known.low)]
    value, low, high = map(number, figures)
    return (
        f"; expect {value} {unit} on a board ({low} to {high} {unit}: {coverage(known.systems)}, "
        f"{known.title})"
    )


def on_a_board(known: Expected) -> str:
    """The factor on times that a real board is expected to need."""
    low, high = map(number, known.ends)
    return (
        f"Times and rates are hardware bounds. Expect {number(known.factor)} times the time on a "
        f"board ({low} to {high}: {coverage(known.systems)})"
    )


def coverage(systems: int) -> str:
    """The meaning of an interval of times on boards."""
    return f"90 % interval of {systems} published systems"


def _timed(policy: StoredPolicy) -> str:
    return f"{policy.policy} ({policy.text('seconds_per_video')} s)"


def _approximations(policy: StoredPolicy, dense: StoredPolicy) -> str:
    parts = [f"replay of {policy.text('replay_eligible')}"] * policy.replays
    parts += [f"{policy.attention['kind']} attention"] * (policy.attention != dense.attention)
    return " and ".join(parts) or "it"


def _seconds(run: StoredRun) -> str:
    """Seconds per video at the modelled bandwidth and at the lowest measured one."""
    own = run.own
    text = f"{own.text('seconds_per_video')} s per {run.video.kind}"
    if run.videos_per_batch > 1:
        text += f" ({own.text('latency_s')} s for {run.videos_per_batch} videos at once)"
    slowest = own.text(INTERVALS["seconds_per_video"][1])
    if run.bandwidth_interval and slowest != own.text("seconds_per_video"):
        text += f" at the modelled bandwidth; {slowest} s at the lowest one measured on such boards"
    return text


def _joules(own: StoredPolicy, metric: str) -> str:
    low, high = map(own.text, INTERVALS[metric])
    ends = "" if low == high else f" ({low} to {high} J over the ranges of all energy constants)"
    return f"{own.text(metric)} J{ends}"


def _head(run: StoredRun) -> str:
    does, other, seconds = "leave out", "with", run.latency_with_head_s
    if run.head_included:
        does, other, seconds = "include", "without", run.latency_without_head_s
    pixels = " Neither includes pixel decoding." if run.video.kind == "video" else ""
    return f"These figures {does} the head ({number(seconds)} s per batch {other} it).{pixels}"


def _speedup(run: StoredRun) -> str:
    """Speed-up of the own policy, with its range if bandwidths have one."""
    value, low, high, _ = speedup(run)
    first, text, last = (f"{each:.3f}" for each in (low, value, high))
    return text if first == last else f"{text} ({first} to {last})"


def _roofline(run: StoredRun) -> str:
    """A decode step if its bytes or its products alone took time."""
    own = run.own
    return (
        f"Roofline: step {own.text('ms_per_token')} ms; {own.text('step_gb')} GB alone "
        f"{own.text('bandwidth_only_ms')} ms, {own.text('step_gmacs')} GMACs alone "
        f"{own.text('compute_only_ms')} ms."
    )


def _best_resource(run: StoredRun) -> Iterator[str]:
    for most in sorted(run.elasticities, key=lambda each: each.latency_change_per_10_percent)[:1]:
        change = signed_percent(most.latency_change_per_10_percent)
        yield f"Most effective: 10 % more of {most.resource} ({tables.timed(run)} {change})."


def fullest(run: StoredRun) -> list[tuple[str, float]]:
    """Resources of board and memories by their share in use, buffers left out: they may be full."""
    shares = [
        (row.what, row.share)
        for row in run.fit
        if row.available and (row.unit != "B" or row.what.startswith("memory "))
    ]
    return sorted(shares, key=lambda each: (each[1], each[0]), reverse=True)


def _fit_in_words(run: StoredRun) -> Iterator[str]:
    """The fullest resources; or what is missing."""
    if run.fits:
        parts = [f"{what} {percent(share)}" for what, share in fullest(run)[:MOST_LINES]]
        yield f"Yes: {', '.join(parts)}."
    else:
        yield from (f"- {misfit}" for misfit in run.misfits[:MOST_LINES])
    if run.own.get("cost_usd") is not None:
        chip = run.own.get("area_mm2") is not None
        area = f" of parts, {interval_text('area_mm2', run.own.get)} mm2" if chip else " in a shop"
        yield f"Price: {interval_text('cost_usd', run.own.get)} USD{area}."
    yield from (f"warning: {warning}" for warning in run.warnings[:MOST_LINES])


def _energy_in_words(run: StoredRun) -> str:
    parts = {name: part.value for name, part in run.own.energy_parts_per_video_j.items()}
    total = fsum(parts.values())
    largest = sorted(parts.items(), key=lambda part: -part[1])[:MOST_LINES]
    texts = [f"{name} {number(value)} J ({value / total:.0%})" for name, value in largest]
    return f"Energy by part: {', '.join(texts)}."


def _origin(run: StoredRun) -> str:
    text = f"{run.design} ({run.design_sha256[:7]})"
    if not run.is_stated:
        traces = (f"{each.name.partition(':')[0]} ({each.sha256[:7]})" for each in run.traces)
        text += f" on {', '.join(traces)}"
    return f"{text}, {run.fidelity}, carsim {run.carsim_version}"
