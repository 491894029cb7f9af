"""Walks through the package: a design through a run, and ``.cores``. ``python tests/walk.py``

A *stop* is a subpackage whose functions are handed the design, one after the other; a *return* is a
stop where the walk was before; an *upward call* hands the design to a subpackage of a higher layer.
"""

import ast
import sys
import tomllib
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

try:
    from carsim.design import Design, load_design
    from carsim.runs.pipeline import run
except ModuleNotFoundError as error:  # of the system's Python
    sys.exit(f"no module {error.name!r}; call it as .venv/bin/python tests/walk.py")

PACKAGE = Path(__file__).parents[1] / "carsim"


class Walk(NamedTuple):
    """Stops of a design in order, and the calls that hand it upwards."""

    stops: tuple[str, ...]
    upward: tuple[str, ...]

    @property
    def returns(self) -> int:
        """Stops at which the walk was before."""
        return len(self.stops) - len(set(self.stops))


def layers() -> dict[str, int]:
    """Height of each subpackage, by the contract of the imports; the lowest is 0."""
    settings = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text(encoding="utf-8"))
    contract = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    heights = enumerate(line.split(" : ") for line in reversed(contract))
    return {name.removeprefix("carsim."): height for height, names in heights for name in names}


def walk_of(design: Design) -> Walk:
    """A run of a design, followed by the functions that are handed it; each counts once."""
    order: dict[Any, str] = {}
    upward: dict[str, None] = {}
    heights = layers()

    def subpackage(frame: FrameType | None) -> str:
        path = Path(frame.f_code.co_filename) if frame else Path()
        return path.relative_to(PACKAGE).parts[0] if path.is_relative_to(PACKAGE) else ""

    def follow(frame: FrameType, event: str, _: Any) -> None:
        given = frame.f_locals if event == "call" else {}
        if given.get("self") is design or not any(each is design for each in given.values()):
            return
        own, caller = subpackage(frame), subpackage(frame.f_back)
        if own:
            order.setdefault(frame.f_code, own)
            if heights.get(own, 0) > heights.get(caller, 99):
                upward.setdefault(f"{caller} -> {own}.{frame.f_code.co_name}")

    sys.setprofile(follow)
    try:
        run(design)
    finally:
        sys.setprofile(None)
    names = list(order.values())
    stops = [name for name, last in zip(names, ["", *names], strict=False) if name != last]
    return Walk(tuple(stops), tuple(upward))


def readers_of(attribute: str) -> tuple[str, ...]:
    """Files that read an attribute of this name; gates have sizes of their own."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        reads = (node for node in nodes if isinstance(node, ast.Attribute))
        if "rtl" not in path.parts and any(node.attr == attribute for node in reads):
            found.append(str(path.relative_to(PACKAGE)))
    return tuple(found)


if __name__ == "__main__":
    walk = walk_of(load_design("zcu102"))
    print(f"design: {len(walk.stops)} stops, {walk.returns} returns: {', '.join(walk.stops)}")
    print(f"upward calls: {', '.join(walk.upward) or 'none'}")
    files = readers_of("cores")
    print(f".cores: read in {len(files)} files: {', '.join(files)}")
