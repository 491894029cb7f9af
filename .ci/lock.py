"""Write what an environment of carsim is made of: versions, and licences.

    .venv/bin/python .ci/lock.py

``.ci/lock.txt`` has the version of each package that carsim[dev] brings, as constraints for pip:
``pip install -c .ci/lock.txt -e .`` installs what was tested. ``LICENCES.md`` has the licence
of each as its own metadata state it, and those of the data.
"""

import re
from collections.abc import Iterable
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from platform import python_version, system

ROOT = Path(__file__).parents[1]
NAME = re.compile(r"[A-Za-z0-9._-]+")
EXTRA = re.compile(r"""extra == ["']([^"']+)["']""")
DATA = """
| data | licence |
|---|---|
| traces, made by carsim's own decoder and proxy models | Apache-2.0, as carsim |
| figures of publications (speeds, joules, resources) | facts, each with its source |

[traces/README.md](traces/README.md) lists the photographs from which traces were made.
"""


def required(package: Distribution, extras: Iterable[str]) -> list[str]:
    """Names of the packages that one needs itself, with these extras of it."""
    found = []
    for line in package.requires or ():
        asked = EXTRA.search(line)
        name = NAME.match(line)
        if name and (asked is None or asked[1] in extras):
            found.append(name[0])
    return found


def closure(extras: Iterable[str]) -> dict[str, Distribution]:
    """All packages that carsim needs with these extras, by name; those of other systems not."""
    found: dict[str, Distribution] = {}
    asked = required(distribution("carsim"), extras)
    while asked:
        name = asked.pop().lower().replace("_", "-")
        if name in found or name == "carsim":
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            continue
        asked += required(found[name], ())
    return dict(sorted(found.items()))


def licence(package: Distribution) -> str:
    """The licence of a package: its expression, its classifier, or the first line of its text."""
    meta = package.metadata
    classified = [
        each.rpartition(" :: ")[2]
        for each in meta.get_all("Classifier") or ()
        if each.startswith("License :: ")
    ]
    stated = meta.get("License-Expression") or ", ".join(classified) or meta.get("License") or ""
    return (stated.strip().splitlines() or ["not stated"])[0][:80]


def main() -> None:
    """The command."""
    extras = {"dev", "test", "cluster", "content", "parquet", "report", "search", "studio"}
    packages = closure(extras)
    lines = [f"# Python {python_version()}, {system()}\n"]
    lines += [f"{name}=={package.version}\n" for name, package in packages.items()]
    (ROOT / ".ci" / "lock.txt").write_text("".join(lines), encoding="utf-8")
    rows = [f"| {name} | {each.version} | {licence(each)} |\n" for name, each in packages.items()]
    text = "# Licences\n\ncarsim is under the [Apache License 2.0](LICENSE). The table lists the "
    text += "packages that carsim\ncan install, each with the licence that it states "
    text += "(`.ci/lock.py` writes this page).\n\n| package | version tested | licence |\n"
    text += "|---|---|---|\n" + "".join(rows) + DATA
    (ROOT / "LICENCES.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
