"""The contract of a technology: what a design is built in, and what that takes and draws.

A kind is a frozen section of the board's YAML (``technology: {kind: ...}``) with its behaviour on
it, one file of this folder and one line of :data:`carsim.hardware.technology.TECHNOLOGIES`. Fit,
energy, sweeps and reports iterate over its table of resources and know none of their names. Data
that a kind needs (an area in mm2, a leakage with its interval) are fields of its section; what
every board has (clock, memories, static and host power) stays with the board.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import fsum
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol

from carsim.base.constant import Constant
from carsim.base.section import Section
from carsim.base.units import GB, KIB
from carsim.hardware.technology.price import BOARDS, BoardPrice, Price

if TYPE_CHECKING:
    from carsim.decisions.attention import AttentionPolicy
    from carsim.hardware.energy import Energy
    from carsim.hardware.machine import Machine
    from carsim.hardware.memory.section import Memory
    from carsim.workload.model import Model


NO_FPGA = "for a chip that is no FPGA write technology: {kind: asic, area_mm2: ...} instead"
"""Cure of a board that lacks the counts of an FPGA."""


class Resource(NamedTuple):
    """One resource of a technology.

    Attributes:
        title: As rows of the fit and metrics name it, such as ``DSP slices``.
        unit: Unit of its amounts, such as ``DSP`` or ``mm2``.
        cure: What makes a design take less of it.
    """

    title: str
    unit: str
    cure: str


class Count(NamedTuple):
    """Amounts of a resource: used by a design, and available on its board."""

    used: float
    available: float


@dataclass(frozen=True)
class Resources:
    """Resources of a design: component -> name of the resource -> amount in the resource's unit."""

    by_component: Mapping[str, Mapping[str, float]]

    @cached_property
    def totals(self) -> Mapping[str, float]:
        """Amounts of all components together; resources that none takes are 0."""
        totals: Counter[str] = Counter()
        for amounts in self.by_component.values():
            totals.update(amounts)
        return totals


class IdlePower(NamedTuple):
    """Power that is drawn by being there: ``constant * amount``, in W.

    Attributes:
        component: What draws it, such as ``clocked DSP``.
        name: Name of the constant: parts with the same name err together.
        constant: The constant.
        amount: What it is multiplied by, in W per unit of the constant.
    """

    component: str
    name: str
    constant: Constant
    amount: float


@dataclass(frozen=True, slots=True)
class FitRow:
    """One thing that has to fit.

    Attributes:
        what: What it is.
        needed: How much of it the design takes, in ``unit``.
        available: How much there is.
        unit: ``B`` for bytes, or the unit of the resource, such as ``DSP``.
        detail: What it is made up of; may be empty.
        cure: What makes it fit.
    """

    what: str
    needed: float
    available: float
    unit: str
    detail: str = ""
    cure: str = ""

    @property
    def ok(self) -> bool:
        """There is enough."""
        return self.needed <= self.available

    @property
    def share(self) -> float:
        """The amount needed over that available; the amount needed where none is."""
        return self.needed / (self.available or 1)

    @property
    def misfit(self) -> str:
        """One line that says how much is missing."""
        needed = amount(self.needed, self.unit)
        available = amount(self.available, self.unit)
        missing = amount(self.needed - self.available, self.unit)
        # Reasons of a design are joined by semicolons.
        made_of = f" ({self.detail.replace(';', ',')})" if self.detail else ""
        return f"{self.what}: {needed} needed{made_of}, {available} available, {missing} missing"


class AnyBoard(Protocol):
    """A board as a technology sees it."""

    @property
    def fabric_clock_mhz(self) -> float:
        """Clock of the design's fabric."""

    @property
    def memories(self) -> "Mapping[str, Memory]":
        """External memories by name."""

    @property
    def price(self) -> BoardPrice | None:
        """Price in a shop; None: the table says it."""

    @property
    def name(self) -> str:
        """Name of the board."""


class AnyPolicy(Protocol):
    """A policy as a technology sees it: the choices that need logic of their own."""

    @property
    def schedule(self) -> str:
        """Key of the schedule."""

    @property
    def attention(self) -> "AttentionPolicy":
        """Attention policy."""


class AnyDesign(Protocol):
    """A design as a technology sees it."""

    @property
    def board(self) -> AnyBoard:
        """The board."""

    @property
    def machine(self) -> "Machine":
        """The accelerator."""

    @property
    def model(self) -> "Model":
        """The model that it decodes."""

    @property
    def policy(self) -> AnyPolicy:
        """The policy that it runs."""

    @property
    def energy(self) -> "Energy":
        """Energy constants."""


class PublishedKind(NamedTuple):
    """Kind of published systems whose times tell what to expect of a design.

    Attributes:
        name: ``fpga``, ``gpu``, ``npu``, or the kind of the technology.
        unpublished: Name of the design's own technology where no published system is of it; else
            empty.
    """

    name: str
    unpublished: str = ""


class Technology(Section, ABC):
    """What a design is built in; the contract that every kind meets.

    A kind states its table ``resource_kinds`` and three methods, all without side effects:

    * :meth:`available` has an entry for each resource of the table;
    * :meth:`resources` uses names of the table only, and no amount is negative;
    * :meth:`idle_power` takes what :meth:`resources` gives, at the clock of the design's board;
    * none of them depends on ``machine.mapping``;
    * resources that are named in ``growing`` do grow.

    It may replace :meth:`check_board`, which asks nothing of a board, :meth:`published_clock_mhz`
    :meth:`warnings` and :meth:`published_kind`, and :meth:`intervals`, :meth:`prices`,
    :meth:`choices` and :meth:`interface_pj_per_bit`, which otherwise are those of a bought board.
    """

    kind: str
    resource_kinds: ClassVar[Mapping[str, Resource]]
    growing: ClassVar[frozenset[str]] = frozenset()
    """Resources of which a design never takes less when its array, its vector unit or its buffers
    grow, all else being equal. Prices that depend on the design at all grow with these resources. A
    search rules machines out by them; without such resources it has to try the machines."""
    published_ratios: ClassVar[Mapping[str, tuple[float, float]]] = {}
    """Least and most that published designs took of a resource, over what is predicted of them."""

    @property
    def energy_preset(self) -> str:
        """Energy constants that designs in this technology usually take; a preset's name."""
        return "fpga_16nm"

    def published_kind(self, control: str | None) -> PublishedKind:
        """Kind of published systems that designs in this technology are compared with.

        Args:
            control: What starts the kernels of a step (``overheads.control``); None if not stated.
        """
        return PublishedKind(self.kind, unpublished=f"of technology {self.kind}")

    @property
    def text(self) -> str:
        """The chip in words, from the fields of the section; empty where the board names a part."""
        return ""

    def check_board(self, board: AnyBoard) -> None:
        """Check that the board says all that this technology needs.

        Raises:
            FieldError: The first field of the board that is missing.
        """

    @abstractmethod
    def available(self, board: AnyBoard) -> Mapping[str, float]:
        """Amount of each resource that the board has."""

    @abstractmethod
    def resources(self, design: AnyDesign) -> Resources:
        """Amounts that the design takes, by component, whether or not the board has them."""

    def warnings(self, design: AnyDesign, used: Resources) -> Iterable[str]:
        """Lines on what may not work out though everything fits: a clock beyond published ones."""
        clock_mhz = design.board.fabric_clock_mhz
        fastest_mhz = self.published_clock_mhz(design, used)
        if fastest_mhz is not None and clock_mhz > fastest_mhz:
            yield (
                f"clock: {clock_mhz:g} MHz is more than the {fastest_mhz:g} MHz of the fastest "
                "comparable design that was published"
            )

    def published_clock_mhz(self, design: AnyDesign, used: Resources) -> float | None:
        """Fastest clock of published designs that are comparable, in MHz; None if unknown."""
        return None

    def intervals(self, design: AnyDesign) -> Mapping[str, tuple[float, float]]:
        """Ends of amounts that are known within an interval, by name of the resource."""
        return {}

    def prices(self, design: AnyDesign) -> Iterable[Price]:
        """US dollars by part; none where no price is known.

        A board has the price of a shop, unless it was given more memory than it comes with.
        """
        price = design.board.price or BOARDS.get(design.board.name)
        memories = design.board.memories.values()
        peak_gbps = fsum(memory.peak_gbps for memory in memories)
        capacity_gib = fsum(memory.capacity_gib for memory in memories)
        if not price:
            return
        if peak_gbps < 1.001 * price.memory_gbps and capacity_gib <= price.memory_gib:
            yield Price("board", price.value, price.low, price.high)

    def interface_pj_per_bit(self, memory: "Memory") -> Constant | None:
        """Energy of the chip's side of a memory; None where figures of the memory include it."""
        return None

    def choices(self, board: AnyBoard) -> Iterable[tuple[str, Mapping[str, object]]]:
        """Choices that a search has on the board, each in words with its changes of the design.

        A board that is bought has the memory that it comes with.
        """
        yield "", {}

    @abstractmethod
    def idle_power(self, design: AnyDesign, used: Resources) -> Iterable[IdlePower]:
        """Power of what is there (clocks, leakage) beside the board's static and host power.

        Raises:
            InputError: The design's energy section lacks a constant that this technology needs.
        """

    def counts(self, board: AnyBoard, used: Resources) -> dict[str, Count]:
        """Amounts used and available of each resource, by name, in the order of the table."""
        available = self.available(board)
        return {
            name: Count(used=used.totals.get(name, 0), available=available[name])
            for name in self.resource_kinds
        }

    def rows(self, board: AnyBoard, used: Resources) -> list[FitRow]:
        """A row of the fit for each resource; its detail names the largest component."""
        rows = []
        for name, count in self.counts(board, used).items():
            kind = self.resource_kinds[name]
            detail = ""
            if count.used:
                of_component = {
                    component: amounts.get(name, 0)
                    for component, amounts in used.by_component.items()
                }
                largest = max(of_component, key=of_component.__getitem__)
                detail = f"{largest} {amount(of_component[largest], '')}"
                if name in self.published_ratios:
                    least, most = self.published_ratios[name]
                    detail += f"; published designs took {least:.2g} to {most:.2g} times as much"
            rows.append(
                FitRow(
                    what=kind.title,
                    needed=count.used,
                    available=count.available,
                    unit=kind.unit,
                    detail=detail,
                    cure=kind.cure,
                )
            )
        return rows


def amount(number: float, unit: str) -> str:
    """An amount as lines of the fit print it.

    >>> amount(3360, "DSP"), amount(12.5, "mm2"), amount(65536, "B"), amount(4.2919e9, "B")
    ('3,360 DSP', '12.5 mm2', '64.0 KiB', '4.292 GB')
    """
    if unit != "B":
        shown = f"{number:,}" if isinstance(number, int) else f"{number:,.1f}"
        return f"{shown} {unit}".rstrip()
    return f"{number / GB:.3f} GB" if number >= GB // 100 else f"{number / KIB:.1f} KiB"
