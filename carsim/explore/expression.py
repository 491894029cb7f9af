"""Conditions in a study file: comparisons and arithmetic over names, and nothing else.

Names are those of axes or dotted paths of design fields (``machine.cores <= policy.batch``). The
text is parsed, never evaluated as Python: what is not in the list below is refused.
"""

import ast
import operator
from collections.abc import Callable
from typing import Any

from carsim.errors import InputError
from carsim.yaml_file import shown

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda one, many: one in many,
    ast.NotIn: lambda one, many: one not in many,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
}
_CALLS: dict[str, Callable[..., Any]] = {"min": min, "max": max, "abs": abs}

_CURE = "compare numbers and names such as machine.cores <= policy.batch, joined by and, or, not"
_MOST_CHARACTERS = 1000


class Expression:
    """A condition or a formula over names.

    Args:
        text: The expression.
        place: What to call it in errors.

    Attributes:
        text: As it was written.
        names: Dotted names that it mentions.

    Raises:
        InputError: Not an expression of the few kinds that are taken.
    """

    def __init__(self, text: str, place: str) -> None:
        self.text = text
        self._place = place
        if len(text) > _MOST_CHARACTERS:
            raise InputError(place, f"is longer than {_MOST_CHARACTERS} characters", "shorten it")
        try:
            self._root = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise self._refusal("is no expression") from None
        self.names: set[str] = set()
        self._check(self._root)

    def value(self, look_up: Callable[[str], Any]) -> Any:
        """What it comes to.

        Args:
            look_up: Value of a name.

        Raises:
            InputError: The values do not go with the operators, such as text with numbers.
        """
        try:
            return self._value(self._root, look_up)
        except (TypeError, ValueError, ArithmeticError) as error:
            raise self._refusal(f"has no value: {error}") from None

    def holds(self, look_up: Callable[[str], Any]) -> bool:
        """Whether it is true."""
        return bool(self.value(look_up))

    # ---------------------------------------------------------------- private

    def _check(self, node: ast.expr) -> None:
        match node:
            case ast.Name() | ast.Attribute():
                self.names.add(self._dotted(node))
                return
            case ast.Constant(value=bool() | int() | float() | str()):
                return
            case ast.BoolOp(values=parts) | ast.Tuple(elts=parts) | ast.List(elts=parts):
                pass
            case ast.BinOp(op=op) if type(op) in _BINARY:
                parts = [node.left, node.right]
            case ast.UnaryOp(op=unary) if type(unary) in _UNARY:
                parts = [node.operand]
            case ast.Compare(ops=ops) if all(type(op) in _COMPARE for op in ops):
                parts = [node.left, *node.comparators]
            case ast.Call(func=ast.Name(id=name), keywords=[]) if name in _CALLS and node.args:
                parts = node.args
            case _:
                raise self._refusal(f"holds {shown(ast.unparse(node))}, which is not taken")
        for part in parts:
            self._check(part)

    def _value(self, node: ast.expr, look_up: Callable[[str], Any]) -> Any:
        match node:
            case ast.Name() | ast.Attribute():
                return look_up(self._dotted(node))
            case ast.Constant(value=value):
                return value
            case ast.BoolOp(op=ast.And()):
                return all(self._value(part, look_up) for part in node.values)
            case ast.BoolOp():
                return any(self._value(part, look_up) for part in node.values)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return [self._value(part, look_up) for part in parts]
            case ast.BinOp():
                sides = (self._value(side, look_up) for side in (node.left, node.right))
                if isinstance(node.op, ast.Mult | ast.Mod):
                    sides = (self._number(side) for side in sides)
                return _BINARY[type(node.op)](*sides)
            case ast.UnaryOp():
                return _UNARY[type(node.op)](self._value(node.operand, look_up))
            case ast.Compare():
                left = self._value(node.left, look_up)
                for op, part in zip(node.ops, node.comparators, strict=True):
                    right = self._value(part, look_up)
                    if not _COMPARE[type(op)](left, right):
                        return False
                    left = right
                return True
            case ast.Call(func=ast.Name(id=name)):
                return _CALLS[name](*(self._value(part, look_up) for part in node.args))
        raise AssertionError("checked when it was parsed")

    def _number(self, value: Any) -> int | float:
        # Text times a number, or a format, could fill the memory.
        if isinstance(value, int | float):
            return value
        raise TypeError(f"{shown(value)} is no number")

    def _dotted(self, node: ast.expr) -> str:
        if isinstance(node, ast.Name):
            return node.id
        if isinstance(node, ast.Attribute):
            return f"{self._dotted(node.value)}.{node.attr}"
        raise self._refusal(f"holds {shown(ast.unparse(node))}, which is not taken")

    def _refusal(self, problem: str) -> InputError:
        return InputError(self._place, f"{shown(self.text)} {problem}", _CURE)
