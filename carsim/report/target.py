"""A search by target in words: the answer, its proof, the runner-up, and what cheaper ones lack."""

from collections.abc import Iterator

from carsim.base.text import Table, count, number, percent
from carsim.explore.space import CLOCK
from carsim.explore.target import Answer, SizedMachine, Wanted
from carsim.hardware.expected import Expected
from carsim.metrics import METRICS, interval_text
from carsim.report.run_words import Section, on_a_board
from carsim.runs.assumed import assumed_of

PARTS_ALONE = (
    "Prices of chips are of parts at volume: die, package, memory, tests. They leave out design "
    "and masks (some 300 million USD at 7 nm), circuit board, host, margin. Prices of boards are "
    "of a shop, dated (carsim/hardware/technology/data/boards.csv)."
)

LACKED = {"compute": "arrays", "memory": "bandwidth", "port": "bandwidth"}
"""Resources that a limit asks for."""

LARGE_NUMBERS = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"))


def target_sections(wanted: Wanted, answer: Answer) -> Iterator[Section]:
    """Headings and what stands under them, for one screen.

    Args:
        wanted: What was asked for.
        answer: What the search found and proved.
    """
    goal = f"{wanted.target.text} for {wanted.what} of {wanted.model}"
    best = answer.best
    cheaper = [machine for machine in answer.machines if not machine.reaches]
    if best is not None:
        lines = _lines(wanted, best)
        lines.insert(1, assumed_of_machine(best))
        lines.append(_proof(wanted, answer))
        yield f"Least {wanted.minimise} with {goal}: {best.machine}", lines
        reaching = [machine for machine in answer.machines if machine.reaches]
        on_other_boards = [machine for machine in reaching if machine.preset != best.preset]
        for machine in on_other_boards[:1]:
            yield f"Runner-up: {machine.machine}", _lines(wanted, machine)
        most = best.value(wanted.minimise)
        cheaper = [machine for machine in cheaper if machine.value(wanted.minimise) < most]
    elif answer.is_closed:
        yield f"No machine reaches {goal}", [_proof(wanted, answer)]
    else:
        yield f"No machine that was tried reaches {goal}", [_proof(wanted, answer)]
    if cheaper:
        yield _nearest(wanted, cheaper, with_less=best is not None)
    yield "Notes", [f"- {note}" for note in _notes(wanted, answer)]


def assumed_of_machine(tried: SizedMachine) -> str:
    """What is assumed of a machine that was simulated, in one line."""
    return assumed_of(tried.design, decisions=f"decisions {tried.figures['decisions']}")


def _nearest(
    wanted: Wanted, cheaper: list[SizedMachine], *, with_less: bool
) -> tuple[str, list[str | Table]]:
    """The machine that comes nearest to the target, and what it lacks."""
    nearest = max(cheaper, key=wanted.nearness)
    lines = _lines(wanted, nearest)
    if not wanted.target.names & {"cost_usd", "area_mm2"}:  # which no speed would lower
        limit, share = next(iter(nearest.limits.items()))
        lack = LACKED.get(limit, "speed")
        lines.append(f"It lacks {lack}: {limit} is the limit for {percent(share)} of the time.")
    less = f" with less {wanted.minimise}" if with_less else ""
    return f"The fastest tried{less}: {nearest.machine}", lines


def _proof(wanted: Wanted, answer: Answer) -> str:
    """What is proven of the machines that were not simulated."""
    size = _many(answer.size)
    tried = count(answer.simulated, "machine")
    if answer.is_closed:
        ruled_out = "all others" if answer.best else "all"
        return f"Proof: {tried} simulated; bounds rule out {ruled_out} of {size} in the space."
    tried_of_space = f"Best of {tried} tried, of {size} in the space"
    if answer.best is None:
        return (
            f"{tried_of_space}. Bounds do not rule out the others: a machine that reaches the "
            "target may exist."
        )
    if answer.least <= 0:
        return f"{tried_of_space}. Bounds do not rule out a better one."
    least = METRICS[wanted.minimise].text(answer.least)
    return f"{tried_of_space}. Bounds prove that none has {wanted.minimise} below {least}."


def _notes(wanted: Wanted, answer: Answer) -> Iterator[str]:
    """What the reader has to know of all machines."""
    yield from _on_boards(answer)
    best = answer.best
    if best is not None and not answer.is_binding:
        yield "Every machine tried reaches the target: does it ask for enough?"
    if best is not None and best.values[CLOCK] > best.space.fastest_mhz:
        yield (
            f"{number(best.values[CLOCK])} MHz is the clock of published designs; the board's "
            f"file has {number(best.space.fastest_mhz)}. Keep that by "
            f"--axis {CLOCK}={best.space.fastest_mhz:g}."
        )
    yield _precision(answer)
    yield PARTS_ALONE
    for first in answer.machines[:1]:
        yield f"Decisions: {first.figures['decisions']}."
    if answer.unfit and best is None:
        yield f"Nothing that was tried fits {', '.join(sorted(answer.unfit))}."


def _precision(answer: Answer) -> str:
    """The precisions that were allowed, and who chose them."""
    of_file = {space.base.model.bits_in_short for space in answer.spaces if space.bits is None}
    chosen = dict.fromkeys(space.bits for space in answer.spaces if space.bits is not None)
    texts = [f"{bits} (the model file's own)" for bits in sorted(of_file)]
    if not chosen:
        return f"Precision is {texts[0]}."
    texts += [f"W{width}A{max(8, width)}" for width in chosen]
    return f"Precision is {' or '.join(texts)}; what it costs in quality is not known."


def _many(amount: int) -> str:
    """A number of machines, rounded where it is large.

    >>> _many(4000), _many(258_900_000_000)
    ('4,000', '259 billion')
    """
    for scale, name in LARGE_NUMBERS:
        if amount >= scale:
            return f"{number(round(amount / scale, 1), 3)} {name}"
    return f"{amount:,}"


def _on_boards(answer: Answer) -> Iterator[str]:
    """The factor on times that real boards are expected to need, by population of the machines."""
    presets: dict[Expected, list[str]] = {}
    for tried in answer.machines:
        presets.setdefault(tried.design.expected, []).append(tried.preset)
    for expected, boards in presets.items():
        names = f" ({', '.join(dict.fromkeys(boards))})" if len(presets) > 1 else ""
        yield f"{on_a_board(expected)}{names}. A target may name expected_ metrics."


def _lines(wanted: Wanted, tried: SizedMachine) -> list[str | Table]:
    """A machine in a few lines, arithmetic included."""
    design = tried.design
    machine = design.machine
    memory_share = tried.value("memory_utilisation")
    array_share = tried.value("mac_utilisation")
    peak_gbps = tried.gbps
    peak_tmacs = tried.value("macs_per_cycle") * design.board.fabric_clock_mhz / 1e6
    names = [*sorted(wanted.target.names), wanted.minimise]
    names += ["cost_usd", "area_mm2", "average_power_w"]
    known_names = [name for name in dict.fromkeys(names) if tried.figures[name] is not None]
    figures = [f"{name} {interval_text(name, tried.figures.__getitem__)}" for name in known_names]
    limits = ", ".join(f"{limit} {percent(share)}" for limit, share in tried.limits.items())
    prices = ", ".join(f"{price.part} {price.value:.1f}" for price in tried.prices)
    buffers = (
        f"KiB per core: weights {machine.weight_buffer_kib:,}, KV {machine.kv_buffer_kib:,}, "
        f"activations {machine.activation_buffer_kib:,} (tiles of {machine.tile_kib})"
    )
    lanes = count(machine.vector.lanes, "lane")
    if machine.vector.exponentials_per_cycle:
        lanes += f", {count(machine.vector.exponentials_per_cycle, 'exponential')} per cycle"
    lines: list[str | Table] = [
        ", ".join(figures),
        f"{machine.text}, {lanes}, "
        f"{number(design.board.fabric_clock_mhz)} MHz; mapping {machine.mapping}; "
        f"{count(design.policy.batch, 'row')} at once",
        buffers,
        f"memory: {number(memory_share * peak_gbps)} of {number(peak_gbps)} GB/s "
        f"({percent(memory_share)}); arrays: {number(array_share * peak_tmacs)} of "
        f"{number(peak_tmacs)} TMAC/s; limits: {limits}",
    ]
    if prices:
        lines.append(f"USD: {prices}")
    return lines
