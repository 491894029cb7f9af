"""Times of the kernels of a layer, as they were measured: by block, rows and cores at work.

Model: the time of a block on one core is read from a table. Between two numbers of rows, and
between two numbers of cores, the time is interpolated linearly. Below the first number of rows the
time is that of the first, and beyond the last one it continues the last segment. A constant and a
time per row, ``a + b m``, are two entries: those of 1 and of 2 rows.

Two further kernels occur where some rows replay: ``gather`` collects the rows that a core computes
and spreads their results, and ``replay`` adds cached outputs to the rows that replay.

Simplifications: a table knows neither the sizes of a layer nor its window, so that it holds for the
layers that were measured; what grows with the context is a time per attended token.
"""

from typing import Literal

from pydantic import Field

from carsim.base.section import FieldError, Section
from carsim.base.sizes import PositiveInt

Kernel = Literal["qkv", "attention", "output", "mlp", "gather", "replay"]
"""A block of a layer (:mod:`carsim.program.decoder`), or what replay needs besides."""

BLOCKS: tuple[Kernel, ...] = ("qkv", "attention", "output", "mlp")
"""Kernels that are blocks of a layer, in their order."""

MOST_US = 1e7
"""Longest time of a kernel: ten seconds."""


class KernelTime(Section):
    """Time of one kernel on one core with some rows."""

    block: Kernel = Field(
        description="block of a layer; gather: collecting the rows that a core computes, and "
        "spreading their results, where it does not compute all of its rows; replay: adding cached "
        "outputs to rows that replay"
    )
    rows: PositiveInt = Field(description="rows of the core; all rows where matrices are split")
    at_work: PositiveInt = Field(1, description="cores that work at the same time")
    us: float = Field(
        ge=0, le=MOST_US, description="microseconds of one layer, without those of attended tokens"
    )
    us_per_token: float = Field(
        0.0, ge=0, le=MOST_US, description="further microseconds for each attended token of a row"
    )


def check_kernels(kernels: tuple[KernelTime, ...]) -> None:
    """Refuse tables in which an entry occurs twice, or a time per token has no meaning.

    Raises:
        FieldError: The number of the entry, and what is wrong with it.
    """
    seen: set[tuple[str, int, int]] = set()
    for number, entry in enumerate(kernels):
        key = entry.block, entry.at_work, entry.rows
        if key in seen:
            problem = f"{entry.block} with {entry.rows} rows on {entry.at_work} cores occurs twice"
            raise FieldError(f"kernels.{number}", problem, "leave one of them out")
        seen.add(key)
        if entry.us_per_token and entry.block != "attention":
            problem = f"{entry.us_per_token:g} for {entry.block}, which attends to no token"
            raise FieldError(f"kernels.{number}.us_per_token", problem, "leave it out")
    blocks = {entry.block for entry in kernels}
    if kernels and not blocks & {*BLOCKS}:
        problem = f"has {', '.join(sorted(blocks))} alone"
        raise FieldError("kernels", problem, f"give a time of one of {', '.join(BLOCKS)}")
