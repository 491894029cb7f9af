"""Energy constants, each with its interval and its source."""

from typing import Any

from pydantic import Field, ValidationInfo, field_validator

from carsim.base.constant import Constant
from carsim.base.section import Section
from carsim.hardware.memory import STANDARDS

_OF_FPGA = "per MHz; an FPGA needs it"


class Energy(Section):
    """Energy of each operation, and static power."""

    mac_pj: dict[str, Constant] = Field(min_length=1, description="by arithmetic of the array")
    vector_op_pj: Constant
    sram_pj_per_byte: Constant
    dram_pj_per_bit: dict[str, Constant] = Field(
        {},
        description="by family of memory, such as DDR4, or `any`; if absent, that of the family",
    )
    dram_background_w_per_gib: dict[str, Constant] = Field(
        {},
        description="standby and refresh, by family of memory; of devices of 8 Gbit, other "
        "densities draw as much per device; a single constant serves every family; if absent, "
        "that of the family",
    )
    clock_uw_per_mhz_dsp: Constant | None = Field(None, description=_OF_FPGA)
    clock_uw_per_mhz_bram: Constant | None = Field(None, description=_OF_FPGA)
    clock_uw_per_mhz_uram: Constant | None = Field(None, description=_OF_FPGA)
    clock_uw_per_mhz_klut: Constant | None = Field(None, description=_OF_FPGA)
    static_relative: Constant = Field(description="factor on the board's static and host power")

    @field_validator("dram_background_w_per_gib", mode="before")
    @classmethod
    def _one_serves_every_family(cls, raw: Any) -> Any:
        """Take a single constant, as older designs have it, for that of all families."""
        is_one = isinstance(raw, Constant) or (isinstance(raw, dict) and "value" in raw)
        return {"any": raw} if is_one else raw

    @field_validator("dram_pj_per_bit", "dram_background_w_per_gib", mode="before")
    @classmethod
    def _a_part_of_a_constant_completes_that_of_the_family(
        cls, raw: Any, info: ValidationInfo
    ) -> Any:
        """Let a design change one field of a family's constant, such as its value."""
        if not isinstance(raw, dict):
            return raw
        completed = dict(raw)
        for name, entry in raw.items():
            family = STANDARDS.families.get(name)
            usual = getattr(family, str(info.field_name), None)
            if isinstance(entry, dict) and usual is not None:
                completed[name] = {**usual.model_dump(), **entry}
        return completed
