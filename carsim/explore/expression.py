"""Conditions in a study file: comparisons and arithmetic over names, and nothing else.

Names are those of axes or dotted paths of design fields (``machine.cores <= policy.batch``). Of
Python's expressions, only the nodes in the tables below are taken; arithmetic is of numbers alone.
"""

import ast
import re
from collections.abc import Callable
from functools import lru_cache
from types import CodeType
from typing import Any

from carsim.base.errors import InputError
from carsim.base.yaml_file import shown

_TAKEN = (
    ast.Expression, ast.Load, ast.Tuple, ast.List, ast.BoolOp, ast.And, ast.Or,
    ast.UnaryOp, ast.Not, ast.USub, ast.UAdd,
    ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod,
    ast.Compare, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.In, ast.NotIn,
)  # fmt: skip
_CALLS: dict[str, Callable[..., Any]] = {"min": min, "max": max, "abs": abs}

_CURE = "compare numbers and names such as machine.cores <= policy.batch, joined by and, or, not"
_MOST_CHARACTERS = 1000

LookUp = Callable[[str], Any]


class Expression:
    """A condition over names.

    Args:
        text: The expression.
        place: Its name in errors.
        cure: What to write instead.

    Attributes:
        text: As it was written.
        names: Dotted names that it mentions.
        compares: It holds a comparison.

    Raises:
        InputError: Not an expression of the few kinds that are taken.
    """

    def __init__(self, text: str, place: str, cure: str = _CURE) -> None:
        self.text = text
        self._place = place
        self._cure = cure
        try:
            mentioned = _compiled(text)[1]
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            problem = error.args[0] if type(error) is ValueError else "is no expression"
            raise self._refusal(problem) from None
        self.names = frozenset(mentioned.names)
        self.compares = mentioned.compares

    def holds(self, look_up: LookUp) -> bool:
        """True if the condition holds.

        Args:
            look_up: Value of a name.

        Raises:
            InputError: The values do not go with the operators, such as text with numbers.
        """
        names = {"__builtins__": {}, "number": _number, "look_up": look_up, **_CALLS}
        try:
            return bool(eval(_compiled(self.text)[0], names))
        except (TypeError, ValueError, ArithmeticError) as error:
            raise self._refusal(f"has no value: {error}") from None

    @property
    def limited(self) -> dict[str, int]:
        """The name that it says to be at most a number (1), or at least (-1); else none."""
        match ast.parse(self.text.strip(), mode="eval").body:
            case ast.Compare(ast.Name(name), [ast.Lt() | ast.LtE()], [ast.Constant()]):
                return {name: 1}
            case ast.Compare(ast.Name(name), [ast.Gt() | ast.GtE()], [ast.Constant()]):
                return {name: -1}
        return {}

    def _refusal(self, problem: str) -> InputError:
        return InputError(self._place, f"{shown(self.text)} {problem}", self._cure)


# -------------------------------------------------------------------- private


@lru_cache(maxsize=256)
def _compiled(text: str) -> "tuple[CodeType, _Names]":
    """The code of an expression, and what it mentions.

    Raises:
        ValueError: It holds what is not taken.
    """
    if len(text) > _MOST_CHARACTERS:
        raise ValueError(f"is longer than {_MOST_CHARACTERS} characters")
    names = _Names()
    tree = ast.fix_missing_locations(names.visit(ast.parse(text.strip(), mode="eval")))
    return compile(tree, "condition", "eval"), names


class _Names(ast.NodeTransformer):
    """Looks names up, and lets arithmetic have numbers alone: text times one fills the memory."""

    def __init__(self) -> None:
        self.names = set[str]()
        self.compares = False

    def visit(self, node: ast.AST) -> Any:
        """The node as it is evaluated."""
        text = ast.unparse(node)
        match node:
            case ast.Name() | ast.Attribute() if re.fullmatch(r"[\w.]+", text):
                self.names.add(text)
                return _call("look_up", ast.Constant(text))
            case ast.Call(func=ast.Name(id=name), args=[_, *_], keywords=[]) if name in _CALLS:
                return _call(name, *map(self.visit, node.args))
            case ast.BinOp():
                self.generic_visit(node)
                node.left = _call("number", node.left)
                node.right = _call("number", node.right)
                return node
            case ast.Constant(value=int() | float() | str()):
                return node
        if not isinstance(node, _TAKEN):
            raise ValueError(f"holds {shown(text or type(node).__name__)}, which is not taken")
        self.compares |= isinstance(node, ast.Compare)
        return self.generic_visit(node)


def _call(name: str, *values: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), [*values], [])


def _number(value: Any) -> int | float:
    if isinstance(value, int | float):
        return value
    raise TypeError(f"{shown(value)} is no number")
