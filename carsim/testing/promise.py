"""Promises of contracts, and the one that all kinds with fields make."""

import pickle
from typing import Any, TypeVar

import numpy as np

Kind = TypeVar("Kind")


def holds(condition: Any, promise: str) -> None:
    """Check a promise of a contract.

    Args:
        condition: A truth value, or an array or list of them; texts are true if they are not empty.
        promise: The promise in words.

    Raises:
        AssertionError: It does not hold, with the promise.
    """
    # Not np.all of texts, which NumPy 1 refuses.
    if isinstance(condition, np.ndarray):
        is_true = bool(condition.all())
    elif isinstance(condition, list):
        is_true = all(condition)
    else:
        is_true = bool(condition)
    if not is_true:
        raise AssertionError(promise)


def in_another_process(kind: Kind) -> Kind:
    """The kind as it arrives in a worker process: packed, and unpacked again."""
    return pickle.loads(pickle.dumps(kind))


def has_fields(kind: Any) -> None:
    """Fields come back from files and worker processes, and texts name the kind."""
    holds(in_another_process(kind) == kind, "it goes to worker processes")
    holds(type(kind).model_validate(kind.model_dump()) == kind, "fields come back from files")
    holds(hash(kind) == hash(kind.model_copy()), "equal kinds have one hash")
    holds(kind.label in kind.text, "texts name it")
