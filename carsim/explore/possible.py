"""Conditions over intervals: could a condition hold while its names are only known within limits?

Model: interval arithmetic over the tree of an expression. A name that has no interval can have any
value. The answer "no" is certain; the answer "yes" may be wrong, because each name is taken on its
own wherever it occurs.
"""

import ast
from collections.abc import Mapping, Sequence
from math import inf, isnan
from typing import NamedTuple

from carsim.explore.expression import Expression


class Interval(NamedTuple):
    """Ends of a number that is not known exactly.

    Attributes:
        low: Lower end.
        high: Upper end.
    """

    low: float
    high: float


class Truth(NamedTuple):
    """Truth values that a condition can take.

    Attributes:
        can_hold: The condition may be true.
        can_fail: The condition may be false.
    """

    can_hold: bool
    can_fail: bool


class Limit(NamedTuple):
    """One comparison of a metric with a number.

    Attributes:
        name: The metric.
        is_most: The metric is to be at most the number; else at least.
        number: The number.
    """

    name: str
    is_most: bool
    number: float


ANY = Interval(-inf, inf)
OPEN = Truth(can_hold=True, can_fail=True)


def could_hold(condition: Expression, intervals: Mapping[str, Interval]) -> bool:
    """False only where no values within the intervals make the condition true.

    >>> fast = Expression("latency_s <= 2 and cost_usd < 50", "target")
    >>> could_hold(fast, {"latency_s": Interval(1, inf)})
    True
    >>> could_hold(fast, {"latency_s": Interval(3, inf)})
    False
    """
    tree = ast.parse(condition.text.strip(), mode="eval").body
    return _truth(tree, intervals).can_hold


def limits_of(condition: Expression) -> list[Limit]:
    """The comparisons of a metric with a number that must all hold.

    >>> limits_of(Expression("frames_per_s >= 2 and 20 >= latency_s", "target"))
    [Limit(name='frames_per_s', is_most=False, number=2), \
Limit(name='latency_s', is_most=True, number=20)]
    """
    tree = ast.parse(condition.text.strip(), mode="eval").body
    limits = [_limit(conjunct) for conjunct in _conjuncts(tree)]
    return [limit for limit in limits if limit is not None]


# -------------------------------------------------------------------- private


def _conjuncts(tree: ast.expr) -> list[ast.expr]:
    """The conditions that are joined by ``and``."""
    if isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.And):
        conjuncts = []
        for value in tree.values:
            conjuncts += _conjuncts(value)
        return conjuncts
    return [tree]


def _limit(tree: ast.expr) -> Limit | None:
    """The limit that one comparison states; None if it is of another form."""
    if not isinstance(tree, ast.Compare) or len(tree.ops) != 1:
        return None
    metric = tree.left
    number = tree.comparators[0]
    operator = tree.ops[0]
    is_most = isinstance(operator, ast.Lt | ast.LtE)
    if not is_most and not isinstance(operator, ast.Gt | ast.GtE):
        return None
    if isinstance(metric, ast.Constant) and isinstance(number, ast.Name):  # 20 >= latency_s
        metric, number = number, metric
        is_most = not is_most
    if not isinstance(metric, ast.Name) or not isinstance(number, ast.Constant):
        return None
    if isinstance(number.value, int | float):
        return Limit(metric.id, is_most, number.value)
    return None


def _truth(tree: ast.expr, intervals: Mapping[str, Interval]) -> Truth:
    """Truth values of a condition."""
    if isinstance(tree, ast.BoolOp):
        truths = [_truth(value, intervals) for value in tree.values]
        if isinstance(tree.op, ast.And):
            return _all_of(truths)
        return Truth(
            can_hold=any(truth.can_hold for truth in truths),
            can_fail=all(truth.can_fail for truth in truths),
        )
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.Not):
        inner = _truth(tree.operand, intervals)
        return Truth(can_hold=inner.can_fail, can_fail=inner.can_hold)
    if isinstance(tree, ast.Compare):
        operands = [_number(operand, intervals) for operand in (tree.left, *tree.comparators)]
        compared = zip(operands, tree.ops, operands[1:], strict=False)
        return _all_of([_comparison(left, operator, right) for left, operator, right in compared])
    return OPEN


def _all_of(truths: Sequence[Truth]) -> Truth:
    """Truth values of conditions that must all hold."""
    return Truth(
        can_hold=all(truth.can_hold for truth in truths),
        can_fail=any(truth.can_fail for truth in truths),
    )


def _comparison(left: Interval, operator: ast.cmpop, right: Interval) -> Truth:
    """Truth values of one comparison."""
    if isinstance(operator, ast.Gt | ast.GtE):
        left, right = right, left
    if isinstance(operator, ast.Lt | ast.Gt):
        return Truth(can_hold=left.low < right.high, can_fail=left.high >= right.low)
    if isinstance(operator, ast.LtE | ast.GtE):
        return Truth(can_hold=left.low <= right.high, can_fail=left.high > right.low)
    if isinstance(operator, ast.Eq):
        overlap = left.low <= right.high and right.low <= left.high
        return Truth(can_hold=overlap, can_fail=True)
    return OPEN


def _number(tree: ast.expr, intervals: Mapping[str, Interval]) -> Interval:
    """Ends of a number."""
    if isinstance(tree, ast.Constant) and isinstance(tree.value, int | float):
        return Interval(tree.value, tree.value)
    if isinstance(tree, ast.Name):
        return intervals.get(tree.id, ANY)
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        inner = _number(tree.operand, intervals)
        return Interval(-inner.high, -inner.low)
    if isinstance(tree, ast.BinOp):
        return _arithmetic(
            _number(tree.left, intervals), tree.op, right=_number(tree.right, intervals)
        )
    return ANY


def _arithmetic(left: Interval, operator: ast.operator, right: Interval) -> Interval:
    """Ends of a sum, difference, product or quotient."""
    if isinstance(operator, ast.Add):
        ends = [left.low + right.low, left.high + right.high]
    elif isinstance(operator, ast.Sub):
        ends = [left.low - right.high, left.high - right.low]
    elif isinstance(operator, ast.Mult):
        ends = [a * b for a in left for b in right]
    elif isinstance(operator, ast.Div) and not right.low <= 0 <= right.high:
        ends = [a / b for a in left for b in right]
    else:
        return ANY
    return ANY if any(map(isnan, ends)) else Interval(min(ends), max(ends))
