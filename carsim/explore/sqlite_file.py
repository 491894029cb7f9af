"""Files of SQLite: opened without trust, read without a trace, refused in one line."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from carsim.base.errors import InputError
from carsim.base.files import reason

LOCK_FILE = "store.lock"
BUSY_SECONDS = 30.0
"""For how long a writer waits for another one."""

_LEFT_OVER = ("-journal", "-wal")
"""Files beside a store that an interrupted commit leaves; the newer data may be in them."""

RESTORE = "restore a copy of it, or name another folder"


def connected(path: str | Path, **options: Any) -> sqlite3.Connection:
    """A connection that takes every byte as text and trusts nothing that a file defines."""
    db: sqlite3.Connection = sqlite3.connect(
        path, timeout=BUSY_SECONDS, isolation_level=None, **options
    )
    # What is damaged is found by its checksum, not by Python.
    db.text_factory = partial(str, encoding="utf-8", errors="replace")
    try:
        db.execute("PRAGMA trusted_schema=OFF")
        # A commit is on disk when it returns. No write-ahead log: readers and writers that come
        # and are killed at the same time can make its shared memory fault (SIGBUS, 1 of 110
        # kills with SQLite 3.40), and it needs a local disk; a commit a second is no load.
        db.execute("PRAGMA synchronous=FULL")
        db.execute("PRAGMA temp_store=MEMORY")  # a full disk stops no reader
        db.execute("SELECT 1 FROM sqlite_master").fetchone()
    except (sqlite3.Error, UnicodeDecodeError):
        db.close()
        raise
    return db


def opened(path: str | Path, *, read_only: bool) -> sqlite3.Connection:
    """A connection to a file, or to a copy in memory where an interrupted commit must be undone.

    Args:
        path: The file, or ``:memory:``.
        read_only: Write nothing beside it or in it.
    """
    if not read_only:
        return connected(path)
    with suppress(OSError), Path(path).open("rb") as file:
        if file.read(20)[18:] == b"\2\2":  # a write-ahead log, of which even readers make files
            return _undone(Path(path))
    try:
        return connected(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True)
    except sqlite3.OperationalError:
        if not any(Path(f"{path}{end}").exists() for end in _LEFT_OVER):
            raise
        return _undone(Path(path))


def _undone(path: Path) -> sqlite3.Connection:
    """The contents of a file as they were before the commit that was interrupted.

    Raises:
        InputError: They cannot be copied.
    """
    try:
        with TemporaryDirectory(prefix="carsim-") as folder:
            copy = Path(folder) / path.name
            for end in (*_LEFT_OVER, ""):  # the file last: one that was undone meanwhile does
                if Path(f"{path}{end}").exists():
                    shutil.copyfile(f"{path}{end}", f"{copy}{end}")
            db = connected(":memory:")
            with closing(connected(copy)) as whole:
                whole.backup(db)
            return db
    except OSError as error:
        problem = f"cannot be copied, to undo an interrupted commit ({reason(error)})"
        raise InputError(str(path), problem, "make room for a copy among temporary files") from None


def refusal(path: str, error: sqlite3.Error | UnicodeDecodeError) -> InputError:
    """Error message for a file that SQLite cannot use."""
    name = getattr(error, "sqlite_errorname", "SQLITE_CORRUPT")
    text = str(error) if isinstance(error, sqlite3.Error) else "names that are no text"
    if name == "SQLITE_NOTADB":
        return InputError(path, f"is no store of carsim ({text})", "name another folder")
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_ERROR", "SQLITE_FORMAT", "SQLITE_TOOBIG")):
        return InputError(path, f"is damaged ({text})", RESTORE)
    no_room = name.startswith(("SQLITE_FULL", "SQLITE_IOERR"))
    cure = "make room" if no_room else "name another folder, or make this one writable"
    problem = f"cannot be used ({text})"
    again = "then start the same command again: what is stored stays"
    return InputError(path, problem, f"{cure}, {again}")


@contextmanager
def sole_writer(folder: Path) -> Iterator[None]:
    """Keep a second sweep out of a folder; the lock goes with the process that holds it.

    Raises:
        InputError: Another process is at work there.
    """
    try:
        with closing(sqlite3.connect(folder / LOCK_FILE, timeout=0, isolation_level=None)) as lock:
            lock.execute("BEGIN EXCLUSIVE")
            yield
    except sqlite3.Error as error:
        if "locked" in str(error):
            problem = "another carsim is writing to it"
            raise InputError(str(folder), problem, "wait for it, or name another") from None
        raise refusal(str(folder / LOCK_FILE), error) from error
