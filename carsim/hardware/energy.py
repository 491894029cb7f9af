"""Energy constants, each with its interval and its source."""

from typing import Any

from pydantic import Field, field_validator

from carsim.base.section import Section
from carsim.hardware.technology.constant import Constant

_OF_FPGA = "per MHz; an FPGA needs it"


class Energy(Section):
    """Energy of each operation, and static power."""

    mac_pj: dict[str, Constant] = Field(min_length=1, description="by arithmetic of the array")
    vector_op_pj: Constant
    sram_pj_per_byte: Constant
    dram_pj_per_bit: dict[str, Constant] = Field(
        min_length=1, description="by family of memory, such as DDR4"
    )
    dram_background_w_per_gib: dict[str, Constant] = Field(
        min_length=1,
        description="standby and refresh, by family of memory; of devices of 8 Gbit, other "
        "densities draw as much per device; a single constant serves every family",
    )
    clock_uw_per_mhz_dsp: Constant | None = Field(None, description=_OF_FPGA)
    clock_uw_per_mhz_bram: Constant | None = Field(None, description=_OF_FPGA)
    clock_uw_per_mhz_uram: Constant | None = Field(None, description=_OF_FPGA)
    clock_uw_per_mhz_klut: Constant | None = Field(None, description=_OF_FPGA)
    static_relative: Constant = Field(description="factor on the board's static and host power")

    @field_validator("dram_background_w_per_gib", mode="before")
    @classmethod
    def _one_serves_every_family(cls, raw: Any) -> Any:
        """Designs of before memories had families of their own here gave one constant."""
        is_one = isinstance(raw, Constant) or (isinstance(raw, dict) and "value" in raw)
        return {"any": raw} if is_one else raw
