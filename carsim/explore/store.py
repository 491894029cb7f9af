"""The store of a study: one SQLite file that survives Ctrl-C, kill -9, reboots and full disks.

A row per finished point, committed as it finishes; a point's identity is the hash of its inputs, so
that none is stored twice. The store knows which study, design, traces and code of carsim it is of,
and serves no other. One sweep writes at a time; others may read meanwhile.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from carsim.errors import InputError
from carsim.explore.code import code_sha256
from carsim.explore.evaluate import Row
from carsim.explore.points import Point

STORE_FILE = "store.sqlite"
LOCK_FILE = "store.lock"
SCHEMA = "1"
"""Of the tables below; a store of another is refused."""

BUSY_SECONDS = 30.0
"""For how long a writer waits for another one."""

_TABLES = (
    "CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS points (id TEXT PRIMARY KEY, ordinal INTEGER NOT NULL, "
    "status TEXT NOT NULL, point TEXT NOT NULL, result TEXT NOT NULL)",
)


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

    def claim(self, meta: Mapping[str, str]) -> None:
        """Make it the store of a study, or make sure that it is.

        Args:
            meta: ``fingerprint`` and what else to keep about the study.

        Raises:
            InputError: It belongs to another study, or to other code of carsim.
        """
        own = {"schema": SCHEMA, "version": version("carsim"), "code": code_sha256()}
        wanted = {**own, **meta}
        with self._refusing():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                for table in _TABLES:
                    self._db.execute(table)
                have = dict(self._db.execute("SELECT key, value FROM meta"))
                if not have:
                    self._db.executemany("INSERT INTO meta VALUES (?, ?)", wanted.items())
                self._db.execute("COMMIT")
            except BaseException:
                self._roll_back()
                raise
        if have:
            self._check(have, wanted)

    def meta(self) -> dict[str, str]:
        """What is known of the study.

        Raises:
            InputError: No store, or one of another schema.
        """
        with self._refusing():
            have = dict(self._db.execute("SELECT key, value FROM meta"))
        self._check(have, {"schema": SCHEMA})
        return have

    def add(self, results: Iterable[tuple[Point, Row]]) -> None:
        """Store results, all or none of them; those that are there already stay as they are.

        Raises:
            InputError: They cannot be written, because the disk is full for instance.
        """
        rows = [
            (
                point.id,
                point.ordinal,
                row["status"],
                json.dumps(point.values, default=repr),
                json.dumps(row, allow_nan=False),
            )
            for point, row in results
        ]
        with self._refusing():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                self._db.executemany("INSERT OR IGNORE INTO points VALUES (?, ?, ?, ?, ?)", rows)
                self._db.execute("COMMIT")
            except BaseException:
                self._roll_back()
                raise

    def forget(self, status: str) -> None:
        """Drop the results of a status, so that their points are evaluated again."""
        with self._refusing():
            self._db.execute("DELETE FROM points WHERE status = ?", (status,))

    def finished(self) -> set[str]:
        """Identities of all points that have a result."""
        with self._refusing():
            return {point_id for (point_id,) in self._db.execute("SELECT id FROM points")}

    def counts(self) -> dict[str, int]:
        """Results by status."""
        with self._refusing():
            return dict(self._db.execute("SELECT status, count(*) FROM points GROUP BY status"))

    def rows(self) -> Iterator[tuple[int, dict[str, Any], Row]]:
        """(Ordinal, axis values, result) of all points, in the order of the study."""
        with self._refusing():
            yield from (
                (ordinal, json.loads(point), json.loads(result))
                for ordinal, point, result in self._db.execute(
                    "SELECT ordinal, point, result FROM points ORDER BY ordinal, id"
                )
            )

    # ---------------------------------------------------------------- private

    def _roll_back(self) -> None:
        if self._db.in_transaction:  # a full disk has rolled back already
            self._db.execute("ROLLBACK")

    def _check(self, have: Mapping[str, str], wanted: Mapping[str, str]) -> None:
        if have.get("schema") != SCHEMA:
            problem = f"is a store of schema {have.get('schema', 'none')}; this carsim has {SCHEMA}"
            raise InputError(self.path, problem, "name another folder")
        for key, cure in (
            ("version", "name another folder, or run that version"),
            ("code", "name another folder, or go back to that code"),
            ("kind", "name another folder"),
            ("fingerprint", "name another folder, or undo the change"),
        ):
            if key in wanted and have.get(key) != wanted[key]:
                what = {
                    "version": f"was made by carsim {have.get(key)}, not {wanted[key]}",
                    "code": "was made by other code of this version of carsim",
                    "kind": f"holds a {have.get(key)}, not a {wanted[key]}",
                    "fingerprint": f"is of another study ({have.get('name')}), or the study, its "
                    "design or its traces have changed since",
                }[key]
                raise InputError(self.path, what, cure)

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise _refusal(self.path, error) from error


@contextmanager
def sole_writer(folder: Path) -> Iterator[None]:
    """Keep a second sweep out of a folder; the lock goes with the process that holds it.

    Raises:
        InputError: Another process is at work there.
    """
    lock = sqlite3.connect(folder / LOCK_FILE, timeout=0, isolation_level=None)
    try:
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        lock.close()
        if "locked" in str(error):
            problem = "another carsim is writing to it"
            raise InputError(str(folder), problem, "wait for it, or name another") from None
        raise _refusal(str(folder), error) from error
    try:
        yield
    finally:
        lock.close()


def open_store(folder: str | Path) -> Store:
    """The store in a folder that a sweep or a search has made.

    Raises:
        InputError: There is none, or it is of another schema.
    """
    path = Path(folder) / STORE_FILE
    if not path.is_file():
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
    if "not a database" in text or "malformed" in text or "no such table" in text:
        return InputError(path, f"is no store of carsim ({text})", "name another folder")
    return InputError(
        path,
        f"cannot be used ({text})",
        "make room or mend it, then start the same command again: what is stored stays",
    )
