"""The space of machines that a search by target looks through: named axes, one space a board.

Axes of *kinds*: values without an order that a bound could use.

- ``policy.batch``: sequences at a time;
- ``machine.cores`` and ``machine.mapping``;
- ``memory``: the choices of the board's technology, on chips channels and GiB of each memory.

Axes of *sizes*: a larger value never makes a bound of the time longer (of ``machine.tile_kib``, a
smaller one), and never makes a chip smaller.

- ``machine.array.rows``, ``machine.array.cols`` and ``machine.vector.lanes``;
- ``machine.weight_buffer_kib``, ``machine.kv_buffer_kib`` and ``machine.activation_buffer_kib``;
- ``machine.tile_kib``;
- ``board.fabric_clock_mhz``: from half the clock of the board's file to the fastest published clock
  of comparable designs;
- ``machine.vector.exponentials_per_cycle``, where all tokens pass a network together.

Each precision that is allowed has a space of its own, since it changes what is stored everywhere.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import fsum, inf, prod
from pathlib import Path
from typing import Any

from carsim.base.errors import InputError
from carsim.base.text import choose
from carsim.base.yaml_file import parse_yaml, read_mapping, shown
from carsim.cost.fit import resource_fit
from carsim.design import Design, override
from carsim.design.load import (
    design_of,
    model_base,
    preset_board,
    shipped_presets,
    with_work,
)
from carsim.explore.axis import Axis
from carsim.hardware.mapping import MAPPINGS
from carsim.hardware.technology import TECHNOLOGIES
from carsim.hardware.technology.price import total
from carsim.runs.first import PRECISIONS, Choice, Wish
from carsim.workload.workload import SAMPLES, Workload

Values = Mapping[str, Any]
"""A machine of a space: a value of each axis, by its name."""

ALL_BOARDS = "all"
"""Stands for all shipped boards, as a kind of technology stands for those that are made in it."""

MEMORY = "memory"
"""Name of the axis of the technology's choices."""

BATCH = "policy.batch"
CORES = "machine.cores"
MAPPING = "machine.mapping"
ROWS = "machine.array.rows"
COLS = "machine.array.cols"
LANES = "machine.vector.lanes"
TILE = "machine.tile_kib"
CLOCK = "board.fabric_clock_mhz"
WEIGHT_BUFFER = "machine.weight_buffer_kib"
KV_BUFFER = "machine.kv_buffer_kib"
ACTIVATION_BUFFER = "machine.activation_buffer_kib"
EXPONENTIALS = "machine.vector.exponentials_per_cycle"

ARRAY_SIDES = (8, 16, 24, 32, 48, 64, 96, 128, 192, 256)

KINDS: Mapping[str, tuple[Any, ...]] = {
    BATCH: (1, 2, 4, 8, 16, 32, 64),
    CORES: (1, 2, 3, 4, 6, 8, 12, 16, 24, 32),
    MAPPING: tuple(MAPPINGS),
}
"""Axes of kinds and their usual values."""

SIZES: Mapping[str, tuple[Any, ...]] = {
    ROWS: ARRAY_SIDES,
    COLS: ARRAY_SIDES,
    LANES: (8, 16, 32, 64, 128, 256, 512),
    WEIGHT_BUFFER: (32, 64, 128, 256, 512, 1024, 2048),
    KV_BUFFER: (32, 64, 128, 256, 512, 1024),
    ACTIVATION_BUFFER: tuple(1 << power for power in range(4, 16)),
    TILE: (16, 32, 64, 128),
}
"""Axes of sizes and their usual values, ascending. Up to 65,536 multipliers a core and 2,097,152 a
machine; the largest array on a published inference chip has 256 x 256 (TPU v1)."""

EXPONENTIAL_RATES = (8, 16, 32, 64, 128, 256, 512)
"""Usual values of :data:`EXPONENTIALS`, an axis of networks: scores that a core takes a cycle."""

CLOCK_SHARES = (0.5, 0.75, 1.0, 1.25, 1.5)
"""Clocks relative to that of the board's file, as far as published designs go."""

FREE_AXES = (*KINDS, *SIZES, CLOCK, EXPONENTIALS)
"""Axes whose values a user can replace."""


@dataclass(frozen=True)
class Space:
    """The machines of one board in one precision.

    Attributes:
        board: Name of the board's preset, or its file.
        bits: Bits of a weight; None: the precision of the model's own file.
        base: The design that the values of axes change.
        kinds: Axes of kinds.
        sizes: Axes of sizes, values ascending.
    """

    board: str
    bits: int | None
    base: Design
    kinds: tuple[Axis, ...]
    sizes: tuple[Axis, ...]

    @property
    def size(self) -> int:
        """Machines of the space."""
        return prod(len(axis.values) for axis in (*self.kinds, *self.sizes))

    @cached_property
    def axes(self) -> Mapping[str, Axis]:
        """All axes by name."""
        return {axis.name: axis for axis in (*self.kinds, *self.sizes)}

    def design(self, values: Values) -> Design:
        """The design of a machine.

        Raises:
            InputError: Its fields do not go together.
        """
        changes: dict[str, Any] = {}
        for name, value in values.items():
            changes |= self.axes[name].changes(value)
        return override(self.base, changes)

    @cached_property
    def fastest_mhz(self) -> float:
        """The clock of the board's file: it is taken even if no published design has reached it."""
        return self.base.board.fabric_clock_mhz

    @cached_property
    def least_usd(self) -> Mapping[Any, float]:
        """Price of the smallest machine with each choice of memory; infinite where unknown."""
        smallest = {axis.name: axis.values[0] for axis in (*self.kinds, *self.sizes)}
        prices = {}
        for choice in self.axes[MEMORY].values:
            design = self.design({**smallest, MEMORY: choice})
            price = total(design.board.technology.prices(design))
            prices[choice] = inf if price is None else price.value
        return prices

    @cached_property
    def _memory_grades(self) -> Mapping[Any, tuple[int, int]]:
        """Places of each choice of memory among all numbers of channels, and of GiB a channel."""
        amounts = {}
        for choice in self.axes[MEMORY].values:
            memories = override(self.base, self.axes[MEMORY].changes(choice)).board.memories
            channels = sum(memory.channels for memory in memories.values())
            gib = fsum(memory.capacity_gib for memory in memories.values())
            amounts[choice] = (channels, gib / channels)
        sorted_channels = sorted({channels for channels, _ in amounts.values()})
        sorted_gib = sorted({gib for _, gib in amounts.values()})
        return {
            choice: (sorted_channels.index(channels), sorted_gib.index(gib))
            for choice, (channels, gib) in amounts.items()
        }

    def steps(self, name: str, value: Any) -> list[Any]:
        """Values of an axis that are one step away.

        Of sizes, batches and cores: the next smaller and the next larger value. Of memories: the
        next number of channels, the next number of GiB a channel, or both. Of mappings: all.
        """
        values = self.axes[name].values
        if name == MAPPING:
            return [mapping for mapping in values if mapping != value]
        if name == MEMORY:
            return self._neighbouring_memories(value)
        index = values.index(value)
        return [values[n] for n in (index - 1, index + 1) if 0 <= n < len(values)]

    def _neighbouring_memories(self, value: Any) -> list[Any]:
        """Choices of memory whose channels and GiB a channel are at most one step away."""
        channels_grade, gib_grade = self._memory_grades[value]
        neighbours = []
        for choice, (channels, gib) in self._memory_grades.items():
            channels_are_near = abs(channels - channels_grade) <= 1
            gib_is_near = abs(gib - gib_grade) <= 1
            if choice != value and channels_are_near and gib_is_near:
                neighbours.append(choice)
        return neighbours


def spaces_of(
    boards: Sequence[str],
    model: str,
    bits: Sequence[int | None] | None = None,
    scope: str = "row",
    axes: Mapping[str, Sequence[Any]] | None = None,
    *,
    workload: Workload | None = None,
) -> list[Space]:
    """The spaces of some boards, one for each precision.

    Args:
        boards: Presets, files of boards or designs, kinds of technology, or :data:`ALL_BOARDS`.
        model: Preset of the model, or its ``config.json``.
        bits: Bits of a weight that are allowed, None being the precision of the model's own file;
            left out: that of the file; for a preset 4 bits, and 8 bits where it is a network.
        scope: Scope of the replay decisions.
        axes: Values of some axes in place of the usual ones.
        workload: What is made; the sample of a network, and perhaps the network itself.

    Raises:
        InputError: No such board, model, precision or axis, or values that an axis cannot take.
    """
    is_file = "preset" not in model_base(model)
    if bits is None:
        bits = (None,) if is_file else (8 if _is_sample(workload) else 4,)
    for width in bits:
        if width is None and not is_file:
            problem = f"{model} is a preset, without a precision of its own"
            raise InputError("`bits`", problem, f"choose from {', '.join(map(str, PRECISIONS))}")
        if width is not None and width not in PRECISIONS:
            problem = f"{width} bits are no precision of weights"
            raise InputError("`bits`", problem, f"choose from {', '.join(map(str, PRECISIONS))}")
    chosen = _chosen_axes(axes or {})
    return [
        _space(
            {"name": f"{model} on {name}", "board": section, "model": model_base(model)},
            Path(name),
            workload=workload,
            bits=width,
            scope=scope,
            chosen=chosen,
        )
        for name, section in _board_sections(boards).items()
        for width in dict.fromkeys(bits)
    ]


def parse_space_axis(text: str) -> tuple[str, tuple[Any, ...]]:
    """An axis of a space as it is typed: ``machine.cores=2,4`` or ``machine.cores=[2, 4]``.

    Raises:
        InputError: No such axis, or no values.

    >>> parse_space_axis("machine.cores=2,4")
    ('machine.cores', (2, 4))
    """
    name, _, values = text.partition("=")
    where = f"`axis` {name.strip()}"
    if name.strip() not in FREE_AXES:
        raise InputError(where, "is no axis of the space", choose(name.strip(), FREE_AXES))
    body = values if values.strip().startswith("[") else f"[{values}]"
    listed = parse_yaml(body, where)
    if not isinstance(listed, list) or not listed:
        raise InputError(where, f"got {shown(values)}", "give values such as machine.cores=2,4")
    return name.strip(), tuple(listed)


# -------------------------------------------------------------------- private


def _chosen_axes(axes: Mapping[str, Sequence[Any]]) -> dict[str, tuple[Any, ...]]:
    """Values of axes that replace the usual ones: each once, numbers ascending."""
    chosen = {}
    for name, values in axes.items():
        where = f"`axis` {name}"
        if name not in FREE_AXES:
            raise InputError(where, "is no axis of the space", choose(name, FREE_AXES))
        once = tuple(dict.fromkeys(values))
        if name == MAPPING:
            for value in once:
                if value not in MAPPINGS:
                    raise InputError(where, f"got {shown(value)}", choose(value, MAPPINGS))
            chosen[name] = once
            continue
        for value in once:
            is_whole = isinstance(value, int) and not isinstance(value, bool)
            is_number = is_whole or (name == CLOCK and isinstance(value, float))
            if not is_number or value <= 0:
                raise InputError(where, f"got {shown(value)}", "give whole numbers above 0")
        chosen[name] = tuple(sorted(once))
    return chosen


def _board_sections(boards: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The section ``board`` of a design for each board that is named.

    Raises:
        InputError: No such board.
    """
    presets = [*shipped_presets()["board"]]
    sections: dict[str, dict[str, Any]] = {}
    for name in boards:
        if name in presets:
            sections[name] = {"preset": name}
        elif name == ALL_BOARDS or name in TECHNOLOGIES:
            for preset in presets:
                if name == ALL_BOARDS or _technology_of(preset) == name:
                    sections[preset] = {"preset": preset}
        elif Path(name).suffix in (".yaml", ".yml") or Path(name).is_file():
            sections[name] = _section_of_file(Path(name))
        else:
            names = [ALL_BOARDS, *TECHNOLOGIES, *presets]
            cure = f"{choose(name, names)}, or name a YAML file of a board"
            raise InputError("`boards`", f"no board {name!r}", cure)
    return sections


def _technology_of(preset: str) -> str:
    """Kind of technology of a preset."""
    return preset_board(preset, "`boards`").technology.kind


def _section_of_file(file: Path) -> dict[str, Any]:
    """The section ``board`` that a user's file holds: a board, or a whole design."""
    contents = read_mapping(file)
    if "board" not in contents:
        return contents
    section = contents["board"]
    if not isinstance(section, dict):
        raise InputError(f"{file}: $.board", f"got {shown(section)}", "give the board's fields")
    return section


def _is_sample(workload: Workload | None) -> bool:
    """The workload is what a network makes all at once."""
    return workload is not None and workload.kind in SAMPLES


def _space(
    written: dict[str, Any],
    board: Path,
    *,
    workload: Workload | None,
    bits: int | None,
    scope: str,
    chosen: Mapping[str, tuple[Any, ...]],
) -> Space:
    """The space of one board in one precision."""
    name = str(board)
    of_work = with_work(written, workload)
    wish = Wish(of_work, board, bits=bits, as_in_file=bits is None, workload=workload)
    is_network = wish.smallest.model.network is not None
    if EXPONENTIALS in chosen and not is_network:
        problem = f"is an axis of networks, and {wish.smallest.model.name} is a decoder"
        raise InputError(f"`axis` {EXPONENTIALS}", problem, "leave it out")
    energy = wish.smallest.board.technology.energy_preset
    usual: dict[str, dict[str, Any]] = {
        "policy": {"batch": 2, "decision_scope": scope},
        "energy": {"preset": energy},
    }
    contents = wish.contents(Choice(bits=bits or 4, array=(16, 16), weight_buffer_kib=256), usual)
    base = design_of(contents, wish.place)
    kinds = [Axis(key, chosen.get(key, values)) for key, values in KINDS.items()]
    memories = {text: dict(sets) for text, sets in base.board.technology.choices(base.board)}
    kinds.append(Axis(MEMORY, tuple(memories), memories))
    sizes = [Axis(key, chosen.get(key, values)) for key, values in SIZES.items()]
    sizes.append(Axis(CLOCK, chosen.get(CLOCK, _clocks_mhz(base))))
    if is_network:
        sizes.append(Axis(EXPONENTIALS, chosen.get(EXPONENTIALS, EXPONENTIAL_RATES)))
    return Space(name, bits, base, kinds=tuple(kinds), sizes=tuple(sizes))


def _clocks_mhz(base: Design) -> tuple[float, ...]:
    """Clocks that published designs make plausible, and that of the board's file."""
    usual = base.board.fabric_clock_mhz
    smallest = override(base, {ROWS: 8, COLS: 8, LANES: 8})
    used = resource_fit(smallest).resources
    published = base.board.technology.published_clock_mhz(smallest, used)
    fastest = usual if published is None else max(usual, published)
    clocks = {share * usual for share in CLOCK_SHARES if share * usual <= fastest}
    return tuple(sorted(clocks | {usual, fastest}))
