"""The command line in a process of its own, forked from this one so that it starts at once.

What is found out about it: how it ended, what it printed, and whether it behaved.
"""

import importlib
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import forkserver
from pathlib import Path
from typing import TextIO

for _name in (
    *(f"carsim.cli.{command}" for command in ("compare", "config", "report", "run", "sweep")),
    *("carsim.cli.trace", "carsim.explore.sweep", "carsim.explore.frame", "carsim.report.files"),
    *("encodings.cp437", "shlex"),  # a plain user may not read Python's own files everywhere
):
    importlib.import_module(_name)

MEMORY_BYTES = 4 << 30
"""Address space of a command beyond that of the process that it is made from."""

MOST_CHARACTERS = 2_000
"""More on standard error is no clear line."""

STATUSES = {0, 1, 2, 3, 130}

TRACES = ("Traceback", "Exception ignored", "Error in sys.excepthook", "Fatal Python error")


@dataclass(frozen=True)
class Ended:
    """How a command ended; ``status`` is None if it hung and had to be killed."""

    arguments: tuple[str, ...]
    status: int | None
    out: str
    err: str
    seconds: float

    @property
    def finding(self) -> str:
        """What is wrong with how it behaved, whatever it was given; empty if nothing is."""
        lines = [line for line in self.err.splitlines() if not line.startswith("carsim: note: ")]
        odd = {letter for letter in self.err if not letter.isprintable()} - {"\n"}
        for is_so, what in (
            (self.status is None, f"hangs ({self.seconds:.0f} s)"),
            (any(trace in self.err for trace in TRACES), f"traceback: {self.err[-300:]!r}"),
            (self.status not in STATUSES, f"exit status {self.status}: {self.err[-300:]!r}"),
            (self.status == 2 and len(lines) != 1, f"{len(lines)} lines: {self.err[-300:]!r}"),
            (len(self.err) > MOST_CHARACTERS, f"{len(self.err)} characters on standard error"),
            (odd, f"prints {sorted(odd)}"),
        ):
            if is_so:
                return what
        return ""


def call(
    *arguments: object,
    seconds: float = 300.0,
    before: Callable[[], object] = lambda: None,
    stdin: str = "",
    stdout: int | None = None,
) -> Ended:
    """Run ``carsim ARGUMENTS``.

    Args:
        arguments: The arguments.
        seconds: After so long it is killed.
        before: Called first in the new process: to change its folder, user, environment or limits.
        stdin: What it reads.
        stdout: A file descriptor to print to; what it prints there is not read back.
    """
    texts = tuple(map(str, arguments))
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        with tempfile.TemporaryFile() as given:
            given.write(stdin.encode())
            given.seek(0)
            began = time.monotonic()
            child = os.fork()
            if not child:
                os.setpgid(0, 0)
                _be(texts, (given.fileno(), stdout or out.fileno(), err.fileno()), before)
            with suppress(OSError):  # whoever comes first: it may not have begun, or be over
                os.setpgid(child, child)
        status = _wait(child, began + seconds)
        took = time.monotonic() - began
        out.seek(0)
        err.seek(0)
        said = (stream.read().decode("utf-8", "replace") for stream in (out, err))
        return Ended(texts, status, *said, took)


def _address_bytes() -> int:
    """Addresses that this process has already: those of PyTorch, say, if a test has loaded it."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    return pages * resource.getpagesize()


def _be(
    arguments: tuple[str, ...], streams: tuple[int, int, int], before: Callable[[], object]
) -> None:
    """Become the command; never returns."""
    status = 70
    try:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        most_bytes = _address_bytes() + MEMORY_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (most_bytes, most_bytes))
        sys.stdin, sys.stdout = _stream(0, "r", "strict"), _stream(1, "w", "strict")
        sys.stderr = sys.__stderr__ = _stream(2, "w", "backslashreplace")
        sys.__stdout__ = sys.stdout
        sys.argv = ["carsim", *arguments]
        signal.signal(signal.SIGINT, signal.default_int_handler)
        forkserver._forkserver._forkserver_pid = None  # that of the parent is no child of this one
        before()
        from carsim.cli import main

        main()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc(file=sys.stderr)
    finally:
        try:
            sys.stdout.flush()
        except OSError as error:  # as Python says when it ends
            print("Exception ignored in:", error, file=sys.stderr)
            status = 120
        sys.stderr.flush()
        os._exit(status)


def _stream(number: int, mode: str, errors: str) -> TextIO:
    return open(number, mode, encoding="utf-8", errors=errors, closefd=False)


def _wait(child: int, until: float) -> int | None:
    while time.monotonic() < until:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None
