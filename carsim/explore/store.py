"""The store of a study: one SQLite file that survives Ctrl-C, kill -9, reboots and full disks.

A row per finished point, committed as it finishes, with a column for each of its results; a point's
identity is the hash of its inputs, so that none is stored twice. The store knows which study,
design, traces and code of carsim it is of, and serves no other. One sweep writes at a time; others
may read meanwhile. Each row, and what is known of the study, has a checksum; a row that does not
match it counts as not evaluated.
"""

import json
import logging
import marshal
import math
import os
import sqlite3
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from hashlib import sha256
from importlib.metadata import version
from operator import itemgetter
from pathlib import Path
from typing import Any

from carsim.errors import InputError
from carsim.explore.code import code_sha256
from carsim.explore.evaluate import Row
from carsim.explore.metrics import FLAGS, RESULT_COLUMNS
from carsim.explore.points import Point
from carsim.explore.study import Study
from carsim.files import unwritable
from carsim.metrics import OLD_NAMES
from carsim.yaml_file import shown

STORE_FILE = "store.sqlite"
LOCK_FILE = "store.lock"
SCHEMA = "3"
WITHOUT_CHECKSUMS = "1"
"""Schema of the tables below, and that of carsim 0.1, whose results are JSON; those stores are read
and take no more points."""

BUSY_SECONDS = 30.0
"""For how long a writer waits for another one."""

MOST_NAMED = 10
"""So many damaged rows are named."""

RESULTS = RESULT_COLUMNS[1:]
"""Columns behind those that every point has."""

_QUOTED = ", ".join(f'"{name}"' for name in RESULTS)
_TABLES = (
    "CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS points (id TEXT PRIMARY KEY, ordinal INTEGER NOT NULL, "
    f"status TEXT NOT NULL, point TEXT NOT NULL, {_QUOTED}, checksum TEXT NOT NULL)",
)
_INSERT = f"INSERT OR IGNORE INTO points VALUES ({', '.join('?' * (5 + len(RESULTS)))})"

log = logging.getLogger("carsim")


class Store:
    """An open store.

    Args:
        path: The file, or ``:memory:``.

    Raises:
        InputError: It cannot be opened, or is no store.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        with self._refusing():
            self._db = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
            # What is damaged is found by its checksum, not by Python.
            self._db.text_factory = partial(str, encoding="utf-8", errors="replace")
            # A commit is on disk when it returns. No write-ahead log: readers and writers that come
            # and are killed at the same time can make its shared memory fault (SIGBUS, 1 of 110
            # kills with SQLite 3.40), and it needs a local disk; a commit a second is no load.
            try:
                self._db.execute("PRAGMA journal_mode=DELETE")
                self._db.execute("PRAGMA synchronous=FULL")
            except sqlite3.Error:
                self._db.close()
                raise

    def close(self) -> None:
        """Close it; nothing is pending."""
        self._db.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def claim(self, study: Study, kind: str) -> None:
        """Make it the store of a study, or make sure that it is; damaged rows are dropped.

        Args:
            study: The study.
            kind: ``sweep`` or ``search``.

        Raises:
            InputError: It belongs to another study, or to other code of carsim.
        """
        wanted = {
            "schema": SCHEMA,
            "version": version("carsim"),
            "code": code_sha256(),
            "kind": kind,
            "fingerprint": study.fingerprint,
            "name": study.name,
            "study": study.text,
            "axes": json.dumps([axis.name for axis in study.axes]),
            "objectives": json.dumps(study.objectives),
            "constraints": json.dumps(study.file.constraints),
            "design": study.base.model_dump_json(),
            "traces": json.dumps({name: trace.sha256 for name, trace in study.traces.items()}),
        }
        with self._writing() as db:
            for table in _TABLES:
                db.execute(table)
            if not db.execute("SELECT 1 FROM meta").fetchone():
                rows = {**wanted, "checksum": _seal(wanted)}.items()
                db.executemany("INSERT INTO meta VALUES (?, ?)", rows)
        self._check(self.meta(), wanted)
        damaged: list[str] = []
        deque(self._sound(damaged), 0)
        if damaged:
            self._report(damaged)
            with self._writing() as db:
                sound = list(self._sound([]))
                db.execute("DELETE FROM points")  # all at once, so that no page is looked up
                db.executemany(_INSERT, sound)

    def meta(self) -> dict[str, str]:
        """Facts about the study.

        Raises:
            InputError: No store, one of another schema, or a damaged one.
        """
        with self._refusing():
            have = dict(self._db.execute("SELECT key, value FROM meta"))
        schema, expected = have.get("schema", "none"), have.pop("checksum", None)
        if schema not in (SCHEMA, WITHOUT_CHECKSUMS):
            problem = f"is a store of schema {schema}; this carsim has {SCHEMA}"
            raise InputError(self.path, problem, "name another folder")
        if schema == SCHEMA and expected != _seal(have):
            problem = "is broken: what it says of its study does not match its checksum"
            raise InputError(self.path, problem, "take a copy, or sweep into another folder")
        return have

    def add(self, pairs: Iterable[tuple[Point, Row]]) -> None:
        """Store results, all or none of them; those that are there already stay as they are.

        Raises:
            InputError: They cannot be written, because the disk is full for instance.
        """
        rows = []
        for point, row in pairs:
            values = json.dumps(point.values, default=repr)
            results = (_cell(row.get(name)) for name in RESULTS)
            cells = (point.id, point.ordinal, row["status"], values, *results)
            rows.append((*cells, checksum(cells)))
        with self._writing() as db:
            db.executemany(_INSERT, rows)

    def forget(self, status: str) -> None:
        """Drop the results of a status, so that their points are evaluated again."""
        with self._writing() as db:
            db.execute("DELETE FROM points WHERE status = ?", (status,))

    def finished(self) -> dict[str, str]:
        """Status of all points that have a result, by identity."""
        with self._refusing():
            return dict(self._db.execute("SELECT id, status FROM points"))

    def counts(self) -> dict[str, int]:
        """Results by status."""
        return dict(Counter(self.finished().values()))

    def rows(self) -> Iterator[tuple[int, dict[str, Any], Row]]:
        """(Ordinal, axis values, result) of all points, in the order of the study.

        Damaged rows are left out; the log names them.
        """
        for ordinal, values, cells in self.cells():
            yield ordinal, values, dict(zip(RESULT_COLUMNS, cells, strict=True))

    def cells(self) -> Iterator[tuple[int, dict[str, Any], Sequence[Any]]]:
        """The same with results in the order of ``RESULT_COLUMNS``, None where there are none."""
        columns = self._columns()
        place = {OLD_NAMES.get(column, column): index for index, column in enumerate(columns)}
        of_columns = itemgetter(*(place.get(name, len(columns)) for name in RESULT_COLUMNS))
        flags = [RESULT_COLUMNS.index(name) for name in FLAGS]
        damaged: list[str] = []
        for row in self._sound(damaged):
            if "result" in place:
                old = json.loads(row[place["result"]])
                old = {OLD_NAMES.get(name, name): value for name, value in old.items()}
                cells = [old.get(name) for name in RESULT_COLUMNS]
            else:
                cells = list(of_columns((*row, None)))
            for flag in flags:
                cells[flag] = None if cells[flag] is None else bool(cells[flag])
            yield row[1], json.loads(row[3]), cells
        self._report(damaged)

    # ---------------------------------------------------------------- private

    def _columns(self) -> list[str]:
        with self._refusing():
            return [name for _, name, *_ in self._db.execute("PRAGMA table_info(points)")]

    def _sound(self, damaged: list[str]) -> Iterator[tuple[Any, ...]]:
        """Rows that match their checksum, by ordinal; of the others, names are appended."""
        seen, is_older = set(), "checksum" not in self._columns()
        with self._refusing():
            for row in self._db.execute("SELECT * FROM points ORDER BY ordinal, id"):
                if row[0] in seen or not (is_older or row[-1] == checksum(row[:-1])):
                    damaged.append(f"point {shown(row[1])}")
                else:
                    seen.add(row[0])
                    yield row
            (says,) = self._db.execute("PRAGMA integrity_check(1)").fetchone()
            if says != "ok" and not damaged:
                damaged.append("its index")

    def _report(self, damaged: list[str]) -> None:
        if damaged:
            named = ", ".join(damaged[:MOST_NAMED]) + (", ..." if damaged[MOST_NAMED:] else "")
            cure = "the same sweep or search evaluates again what is lost"
            log.warning("carsim: %s: is damaged (%s); %s", self.path, named, cure)

    def _check(self, have: Mapping[str, str], wanted: Mapping[str, str]) -> None:
        """Refuse the store of another study, or of other code."""
        for key, problem, cure in (
            ("version", "was made by carsim {have}, not {wanted}", ", or run that version"),
            ("code", "was made by other code of this carsim", ", or go back to that code"),
            ("schema", "has no checksums, unlike those of this carsim", ""),
            ("kind", "holds a {have}, not a {wanted}", ""),
            (
                "fingerprint",
                f"is of another study ({have.get('name')}), or the study, its design or its traces "
                "have changed since",
                ", or undo the change",
            ),
        ):
            if have.get(key) != wanted[key]:
                problem = problem.format(have=have.get(key), wanted=wanted[key])
                raise InputError(self.path, problem, f"name another folder{cure}")

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction that happens as a whole or not at all."""
        with self._refusing():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:  # a full disk has rolled back already
                    self._db.execute("ROLLBACK")
                raise

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise _refusal(self.path, error) from error


def checksum(cells: Sequence[Any]) -> str:
    """Checksum of texts and numbers, 16 hexadecimal digits."""
    # Bytes that tell 1 from 1.0 and "1", ten times faster than text; the second version of the
    # format is that of all Pythons since 2.5, and does not depend on which objects are shared.
    return sha256(marshal.dumps(tuple(cells), 2)).hexdigest()[:16]


def _seal(meta: Mapping[str, str]) -> str:
    return checksum([text for item in sorted(meta.items()) for text in item])


def _cell(value: Any) -> Any:
    """A result as SQLite keeps it: texts without halves of letters, numbers within 64 bits.

    Raises:
        ValueError: A number that is not finite, which would come back as none.
    """
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is no result")
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        return float(value)
    return value


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
        raise _refusal(str(folder / LOCK_FILE), error) from error


def open_folder(folder: Path) -> Store:
    """The store of a folder, made if there is none.

    Raises:
        InputError: The folder cannot be made or written, or holds something else of that name.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(folder, error) from None
    return Store(folder / STORE_FILE)


def open_store(folder: str | Path) -> Store:
    """The store in a folder that a sweep or a search has made.

    Raises:
        InputError: There is none, or it is of another schema.
    """
    path = Path(folder) / STORE_FILE
    if not os.path.isfile(path):  # noqa: PTH113 - never raises, whatever the path
        raise InputError(str(folder), f"holds no {STORE_FILE}", "name the --out of a sweep")
    store = Store(path)
    try:
        store.meta()
    except InputError:
        store.close()
        raise
    return store


def _refusal(path: str, error: sqlite3.Error) -> InputError:
    text = str(error)
    if any(sign in text for sign in ("not a database", "malformed", "no such table")):
        return InputError(path, f"is no store of carsim ({text})", "name another folder")
    no_room = any(sign in text for sign in ("full", "disk I/O"))
    cure = "make room" if no_room else "name another folder, or make this one writable"
    problem = f"cannot be used ({text})"
    again = "then start the same command again: what is stored stays"
    return InputError(path, problem, f"{cure}, {again}")
