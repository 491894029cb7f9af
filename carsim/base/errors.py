"""Everything that carsim refuses, as one tree of exceptions.

* :class:`CarsimError` - root; the command line prints its one line and exits with ``exit_status``.

  * :class:`InputError` - bad input: a spec, a trace, an option, an output folder (exit status 2).
  * :class:`PluginError` - a kind from outside that fails or breaks its contract (exit status 2).
  * :class:`MisfitError` - a design that does not fit its board (exit status 3).
  * :class:`SolverError` - a bug: the solver differs from the machine that it solves (status 4).

A message names the place, the offending value and the cure, in one line. Parameters of functions
stand in backquotes, such as `allow_misfit`; the command line puts its options in their place.
What is wrong with an override of a design stands at "`overrides` machine.cores".
"""

import re
from collections.abc import Mapping
from typing import Self


class CarsimError(Exception):
    """Root of all errors that a user can cause and cure."""

    exit_status = 2


class InputError(CarsimError):
    """Input that cannot be used.

    Args:
        place: Where the value stands, such as ``configs/a.yaml: $.machine.cores``.
        problem: What is wrong with it, quoting the value.
        cure: What to do about it; left out only where the problem says it all.
    """

    def __init__(self, place: str, problem: str, cure: str = "") -> None:
        self.place = place
        self.problem = problem
        self.cure = cure
        super().__init__(f"{place}: {problem}" + (f"; {cure}" if cure else ""))

    def named(self, names: Mapping[str, str] | None = None) -> Self:
        """The error in words of another surface, which has no parameters.

        Args:
            names: Names in place of parameters in backquotes; others stay without backquotes, and
                overrides are known by their paths alone.

        >>> error = InputError("`overrides` machine.cores", "got 0", "or set `fidelity`")
        >>> str(error.named()), str(error.named({"overrides": "change"}))
        ('machine.cores: got 0; or set fidelity', 'change machine.cores: got 0; or set fidelity')
        """
        new_names = {"overrides": "", **(names or {})}

        def new_name(match: re.Match[str]) -> str:
            # Without a name, the space behind it goes, too.
            name = new_names.get(match[1], match[1])
            return f"{name}{match[2]}" if name else ""

        def renamed(text: str) -> str:
            return re.sub(r"`(\w+)`( ?)", new_name, text).strip()

        return type(self)(renamed(self.place), renamed(self.problem), renamed(self.cure))

    def __reduce__(self) -> tuple[type["InputError"], tuple[str, str, str]]:
        """Survive the way back from a worker process."""
        return type(self), (self.place, self.problem, self.cure)


class PluginError(InputError):
    """A kind from outside that raises an exception, or gives an answer against its contract.

    In a sweep, it makes a row ``failed``, as it says nothing about the design of the point.
    """


class MisfitError(InputError):
    """A design that does not fit its board; the problem says by how much."""

    exit_status = 3


class SolverError(InputError):
    """The solver differs from the SimPy machine where it promises not to."""

    exit_status = 4


def first_line(error: Exception) -> str:
    """The first line of what a library's exception says, or the name of its class."""
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__)[:160]


class IgnoredKeyWarning(FutureWarning):
    """A key of a design that has lost its meaning: accepted, and left out."""
