"""What the page lets users change: a table of fields of a design, and what is decoded."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, get_args

from carsim.base.yaml_file import shown
from carsim.decisions.attention import ATTENTION
from carsim.decisions.replay import Scope
from carsim.decisions.trace.shipped import shipped_traces
from carsim.design import Design
from carsim.design.load import preset_board, shipped_designs, shipped_presets
from carsim.hardware.machine import Arithmetic, Dataflow, WeightSharing
from carsim.hardware.mapping import MAPPINGS
from carsim.hardware.schedule import SCHEDULES
from carsim.studio.point import base_of, value_of
from carsim.studio.state import TabState

POWERS = tuple(str(1 << power) for power in range(11))
KIB = tuple(str(1 << power) for power in range(4, 13))
BITS = ("2", "3", "4", "5", "6", "8", "12", "16")
FRAMES = tuple(map(str, (1, 2, 4, 8, 12, 16, 24, 32)))
SHARES = tuple(f"{share / 20:g}" for share in range(21))
COUNTS = tuple(map(str, range(1, 33)))
CLOCKS = tuple(map(str, range(100, 1001, 25)))
TAUS = ("captured", "0.5", "1", "1.9", "2.7", "4.25", "5.6", "8", "inf")

MEMORY, ARRAY, KIND = "board.memories.{weights}", "machine.array", "{{kind: {}}}"

Choices = Sequence[str] | Callable[[], Sequence[str]]


@dataclass(frozen=True)
class Field:
    """Something that can be changed.

    Attributes:
        key: Name of its control on the page.
        label: What people read.
        path: Dotted path in the design, or the name of an option of ``carsim run``. Between braces
            stands a role whose memory is meant, such as ``{weights}``.
        choices: Values that a slider stops at, or that a menu offers.
        is_menu: There are no values but the choices.
        form: Of the text that is set, where the value is not all of it.
        unit: Of the value; empty for none.
    """

    key: str
    label: str
    path: str
    choices: Choices = ()
    is_menu: bool = False
    form: str = "{}"
    unit: str = ""

    @property
    def options(self) -> list[str]:
        """The choices as they are now."""
        return list(self.choices() if callable(self.choices) else self.choices)

    @property
    def is_of_design(self) -> bool:
        """A field of the design; else an option of ``carsim run``."""
        return "." in self.path

    def path_in(self, design: Design) -> str:
        """The dotted path in a design."""
        return self.path.format_map(design.machine.placement.model_dump())

    def text(self, state: TabState, design: Design) -> str:
        """The text of its control at a state, which means a design."""
        if not self.is_of_design:
            return str(getattr(state, self.path))
        if self.path == "board.preset":
            return state.changes.get(self.path, "") or _preset_of(design)
        value = value_of(design, self.path_in(design))
        if value is not None and self.form != "{}":
            value = value.kind
        return "" if value is None else plain(value)

    def set(self, state: TabState, design: Design, text: str) -> TabState:
        """The state with the field changed; not changed at all where the design says the same."""
        text = text.strip()
        if self.path == "design":
            return TabState(
                text or state.design, store=state.store, pins=state.pins, trace=state.trace
            )
        if not self.is_of_design:
            return state.with_option(self.path, text)
        path = self.path_in(design)
        unchanged = TabState(state.design)
        if self.path == "board.preset":
            is_same = text in ("", _preset_of(base_of(unchanged)))
        else:
            is_same = text == self.text(unchanged, base_of(state))
        return state.with_change(path, None if is_same else self.form.format(text))


def plain(value: Any) -> str:
    """A value as it is typed.

    >>> plain(300.0), plain("tensor"), plain(True), plain((0.5, 1.0))
    ('300', 'tensor', 'true', '[0.5, 1.0]')
    """
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return f"{value:.12g}"
    return shown(value)


@cache
def boards() -> Mapping[str, str]:
    """Presets of boards, each with the name that its board has."""
    return {name: preset_board(name, "board").name for name in shipped_presets()["board"]}


def _preset_of(design: Design) -> str:
    """The preset whose name a board has; empty for a board of the user's own."""
    return next((preset for preset, name in boards().items() if name == design.board.name), "")


GROUPS: Mapping[str, tuple[Field, ...]] = {
    "What is decoded": (
        Field("design", "design", "design", shipped_designs, True),
        Field("trace", "trace", "trace", lambda: ["", *shipped_traces()], True),
        Field("frames", "frames (stated)", "frames", FRAMES),
        Field("replay", "replayed (stated)", "replay", SHARES),
        Field("batch", "batch", "policy.batch", COUNTS, unit="sequences"),
    ),
    "Board and ports": (
        Field("board", "board", "board.preset", lambda: list(boards()), True),
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
        Field("attention", "attention", "policy.attention", lambda: list(ATTENTION), True, KIND),
        Field("tau", "tau", "policy.tau", TAUS),
        Field("scope", "decisions by", "policy.decision_scope", get_args(Scope), True),
    ),
}
"""The fields by what they are about."""

FIELDS: Mapping[str, Field] = {field.key: field for group in GROUPS.values() for field in group}
"""The same by the name of their control."""

MENUS = [key for key, field in FIELDS.items() if field.is_menu]
VALUES = [key for key, field in FIELDS.items() if not field.is_menu]
