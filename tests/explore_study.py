"""A study of the toy, whose points take milliseconds, and changes of its stores."""

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


def restated(folder: Path, **facts: str) -> None:
    """Change what a store says of its study, and its checksum with it."""
    with open_store(folder) as store:
        meta = store.meta() | facts
    meta["checksum"] = checksum([text for item in sorted(meta.items()) for text in item])
    with closing(sqlite3.connect(folder / STORE_FILE)) as db, db:
        db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", meta.items())


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
