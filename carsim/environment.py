"""The surroundings of a process: variables of those it starts, libraries that may be absent."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


@contextmanager
def environment(wanted: Mapping[str, str]) -> Iterator[None]:
    """Have processes that start inside find these variables, and put back what was there.

    Args:
        wanted: Values by name.
    """
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def has_parquet() -> bool:
    """Parquet files can be written: pyarrow is there and works with the installed NumPy."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        return False
    return True
