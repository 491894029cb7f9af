"""Folders of results: which files are as they were written, and a new folder of what is sound.

A summary and a store have checksums of their own, other files a digest. What is rescued says so:
the study of a store has another name, a summary has a note, and RESCUED.txt lists what is lost.
"""

import json
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from carsim.base.digests import DIGESTS, problems, write_digests
from carsim.base.errors import InputError
from carsim.explore.code import MANIFEST
from carsim.explore.frame import export, frame_of
from carsim.explore.store import STORE_FILE, STUDY_FILE, open_store
from carsim.report.files import NOTICE, OUTPUT_FILES, REPORT
from carsim.report.folder import whole_folder
from carsim.report.stored import SUMMARY, read_run, sealed

UNKNOWN = "cannot be checked: it has no digest"
EXPORTS = ("points.csv", "points.parquet", MANIFEST)


def inspect(folder: Path) -> dict[str, str]:
    """The problem of each file of results in a folder; an empty text: none.

    Args:
        folder: Output of ``carsim run``, ``carsim sweep`` or ``carsim search``.

    Returns:
        File -> problem; :data:`UNKNOWN` where nothing tells.

    Raises:
        InputError: It holds no results, or cannot be read.
    """
    try:
        damage_of = problems(folder)
        result_files = {*OUTPUT_FILES, *EXPORTS, STORE_FILE, STUDY_FILE} - {DIGESTS, REPORT}
        there = result_files.intersection(path.name for path in folder.iterdir())
    except OSError as error:
        raise InputError(str(folder), f"cannot be read ({error.strerror})", "check it") from None
    if not damage_of and not there & {SUMMARY, STORE_FILE}:
        problem = f"holds neither {SUMMARY} nor {STORE_FILE} nor {DIGESTS}"
        raise InputError(str(folder), problem, "name the folder of a run, a sweep or a search")
    damage_of = dict.fromkeys(sorted(there), UNKNOWN) | damage_of
    if SUMMARY in there:
        damage_of[SUMMARY] = _problem(read_run, folder)
    if STORE_FILE in there:
        problem = _problem(_read_store, folder)
        if problem or damage_of[STORE_FILE] == UNKNOWN:
            damage_of[STORE_FILE] = problem
    if STUDY_FILE in there and STORE_FILE in there:
        damage_of[STUDY_FILE] = damage_of[STUDY_FILE].replace(UNKNOWN, "") or _study_problem(folder)
    return damage_of


def rescue(folder: Path, new: Path) -> dict[str, str]:
    """Copy what is sound into a new folder.

    Args:
        folder: As of :func:`inspect`.
        new: The folder to be made.

    Returns:
        File -> what is lost of it.

    Raises:
        InputError: Nothing is damaged, nothing can be rescued, or the new folder cannot be written.
    """
    damage_of = inspect(folder)
    lost = {name: damage for name, damage in damage_of.items() if damage}
    if set(lost.values()) <= {UNKNOWN}:
        raise InputError(str(folder), "is not damaged", "use it as it is")
    if folder.resolve() in new.resolve().parents:
        raise InputError(str(new), "lies in the damaged folder", "name one elsewhere")
    with whole_folder(new, overwrite=False, ours=()) as into:
        for name in damage_of.keys() - lost.keys() - {STORE_FILE}:
            shutil.copyfile(folder / name, into / name)
        if damage_of.get(SUMMARY) == "":
            _mark_summary(into / SUMMARY, lost)
        if STORE_FILE in damage_of:  # unless nothing of it can be read
            with suppress(InputError), open_store(folder) as store:
                store.rescue(into / STORE_FILE)
                if STUDY_FILE in lost:  # of which the store has a copy
                    (into / STUDY_FILE).write_text(store.facts["study"], encoding="utf-8")
        if EXPORTS[0] in lost and (into / STORE_FILE).exists():
            with open_store(into) as store:
                export(frame_of(store), into)
        if not any(into.iterdir()):
            raise InputError(str(folder), "nothing of it can be rescued", "restore a copy of it")
        lines = [f"{name}: {damage}\n" for name, damage in lost.items()]
        text = "Rescued from a damaged folder. Not copied:\n" + "".join(lines)
        (into / NOTICE).write_text(text, encoding="utf-8")
        write_digests(into, sorted({path.name for path in into.iterdir()} - {DIGESTS}))
    return lost


# -------------------------------------------------------------------- private


def _problem(read: Callable[[Path], object], folder: Path) -> str:
    """What a reader finds wrong with a folder; empty for nothing."""
    try:
        read(folder)
    except InputError as error:
        return error.problem
    return ""


def _read_store(folder: Path) -> None:
    """Read the store of a folder.

    Raises:
        InputError: It is damaged.
    """
    with open_store(folder) as store:
        if store.damaged:
            raise InputError(str(folder), f"is damaged ({', '.join(store.damaged)})", "rescue it")


def _study_problem(folder: Path) -> str:
    """Difference of the copy of the study from the study in the store; none if neither is read."""
    try:
        with open_store(folder) as store:
            text = store.facts["study"]
    except InputError:
        return UNKNOWN
    is_copy = (folder / STUDY_FILE).read_bytes() == text.encode()
    return "" if is_copy else f"differs from the study in {STORE_FILE}"


def _mark_summary(path: Path, lost: Mapping[str, str]) -> None:
    """Add a note to a summary: it comes from a folder that has lost these files."""
    document = json.loads(path.read_bytes())
    note = f"RESCUED from a damaged folder that lost {', '.join(lost)}."
    document["notes"] = [note, *document["notes"]]
    path.write_text(json.dumps(sealed(document), indent=2) + "\n", encoding="utf-8")
