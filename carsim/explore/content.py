"""Content of a point: everything on which its result depends, without the names of a study.

Two points of different studies with one content have equal results, as long as the code is the
same. So a study can grow, and results can be taken over from other folders.

A field that is set to the value that the design has already is no content: a study that gets an
axis keeps its results at this value. Files count by their bytes, traces and designs by their
hashes. Simplification: two texts of one value, such as a list that names a default and one that
does not, count as different, which costs an evaluation.
"""

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from carsim.base.errors import InputError
from carsim.base.files import admit
from carsim.decisions.trace import load_trace
from carsim.decisions.trace.shipped import trace_path
from carsim.design.load import FILE_PATHS, PRESET_PATHS
from carsim.workload.workload import workload_of

if TYPE_CHECKING:
    from carsim.explore.study import Study

OTHERWISE_READ = frozenset({*PRESET_PATHS, *FILE_PATHS})
"""Fields that make other fields of the design change with them."""

DECODED = ("design", "trace", "workload")
"""Paths whose content is looked up by name."""

_encode = json.JSONEncoder(default=repr, sort_keys=True).encode


class Contents:
    """Content of the points of one study; keeps what they share.

    Args:
        study: The study.
    """

    def __init__(self, study: "Study") -> None:
        file = study.file
        self._study = study
        options = [file.resample, file.fidelity, file.baseline is not False, file.allow_misfit]
        self._options = _encode(options)
        self._usual_design = next(iter(study.designs))
        self._usual_work = self._work_of_study()
        self._works: dict[str, str] = {}
        self._bases: dict[tuple[str, str], Any] = {}
        self._designs = {name: design.sha256 for name, design in study.designs.items()}

    def key(self, changes: Mapping[str, Any]) -> str:
        """Hash of the content of a point, 32 hexadecimal digits.

        Args:
            changes: Fields that the point sets, by path.
        """
        name = changes.get("design", self._usual_design)
        is_read_again = not OTHERWISE_READ.isdisjoint(changes)
        fields = {
            path: self._content(path, value)
            for path, value in changes.items()
            if path not in DECODED and (is_read_again or not self._is_usual(name, path, value))
        }
        texts = [self._options, self._designs[name], self._work(changes), _encode(fields)]
        if is_read_again:  # then it matters which fields the file leaves out
            texts.append(_bytes_sha256(self._study.design_paths[name]))
        return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:32]

    # ---------------------------------------------------------------- private

    def _is_usual(self, design: str, path: str, value: Any) -> bool:
        """The design has this value already."""
        field = (design, path)
        if field not in self._bases:
            section: Any = self._study.designs[design]
            for key in path.split("."):
                if isinstance(section, Mapping):
                    section = section.get(key)
                else:
                    section = getattr(section, key, None)
            self._bases[field] = section
        base = self._bases[field]
        are_numbers = {type(base), type(value)} <= {int, float}
        return (type(base) is type(value) or are_numbers) and bool(base == value)

    @staticmethod
    def _content(path: str, value: Any) -> Any:
        """The value of a field; of a file that is named, the hash of its bytes."""
        if path in FILE_PATHS and isinstance(value, str):
            return _bytes_sha256(value)
        return value

    def _work_of_study(self) -> str:
        """Content of what points decode that say nothing of it."""
        study = self._study
        if study.workload is not None:
            return _work_content(study.workload)
        return _encode(["traces", [study.traces[name].sha256 for name in study.file.traces]])

    def _work(self, changes: Mapping[str, Any]) -> str:
        """Content of what a point decodes."""
        if "trace" in changes:
            value = changes["trace"]
            names = [value] if isinstance(value, str) else list(value)
            return _encode(["traces", [self._study.traces[name].sha256 for name in names]])
        if "workload" not in changes:
            return self._usual_work
        text = _encode(changes["workload"])
        if text not in self._works:
            self._works[text] = _work_content(workload_of(changes["workload"]))
        return self._works[text]


def _work_content(work: Any) -> str:
    """Fields of a workload; of traces that it names, their hashes."""
    fields = {name: value for name, value in asdict(work).items() if name != "traces"}
    traces: list[str] = []
    for name in work.traces:
        with suppress(InputError, OSError):  # its evaluation says why
            traces.append(load_trace(trace_path(name, Path())).sha256)
            continue
        traces.append(name)
    if work.kind == "trace":
        return _encode(["traces", traces])
    return _encode(["workload", fields])


def _bytes_sha256(path: str) -> str:
    """Hash of the bytes of a file; its name if it cannot be read."""
    try:
        return hashlib.sha256(admit(Path(path)).read_bytes()).hexdigest()
    except (InputError, OSError):  # its evaluation says why
        return path
