"""The first screen of a run: at most 40 lines of 80 columns.

Its order: what was simulated; the expected time with its interval, then that of the hardware alone;
speed-up, energy, fit; what is left out; the policies; where the time goes, and what limits it; what
10 % more of each resource brings; what dynamic scheduling gains; how far to trust it; the next
commands.

One unit per screen: seconds and joules of a video, or tokens per second and joules per token of a
text. :mod:`carsim.report.explain` has the formula of every line.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from math import fsum

from carsim.account.elasticity import Elasticity
from carsim.account.limits import PhaseLimit
from carsim.base.text import (
    LABEL_WIDTH,
    SCREEN_WIDTH,
    Fact,
    Figure,
    Table,
    count,
    number,
    percent,
    shortened,
    signed_percent,
    text_bar,
)
from carsim.metrics import INTERVALS, headline, interval_text
from carsim.report.notes import unlike_published
from carsim.report.ratios import speedup
from carsim.report.run_tables import BOUND, phase_name
from carsim.report.run_words import (
    bandwidths,
    expected_figure,
    fullest,
    misfit_mark,
    population,
)
from carsim.report.stored import StoredEnergyPart, StoredPolicy, StoredRun
from carsim.workload.model import Model
from carsim.workload.network import DiffusionTransformer

MOST_LINES = 40
"""Lines of the screen at 80 columns."""

MOST_PHASE_LINES = 6
"""Lines of phases, if there is room for them; the shortest phases share the last one."""

FEW_PHASE_LINES = 3
"""Lines of phases that come before blank lines."""

LEAST_PHASE_LINES = 2
"""Lines of phases at least: the longest, and all others."""

MOST_WARNINGS = 4
"""Warnings, and misfits, that are printed."""

BAR_CHARACTERS = 8
"""Characters of the longest bar of a policy."""

SHARED_LINE_CHARACTERS = 40
"""Characters for the names of the phases that share a line."""

FULL_ONLY = ("busy", "stream_tokens_per_s", "ms_per_token")
"""Headline metrics for which the table of policies has no room."""

FAR = 100
"""A limit that takes over at more times what there is now is not shown."""

NOW_CHARACTERS = 42
"""Characters for what limits a phase now, and next."""

SHORT_RESOURCES = {"memory and port bandwidth": "bandwidth"}
"""Resource -> its name on the screen, where that is shorter."""

NO_CHANGE = signed_percent(0.0, digits=1)
"""A change of a time that rounds to none."""

SAME_TIME = 0.01
"""A time that differs by a smaller share at the lowest bandwidth does not explain joules."""

STEP = 0.02
"""An enlargement that differs from 10 % by more is named with its step."""

N_BUFFERS = 3
"""Buffers of a core: of weights, keys and values, and activations."""

FIRST = "first"
"""Folder that the suggested command writes."""

COMMAND_WIDTH = 68
"""Columns of a suggested command."""

Part = str | Table | Fact


def first_screen(run: StoredRun, folder: str | None = None) -> Iterator[Part]:
    """Lines and tables of the screen.

    Args:
        run: The run.
        folder: Folder in which it is stored; None for none.
    """
    above: list[str | Fact] = []
    if not run.fits:
        above.append(misfit_mark(run.spec()))
    above += facts(run)
    above += [f"warning: {warning}" for warning in run.warnings[:MOST_WARNINGS]]
    below = [*_note(run), trust(run), *next_commands(run, folder)]
    resource_effects = list(effects(run))
    policy_lines = 1 + len(run.policies)  # with their heading
    phase_headings = 1
    free = MOST_LINES - _lines(above) - policy_lines - phase_headings - _lines(below)
    if free - _lines(resource_effects) < LEAST_PHASE_LINES:
        resource_effects = resource_effects[:1]  # carsim explain has those of the prompt
    free -= _lines(resource_effects)
    # A few phases come first, then blank lines between the tables, then further phases.
    blank_lines = min(max(free - FEW_PHASE_LINES, 0), 3)
    phase_lines = min(max(free - blank_lines, LEAST_PHASE_LINES), MOST_PHASE_LINES)
    yield from above
    if blank_lines > 0:
        yield ""
    yield policies(run)
    if blank_lines > 1:
        yield ""
    yield limits(run, phase_lines)
    if blank_lines > 2:
        yield ""
    yield from resource_effects
    yield from below


def _lines(parts: Iterable[str | Fact]) -> int:
    """Lines that texts take on the screen."""
    lines = 0
    for part in parts:
        if isinstance(part, Fact):
            lines += len(part.lines(SCREEN_WIDTH, LABEL_WIDTH))
        else:
            lines += len(Fact("", part).lines(SCREEN_WIDTH, 0))
    return lines


def _note(run: StoredRun) -> list[Fact]:
    """The note on the schedule, if the run has one."""
    return [Fact("note", run.schedule_note)] if run.schedule_note else []


def facts(run: StoredRun) -> Iterator[Fact]:
    """What was simulated, and the answer: time, speed-up, energy, fit, and what is left out."""
    yield Fact("design", _design(run))
    yield Fact("work", _work(run))
    yield Fact("policy", _policy(run))
    if run.assumed:
        clauses = run.assumed.removeprefix("Assumed: ").split("; ")
        without_decisions = clauses[:-1]  # the line of the policy has the decisions
        yield Fact("assumed", "; ".join(without_decisions))
    yield expected(run)
    yield Fact("simulated", _simulated(run))
    if run.own is not run.dense:
        yield Fact("speed-up", _speedup(run))
    yield Fact("energy", _energy(run))
    yield Fact("fits", _fit(run))
    yield Fact("left out", _left_out(run))


def expected(run: StoredRun) -> Fact:
    """The expected time or speed on a board, with its interval and the population of that.

    A video that is decoded has its frames per second, too; those of a network are simulated.
    """
    value, unit, interval = expected_figure(run)
    per = run.named(" per video") if run.video.kind == "video" else ""
    if run.video.kind == "video" and not run.is_network:
        per += f", {run.own.text('expected_frames_per_s')} frames/s,"
    return Fact("expected", f"{value} {unit}{per} on a board ({interval})")


def policies(run: StoredRun) -> Table:
    """The policies, each with a bar of its simulated time or speed; ``*`` marks the design's."""
    bar_metric, heading_of_metric = _columns(run)
    longest = max(policy[bar_metric] for policy in run.policies)
    rows: list[tuple[str, ...]] = []
    own_rows = []
    for index, policy in enumerate(run.policies):
        bar = text_bar(policy[bar_metric] / longest, BAR_CHARACTERS)
        figures = [_cell(policy, metric) for metric in heading_of_metric]
        rows.append((policy_name(policy), bar, *figures))
        if policy.is_chosen:
            own_rows.append(index)
    unit = "new tokens/s" if run.video.kind == "text" else run.named("seconds per video")
    return Table(
        (unit, "", *heading_of_metric.values()),
        tuple(rows),
        text_columns=2,
        strong=frozenset(own_rows),
        compact=True,
    )


def policy_name(policy: StoredPolicy) -> str:
    """Name of a policy in the table, short enough for it.

    The bound is one over schedules: another mapping of work to cores may be faster.
    """
    if policy.is_bound:
        return BOUND
    name = re.sub(" attention(?=,|$)", "", policy.policy)
    return f"{name} *" if policy.is_chosen else name


def limits(run: StoredRun, most_lines: int = MOST_PHASE_LINES) -> Table:
    """Where the time goes, what limits it now, and where that would change; adds up to 100 %.

    Args:
        run: The run.
        most_lines: Lines of phases, the longest first; all others share the last one.
    """
    phases = sorted(run.limits, key=lambda limit: -limit.share_of_time)
    shorter: list[PhaseLimit] = []
    if len(phases) > most_lines:
        shorter = phases[most_lines - 1 :]
        phases = phases[: most_lines - 1]
    texts = []
    shares = []
    for phase in phases:
        texts.append((phase_name(run, phase.phase), phase.limited_by, now_and_next(run, phase)))
        shares.append(phase.share_of_time)
    if shorter:
        texts.append(_texts_of_shorter(run, shorter))
        shares.append(fsum(phase.share_of_time for phase in shorter))
    rows = []
    for row_texts, percentage, share in zip(texts, adding_up(shares), shares, strict=True):
        rows.append((*row_texts, Figure(percentage, share)))
    article = "an" if run.made == "image" else "a"
    headings = (f"time of {article} {run.made}", "limit", "now; next limits", "share")
    return Table(headings, tuple(rows), text_columns=3, compact=True)


def _texts_of_shorter(run: StoredRun, phases: Sequence[PhaseLimit]) -> tuple[str, str, str]:
    """The line that the shortest phases share: how many, their limit, and their names."""
    names = ", ".join(phase_name(run, phase.phase) for phase in phases)
    names = shortened(names.replace(" projection", ""), SHARED_LINE_CHARACTERS)
    kinds = {phase.limited_by for phase in phases}
    limit = kinds.pop() if len(kinds) == 1 else "several"
    return count(len(phases), "other"), limit, names


def now_and_next(run: StoredRun, limit: PhaseLimit) -> str:
    """What the limiting resource gives now, and at how much of it another limit takes over."""
    if limit.limited_by in ("exponentials", "elements"):
        return "vector lanes of the cores"
    now = resource_now(run, limit)
    if now is None:
        return "latency, dispatch and waits"
    unit = "MACs" if limit.resource == "compute" else "GB/s"
    text = f"{number(now, 3)} {unit}"
    separator = "; "
    for next_limit, needed in next_limits(run, limit):
        longer = f"{text}{separator}{next_limit} at {number(needed, 3)}"
        if len(longer) > NOW_CHARACTERS or needed > FAR * now:
            break  # carsim explain has all
        text = longer
        separator = ", "
    return text


def resource_now(run: StoredRun, limit: PhaseLimit) -> float | None:
    """GB/s, or MACs per cycle, of the resource that limits a phase; None of a dependency.

    GB/s are those at which the bytes of the phase take as long as they do, over all memories.
    """
    if limit.resource == "dependency" or limit.flip_gbps is None:
        return None
    if limit.resource == "compute":
        return run.own["macs_per_cycle"]
    # flip_gbps is bytes over the time of compute.
    return limit.flip_gbps * limit.compute_share / limit.shares[limit.resource]


def next_limits(run: StoredRun, limit: PhaseLimit) -> list[tuple[str, float]]:
    """Limits that take over as the limiting resource grows, each with the resource needed.

    Everything else stays. If ports limit a phase, the memory behind them takes over first, and
    after it, if it grows with them, another limit.
    """
    now = resource_now(run, limit)
    if now is None:
        return []
    share_of_resource = limit.shares
    limiting_share = share_of_resource.pop(limit.resource)
    largest_first = sorted(share_of_resource.items(), key=lambda item: -item[1])
    limits_and_needs = []
    for resource, share in largest_first:
        if share <= 0:
            break
        limits_and_needs.append((resource, now * limiting_share / share))
        grow_together = {resource, limit.resource} <= {"memory", "port"}
        if not grow_together:
            break
    return limits_and_needs


def adding_up(shares: Sequence[float]) -> list[str]:
    """Shares of a whole as percentages that add up to 100.0 %.

    All are rounded down to tenths of a percent first. Those that lose most by this are then
    rounded up, as many as are needed.

    >>> adding_up([1 / 3, 1 / 3, 1 / 3])
    ['33.4 %', '33.3 %', '33.3 %']
    """
    total = round(1000 * fsum(shares))
    permille = [int(1000 * share) for share in shares]
    missing = total - sum(permille)
    by_loss = sorted(range(len(shares)), key=lambda index: permille[index] - 1000 * shares[index])
    for index in by_loss[:missing]:
        permille[index] += 1
    return [percent(thousandths / 1000) for thousandths in permille]


def effects(run: StoredRun) -> Iterator[Fact]:
    """What 10 % more of each resource brings: for the whole, and for the prompt alone.

    For a text, the whole is its new tokens. A resource that grows in larger steps is named with
    the step.
    """
    if not run.elasticities:
        return
    changes = []
    prompt_changes = []
    for elasticity in run.elasticities:
        changes.append((elasticity, elasticity.latency_change_per_10_percent))
        prompt_change = elasticity.prompt_change_per_10_percent
        if prompt_change is not None:
            prompt_changes.append((elasticity, prompt_change))
    beginning = "new tokens: " if run.video.kind == "text" else ""
    yield Fact("10 % more", f"{beginning}{_changes(changes)}")
    # The prompt of a network is the embedding of a text, which takes next to no time.
    if prompt_changes and not run.is_network:
        yield Fact("  prompt", _changes(prompt_changes))


def trust(run: StoredRun) -> Fact:
    """How far the figures can be trusted, in one line."""
    inside = run.expected.inside
    tested = run.expected.tested
    text = "no claim on quality"
    if run.spec().model.sample is not None:
        coverage = f"{inside:,} of {tested:,} held-out times of GPUs lie in such intervals"
        if "; none is " in run.expected.title:
            coverage += "; none was tested on such a board"
        elif "; none " in run.expected.title:
            coverage += "; none was tested of such a design"
        if differences := unlike_published(run.spec()):
            coverage += f"; all have 16 bits and dense attention, not {differences}"
        return Fact("trust", f"{coverage}; {text}")
    if tested:
        text = f"{inside:,} of {tested:,} held-out speeds lie in such intervals; {text}"
    return Fact("trust", text)


def next_commands(run: StoredRun, folder: str | None) -> Iterator[Fact]:
    """The next three commands; none of a run from Python that is not stored."""
    if folder is None and not run.manifest.command:
        return
    name = shlex.quote(folder or FIRST)
    plugins = _plugin_options(run)
    commands = [f"carsim explain {name}{plugins}", f"carsim report {name}{plugins}"]
    if folder is None:
        commands.insert(0, f"{run.manifest.command} --out {name}")
    else:
        commands.append(f"carsim run {name}{plugins}")
    lines = "\n".join(_continued(command) for command in commands)
    yield Fact("next", lines)


# -------------------------------------------------------------------- private


def _plugin_options(run: StoredRun) -> str:
    """Options that load the plugins of a run: as its command names them, else by their names."""
    words = shlex.split(run.manifest.command)
    if words:
        files = [file for option, file in pairwise(words) if option == "--plugin"]
    else:
        files = list(run.manifest.plugins)
    return "".join(f" --plugin {shlex.quote(file)}" for file in files)


def _design(run: StoredRun) -> str:
    """Design, board with its clock, and machine."""
    design = run.spec()
    machine = design.machine
    clock = f"{number(design.board.fabric_clock_mhz)} MHz"
    return f"{run.design} on {design.board.name} at {clock}: {machine.text}"


def _work(run: StoredRun) -> str:
    """Model, sample, video or text, and how many at once."""
    video = run.video
    model = run.spec().model
    name = model.name
    if model.sample is not None:
        passes = count(model.sample.passes, "row")
        return f"{name}: {model.sample.in_words} of {passes}"
    tokens = count(video.tokens_per_frame, "token")
    if video.kind == "video":
        tokens = f"{count(video.frames, 'frame')} of {tokens}"
    at_once = f"{count(run.videos_per_batch, video.kind)} at once"
    if run.sequences_per_batch != run.videos_per_batch:
        at_once += f" in {count(run.sequences_per_batch, 'sequence')}"
    mean = f", mean of {count(run.batches, 'batch', 'batches')}" if run.batches > 1 else ""
    return f"{name}: {tokens} after a prompt of {video.prompt_tokens:,}; {at_once}{mean}"


def _policy(run: StoredRun) -> str:
    """The design's own policy, its replay ratio with its population, and the decisions' source."""
    own = run.own
    if not own.replays:
        return f"{own.policy}; nothing replays"
    decisions = own.decisions
    if own.decisions_source not in decisions:
        decisions = f"{own.decisions_source}, {decisions}"
    ratio = own.text("replay_eligible")
    return f"{own.policy}; {ratio} of the decisions {population(run)} replay; {decisions}"


def _simulated(run: StoredRun) -> str:
    """Time or speed of the hardware alone, at the modelled and at the lowest bandwidth."""
    is_text = run.video.kind == "text"
    text = _simulated_speed(run) if is_text else _simulated_time(run)
    slowest = _slowest(run)
    if slowest:
        middle, boards = bandwidths(run)
        if middle != "modelled":
            text += f" at the {middle} bandwidth"
        text += f"; {slowest} at the lowest bandwidth measured on {boards}"
    if is_text:
        texts = "the whole text" if run.videos_per_batch == 1 else "all texts"
        first_token = f"first token after {run.own.text('first_token_s')} s"
        text += f"; {first_token}, {texts} after {number(run.own.latency_s)} s"
    return text


def _simulated_speed(run: StoredRun) -> str:
    """Tokens per second of all streams of a text, and of one stream if there are several."""
    streams = ""
    if run.videos_per_batch > 1:
        stream_speed = run.own.text("stream_tokens_per_s")
        streams = f" ({count(run.videos_per_batch, 'stream')} of {stream_speed})"
    return f"{run.own.text('tokens_per_s')} new tokens/s{streams}, {run.result}"


def _simulated_time(run: StoredRun) -> str:
    """Seconds per video; those of a batch of several, and frames per second of a network."""
    own = run.own
    text = run.named(f"{own.text('seconds_per_video')} s per video, {run.result}")
    if run.videos_per_batch > 1:
        videos = count(run.videos_per_batch, run.made)
        text = f"{number(own.latency_s)} s for {videos} at once, {text}"
    if run.is_network and run.made == "video":
        first_frame = f"first frame after {own.text('first_frame_s')} s"
        text += f"; {own.text('frames_per_s')} frames/s, {first_frame}"
    return text


def _slowest(run: StoredRun, least_change: float = 0.0) -> str:
    """Time or speed at the lowest bandwidth; empty where it is that of the modelled one.

    Args:
        run: The run.
        least_change: A change by this share or less is none.
    """
    if run.video.kind == "text":
        metric = "tokens_per_s"
        unit = "tokens/s"
        at_lowest, _ = INTERVALS[metric]  # the lowest speed
    else:
        metric = "seconds_per_video"
        unit = "s"
        _, at_lowest = INTERVALS[metric]  # the longest time
    slowest = run.own.text(at_lowest)
    if not run.bandwidth_interval or slowest == run.own.text(metric):
        return ""
    if abs(run.own[at_lowest] / run.own[metric] - 1) <= least_change:
        return ""
    return f"{slowest} {unit}"


def _speedup(run: StoredRun) -> str:
    """Speed-up over dense decoding, with the times of that on both clocks."""
    ratio = speedup(run)
    value = f"{ratio.value:.3f}"
    low = f"{ratio.low:.3f}"
    high = f"{ratio.high:.3f}"
    interval = "" if low == high else f" ({low} to {high})"
    dense = run.dense
    if run.video.kind == "text":
        metric = "tokens_per_s"
        unit = "tokens/s"
        compared = ", whole texts compared"
    else:
        metric = "seconds_per_video"
        unit = "s"
        compared = ""
    simulated = f"simulated {dense.text(metric)}"
    expected = f"expected {dense.text(f'expected_{metric}')}"
    return f"{value}{interval} times {dense.policy} ({simulated}, {expected} {unit}){compared}"


def _energy(run: StoredRun) -> str:
    """Joules per video or token in the simulated time, with their interval.

    At the high end, idle power is drawn for the time at the lowest bandwidth.
    """
    metric, per = energy_metric(run)
    low_metric, high_metric = INTERVALS[metric]
    low = run.own.text(low_metric)
    high = run.own.text(high_metric)
    text = f"{run.own.text(metric)} J {per}, simulated"
    if low == high:
        return text
    slowest = _slowest(run, least_change=SAME_TIME)
    at_high = f"; high end at {slowest}" if slowest else ""
    return f"{text} ({low} to {high}{at_high})"


def energy_metric(run: StoredRun) -> tuple[str, str]:
    """The metric of energy of the screen, and its denominator in words."""
    if run.video.kind == "text":
        return "energy_per_token_j", "per new token"
    return "energy_per_video_j", run.named("per video")


def energy_parts(run: StoredRun) -> dict[str, StoredEnergyPart]:
    """Joules by component that sum up to :func:`energy_metric`."""
    own = run.own
    if run.video.kind == "text":
        return own.energy_parts_per_token_j or own.energy_parts_per_video_j
    return own.energy_parts_per_video_j


def _fit(run: StoredRun) -> str:
    """The fullest resource, or what is missing; the price."""
    texts = []
    if run.fits:
        texts.append("yes")
        for resource, share in fullest(run)[:1]:
            texts.append(f"{resource} {percent(share)} full")
    else:
        texts.append(f"no: {'; '.join(run.misfits[:MOST_WARNINGS])}")
    if run.own.get("cost_usd") is not None:
        # Of a chip of the design, which has an area, the price is that of its parts.
        price = "of parts" if run.own.get("area_mm2") is not None else "in a shop"
        texts.append(f"{interval_text('cost_usd', run.own.get)} USD {price}")
    return "; ".join(texts)


def around_network(model: Model) -> str:
    """What stands before and behind a network, and is stated or left out."""
    network = model.network
    if not isinstance(network, DiffusionTransformer):
        return "reading and resizing of the picture"
    return "pixel decoder" if network.text == "none" else "text encoder and pixel decoder"


def _left_out(run: StoredRun) -> str:
    """What the figures leave out; seconds are those of the screen's unit."""
    model = run.spec().model
    sample = model.sample
    if sample is not None:
        around = around_network(model)
        if sample.encoder_s or sample.decoder_s:
            return f"nothing; the stated {around} are included"
        return around
    if run.video.kind == "video":
        left_out = "pixel decoding"
        head_time = f"{number(run.head_s / run.videos_per_batch)} s per video"
    else:
        left_out = "tokenizer"
        head_time = f"{percent(run.head_s / run.own.latency_s)} of the time"
    if run.head_included:
        return f"{left_out}; the head is included ({head_time})"
    misfit = ", but it does not fit" if run.head_misfits else ""
    return f"the head (+{head_time}{misfit}), {left_out}"


def _columns(run: StoredRun) -> tuple[str, dict[str, str]]:
    """Metric of the bars; metrics of the table of policies with their headings.

    A headline metric from outside has a column, too.
    """
    if run.video.kind == "text":
        bar_metric = "tokens_per_s"
        columns = {
            "expected_tokens_per_s": "expected",
            "tokens_per_s": "simulated",
            "first_token_s": "first [s]",
            "energy_per_token_j": "J/token",
        }
    else:
        bar_metric = "seconds_per_video"
        columns = {
            "expected_seconds_per_video": "expected",
            "seconds_per_video": "simulated",
            "speedup": "speed-up",
            "energy_per_video_j": "joules",
        }
    columns["memory_sustained_share"] = "memory busy"
    for metric in headline(run.video.kind):
        if metric.name not in columns and metric.name not in FULL_ONLY:
            columns[metric.name] = metric.short or metric.heading
    return bar_metric, columns


def _cell(policy: StoredPolicy, name: str) -> Figure:
    """A figure of a policy; a bound is expected on no board."""
    if policy.is_bound and name.startswith("expected_"):
        return Figure("-", None)
    value = policy.get(name)
    return Figure(policy.text(name), None if isinstance(value, str) else value)


def effect_text(elasticity: Elasticity, change_per_10_percent: float) -> str:
    """The change of a time that was simulated, with the name of its resource or of its step.

    A resource that cannot grow by about a tenth is named with its step.

    >>> three_cores = Elasticity("cores", -0.05, simulated="2 to 3 cores", enlargement=0.5)
    >>> effect_text(three_cores, -0.05)
    '2 to 3 cores -25.0 %'

    Args:
        elasticity: The resource, and by how much it was enlarged.
        change_per_10_percent: Change of the time for 10 % more of it.
    """
    name = SHORT_RESOURCES.get(elasticity.resource, elasticity.resource)
    change = signed_percent(simulated_change(elasticity, change_per_10_percent), digits=1)
    if change == NO_CHANGE:
        return f"{name} {percent(0.0)}"
    if abs(elasticity.enlargement - 0.1) <= STEP:
        return f"{name} {change}"
    # Buffers count in KiB, which does not say which of them grows.
    grows = f"{name} " if name.endswith(" buffer") else ""
    return f"{grows}{elasticity.simulated} {change}"


def simulated_change(elasticity: Elasticity, change_per_10_percent: float) -> float:
    """The change of a time that was simulated, for the whole enlargement of a resource.

    Args:
        elasticity: The resource, and by how much it was enlarged.
        change_per_10_percent: Change of the time for 10 % more of it.
    """
    return change_per_10_percent * elasticity.enlargement / 0.1


def _changes(changes: Sequence[tuple[Elasticity, float]]) -> str:
    """Changes of a time by resource, the largest first, and the resources that change nothing.

    Args:
        changes: A resource, and the change of the time for 10 % more of it, each.
    """
    texts = []
    without_effect = []
    simulated = []
    for elasticity, change_per_10_percent in changes:
        change = simulated_change(elasticity, change_per_10_percent)
        text = effect_text(elasticity, change_per_10_percent)
        simulated.append((change, elasticity, text))
    simulated.sort(key=lambda change_and_text: change_and_text[0])
    for change, elasticity, text in simulated:
        if signed_percent(change, digits=1) == NO_CHANGE:
            without_effect.append(SHORT_RESOURCES.get(elasticity.resource, elasticity.resource))
        else:
            texts.append(text)
    buffers = [name for name in without_effect if name.endswith(" buffer")]
    if len(buffers) == N_BUFFERS:
        without_effect = [name for name in without_effect if name not in buffers]
        without_effect.append("buffers")
    lists = []
    if texts:
        lists.append(", ".join(texts))
    if without_effect:
        lists.append(f"{', '.join(without_effect)} {percent(0.0)}")
    return "; ".join(lists)


def _continued(command: str) -> str:
    """A command in lines that a shell takes as one."""
    lines = [""]
    for word in map(shlex.quote, shlex.split(command)):
        longer = f"{lines[-1]} {word}".strip()
        if len(longer) > COMMAND_WIDTH - 2 and lines[-1]:
            lines.append(word)
        else:
            lines[-1] = longer
    # The space before a line end that the shell ignores is no place to break a line.
    return "\u00a0\\\n".join(lines)
