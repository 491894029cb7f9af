"""A study on its way to the workers that evaluate its points."""

import gc
import pickle
import threading
from collections.abc import Mapping
from pathlib import Path
from platform import node
from typing import Any, NamedTuple, TypeVar

from carsim.base.errors import InputError
from carsim.base.plugins import VARIABLE, loaded_plugins
from carsim.base.registry import outside_kinds
from carsim.base.yaml_file import shown
from carsim.explore.code import code_sha256
from carsim.explore.study import Study
from carsim.metrics import METRICS

Made = TypeVar("Made")

SAME = "install the same on all machines"


class Parcel(NamedTuple):
    """A study on its way to workers, which must run the same code with the same kinds.

    Attributes:
        plugins: Plugins of the sender, of which the study may hold classes: file -> hash.
        code: Checksum of the sender's code.
        outside: (role, name) of the outside kinds that are needed: all metrics, of other kinds
            those that the study names.
        packed: The study.
    """

    plugins: Mapping[str, str]
    code: str
    outside: frozenset[tuple[str, str]]
    packed: bytes

    @classmethod
    def of(cls, study: Study) -> "Parcel":
        """A study of this process."""
        texts = [study.text]
        texts += [design.model_dump_json() for design in study.designs.values()]
        outside = {
            (role, name)
            for role, name in outside_kinds()
            if role == METRICS.role or any(name in text for text in texts)
        }
        return cls(
            plugins=loaded_plugins(),
            code=code_sha256(),
            outside=frozenset(outside),
            packed=pickle.dumps(study),
        )

    def unpack(self) -> Study:
        """The study.

        Raises:
            InputError: This process lacks a plugin or a kind, or runs other code.
        """
        worker = f"a worker on {node()}"
        loaded_digests = set(loaded_plugins().values())
        for path, digest in self.plugins.items():
            if digest not in loaded_digests:
                problem = f"has not loaded the plugin {Path(path).name}, sha256 {digest[:12]}"
                cure = f"copy that file there, and name it in {VARIABLE} before the worker starts"
                raise InputError(worker, problem, cure)
        if self.code != code_sha256():
            raise InputError(worker, "runs other code of carsim", SAME)
        unknown = sorted(self.outside - outside_kinds())
        if unknown:
            named = ", ".join(f"{role} {shown(name)}" for role, name in unknown)
            cure = "register it in a module that the study's script imports, or use no workers (0)"
            raise InputError(worker, f"knows no {named}", cure)
        try:
            study: Study = pickle.loads(self.packed)
        except (ImportError, AttributeError) as error:
            raise InputError(worker, f"cannot run this carsim ({error})", SAME) from None
        # What is here now stays until the end: to look through it for garbage cost a point 8 %.
        gc.freeze()
        return study


studies: dict[str, Study | Parcel | InputError] = {}
"""In a worker: the studies that it works at; the reason, of one at which it cannot work."""


_own = threading.local()
"""Of a thread: by name of a class, a study and the object of that class that was made of it."""


def made_of(key: str, make: type[Made]) -> Made:
    """Runs in a worker: what its thread keeps of a study, made when it is first needed.

    Args:
        key: Key of :data:`studies`.
        make: A class of which an object is made of the study alone, such as an evaluator.

    Raises:
        InputError: As of :meth:`Parcel.unpack`, or the worker could not load a plugin.
    """
    study = studies[key]
    if isinstance(study, InputError):
        raise study
    if isinstance(study, Parcel):
        study = study.unpack()
        studies[key] = study
    study_of_object: Study | None
    instance: Any
    study_of_object, instance = getattr(_own, make.__name__, (None, None))
    if study_of_object is not study:
        instance = make(study)  # type: ignore[call-arg] # each takes a study
        setattr(_own, make.__name__, (study, instance))
    return instance


def forget(key: str) -> None:
    """Keep nothing more of a study in this process."""
    studies.pop(key, None)
    vars(_own).clear()
