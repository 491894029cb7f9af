"""Put faults into carsim, one at a time, and see that the tests notice: tests/mutants.yaml.

    python tests/mutants.py                     all of them
    python tests/mutants.py carsim/explore      those in a folder or a file
    python tests/mutants.py --share 2/3         the second of three parts of them

Works on a copy of the checkout. Exit status 1 if a mutant survives, or cannot be put in any more.
"""

import argparse
import os
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
COPIED = ("carsim", "configs", "docs", "studies", "tests", "traces", "pyproject.toml", "README.md")
SECONDS = 300
"""Of the processor; a mutant that makes the tests hang is noticed, too; it is said of it."""

MEMORY = 8 << 30

WORDS = {"pass": "SURVIVED", "fail": "killed", "hang": "killed, as tests hang"}
"""What tests do -> what becomes of the mutant."""


@dataclass(frozen=True)
class Mutant:
    """A fault.

    Attributes:
        file: Where it is put.
        old: Text that stands there once.
        new: What takes its place.
        reason: What would go wrong.
        tests: Arguments of pytest.
    """

    file: str
    old: str
    new: str
    reason: str
    tests: str


def mutants() -> list[Mutant]:
    """All of them, in the order of the file."""
    text = (ROOT / "tests" / "mutants.yaml").read_text(encoding="utf-8")
    return [Mutant(**fields) for fields in yaml.safe_load(text)]


def part(chosen: Sequence[Mutant], share: str) -> list[Mutant]:
    """The n-th of m parts, as ``n/m``; mutants with the same tests are in the same part."""
    nth, _, parts = share.partition("/")
    if not (nth.isdecimal() and parts.isdecimal() and 1 <= int(nth) <= int(parts)):
        raise SystemExit(f"--share: got {share!r}, give a part of all, such as 2/3")
    tests = list(dict.fromkeys(mutant.tests for mutant in chosen))[int(nth) - 1 :: int(parts)]
    return [mutant for mutant in chosen if mutant.tests in tests]


def missing(mutant: Mutant) -> str:
    """Why a mutant cannot be put in; empty if it can."""
    path = ROOT / mutant.file
    count = path.read_text(encoding="utf-8").count(mutant.old) if path.is_file() else 0
    found = "" if count == 1 else f"{mutant.file} holds {count} times {mutant.old!r}"
    tests = [word for word in shlex.split(mutant.tests) if word.startswith("tests/")]
    return found or next(
        (f"no {name}" for name in tests if not (ROOT / name.partition("::")[0]).exists()), ""
    )


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


def survivors(copy: Path, chosen: Sequence[Mutant]) -> list[Mutant]:
    """Those mutants whose tests pass although they are in."""
    for tests in dict.fromkeys(mutant.tests for mutant in chosen):
        if (found := outcome(copy, shlex.split(tests))) != "pass":
            raise SystemExit(f"{tests}: {found} without any mutant")
    left = []
    for mutant in chosen:
        path = copy / mutant.file
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
        found = outcome(copy, shlex.split(mutant.tests))
        path.write_text(text, encoding="utf-8")
        print(f"{WORDS[found]}  {mutant.file}: {mutant.reason}", flush=True)
        left += [mutant] * (found == "pass")
    return left


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", default=["carsim"], help="or files")
    parser.add_argument("--share", default="1/1", help="n/m: the n-th of m parts")
    given = parser.parse_args()
    chosen = [each for each in mutants() if each.file.startswith(tuple(given.folders))]
    chosen = part(chosen, given.share)
    if problems := list(filter(None, map(missing, chosen))):
        raise SystemExit("\n".join(problems))
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        left = survivors(checkout(Path(name)), chosen)
    print(f"{len(chosen) - len(left)} of {len(chosen)} killed")
    return int(bool(left))


if __name__ == "__main__":
    sys.exit(main())
