"""Shape of a decoded body, and the sections that the metadata of a trace consists of."""

from typing import Annotated, Self

from pydantic import ConfigDict, Field, PositiveInt, StringConstraints, model_validator

from carsim.base.section import Strict

Text = Annotated[str, StringConstraints(min_length=1)]


class TraceSection(Strict):
    """A section of the metadata of a trace, in whose JSON numbers may be infinite."""

    model_config = ConfigDict(ser_json_inf_nan="constants")


class Geometry(TraceSection):
    """Shape of a LLaMA-style decoder body."""

    name: Text = Field(description="what outputs call it")
    n_layers: PositiveInt = Field(description="layers")
    hidden_size: PositiveInt = Field(description="width")
    n_heads: PositiveInt = Field(description="query heads")
    n_kv_heads: PositiveInt = Field(description="key and value heads")
    head_dim: PositiveInt = Field(description="width of a head")
    ffn_size: PositiveInt = Field(description="width of the MLP")

    @property
    def input_widths(self) -> tuple[int, ...]:
        """Widths of the inputs of the body's matrices."""
        return self.hidden_size, self.n_heads * self.head_dim, self.ffn_size

    @model_validator(mode="after")
    def _heads_share_keys_evenly(self) -> Self:
        if self.n_heads % self.n_kv_heads:
            raise ValueError(f"n_heads {self.n_heads} is no multiple of {self.n_kv_heads} kv heads")
        return self


VILA_U_7B = Geometry(
    name="VILA-U-7B",
    n_layers=32,
    hidden_size=4096,
    n_heads=32,
    n_kv_heads=32,
    head_dim=128,
    ffn_size=11008,
)
"""The body that FastCar was published on: LLaMA-2-7B, arXiv 2307.09288, inside VILA-U."""
