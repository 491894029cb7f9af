"""A first design for a model on a board: the machine that a design without one gets.

``carsim config new`` writes it as a file. A design that names a board and a model and no machine
is completed in the same way when it is opened.

Model: a design decodes a workload step by step (:mod:`carsim.runs.decode`): no replay, no prefill,
head included, one mean step over its contexts. A climb from the smallest design changes one of
:data:`FIELDS` at a time to the best of its values, until none helps; buffers hold at least what
they must, placement is the board's. In the end the activation buffer is doubled as often as there
is room and prefill gains, since that halves its passes over the weights. Of the designs that fit
and are within 1 % of the most tokens a second, the one with the least energy a token is chosen.

What a precision costs in quality is not known here: ``bits``, or weights that the design gives
itself, keep to one.

Simplifications: a climb may end beside the best of all (on 28 wishes its design has from 4.2 % less
to 0.7 % more tokens a second than the best of 120 that Optuna's TPE drew); a step's energy is that
of the board at its own speed; clocks are the board's; of equals, the first is taken.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from carsim.base.errors import MisfitError
from carsim.base.text import count, span
from carsim.base.yaml_file import yaml_text
from carsim.cost.fit import FitReport, check_fit, least_buffers_kib
from carsim.decisions.replay import FASTCAR
from carsim.decisions.trace import load_trace
from carsim.decisions.trace.stated import stated_trace
from carsim.design import Design, load_design
from carsim.design.load import design_of, model_base, read_design
from carsim.hardware.mapping import MAPPINGS
from carsim.machine.hardware import Hardware
from carsim.machine.phases import Phases
from carsim.runs.decode import Decode, decode
from carsim.workload.geometry import Video
from carsim.workload.workload import Workload

SAME_SPEED = 0.99
"""Share of the best speed from which a design counts as the fastest."""

PROMPT_GAIN = 0.05
"""Least share of prefill that doubling the activation buffer has to save."""

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
    tuple({"array": size} for size in ((16, 16), (32, 16), (32, 24), (32, 32), (64, 32))),
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
    activation_buffers: int = 1


@dataclass(frozen=True)
class Wish:
    """What is asked for.

    Attributes:
        written: Contents of a design's file that leaves out the machine.
        place: The file's name in errors; a model's own file lies relative to it.
        overrides: ``path=value`` texts that hold whatever is chosen.
        batch: Sequences at a time, where the policy does not say; None: a guidance pair of a
            video, one stream of a text.
        workload: What is decoded; None: what the model makes.
        bits: Bits of a weight; None chooses the precision, too.
    """

    written: Mapping[str, Any]
    place: Path
    overrides: tuple[str, ...] = ()
    batch: int | None = None
    workload: Workload | None = None
    bits: int | None = None

    @classmethod
    def of(cls, board: str, model: str, **more: Any) -> "Wish":
        """A wish for a board's preset, and a model's preset or file."""
        sections = {"board": {"preset": board}, "model": model_base(model)}
        file = Path(model).resolve()
        stem = file.parent.name if file.name == "config.json" else file.name.removesuffix(".json")
        return cls({"name": f"{stem}_{board}", **sections}, Path(f"{stem} on {board}"), **more)

    @property
    def keeps_precision(self) -> bool:
        """The precision is not to be chosen."""
        model = self.written.get("model")
        given = "weights" in model if isinstance(model, Mapping) else False
        return given or any(text.startswith("model.weights") for text in self.overrides)

    @cached_property
    def smallest(self) -> Design:
        """The design with the smallest machine, whether or not it fits."""
        usual: Any = {"policy": {"batch": 1}, "energy": {"preset": "fpga_16nm"}}
        return design_of(self.contents(Choice(), usual), self.place, self.overrides)

    @cached_property
    def usual(self) -> Mapping[str, Mapping[str, Any]]:
        """Sections that are not chosen: a batch, and the constants of the board's technology."""
        batch = self.batch or (1 if self.video.kind == "text" else 2)
        energy = self.smallest.board.technology.energy_preset
        return {"policy": {"batch": batch}, "energy": {"preset": energy}}

    @cached_property
    def video(self) -> Video:
        """Geometry of what is decoded."""
        model = self.smallest.model
        work = replace(self.workload or Workload(model.makes), replay=None, pairs=None, seed=None)
        trace = load_trace(work.traces[0]) if work.traces else stated_trace(work, model, batch=2)
        return trace.video

    @property
    def contexts(self) -> tuple[int, int]:
        """Tokens that the first and the last step attend to."""
        return self.video.context(0), self.video.max_context

    def contents(self, choice: Choice, usual: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """Contents of the file of a choice, over sections that are not chosen."""
        arithmetic, formats = PRECISIONS[choice.bits]
        rows, cols = choice.array
        machine = {
            "cores": choice.cores,
            "array": {"rows": rows, "cols": cols, "arithmetic": arithmetic},
            "vector": {"lanes": choice.lanes},
            "weight_buffer_kib": choice.weight_buffer_kib,
            "kv_buffer_kib": choice.kv_buffer_kib,
            "activation_buffer_kib": 16,
            "mapping": choice.mapping,
        }
        chosen = {**usual, "machine": machine}
        if not self.keeps_precision:
            chosen["model"] = {**formats, "activations": {"bits": max(8, choice.bits)}}
        sections = {
            name: {**given, **section, **given}
            for name, section in chosen.items()
            if isinstance(given := self.written.get(name, {}), Mapping)
        }
        return {**self.written, **sections}


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


def open_design(
    name_or_path: str, overrides: Iterable[str] = (), workload: Workload | None = None
) -> Design:
    """Load a design; if it leaves out the machine, choose one for a workload.

    Raises:
        InputError: As of :func:`~carsim.design.load_design` and :func:`first_design`.
    """
    raw, path = read_design(name_or_path)
    if "machine" in raw:
        return load_design(name_or_path, overrides)
    return completed(Wish(raw, path, tuple(overrides), workload=workload))


def completed(wish: Wish) -> Design:
    """The design that serves a wish best; its description says what was chosen and why."""
    best, tried = first_design(wish)
    return best.design.model_copy(update={"description": " ".join(reasons(wish, best, tried))})


def first_design(wish: Wish) -> tuple[Tried, Sequence[Tried]]:
    """The design that serves a wish best, and all that were tried.

    Raises:
        InputError: No such preset.
        MisfitError: Nothing fits.
    """
    best = _tried(wish, Choice(wish.bits or 4))
    tried, before = {best.choice: best}, None
    fixed = wish.bits is not None or wish.keeps_precision
    while best.choice != before:
        before = best.choice
        for values in FIELDS[fixed:]:
            for choice in (best.choice._replace(**value) for value in values):
                if choice not in tried:
                    tried[choice] = _tried(wish, choice)
            best = _chosen(tried.values())
    if not best.fit.fits:
        cure = "take a larger board, a smaller model, a shorter workload or fewer bits"
        lacks = "; ".join(best.fit.misfits)
        problem = f"none of {len(tried)} designs fits; the nearest lacks {lacks}"
        raise MisfitError(str(wish.place), problem, cure)
    return _with_room_for_the_prompt(wish, best, tried), tuple(tried.values())


def _with_room_for_the_prompt(wish: Wish, best: Tried, tried: dict[Choice, Tried]) -> Tried:
    """The design with its activation buffer doubled as often as that pays.

    Prefill passes over the weights once for each block of tokens that the buffer holds. Doubling
    ends where the board has no room, place and route would be less likely, or the prompt gains
    less than :data:`PROMPT_GAIN`.
    """
    prompt, seconds = wish.video.prompt_tokens, _prompt_cycles(best.design, wish)
    while prompt:
        times = 2 * best.choice.activation_buffers
        roomier = _tried(wish, best.choice._replace(activation_buffers=times))
        tried[roomier.choice] = roomier
        if not roomier.fit.fits or len(roomier.fit.warnings) > len(best.fit.warnings):
            break
        less = _prompt_cycles(roomier.design, wish)
        if less > (1 - PROMPT_GAIN) * seconds:
            break
        best, seconds = roomier, less
    return best


def _prompt_cycles(design: Design, wish: Wish) -> int:
    """Cycles of the prompt in all layers."""
    phases, prompt = Phases(Hardware(design)), max(1, wish.video.prompt_tokens)
    kinds = design.model.body.prompt_layers().items()
    return sum(int(phases.prefill_layer(prompt, *kind).cycles[0]) * n for kind, n in kinds)


def _tried(wish: Wish, choice: Choice) -> Tried:
    """A design whose buffers hold at least what they must, fitted and timed."""
    contents = wish.contents(choice, wish.usual)
    machine = contents["machine"]
    smallest = design_of(contents, wish.place, wish.overrides)
    for key, kib in least_buffers_kib(smallest, wish.video).items():
        machine[key] = max(machine[key], kib)
    machine["activation_buffer_kib"] *= choice.activation_buffers
    design = design_of(contents, wish.place, wish.overrides)
    fit = check_fit(design, wish.video, None if wish.video.kind == "text" else FASTCAR)
    if not fit.fits:
        return Tried(contents, choice, design, fit)
    found = decode(design, *wish.contexts)
    joules = found.energy_per_token(fit.resources).board.value_j
    return Tried(contents, choice, design, fit, found, found.tokens_per_s, joules)


def _chosen(tried: Iterable[Tried]) -> Tried:
    """Of the fastest designs that fit, the one with the least energy; else the nearest to a fit."""
    fitting = [each for each in tried if each.fit.fits]
    if not fitting:
        return min(tried, key=lambda each: max(row.share for row in each.fit.rows))
    best = max(each.tokens_per_s for each in fitting)
    enough = [each for each in fitting if each.tokens_per_s >= SAME_SPEED * best]
    return min(enough, key=lambda each: each.joules_per_token)


def reasons(wish: Wish, best: Tried, tried: Sequence[Tried]) -> list[str]:
    """The choices and their reasons, in lines that fit a page."""
    model, board, found = best.design.model, best.design.board, best.decode
    assert found is not None
    (limit, share), *_ = found.limit_shares.items()
    first, last = wish.contexts
    fitting = sum(each.fit.fits for each in tried)
    batch = count(best.design.policy.batch, "sequence")
    return [
        f"{model.name}, {batch}, on {board.name}: the fastest that fits, the least energy "
        "among equals,",
        f"of {len(tried)} designs that were tried ({fitting} of them fit).",
        f"Decoding at contexts of {span(str(first), str(last), ' to ')} tokens: "
        f"{found.tokens_per_s:.3g} tokens/s,",
        f"{best.joules_per_token:.3g} J a token; limit: {limit} ({share:.0%} of the time).",
        "Quality at this precision is not known here.",
        *(f"Beware: {line}." for line in best.fit.warnings),
    ]


def design_text(wish: Wish, best: Tried, tried: Sequence[Tried]) -> str:
    """The design as a commented YAML file that loads as the same design."""
    contents = {key: value for key, value in best.contents.items() if key != "name"}
    comments = "".join(f"# {line}\n" for line in reasons(wish, best, tried))
    return comments + yaml_text(contents, is_short=True)
