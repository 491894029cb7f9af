"""Constants of technologies, each with its interval and its source: ``data/constants.csv``."""

from collections.abc import Mapping
from functools import cache

from carsim.base.constant import Constant
from carsim.base.files import packaged_rows


def rows_of(name: str) -> list[dict[str, str]]:
    """Rows of a table in ``data``."""
    return packaged_rows("carsim.hardware.technology", f"data/{name}.csv")


CONSTANTS: Mapping[str, Constant] = {
    row.pop("name"): Constant.model_validate(row, strict=False) for row in rows_of("constants")
}
"""``data/constants.csv``: constants of technologies by name, those of several kinds as
``FIELD.KIND``. Designs have theirs in their section ``energy``, memories in their family."""


@cache
def by_kind(field: str) -> Mapping[str, Constant]:
    """The constants of a field, by kind."""
    start = f"{field}."
    return {
        name.removeprefix(start): constant
        for name, constant in CONSTANTS.items()
        if name.startswith(start)
    }
