"""Conditions in a study file: comparisons and arithmetic over names, and nothing else.

Names are those of axes or dotted paths of design fields (``machine.cores <= policy.batch``). The
text is parsed, never evaluated as Python: what is not in the tables below is refused.
"""

import ast
import operator
from collections.abc import Callable
from typing import Any

from carsim.base.errors import InputError
from carsim.base.yaml_file import shown


def _number(value: Any) -> int | float:
    # Text times a number, or a format, could fill the memory.
    if isinstance(value, int | float):
        return value
    raise TypeError(f"{shown(value)} is no number")


_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: lambda one, other: _number(one) * _number(other),
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: lambda one, other: _number(one) % _number(other),
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda one, many: one in many,
    ast.NotIn: lambda one, many: one not in many,
}
_CALLS: dict[str, Callable[..., Any]] = {"min": min, "max": max, "abs": abs}

_CURE = "compare numbers and names such as machine.cores <= policy.batch, joined by and, or, not"
_MOST_CHARACTERS = 1000
_MOST_DEPTH = 50

LookUp = Callable[[str], Any]


class Expression:
    """A condition or a formula over names.

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
        self._place, self._cure = place, cure
        if len(text) > _MOST_CHARACTERS:
            raise InputError(place, f"is longer than {_MOST_CHARACTERS} characters", "shorten it")
        try:
            self._root = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise self._refusal("is no expression") from None
        self.names: set[str] = set()
        self.compares = any(isinstance(node, ast.Compare) for node in ast.walk(self._root))
        self._check(self._root, _MOST_DEPTH)

    def value(self, look_up: LookUp) -> Any:
        """The value of the expression.

        Args:
            look_up: Value of a name.

        Raises:
            InputError: The values do not go with the operators, such as text with numbers.
        """
        try:
            return _value(self._root, look_up)
        except (TypeError, ValueError, ArithmeticError) as error:
            raise self._refusal(f"has no value: {error}") from None

    def holds(self, look_up: LookUp) -> bool:
        """True if the condition holds."""
        return bool(self.value(look_up))

    # ---------------------------------------------------------------- private

    def _check(self, node: ast.expr, depth: int) -> None:
        """Refuse what is not taken, and note names."""
        if not depth:
            raise self._refusal(f"is nested more than {_MOST_DEPTH} deep")
        if dotted := _dotted(node):
            self.names.add(dotted)
            return
        match node:
            case ast.Constant(value=bool() | int() | float() | str()):
                taken = True
            case ast.Call(func=ast.Name(id=name), args=[_, *_], keywords=[]):
                taken = name in _CALLS
            case ast.Compare(ops=operators):
                taken = all(type(op) in _OPERATORS for op in operators)
            case ast.BinOp(op=op) | ast.UnaryOp(op=op):
                taken = type(op) in _OPERATORS
            case _:
                taken = isinstance(node, ast.BoolOp | ast.Tuple | ast.List)
        if not taken:
            raise self._refusal(f"holds {shown(ast.unparse(node))}, which is not taken")
        parts = node.args if isinstance(node, ast.Call) else ast.iter_child_nodes(node)
        for part in parts:
            if isinstance(part, ast.expr):
                self._check(part, depth - 1)

    def _refusal(self, problem: str) -> InputError:
        return InputError(self._place, f"{shown(self.text)} {problem}", self._cure)


def _value(node: ast.expr, look_up: LookUp) -> Any:
    def value(part: ast.expr) -> Any:
        return _value(part, look_up)

    match node:
        case ast.Constant(value=constant):
            return constant
        case ast.BoolOp(op=op, values=parts):
            return (all if isinstance(op, ast.And) else any)(map(value, parts))
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return [value(part) for part in parts]
        case ast.BinOp(left=left, op=op, right=right):
            return _OPERATORS[type(op)](value(left), value(right))
        case ast.UnaryOp(op=op, operand=operand):
            return _OPERATORS[type(op)](value(operand))
        case ast.Compare(left=left, ops=ops, comparators=others):
            sides = [value(side) for side in (left, *others)]
            tests = zip(ops, sides, sides[1:], strict=False)
            return all(_OPERATORS[type(op)](one, other) for op, one, other in tests)
        case ast.Call(func=ast.Name(id=name), args=parts):
            return _CALLS[name](*map(value, parts))
    return look_up(_dotted(node))


def _dotted(node: ast.expr) -> str:
    """``a.b.c`` of a chain of attributes of a name; nothing of any other."""
    if isinstance(node, ast.Name):
        return node.id
    inner = _dotted(node.value) if isinstance(node, ast.Attribute) else ""
    return f"{inner}.{node.attr}" if isinstance(node, ast.Attribute) and inner else ""
