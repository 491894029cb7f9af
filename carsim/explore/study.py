"""A study file: which points of the design space to evaluate, and by what to judge them."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from carsim.base.errors import InputError
from carsim.base.files import read_text
from carsim.base.paths import is_within, overlap, overlapping
from carsim.base.plugins import load_named
from carsim.base.registry import KindsOf, Registry
from carsim.base.section import Section, explained, field_problems, file_schema, sections_of
from carsim.base.text import closest
from carsim.base.yaml_file import MAX_BYTES, line_of, mapping_of, shown, yaml_text
from carsim.decisions.trace import Trace, load_trace
from carsim.decisions.trace.shipped import trace_path
from carsim.design import Design, override
from carsim.design.load import MODEL_FILE, PRESET_PATHS, design_path, preset
from carsim.explore.axis import PSEUDO_PATHS, VIDEO_PATHS, Axis, parse_axis
from carsim.explore.content import Contents
from carsim.explore.expression import Expression
from carsim.explore.pareto import direction_of
from carsim.hardware.expected import Expected
from carsim.metrics import METRICS
from carsim.metrics.table import WITHOUT_DENSE
from carsim.runs.assumed import assumed_of
from carsim.runs.opening import open_design
from carsim.workload.workload import Workload, workload_of

MOST_POINTS = 1_000_000
"""Points of one study at most; more is a mistake in an axis."""

EXPECTED_FIELDS = ("machine.overheads", "board.technology", "board.preset")
"""Fields on which the factor between expected and simulated time depends."""

OUTCOME = ("status", "reason", "seconds")
"""Columns of a result before its metrics. Of ``status``, only ``ok`` is an answer: ``misfit`` does
not fit its board, ``invalid`` is refused, and ``failed`` could not be evaluated, since processes
died of it."""

Direction = Literal["min", "max"]
Count = Annotated[int, Field(ge=1, le=MOST_POINTS)]
Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]
Texts = Annotated[tuple[str, ...], BeforeValidator(lambda v: tuple(v) if type(v) is list else v)]


class Sampling(Section):
    """Rule by which points are drawn from the axes.

    ``grid`` takes all combinations. ``lhs`` is a Latin hypercube: each axis is cut into as many
    strata as there are points, and each is met once.
    """

    method: Literal["grid", "lhs"] = Field("grid", description="all points, or a Latin hypercube")
    points: Count | None = Field(None, description="how many to draw; grid takes all")
    seed: Seed = Field(0, description="of the draws")


class StudyFile(Section):
    """A study file as written, before its axes are read and its files opened."""

    name: str | None = Field(None, description="what outputs call it; that of the file if absent")
    description: str = Field("", description="one sentence on the question")
    design: str = Field(description="a design file beside the study, or a shipped name")
    traces: Texts = Field((), description="trace files, relative to the study, or names of traces")
    workload: str | dict[str, Any] | None = Field(
        None, description="what is decoded in place of traces, such as text:2048+512 or video:8"
    )
    set: dict[str, Any] = Field(default_factory=dict, description="fields that all points share")
    axes: dict[str, Any] = Field(
        min_length=1, description="field, or name of an axis with choice, and its values"
    )
    sampling: Sampling = Sampling()
    filters: Texts = Field(
        (), description="conditions on fields that a point must meet to be evaluated"
    )
    resample: Seed | None = Field(
        None,
        description="seed of rows that are drawn again where a batch needs more than a trace has",
    )
    fidelity: Literal["fluid", "tile"] = Field(
        "fluid", description="of every point, as in carsim run"
    )
    baseline: bool | None = Field(
        None,
        description="also simulate dense decoding, to get speed-ups; if absent, a sweep of the "
        "front alone simulates it only if the study uses `speedup`, other commands always do",
    )
    allow_misfit: bool = Field(False, description="simulate points that do not fit as well")
    objectives: dict[str, Direction] | Texts = Field(
        (), description="metrics, each with min or max if not as usual"
    )
    constraints: Texts = Field((), description="conditions on metrics that an answer must meet")


@dataclass(frozen=True)
class Study:
    """A study, ready to run; it is what travels to the workers.

    Attributes:
        file: Contents of the file.
        name: Its name.
        text: The file as it was read.
        axes: Fields that vary.
        filters: Conditions on points.
        constraints: Conditions on results, for search and Pareto.
        designs: The designs by what the study calls them; the first is the base.
        design_paths: Files of the designs.
        traces: The traces by file as the study writes it.
        workload: What is decoded, where that is not the traces; else None.
    """

    file: StudyFile
    name: str
    text: str
    axes: tuple[Axis, ...]
    filters: tuple[Expression, ...]
    constraints: tuple[Expression, ...]
    designs: Mapping[str, Design]
    design_paths: Mapping[str, str]
    traces: Mapping[str, Trace]
    workload: Workload | None

    @property
    def objectives(self) -> dict[str, Direction]:
        """Metric -> whether less or more of it is better."""
        objectives = self.file.objectives
        if isinstance(objectives, dict):
            return dict(objectives)
        return {metric: direction_of(metric) for metric in objectives}

    @property
    def base(self) -> Design:
        """The design that points change, unless they name another."""
        return next(iter(self.designs.values()))

    @property
    def lean(self) -> "Study":
        """Without dense decoding, unless the file wants it or an objective or constraint needs it.

        That halves the time of a point.
        """
        names = set(self.objectives).union(*(condition.names for condition in self.constraints))
        metrics_in_use = METRICS.keys() & names
        if self.file.baseline is not None or metrics_in_use - WITHOUT_DENSE:
            return self
        return replace(self, file=self.file.model_copy(update={"baseline": False}))

    @property
    def ends(self) -> dict[str, list[float]]:
        """Least and largest value of axes of more than two numbers."""
        ends = {}
        for axis in self.axes:
            has_numbers = {type(value) for value in axis.values} <= {int, float}
            if len(axis.values) > 2 and has_numbers:
                ends[axis.name] = [min(axis.values), max(axis.values)]
        return ends

    @property
    def expected(self) -> Expected | None:
        """The factor on times that holds for all points; None if points may differ in it."""
        changed = {*self.file.set}.union(*(axis.paths for axis in self.axes))
        if any(overlap(path, field) for path in changed for field in EXPECTED_FIELDS):
            return None
        designs = self.designs.values()
        # A calibration widens the interval for models that were not measured.
        is_calibrated = any(design.machine.overheads.calibration for design in designs)
        if is_calibrated and any(overlap(path, "model") for path in changed):
            return None
        factors = {design.expected for design in designs}
        return factors.pop() if len(factors) == 1 else None

    @property
    def assumed(self) -> str:
        """Assumptions of all points, in one line; axes that vary them are named."""
        axis_of_path = {path: axis.name for axis in self.axes for path in axis.paths}
        # A preset of the model or the board is merged beneath the file, which is read again then.
        fixed_fields = {
            path: value
            for path, value in self.file.set.items()
            if path not in PSEUDO_PATHS and path not in PRESET_PATHS
        }
        design = self.base
        with suppress(InputError):
            design = override(design, fixed_fields)
        return assumed_of(design, varied=axis_of_path)

    @property
    def no_points(self) -> InputError:
        """Error message if no point passes the filters."""
        filters = "; ".join(condition.text for condition in self.filters)
        location = f"study {self.name}: $.filters"
        return InputError(location, f"leave no point: {filters}", "widen an axis or drop a filter")

    @cached_property
    def inputs_sha256(self) -> str:
        """Hash of all that a result depends on beside the point: designs, traces, options."""
        file = self.file
        return _sha256(
            {
                "designs": {name: design.sha256 for name, design in self.designs.items()},
                "traces": {name: trace.sha256 for name, trace in self.traces.items()},
                **({"workload": self.workload.text} if self.workload else {}),
                "fixed": file.set,
                **file.model_dump(include={"resample", "fidelity", "baseline", "allow_misfit"}),
            }
        )

    @cached_property
    def contents(self) -> Contents:
        """Contents of its points."""
        return Contents(self)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of all that a store depends on; prose, objectives and constraints are left out."""
        prose = {"name", "description", "objectives", "constraints"}
        file = self.file.model_dump(mode="json", exclude=prose)
        return _sha256({"file": file, "inputs": self.inputs_sha256})


def study_of_axes(
    design: str | Path, axes: Mapping[str, Any], workload: Workload | str | None = None
) -> Study:
    """A study of a design over axes, without a file.

    Args:
        design: A design file, or a shipped name.
        axes: Field -> its values, as in a study file.
        workload: What is decoded, such as ``video:8``; by default what the model makes.

    Raises:
        InputError: As of :func:`load_study`.
    """
    if workload is None:
        work = Workload(open_design(str(design)).model.makes)
    else:
        work = workload_of(workload)
    contents = {"design": str(design), "workload": work.text, "axes": dict(axes)}
    return load_study(contents)


def load_study(path: str | Path | Mapping[str, Any], workload: Workload | None = None) -> Study:
    """Read a study file, its design, and its traces.

    Args:
        path: The YAML file, or a mapping of what would stand in it; files that it names are
            relative to its folder, or to the working directory.
        workload: What is decoded in place of what the file says.

    Raises:
        InputError: Anything wrong with it: an unknown key or field path, an empty axis, a condition
            that is none, a file that is not there.
    """
    source = _read_source(path)
    location = source.location
    folder = source.folder
    text = source.text
    try:
        contents = mapping_of(text, location)
        if workload is not None:
            contents = {**contents, "workload": workload.text}
            contents.pop("traces", None)
            text = yaml_text(contents)
        file = StudyFile.model_validate(contents)
    except ValidationError as error:
        raise explained(error, location, contents) from None
    file, work = _decoded(file, folder, location)
    axes = []
    axis_locations = {}
    for name, body in file.axes.items():
        line = line_of(source.text, "axes", name)
        axis_locations[name] = f"{location}:{line}: $.axes.{name}"
        axes.append(parse_axis(name, body, axis_locations[name]))
    if workload is not None:
        _check_workload_holds(axes, location)
    design_paths = _design_paths(file, tuple(axes), folder, location)
    trace_files = [*file.traces]
    for value in _values_of("trace", axes):
        trace_files += trace_names(value, f"{location}: $.axes: trace")
    for value in _values_of("workload", axes):
        _workload(value, f"{location}: $.axes: workload")
    study = Study(
        file=file,
        name=_printable(file.name or source.stem),
        text=text,
        axes=tuple(axes),
        filters=tuple(Expression(text, f"{location}: $.filters") for text in file.filters),
        constraints=tuple(
            Expression(text, f"{location}: $.constraints") for text in file.constraints
        ),
        designs={name: open_design(path, workload=work) for name, path in design_paths.items()},
        design_paths=design_paths,
        traces={name: load_trace(trace_path(name, folder)) for name in dict.fromkeys(trace_files)},
        workload=work,
    )
    _check_paths(study, location, axis_locations)
    _check_names(study, location)
    return study


class _Source(NamedTuple):
    """A study as it was given.

    Attributes:
        text: Its text, in YAML.
        location: Its name in errors.
        folder: Folder that the files it names are relative to.
        stem: Its name, unless it has one of its own.
    """

    text: str
    location: str
    folder: Path
    stem: str


def _read_source(path: str | Path | Mapping[str, Any]) -> _Source:
    """Read a file, or take a mapping for one.

    Raises:
        InputError: The file cannot be read.
    """
    if isinstance(path, Mapping):
        text = yaml_text(dict(path))
        return _Source(text, location="study", folder=Path.cwd(), stem="study")
    path = Path(path)
    text = read_text(path, MAX_BYTES, "name a study file")
    return _Source(text, location=str(path), folder=path.resolve().parent, stem=path.stem)


def _decoded(file: StudyFile, folder: Path, place: str) -> tuple[StudyFile, Workload | None]:
    """The file with the traces of its workload, and the workload if that is no trace."""
    names_both = bool(file.traces) and file.workload is not None
    names_neither = not file.traces and file.workload is None
    if names_both or names_neither:
        problem = "say what is decoded, and so does $.workload" if names_both else "is missing"
        raise InputError(f"{place}: $.traces", problem, "give traces, or a workload")
    if file.workload is None:
        return file, None
    work = _workload(file.workload, f"{place}: $.workload", folder)
    file = file.model_copy(update={"workload": work.text, "traces": work.traces})
    return file, None if work.traces else work


def _workload(value: Any, place: str, folder: Path | None = None) -> Workload:
    """The workload of a text such as ``video:8``; ``place`` stands in errors."""
    try:
        return workload_of(value, folder)
    except InputError as error:
        raise error.named({"workload": place}) from None


def trace_names(value: Any, place: str) -> tuple[str, ...]:
    """The files of one value of the axis ``trace``: one, or several for several attentions.

    Raises:
        InputError: Neither text nor a list of texts.
    """
    names = (value,) if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not names or not all(type(n) is str for n in names):
        raise InputError(place, f"got {shown(value)}", "give a file, or a list of files")
    return tuple(names)


def value_of(root: Any, path: str) -> Any:
    """The value of a field of a design or a mapping by its dotted path; None if there is none."""
    value = root
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else getattr(value, key, None)
    return value


def result_columns() -> tuple[str, ...]:
    """Columns of a frame of results beside ``point`` and the axes, with all metrics of today."""
    return (*OUTCOME, *METRICS)


# -------------------------------------------------------------------- private


def _design_paths(
    file: StudyFile, axes: tuple[Axis, ...], folder: Path, place: str
) -> dict[str, str]:
    """The designs that a study names, and where they are: beside it, or shipped."""
    paths = {}
    for name in (file.design, *_values_of("design", axes)):
        if not isinstance(name, str):
            raise InputError(f"{place}: $.axes: design", f"got {shown(name)}", "name a file")
        beside = folder / name
        paths[name] = str(beside if beside.is_file() else design_path(name))
    return paths


def _values_of(path: str, axes: Sequence[Axis]) -> Iterator[Any]:
    """All values of a path, be it an axis or set by choices."""
    for axis in axes:
        for value in axis.values:
            if path in (changes := axis.changes(value)):
                yield changes[path]


def _check_workload_holds(axes: Sequence[Axis], place: str) -> None:
    """Refuse a workload from outside of the file if each point says itself what it decodes."""
    for axis in axes:
        for path in sorted(axis.paths & {"workload", "trace"}):
            problem = f"says what is decoded, and so does {path} of the axis {axis.name}"
            raise InputError("`workload`", problem, f"leave it out, or the axis in {place}")


def _check_names(study: Study, place: str) -> None:
    """Refuse filters, objectives and constraints over what is not there."""
    axes = {axis.name for axis in study.axes}
    changed = {*study.file.set}.union(*(axis.paths for axis in study.axes))
    for metric in study.file.objectives:
        METRICS.find(metric, f"{place}: $.objectives")
    for kind, conditions in (("filters", study.filters), ("constraints", study.constraints)):
        names = {name for condition in conditions for name in condition.names}
        for name in sorted(names - axes):
            if kind == "filters" and (name == "replay" or name in changed & {*PSEUDO_PATHS}):
                continue  # no field of a design, but a value that points set
            if kind == "filters" or "." in name:
                _check_path(study.base, name, f"{place}: $.{kind}")
            else:
                METRICS.find(name, f"{place}: $.{kind}")


def _check_paths(study: Study, place: str, places: Mapping[str, str]) -> None:
    """Refuse what no point could set, and fields that two axes, or an axis and `set`, would set."""
    _load_kinds(study)
    _check_together(study.file.set, f"{place}: $.set")
    setter = dict.fromkeys(study.file.set, "set")
    for dotted in set(study.file.set).difference(VIDEO_PATHS):
        _check_path(study.base, dotted, f"{place}: $.set", study.file.set[dotted])
    for axis in study.axes:
        where = places[axis.name]
        if axis.name in ("point", "knee", *result_columns()):
            raise InputError(where, "is the name of a column of results", "call it otherwise")
        for dotted in sorted(axis.paths):
            if dotted not in PSEUDO_PATHS:
                location = where if axis.sets is None else f"{where}.choice"
                _check_path(study.base, dotted, location, *_values_of(dotted, [axis]))
        for fields in (axis.sets or {}).values():
            _check_together(fields, f"{where}.choice")
        for dotted in sorted(axis.paths):
            _check_alone(dotted, setter, where)
        setter |= dict.fromkeys(axis.paths, f"the axis {axis.name}")
    sampling = study.file.sampling
    if (sampling.method == "lhs") != (sampling.points is not None):
        problem = "lhs needs a number of points, and a grid has none"
        raise InputError(f"{place}: $.sampling.points", problem, "give both or neither")


def _check_together(paths: Iterable[str], place: str) -> None:
    """Refuse two fields of one mapping if one lies within the other: it would be set twice."""
    pair = overlapping(paths)
    if pair is not None:
        outer, inner = pair
        problem = f"sets {inner}, and {outer}, which holds it"
        raise InputError(place, problem, f"set it in one place: within {outer}")


def _check_alone(path: str, setter: Mapping[str, str], place: str) -> None:
    """Refuse a field that another axis or `set` sets as well, in whole or in part.

    The order of the axes would decide which of the two holds.

    Args:
        path: The field.
        setter: Fields that are set already, each with its axis or ``set``.
        place: The axis of the field, in errors.
    """
    for set_path, name in setter.items():
        if path == set_path:
            raise InputError(place, f"{path} is set by {name}, too", "set it in one place")
        if overlap(path, set_path):
            relation = "holds" if is_within(set_path, path) else "is part of"
            problem = f"{path} {relation} {set_path}, which {name} sets"
            raise InputError(place, problem, "set it in one place")
        if {path, set_path} == {"workload", "trace"}:
            problem = f"{path} says what is decoded, and so does {set_path} of {name}"
            raise InputError(place, problem, "leave one of them out")


def _check_path(base: Design, dotted: str, place: str, *values: Any) -> None:
    """Refuse a path that is no field of any design like the base, and values that no field takes.

    What a field takes depends on no other field; fields that do not go together are refused later.
    """
    if dotted in PRESET_PATHS:
        if dotted != MODEL_FILE:
            section, _, _ = dotted.partition(".")
            for value in values:
                preset(section, value, place)
        return
    # Sections (or their classes) and mappings that could have the next key of the path.
    holders: list[Any] = [base]
    registries: list[Registry[Any]] = []
    outer_registries: list[Registry[Any]] = []
    for key in dotted.split("."):
        fields = [_fields(holder) for holder in holders]
        known_keys = sorted({name for of_holder in fields for name in of_holder})
        if key not in known_keys:
            hint = f"known here: {', '.join(known_keys)}" if known_keys else "shorten the path"
            problem = f"no field {shown(key)} in {shown(dotted)}"
            raise InputError(place, problem, closest(key, known_keys) + hint)
        kinds = [_kind(holder) for holder in holders if key in _fields(holder)]
        outer_registries = registries
        registries = [registry for holder in holders for registry in _registries(holder, key)]
        holders = [inner for of_holder in fields for inner in of_holder.get(key, ())]
    if outer_registries and dotted.endswith(".kind"):
        for value in values:
            outer_registries[0].find(value, place)
        return
    if all(issubclass(kind, BaseModel) for kind in kinds):
        for value in values:
            _check_value(kinds, key, value, place)


def _check_value(kinds: Sequence[type[BaseModel]], key: str, value: Any, place: str) -> None:
    """Refuse a value that the field of no section takes, for the reason of the first section."""
    problems = [field_problems(kind, key, value) for kind in kinds]
    if all(problems):
        path, problem, cure = problems[0][0]
        raise InputError(f"{place}{path.removeprefix(key)}", problem, cure)


def _kind(holder: Any) -> type:
    """The class of a section, or the class itself."""
    return holder if isinstance(holder, type) else type(holder)


def _fields(holder: Any) -> dict[str, list[Any]]:
    """Fields of a mapping or a section: their values, and sections that could stand there."""
    if isinstance(holder, dict):
        return {key: [value] for key, value in holder.items()}
    kind = _kind(holder)
    if not issubclass(kind, BaseModel):
        return {}
    return {
        name: [
            getattr(holder, name, None),
            *sections_of(field.annotation),
            *_outside_kinds(holder, name),
        ]
        for name, field in kind.model_fields.items()
    }


def _registries(holder: Any, field_name: str) -> list[Registry[Any]]:
    """The registry of the kinds that a field of a section takes; none for any other field."""
    kind = _kind(holder)
    if not issubclass(kind, BaseModel) or field_name not in kind.model_fields:
        return []
    marks = kind.model_fields[field_name].metadata
    return [mark.registry for mark in marks if isinstance(mark, KindsOf)]


def _outside_kinds(holder: Any, field_name: str) -> list[Any]:
    """Kinds from outside that may stand in a field of a section."""
    registries = _registries(holder, field_name)
    return [registry[name] for registry in registries for name in registry.outside]


def _load_kinds(study: Study) -> None:
    """Import the installed kinds that a study names, so that their fields are known."""
    kind_paths = {path for path in study.file.set if path.endswith(".kind")}
    names = [study.file.set[path] for path in kind_paths]
    for axis in study.axes:
        for path in axis.paths:
            if path.endswith(".kind"):
                names += _values_of(path, [axis])
    for name in names:
        if isinstance(name, str):
            load_named(name)


def study_schema() -> dict[str, Any]:
    """JSON schema of a study file; as axes name fields of the design, any key of them is valid."""
    return file_schema(StudyFile, "carsim study")


def _printable(text: str) -> str:
    """A line of text that a terminal can show; it may begin with a mark of byte order."""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:200])


def _sha256(document: Any) -> str:
    """Hash of a document, which does not depend on the order of its keys."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), default=repr)
    return hashlib.sha256(text.encode()).hexdigest()
