"""``python -m carsim.testing mine.py``: hold the kinds of plugin files to their contracts."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from carsim.base.errors import InputError
from carsim.base.plugins import load_plugin
from carsim.base.registry import Registry, outside_kinds
from carsim.testing.contracts import CONTRACTS, check_kind, untested

FAILED = 1
"""Exit status of a kind that breaks its contract."""


def examples_of(kind: Any, given: Sequence[Any]) -> Iterator[Any]:
    """Instances of a kind to test: its own, those that the file gives, and that of its defaults."""
    if not isinstance(kind, type):
        yield kind
        return
    for example in given:
        if type(example) is kind:
            yield example
    fields = getattr(kind, "model_fields", {})
    if fields and not any(field.is_required() for field in fields.values()):
        yield kind()


def _gaps(role: str, examples: Sequence[Any]) -> Iterator[str]:
    """Lines on what no instance of a kind was tested in, with the reason of the first of them."""
    refused = [untested(role, example) for example in examples]
    for where, reason in refused[0].items():
        if all(where in of_example for of_example in refused):
            yield f"not tested in {where}: {reason}"


def check_plugins(files: Sequence[str]) -> int:
    """Test all kinds of plugin files, and print a line each; the exit status."""
    examples_of_files: list[Any] = []
    for file in files:
        name = f"carsim_plugin_{load_plugin(Path(file).absolute())[:16]}"
        examples_of_files += getattr(sys.modules[name], "EXAMPLES", ())
    broken = 0
    for role, name in sorted(outside_kinds()):
        if role not in CONTRACTS:
            continue
        examples = list(examples_of(Registry.roles[role][name], examples_of_files))
        problems = [] if examples else ["has no instance to test; name one in EXAMPLES"]
        for example in examples:
            problems += check_kind(role, example)
        for problem in dict.fromkeys(problems):
            print(f"FAIL {role} {name}: {problem}")
        if not problems:
            print(f"ok   {role} {name}")
            for gap in _gaps(role, examples):
                print(f"     {gap}")
        broken += bool(problems)
    if not outside_kinds():
        print(f"{', '.join(files)}: no kind is registered")
    return FAILED if broken or not outside_kinds() else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("name a plugin: python -m carsim.testing mine.py")
    try:
        sys.exit(check_plugins(sys.argv[1:]))
    except InputError as error:
        print(f"carsim.testing: {error}", file=sys.stderr)
        sys.exit(error.exit_status)
