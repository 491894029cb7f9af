"""A search by target in words: the answer, the runner-up, and what cheaper machines lack."""

from collections.abc import Iterator, Sequence

from carsim.base.text import Table, count, number, percent
from carsim.explore.target import SizedMachine, Wanted
from carsim.hardware.expected import expected_of
from carsim.metrics import INTERVALS, interval_text
from carsim.report.run_words import coverage

PARTS_ALONE = (
    "Prices of chips are of parts at volume: die, package, memory, tests. They leave out design "
    "and masks (some 300 million USD at 7 nm), circuit board, host, margin. Prices of boards are "
    "of a shop, dated (carsim/hardware/technology/data/boards.csv)."
)


def target_sections(
    wanted: Wanted, tried: Sequence[SizedMachine]
) -> Iterator[tuple[str, list[str | Table]]]:
    """Headings and what stands under them, for one screen.

    Args:
        wanted: What was asked for.
        tried: Machines, as :func:`carsim.explore.target.search_target` gives them.
    """
    what = f"{wanted.target.text} for {wanted.what} of {wanted.model}"
    reached, other = [each for each in tried if each.reaches], None
    if reached:
        best = reached[0]
        yield f"Least {wanted.minimise} with {what}: {best.machine}", _lines(wanted, best)
        other = next((each for each in reached if each.preset != best.preset), None)
        if other is not None:
            yield f"Runner-up: {other.machine}", _lines(wanted, other)
    else:
        yield f"No machine reaches {what}", []
    cheaper = [
        each
        for each in tried
        if not each.reaches
        and (not reached or each.value(wanted.minimise) < best.value(wanted.minimise))
    ]
    if cheaper:
        nearest = max(cheaper, key=wanted.nearness)
        less = "that costs less" if wanted.minimise == "cost_usd" else f"in less {wanted.minimise}"
        title = f"The fastest {less}" if reached else "The fastest"
        lines = _lines(wanted, nearest)
        if not wanted.target.names & {"cost_usd", "area_mm2"}:  # which no speed would lower
            lines.append(f"It lacks {lack(nearest)}.")
        yield f"{title}: {nearest.machine}", lines
    precision = f"{count(len(tried), 'machine')} looked at, in W4A8 with 8-bit keys and values; "
    notes = [f"{precision}quality not known.", PARTS_ALONE]
    if tried:
        decisions = f"Decisions: {tried[0].figures['decisions']}."
        notes = [_on_a_board(tried[0]), *notes, decisions]
    unfit = set(wanted.presets) - {each.preset for each in tried}
    if unfit and not reached:
        notes.append(f"Nothing fits {', '.join(sorted(unfit))}.")
    if reached and other is not None and _overlap(wanted.minimise, best, other):
        notes.insert(
            0, "The intervals of answer and runner-up overlap: their order may be another."
        )
    yield "Notes", [f"- {note}" for note in notes]


def _on_a_board(tried: SizedMachine) -> str:
    """The factor on these times that a real board is expected to need."""
    known = expected_of(tried.design.machine.overheads)
    low, high = (number(factor) for factor in known.ends)
    return (
        f"Times and rates are hardware bounds. Expect {number(known.factor)} times the time on a "
        f"board ({low} to {high}: {coverage(known.systems)}): ask for a "
        "rate so much higher."
    )


def _overlap(name: str, best: SizedMachine, other: SizedMachine) -> bool:
    """The worst of the answer is worse than the best of the other."""
    ends = INTERVALS.get(name)
    return ends is not None and best.value(ends[1]) > other.value(ends[0])


def lack(tried: SizedMachine) -> str:
    """The limit that keeps a machine from the target."""
    limit, share = next(iter(tried.limits.items()))
    if limit == "compute":
        return f"arrays: compute is {percent(share)} of the time"
    used = tried.value("memory_utilisation")
    if limit in ("memory", "port"):
        rate = f"{number(used * tried.gbps)} of {number(tried.gbps)} GB/s are used"
        return f"bandwidth: the {limit} is the limit for {percent(share)} of the time, {rate}"
    return f"speed: {limit} is the limit for {percent(share)} of the time"


def _lines(wanted: Wanted, tried: SizedMachine) -> list[str | Table]:
    """A machine in four lines, arithmetic included."""
    used, gbps = tried.value("memory_utilisation"), tried.gbps
    peak = tried.value("macs_per_cycle") * tried.design.board.fabric_clock_mhz * 1e6
    names = [*sorted(wanted.target.names), wanted.minimise, "cost_usd", "area_mm2"]
    shown = dict.fromkeys([*names, "average_power_w"])
    figures = ", ".join(
        f"{name} {interval_text(name, tried.figures.__getitem__)}"
        for name in shown
        if tried.figures[name] is not None
    )
    limits = ", ".join(f"{limit} {percent(share)}" for limit, share in tried.limits.items())
    stream = "text" if tried.figures["frames_per_s"] is None else "video"
    lines = [
        figures,
        f"{count(tried.design.policy.batch, 'row')} at once; {tried.design.machine.text}; "
        f"limits: {limits}",
        f"memory: {number(used * gbps)} of {number(gbps)} GB/s ({percent(used)}), "
        f"{number(tried.value('memory_gb_per_video'))} GB a {stream}; arrays: "
        f"{number(tried.value('mac_utilisation') * peak / 1e12)} of {number(peak / 1e12)} TMAC/s",
    ]
    if len(tried.prices) > 1:
        parts = ", ".join(f"{price.part} {price.value:.1f}" for price in tried.prices)
        lines.append(f"USD: {parts}")
    return list(lines)
