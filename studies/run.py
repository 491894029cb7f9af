"""Answer a study of the design space: sweep it, keep its results, draw them, quote them.

    python -m studies.run NAME [--workers N] [--out DIR]
    python -m studies.run NAME --redraw
    python -m studies.run NAME --reduced [--points N] [--turn N]

A study is a folder here, with

- ``study.yaml``, or several ``study*.yaml``, as ``carsim sweep`` reads them;
- ``figure.py``: ``METRICS``, the columns of a result that are kept; ``numbers(frame)``, text by
  name, of which ``answer`` is the finding of the README and every other one stands there
  between ``<!-- NAME -->`` and ``<!-- /NAME -->``; ``draw(frame, path)``, the figure; and, where
  study files name traces that git does not hold, ``prepare(folder)``, which writes them into the
  folder ``made`` that it is given;
- ``points.csv``, ``inputs.json``, ``figure.png`` and ``README.md``, which the first command writes
  (of the README, what ``numbers`` says).

A folder may ask a second question, NAME, in ``NAME*.yaml``, ``NAME.py``, ``NAME.csv``,
``NAME.json`` and ``NAME.png``; its answer stands in the same README between the marks of the block
``NAME``.

The frame has a row per point and the columns ``study`` (the file it is of, without suffix),
``point`` (its place there), the axes, ``status`` and ``METRICS``. It is read back from
``points.csv``, so that what is quoted and drawn is what is kept.

``--redraw`` draws and quotes what ``points.csv`` has, where only other tables have changed.
``--reduced`` evaluates a few points of each study file and compares them with ``points.csv``, draws
into nowhere, and holds the README against the results; it writes nothing and fails if anything is
stale. Which points it takes follows from ``--turn``.
"""

import argparse
import csv
import importlib.util
import json
import sys
import tempfile
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from time import monotonic
from types import ModuleType
from typing import Any

import pandas as pd

from carsim.base.errors import CarsimError, InputError
from carsim.explore.frame import frame_of
from carsim.explore.points import Point, make_points
from carsim.explore.store import Store
from carsim.explore.study import Study, load_study
from carsim.explore.sweep import AllPoints, sweep, work_off
from carsim.explore.workers import start_crew

STUDIES = Path(__file__).parent
POINTS, INPUTS, FIGURE, README = "points.csv", "inputs.json", "figure.png", "README.md"
DETAILS = "details.md"
"""Page beside a README that may hold marked blocks, too."""
MADE = "made"
"""Folder in a study's folder for traces that ``prepare`` makes; git ignores it."""

KEYS = ["study", "point"]
DIGITS = 6
"""Significant, of the numbers that are kept."""

FINDING = "**Finding.** "

WIDTH = 110
"""Characters of a line of the finding."""


@dataclass(frozen=True)
class Folder:
    """A study's folder, or a second question in it.

    Attributes:
        path: Where it is.
        second: Name of the second question; that of the folder if empty.
    """

    path: Path
    second: str = ""

    @property
    def name(self) -> str:
        """Its name."""
        return self.second or self.path.name

    @property
    def files(self) -> list[Path]:
        """Its study files, in order of their names."""
        return sorted(self.path.glob(f"{self.second or 'study'}*.yaml"))

    @property
    def points(self) -> Path:
        """The results that are kept."""
        return self.path / (f"{self.second}.csv" if self.second else POINTS)

    @property
    def input_file(self) -> Path:
        """The hashes of traces that are kept."""
        return self.path / (f"{self.second}.json" if self.second else INPUTS)

    @property
    def drawing(self) -> Path:
        """The figure."""
        return self.path / (f"{self.second}.png" if self.second else FIGURE)

    def numbers(self, frame: pd.DataFrame) -> dict[str, str]:
        """What the README quotes; the answer to a second question is a block of its name."""
        found: dict[str, str] = self.figure.numbers(frame)
        if self.second:
            found[self.second] = text_of(FINDING + found.pop("answer"))
        return found

    @cached_property
    def figure(self) -> ModuleType:
        """Its ``figure.py``, or the module of the second question."""
        name = f"figure_of_{self.name}"
        source = self.path / f"{self.second or 'figure'}.py"
        spec = importlib.util.spec_from_file_location(name, source)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    @cached_property
    def studies(self) -> dict[str, Study]:
        """Its studies by file stem; traces that git does not hold are made first."""
        prepare: Callable[[Path], None] | None = getattr(self.figure, "prepare", None)
        if prepare is not None:
            made = self.path / MADE
            made.mkdir(exist_ok=True)
            prepare(made)
        return {path.stem: load_study(path) for path in self.files}

    @property
    def inputs(self) -> dict[str, str]:
        """SHA-256 of the traces that its studies run on, by name as they write it."""
        return {
            name: trace.sha256
            for study in self.studies.values()
            for name, trace in sorted(study.traces.items())
            if not name.startswith(f"{MADE}/")
        }

    def kept_inputs(self) -> dict[str, str]:
        """What ``inputs`` was when the results were made."""
        kept: dict[str, str] = json.loads(self.input_file.read_text(encoding="utf-8"))
        return kept

    def kept(self) -> pd.DataFrame:
        """The results in ``points.csv``."""
        return pd.read_csv(self.points)


def folders() -> list[Folder]:
    """All studies that this runner serves, by name."""
    first = [Folder(path.parent) for path in STUDIES.glob("*/study.yaml")]
    files = [path for path in STUDIES.glob("*/*.yaml") if path.with_suffix(".py").exists()]
    return sorted(
        [*first, *(Folder(path.parent, path.stem) for path in files)], key=lambda each: each.name
    )


def find(name: str) -> Folder:
    """A study by name.

    Raises:
        InputError: There is none of that name.
    """
    known = {folder.name: folder for folder in folders()}
    if name not in known:
        raise InputError("NAME", f"there is no study {name!r}", f"known are {', '.join(known)}")
    return known[name]


def remake(folder: Folder, *, workers: int | None, out: Path | None) -> None:
    """Evaluate all points, and write results, figure and the README's numbers.

    Args:
        folder: The study.
        workers: Processes; all cores if None, 0 evaluates in this one.
        out: Where stores are kept, so that what is stopped goes on; nowhere if None.

    Raises:
        InputError: A study that cannot be run, or a point that could not be evaluated.
    """
    parts = []
    for stem, study in folder.studies.items():
        start = monotonic()
        store = None if out is None else out / folder.name / stem
        part = sweep(study, store, workers=workers)
        parts.append(_labelled(stem, part))
        counts = ", ".join(f"{n} {status}" for status, n in part["status"].value_counts().items())
        print(f"{folder.name}/{stem}: {counts}, {monotonic() - start:.0f} s")
        failed = part[part["status"] == "failed"]
        if len(failed):
            raise InputError(f"{folder.name}/{stem}", failed["reason"].iloc[0], "run it again")
    _write(folder.points, as_csv(folder, pd.concat(parts)))
    _write(folder.input_file, json.dumps(folder.inputs, indent=1) + "\n")
    redraw(folder)


def redraw(folder: Folder) -> None:
    """Draw the results that are kept, and quote them in the README.

    Raises:
        InputError: The README has no place for a block.
    """
    frame = folder.kept()
    folder.figure.draw(frame, folder.drawing)
    numbers = folder.numbers(frame)
    quote(folder.path / README, numbers)
    print(numbers.get("answer", numbers.get(folder.second)))


def stale(folder: Folder, *, points: int, turn: int) -> list[str]:
    """What of a study's files is no longer so; nothing is written.

    Args:
        folder: The study.
        points: How many points of each study file to evaluate.
        turn: Which ones: another turn takes others.

    Returns:
        A line for each thing.
    """
    if not folder.points.exists():
        return [f"{folder.name}: has no results yet; python -m studies.run {folder.name}"]
    if folder.inputs != folder.kept_inputs():
        return [f"{folder.name}: {POINTS} was made from other traces"]
    frame = folder.kept()
    found = misquoted(folder, frame)
    for stem, study in folder.studies.items():
        all_points = make_points(study)
        some = every_kth(all_points, points, turn)
        own = frame[frame["study"] == stem]
        if len(own) != len(all_points):
            found.append(f"{folder.name}/{stem}: {len(all_points)} points, {len(own)} in {POINTS}")
        new = _table(as_csv(folder, _labelled(stem, evaluated(study, some))))
        known = _table(folder.points.read_text(encoding="utf-8"))
        for key, row in new.items():
            before = known.get(key, {})
            found += [
                f"{folder.name}/{stem}: point {key[1]}: {column} is {value or 'empty'}, "
                f"{before.get(column) or 'empty'} in {POINTS}"
                for column, value in row.items()
                if value != before.get(column, "")
            ]
    with tempfile.TemporaryDirectory() as nowhere:
        folder.figure.draw(frame, Path(nowhere) / FIGURE)
    return found


def misquoted(folder: Folder, frame: pd.DataFrame) -> list[str]:
    """What the README says otherwise than the results."""
    return [
        f"{folder.name}: {page.name} quotes other numbers than {POINTS} has"
        for page, text in quoted_pages(folder.path / README, folder.numbers(frame)).items()
        if text != page.read_text(encoding="utf-8")
    ]


def every_kth(points: Sequence[Point], count: int, turn: int) -> list[Point]:
    """About so many points, evenly spaced, by a step that meets all values of axes in turn.

    >>> every_kth(range(12), 3, 0), every_kth(range(12), 3, 1), every_kth(range(2), 3, 5)
    ([0, 5, 10], [1, 6, 11], [0, 1])
    """
    if len(points) <= count:
        return list(points)
    step = -(-len(points) // count)
    while any(step % divisor == 0 for divisor in range(2, step)):
        step += 1  # a prime shares no factor with the lengths of axes, unless it is one
    return list(points[turn % step :: step])


def evaluated(study: Study, points: Sequence[Point]) -> pd.DataFrame:
    """The results of some points of a study."""
    with Store() as store:
        store.claim(study, "sweep")
        chooser, start = AllPoints(points), partial(start_crew, study, 0)
        chooser.resume(store)
        work_off(store, chooser, start, stop=lambda: False, tell=lambda _: None)
        return frame_of(store)


def as_csv(folder: Folder, frame: pd.DataFrame) -> str:
    """Results as they are kept: points in order, numbers rounded, columns that are wanted."""
    axes = [axis.name for study in folder.studies.values() for axis in study.axes]
    columns = [*KEYS, *dict.fromkeys(axes), "status", *folder.figure.METRICS]
    kept = frame.reindex(columns=columns).sort_values(KEYS)
    return kept.map(_cell).to_csv(index=False, lineterminator="\n")


def quote(readme: Path, numbers: dict[str, str]) -> None:
    """Replace the finding and the marked blocks of a README and its details.

    See :func:`quoted_pages`.
    """
    for page, text in quoted_pages(readme, numbers).items():
        _write(page, text)


def quoted_pages(readme: Path, numbers: dict[str, str]) -> dict[Path, str]:
    """A README and the page of details beside it, as they should be; see :func:`quoted`.

    A block belongs to the page of details if its marks stand there, else to the README.
    """
    details = readme.with_name(DETAILS)
    more = details.read_text(encoding="utf-8") if details.exists() else ""
    of_details = {name: block for name, block in numbers.items() if f"<!-- {name} -->\n" in more}
    of_readme = {name: block for name, block in numbers.items() if name not in of_details}
    text = readme.read_text(encoding="utf-8") if readme.exists() else ""
    pages = {readme: quoted(text, of_readme)}
    if of_details:
        pages[details] = quoted(more, of_details)
    return pages


def quoted(readme: str, numbers: dict[str, str]) -> str:
    r"""A README with its finding, which follows the title, and its marked blocks replaced.

    >>> old = "# Why?\n\n**Finding.** old\n\n<!-- a -->\nx\n<!-- /a -->\n"
    >>> print(quoted(old, {"answer": "new", "a": "1"}))
    # Why?
    <BLANKLINE>
    **Finding.** new
    <BLANKLINE>
    <!-- a -->
    1
    <!-- /a -->
    <BLANKLINE>

    Raises:
        InputError: It has no place for a block.
    """
    text = readme
    if "answer" in numbers:
        title, _, rest = readme.partition("\n\n")
        _, _, rest = rest.partition("\n\n")
        text = f"{title}\n\n{text_of(FINDING + numbers['answer'])}\n\n{rest}"
    for name, block in numbers.items():
        if name == "answer":
            continue
        head, start, tail = text.partition(f"<!-- {name} -->\n")
        _, end, tail = tail.partition(f"<!-- /{name} -->")
        if not start or not end:
            mark = f"<!-- {name} --> and <!-- /{name} -->"
            raise InputError(README, f"has no lines {mark}", "add them where the block belongs")
        text = f"{head}{start}{block.strip()}\n{end}{tail}"
    return text


def text_of(answer: str) -> str:
    """A finding; a number stays with its percent sign."""
    together = answer.replace(" %", "\0%")
    return textwrap.fill(together, WIDTH, break_on_hyphens=False).replace("\0", " ")


# -------------------------------------------------------------------- private


def _labelled(stem: str, frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(study=stem).astype({"study": str})


def _cell(value: Any) -> str:
    """One number as it is kept, whatever type its column has beside others."""
    if value is None or (isinstance(value, float) and value != value):
        return ""
    if isinstance(value, str | bool) or type(value).__name__ in ("bool_", "bool"):
        return str(value)
    return f"{float(value):.{DIGITS}g}"


def _table(text: str) -> dict[tuple[str, str], dict[str, str]]:
    """Rows of a CSV by study and point; cells are text, empty ones left out."""
    return {
        (row["study"], row["point"]): {name: cell for name, cell in row.items() if cell}
        for row in csv.DictReader(text.splitlines())
    }


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m studies.run", description=__doc__.split("\n")[0]
    )
    parser.add_argument("name", metavar="NAME", help=", ".join(each.name for each in folders()))
    parser.add_argument("--reduced", action="store_true", help="check a few points, write nothing")
    parser.add_argument("--redraw", action="store_true", help="draw and quote, evaluate nothing")
    parser.add_argument("--points", type=int, default=12, help="of each study file, if reduced")
    parser.add_argument("--turn", type=int, default=0, help="which points, if reduced")
    parser.add_argument("--workers", type=int, help="processes; all cores if left out")
    parser.add_argument("--out", type=Path, help="keep the stores here, and go on where they are")
    given = parser.parse_args(arguments)
    try:
        folder = find(given.name)
        if given.redraw:
            redraw(folder)
            return 0
        if not given.reduced:
            remake(folder, workers=given.workers, out=given.out)
            return 0
        found = stale(folder, points=given.points, turn=given.turn)
    except CarsimError as error:
        print(f"studies: {error}", file=sys.stderr)
        return error.exit_status
    print("\n".join(found) or f"{folder.name}: results, figure and README agree")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
