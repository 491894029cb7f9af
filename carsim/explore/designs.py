"""Designs of the points of a study."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

from carsim.base.errors import InputError
from carsim.design import Design, override
from carsim.design.load import PRESET_PATHS, read_design
from carsim.explore.axis import PSEUDO_PATHS
from carsim.explore.study import Study
from carsim.runs.opening import open_design


class Designs:
    """Makes the designs of a study.

    Args:
        study: The study.

    Attributes:
        fixed: A design, by its name, with what the study sets for all points; None if that needs
            values of axes beside it. It is kept.
    """

    def __init__(self, study: Study) -> None:
        self._study = study
        self.fixed = cache(self._fixed)

    def of(self, changes: Mapping[str, Any]) -> Design:
        """The design of a point with these fields.

        Raises:
            InputError: It is refused.
        """
        name = changes.get("design", next(iter(self._study.designs)))
        fields = _without(PSEUDO_PATHS, changes)
        presets = fields.keys() & PRESET_PATHS
        if presets and presets <= self._study.file.set.keys() and (base := self.fixed(name)):
            return override(base, _without(PRESET_PATHS, fields))
        return self._written(name, fields)

    def _fixed(self, name: str) -> Design | None:
        """The design of a name with the study's fixed fields; None if it depends on the point."""
        fields = _without(PSEUDO_PATHS, self._study.file.set)
        path = self._study.design_paths[name]
        with suppress(InputError):
            # A machine that the file leaves out is chosen anew for each point.
            if not fields.keys() & PRESET_PATHS or "machine" in read_design(path)[0]:
                return self._written(name, fields)
        return None

    def _written(self, name: str, fields: Mapping[str, Any]) -> Design:
        """A design with fields as if its file had them."""
        if not fields.keys() & PRESET_PATHS:
            return override(self._study.designs[name], fields)
        # A preset is merged beneath what the file says, so that the file is read again.
        texts = [f"{path}={json.dumps(value)}" for path, value in fields.items()]
        return open_design(self._study.design_paths[name], texts, self._study.workload)


def _without(paths: Sequence[str], changes: Mapping[str, Any]) -> dict[str, Any]:
    return {path: value for path, value in changes.items() if path not in paths}
