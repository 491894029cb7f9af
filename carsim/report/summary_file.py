"""``summary.json`` in a folder of results: a run as JSON, with a checksum over all of it."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from carsim.base.errors import InputError
from carsim.base.files import read_text
from carsim.base.section import explained
from carsim.report.stored import AGAIN, SUMMARY, StoredRun, stored
from carsim.runs.report import Report

SCHEMA_VERSION = 2
"""Version of the keys of :class:`StoredRun`; a change that could break a reader raises it."""

MAX_BYTES = 50_000_000
"""No run has as much to say."""

CHECKSUM = "checksum"
"""Key of the checksum over all others."""


def summary(report: Report) -> dict[str, Any]:
    """A report as a JSON document.

    A number that is not finite is null. Equal inputs give an equal document: it holds no dates and
    no paths.
    """
    return sealed(stored(report).model_dump(mode="json"))


def sealed(document: dict[str, Any]) -> dict[str, Any]:
    """A document with its checksum."""
    return document | {CHECKSUM: _checksum(document)}


def read_run(folder: str | Path) -> StoredRun:
    """The run that a folder holds.

    Raises:
        InputError: No folder of a run, or one that is broken; one line.
    """
    path = Path(folder) / SUMMARY
    try:
        if not path.exists():
            cure = "make one with carsim run"
            raise InputError(str(folder), f"holds no {SUMMARY} of a run", cure)
        document = json.loads(read_text(path, MAX_BYTES, AGAIN))
    except (json.JSONDecodeError, RecursionError):
        raise InputError(str(path), "is truncated or no JSON", AGAIN) from None
    return _checked(document, str(path))


def _checksum(document: dict[str, Any]) -> str:
    others = {key: value for key, value in document.items() if key != CHECKSUM}
    return sha256(json.dumps(others, sort_keys=True).encode()).hexdigest()[:16]


def _checked(document: Any, place: str) -> StoredRun:
    if not isinstance(document, dict) or "schema_version" not in document:
        raise InputError(place, "is no summary of a run", "name a folder that carsim run wrote")
    if (found := document["schema_version"]) != SCHEMA_VERSION:
        problem = f"is of version {found!r:.40}; this carsim reads {SCHEMA_VERSION}"
        cure = "run again with this carsim, or read it with the one that wrote it"
        raise InputError(place, problem, cure)
    if document.get(CHECKSUM) != _checksum(document):
        raise InputError(place, "is damaged: it does not match its checksum", AGAIN)
    try:
        # Through JSON text, whose lists strict models take for tuples.
        return StoredRun.model_validate_json(json.dumps(document))
    except ValidationError as error:
        raise explained(error, place, document, StoredRun, AGAIN) from None
