"""Strict YAML: no duplicate keys, no surprising scalars.

PyYAML follows YAML 1.1, in which ``no`` is False, ``010`` is 8, ``1:30`` is 90 and ``1e9`` is text,
and it keeps the last of two equal keys without a word. The loader below reads scalars by the core
schema of YAML 1.2 and refuses duplicates.
"""

import json
import re
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import yaml

from carsim.base.errors import InputError
from carsim.base.files import read_text
from carsim.base.text import CONTROL

MAX_BYTES = 1_000_000
"""What carsim reads as YAML is a page of text; anything larger is a mistake."""

MAX_DEPTH = 32
"""Nothing that carsim reads is nested as deep."""

MAX_DIGITS = 400
"""A number that long has no meaning, and Python refuses to read much longer ones."""


class _Refusal(yaml.MarkedYAMLError):
    """Valid YAML that carsim does not take; ``context`` is the cure."""

    def __init__(self, problem: str, cure: str, mark: Any) -> None:
        super().__init__(context=cure, problem=problem, problem_mark=mark)


class _Strict(yaml.constructor.SafeConstructor, yaml.resolver.Resolver):
    """YAML 1.2 scalars, unique keys, and no aliases, tags or merge keys, whatever the parser."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[attr-defined]
        if isinstance(event, yaml.events.AliasEvent):
            raise _Refusal("aliases are not allowed", "write the value out", event.start_mark)
        if getattr(event, "tag", None) is not None:
            tag = event.tag.replace("tag:yaml.org,2002:", "!!")
            raise _Refusal(f"the tag {tag} is not allowed", "leave it out", event.start_mark)
        if self._depth == MAX_DEPTH:
            problem = f"nested more than {MAX_DEPTH} deep"
            raise _Refusal(problem, "nothing here needs that; flatten it", event.start_mark)
        self._depth += 1
        node: yaml.Node | None = super().compose_node(parent, index)  # type: ignore[misc]
        self._depth -= 1
        return node

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:
        value = super().construct_scalar(node)
        if isinstance(value, str) and (found := CONTROL.search(value)):
            problem = f"{shown(value)} holds {found[0]!r}, which is no text"
            raise _Refusal(problem, "leave it out", node.start_mark)
        return value

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            mark = key_node.start_mark
            if not isinstance(key, str):
                raise _Refusal(f"key {shown(key)} is not text", "put it in quotes", mark)
            if key == "<<":
                raise _Refusal("merge keys are not allowed", "write the keys out", mark)
            if key in seen:
                raise _Refusal(f"key {shown(key)} appears twice", "keep one", mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


def _construct_int(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    if len(node.value) > MAX_DIGITS:
        problem = f"a number of {len(node.value)} digits is too long"
        raise _Refusal(problem, "write a smaller one", node.start_mark)
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
    _Strict.add_implicit_resolver(_tag, re.compile(_pattern), _first)
_Strict.add_constructor("tag:yaml.org,2002:int", _construct_int)
_Strict.add_constructor("tag:yaml.org,2002:float", lambda loader, node: float(node.value))


if yaml.__with_libyaml__:

    class _Loader(yaml.composer.Composer, yaml.CSafeLoader):
        """Parses in C, in a tenth of the time, and composes in Python."""

        def __init__(self, stream: str) -> None:
            yaml.CSafeLoader.__init__(self, stream)
            yaml.composer.Composer.__init__(self)

else:
    _Loader = yaml.SafeLoader  # type: ignore[misc, assignment]


class _StrictLoader(_Strict, _Loader):
    """Reads what :class:`_Strict` allows."""


class _Dumper(yaml.SafeDumper):
    """Writes what the strict loader reads back as it was."""

    yaml_implicit_resolvers = _Strict.yaml_implicit_resolvers

    def ignore_aliases(self, data: Any) -> bool:
        return True


def yaml_text(contents: Mapping[str, Any], *, is_short: bool = False) -> str:
    """A mapping as YAML that :func:`parse_yaml` reads back as it was.

    Args:
        contents: The mapping.
        is_short: Innermost mappings stand in one line each.
    """
    text = yaml.dump(
        contents,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=100,
        default_flow_style=None if is_short else False,
    )
    return str(text)


def parse_yaml(text: str, place: str) -> Any:
    """Parse one YAML document.

    Args:
        text: The document.
        place: Its name in errors.

    Raises:
        InputError: Syntax errors, duplicate or non-text keys, aliases, tags, merge keys, nesting
            beyond all need.

    >>> parse_yaml("{a: 1e9, b: no, c: '010', d: 010}", "x")
    {'a': 1000000000.0, 'b': 'no', 'c': '010', 'd': '010'}
    """
    try:
        return yaml.load(text, Loader=_StrictLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{place}:{mark.line + 1}" if mark and "\n" in text.rstrip() else place
        if isinstance(error, _Refusal):
            problem = str(error.problem)
            cure = str(error.context)
        elif isinstance(error, yaml.composer.ComposerError):
            problem = "holds several documents"
            cure = "keep one"
        else:
            problem = f"not valid YAML: {error.problem}"
            has_tab = "'\\t'" in str(error.problem) or "tab character" in str(error.problem)
            cure = "indent with spaces, not with tabs" if has_tab else "mend it"
        raise InputError(where, " ".join(problem.split()), cure) from None
    except (yaml.YAMLError, UnicodeError) as error:
        problem = f"not valid YAML: {' '.join(str(error).split())}"
        raise InputError(place, problem, "mend it") from None


def line_of(text: str, *keys: str) -> int:
    r"""Line of the last of some keys, each below the one before, in a document that is valid.

    >>> line_of("a: 1\nb:\n  c: 2\n", "b", "c")
    3
    """
    node: Any = yaml.compose(text, Loader=_StrictLoader)
    for key in keys:
        key_node, node = next(pair for pair in node.value if pair[0].value == key)
    return int(key_node.start_mark.line) + 1


def shown(value: Any) -> str:
    """A value as it stands in the YAML, shortened, on one line.

    >>> shown("no"), shown((True, 2)), shown(None)
    ("'no'", '[true, 2]', 'nothing')
    """
    if value is None:
        return "nothing"
    text = repr(value) if isinstance(value, str | float) else json.dumps(value, default=repr)
    return text if len(text) <= 60 else text[:57] + "..."


def read_mapping(path: Path, *, like: str = "") -> dict[str, Any]:
    """Read a YAML file whose top level is a mapping.

    Args:
        path: The file.
        like: As of :func:`mapping_of`.

    Raises:
        InputError: The file is missing, unreadable, too large, not UTF-8, or no mapping.
    """
    return mapping_of(read_text(path, MAX_BYTES, "name a YAML file"), str(path), like=like)


def mapping_of(text: str, place: str, *, like: str = "") -> dict[str, Any]:
    """Parse YAML whose top level is a mapping.

    Args:
        text: The document.
        place: Its name in errors.
        like: What such a file begins with, if it is no design.

    Raises:
        InputError: As of :func:`parse_yaml`, or it is no mapping.
    """
    loaded = parse_yaml(text, place)
    if not isinstance(loaded, dict):
        kind = {list: "a list", str: "text", type(None): "nothing"}.get(type(loaded), "a value")
        problem = f"expected 'key: value' lines at the top level, got {kind}"
        usual = "'carsim config show zcu102' prints a whole design"
        raise InputError(place, problem, f"begin with {like}" if like else usual)
    return loaded
