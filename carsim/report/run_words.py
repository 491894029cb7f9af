"""A run in words: what terminal and page print, and the sentences that the studio shares."""

from collections.abc import Iterator, Sequence

from carsim.base.text import Table, number
from carsim.design import Design
from carsim.hardware.expected import Expected
from carsim.metrics import INTERVALS, METRICS
from carsim.report import run_tables as tables
from carsim.report.stored import StoredPolicy, StoredRun

SAME = 0.005
"""Policies whose times differ by less than this share count as equally fast."""

Section = tuple[str, Sequence[str | Table]]
"""A heading and the parts below it."""


def more_sections(run: StoredRun) -> Iterator[Section]:
    """Everything else that is known of a run."""
    yield "What was simulated", [Table(("", ""), tuple(tables.asked(run)), text_columns=2)]
    choices = list(advice(run))
    if choices:
        yield "Which policy to choose", choices
    yield "All metrics, means over batches", [tables.metrics_table(run), *tables.labels(run)]
    yield f"Where the time of {run.own.policy} goes", [tables.breakdown_table(run)]
    limits: list[str | Table] = [tables.limits_table(run), tables.limits_note(run), _roofline(run)]
    yield "What limits each phase", limits
    yield "What the memories carry", [tables.memories_table(run), tables.memories_note()]
    yield "What 10 % more of a resource would bring", [tables.elasticities_table(run)]
    yield f"What the {run.spec().board.name} holds", [tables.fit_table(run), *tables.held(run)]
    yield "Where the energy goes", [tables.energy_table(run)]
    yield "Notes", [f"- {note}" for note in run.notes]


def misfit_mark(design: Design) -> str:
    """The line that marks every output of a design that does not fit."""
    return f"MISFIT: {design.name} does not fit {design.board.name}"


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
        f"{_timed(policy)} if you accept {_approximations(run, policy)}"
        for policy in (fastest, _simplest(run, run.own))
        if policy.seconds_per_video < (1 - SAME) * dense.seconds_per_video
    ]
    texts = list(dict.fromkeys([*texts, f"{_timed(dense)} otherwise"]))
    yield f"Choose {'; '.join(texts)}."


def _simplest(run: StoredRun, kind: StoredPolicy) -> StoredPolicy:
    """The first policy as fast as any with the same attention and decisions."""
    same_quality = [
        policy
        for policy in run.policies
        if not policy.is_bound
        and policy.replays == kind.replays
        and policy.attention == kind.attention
    ]
    fastest_s = min(policy.seconds_per_video for policy in same_quality)
    most_s = (1 + SAME) * fastest_s
    return next(policy for policy in same_quality if policy.seconds_per_video <= most_s)


def expected_figure(run: StoredRun) -> tuple[str, str, str]:
    """The expected headline: figure, unit, and its interval with the population in words.

    It is seconds per video, or tokens per second of all streams of a text.

    Raises:
        InputError: The run was stored by a carsim that expected nothing of single policies.
    """
    if run.video.kind == "text":
        metric = "expected_tokens_per_s"
        unit = "tokens/s"
    else:
        metric = "expected_seconds_per_video"
        unit = "s"
    low_metric, high_metric = INTERVALS[metric]
    value = METRICS[metric].text(run.own[metric])
    low = METRICS[low_metric].text(run.own[low_metric])
    high = METRICS[high_metric].text(run.own[high_metric])
    interval = f"{low} to {high} {unit}: 90 % interval from {run.expected.title}"
    if fast_end_is_peak(run):
        interval += "; its fast end is the data-sheet peak"
    return value, unit, interval


def fast_end_is_peak(run: StoredRun) -> bool:
    """The fast end of the expected interval is the peak of memories and arrays.

    The interval of published systems would reach to shorter times, which no board can have.
    """
    if run.video.kind == "text":
        from_published = run.own["tokens_per_s"] / run.expected.low
        return run.own["expected_tokens_per_s_high"] < from_published * (1 - 1e-9)
    stated_s = stated_seconds(run)
    simulated_s = run.own["seconds_per_video"] - stated_s
    from_published = simulated_s * run.expected.low + stated_s
    return run.own["expected_seconds_per_video_low"] > from_published * (1 + 1e-9)


def stated_seconds(run: StoredRun) -> float:
    """Seconds per video that a sample states of its text encoder and pixel decoder."""
    sample = run.spec().model.sample
    return 0.0 if sample is None else sample.stated_s / run.videos_per_batch


def on_a_board(known: Expected) -> str:
    """The factor on times that a real board is expected to need."""
    low = number(known.low)
    high = number(known.high)
    return (
        f"Metrics whose names lack expected_ are as simulated. On a board, expect "
        f"{number(known.factor)} times the time ({low}, or the peak of memories and arrays, to "
        f"{high}: 90 % interval from {known.title})"
    )


def _timed(policy: StoredPolicy) -> str:
    """A policy with its time."""
    return f"{policy.policy} ({policy.text('seconds_per_video')} s)"


def population(run: StoredRun) -> str:
    """The decisions of which a share replays, in words."""
    return "after frame 0" if run.spec().model.sample is None else "that may reuse outputs"


def _approximations(run: StoredRun, policy: StoredPolicy) -> str:
    """What a policy of a run leaves out of the computation, in words."""
    approximations = []
    if policy.replays:
        ratio = policy.text("replay_eligible")
        approximations.append(f"replay of {ratio} of the decisions {population(run)}")
    if policy.attention != run.dense.attention:
        approximations.append(f"{policy.attention['kind']} attention")
    return " and ".join(approximations) or "it"


def bandwidths(run: StoredRun) -> tuple[str, str]:
    """The bandwidth behind a time, and the boards on which its interval was measured, in words."""
    design = run.spec()
    weights = design.board.memories[design.machine.placement.weights]
    if weights.measured_efficiency is None:
        return "modelled", "such boards"
    return "middle measured", "this board"


def _roofline(run: StoredRun) -> str:
    """A decode step if its bytes or its products alone took time."""
    policy = run.own
    return (
        f"Roofline: a decode step of all sequences takes {policy.text('ms_per_token')} ms. Its "
        f"{policy.text('step_gb')} GB alone would take {policy.text('bandwidth_only_ms')} ms, its "
        f"{policy.text('step_gmacs')} GMACs alone {policy.text('compute_only_ms')} ms."
    )


def fullest(run: StoredRun) -> list[tuple[str, float]]:
    """Resources of board and memories by their share in use, buffers left out: they may be full."""
    shares = []
    for row in run.fit:
        is_buffer = row.unit == "B" and not row.what.startswith("memory ")
        if row.available and not is_buffer:
            shares.append((row.what, row.share))
    shares.sort(key=lambda resource_and_share: resource_and_share[::-1], reverse=True)
    return shares
