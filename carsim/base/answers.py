"""Kinds from outside whose answers are checked, so that a wrong one is refused by name.

A registry is given the checks of its role: method of a kind -> a function that takes the answer,
the kind and the arguments, and says what is wrong. Kinds of the package are held to their contract
by tests and are not slowed down; methods of a kind from outside are replaced by checked ones when
the kind is registered.
"""

import sys
from collections.abc import Callable, Mapping
from functools import wraps
from inspect import isgenerator
from pathlib import Path
from traceback import extract_tb
from typing import Any

from carsim.base.errors import CarsimError, PluginError
from carsim.base.text import one_line

Check = Callable[..., str]
"""Takes an answer, the kind and the arguments; says what is wrong, or nothing."""

CURE = "mend it; 'python -m carsim.testing FILE' holds it to its contract"


def check_answers(kind: type, role: str, name: str, checks: Mapping[str, Check]) -> None:
    """Replace methods of a class from outside by ones whose answers are checked.

    Methods that it inherits from the package stay as they are. Classes are changed once.

    Args:
        kind: The class.
        role: Role of its registry.
        name: Name of the kind.
        checks: Method -> check of its answers.
    """
    for holder in kind.__mro__:
        if holder.__module__.partition(".")[0] == "carsim":
            continue
        for method, check in checks.items():
            written = vars(holder).get(method)
            if callable(written) and not hasattr(written, "is_checked"):
                place = f"{role} {name!r}{file_of(holder)}"
                setattr(holder, method, checked(written, place, check))


def checked(
    method: Callable[..., Any], place: str, check: Check, cure: str = CURE
) -> Callable[..., Any]:
    """A method whose answers are checked, and whose exceptions name it.

    Args:
        method: The method.
        place: The kind in errors.
        check: Check of its answers.
        cure: What to do about a wrong answer, or an exception.
    """
    name = getattr(method, "__name__", "value")

    @wraps(method)
    def call(*arguments: Any, **keywords: Any) -> Any:
        try:
            answer = method(*arguments, **keywords)
            if isgenerator(answer):
                answer = tuple(answer)
        except CarsimError:
            raise
        except (Exception, SystemExit) as error:
            problem = f"{name}() fails ({told(error)}){line_of(error, method)}"
            raise PluginError(place, problem, cure) from error
        problem = _problem(check, answer, arguments, keywords)
        if problem:
            raise PluginError(place, f"{name}() {problem}", cure)
        return answer

    call.is_checked = True  # type: ignore[attr-defined]
    return call


def line_of(error: BaseException, method: Callable[..., Any]) -> str:
    """The line of a file in which one of its methods raised an exception; empty if unknown."""
    code = getattr(method, "__code__", None)
    file = getattr(code, "co_filename", None)
    lines = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == file]
    return f" in line {lines[-1]}" if lines else ""


def file_of(kind: Any) -> str:
    """The file of a class or function from outside as messages name it; empty if there is none."""
    module = sys.modules.get(getattr(kind, "__module__", ""))
    file = getattr(module, "__file__", None)
    return f" of {Path(file).name}" if file else ""


def told(error: BaseException) -> str:
    """An exception in one line: its class, and what it says."""
    text = one_line(str(error))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _problem(
    check: Check, answer: Any, arguments: tuple[Any, ...], keywords: Mapping[str, Any]
) -> str:
    """Words of a check; an answer that it cannot even look at is of the wrong type."""
    try:
        return check(answer, *arguments, **keywords)
    except (TypeError, ValueError, AttributeError) as error:
        return f"gives {type(answer).__name__}, which is not what its contract says ({error})"
