"""Keys of a format's section of a file, read with their types checked."""

import fnmatch
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from carsim.base.section import FieldError
from carsim.base.yaml_file import shown
from carsim.workload.hf_config.keys import PUBLISHED
from carsim.workload.hf_config.tensors import Matrix

MAX_PATTERN = 500
"""Characters of a regular expression; longer ones are of no published file."""


@dataclass(frozen=True)
class Fields:
    """A mapping of a file and its dotted path, for errors.

    Attributes:
        raw: Keys and values.
        path: Where the mapping stands.
    """

    raw: Mapping[str, Any]
    path: str

    def at(self, key: str) -> str:
        """Dotted path of a key."""
        return f"{self.path}.{key}" if self.path else key

    def whole(self, key: str, usual: int | None = None, least: int = 1) -> int:
        """A whole number; null stands for what is left out.

        Raises:
            FieldError: It is none, is below the least, or is missing and has no usual value.
        """
        value = self.raw.get(key)
        if value is None:
            value = usual
        if value is None:
            raise FieldError(self.at(key), "is missing", PUBLISHED)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= 1 << 20:
            problem = f"should be a whole number from {least} to {1 << 20}, got {shown(value)}"
            raise FieldError(self.at(key), problem, PUBLISHED)
        return value

    def bits(self, key: str, usual: int | None = None) -> int:
        """Bits of an element, 1 to 32."""
        value = self.whole(key, usual)
        if value > 32:
            raise FieldError(self.at(key), f"{value} bits are no precision", PUBLISHED)
        return value

    def mean_bits(self, key: str, usual: float | None = None) -> Fraction:
        """Bits of an element as a mean, which may be a fraction."""
        value = self.raw.get(key)
        value = usual if value is None else value
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0.5 <= float(value or 0) <= 32:
            problem = f"should be a number of bits from 0.5 to 32, got {shown(value)}"
            raise FieldError(self.at(key), problem, PUBLISHED)
        return Fraction(str(value))

    def flag(self, key: str, *, usual: bool = False) -> bool:
        """True or false."""
        value = self.raw.get(key)
        if value is None:
            return usual
        if not isinstance(value, bool):
            problem = f"should be true or false, got {shown(value)}"
            raise FieldError(self.at(key), problem, PUBLISHED)
        return value

    def names(self, key: str) -> tuple[str, ...]:
        """A list of names."""
        value = self.raw.get(key)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            problem = f"should be a list of names, got {shown(value)}"
            raise FieldError(self.at(key), problem, PUBLISHED)
        return tuple(value)

    def text(self, key: str, usual: str = "") -> str:
        """A word."""
        value = self.raw.get(key)
        if value is None:
            return usual
        if not isinstance(value, str):
            raise FieldError(self.at(key), f"should be a word, got {shown(value)}", PUBLISHED)
        return value

    def inner(self, key: str) -> "Fields":
        """A section; one that is left out is empty."""
        value = self.raw.get(key)
        if value is None:
            value = {}
        if not isinstance(value, Mapping):
            problem = f"should hold keys, got {shown(value)}"
            raise FieldError(self.at(key), problem, PUBLISHED)
        return Fields(value, self.at(key))

    def sections(self) -> "dict[str, Fields]":
        """The sections among the values, by key."""
        return {
            key: Fields(value, self.at(key))
            for key, value in self.raw.items()
            if isinstance(value, Mapping)
        }


def is_named(matrix: Matrix, names: Iterable[str]) -> bool:
    """A list names the module, or a module that holds it, or a part of its dotted name.

    >>> matrix = Matrix("model.layers.0.mlp.gate_proj", "mlp", inputs=1, outputs=1)
    >>> is_named(matrix, ["model.layers.0.mlp"]), is_named(matrix, ["gate_proj"])
    (True, True)
    >>> is_named(matrix, ["mlp.gate"])
    False
    """
    dotted = [f".{name}." for name in matrix.names]
    for name in names:
        inner = f".{name.strip('.').removesuffix('.weight')}."
        if any(inner in full for full in dotted):
            return True
    return False


def is_globbed(matrix: Matrix, patterns: Iterable[str]) -> bool:
    """A pattern with ``*`` names the module, or a module that holds it.

    >>> matrix = Matrix("model.layers.0.self_attn.q_proj", "attention_qkv", inputs=1, outputs=1)
    >>> is_globbed(matrix, ["model.layers.*.self_attn"]), is_globbed(matrix, ["lm_head"])
    (True, False)
    """
    names = matrix.names
    for pattern in patterns:
        for name in names:
            if fnmatch.fnmatchcase(name, pattern) or fnmatch.fnmatchcase(name, f"{pattern}.*"):
                return True
    return False


def compiled(pattern: str, field: str) -> re.Pattern[str]:
    """A regular expression of a file.

    Raises:
        FieldError: It is none, or is too long.
    """
    if len(pattern) > MAX_PATTERN:
        problem = f"a pattern of {len(pattern)} characters is longer than {MAX_PATTERN}"
        raise FieldError(field, problem, PUBLISHED)
    try:
        return re.compile(pattern)
    except re.error as error:
        problem = f"{shown(pattern)} is no regular expression ({error})"
        raise FieldError(field, problem, PUBLISHED) from None


def is_matched(matrix: Matrix, pattern: re.Pattern[str]) -> bool:
    """A regular expression matches the module's name from its beginning."""
    return any(pattern.match(name) for name in matrix.names)
