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
from carsim.report.ratios import speedup
from carsim.report.run_tables import BOUND, phase_name
from carsim.report.run_words import bandwidths, expected_figure, fullest, misfit_mark
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

OTHERS = 40
"""Characters for the names of the phases that share a line."""

FULL_ONLY = ("busy", "stream_tokens_per_s", "ms_per_token")
"""Headline metrics for which the table of policies has no room."""

FAR = 100
"""A limit that takes over at more times what there is now is not shown."""

NOW_CHARACTERS = 42
"""Characters for what limits a phase now, and next."""

SHORT_RESOURCES = {"memory and port bandwidth": "bandwidth"}
"""Resource -> its name on the screen, where that is shorter."""

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
    above: list[str | Fact] = [] if run.fits else [misfit_mark(run.spec())]
    above += [*facts(run), *(f"warning: {warning}" for warning in run.warnings[:MOST_WARNINGS])]
    of_resources = list(effects(run))
    behind = [*_note(run), trust(run), *next_commands(run, folder)]
    # Besides these: a heading above the policies, and one above the phases.
    left = MOST_LINES - _lines(above) - _lines(behind) - len(run.policies) - 2
    if left - _lines(of_resources) < LEAST_PHASE_LINES:
        of_resources = of_resources[:1]  # carsim explain has those of the prompt
    room = left - _lines(of_resources)
    below = [*of_resources, *behind]
    blanks = min(max(room - FEW_PHASE_LINES, 0), 3)
    phase_lines = min(max(room - blanks, LEAST_PHASE_LINES), MOST_PHASE_LINES)
    yield from above
    yield from [""] * (blanks > 0)
    yield policies(run)
    yield from [""] * (blanks > 1)
    yield limits(run, phase_lines)
    yield from [""] * (blanks > 2)
    yield from below


def _lines(parts: Iterable[str | Fact]) -> int:
    """Lines that texts take on the screen."""
    lines = 0
    for part in parts:
        text = part if isinstance(part, Fact) else Fact("", part)
        label_width = LABEL_WIDTH if isinstance(part, Fact) else 0
        lines += len(text.lines(SCREEN_WIDTH, label_width))
    return lines


def _note(run: StoredRun) -> list[Fact]:
    return [Fact("note", run.schedule_note)] if run.schedule_note else []


def facts(run: StoredRun) -> Iterator[Fact]:
    """What was simulated, and the answer: time, speed-up, energy, fit, and what is left out."""
    yield Fact("design", _design(run))
    yield Fact("work", _work(run))
    yield Fact("policy", _policy(run))
    if run.assumed:
        *clauses, _ = run.assumed.removeprefix("Assumed: ").split("; ")  # the last: decisions
        yield Fact("assumed", "; ".join(clauses))
    yield expected(run)
    yield Fact("simulated", _simulated(run))
    if run.own is not run.dense:
        yield Fact("speed-up", _speedup(run))
    yield Fact("energy", _energy(run))
    yield Fact("fits", _fit(run))
    yield Fact("left out", _left_out(run))


def expected(run: StoredRun) -> Fact:
    """The expected time or speed on a board, with its interval and the population of that."""
    value, unit, interval = expected_figure(run)
    per = run.named(" per video") if run.video.kind == "video" else ""
    return Fact("expected", f"{value} {unit}{per} on a board ({interval})")


def policies(run: StoredRun) -> Table:
    """The policies, each with a bar of its simulated time or speed; ``*`` marks the design's."""
    name, columns = _columns(run)
    most = max(policy[name] for policy in run.policies)
    rows = []
    for policy in run.policies:
        bar = text_bar(policy[name] / most, BAR_CHARACTERS)
        figures = (_cell(policy, column) for column in columns)
        rows.append((policy_name(policy), bar, *figures))
    strong = frozenset(i for i, policy in enumerate(run.policies) if policy.is_chosen)
    unit = "new tokens/s" if run.video.kind == "text" else run.named("seconds per video")
    headings = (unit, "", *columns.values())
    return Table(headings, tuple(rows), text_columns=2, strong=strong, compact=True)


def policy_name(policy: StoredPolicy) -> str:
    """Name of a policy in the table, short enough for it.

    The bound is one over schedules: another mapping of work to cores may be faster.
    """
    if policy.is_bound:
        return BOUND
    name = re.sub(" attention(?=,|$)", "", policy.policy)
    return name + " *" * policy.is_chosen


def limits(run: StoredRun, most_lines: int = MOST_PHASE_LINES) -> Table:
    """Where the time goes, what limits it now, and where that would change; adds up to 100 %.

    Args:
        run: The run.
        most_lines: Lines of phases, the longest first; all others share the last one.
    """
    shown = sorted(run.limits, key=lambda limit: -limit.share_of_time)
    others: list[PhaseLimit] = []
    if len(shown) > most_lines:
        others = shown[most_lines - 1 :]
        shown = shown[: most_lines - 1]
    rows = [
        (phase_name(run, each.phase), each.limited_by, now_and_next(run, each)) for each in shown
    ]
    shares = [each.share_of_time for each in shown]
    if others:
        names = ", ".join(phase_name(run, each.phase) for each in others)
        names = shortened(names.replace(" projection", ""), OTHERS)
        kinds = {each.limited_by for each in others}
        limit = kinds.pop() if len(kinds) == 1 else "several"
        rows.append((count(len(others), "other"), limit, names))
        shares.append(fsum(each.share_of_time for each in others))
    cells = (Figure(text, share) for text, share in zip(adding_up(shares), shares, strict=True))
    table_rows = tuple((*row, cell) for row, cell in zip(rows, cells, strict=True))
    article = "an" if run.made == "image" else "a"
    headings = (f"time of {article} {run.made}", "limit", "now; next limits", "share")
    return Table(headings, table_rows, text_columns=3, compact=True)


def now_and_next(run: StoredRun, limit: PhaseLimit) -> str:
    """What the limiting resource gives now, and at how much of it another limit takes over."""
    if limit.limited_by in ("exponentials", "elements"):
        return "vector lanes of the cores"
    now = resource_now(run, limit)
    if now is None:
        return "latency, dispatch and waits"
    if limit.limited_by in ("exponentials", "elements"):
        return "rate of the vector unit"
    unit = "MACs" if limit.resource == "compute" else "GB/s"
    text = f"{number(now, 3)} {unit}"
    joint = "; "
    for name, at in next_limits(run, limit):
        longer = f"{text}{joint}{name} at {number(at, 3)}"
        if len(longer) > NOW_CHARACTERS or at > FAR * now:
            break  # carsim explain has all
        text = longer
        joint = ", "
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
    shares = limit.shares
    own_share = shares.pop(limit.resource)
    found = []
    while shares:
        name = max(shares, key=lambda each: shares[each])
        share = shares.pop(name)
        if share <= 0:
            break
        found.append((name, now * own_share / share))
        if not {name, limit.resource} <= {"memory", "port"}:
            break
    return found


def adding_up(shares: Sequence[float]) -> list[str]:
    """Shares of a whole as percentages that add up to 100.0 %.

    Those that lose most by rounding down are rounded up.

    >>> adding_up([1 / 3, 1 / 3, 1 / 3])
    ['33.4 %', '33.3 %', '33.3 %']
    """
    whole = round(1000 * fsum(shares))
    floors = [int(1000 * share) for share in shares]
    by_loss = sorted(range(len(shares)), key=lambda i: floors[i] - 1000 * shares[i])
    for place in by_loss[: whole - sum(floors)]:
        floors[place] += 1
    return [percent(each / 1000) for each in floors]


def effects(run: StoredRun) -> Iterator[Fact]:
    """What 10 % more of each resource brings: for the whole, and for the prompt alone.

    For a text, the whole is its new tokens. A resource that grows in larger steps is named with
    the step.
    """
    if not run.elasticities:
        return
    changes = [(each, each.latency_change_per_10_percent) for each in run.elasticities]
    of = "new tokens: " if run.video.kind == "text" else ""
    yield Fact("10 % more", f"{of}{_changes(changes)}")
    of_prompt = [
        (each, each.prompt_change_per_10_percent)
        for each in run.elasticities
        if each.prompt_change_per_10_percent is not None
    ]
    if of_prompt:
        yield Fact("  prompt", _changes(of_prompt))


def trust(run: StoredRun) -> Fact:
    """How far the figures can be trusted, in one line."""
    tested, inside = run.expected.tested, run.expected.inside
    if run.spec().model.sample is not None:
        held = f"{inside:,} of {tested:,} held-out times of GPUs lie in such intervals"
        if "; none " in run.expected.title:
            held += "; none was tested on such a board"
        return Fact("trust", f"{held}; no claim on quality")
    held = f"{inside:,} of {tested:,} held-out speeds lie in such intervals; " if tested else ""
    return Fact("trust", f"{held}no claim on quality")


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
    named = [file for option, file in pairwise(words) if option == "--plugin"]
    files = named if words else list(run.manifest.plugins)
    return "".join(f" --plugin {shlex.quote(file)}" for file in files)


def _design(run: StoredRun) -> str:
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
    label, source = own.decisions, own.decisions_source
    decisions = label if source in label else f"{source}, {label}"
    ratio = own.text("replay_eligible")
    population = "after frame 0" if run.spec().model.sample is None else "that may reuse outputs"
    return f"{own.policy}; {ratio} of the decisions {population} replay; {decisions}"


def _simulated(run: StoredRun) -> str:
    """Time or speed of the hardware alone, at the modelled and at the lowest bandwidth."""
    own = run.own
    if run.video.kind == "text":
        streams = ""
        if run.videos_per_batch > 1:
            of_stream = own.text("stream_tokens_per_s")
            streams = f" ({count(run.videos_per_batch, 'stream')} of {of_stream})"
        text = f"{own.text('tokens_per_s')} new tokens/s{streams}, {run.result}"
    else:
        text = run.named(f"{own.text('seconds_per_video')} s per video, {run.result}")
        if run.videos_per_batch > 1:
            videos = count(run.videos_per_batch, run.made)
            text = f"{number(own.latency_s)} s for {videos} at once, {text}"
        if run.is_network and run.made == "video":
            text += f"; {own.text('frames_per_s')} frames/s, first frame after "
            text += f"{own.text('first_frame_s')} s"
    if slowest := _slowest(run):
        middle, boards = bandwidths(run)
        at_middle = f" at the {middle} bandwidth" if middle != "modelled" else ""
        text += f"{at_middle}; {slowest} at the lowest bandwidth measured on {boards}"
    if run.video.kind == "text":
        texts = "the whole text" if run.videos_per_batch == 1 else "all texts"
        text += f"; first token after {own.text('first_token_s')} s, {texts} after "
        text += f"{number(own.latency_s)} s"
    return text


def _slowest(run: StoredRun, least_change: float = 0.0) -> str:
    """Time or speed at the lowest bandwidth; empty where it is that of the modelled one.

    Args:
        run: The run.
        least_change: A change by this share or less is none.
    """
    name, unit, end = "seconds_per_video", "s", 1
    if run.video.kind == "text":
        name, unit, end = "tokens_per_s", "tokens/s", 0
    at_lowest = INTERVALS[name][end]
    slowest = run.own.text(at_lowest)
    if not run.bandwidth_interval or slowest == run.own.text(name):
        return ""
    if abs(run.own[at_lowest] / run.own[name] - 1) <= least_change:
        return ""
    return f"{slowest} {unit}"


def _speedup(run: StoredRun) -> str:
    """Speed-up over dense decoding, with the times of that on both clocks."""
    value, low, high, _ = speedup(run)
    first, text, last = (f"{each:.3f}" for each in (low, value, high))
    ends = "" if first == last else f" ({first} to {last})"
    dense = run.dense
    name, unit, whole = "seconds_per_video", "s", ""
    if run.video.kind == "text":
        name, unit, whole = "tokens_per_s", "tokens/s", ", whole texts compared"
    of_dense = f"simulated {dense.text(name)}, expected {dense.text(f'expected_{name}')} {unit}"
    return f"{text}{ends} times {dense.policy} ({of_dense}){whole}"


def _energy(run: StoredRun) -> str:
    """Joules per video or token in the simulated time, with their interval.

    At the high end, idle power is drawn for the time at the lowest bandwidth.
    """
    name, per = energy_metric(run)
    low, high = map(run.own.text, INTERVALS[name])
    slowest = _slowest(run, least_change=SAME_TIME)
    at_high = f"; high end at {slowest}" if slowest else ""
    ends = "" if low == high else f" ({low} to {high}{at_high})"
    return f"{run.own.text(name)} J {per}, simulated{ends}"


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
    texts = [f"yes; {what} {percent(share)} full" for what, share in fullest(run)[:1]] or ["yes"]
    if not run.fits:
        texts = [f"no: {'; '.join(run.misfits[:MOST_WARNINGS])}"]
    if run.own.get("cost_usd") is not None:
        of = "of parts" if run.own.get("area_mm2") is not None else "in a shop"
        texts.append(f"{interval_text('cost_usd', run.own.get)} USD {of}")
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
        has_stated_times = bool(sample.encoder_s or sample.decoder_s)
        around = around_network(model)
        return f"nothing; the stated {around} are included" if has_stated_times else around
    pixels = "tokenizer"
    amount = f"{percent(run.head_s / run.own.latency_s)} of the time"
    if run.video.kind == "video":
        pixels = "pixel decoding"
        amount = f"{number(run.head_s / run.videos_per_batch)} s per video"
    if run.head_included:
        return f"{pixels}; the head is included ({amount})"
    misfit = ", but it does not fit" if run.head_misfits else ""
    return f"the head (+{amount}{misfit}), {pixels}"


def _columns(run: StoredRun) -> tuple[str, dict[str, str]]:
    """Metric of the bars; metrics of the table of policies with their headings.

    A headline metric from outside has a column, too.
    """
    of_bars = "seconds_per_video"
    columns = {
        "expected_seconds_per_video": "expected",
        "seconds_per_video": "simulated",
        "speedup": "speed-up",
        "energy_per_video_j": "joules",
    }
    if run.video.kind == "text":
        of_bars = "tokens_per_s"
        columns = {
            "expected_tokens_per_s": "expected",
            "tokens_per_s": "simulated",
            "first_token_s": "first [s]",
            "energy_per_token_j": "J/token",
        }
    columns["memory_sustained_share"] = "memory busy"
    for metric in headline(run.video.kind):
        if metric.name not in (*columns, *FULL_ONLY):
            columns[metric.name] = metric.short or metric.heading
    return of_bars, columns


def _cell(policy: StoredPolicy, name: str) -> Figure:
    """A figure of a policy; a bound is expected on no board."""
    if policy.is_bound and name.startswith("expected_"):
        return Figure("-", None)
    return Figure(policy.text(name), _value(policy, name))


def _value(policy: StoredPolicy, name: str) -> float | None:
    value = policy.get(name)
    return None if isinstance(value, str) else value


def _changes(changes: Sequence[tuple[Elasticity, float]]) -> str:
    """Changes of a time by resource, the largest first, and the resources that change nothing."""
    texts = []
    without = []
    simulated = [(each, change * each.enlargement / 0.1) for each, change in changes]
    for each, change in sorted(simulated, key=lambda change: change[1]):
        name = SHORT_RESOURCES.get(each.resource, each.resource)
        text = signed_percent(change, digits=1)
        if text == signed_percent(0.0, digits=1):
            without.append(name)
        elif abs(each.enlargement - 0.1) > STEP:
            texts.append(f"{each.simulated} {text}")
        else:
            texts.append(f"{name} {text}")
    buffers = [name for name in without if name.endswith(" buffer")]
    if len(buffers) == N_BUFFERS:
        without = [*(name for name in without if name not in buffers), "buffers"]
    lists = [", ".join(texts)] if texts else []
    if without:
        lists.append(f"{', '.join(without)} {percent(0.0)}")
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
