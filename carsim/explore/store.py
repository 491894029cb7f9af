"""The store of a study: one SQLite file that survives Ctrl-C, kill -9, reboots and full disks.

A row per finished point, committed as it finishes, with a column for each of its results; a point's
identity is the hash of its inputs, so that none is stored twice. The store knows which study,
design, traces and code of carsim it is of, and serves no other. One sweep writes at a time; others
may read meanwhile, and write nothing. Each row, and what is known of the study, has a checksum; a
row that does not match it counts as not evaluated. The study's facts include the names of the
columns in their order: the tables of the file must be exactly those that follow from them.
"""

import json
import logging
import marshal
import math
import os
import sqlite3
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from hashlib import sha256
from importlib.metadata import version
from operator import itemgetter
from pathlib import Path
from typing import Any

from carsim.base.errors import InputError
from carsim.base.files import make_folder
from carsim.base.yaml_file import shown
from carsim.explore.code import code_sha256
from carsim.explore.columns import FLAGS, result_columns
from carsim.explore.evaluate import Row
from carsim.explore.points import Point
from carsim.explore.sqlite_file import RESTORE, connected, opened, refusal
from carsim.explore.study import Study

STORE_FILE = "store.sqlite"
SCHEMA = "4"
RESCUED = " (rescued)"
"""Ends the name of a study whose results come from a damaged store."""

MOST_NAMED = 10
"""So many damaged rows are named."""

ROWS_PER_PAGE = 64
"""More do not fit: a row has over a hundred bytes. Numbers of rows are sought up to so many."""

_META = "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID"
_POINT = ("id", "ordinal", "status", "point")
_HEAD = (
    "CREATE TABLE points (id TEXT PRIMARY KEY, ordinal INTEGER NOT NULL, "
    "status TEXT NOT NULL, point TEXT NOT NULL, "
)
_INDEX = ("index", "sqlite_autoindex_points_1", "points", None)
log = logging.getLogger("carsim")


class Store:
    """An open store.

    Args:
        path: The file, or ``:memory:``.
        read_only: Write nothing, not even to undo what an interrupted commit left: that happens
            in a copy in memory.

    Raises:
        InputError: It cannot be opened, or is no store.
    """

    def __init__(self, path: str | Path, *, read_only: bool = False) -> None:
        self.path = str(path)
        self._names: tuple[str, ...] = ()
        with self._refusing():
            self._db = opened(path, read_only=read_only)

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
            "columns": json.dumps(result_columns()[1:]),
            "design": study.base.model_dump_json(),
            "traces": json.dumps({name: trace.sha256 for name, trace in study.traces.items()}),
        }
        with self._writing() as db:
            if not db.execute("SELECT 1 FROM sqlite_master").fetchone():
                _make(db, wanted, ())
        have = self.meta()
        self._check(have, wanted)
        damaged: list[str] = []
        deque(self._sound(damaged), 0)
        if damaged:
            self._report(damaged)
            # Every page is replaced, since pages that are damaged cannot be changed in place.
            with self._refusing(), closing(connected(":memory:")) as clean:
                _make(clean, have, list(self._sound([])))
                clean.backup(self._db)

    def meta(self) -> dict[str, str]:
        """Facts about the study.

        Raises:
            InputError: No store, one of another schema, or a damaged one.
        """
        with self._refusing():
            tables = set(self._db.execute("SELECT type, name, tbl_name, sql FROM sqlite_master"))
            if not any(name == "meta" for _, name, *_ in tables):
                raise InputError(self.path, "is no store of carsim", "name another folder")
            if ("table", "meta", "meta", _META) not in tables:
                raise self._damaged("its list of tables")
            facts = self._db.execute("SELECT key, value FROM meta")
            have = {str(key): str(value) for key, value in facts}  # damaged ones may be no texts
        schema, expected = have.get("schema", "none"), have.pop("checksum", None)
        have.pop("rows", None)
        if schema != SCHEMA:
            problem = f"is a store of schema {shown(schema)}; this carsim has {SCHEMA}"
            cure = "name another folder, or read it with the carsim that wrote it"
            raise InputError(self.path, problem, cure)
        if expected != _seal(have):
            raise self._damaged("what it says of its study does not match its checksum")
        try:
            for key in ("axes", "objectives", "constraints", "traces"):
                json.loads(have[key])
            self._names = tuple(json.loads(have["columns"]))
        except (KeyError, ValueError):
            raise self._damaged("what it says of its study") from None
        table = ("table", "points", "points", _table(self._names))
        if tables != {("table", "meta", "meta", _META), _INDEX, table}:
            raise self._damaged("its list of tables")
        return have

    def add(self, pairs: Iterable[tuple[Point, Row]]) -> None:
        """Store results, all or none of them; those that are there already stay as they are.

        Raises:
            InputError: They cannot be written, because the disk is full for instance.
        """
        rows = []
        for point, row in pairs:
            values = json.dumps(point.values, default=repr)
            results = (_cell(row.get(name)) for name in self._names)
            cells = (point.id, point.ordinal, row["status"], values, *results)
            rows.append((*cells, checksum(cells)))
        with self._writing() as db:
            self._count(_insert(db, rows))

    def forget(self, status: str) -> None:
        """Drop the results of a status, so that their points are evaluated again."""
        with self._writing() as db:
            self._count(-db.execute("DELETE FROM points WHERE status = ?", (status,)).rowcount)

    def finished(self) -> dict[str, str]:
        """Status of all points that have a result, by identity."""
        with self._refusing():
            return dict(self._db.execute("SELECT id, status FROM points"))

    def counts(self) -> dict[str, int]:
        """Results by status."""
        return dict(Counter(self.finished().values()))

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of results: those of today, then those that only this store has."""
        return tuple(dict.fromkeys((*result_columns(), *self._names)))

    def rows(self) -> Iterator[tuple[int, dict[str, Any], Row]]:
        """(Ordinal, axis values, result) of all points, in the order of the study.

        Damaged rows are left out; the log names them.
        """
        columns = self.columns
        for ordinal, values, cells in self.cells():
            yield ordinal, values, dict(zip(columns, cells, strict=True))

    def cells(self) -> Iterator[tuple[int, dict[str, Any], Sequence[Any]]]:
        """The same with results in the order of :attr:`columns`, None where there are none."""
        columns = self.columns
        place = {name: index for index, name in enumerate((*_POINT, *self._names))}
        of_columns = itemgetter(*(place.get(name, -1) for name in columns))
        flags = [columns.index(name) for name in FLAGS]
        damaged: list[str] = []
        for row in self._sound(damaged):
            cells = list(of_columns((*row[:-1], None)))
            for flag in flags:
                cells[flag] = None if cells[flag] is None else bool(cells[flag])
            yield row[1], json.loads(row[3]), cells
        self._report(damaged)

    def damage(self) -> list[str]:
        """What is lost; empty if nothing is.

        Raises:
            InputError: What it says of its study is lost, so that no row means anything.
        """
        self.meta()
        damaged: list[str] = []
        deque(self._sound(damaged), 0)
        return damaged

    def sound(self) -> tuple[dict[str, str], list[tuple[Any, ...]]]:
        """What the store says of its study, and all rows that are sound.

        Raises:
            InputError: As of :meth:`damage`.
        """
        return self.meta(), list(self._sound([]))

    # ---------------------------------------------------------------- private

    def _sound(self, damaged: list[str]) -> Iterator[tuple[Any, ...]]:
        """Rows that match their checksum, by ordinal; of the others, names are appended."""
        seen = set()
        with self._refusing():
            for row in self._records(damaged):
                if row[0] in seen or row[-1] != checksum(row[:-1]):
                    damaged.append(f"point {shown(row[1])}")
                else:
                    seen.add(row[0])
                    yield row
            if not damaged:
                (says,) = self._db.execute("PRAGMA integrity_check(1)").fetchone()
                damaged += ["its index"] * (says != "ok")
            if not damaged:
                found, expected = self._db.execute(
                    "SELECT count(*), (SELECT value FROM meta WHERE key = 'rows') FROM points"
                ).fetchone()
                if str(found) != expected:
                    damaged.append(f"{found} of {expected} points are there")

    def _records(self, damaged: list[str]) -> Iterator[tuple[Any, ...]]:
        """All rows by ordinal; where pages are damaged, those of the others."""
        try:
            yield from self._db.execute("SELECT * FROM points ORDER BY ordinal, id")
            return
        except sqlite3.DatabaseError as error:
            damaged.append(f"pages ({error})")
        (pages,) = self._db.execute("PRAGMA page_count").fetchone()
        found: list[Any] = []
        for number in range(1, ROWS_PER_PAGE * pages):
            with suppress(sqlite3.DatabaseError):
                found += self._db.execute("SELECT * FROM points WHERE rowid = ?", (number,))
        yield from sorted(found, key=lambda row: (repr(type(row[1])), row[1]))

    def _count(self, added: int) -> None:
        """Note how many rows there should be, in the transaction that changes it."""
        self._db.execute("UPDATE meta SET value = value + ? WHERE key = 'rows'", (added,))

    def _damaged(self, what: str) -> InputError:
        return InputError(self.path, f"is damaged ({what})", RESTORE)

    def _report(self, damaged: list[str]) -> None:
        if damaged:
            named = ", ".join(damaged[:MOST_NAMED]) + (", ..." if damaged[MOST_NAMED:] else "")
            cure = "the same sweep or search mends it and evaluates again what is lost"
            log.warning("carsim: %s: is damaged (%s); %s", self.path, named, cure)

    def _check(self, have: Mapping[str, str], wanted: Mapping[str, str]) -> None:
        """Refuse the store of another study, or of other code."""
        for key, problem, cure in (
            ("version", "was made by carsim {have}, not {wanted}", ", or run that version"),
            ("code", "was made by other code of this carsim", ", or go back to that code"),
            ("kind", "holds a {have}, not a {wanted}", ""),
            (
                "fingerprint",
                f"is of another study ({have.get('name')}), or the study, its design or its traces "
                "have changed since",
                ", or undo the change",
            ),
            ("columns", "has other metrics than there are now", ", or register the same ones"),
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
        except (sqlite3.Error, UnicodeDecodeError) as error:  # a message may quote the file
            raise refusal(self.path, error) from error


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


def open_folder(folder: Path) -> Store:
    """The store of a folder, made if there is none.

    Raises:
        InputError: The folder cannot be made or written, or holds something else of that name.
    """
    make_folder(folder)
    return Store(folder / STORE_FILE)


def open_store(folder: str | Path) -> Store:
    """The store in a folder that a sweep or a search has made, to be read.

    Raises:
        InputError: There is none, or it is of another schema.
    """
    path = Path(folder) / STORE_FILE
    if not os.path.isfile(path):  # noqa: PTH113 - never raises, whatever the path
        raise InputError(str(folder), f"holds no {STORE_FILE}", "name the folder of a sweep")
    store = Store(path, read_only=True)
    try:
        store.meta()
    except InputError:
        store.close()
        raise
    return store


def write_rescued(path: Path, facts: Mapping[str, str], rows: Sequence[tuple[Any, ...]]) -> None:
    """Write a new store of what :meth:`Store.sound` gives; the name of its study says so.

    Raises:
        InputError: It cannot be written.
    """
    facts = {**facts, "name": facts["name"].removesuffix(RESCUED) + RESCUED}
    with Store(path) as new, new._writing() as db:
        _make(db, facts, rows)


def _make(db: sqlite3.Connection, facts: Mapping[str, str], rows: Sequence[Sequence[Any]]) -> None:
    """The tables of a store, its facts and its rows."""
    db.execute(_META)
    db.execute(_table(json.loads(facts["columns"])))
    more = {"checksum": _seal(facts), "rows": str(len(rows))}
    db.executemany("INSERT INTO meta VALUES (?, ?)", {**facts, **more}.items())
    _insert(db, rows)


def _insert(db: sqlite3.Connection, rows: Sequence[Sequence[Any]]) -> int:
    """How many of these rows are new."""
    if not rows:
        return 0
    places = ", ".join("?" * len(rows[0]))
    return db.executemany(f"INSERT OR IGNORE INTO points VALUES ({places})", rows).rowcount


def _table(names: Sequence[str]) -> str:
    """The statement that makes the points of a store."""
    quoted = ", ".join(f'"{name}"' for name in names)
    return f"{_HEAD}{quoted}, checksum TEXT NOT NULL)"
