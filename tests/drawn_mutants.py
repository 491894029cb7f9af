"""Draw mutants from all that cosmic-ray can make, run the tests that reach each, print the score.

    python -m pip install -e '.[mutation]'
    python -m pytest -n 2 -q --cov=carsim --cov-context=test --cov-report=
    python tests/drawn_mutants.py carsim/machine carsim/cost --count 60 --seed 25

The second command notes in .coverage which test runs which line; the third draws in equal numbers
from every file. A mutant's tests are those that ran its line, the ones that reach least first; what
a command does in a process of its own is not among them. Results are appended to a file, a line
each, and a mutant that stands there is not run again: the work can be stopped and resumed.

``--verdicts FILE`` (YAML: key of a mutant -> text) says of survivors what they change. Those whose
text begins with "equal" change nothing that can be observed, and do not count.

Left out: annotations, what stands under ``if TYPE_CHECKING``, mutants that do not compile, and
operators whose mutants can seldom be told from the code or from one another.
"""

import argparse
import ast
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from mutants import ROOT, checkout, outcome

from carsim.base.statistics import wilson

LEFT_OUT = ("core/RemoveDecorator", "core/ExceptionReplacer", "core/VariableInserter")
TESTS = 300
"""At most so many tests a mutant."""


class Drawn(NamedTuple):
    """A mutant: the nth place of an operator of cosmic-ray in a file.

    Attributes:
        file: Path from the root of the checkout.
        operator: Name of cosmic-ray's operator.
        nth: Which of the operator's places in the file, from 0.
        line: Line of that place, from 1.
    """

    file: str
    operator: str
    nth: int
    line: int

    @property
    def key(self) -> str:
        """What results and verdicts call it."""
        return f"{self.file}:{self.line} {self.operator.removeprefix('core/')} {self.nth}"


def ignored(tree: ast.Module) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Spans (line, column) that hold no behaviour: annotations, and what only type checkers see."""
    found: list[Any] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation:
            found.append(node.annotation)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns:
            found.append(node.returns)
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            found.append(node)
    return [((n.lineno, n.col_offset), (n.end_lineno, n.end_col_offset)) for n in found]


def possible(file: Path) -> Iterator[Drawn]:
    """All mutants of a file."""
    from cosmic_ray.ast import ast_nodes, get_ast_from_path
    from cosmic_ray.plugins import get_operator, operator_names

    left_out = ignored(ast.parse(file.read_text(encoding="utf-8")))
    tree = get_ast_from_path(file)
    for name in sorted(operator_names()):
        operator = get_operator(name)
        if name.startswith(LEFT_OUT) or operator.arguments():
            continue
        places = (
            place for node in ast_nodes(tree) for place in operator().mutation_positions(node)
        )
        for nth, (start, _) in enumerate(places):
            if not any(low <= start < high for low, high in left_out):
                yield Drawn(file.relative_to(ROOT).as_posix(), name, nth, start[0])


def draw(files: Iterable[Path], count: int, seed: int) -> list[Drawn]:
    """So many mutants: one of each file in turn, until there are enough."""
    chance = random.Random(seed)
    each = []
    for file in sorted(files):
        found = list(possible(file))
        chance.shuffle(found)
        each.append(found)
    chance.shuffle(each)
    turns = (one for turn in zip_longest(*each) for one in turn if one)
    return list(islice(filter(compiles, turns), count))


def compiles(drawn: Drawn) -> bool:
    """Whether its file is Python with the mutant in."""
    try:
        compile(mutated(drawn), drawn.file, "exec")
    except SyntaxError:
        return False
    return True


def mutated(drawn: Drawn) -> str:
    """The text of its file with the mutant in."""
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    text = (ROOT / drawn.file).read_text(encoding="utf-8")
    return str(mutate_code(text, get_operator(drawn.operator)(), drawn.nth))


def reaching(coverage: Any, drawn: Drawn) -> list[str]:
    """The tests that ran its line, those first that ran the fewest lines of its file.

    Of a line that runs as its module is imported: the tests that ran any line of the file, or those
    of its room.
    """
    by_line: dict[int, list[str]] = coverage.contexts_by_lineno(str(ROOT / drawn.file))
    tests = {line: {name.partition("|")[0] for name in by_line[line] if name} for line in by_line}
    sizes = Counter(name for names in tests.values() for name in names)
    names = tests.get(drawn.line) or set(sizes) or {f"tests/{drawn.file.split('/')[1]}"}
    return sorted(names, key=lambda name: (sizes[name], name))[:TESTS]


def collected(copy: Path) -> set[str]:
    """What pytest calls the tests of a copy; some names hold its path."""
    command = [sys.executable, "-m", "pytest", "-n", "0", "-q", "--collect-only", "tests"]
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    said = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True).stdout
    return {line for line in said.splitlines() if "::" in line}


def main() -> int:
    """The command; exit status 1 if a mutant survives that no verdict calls equal."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="+", help="files and folders of carsim")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=25)
    parser.add_argument(
        "--coverage", default=".coverage", help="what pytest --cov-context=test wrote"
    )
    parser.add_argument("--out", type=Path, default=Path("drawn_mutants.jsonl"))
    parser.add_argument("--verdicts", type=Path)
    given = parser.parse_args()
    from coverage import CoverageData

    reached = CoverageData(given.coverage)
    reached.read()
    paths = [Path(path).resolve() for path in given.paths]
    files = {file for path in paths for file in ([path] if path.is_file() else path.rglob("*.py"))}
    chosen = draw(files, given.count, given.seed)
    print(f"{len(chosen)} mutants of {len(files)} files, seed {given.seed}")
    results: dict[str, str] = {}
    if given.out.exists():
        results = dict(map(json.loads, given.out.read_text(encoding="utf-8").splitlines()))
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        copy = checkout(Path(name))
        known = collected(copy)
        for drawn in (each for each in chosen if each.key not in results):
            names = reaching(reached, drawn)
            # Of a case that the copy calls otherwise, all cases of its test.
            tests = [name if name in known else name.partition("[")[0] for name in names]
            text = mutated(drawn)
            (copy / drawn.file).write_text(text, encoding="utf-8")
            found = outcome(copy, tests)
            (copy / drawn.file).write_bytes((ROOT / drawn.file).read_bytes())
            results[drawn.key] = found
            with given.out.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps([drawn.key, found]) + "\n")
            print(f"{found:8} {drawn.key}", flush=True)
    verdicts = yaml.safe_load(given.verdicts.read_text("utf-8")) if given.verdicts else {}
    return score(chosen, results, verdicts)


def score(chosen: list[Drawn], results: dict[str, str], verdicts: dict[str, str]) -> int:
    """Print the score and its 95 % interval (Wilson), in all and by room, and every survivor."""
    alive = [each for each in chosen if results[each.key] == "pass"]
    equal = [each for each in alive if verdicts.get(each.key, "").startswith("equal")]
    counted = [each for each in chosen if each not in equal]
    for room in ("carsim", *sorted({each.file.rpartition("/")[0] for each in counted})):
        here = [each for each in counted if each.file.startswith(f"{room}/")]
        killed = sum(each not in alive for each in here)
        share = wilson(killed, len(here))
        ends = f"[{share.low:.0%}, {share.high:.0%}]"
        print(f"{room:32} {killed:4} of {len(here):4} killed: {killed / len(here):4.0%} {ends}")
    for each in alive:
        print(f"{results[each.key]:8} {each.key}  {verdicts.get(each.key, '')}")
    return int(len(alive) > len(equal))


if __name__ == "__main__":
    sys.exit(main())
