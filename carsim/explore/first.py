"""A first design for a model on a board: what ``carsim config new`` writes.

Model: a design decodes plain text (:mod:`carsim.runs.decode`): no replay, no prefill, head
included, one mean step over a range of contexts. A climb from the smallest design changes one of
:data:`FIELDS` at a time to the best of its values, until none helps; buffers hold at least what
they must, placement is the board's. Two goals:

* ``fastest``: of the designs that fit and are within 1 % of the most tokens a second, the one with
  the least energy a token;
* ``least-energy``: of those that reach a given rate, the one with the least energy a token.

What a precision costs in quality is not known here: ``bits`` keeps to one.

Simplifications: a climb may end beside the best of all (on 28 wishes its design has from 4.2 % less
to 0.7 % more tokens a second than the best of 120 that Optuna's TPE drew); a step's energy is that
of the board at its own speed; clocks are the board's; of equals, the first is taken.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from carsim.base.errors import InputError
from carsim.base.text import count, span
from carsim.base.units import KIB
from carsim.cost.fit import FitReport, buffer_rows, check_fit
from carsim.design import Design, design_of, preset_board
from carsim.design.document import yaml_text
from carsim.hardware.mapping import MAPPINGS
from carsim.hardware.technology.base import amount
from carsim.runs.decode import Decode, decode
from carsim.workload.geometry import Video

SAME_SPEED = 0.99
"""Share of the best speed from which a design counts as the fastest."""

_SCALED = {"group": 128, "scale_bits": 16, "zero_bits": 0}
_PLAIN = {"group": None, "scale_bits": 0, "zero_bits": 0}

PRECISIONS: Mapping[int, tuple[str, Mapping[str, Any]]] = {
    4: ("int4x8", {"weights": {"bits": 4, **_SCALED}, "kv": {"bits": 8, **_PLAIN}}),
    8: ("int8", {"weights": {"bits": 8, **_PLAIN}, "kv": {"bits": 8, **_PLAIN}}),
    16: ("fp16", {"weights": {"bits": 16, **_PLAIN}, "kv": {"bits": 16, **_PLAIN}}),
}
"""Bits of a weight -> arithmetic and stored formats of published accelerators: W4A8, W8A8, FP16."""

FIELDS: tuple[tuple[Mapping[str, Any], ...], ...] = (
    tuple({"bits": bits} for bits in PRECISIONS),
    tuple({"array": size} for size in ((16, 16), (32, 16), (32, 32), (64, 32))),
    tuple({"cores": cores, "mapping": kind} for cores in (2, 4, 8) for kind in MAPPINGS),
    tuple({"lanes": lanes} for lanes in (16, 32)),
    tuple({"weight_buffer_kib": kib} for kib in (256, 512)),
    ({"kv_buffer_kib": 256},),
)
"""What a climb tries instead of what is chosen, in this order: fields of :class:`Choice`."""


class Choice(NamedTuple):
    """What is chosen of a design, at first the smallest: bits of a weight, and its machine."""

    bits: int = 4
    array: tuple[int, int] = (16, 8)
    cores: int = 1
    mapping: str = next(iter(MAPPINGS))
    lanes: int = 8
    weight_buffer_kib: int = 128
    kv_buffer_kib: int = 128


@dataclass(frozen=True)
class Wish:
    """What is asked for.

    Attributes:
        board: Preset of the board.
        model: Preset of the model.
        goal: What to optimise.
        tokens_per_s: Rate to reach, all sequences together; 0 for none.
        batch: Sequences at a time.
        contexts: Tokens that the first and the last step attend to.
        bits: Bits of a weight; None chooses the precision, too.
    """

    board: str
    model: str
    goal: Literal["fastest", "least-energy"] = "fastest"
    tokens_per_s: float = 0.0
    batch: int = 1
    contexts: tuple[int, int] = (1, 512)
    bits: int | None = None

    def __str__(self) -> str:
        return f"`board` {self.board} `model` {self.model}"


class Tried(NamedTuple):
    """A design that was tried.

    Attributes:
        contents: Of its file.
        choice: What was chosen.
        design: The design.
        fit: What it takes of its board.
        decode: Its speed and limits; None if it does not fit.
        tokens_per_s: Its speed; 0 if it does not fit.
        joules_per_token: Of the whole board.
    """

    contents: Mapping[str, Any]
    choice: Choice
    design: Design
    fit: FitReport
    decode: Decode | None = None
    tokens_per_s: float = 0.0
    joules_per_token: float = 0.0


def first_design(wish: Wish) -> tuple[Tried, Sequence[Tried]]:
    """The design that serves a wish best, and all that were tried.

    Raises:
        InputError: No such preset; nothing fits, or nothing that fits is fast enough.
    """
    best = _tried(wish, Choice() if wish.bits is None else Choice(wish.bits))
    tried, before = {best.choice: best}, None
    while best.choice != before:
        before = best.choice
        for values in FIELDS[wish.bits is not None :]:
            for choice in (best.choice._replace(**value) for value in values):
                if choice not in tried:
                    tried[choice] = _tried(wish, choice)
            best = _chosen(wish, tried.values())
    fitting = sum(each.fit.fits for each in tried.values())
    if not fitting:
        cure = "take a larger board, a smaller model, shorter `contexts` or fewer `bits`"
        lacks = "; ".join(best.fit.misfits)
        problem = f"none of {len(tried)} designs fits; the nearest lacks {lacks}"
        raise InputError(str(wish), problem, cure)
    if best.tokens_per_s < wish.tokens_per_s:
        reached = f"{best.tokens_per_s:.3g}"
        problem = f"the fastest of {fitting} designs that fit has {reached} tokens/s"
        cure = f"ask for `tokens_per_s` of at most {reached}, or take a board with faster memory"
        raise InputError(f"{wish}: `tokens_per_s` {wish.tokens_per_s:g}", problem, cure)
    return best, tuple(tried.values())


def _tried(wish: Wish, choice: Choice) -> Tried:
    """A design whose buffers hold at least what they must, fitted and timed."""
    arithmetic, formats = PRECISIONS[choice.bits]
    rows, cols = choice.array
    machine: dict[str, Any] = {
        "cores": choice.cores,
        "array": {"rows": rows, "cols": cols, "arithmetic": arithmetic},
        "vector": {"lanes": choice.lanes},
        "weight_buffer_kib": choice.weight_buffer_kib,
        "kv_buffer_kib": choice.kv_buffer_kib,
        "activation_buffer_kib": 16,
        "mapping": choice.mapping,
    }
    contents = {
        "board": {"preset": wish.board},
        "machine": machine,
        "model": {"preset": wish.model, **formats, "activations": {"bits": max(8, choice.bits)}},
        "policy": {"batch": wish.batch},
        "energy": {"preset": preset_board(wish.board, "`board`").technology.energy_preset},
    }
    raw, place = {"name": f"{wish.model}_{wish.board}", **contents}, Path(str(wish))
    longest = Video(n_frames=wish.contexts[1], tokens_per_frame=1, prompt_tokens=0)
    for key, row in buffer_rows(design_of(raw, place), longest):
        machine[key] = max(machine[key], 1 << (-(-int(row.needed) // KIB) - 1).bit_length())
    design = design_of(raw, place)
    fit = check_fit(design, longest)
    if not fit.fits:
        return Tried(contents, choice, design, fit)
    found = decode(design, *wish.contexts)
    joules = found.joules_per_token(fit.resources).value_j
    return Tried(contents, choice, design, fit, found, found.tokens_per_s, joules)


def _chosen(wish: Wish, tried: Iterable[Tried]) -> Tried:
    """The design that serves the goal best, or is nearest to it."""
    fitting = [each for each in tried if each.fit.fits]
    if not fitting:
        return min(tried, key=lambda each: max(row.share for row in each.fit.rows))
    best = max(each.tokens_per_s for each in fitting)
    same = 0.0 if wish.goal == "least-energy" else SAME_SPEED * best
    floor = max(same, min(best, wish.tokens_per_s))
    enough = [each for each in fitting if each.tokens_per_s >= floor]
    return min(enough, key=lambda each: each.joules_per_token)


def design_text(wish: Wish, best: Tried, tried: Sequence[Tried]) -> str:
    """The design as a commented YAML file that loads as the same design."""
    model, board, fit, found = best.design.model, best.design.board, best.fit, best.decode
    assert found is not None
    (limit, share), *_ = found.limit_shares.items()
    first, last = wish.contexts
    goal = (
        "fastest that fits, the least energy among equals"
        if wish.goal == "fastest"
        else f"least energy at {wish.tokens_per_s:g} tokens/s and more"
    )
    units = board.technology.resource_kinds
    counts = ", ".join(
        f"{amount(used, '')} of {amount(have, units[name].unit)}"
        for name, (used, have) in fit.counts.items()
    )
    memories = "; ".join(
        f"{use.memory} {use.used_bytes / 1e9:.2f} of {use.usable_bytes / 1e9:.2f} GB"
        for use in fit.memories
        if use.contents
    )
    what = f"{model.name}, {count(wish.batch, 'sequence')}, on a {board.name}"
    fitting = sum(each.fit.fits for each in tried)
    comments = [
        f"{what}: the {goal},",
        f"of {len(tried)} designs that were tried ({fitting} of them fit).",
        f"Decoding at contexts of {span(str(first), str(last), ' to ')} tokens: "
        f"{found.tokens_per_s:.3g} tokens/s,",
        f"{best.joules_per_token:.3g} J a token; limit: {limit} ({share:.0%} of the time).",
        f"It takes {counts}.",
        f"Memory: {memories}. Quality at this precision is not known here.",
        *(f"Beware: {line}." for line in fit.warnings),
    ]
    contents = {"description": f"{what}; the {limit} is the limit", **best.contents}
    return "".join(f"# {line}\n" for line in comments) + yaml_text(contents, is_short=True)
