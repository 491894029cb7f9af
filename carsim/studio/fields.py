"""What the page lets users change: a table of fields of a design, and what is decoded."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, get_args

from carsim.base.errors import InputError
from carsim.base.yaml_file import parse_yaml, shown
from carsim.decisions.attention import ATTENTION
from carsim.decisions.replay import Scope
from carsim.decisions.trace.shipped import shipped_traces
from carsim.decisions.trace.stated import text_of
from carsim.design import Design
from carsim.design.load import (
    MODEL_PRESET,
    PRESET_PATHS,
    read_design,
    shipped_designs,
    shipped_presets,
)
from carsim.explore.study import value_of
from carsim.hardware.machine import Arithmetic, Dataflow, WeightSharing
from carsim.hardware.mapping import MAPPINGS
from carsim.hardware.schedule import SCHEDULES
from carsim.studio.point import base_of
from carsim.studio.state import TabState
from carsim.workload.workload import Workload

POWERS = tuple(str(1 << power) for power in range(11))
KIB = tuple(str(1 << power) for power in range(4, 13))
BITS = ("2", "3", "4", "5", "6", "8", "12", "16")
FRAMES = tuple(map(str, (1, 2, 4, 8, 12, 16, 24, 32)))
TOKENS = tuple(str(1 << power) for power in range(18))
CONTEXTS = tuple(str(1 << power) for power in range(6, 18))
SHARES = tuple(f"{share / 20:g}" for share in range(21))
COUNTS = tuple(map(str, range(1, 33)))
CLOCKS = tuple(map(str, range(100, 1001, 25)))
TAUS = ("captured", "0.5", "1", "1.9", "2.7", "4.25", "5.6", "8", "inf")

WORK = "workload."
"""Paths that begin so are fields of the workload."""

MEMORY = "board.memories.{weights}"
ARRAY = "machine.array"
KIND = "{{kind: {}}}"
"""Form of a value that is a section of its own, of which a menu sets the kind."""

T = TypeVar("T")
Choices = Sequence[str] | Callable[[], Sequence[str]]


@dataclass(frozen=True)
class Field:
    """Something that can be changed.

    Attributes:
        key: Name of its control on the page.
        label: What people read.
        path: Dotted path in the design or the workload, or the name of an option of ``carsim run``.
            Between braces stands a role whose memory is meant, such as ``{weights}``.
        choices: Values that a slider stops at, or that a menu offers.
        is_menu: There are no values but the choices.
        form: Of the text that is set, where the value is not all of it.
        unit: Of the value; empty for none.
        made: Models that it means something for: those that make a video or a text; all if empty.
    """

    key: str
    label: str
    path: str
    choices: Choices = ()
    is_menu: bool = False
    form: str = "{}"
    unit: str = ""
    made: str = ""

    @property
    def title(self) -> str:
        """Label and unit."""
        return f"{self.label} [{self.unit}]" if self.unit else self.label

    @property
    def options(self) -> list[str]:
        """The choices as they are now."""
        return list(self.choices() if callable(self.choices) else self.choices)

    @property
    def is_of_design(self) -> bool:
        """A field of the design; else of the workload, or an option of ``carsim run``."""
        return "." in self.path and not self.path.startswith(WORK)

    def path_in(self, design: Design) -> str:
        """The dotted path in a design."""
        return self.path.format_map(design.machine.placement.model_dump())

    def text(self, state: TabState, design: Design) -> str:
        """The text of its control at a state, which means a design."""
        if self.path.startswith(WORK):
            return _asked(state, design, self)
        if not self.is_of_design:
            return str(getattr(state, self.path))
        if self.path == MODEL_PRESET and state.work is not None and state.work.model:
            return state.work.model
        if self.path in PRESET_PATHS:
            return state.changes.get(self.path) or _preset_of(state, self.path.partition(".")[0])
        value = value_of(design, self.path_in(design))
        if value is not None and self.form != "{}":
            value = value.kind
        return "" if value is None else plain(value)

    def set(self, state: TabState, design: Design, text: str) -> TabState:
        """The state with the field changed; not changed at all where the design says the same."""
        text = text.strip()
        if self.path == "design":
            after = replace(state, design=text or state.design, changes={}, workload="")
            return _keeping(after, design) if text in self.options else after
        if self.path.startswith(WORK):
            if text == self.text(state, design):
                return state
            return state.with_option("workload", _asking(state, design, self, text))
        if not self.is_of_design:
            return state.with_option(self.path, text)
        path = self.path_in(design)
        if path == MODEL_PRESET and state.work is not None and state.work.model:
            if text == state.work.model:
                return state
            state = replace(state, workload="")  # its sample is that of the model that it names
        is_preset = self.path in PRESET_PATHS
        unchanged_text = self.text(TabState(state.design), design if is_preset else base_of(state))
        is_unchanged = text == unchanged_text or (is_preset and not text)
        after = state.with_change(path, None if is_unchanged else self.form.format(text))
        return _keeping(after, design) if is_preset else after


def plain(value: Any) -> str:
    """A value as it is typed.

    >>> plain(300.0), plain("tensor"), plain(True), plain((0.5, 1.0))
    ('300', 'tensor', 'true', '[0.5, 1.0]')
    """
    if isinstance(value, str):
        return value
    return f"{value:.12g}" if isinstance(value, float) else shown(value)


def number_or(text: str, other: T) -> float | T:
    """The number that a text is; something else if it is none."""
    try:
        return float(text)
    except ValueError:
        return other


def _work(state: TabState, design: Design, made: str) -> Workload:
    """The workload of a state, what it leaves out filled in; else the usual one of a kind."""
    usual = Workload("text" if made == "text" else "video")
    work = state.work if state.work is not None and state.work.kind == made else usual
    if made == "text":
        prompt, tokens = text_of(work, design.model)
        return replace(work, prompt=prompt, tokens=tokens)
    return replace(work, frames=work.frames or design.model.video.frames)


def _asked(state: TabState, design: Design, field: Field) -> str:
    """A field of the workload, or its first and last ``context``; empty where it has none."""
    kind = state.work.kind if state.work is not None else design.model.makes
    if state.trace or kind != field.made:
        return ""
    work = _work(state, design, field.made)
    name = field.path.removeprefix(WORK)
    if name == "context":
        first = (work.prompt or 0) + 1
        return f"{first}:{first + (work.tokens or 1) - 1}"
    value = getattr(work, name)
    return "" if value is None else f"{value:g}"


def _asking(state: TabState, design: Design, field: Field, text: str) -> str:
    """The word of the workload with a field changed; without a text, of what is usual.

    Raises:
        InputError: No such workload.
    """
    work = _work(state, design, field.made)
    name = field.path.removeprefix(WORK)
    if name == "context":
        ends = text.split(":")
        if not all(end.strip().isdecimal() for end in ends) or len(ends) > 2:
            raise InputError(name, f"got {shown(text)}", "write 4096, or 1024:4096")
        return Workload.at_contexts(*map(int, ends)).text
    value: Any = parse_yaml(text, name) if text else None
    changes: dict[str, Any] = {name: value}
    return replace(work, **changes).text


def _preset_of(state: TabState, section: str) -> str:
    """The preset that a section of the design's file starts from; empty for none."""
    design_file, _ = read_design(state.design)
    content = design_file[section]
    return str(content.get("preset", "")) if isinstance(content, Mapping) else ""


def _keeping(state: TabState, before: Design) -> TabState:
    """The state, without what only a model decodes that makes something else."""
    if base_of(replace(state, trace="", workload="")).model.makes == before.model.makes:
        return state
    return replace(state, trace="", workload="")


GROUPS: Mapping[str, tuple[Field, ...]] = {
    "What is decoded": (
        Field("design", "design", "design", shipped_designs, True),
        Field("model", "model", "model.preset", lambda: list(shipped_presets()["model"]), True),
        Field("trace", "trace", "trace", lambda: ["", *shipped_traces()], True),
        Field("workload", "workload", "workload"),
        Field("batch", "batch", "policy.batch", COUNTS, unit="sequences"),
    ),
    "Video": (
        Field("frames", "frames", f"{WORK}frames", FRAMES, made="video"),
        Field("replay", "share replayed", f"{WORK}replay", SHARES, made="video"),
    ),
    "Text": (
        Field("prompt", "prompt", f"{WORK}prompt", TOKENS, unit="tokens", made="text"),
        Field("tokens", "new tokens", f"{WORK}tokens", TOKENS, unit="tokens", made="text"),
        Field("context", "context", f"{WORK}context", CONTEXTS, unit="tokens", made="text"),
    ),
    "Board and ports": (
        Field("board", "board", "board.preset", lambda: list(shipped_presets()["board"]), True),
        Field("clock", "clock", "board.fabric_clock_mhz", CLOCKS, unit="MHz"),
        Field("ports", "ports of weights", f"{MEMORY}.ports.count", POWERS[:7]),
        Field("port_bits", "width of a port", f"{MEMORY}.ports.bits", POWERS[3:], unit="bit"),
        Field("channels", "channels", f"{MEMORY}.channels", POWERS[:7]),
    ),
    "Cores and arrays": (
        Field("cores", "cores", "machine.cores", COUNTS),
        Field("rows", "array rows", f"{ARRAY}.rows", POWERS[1:]),
        Field("cols", "array columns", f"{ARRAY}.cols", POWERS[1:]),
        Field("dataflow", "dataflow", f"{ARRAY}.dataflow", get_args(Dataflow), True),
        Field("arithmetic", "arithmetic", f"{ARRAY}.arithmetic", get_args(Arithmetic), True),
        Field("lanes", "vector lanes", "machine.vector.lanes", POWERS),
        Field("mapping", "mapping", "machine.mapping", lambda: list(MAPPINGS), True),
        Field("sharing", "weights are", "machine.weight_sharing", get_args(WeightSharing), True),
    ),
    "Buffers of a core": (
        Field("weight_buffer", "weights", "machine.weight_buffer_kib", KIB, unit="KiB"),
        Field("kv_buffer", "KV", "machine.kv_buffer_kib", KIB, unit="KiB"),
        Field("activation_buffer", "activations", "machine.activation_buffer_kib", KIB, unit="KiB"),
        Field("tile", "tile", "machine.tile_kib", KIB[:6], unit="KiB"),
    ),
    "Precision": (
        Field("weight_bits", "weights", "model.weights.bits", BITS, unit="bit"),
        Field("kv_bits", "KV", "model.kv.bits", BITS, unit="bit"),
        Field("activation_bits", "activations", "model.activations.bits", BITS, unit="bit"),
        Field("replay_bits", "replay cache", "model.replay.bits", BITS, unit="bit"),
    ),
    "Policy": (
        Field("schedule", "schedule", "policy.schedule", lambda: list(SCHEDULES), True),
        Field(
            "attention", "attention", "policy.attention", lambda: list(ATTENTION), True, form=KIND
        ),
        Field("tau", "tau", "policy.tau", TAUS),
        Field("scope", "decisions by", "policy.decision_scope", get_args(Scope), True),
    ),
}
"""The fields by what they are about; those of a group are of the same kind of work."""

FIELDS: Mapping[str, Field] = {field.key: field for group in GROUPS.values() for field in group}
"""The same by the name of their control."""

MENUS = [key for key, field in FIELDS.items() if field.is_menu]
SLIDERS = [key for key, field in FIELDS.items() if field.choices and not field.is_menu]
