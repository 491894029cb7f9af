"""A first design for a model on a board: what ``carsim config new`` writes.

Model: a design decodes plain text (:mod:`carsim.machine.decode`): no replay, no prefill, head
included, one mean step over a range of contexts. A search (:mod:`carsim.explore.searcher`) varies
cores, the array of a core, precision, buffers, vector lanes and mapping; placement is the board's;
the activation buffer is as large as the widest activations need. Two goals:

* ``fastest``: of the designs that fit and are within 1 % of the most tokens a second, the one with
  the least energy a token;
* ``least-energy``: of those that reach a given rate, the one with the least energy a token.

Precision is a ladder of three rungs that published accelerators use (:data:`PRECISIONS`). What a
rung costs in quality is not known here: ``bits`` keeps to one.

Simplifications: a step's energy is that of the board at its own speed; clocks are the board's; of
equals, the design that was found first is taken.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from carsim.design import Design, design_of, preset_board
from carsim.errors import InputError
from carsim.explore.axis import parse_axis
from carsim.explore.expression import Expression
from carsim.explore.points import Point, make_point
from carsim.explore.searcher import IN_MEMORY, Searcher, open_trials
from carsim.explore.study import Study, StudyFile
from carsim.machine.decode import Decode, decode
from carsim.mapping import MAPPINGS
from carsim.technology.base import amount
from carsim.technology.fit import FitReport, check_fit, widest_activations
from carsim.text import count, span
from carsim.units import KIB
from carsim.workload.geometry import Video

Goal = Literal["fastest", "least-energy"]
GOALS: tuple[Goal, ...] = get_args(Goal)

SAME_SPEED = 0.99
"""Share of the best speed from which a design counts as the fastest."""

_SCALED = {"group": 128, "scale_bits": 16, "zero_bits": 0}
_PLAIN = {"group": None, "scale_bits": 0, "zero_bits": 0}

PRECISIONS: Mapping[int, Mapping[str, Any]] = {
    4: {
        "model.weights": {"bits": 4, **_SCALED},
        "model.kv": {"bits": 8, **_PLAIN},
        "model.activations": {"bits": 8},
        "machine.array.arithmetic": "int4x8",
    },
    8: {
        "model.weights": {"bits": 8, **_PLAIN},
        "model.kv": {"bits": 8, **_PLAIN},
        "model.activations": {"bits": 8},
        "machine.array.arithmetic": "int8",
    },
    16: {
        "model.weights": {"bits": 16, **_PLAIN},
        "model.kv": {"bits": 16, **_PLAIN},
        "model.activations": {"bits": 16},
        "machine.array.arithmetic": "fp16",
    },
}
"""Bits of a weight -> what goes with it: W4A8 in groups of 128, W8A8, FP16."""

ARRAYS = ((16, 8), (16, 16), (32, 16), (32, 32), (64, 32))
"""Rows and columns of one core."""


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
        bits: Bits of a weight; None leaves precision to the search.
        points: Designs to try.
        seed: Seed of the search.
    """

    board: str
    model: str
    goal: Goal = "fastest"
    tokens_per_s: float = 0.0
    batch: int = 1
    contexts: tuple[int, int] = (1, 512)
    bits: int | None = None
    points: int = 120
    seed: int = 0

    def __str__(self) -> str:
        return f"--board {self.board} --model {self.model}"


@dataclass(frozen=True)
class Found:
    """The design that was chosen.

    Attributes:
        wish: What was asked for.
        design: The design.
        decode: Its speed and limits.
        fit: What it takes of its board.
        joules_per_token: Of the whole board.
        tried: Designs that were tried.
        fitting: How many of them fit.
    """

    wish: Wish
    design: Design
    decode: Decode
    fit: FitReport
    joules_per_token: float
    tried: int
    fitting: int


def first_design(wish: Wish, tell: Callable[[int, int], None] = lambda *_: None) -> Found:
    """Search for the design.

    Args:
        wish: What is asked for.
        tell: Told how many designs have been tried, and of how many.

    Raises:
        InputError: No such preset; nothing fits, or nothing that fits is fast enough.
    """
    base = _design(wish, {})
    study = _study(wish, base)
    searcher = Searcher(study, open_trials(study, IN_MEMORY, "tpe", wish.seed), wish.seed)
    # The smallest design, the first of every axis, is tried before any that is drawn.
    least = make_point(study, 0, {axis.name: axis.values[0] for axis in study.axes})
    tried: list[tuple[Point, dict[str, Any]]] = [(least, _evaluated(wish, least.changes))]
    searcher.adopt(*tried[0])
    while len(tried) < wish.points and (point := searcher.propose()) is not None:
        row = _evaluated(wish, point.changes)
        searcher.tell(point, row)
        tried.append((point, row))
        tell(len(tried), wish.points)
    point, row = _chosen(wish, tried)
    design = _sized(_design(wish, point.changes), wish)
    fitting = sum(row["status"] == "ok" for _, row in tried)
    joules = row["joules_per_token"]
    found = decode(design, *wish.contexts)
    return Found(wish, design, found, _fit(design, wish), joules, len(tried), fitting)


def _study(wish: Wish, base: Design) -> Study:
    """The study of the search; it has no trace, and its rows come from :func:`_evaluated`."""
    rungs = [wish.bits] if wish.bits is not None else list(PRECISIONS)
    choices = {f"{bits} bit": dict(PRECISIONS[bits]) for bits in rungs}
    arrays = {
        f"{rows} x {cols}": {"machine.array.rows": rows, "machine.array.cols": cols}
        for rows, cols in ARRAYS
    }
    axes: dict[str, Any] = {
        "machine.cores": [1, 2, 4, 8],
        "array": {"choice": arrays},
        "precision": {"choice": choices},
        "machine.mapping": sorted(MAPPINGS),
        "machine.vector.lanes": [8, 16, 32],
        "machine.weight_buffer_kib": [128, 256, 512],
        "machine.kv_buffer_kib": [128, 256],
    }
    file = StudyFile(
        name=f"first design {wish}",
        design=base.name,
        traces=("no trace",),
        axes=axes,
        objectives={"tokens_per_s": "max", "joules_per_token": "min"},
    )
    enough = f"tokens_per_s >= {wish.tokens_per_s!r}"
    return Study(
        file=file,
        name=str(file.name),
        text="",
        axes=tuple(parse_axis(name, raw, name) for name, raw in axes.items()),
        filters=(),
        constraints=(Expression(enough, "--tokens-per-s"),) if wish.tokens_per_s else (),
        designs={base.name: base},
        design_paths={},
        traces={},
        quality=None,
    )


def _design(wish: Wish, changes: Mapping[str, Any]) -> Design:
    """The design of a point, before its activation buffer is sized."""
    energy = preset_board(wish.board, "--board").technology.energy_preset
    raw: dict[str, Any] = {
        "name": f"{wish.model}_{wish.board}",
        "board": {"preset": wish.board},
        "energy": {"preset": energy},
        "machine": {
            "cores": 1,
            "array": {"rows": 16, "cols": 16},
            "vector": {"lanes": 16},
            "weight_buffer_kib": 128,
            "kv_buffer_kib": 128,
            "activation_buffer_kib": 64,
        },
        "model": {"preset": wish.model},
        "policy": {"batch": wish.batch},
    }
    for dotted, value in changes.items():
        *parents, last = dotted.split(".")
        section = raw
        for parent in parents:
            section = section[parent]
        section[last] = value
    return design_of(raw, Path(str(wish)))


def _sized(design: Design, wish: Wish) -> Design:
    """The design with the smallest activation buffer, a power of two, that holds what it must."""
    widest = widest_activations(design.model, design.machine, wish.batch, wish.contexts[1])
    kib = max(16, 1 << (-(-widest.nbytes // KIB) - 1).bit_length())
    machine = design.machine.model_copy(update={"activation_buffer_kib": kib})
    return design.model_copy(update={"machine": machine})


def _fit(design: Design, wish: Wish) -> FitReport:
    longest = Video(n_frames=wish.contexts[1], tokens_per_frame=1, prompt_tokens=0)
    return check_fit(design, longest)


def _evaluated(wish: Wish, changes: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the search: whether it fits, by how much it does not, speed and energy."""
    try:
        design = _sized(_design(wish, changes), wish)
        fit = _fit(design, wish)
        fill = max(
            row.needed / row.available if row.available else float("inf") for row in fit.rows
        )
        if not fit.fits:
            reason = "; ".join(fit.misfits)
            return {"status": "misfit", "fill": min(fill, 1e9), "reason": reason}
        found = decode(design, *wish.contexts)
        joules = found.joules_per_token(fit.resources).value_j
    except InputError as error:
        return {"status": "invalid", "reason": str(error)}
    rate = found.tokens_per_s
    return {"status": "ok", "fill": fill, "tokens_per_s": rate, "joules_per_token": joules}


def _chosen(
    wish: Wish, tried: Iterable[tuple[Point, dict[str, Any]]]
) -> tuple[Point, dict[str, Any]]:
    """The point that serves the goal best."""
    rows = list(tried)
    fitting = [(point, row) for point, row in rows if row["status"] == "ok"]
    if not fitting:
        missed = [row for _, row in rows if row["status"] == "misfit"]
        nearest = min(missed, key=lambda row: row["fill"], default=rows[0][1])
        cure = "take a larger board, a smaller model, a shorter --context or fewer --bits"
        problem = f"none of {len(rows)} designs fits; the nearest lacks {nearest['reason']}"
        raise InputError(str(wish), problem, cure)
    best = max(row["tokens_per_s"] for _, row in fitting)
    floor = wish.tokens_per_s if wish.goal == "least-energy" else SAME_SPEED * best
    if best < wish.tokens_per_s:
        problem = f"the fastest of {len(fitting)} designs that fit has {best:.3g} tokens/s"
        cure = f"ask for at most --tokens-per-s {best:.3g}, or take a board with faster memory"
        raise InputError(f"{wish}: --tokens-per-s {wish.tokens_per_s:g}", problem, cure)
    enough = [(point, row) for point, row in fitting if row["tokens_per_s"] >= floor]
    return min(enough, key=lambda each: each[1]["joules_per_token"])


def design_text(found: Found) -> str:
    """The design as a commented YAML file that loads as the same design."""
    wish, design = found.wish, found.design
    machine, model, array = design.machine, design.model, design.machine.array
    limit, share = next(iter(found.decode.limit_shares.items()))
    first, last = wish.contexts
    rate = found.decode.tokens_per_s
    goal = (
        "fastest that fits, the least energy among equals"
        if wish.goal == "fastest"
        else f"least energy at {wish.tokens_per_s:g} tokens/s and more"
    )
    units = design.board.technology.resource_kinds
    counts = ", ".join(
        f"{amount(used, '')} of {amount(have, units[name].unit)}"
        for name, (used, have) in found.fit.counts.items()
    )
    memories = "; ".join(
        f"{use.memory} {use.used_bytes / 1e9:.2f} of {use.usable_bytes / 1e9:.2f} GB"
        for use in found.fit.memories
        if use.contents
    )
    warnings = [f"# Beware: {line}." for line in found.fit.warnings]

    def bits(name: str) -> str:
        part = getattr(model, name)
        group = "null" if part.group is None else part.group
        return (
            f"{{bits: {part.bits:g}, group: {group}, scale_bits: {part.scale_bits}, "
            f"zero_bits: {part.zero_bits}}}"
        )

    streams = count(wish.batch, "sequence")
    lines = [
        f"# {model.name}, {streams}, on a {design.board.name}: the {goal},",
        f"# of {found.tried} designs that a search tried ({found.fitting} of them fit).",
        f"# Decoding at contexts of {span(str(first), str(last), ' to ')} tokens: {rate:.3g} "
        "tokens/s,",
        f"# {found.joules_per_token:.3g} J a token; limit: {limit} ({share:.0%} of the time).",
        f"# It takes {counts}.",
        f"# Memory: {memories}. Quality at this precision is not known here.",
        *warnings,
        f"description: {model.name}, {streams}, on a {design.board.name}; the {limit} is the limit",
        "board:",
        f"  preset: {wish.board}  # memories are used as the board places them",
        "machine:",
        f"  cores: {machine.cores}",
        f"  array: {{rows: {array.rows}, cols: {array.cols}, arithmetic: {array.arithmetic}}}"
        f"  # {array.macs_per_cycle} products per core and cycle",
        f"  vector: {{lanes: {machine.vector.lanes}}}",
        f"  weight_buffer_kib: {machine.weight_buffer_kib}",
        f"  kv_buffer_kib: {machine.kv_buffer_kib}",
        f"  activation_buffer_kib: {machine.activation_buffer_kib}  # the widest activations fit",
        f"  mapping: {machine.mapping}",
        "model:",
        f"  preset: {wish.model}",
        f"  weights: {bits('weights')}",
        f"  kv: {bits('kv')}",
        f"  activations: {{bits: {model.activations.bits:g}}}",
        f"policy: {{batch: {wish.batch}}}",
        f"energy: {{preset: {design.board.technology.energy_preset}}}",
    ]
    return "\n".join(lines) + "\n"
