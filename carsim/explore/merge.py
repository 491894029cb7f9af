"""Join the stores of several folders: the shards of a study, or parts that were swept twice.

The folders must have the same study, code and kind. Of a point that several folders have, the
results must be equal, apart from the time that the evaluation took. Failed points stay, unless
another folder has a result of them.
"""

import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from carsim.base.errors import InputError
from carsim.base.files import write_whole
from carsim.base.text import shortened
from carsim.explore.code import MANIFEST
from carsim.explore.shards import ALL_POINTS, Shard
from carsim.explore.store import FOREIGN, STUDY_FILE, Store, open_folder, open_store

SAME_SWEEP = ("version", "code", "kind", "fingerprint", "columns")
"""Facts that the stores must share; a fingerprint covers the seed of drawn points as well."""

FREE_COLUMNS = ("seconds",)
"""Columns in which two evaluations of a point may differ."""


@dataclass(frozen=True)
class Merged:
    """Outcome of a merge.

    Attributes:
        points: Points of the study.
        stored: Points with a result in the joined folder.
        repeated: Results that several folders had.
        missing: Labels of shards that no folder had, such as ``shard 3/16``.
    """

    points: int
    stored: int
    repeated: int
    missing: tuple[str, ...]


def merge(folders: Sequence[str | Path], out: str | Path) -> Merged:
    """Join folders of sweeps into one.

    Args:
        folders: Folders of sweeps, fronts or searches; they are only read.
        out: Folder of the joined store. If it holds a store already, its results are joined, too.

    Returns:
        What was joined, and which shards are missing.

    Raises:
        InputError: A folder holds no store, or one of another study or code; results differ; or
            the joined folder cannot be written.
    """
    with ExitStack() as stack:
        sources = [(str(folder), stack.enter_context(open_store(folder))) for folder in folders]
        first_name, first = sources[0]
        for name, store in sources[1:]:
            check_same(first_name, first, name, store)
        joined = stack.enter_context(open_folder(out))
        is_source = Path(out).resolve() in [Path(folder).resolve() for folder in folders]
        if joined.facts and not is_source:
            check_same(first_name, first, str(out), joined)
            sources.append((str(out), joined))
        lines: dict[str, tuple[str, str, bytes]] = {}
        repeated = 0
        for name, store in sources:
            for key, status, line in store.sound_lines():
                if key not in lines:
                    lines[key] = (name, status, line)
                    continue
                repeated += 1
                other_name, other_status, other_line = lines[key]
                if other_status == "failed":
                    lines[key] = (name, status, line)
                elif status != "failed":
                    columns = first.facts["columns"]
                    _check_equal(columns, (other_name, other_line), (name, line))
        labels = {label for _, store in sources for label in store.facts["shards"]}
        facts = dict(first.facts)
        facts["within"] = _share_proven([store.facts["within"] for _, store in sources])
        if facts["kind"] == "search":
            facts["points"] = len(lines)
        missing = _missing(labels)
        facts["shard"] = ALL_POINTS
        facts["shards"] = sorted(labels)
        joined.replace(facts, [line for _, _, line in lines.values()])
        write_whole(Path(out) / STUDY_FILE, facts["study"])
        return Merged(
            points=facts["points"],
            stored=len(joined.finished()),
            repeated=repeated,
            missing=missing,
        )


def check_same(first_name: str, first: Store, name: str, store: Store) -> None:
    """Refuse a store that cannot be joined with another one.

    Raises:
        InputError: It has another study, seed, code or kind.
    """
    for fact in SAME_SWEEP:
        if store.facts[fact] != first.facts[fact]:
            problem = f"cannot be joined with {first_name}: {_difference(fact, first, store)}"
            cure = "join folders of one study and one code"
            if fact == "fingerprint":
                cure = "sweep the study that you want, with the other folder as --reuse"
            raise InputError(name, problem, cure)


def merged_manifest(folders: Sequence[str | Path], out: Path, command: str) -> None:
    """Write the manifest of a joined folder: that of the first folder that has one.

    Args:
        folders: The folders that were joined.
        out: The joined folder.
        command: The command that joined them.
    """
    for folder in folders:
        try:
            document = json.loads((Path(folder) / MANIFEST).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue  # an interrupted shard has none
        document["command"] = command
        document["merged"] = [str(path) for path in folders]
        write_whole(out / MANIFEST, json.dumps(document, indent=2) + "\n")
        return


# -------------------------------------------------------------------- private


def _difference(fact: str, first: Store, store: Store) -> str:
    """The difference of a store in a fact, in words."""
    if fact == "fingerprint":
        if store.facts["name"] != first.facts["name"]:
            return f"it is of another study ({store.facts['name']})"
        sampling = _sampling(store.facts["study"])
        first_sampling = _sampling(first.facts["study"])
        if sampling != first_sampling:
            return f"it has another sampling or seed ({sampling} instead of {first_sampling})"
        return "its study, design or traces differ"
    if fact == "kind":
        return f"it holds a {store.facts['kind']}, and the other a {first.facts['kind']}"
    if fact == "code" and first.facts.get("plugins", {}) != store.facts.get("plugins", {}):
        return f"it was made with other plugins ({_plugins(store)} instead of {_plugins(first)})"
    return f"it {FOREIGN[fact].format(**store.facts).replace(', not by this version', '')}"


def _plugins(store: Store) -> str:
    """Names of the plugins with which the results of a store were made."""
    return ", ".join(store.facts.get("plugins", {})) or "none"


def _sampling(text: str) -> str:
    """The sampling of a study, in one line."""
    from carsim.base.yaml_file import mapping_of

    return shortened(json.dumps(mapping_of(text, "study").get("sampling", "grid")), 80)


def _check_equal(columns: Sequence[str], *sides: tuple[str, bytes]) -> None:
    """Refuse two different results of one point.

    Args:
        columns: Columns of the results.
        sides: Folder and line of each result.
    """
    (first_name, first_line), (second_name, second_line) = sides
    first = _cells_of(first_line)
    second = _cells_of(second_line)
    for column, first_cell, second_cell in zip(columns, first, second, strict=True):
        if column not in FREE_COLUMNS and first_cell != second_cell:
            ordinal = second_line.split(b"\t")[3].decode()
            values = f"{column} is {first_cell} in {first_name}, and {second_cell} there"
            cure = "sweep it again on one machine, and find out which result is right"
            raise InputError(second_name, f"point {ordinal} has another result: {values}", cure)


def _cells_of(line: bytes) -> list[Any]:
    """Cells of the result that a line of a store ends with."""
    _, text = line.rsplit(b"\t", 1)
    cells: list[Any] = json.loads(text)
    return cells


def _share_proven(shares: Sequence[float | None]) -> float | None:
    """Least share that one of the stores has proven; further results do not weaken a proof."""
    proven = [share for share in shares if share is not None]
    return min(proven, default=None)


def _missing(labels: set[str]) -> tuple[str, ...]:
    """Labels of the shards that are missing."""
    shards = {Shard.parse(label.removeprefix("shard ")) for label in labels - {ALL_POINTS}}
    counts = {shard.total for shard in shards}
    if ALL_POINTS in labels or len(counts) != 1:
        return ()
    total = counts.pop()
    numbers = {shard.number for shard in shards}
    return tuple(Shard(n, total).label for n in range(1, total + 1) if n not in numbers)
