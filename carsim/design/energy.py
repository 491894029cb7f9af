"""Energy constants, each with its interval and its source."""

from pydantic import Field, model_validator

from carsim.section import FieldError, NonNegativeFloat, Section


class Constant(Section):
    """A constant with the interval in which it is believed to lie, and where it comes from."""

    value: NonNegativeFloat
    low: NonNegativeFloat
    high: NonNegativeFloat
    source: str = Field(min_length=8)

    @model_validator(mode="after")
    def _ordered(self) -> "Constant":
        if not self.low <= self.value <= self.high:
            raise FieldError(
                "value",
                f"{self.value:g} lies outside of its interval, {self.low:g} to {self.high:g}",
                "change it, or low and high with it",
            )
        return self


class Energy(Section):
    """What an operation costs, and what is drawn by being there."""

    mac_pj: dict[str, Constant] = Field(min_length=1, description="by arithmetic of the array")
    vector_op_pj: Constant
    sram_pj_per_byte: Constant
    dram_pj_per_bit: dict[str, Constant] = Field(
        min_length=1, description="by family of memory, such as DDR4"
    )
    dram_background_w_per_gib: Constant
    clock_uw_per_mhz_dsp: Constant
    clock_uw_per_mhz_bram: Constant
    clock_uw_per_mhz_uram: Constant
    clock_uw_per_mhz_klut: Constant
    static_relative: Constant = Field(description="factor on the board's static and host power")
