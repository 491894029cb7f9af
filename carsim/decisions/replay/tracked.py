"""Arrays that note which of their elements are used, and what is computed with them.

A rule is handed such arrays in place of the decoder's, so that where its decision is known, what it
reads and how many operations it takes follow from what it does (:mod:`.traced`).

Operations are counted as a vector unit executes them: one for each element of a result of
arithmetic, a comparison or a function; one for each product of a sum of products, whose additions
are free; one for each element of any other sum or maximum. Views, shapes and choices of elements
cost nothing. Simplification: a division, root or exponential is an operation like others.

Whatever takes the numbers out of a tracked array is refused: conversions to plain arrays, lists and
Python numbers, and branches on values. Work that is done outside could not be counted.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

from carsim.base.errors import InputError

Values = NDArray[Any]


def escape(what: str) -> InputError:
    """The refusal of something that cannot be followed."""
    cure = "compute with NumPy's functions on the arrays themselves (np.where instead of if)"
    return InputError("rule", f"{what}: its work cannot be counted", cure)


@dataclass
class Ledger:
    """Everything that was done with the tracked arrays of one call.

    Attributes:
        operations: Operations of the vector unit.
        used: By name of a source, which of its elements were used.
    """

    operations: int = 0
    used: dict[str, NDArray[np.bool_]] = field(default_factory=dict)

    def array(self, name: str, values: Values) -> "Tracked":
        """A source: an array whose elements are named.

        Args:
            name: Name of the source.
            values: Its values.
        """
        self.used.setdefault(name, np.zeros(values.size, np.bool_))
        ids = np.arange(values.size).reshape(values.shape)
        return Tracked(values, self, Origin(name, ids))

    def elements(self, name: str) -> int:
        """Number of elements of a source that were used."""
        return int(self.used[name].sum()) if name in self.used else 0


@dataclass(frozen=True, eq=False)
class Origin:
    """Source of elements.

    Attributes:
        name: Name of the source.
        ids: Number of each element within the source, of the shape of the array.
    """

    name: str
    ids: NDArray[np.intp]


class Tracked(NDArrayOperatorsMixin):
    """An array that notes what is done with it.

    Args:
        values: The numbers.
        ledger: Where it is noted.
        origin: The elements of a source that they are; None for what was computed.
        is_product: The array is a fresh product, the sum of which costs nothing more.
    """

    __array_priority__ = 1000

    def __init__(
        self,
        values: Values,
        ledger: Ledger,
        origin: Origin | None = None,
        *,
        is_product: bool = False,
    ) -> None:
        self._values = values
        self._ledger = ledger
        self._origin = origin
        self._is_product = is_product

    # Shapes and types, which say nothing of the numbers.

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of all axes."""
        return self._values.shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self._values.ndim

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._values.size

    @property
    def dtype(self) -> Any:
        """Type of an element."""
        return self._values.dtype

    @property
    def T(self) -> "Tracked":  # noqa: N802 - NumPy's name
        """The axes in reverse."""
        return self._moved(np.transpose)

    def __len__(self) -> int:
        """Length of the first axis."""
        return len(self._values)

    def __iter__(self) -> Iterator["Tracked"]:
        """The parts along the first axis."""
        return (self[index] for index in range(len(self)))

    def __getitem__(self, index: Any) -> "Tracked":
        """Some elements."""
        chosen = _plain_index(index)
        return self._moved(lambda values: values[chosen])

    def _moved(self, move: Callable[[Any], Any]) -> "Tracked":
        """Elements in another order or number; nothing is computed."""
        origin = None
        if self._origin is not None:
            origin = Origin(self._origin.name, np.asarray(move(self._origin.ids)))
        moved = np.asarray(move(self._values))
        return Tracked(moved, self._ledger, origin, is_product=self._is_product)

    def reshape(self, *shape: Any, **named: Any) -> "Tracked":
        """The elements in another shape."""
        return self._moved(lambda values: values.reshape(*shape, **named))

    def transpose(self, *axes: Any) -> "Tracked":
        """The axes in another order."""
        return self._moved(lambda values: values.transpose(*axes))

    def swapaxes(self, first: int, second: int) -> "Tracked":
        """Two axes exchanged."""
        return self._moved(lambda values: values.swapaxes(first, second))

    def ravel(self) -> "Tracked":
        """All elements in one row."""
        return self._moved(np.ravel)

    def squeeze(self, axis: Any = None) -> "Tracked":
        """The array without axes of length 1."""
        return self._moved(lambda values: np.squeeze(values, axis))

    def copy(self) -> "Tracked":
        """A copy of the array."""
        return self._moved(np.copy)

    def astype(self, dtype: Any, **named: Any) -> "Tracked":
        """The elements in another type, which costs nothing."""
        values = self._values.astype(dtype)
        return Tracked(values, self._ledger, self._origin, is_product=self._is_product)

    # Arithmetic.

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **named: Any) -> Any:
        """Count a function of NumPy that works element by element."""
        if named.get("out") is not None:
            raise escape(f"writes into an array (np.{ufunc.__name__} with out)")
        if method == "reduce":
            return _reduced(ufunc.reduce, inputs, named)
        if method != "__call__":
            raise escape(f"calls np.{ufunc.__name__}.{method}")
        if ufunc is np.matmul:
            return _array_function(np.matmul, inputs, named)
        ledger = _use(inputs)
        result = ufunc(*map(_bare, inputs), **named)
        if isinstance(result, tuple):
            ledger.operations += sum(np.size(values) for values in result)
            return tuple(Tracked(np.asarray(values), ledger) for values in result)
        ledger.operations += np.size(result)
        is_product = ufunc in (np.multiply, np.square, np.power)
        return Tracked(np.asarray(result), ledger, is_product=is_product)

    def __array_function__(
        self, function: Any, types: Any, inputs: Any, named: Mapping[str, Any]
    ) -> Any:
        """Count another function of NumPy."""
        return _array_function(function, inputs, named)

    def sum(self, axis: Any = None, **named: Any) -> "Tracked":
        """Sum along axes."""
        return _reduced(np.sum, (self,), {"axis": axis, **named})

    def mean(self, axis: Any = None, **named: Any) -> "Tracked":
        """Mean along axes."""
        return _reduced(np.mean, (self,), {"axis": axis, **named})

    def max(self, axis: Any = None, **named: Any) -> "Tracked":
        """Maximum along axes."""
        return _reduced(np.max, (self,), {"axis": axis, **named})

    def min(self, axis: Any = None, **named: Any) -> "Tracked":
        """Minimum along axes."""
        return _reduced(np.min, (self,), {"axis": axis, **named})

    def any(self, axis: Any = None, **named: Any) -> "Tracked":
        """Whether any is true, along axes."""
        return _reduced(np.any, (self,), {"axis": axis, **named})

    def all(self, axis: Any = None, **named: Any) -> "Tracked":
        """Whether all are true, along axes."""
        return _reduced(np.all, (self,), {"axis": axis, **named})

    def argmax(self, axis: Any = None, **named: Any) -> "Tracked":
        """Place of the maximum."""
        return _reduced(np.argmax, (self,), {"axis": axis, **named})

    def argmin(self, axis: Any = None, **named: Any) -> "Tracked":
        """Place of the minimum."""
        return _reduced(np.argmin, (self,), {"axis": axis, **named})

    def clip(self, low: Any = None, high: Any = None) -> "Tracked":
        """Elements within limits."""
        clipped: Tracked = _array_function(np.clip, (self, low, high), {})
        return clipped

    # What takes the numbers out.

    def __array__(self, *arguments: Any, **named: Any) -> Values:
        """Refuse a conversion to a plain array."""
        raise escape("converts a tracked array to a plain one")

    def __bool__(self) -> bool:
        """Refuse a branch."""
        raise escape("branches on a value")

    def __float__(self) -> float:
        """Refuse a conversion to a number."""
        raise escape("converts a value to a Python number")

    __int__ = __index__ = __complex__ = __float__

    def tolist(self) -> Any:
        """Refuse a conversion to a list."""
        raise escape("converts a tracked array to a list")

    item = tobytes = view = dump = dumps = tofile = tolist

    def __setitem__(self, index: Any, value: Any) -> None:
        """Refuse to write: what is handed to a rule is the decoder's own."""
        raise InputError("rule", "writes to an array that it was shown", "write to its own state")

    def __reduce__(self) -> Any:
        """Refuse to be pickled or copied."""
        raise escape("pickles or copies a tracked array")


class TrackedState(Tracked):
    """An array of the state of a rule, which the rule may write where it learns who computes.

    Args:
        name: Name of the source.
        values: The numbers.
        ledger: Where it is noted.
    """

    def __init__(self, name: str, values: Values, ledger: Ledger) -> None:
        ids = np.arange(values.size).reshape(values.shape)
        ledger.used.setdefault(name, np.zeros(values.size, np.bool_))
        super().__init__(values, ledger, Origin(name, ids))
        self.may_write = False

    def __setitem__(self, index: Any, value: Any) -> None:
        """Store values.

        Raises:
            InputError: Scores may not change the state.
        """
        if not self.may_write:
            problem = "changes its state while it scores"
            raise InputError("rule", problem, "change it in computed(), which learns who computes")
        if isinstance(value, Tracked):
            _use((value,))
        chosen = _plain_index(index)
        self._values[chosen] = _bare(value)


def bare(value: Any) -> Any:
    """The numbers of a result, for who counts: rules have no way to them."""
    return _bare(value)


def use(value: Any) -> None:
    """Note that the elements of a result are used."""
    if isinstance(value, Tracked):
        _use((value,))


def _bare(value: Any) -> Any:
    """The numbers of tracked arrays, also within lists and tuples; anything else as it is."""
    if isinstance(value, Tracked):
        return value._values
    if isinstance(value, list | tuple):
        return type(value)(_bare(item) for item in value)
    return value


def _tracked_in(value: Any) -> Iterator[Tracked]:
    """Tracked arrays of a value, also within lists and tuples."""
    if isinstance(value, Tracked):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tracked_in(item)


def _use(inputs: Any) -> Ledger:
    """Note that all elements of tracked inputs are used; their ledger."""
    ledger: Ledger | None = None
    for array in _tracked_in(tuple(inputs)):
        ledger = array._ledger
        if array._origin is not None:
            ledger.used[array._origin.name][array._origin.ids] = True
    assert ledger is not None  # NumPy asks only where a tracked array takes part
    return ledger


def _plain_index(index: Any) -> Any:
    """An index that does not depend on values; elements that are chosen by value are refused."""
    indices = index if isinstance(index, tuple) else (index,)
    if next(_tracked_in(indices), None) is not None:
        raise escape("chooses elements by their values")
    return index


def _reduced(function: Callable[..., Any], inputs: Any, named: Mapping[str, Any]) -> Tracked:
    """A sum, maximum or the like: an operation for each element, but for sums of fresh products."""
    first = inputs[0]
    ledger = _use(inputs)
    result = np.asarray(function(*map(_bare, inputs), **named))
    adds = function in (np.sum, np.mean, np.add.reduce)
    if not (adds and isinstance(first, Tracked) and first._is_product):
        ledger.operations += np.size(_bare(first))
    if function is np.mean:
        ledger.operations += result.size
    return Tracked(result, ledger)


_VIEWS = (
    np.reshape, np.transpose, np.swapaxes, np.moveaxis, np.rollaxis, np.expand_dims, np.squeeze,
    np.broadcast_to, np.repeat, np.tile, np.flip, np.roll, np.ravel, np.copy, np.atleast_1d,
    np.atleast_2d, np.diagonal,
)  # fmt: skip
_PARTS = (np.split, np.array_split, np.hsplit, np.vsplit)
_JOINS = (np.concatenate, np.stack, np.hstack, np.vstack)
_EMPTY = (np.zeros_like, np.ones_like, np.full_like, np.empty_like)
_SHAPES = (np.shape, np.ndim, np.size, np.result_type, np.iscomplexobj, np.isrealobj)
_REDUCTIONS = (
    np.sum, np.mean, np.max, np.min, np.any, np.all, np.prod, np.argmax, np.argmin,
    np.count_nonzero, np.amax, np.amin,
)  # fmt: skip
_PRODUCTS = (np.matmul, np.dot, np.inner, np.vdot)
_OPERATIONS: dict[Any, Callable[[int, int], int]] = {
    np.where: lambda of_inputs, of_result: of_result,
    np.clip: lambda of_inputs, of_result: 2 * of_result,
    np.round: lambda of_inputs, of_result: of_result,
    np.diff: lambda of_inputs, of_result: of_result,
    np.cumsum: lambda of_inputs, of_result: of_result,
    np.std: lambda of_inputs, of_result: 3 * of_inputs + of_result,
    np.var: lambda of_inputs, of_result: 3 * of_inputs + of_result,
    np.nan_to_num: lambda of_inputs, of_result: of_result,
    np.sort: lambda of_inputs, of_result: of_inputs * max(1, math.ceil(math.log2(of_inputs + 1))),
    np.argsort: lambda of_inputs, of_result: (
        of_inputs * max(1, math.ceil(math.log2(of_inputs + 1)))
    ),
    np.median: lambda of_inputs, of_result: of_inputs * max(1, math.ceil(math.log2(of_inputs + 1))),
}
"""Functions that cost something, and how many operations: of inputs and elements of the result."""


def _array_function(function: Any, inputs: Any, named: Mapping[str, Any]) -> Any:
    """Call a function of NumPy, and count what it does."""
    if named.get("out") is not None:
        raise escape("writes into an array (out)")
    for functions, handle in _FREE:
        if function in functions:
            return handle(function, inputs, named)
    if function in _REDUCTIONS:
        return _reduced(function, inputs, named)
    ledger = _use(inputs)
    plain = {name: _bare(value) for name, value in named.items()}
    result = np.asarray(function(*map(_bare, inputs), **plain))
    ledger.operations += _operations_of(function, inputs, result.size)
    return Tracked(result, ledger)


def _operations_of(function: Any, inputs: Any, of_result: int) -> int:
    """Operations of a function that is neither a view nor a plain sum.

    Args:
        function: NumPy's function.
        inputs: Its arguments.
        of_result: Elements of its result.
    """
    if function in _JOINS:
        return 0
    if function is np.einsum:
        return _products_of_einsum(*inputs)
    first = _bare(inputs[0])
    if function is np.vdot:
        return int(np.size(first))
    if function in _PRODUCTS:
        return of_result * int(np.shape(first)[-1] if np.ndim(first) else 1)
    if function is np.linalg.norm:
        return int(np.size(first)) + of_result
    if function not in _OPERATIONS:
        name = getattr(function, "__name__", str(function))
        raise escape(f"calls np.{name}, which is not known here")
    of_inputs = max(array.size for array in _tracked_in(tuple(inputs)))
    return _OPERATIONS[function](of_inputs, of_result)


def _shape_of(function: Any, inputs: Any, named: Mapping[str, Any]) -> Any:
    """The result of a function that looks at shapes alone."""
    return function(*map(_bare, inputs), **named)


def _view_of(function: Any, inputs: Any, named: Mapping[str, Any]) -> Tracked:
    """The result of a function that moves elements and computes nothing."""
    array, *rest = inputs
    moved: Tracked = array._moved(lambda values: function(values, *rest, **named))
    return moved


def _parts_of(function: Any, inputs: Any, named: Mapping[str, Any]) -> list[Tracked]:
    """The arrays into which a function splits a tracked one, each tracked."""
    array, *rest = inputs
    count = len(function(_bare(array), *rest, **named))
    return [
        _part_of(array, lambda values: function(values, *rest, **named), n) for n in range(count)
    ]


def _part_of(array: Tracked, split: Callable[[Any], Any], number: int) -> Tracked:
    """One of the arrays into which a tracked one is split."""
    return array._moved(lambda values: split(values)[number])


def _empty_like(function: Any, inputs: Any, named: Mapping[str, Any]) -> Tracked:
    """An array of constants in the shape of a tracked one."""
    ledger = next(_tracked_in(tuple(inputs)))._ledger
    return Tracked(function(*map(_bare, inputs), **named), ledger)


_FREE = ((_SHAPES, _shape_of), (_VIEWS, _view_of), (_PARTS, _parts_of), (_EMPTY, _empty_like))
"""Functions that cost nothing, and how the result is followed."""


def _products_of_einsum(subscripts: Any, *operands: Any) -> int:
    """Products of a sum of products: the lengths of all its letters, multiplied."""
    if not isinstance(subscripts, str) or "." in subscripts:
        raise escape("calls np.einsum without letters for all axes")
    lengths: dict[str, int] = {}
    terms = subscripts.split("->")[0].replace(" ", "").split(",")
    for term, operand in zip(terms, operands, strict=True):
        lengths |= dict(zip(term, np.shape(_bare(operand)), strict=True))
    return math.prod(lengths.values())
