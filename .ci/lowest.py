"""Print the lowest versions that pyproject.toml allows, as constraints for pip.

    python .ci/lowest.py [EXTRA ...] > lowest.txt

Each ``name>=X,<Y`` of the run-time dependencies, and of the extras named, becomes ``name==X``.
"""

import re
import sys
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"
REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9._-]+)>=(?P<lowest>[0-9.]+),<(?P<beyond>[0-9.]+)")


def lowest(requirements: list[str]) -> list[str]:
    """``name>=X,<Y`` turned into ``name==X``; anything else is refused."""
    constraints = []
    for requirement in requirements:
        match = REQUIREMENT.fullmatch(requirement)
        if match is None:
            raise SystemExit(f"{PYPROJECT.name}: {requirement!r} is not of the form name>=X,<Y")
        constraints.append(f"{match['name']}=={match['lowest']}")
    return constraints


if __name__ == "__main__":
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    chosen = [project["optional-dependencies"][extra] for extra in sys.argv[1:]]
    print("\n".join(lowest(sum(chosen, project["dependencies"]))))
