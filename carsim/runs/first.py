"""A first design for a model on a board: the machine that a design without one gets.

``carsim config new`` writes it as a file. A design that names a board and a model and no machine
is completed in the same way when it is opened (:mod:`carsim.runs.opening`).

Model: a design decodes a workload step by step (:mod:`carsim.runs.decode`): no replay, no prefill,
head included, one mean step over its contexts. A climb from the smallest design changes one of
:data:`FIELDS` at a time to the best of its values, until none helps; buffers hold at least what
they must, placement is the board's. In the end the activation buffer is doubled as often as there
is room and prefill gains, since that halves its passes over the weights. A replay cache has room
where the workload replays, and where no workload is named. Of the designs that fit
and are within 1 % of the most tokens a second, the one with the least energy a token is chosen.

What a precision costs in quality is not known here. So the precision of a model's own file is kept
(:func:`completed`), as are weights that the design gives itself; the array has the arithmetic that
they need. ``carsim config new`` may choose another precision, and says so first.

Simplifications: a climb may end beside the best of all (on 28 wishes its design has from 4.2 % less
to 0.7 % more tokens a second than the best of 120 that Optuna's TPE drew); a step's energy is that
of the board at its own speed; clocks are the board's; of equals, the first is taken.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from carsim.base.errors import InputError, MisfitError
from carsim.base.paths import overlap
from carsim.base.text import count, number, span
from carsim.base.yaml_file import yaml_text
from carsim.cost.fit import FitReport, check_fit, least_buffers_kib
from carsim.decisions.replay import FASTCAR
from carsim.decisions.trace import load_trace
from carsim.decisions.trace.stated import stated_trace
from carsim.design import Design
from carsim.design.load import MODEL_FILE, MODEL_PRESET, design_of, model_base, with_work
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


FORWARD_FIELDS: tuple[tuple[Mapping[str, Any], ...], ...] = (
    tuple({"array": size} for size in ((64, 64), (128, 64), (128, 128))),
    tuple({"exponentials": rate} for rate in (8, 16, 32, 64, 128)),
    tuple({"lanes": lanes} for lanes in (64, 128, 256)),
    tuple({"activation_buffers": times} for times in (4, 8, 16, 32)),
)
"""What a climb tries besides where all tokens pass a network together, which bytes rarely limit."""


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
    exponentials: int = 0


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
        as_in_file: The precision of a model's own file is kept.
    """

    written: Mapping[str, Any]
    place: Path
    overrides: tuple[str, ...] = ()
    batch: int | None = None
    workload: Workload | None = None
    bits: int | None = None
    as_in_file: bool = False

    @classmethod
    def of(cls, board: str, model: str, **more: Any) -> "Wish":
        """A wish for a board's preset, and a model's preset or file."""
        written = {"board": {"preset": board}, "model": model_base(model)}
        sections = with_work(written, more.get("workload"))
        file = Path(model).resolve()
        stem = file.parent.name if file.name == "config.json" else file.name.removesuffix(".json")
        return cls({"name": f"{stem}_{board}", **sections}, Path(f"{stem} on {board}"), **more)

    @property
    def sets_precision(self) -> bool:
        """The design, or an override, gives the precision of the weights itself."""
        model = self.written.get("model")
        stated = "weights" in model if isinstance(model, Mapping) else False
        set_paths = (text.partition("=")[0].strip() for text in self.overrides)
        return stated or any(overlap(path, "model.weights") for path in set_paths)

    @property
    def reads_a_file(self) -> bool:
        """The model comes from its own file, which has a precision."""
        return self._starts_from(MODEL_FILE)

    @property
    def has_base(self) -> bool:
        """The model comes from a preset or from its own file."""
        return self._starts_from(MODEL_FILE) or self._starts_from(MODEL_PRESET)

    def _starts_from(self, path: str) -> bool:
        """The section ``model`` starts from the base of a dotted path."""
        model = self.written.get("model")
        is_written = isinstance(model, Mapping) and path.split(".")[1] in model
        set_paths = (text.partition("=")[0].strip() for text in self.overrides)
        return is_written or path in set_paths

    @property
    def keeps_precision(self) -> bool:
        """The precision is not to be chosen."""
        if self.sets_precision:
            return True
        return self.bits is None and self.as_in_file and self.reads_a_file

    @property
    def chosen_fields(self) -> list[str]:
        """Fields of ``model`` whose precision is chosen."""
        if self.keeps_precision:
            return []
        model = self.written.get("model")
        written = model if isinstance(model, Mapping) else {}
        set_paths = [text.partition("=")[0].strip() for text in self.overrides]
        return [
            field
            for field in ("weights", "kv", "activations")
            if field not in written
            and not any(overlap(path, f"model.{field}") for path in set_paths)
        ]

    @cached_property
    def smallest(self) -> Design:
        """The design with the smallest machine, whether or not it fits.

        Its precision is that of the model's preset or file, if the model has one.
        """
        usual: Any = {"policy": {"batch": 1}, "energy": {"preset": "fpga_16nm"}}
        contents = self._contents(Choice(), usual, keeps=self.has_base)
        return design_of(contents, self.place, self.overrides)

    @cached_property
    def _arithmetic_of_model(self) -> str:
        """Arithmetic that multiplies a precision that is kept, without rounding its weights.

        Simplification: it is one of those of :data:`PRECISIONS`; weights of more than 16 bits are
        rounded to 16.
        """
        model = self.smallest.model
        weight_bits = max(weights.bits for weights in model.multiplied(with_head=True))
        if model.activations.bits > 8 or weight_bits > 8:
            return PRECISIONS[16][0]
        return PRECISIONS[8 if weight_bits > 4 else 4][0]

    @cached_property
    def usual(self) -> Mapping[str, Mapping[str, Any]]:
        """Sections that are not chosen: a batch, and the constants of the board's technology."""
        sample = self.smallest.model.sample
        usual_batch = 1 if self.video.kind == "text" else 2
        if sample is not None:
            usual_batch = sample.passes
        batch = self.batch or usual_batch
        energy = self.smallest.board.technology.energy_preset
        return {"policy": {"batch": batch}, "energy": {"preset": energy}}

    @cached_property
    def video(self) -> Video:
        """Geometry of what is decoded."""
        model = self.smallest.model
        work = self.workload or Workload(model.makes)
        work = replace(work, replay=None, pairs=None, seed=None, rule=None)
        work = replace(work, every=None, dense=None)
        if work.traces:
            return load_trace(work.traces[0]).video
        usual_batch = 2 if model.sample is None else model.sample.passes
        trace = stated_trace(work, model, batch=self.batch or usual_batch)
        return trace.video

    @cached_property
    def may_replay(self) -> bool:
        """The design keeps room for a replay cache: its workload replays, or is not named."""
        if self.video.kind == "text":
            return False
        work = self.workload
        if self.smallest.model.sample is not None:
            return work is not None and work.every is not None
        if work is None or work.replay is not None or self.smallest.policy.tau != "captured":
            return True
        return not all(load_trace(name).meta.never_replays for name in work.traces)

    @property
    def contexts(self) -> tuple[int, int]:
        """Tokens that the first and the last step attend to."""
        return self.video.context(0), self.video.max_context

    def contents(self, choice: Choice, usual: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """Contents of the file of a choice, over sections that are not chosen."""
        contents = self._contents(choice, usual, keeps=self.keeps_precision)
        if self.keeps_precision:
            array = contents["machine"]["array"]
            contents["machine"]["array"] = array | {"arithmetic": self._arithmetic_of_model}
        return contents

    def _contents(
        self, choice: Choice, usual: Mapping[str, Mapping[str, Any]], *, keeps: bool
    ) -> dict[str, Any]:
        """Contents of the file of a choice.

        Args:
            choice: The choice.
            usual: Sections that are not chosen.
            keeps: The model's precision is left as it is.
        """
        arithmetic, formats = PRECISIONS[choice.bits]
        rows, cols = choice.array
        machine: dict[str, Any] = {
            "cores": choice.cores,
            "array": {"rows": rows, "cols": cols, "arithmetic": arithmetic},
            "vector": {"lanes": choice.lanes, **_softmax_unit(choice)},
            "weight_buffer_kib": choice.weight_buffer_kib,
            "kv_buffer_kib": choice.kv_buffer_kib,
            "activation_buffer_kib": 16,
            "mapping": choice.mapping,
        }
        chosen: dict[str, Mapping[str, Any]] = {**usual, "machine": machine}
        if not keeps:
            chosen["model"] = {**formats, "activations": {"bits": max(8, choice.bits)}}
        contents = dict(self.written)
        for name, section in chosen.items():
            written = self.written.get(name, {})
            if isinstance(written, Mapping):
                # Keys of the file stand first, and keep their values.
                contents[name] = {**written, **section, **written}
        return contents


def _softmax_unit(choice: Choice) -> dict[str, int]:
    """The softmax unit of a choice, if it has one."""
    return {"exponentials_per_cycle": choice.exponentials} if choice.exponentials else {}


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
        refusal: Why it fits but cannot be simulated: it is too slow for the work.
    """

    contents: Mapping[str, Any]
    choice: Choice
    design: Design
    fit: FitReport
    decode: Decode | None = None
    tokens_per_s: float = 0.0
    joules_per_token: float = 0.0
    refusal: InputError | None = None


def completed(wish: Wish) -> Design:
    """The design that serves a wish best; its description says what was chosen and why.

    A model's own file keeps its precision.
    """
    wish = replace(wish, as_in_file=True)
    best, tried = first_design(wish)
    description = " ".join(reasons(wish, best, tried))
    design = best.design.model_copy(update={"description": description})
    return design.with_sources(dict.fromkeys(wish.chosen_fields, "chosen by carsim"))


def first_design(wish: Wish) -> tuple[Tried, Sequence[Tried]]:
    """The design that serves a wish best, and all that were tried.

    Raises:
        InputError: No such preset, or no design that fits can be simulated.
        MisfitError: Nothing fits.
    """
    best = _tried(wish, Choice(wish.bits or 4))
    tried = {best.choice: best}
    fields = FIELDS
    if best.design.model.network is not None:
        fields = (*FIELDS, *FORWARD_FIELDS)
    if wish.bits is not None or wish.keeps_precision:
        fields = fields[1:]  # the first field is the precision
    before = None
    while best.choice != before:  # until no single change is better
        before = best.choice
        for values in fields:
            for value in values:
                choice = best.choice._replace(**value)
                if choice not in tried:
                    tried[choice] = _tried(wish, choice)
            best = _chosen(tried.values())
    if not best.fit.fits:
        precision = ""
        cure = _misfit_cure(best.design)
        if wish.keeps_precision:
            precision = f" in {best.design.model.bits_in_short}"
            cure = "; ".join(best.fit.cures)
        lacks = "; ".join(best.fit.misfits)
        problem = f"none of {len(tried)} designs fits{precision}; the nearest lacks {lacks}"
        raise MisfitError(str(wish.place), problem, cure)
    if best.refusal is not None:
        raise best.refusal
    return _with_room_for_the_prompt(wish, best, tried), tuple(tried.values())


def _with_room_for_the_prompt(wish: Wish, best: Tried, tried: dict[Choice, Tried]) -> Tried:
    """The design with its activation buffer doubled as often as that pays.

    Prefill passes over the weights once for each block of tokens that the buffer holds. Doubling
    ends where the board has no room, place and route would be less likely, or the prompt gains
    less than :data:`PROMPT_GAIN`.
    """
    if not wish.video.prompt_tokens:
        return best
    cycles = _prompt_cycles(best.design, wish)
    while True:
        doubled = best.choice._replace(activation_buffers=2 * best.choice.activation_buffers)
        roomier = _tried(wish, doubled)
        tried[doubled] = roomier
        if not roomier.fit.fits or roomier.refusal is not None:
            return best
        if len(roomier.fit.warnings) > len(best.fit.warnings):
            return best
        roomier_cycles = _prompt_cycles(roomier.design, wish)
        if roomier_cycles > (1 - PROMPT_GAIN) * cycles:
            return best
        best = roomier
        cycles = roomier_cycles


def _prompt_cycles(design: Design, wish: Wish) -> int:
    """Cycles of the prompt in all layers."""
    phases = Phases(Hardware(design))
    prompt_tokens = max(1, wish.video.prompt_tokens)
    cycles = 0
    for kind, layers in design.model.layer_kinds().items():
        cycles += layers * int(phases.prefill_layer(prompt_tokens, kind).cycles[0])
    return cycles


def _misfit_cure(design: Design) -> str:
    """Cure where no design fits, with the changes that decoding allows."""
    cure = "take a larger board, a smaller model, a shorter workload or fewer bits"
    if design.model.network is not None:
        return cure
    cure += " (--set model.kv.bits=4)"
    if design.model.head.kind == "depth_transformer":
        cure += ", or leave out the head (--set machine.include_head=false), or both"
    return cure


def _tried(wish: Wish, choice: Choice) -> Tried:
    """A design whose buffers hold at least what they must, fitted and timed."""
    contents = wish.contents(choice, wish.usual)
    machine = contents["machine"]
    smallest = design_of(contents, wish.place, wish.overrides)
    for key, kib in least_buffers_kib(smallest, wish.video).items():
        machine[key] = max(machine[key], kib)
    machine["activation_buffer_kib"] *= choice.activation_buffers
    design = design_of(contents, wish.place, wish.overrides)
    fit = check_fit(design, wish.video, FASTCAR if wish.may_replay else None)
    if not fit.fits:
        return Tried(contents, choice, design, fit)
    first_context, last_context = wish.contexts
    try:
        decoding = decode(design, first_context, last_context)
    except InputError as error:  # a faster design may have times that can be counted
        return Tried(contents, choice, design, fit, refusal=error)
    return Tried(
        contents,
        choice,
        design,
        fit,
        decode=decoding,
        tokens_per_s=decoding.tokens_per_s,
        joules_per_token=decoding.energy_per_token(fit.resources).board.value_j,
    )


def _chosen(tried: Iterable[Tried]) -> Tried:
    """Of the fastest designs that fit, the one with the least energy; else the nearest to a fit."""
    fitting = [design for design in tried if design.fit.fits]
    if not fitting:
        return min(tried, key=lambda design: max(row.share for row in design.fit.rows))
    fastest = max(design.tokens_per_s for design in fitting)
    fast_enough = [design for design in fitting if design.tokens_per_s >= SAME_SPEED * fastest]
    return min(fast_enough, key=lambda design: design.joules_per_token)


def reasons(wish: Wish, best: Tried, tried: Sequence[Tried]) -> list[str]:
    """The choices and their reasons, in lines that fit a page."""
    assert best.decode is not None
    model = best.design.model
    board = best.design.board
    limit, share = next(iter(best.decode.limit_shares.items()))
    if model.network is not None:
        assert model.sample is not None
        work = f"For {model.sample.in_words}"
        energy = f"{number(best.joules_per_token)} J for each row of a forward"
    else:
        first, last = wish.contexts
        work = f"Decoding at contexts of {span(str(first), str(last), ' to ')} tokens"
        energy = f"{best.joules_per_token:.3g} J a token"
    fitting = sum(design.fit.fits for design in tried)
    batch = count(best.design.policy.batch, "sequence")
    return [
        *precision_in_words(wish, best.design),
        f"{model.name}, {batch}, on {board.name}: the fastest that fits, the least energy "
        "among equals,",
        f"of {len(tried)} designs that were tried ({fitting} of them fit).",
        f"{work}: {speed_in_words(best)},",
        f"{energy}; limit: {limit} ({share:.0%} of the time).",
        *(f"Beware: {line}." for line in best.fit.warnings),
    ]


def speed_in_words(best: Tried) -> str:
    """Tokens per second, or seconds of a forward of all rows where tokens pass all together."""
    if best.design.model.network is not None and best.decode is not None:
        return f"{best.decode.seconds_per_step:.3g} s a forward"
    return f"{best.tokens_per_s:.3g} tokens/s"


def precision_in_words(wish: Wish, design: Design) -> list[str]:
    """The precision of a design, and who chose it, in lines that fit a page."""
    bits = design.model.bits_in_short
    if wish.sets_precision:
        return [f"Precision {bits}: as the design or --set says."]
    if wish.keeps_precision:
        return [f"Precision {bits}: as in the model file."]
    quality = "What this precision costs in quality is not known here."
    stated = wish.smallest.model.bits_in_short
    if wish.has_base and stated != bits:
        quality = f"The model itself has {stated}; the cost in quality is not known here."
    return [f"carsim chose the precision {bits}.", quality]


def design_text(wish: Wish, best: Tried, tried: Sequence[Tried]) -> str:
    """The design as a commented YAML file that loads as the same design."""
    contents = {key: value for key, value in best.contents.items() if key != "name"}
    comments = "".join(f"# {line}\n" for line in reasons(wish, best, tried))
    return comments + yaml_text(contents, is_short=True)
