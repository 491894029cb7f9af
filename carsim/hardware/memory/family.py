"""Memory families: what all speed bins of DDR4, or of HBM3, have in common.

A :class:`MemoryFamily` holds everything that carsim knows about a family: how its controllers use
it, what a bit and a standing device cost in energy, and what a chip needs to connect it. The rest
of the package asks the family of a memory and knows no family by name. Families of the package are
rows of ``families.csv``; their constants are rows of ``constants.csv``.

Standby power is that of a device of 8 Gbit, which is a GiB; devices of other densities draw as much
each (a DDR4 of 4 Gbit: 42 to 55 mA). Currents are those of data sheets as DRAMsim3 quotes them
(umd-memsys/DRAMsim3, configs/). Refresh adds (IDD5 - IDD3N) tRFC / tREFI.

Smallest packages: HBM3 comes in stacks of 16 and 24 GB (SK hynix; six of 16 GB are on an H100),
HBM2 in stacks of 4 GB (U280). Others, and floors of stacks (HBM2: 7.75 x 11.87 mm, later 10 to 11
mm square), are from memory, not checked; floors make some 10 % of a price.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from carsim.base.constant import Constant
from carsim.base.files import packaged_rows

if TYPE_CHECKING:
    from carsim.hardware.memory.section import Memory

FOLDER = "carsim.hardware.memory"


@dataclass(frozen=True)
class ChipInterface:
    """Interface of a chip to one family of memory, and the packages beside the chip.

    Attributes:
        bits: Data bits of a package.
        phy_mm2: PHY of so many bits, at any node.
        controller_mm2: Controller of so many bits at 7 nm.
        pj_per_bit: Energy of the chip's side of the interface.
        usd_per_gib: Price of the memory.
        least_gib: Smallest package.
        stack_mm2: Floor of a stack on an interposer; 0 for packages on the circuit board.
    """

    bits: int
    phy_mm2: Constant
    controller_mm2: Constant
    pj_per_bit: Constant
    usd_per_gib: Constant
    least_gib: float
    stack_mm2: float = 0.0

    def packages(self, memory: "Memory") -> int:
        """Packages or stacks that the channels of a memory need."""
        return -(-memory.channels * memory.channel_bits // self.bits)

    def gib(self, memory: "Memory") -> float:
        """GiB that are bought for a memory: what it holds, or the smallest packages."""
        return max(memory.capacity_gib, self.packages(memory) * self.least_gib)


@dataclass(frozen=True)
class MemoryFamily:
    """A family of memories.

    Attributes:
        name: Name of the family, such as ``DDR4``; names of its speed bins begin with it.
        mapping: Its usual address mapping, ``rcb`` or ``bgi``
            (:data:`carsim.hardware.memory.base.MAPPINGS`).
        request_bytes: Bytes of one entry of the controller's queue.
        transfers_per_clock: Transfers of a data pin in one clock of the commands.
        column_nck: Clocks that a column command holds the one command bus; 0 where rows and
            columns have a command bus each.
        activate_nck: Clocks that an activate holds the command bus.
        precharge_nck: Clocks that a precharge holds the command bus.
        dram_pj_per_bit: Energy of a bit that is read or written; None if unknown: a design has to
            state it in its section ``energy``.
        dram_background_w_per_gib: Standby and refresh, of devices of 8 Gbit; None if unknown.
        interface: What a chip needs to connect the family; None if unknown: it can then be used on
            boards that are bought, and on no chip.
        about: Remarks on the family and its source.
    """

    name: str
    mapping: str
    request_bytes: int
    transfers_per_clock: int
    column_nck: int
    activate_nck: int
    precharge_nck: int
    dram_pj_per_bit: Constant | None = None
    dram_background_w_per_gib: Constant | None = None
    interface: ChipInterface | None = None
    about: str = ""

    def __hash__(self) -> int:
        """Hash of the name, as rates of memories are cached by what they depend on."""
        return hash(self.name)


def _constants() -> Mapping[str, Constant]:
    """``constants.csv``: ``FIELD.KIND`` -> constant; a kind is a family, or serves several."""
    return {
        row.pop("name"): Constant.model_validate(row, strict=False)
        for row in packaged_rows(FOLDER, "constants.csv")
    }


def _family(row: Mapping[str, str], constants: Mapping[str, Constant]) -> MemoryFamily:
    """A row of ``families.csv``."""
    name = row["family"]
    interface = ChipInterface(
        bits=int(row["package_bits"]),
        phy_mm2=constants[f"phy_mm2.{row['phy_mm2']}"],
        controller_mm2=constants[f"controller_mm2.{row['controller_mm2']}"],
        pj_per_bit=constants[f"interface_pj_per_bit.{row['interface_pj_per_bit']}"],
        usd_per_gib=constants[f"usd_per_gib.{row['usd_per_gib']}"],
        least_gib=float(row["least_gib"]),
        stack_mm2=float(row["stack_mm2"]),
    )
    return MemoryFamily(
        name=name,
        mapping=row["mapping"],
        request_bytes=int(row["request_bytes"]),
        transfers_per_clock=int(row["transfers_per_clock"]),
        column_nck=int(row["column_nck"]),
        activate_nck=int(row["activate_nck"]),
        precharge_nck=int(row["precharge_nck"]),
        dram_pj_per_bit=constants[f"dram_pj_per_bit.{name}"],
        dram_background_w_per_gib=constants[f"dram_background_w_per_gib.{name}"],
        interface=interface,
        about=row["about"],
    )


def shipped_families() -> Mapping[str, MemoryFamily]:
    """The families of the package by name."""
    constants = _constants()
    rows = packaged_rows(FOLDER, "families.csv")
    return {row["family"]: _family(row, constants) for row in rows}
