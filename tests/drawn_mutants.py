"""Draw mutants from all that cosmic-ray can make, run the tests that reach each, print the score.

    python -m pip install -e '.[mutation]'
    python -m pytest -n 2 -q --cov=carsim --cov-context=test --cov-report= --junitxml=out/times.xml
    python tests/drawn_mutants.py carsim/machine carsim/cost --count 60 --seed 25

The second command notes which test runs which line, and the time of each test. The third draws in
equal numbers from every file. A mutant's tests are those that ran its line, up to a share of all
(``--share``); what a command does in a process of its own is not among them (``--also`` names
further ones). A small share is quick, and finds survivors that more tests kill (``--again``).

The work can be stopped and resumed: results are appended to ``out/drawn_mutants.jsonl``, which is
not committed, and a mutant that stands there is not run again (``--again`` runs survivors again,
after a change to the tests). The draw takes a mutant of each file in turn: what has been judged so
far is a sample of all files, too. A mutant is known by its line, its neighbours and its operator,
not by its number: when code changes, mutants of other lines stay in the draw, and results of those
that are gone no longer count.

Verdicts (``--verdicts``, YAML: key of a mutant -> text) say of survivors what they change. Those
whose text begins with "equal" change nothing that can be observed, and do not count.

Left out: annotations, what stands under ``if TYPE_CHECKING``, mutants that do not compile, and
operators whose mutants can seldom be told from the code or from one another.
"""

import argparse
import ast
import difflib
import json
import math
import os
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import yaml

from carsim.base.statistics import wilson

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "out" / "drawn_mutants.jsonl"
COPIED = ("carsim", "configs", "docs", "studies", "tests", "traces", "pyproject.toml", "README.md")
SECONDS = 300
"""Processor time of the tests of one mutant; a mutant that makes tests hang counts as killed."""

MEMORY = 8 << 30
"""Bytes that the tests of one mutant may allocate."""

LEFT_OUT = ("core/RemoveDecorator", "core/ExceptionReplacer", "core/VariableInserter")


class Drawn(NamedTuple):
    """A mutant: the nth place of an operator of cosmic-ray in a file.

    Attributes:
        file: Path from the root of the checkout.
        operator: Name of cosmic-ray's operator.
        nth: Which of the operator's places in the file, from 0.
        line: Line of that place, from 1.
        place: What its line, the lines around it and the operator come to.
    """

    file: str
    operator: str
    nth: int
    line: int
    place: str

    @property
    def key(self) -> str:
        """What results and verdicts call it."""
        return f"{self.file} {self.operator.removeprefix('core/')} {self.place}"


def digest(*parts: object) -> str:
    """A short name of something; sorting by it shuffles."""
    return sha256(repr(parts).encode()).hexdigest()[:10]


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

    text = file.read_text(encoding="utf-8")
    left_out, lines = ignored(ast.parse(text)), ["", *text.splitlines(), "", ""]
    tree, name_of_file = get_ast_from_path(file), file.relative_to(ROOT).as_posix()
    for name in sorted(operator_names()):
        operator = get_operator(name)
        if name.startswith(LEFT_OUT) or name.endswith(("_Is", "_IsNot")) or operator.arguments():
            continue
        places = (
            place for node in ast_nodes(tree) for place in operator().mutation_positions(node)
        )
        same: Counter[str] = Counter()
        for nth, ((line, column), _) in enumerate(places):
            place = digest(lines[line - 1 : line + 2], column)
            same[place] += 1
            if not any(low <= (line, column) < high for low, high in left_out):
                yield Drawn(name_of_file, name, nth, line, f"{place}.{same[place]}")


def draw(files: Iterable[Path], count: int, seed: int) -> list[Drawn]:
    """So many mutants: one of each file in turn, until there are enough."""
    each = [sorted(possible(file), key=lambda one: digest(seed, one.key)) for file in files]
    each = sorted(filter(None, each), key=lambda found: digest(seed, found[0].file))
    turns = (one for turn in zip_longest(*each) for one in turn if one)
    return list(islice(filter(compiles, turns), count))


def compiles(drawn: Drawn) -> bool:
    """Whether its file is Python, without a warning, with the mutant in."""
    try:
        with warnings.catch_warnings(action="error"):
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


def change(drawn: Drawn) -> str:
    """The lines that a mutant takes away and puts in."""
    texts = (ROOT / drawn.file).read_text(encoding="utf-8"), mutated(drawn)
    lines = difflib.unified_diff(*(text.splitlines() for text in texts), n=0, lineterm="")
    return "\n".join(line for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---"))


def seconds_of_tests(junit: Path) -> dict[str, float]:
    """How long each test took, by the name that pytest gives it."""
    return {
        f"{case.attrib['classname'].replace('.', '/')}.py::{case.attrib['name']}": float(
            case.attrib["time"]
        )
        for case in ElementTree.parse(junit).iter("testcase")
    }


def reaching(coverage: Any, seconds: Mapping[str, float], drawn: Drawn, most_s: float) -> list[str]:
    """The tests that ran its line, of together so long, at least one.

    First those of its module by name, then those of its folder, each the quickest first.

    Of a line that runs as its module is imported: the tests that ran any line of the file, or those
    of its room.
    """
    by_line: dict[int, list[str]] = coverage.contexts_by_lineno(str(ROOT / drawn.file))
    tests = {line: {name.partition("|")[0] for name in by_line[line] if name} for line in by_line}
    names = tests.get(drawn.line, set())
    if not names or "" in by_line[drawn.line]:
        names = {name for found in tests.values() for name in found}
    room = f"tests/{drawn.file.split('/')[1]}/"
    own = f"test_{Path(drawn.file).stem}"
    names = names or {name for name in seconds if name.startswith(room)}
    chosen, spent = [], 0.0

    def rank(name: str) -> tuple[Any, ...]:
        return own not in name, not name.startswith(room), seconds.get(name, 1.0), name

    for name in sorted(names, key=rank):
        spent += seconds.get(name, 1.0)
        if chosen and spent > most_s:
            break
        chosen.append(name)
    return chosen


def collected(copy: Path) -> set[str]:
    """What pytest calls the tests of a copy; some names hold its path."""
    command = [sys.executable, "-m", "pytest", "-n", "0", "-q", "--collect-only", "tests"]
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    said = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True).stdout
    return {line for line in said.splitlines() if "::" in line}


def checkout(copy: Path) -> Path:
    """Copy into an empty folder what tests need."""
    for each in COPIED:
        copied = shutil.copytree if (ROOT / each).is_dir() else shutil.copy
        copied(ROOT / each, copy / each)
    return copy


def limit() -> None:
    """In a process of its own: end it after some time of the processor, refuse much memory."""
    resource.setrlimit(resource.RLIMIT_CPU, (int(SECONDS) + 1, int(SECONDS) + 60))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))  # Yosys reserves address space


def outcome(copy: Path, tests: Sequence[str]) -> str:
    """What the tests do on a copy of the checkout: ``pass``, ``fail`` or ``hang``.

    Args:
        copy: Where the checkout is.
        tests: Arguments of pytest.
    """
    command = [sys.executable, "-m", "pytest", "-n", "0", "-q", "-x", "-p", "no:cacheprovider"]
    try:
        done = subprocess.run(
            [*command, *tests],
            cwd=copy,
            env={
                **os.environ,
                "PYTHONPATH": str(copy),
                "PYTHONDONTWRITEBYTECODE": "1",
                "HYPOTHESIS_PROFILE": "mutants",
            },
            capture_output=True,
            text=True,
            timeout=4 * SECONDS,
            preexec_fn=limit,
        )
    except subprocess.TimeoutExpired:
        return "hang"
    if done.returncode == -signal.SIGXCPU:
        return "hang"
    # carsim can no longer be imported, or Python itself ended
    if "while loading conftest" in done.stderr or "ERROR collecting" in done.stdout:
        return "fail"
    if done.returncode < 0:
        return "fail"
    # carsim names some cases, and now otherwise
    if done.returncode == 4 and any("[" in test for test in tests):
        return outcome(copy, list(dict.fromkeys(test.partition("[")[0] for test in tests)))
    if done.returncode not in (0, 1):
        called = shlex.join(tests)[:300]
        raise SystemExit(f"pytest {called}: exit status {done.returncode}\n{done.stdout[-2000:]}")
    return "fail" if done.returncode else "pass"


def judged(
    chosen: Sequence[Drawn], results: Mapping[str, str], given: argparse.Namespace
) -> Iterator[tuple[Drawn, str]]:
    """What the tests do to each mutant that has no result yet, one after the other."""
    from coverage import CoverageData

    reached = CoverageData(given.coverage)
    reached.read()
    seconds, began = seconds_of_tests(given.times), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        copy = checkout(Path(name))
        known = collected(copy)
        for drawn in (each for each in chosen if each.key not in results):
            if time.monotonic() - began > given.seconds:
                return
            names = reaching(reached, seconds, drawn, given.share * math.fsum(seconds.values()))
            # Of a case that the copy calls otherwise, all cases of its test.
            tests = [name if name in known else name.partition("[")[0] for name in names]
            (copy / drawn.file).write_text(mutated(drawn), encoding="utf-8")
            yield drawn, outcome(copy, list(dict.fromkeys([*tests, *given.also])))
            (copy / drawn.file).write_bytes((ROOT / drawn.file).read_bytes())


def page(
    chosen: Sequence[Drawn], lines_of: Sequence[tuple[str, str]], verdicts: Mapping[str, str]
) -> str:
    """The score and its 95 % interval (Wilson), in all and by folder, and every survivor.

    Args:
        chosen: The draw.
        lines_of: Mutants and what became of them; of two lines of one mutant the later counts.
        verdicts: What is said of survivors.
    """
    results, first = dict(lines_of), dict(reversed(lines_of))
    done = [each for each in chosen if each.key in results]
    alive = [each for each in done if results[each.key] == "pass"]
    equal = {each.key for each in alive if verdicts.get(each.key, "").startswith("equal")}
    lines = [
        f"Of {len(chosen):,} mutants that were drawn, {len(done):,} have been judged.\n",
        "`Killed` are shares of those that are not equal: now, and when each mutant was first run, "
        "before tests were written for survivors. The second is what mutants that have not been "
        "judged may have, or more, as the first runs took fewer tests.\n",
        "| folder | judged | killed | equal | alive | killed now | killed at first |",
        "|---|---:|---:|---:|---:|---|---|",
    ]
    for folder in ("carsim", *sorted({each.file.rpartition("/")[0] for each in done})):
        here = [each for each in done if each.file.startswith(f"{folder}/")]
        left_out = sum(each.key in equal for each in here)
        killed = len(here) - sum(each in alive for each in here)
        cells = [folder, *map(str, [len(here), killed, left_out, len(here) - killed - left_out])]
        for died in (killed, sum(first[each.key] != "pass" for each in here)):
            share = wilson(died, max(1, len(here) - left_out))
            cells.append(f"{share.mean:.0%} [{share.low:.0%}, {share.high:.0%}]")
        lines.append(f"| {' | '.join(cells)} |")
    for each in alive:
        lines.append(f"\n{each.file}:{each.line} `{each.key.split(' ', 1)[1]}`: ")
        lines[-1] += verdicts.get(each.key, "no verdict yet")
        lines.append(f"\n```diff\n{change(each)}\n```")
    return "\n".join(lines)


def main() -> int:
    """The command; exit status 1 if a mutant survives that no verdict calls equal."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("paths", nargs="+", help="files and folders of carsim")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=25)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="then begin no other")
    help_of_share = "of the time of all tests, at most, for those of a mutant"
    parser.add_argument("--share", type=float, default=0.2, help=help_of_share)
    parser.add_argument("--again", action="store_true", help="run survivors again")
    parser.add_argument("--also", nargs="+", default=[], help="tests to run as well, for each")
    parser.add_argument("--coverage", default=".coverage", help="what --cov-context=test wrote")
    parser.add_argument("--times", type=Path, default=Path("out/times.xml"), help="of --junitxml")
    parser.add_argument("--out", type=Path, default=RESULTS, help="results, one a line")
    parser.add_argument("--verdicts", type=Path, help="YAML, what is said of survivors")
    parser.add_argument("--page", type=Path, help="Markdown, with a score of each folder")
    given = parser.parse_args()
    paths = [Path(path).resolve() for path in given.paths]
    files = {file for path in paths for file in ([path] if path.is_file() else path.rglob("*.py"))}
    chosen = draw(files, given.count, given.seed)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.touch()
    known = list(map(json.loads, given.out.read_text("utf-8").splitlines()))
    results: dict[str, str] = dict(known)
    verdicts: dict[str, str] = {}
    if given.verdicts:
        verdicts = yaml.safe_load(given.verdicts.read_text("utf-8"))
    kept = dict(results)
    if given.again:
        kept = {key: found for key, found in results.items() if found != "pass" or key in verdicts}
    for drawn, found in judged(chosen, kept, given) if given.seconds else ():
        results[drawn.key] = found
        known.append((drawn.key, found))
        with given.out.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps([drawn.key, found]) + "\n")
        print(f"{found:8} {drawn.file}:{drawn.line} {drawn.key}", flush=True)
        if found == "pass":
            print(change(drawn), flush=True)
    print(text := page(chosen, known, verdicts))
    if given.page:
        head = f"<!-- made by python {' '.join(sys.argv)} -->\n# Drawn mutants\n\n"
        given.page.write_text(head + text, encoding="utf-8")
    alive = [each.key for each in chosen if results.get(each.key) == "pass"]
    return int(any(not verdicts.get(key, "").startswith("equal") for key in alive))


if __name__ == "__main__":
    sys.exit(main())
