"""A search by target in words: the answer, the runner-up, and what cheaper machines lack."""

from collections.abc import Iterator, Sequence

from carsim.base.text import Table, count, number, percent
from carsim.explore.target import SizedMachine, Wanted
from carsim.hardware.expected import expected_of
from carsim.metrics import interval_text
from carsim.report.run_words import Section, on_a_board

PARTS_ALONE = (
    "Prices of chips are of parts at volume: die, package, memory, tests. They leave out design "
    "and masks (some 300 million USD at 7 nm), circuit board, host, margin. Prices of boards are "
    "of a shop, dated (carsim/hardware/technology/data/boards.csv)."
)

LACKED = {"compute": "arrays", "memory": "bandwidth", "port": "bandwidth"}
"""Resources that a limit asks for."""


def target_sections(wanted: Wanted, tried: Sequence[SizedMachine]) -> Iterator[Section]:
    """Headings and what stands under them, for one screen.

    Args:
        wanted: What was asked for.
        tried: Machines, as :func:`carsim.explore.target.search_target` gives them.
    """
    what = f"{wanted.target.text} for {wanted.what} of {wanted.model}"
    reached = [each for each in tried if each.reaches]
    cheaper = [each for each in tried if not each.reaches]
    if reached:
        best = reached[0]
        yield f"Least {wanted.minimise} with {what}: {best.machine}", _lines(wanted, best)
        for other in [each for each in reached if each.preset != best.preset][:1]:
            yield f"Runner-up: {other.machine}", _lines(wanted, other)
        most = best.value(wanted.minimise)
        cheaper = [each for each in cheaper if each.value(wanted.minimise) < most]
    else:
        yield f"No machine reaches {what}", []
    if cheaper:
        nearest = max(cheaper, key=wanted.nearness)
        lines = _lines(wanted, nearest)
        if not wanted.target.names & {"cost_usd", "area_mm2"}:  # which no speed would lower
            limit, share = next(iter(nearest.limits.items()))
            lack = LACKED.get(limit, "speed")
            lines.append(f"It lacks {lack}: {limit} is the limit for {percent(share)} of the time.")
        with_less = f" with less {wanted.minimise}" if reached else ""
        yield f"The fastest{with_less}: {nearest.machine}", lines
    notes = [
        *map(_on_a_board, tried[:1]),
        f"{count(len(tried), 'machine')} looked at, in W4A8 with 8-bit keys and values; quality "
        "not known.",
        PARTS_ALONE,
        *(f"Decisions: {each.figures['decisions']}." for each in tried[:1]),
    ]
    unfit = set(wanted.presets) - {each.preset for each in tried}
    if unfit and not reached:
        notes.append(f"Nothing fits {', '.join(sorted(unfit))}.")
    yield "Notes", [f"- {note}" for note in notes]


def _on_a_board(tried: SizedMachine) -> str:
    """The factor on these times that a real board is expected to need."""
    known = on_a_board(expected_of(tried.design.machine.overheads))
    return f"{known}: ask for a rate so much higher."


def _lines(wanted: Wanted, tried: SizedMachine) -> list[str | Table]:
    """A machine in four lines, arithmetic included."""
    used, busy, gbps = *map(tried.value, ("memory_utilisation", "mac_utilisation")), tried.gbps
    peak = tried.value("macs_per_cycle") * tried.design.board.fabric_clock_mhz / 1e6
    names = [*sorted(wanted.target.names), wanted.minimise, "cost_usd", "area_mm2"]
    figures = ", ".join(
        f"{name} {interval_text(name, tried.figures.__getitem__)}"
        for name in dict.fromkeys([*names, "average_power_w"])
        if tried.figures[name] is not None
    )
    limits = ", ".join(f"{limit} {percent(share)}" for limit, share in tried.limits.items())
    prices = ", ".join(f"{price.part} {price.value:.1f}" for price in tried.prices)
    return [
        figures,
        f"{count(tried.design.policy.batch, 'row')} at once; {tried.design.machine.text}; "
        f"limits: {limits}",
        f"memory: {number(used * gbps)} of {number(gbps)} GB/s ({percent(used)}); arrays: "
        f"{number(busy * peak)} of {number(peak)} TMAC/s",
        *([f"USD: {prices}"] if prices else []),
    ]
