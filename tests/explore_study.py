"""A study of the toy, whose points take milliseconds, and stores of it as older versions made."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import yaml
from tiny import write_inputs

from carsim.explore.store import STORE_FILE, checksum, open_store

AXES = {
    "machine.cores": [1, 2, 4],
    "policy.tau": [-0.5, 0.0, 0.5],
    "policy.schedule": ["static", "drs"],
}


def write_study(folder: Path, **changes) -> Path:
    """Write ``study.yaml``, ``toy.yaml`` and ``toy.npz``; 18 points unless changed."""
    if not (folder / "toy.npz").exists():
        write_inputs(folder)
    study = {"name": "toy study", "design": "toy.yaml", "traces": ["toy.npz"], "axes": AXES}
    path = folder / "study.yaml"
    fields = {key: value for key, value in {**study, **changes}.items() if value is not None}
    path.write_text(yaml.safe_dump(fields, sort_keys=False), encoding="utf-8")
    return path


def as_older(folder: Path, schema: str, **facts: str) -> None:
    """Rewrite a store as it was in an older schema, "1" to "3"; that of 0.1.0 is "1".

    Args:
        folder: Its folder.
        schema: The schema.
        facts: What it says of its study that is to be different.
    """
    with open_store(folder) as store:
        results = {ordinal: json.dumps(row) for ordinal, _, row in store.rows()}
        meta = {**store.meta(), "schema": schema, **facts}
    del meta["columns"]
    if schema != "1":
        meta["checksum"] = checksum([text for item in sorted(meta.items()) for text in item])
    with closing(sqlite3.connect(folder / STORE_FILE)) as db, db:
        if schema in ("1", "2"):
            rows = db.execute("SELECT id, ordinal, status, point FROM points").fetchall()
            rows = [(*row, results[row[1]]) for row in rows]
            db.execute("DROP TABLE points")
            tail = ", checksum TEXT NOT NULL" if schema == "2" else ""
            db.execute(
                "CREATE TABLE points (id TEXT PRIMARY KEY, ordinal INTEGER NOT NULL, "
                f"status TEXT NOT NULL, point TEXT NOT NULL, result TEXT NOT NULL{tail})"
            )
            rows = [(*row, checksum(row)) if tail else row for row in rows]
            places = ", ".join("?" * len(rows[0]))
            db.executemany(f"INSERT INTO points VALUES ({places})", rows)
        db.execute("DELETE FROM meta")
        db.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())


def interrupted(folder: Path) -> None:
    """Leave the store as a process does that is killed while it commits: half of it written."""
    store, copy = folder / STORE_FILE, folder / "copy"
    with closing(sqlite3.connect(store, isolation_level=None)) as db:
        db.execute("PRAGMA cache_size=1")
        db.execute("BEGIN IMMEDIATE")
        db.execute("UPDATE points SET latency_s = 1.0, reason = zeroblob(9000)")
        copy.write_bytes(store.read_bytes())
        left = (folder / f"{STORE_FILE}-journal").read_bytes()
        db.execute("ROLLBACK")
    assert copy.read_bytes() != store.read_bytes(), "the premise"
    copy.replace(store)
    (folder / f"{STORE_FILE}-journal").write_bytes(left)
