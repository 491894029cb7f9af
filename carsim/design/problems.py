"""Where :func:`closest` was; import it from :mod:`carsim.section`."""

from carsim.section import closest

__all__ = ["closest"]
