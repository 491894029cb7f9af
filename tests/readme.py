"""Execute what README.md and docs/*.md show, and rewrite the outputs that they show.

    python tests/readme.py                    # bring the outputs of all documents up to date
    python tests/readme.py docs/reference/plugins.md      # those of one

Fenced blocks, by language:

* ``console``: lines after ``$`` are commands, the lines that follow are what they print; a line of
  ``...`` stands for any lines. Commands are ``carsim`` or ``python3 carsim`` (both run as this
  Python's ``python -m carsim``, in a terminal of 80 columns without colours) and ``echo $?`` for
  the exit status of the command before.
* ``python``: a doctest; the blocks of a file share their names. A block whose first line is a
  comment with a name, such as ``# mine.py``, is that file.
* ``yaml``: the file whose name its first line gives as a comment.

A block after the line ``<!-- not run: why -->`` is not executed. All others of a document run in
order, in a folder of its own that holds the designs and traces of this repository.

Numbers in sentences are marked with the command that gives them. Such a comment stands beside the
paragraph, where readers do not see it::

    <!-- numbers: carsim run zcu102 --trace vilau_8f
    {own["seconds_per_video"]:.1f} -> takes # s with FastCar
    {100 * (1 - own["latency_s"] / dense["latency_s"]):.0f} -> saves # % of the time
    -->

Each line has a number as a field of an f-string, and words of the document in which ``#`` stands
for the number. The command gets ``--json``, and runs after all blocks of the document. Of a run,
``run`` is the whole document, ``own`` the design's policy, ``dense`` dense decoding, ``rows`` the
row of each key, ``bound`` the bound and ``phases`` the limit of each phase. Of any other command,
``result`` is the document. After ``numbers: python``, the names are those of the document's Python
blocks, and ``carsim``. An expression may follow, whose value is ``result``.
"""

import contextlib
import difflib
import doctest
import json
import os
import pty
import re
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
SHELVES = ("start", "tutorials", "howto", "reference")
DOCUMENTS = (
    README,
    *sorted((ROOT / "docs").glob("*.md")),
    *(page for shelf in SHELVES for page in sorted((ROOT / "docs" / shelf).glob("*.md"))),
)
SHARED = ("configs", "traces", "studies", "tests", "docs")
FENCE = re.compile(
    r"(?P<skip>^<!-- not run: [^\n]+ -->\n)?^```(?P<language>\w+)\n(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
NUMBERS = re.compile(
    r"^<!-- numbers: (?P<source>[^\n]+)\n(?P<lines>.*?)^-->$", re.MULTILINE | re.DOTALL
)
NUMBER = r"(-?[\d,]+(?:\.\d+)?)"
LANGUAGES = ("console", "python", "yaml")
SKIPPED_LANGUAGES = ("text", "bibtex")
NAMED_FILE = re.compile(r"# (\w+\.py)\n")
"""First line of a Python block that is a whole file, such as a plugin for later commands."""

ANY_LINES = "..."


@dataclass(frozen=True)
class Block:
    """A fenced block of a document; ``start`` and ``end`` are those of its body in the text."""

    line: int
    language: str
    body: str
    start: int
    end: int


@dataclass
class Folder:
    """Where blocks run, and what one leaves to the next."""

    path: Path
    names: dict[str, Any] = field(default_factory=dict)
    status: int = 0

    def __post_init__(self) -> None:
        """Show what the repository ships."""
        for name in SHARED:
            (self.path / name).symlink_to(ROOT / name)


def blocks(text: str) -> list[Block]:
    """The blocks that are to be executed.

    Raises:
        ValueError: A block of another language.
    """
    found = []
    for match in FENCE.finditer(text):
        language = match["language"]
        line = text.count("\n", 0, match.start("language")) + 1
        if match["skip"] or language in SKIPPED_LANGUAGES:
            continue
        if language not in LANGUAGES:
            raise ValueError(f"line {line}: nobody knows how to execute {language!r}")
        found.append(Block(line, language, match["body"], match.start("body"), match.end("body")))
    return found


def commands(body: str) -> list[tuple[str, str]]:
    """Commands of a console block, each with the output shown; backslashes continue a command."""
    found: list[tuple[str, str]] = []
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        match = re.match(r"(?:.*\\\n)*.*\n", part)
        assert match is not None
        found.append((match[0].rstrip("\n"), part[match.end() :]))
    return found


def run_command(command: str, folder: Folder) -> str:
    """What a command of a console block prints: standard output, then standard error.

    Raises:
        ValueError: A command that is none of carsim's.
    """
    words = shlex.split(command.replace("\\\n", " "))
    if words == ["echo", "$?"]:
        return f"{folder.status}\n"
    if words[:2] == ["python3", "carsim"]:
        del words[0]
    if words[0] != "carsim":
        raise ValueError(f"{command!r} is no command of carsim")
    terminal, child = pty.openpty()
    command_line = [sys.executable, "-m", "carsim", *words[1:]]
    environment = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
    environment["TERM"] = "dumb"  # 80 columns, no colours
    with subprocess.Popen(
        command_line,
        cwd=folder.path,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=child,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as process:
        os.close(child)
        shown = _all_of(terminal)
        assert process.stderr is not None
        told = process.stderr.read()
    folder.status = process.returncode
    return without_trailing_blanks(shown + told)


def _all_of(terminal: int) -> str:
    """What a program writes to a terminal until it ends."""
    written = b""
    try:
        while some := os.read(terminal, 1 << 16):
            written += some
    except OSError:  # how Linux reports that no program has the terminal open any more
        pass
    os.close(terminal)
    return written.decode("utf-8").replace("\r\n", "\n")


def without_trailing_blanks(text: str) -> str:
    """Tables are padded with blanks, which editors take away."""
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def pieces(shown: str) -> list[str]:
    """The parts of an output that are shown."""
    parts: list[str] = [""]
    for line in shown.splitlines(keepends=True):
        if line.rstrip() == ANY_LINES:
            parts.append("")
        else:
            parts[-1] += line
    return parts


def matches(shown: str, printed: str) -> bool:
    """The output is what is shown, but for the lines that ``...`` stands for."""
    return re.fullmatch(r"(?:.*\n)*?".join(map(re.escape, pieces(shown))), printed) is not None


def refreshed(shown: str, printed: str) -> str:
    """What to show of an output: the same lines as before, found by how many there are.

    A piece between two ``...`` is found again by its first words.
    """
    lines = printed.splitlines(keepends=True)
    if ANY_LINES not in shown.splitlines():
        return printed
    result, at = "", 0
    for index, piece in enumerate(pieces(shown)):
        old = piece.splitlines(keepends=True)
        if index:
            result += f"{ANY_LINES}\n"
            at = next(
                (i for i in range(at, len(lines)) if old and _words(lines[i]) == _words(old[0])),
                len(lines) - len(old) if old else at,
            )
        result += "".join(lines[at : at + len(old)])
        at += len(old)
    return result


def _words(line: str) -> list[str]:
    return re.findall(r"[A-Za-z]+", line)[:3]


def execute(block: Block, folder: Folder) -> tuple[str, str]:
    """Run a block; what differs from what is shown, and the block as it should be."""
    if block.language == "yaml":
        name = block.body.splitlines()[0].removeprefix("#").strip()
        (folder.path / name).write_text(block.body, encoding="utf-8")
        return "", block.body
    if block.language == "python":
        if named := NAMED_FILE.match(block.body):
            (folder.path / named[1]).write_text(block.body, encoding="utf-8")
            return "", block.body
        return run_doctest(block, folder)
    differing, body = "", ""
    for command, shown in commands(block.body):
        printed = run_command(command, folder)
        new = refreshed(shown, printed)
        body += f"$ {command}\n{new}"
        if not matches(shown, printed):
            lines = difflib.ndiff(shown.splitlines(), new.splitlines())
            differing += "\n".join([f"line {block.line}: $ {command}", *lines, ""])
    return differing, body


class Examples(doctest.DocTestRunner):
    """Runs a Python block, keeping what should have stood there."""

    def __init__(self) -> None:
        super().__init__(verbose=False, optionflags=doctest.NORMALIZE_WHITESPACE)
        self.printed: dict[int, str] = {}

    def report_failure(self, out: Any, test: Any, example: Any, got: str) -> None:
        """Keep what an example printed."""
        self.printed[example.lineno] = got
        super().report_failure(out, test, example, got)


def run_doctest(block: Block, folder: Folder) -> tuple[str, str]:
    """Run the examples of a Python block; what differs, and the block as it should be."""
    test = doctest.DocTestParser().get_doctest(
        block.body, folder.names, README.name, str(README), block.line
    )
    examples, told = Examples(), list[str]()
    with contextlib.chdir(folder.path):
        examples.run(test, out=told.append, clear_globs=False)
    folder.names.update(test.globs)
    lines = block.body.splitlines(keepends=True)
    for example in reversed(test.examples):
        if example.lineno in examples.printed:
            at = example.lineno + example.source.count("\n")
            shown = examples.printed[example.lineno]
            lines[at : at + example.want.count("\n")] = without_trailing_blanks(shown)
    return "".join(told), "".join(lines)


def names_of(source: str, folder: Folder) -> dict[str, Any]:
    """Names that the numbers of a comment are made of.

    Args:
        source: ``python``, or a command of carsim.
        folder: Folder of the document.
    """
    if source.startswith("python"):
        import carsim

        names = {"carsim": carsim, **folder.names}
        expression = source.removeprefix("python").strip()
        return names | {"result": eval(expression, dict(names))} if expression else names
    words = shlex.split(source)
    assert words[0] == "carsim", f"{source!r} is no command of carsim"
    done = subprocess.run(
        [sys.executable, "-m", "carsim", *words[1:], "--json"],
        cwd=folder.path,
        capture_output=True,
        text=True,
        check=True,
    )
    result = json.loads(done.stdout)
    if not (isinstance(result, dict) and "policies" in result):
        return {"result": result}
    policies = result["policies"]
    return {
        "run": result,
        "own": next(policy for policy in policies if policy["is_chosen"]),
        "dense": policies[0],
        "rows": {policy["key"]: policy for policy in policies},
        "bound": next((policy for policy in policies if policy["is_bound"]), None),
        "phases": {limit["phase"]: limit for limit in result["limits"]},
    }


def with_numbers(text: str, folder: Folder) -> tuple[list[str], str]:
    """Compare the marked numbers of a document; what is stale, and the document as it should be.

    Args:
        text: The document.
        folder: Folder in which its blocks have run.
    """
    stale = []
    for comment in list(NUMBERS.finditer(text)):
        names = names_of(comment["source"], folder)
        for line in comment["lines"].splitlines():
            field_text, arrow, words = line.partition(" -> ")
            is_marked = bool(arrow) and words.count("#") == 1
            assert is_marked, f"{line!r} is not FIELD -> WORDS WITH A #"
            number = eval(f"f{field_text!r}", dict(names))
            pattern = r"\s+".join(map(re.escape, words.split())).replace(r"\#", NUMBER)
            places = list(re.finditer(pattern, text))
            if len(places) != 1:
                stale.append(f"{words!r} stands {len(places)} times in the document")
                continue
            if places[0][1] != number:
                stale.append(f"{words!r}: {places[0][1]} is {number} now")
                text = text[: places[0].start(1)] + number + text[places[0].end(1) :]
    return stale, text


def refresh(document: Path) -> None:
    """Rewrite the outputs of console and Python blocks, and the marked numbers."""
    text = document.read_text(encoding="utf-8")
    result, done = "", 0
    with tempfile.TemporaryDirectory() as name:
        folder = Folder(Path(name))
        for block in blocks(text):
            result += text[done : block.start] + execute(block, folder)[1]
            done = block.end
        result = with_numbers(result + text[done:], folder)[1]
    document.write_text(result, encoding="utf-8")


if __name__ == "__main__":
    for each in map(Path, sys.argv[1:]) if sys.argv[1:] else DOCUMENTS:
        refresh(each)
