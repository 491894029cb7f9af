"""Strict YAML: no duplicate keys, no surprising scalars.

PyYAML follows YAML 1.1, in which ``no`` is False, ``010`` is 8, ``1:30`` is 90 and ``1e9`` is text,
and it keeps the last of two equal keys without a word. The loader below reads scalars by the core
schema of YAML 1.2 and refuses duplicates.
"""

import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from carsim.errors import InputError

MAX_BYTES = 1_000_000
"""A design is a page of text; anything larger is a mistake."""


class _StrictLoader(yaml.SafeLoader):
    """SafeLoader with YAML 1.2 scalars, unique keys and no aliases."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.events.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.constructor.ConstructorError(
                None, None, "aliases are not allowed; write the value out", mark
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise yaml.constructor.ConstructorError(
                    None, None, f"key {key!r} is not text; put it in quotes", key_node.start_mark
                )
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"key {key!r} appears twice; keep one", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


def _construct_int(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    return int(node.value)


for _tag, _pattern, _first in (
    ("tag:yaml.org,2002:null", r"^(?:~|null|)$", ["~", "n", ""]),
    ("tag:yaml.org,2002:bool", r"^(?:true|false)$", ["t", "f"]),
    ("tag:yaml.org,2002:int", r"^[-+]?(?:0|[1-9][0-9]*)$", list("-+0123456789")),
    (
        "tag:yaml.org,2002:float",
        r"^[-+]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?$",
        list("-+.0123456789"),
    ),
):
    _StrictLoader.add_implicit_resolver(_tag, re.compile(_pattern), _first)
_StrictLoader.add_constructor("tag:yaml.org,2002:int", _construct_int)
_StrictLoader.add_constructor("tag:yaml.org,2002:float", lambda loader, node: float(node.value))


def parse_yaml(text: str, place: str) -> Any:
    """Parse one YAML document.

    Args:
        text: The document.
        place: What to call it in errors.

    Raises:
        InputError: Syntax errors, duplicate or non-text keys, aliases, tags.

    >>> parse_yaml("{a: 1e9, b: no, c: '010', d: 010}", "x")
    {'a': 1000000000.0, 'b': 'no', 'c': '010', 'd': '010'}
    """
    try:
        return yaml.load(text, Loader=_StrictLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{place}:{mark.line + 1}" if mark else place
        raise InputError(where, error.problem or "not valid YAML", "mend the YAML") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        first_line = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(place, f"not valid YAML: {first_line}", "mend the YAML") from None


def read_mapping(path: Path) -> dict[str, Any]:
    """Read a YAML file whose top level is a mapping.

    Raises:
        InputError: The file is missing, unreadable, too large, not UTF-8, or no mapping.
    """
    place = str(path)
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InputError(
                place, f"{path.stat().st_size} bytes are too many for a design", "name a YAML file"
            )
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InputError(place, "is not UTF-8 text", "name a YAML file") from None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputError(place, f"cannot be read: {reason}", "check the path") from None
    loaded = parse_yaml(text, place)
    if not isinstance(loaded, dict):
        kind = "nothing" if loaded is None else type(loaded).__name__
        raise InputError(place, f"expected a mapping at the top level, got {kind}", "see README")
    return loaded
