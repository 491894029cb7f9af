"""A study file: which points of the design space to evaluate, and by what to judge them."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from carsim.design import Design, design_path, load_design
from carsim.design.load import PRESET_PATHS
from carsim.design.problems import closest
from carsim.errors import InputError
from carsim.explore.axis import PSEUDO_PATHS, VIDEO_PATHS, Axis, parse_axis
from carsim.explore.expression import Expression
from carsim.explore.quality import Quality, load_quality
from carsim.trace import Trace, load_trace
from carsim.yaml_file import read_mapping, shown

MOST_POINTS = 1_000_000
"""Of one study; more is a mistake in an axis."""

Direction = Literal["min", "max"]
Count = Annotated[int, Field(ge=1, le=MOST_POINTS)]
Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]
Texts = Annotated[tuple[str, ...], BeforeValidator(lambda v: tuple(v) if type(v) is list else v)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


class Sampling(_Part):
    """How points are drawn from the axes.

    ``grid`` takes all combinations, ``random`` draws each axis on its own, ``lhs`` is a Latin
    hypercube: each axis is cut into as many strata as there are points, and each is met once.
    """

    method: Literal["grid", "random", "lhs"] = "grid"
    points: Count | None = None
    seed: Seed = 0


class StudyFile(_Part):
    """What a study file says, before its axes are read and its files opened."""

    name: str | None = None
    description: str = ""
    design: str = Field(description="a design file beside the study, or a shipped name")
    traces: Texts = Field(min_length=1, description="trace files, relative to the study")
    set: dict[str, Any] = Field(default_factory=dict, description="fields that all points share")
    axes: dict[str, Any] = Field(min_length=1)
    sampling: Sampling = Sampling()
    filters: Texts = ()
    resample: Seed | None = None
    fidelity: Literal["fluid", "tile"] = "fluid"
    baseline: bool = Field(True, description="simulate dense decoding, too, for the speed-up")
    allow_misfit: bool = Field(False, description="simulate points that do not fit as well")
    quality: str | None = Field(None, description="CSV of measured quality, relative to the study")
    quality_sampling: str = "greedy"
    objectives: dict[str, Direction] | Texts = ()
    constraints: Texts = ()


@dataclass(frozen=True)
class Study:
    """A study, ready to run.

    Attributes:
        file: What the file says.
        name: Its name.
        text: The file as it was read.
        axes: What varies.
        fixed: Fields that all points share.
        filters: Conditions on points.
        constraints: Conditions on results, for search and Pareto.
        designs: The designs by what the study calls them; the first is the base.
        design_paths: Where they were read from.
        traces: The traces by file as the study writes it.
        default_traces: Files that a point takes unless it has an axis ``trace``.
        quality: Measured quality, or None.
    """

    file: StudyFile
    name: str
    text: str
    axes: tuple[Axis, ...]
    fixed: Mapping[str, Any]
    filters: tuple[Expression, ...]
    constraints: tuple[Expression, ...]
    designs: Mapping[str, Design]
    design_paths: Mapping[str, str]
    traces: Mapping[str, Trace]
    default_traces: tuple[str, ...]
    quality: Quality | None

    @property
    def objectives(self) -> dict[str, Direction]:
        """Metric -> whether less or more of it is better."""
        named = self.file.objectives
        if isinstance(named, dict):
            return dict(named)
        from carsim.explore.metrics import direction_of

        return {metric: direction_of(metric) for metric in named}

    @property
    def base(self) -> Design:
        """The design that points change, unless they name another."""
        return next(iter(self.designs.values()))

    @cached_property
    def inputs_sha256(self) -> str:
        """Hash of all that a result depends on beside the point: designs, traces, options."""
        return _sha256(
            {
                "designs": {name: design.sha256 for name, design in self.designs.items()},
                "traces": {name: trace.sha256 for name, trace in self.traces.items()},
                "fixed": self.fixed,
                "resample": self.file.resample,
                "fidelity": self.file.fidelity,
                "baseline": self.file.baseline,
                "allow_misfit": self.file.allow_misfit,
                "quality": self.quality.sha256 if self.quality else None,
                "quality_sampling": self.file.quality_sampling,
            }
        )

    @cached_property
    def fingerprint(self) -> str:
        """Hash of all that a store depends on; prose, objectives and constraints are left out."""
        file = self.file.model_dump(mode="json")
        for free in ("name", "description", "objectives", "constraints"):
            del file[free]
        return _sha256({"file": file, "inputs": self.inputs_sha256})


def load_study(path: str | Path) -> Study:
    """Read a study file, its design, its traces and its measured quality.

    Args:
        path: The YAML file; files that it names are relative to its folder.

    Raises:
        InputError: Anything wrong with it: an unknown key or field path, an empty axis, a condition
            that is none, a file that is not there.
    """
    path = Path(path)
    raw = read_mapping(path)
    place = str(path)
    try:
        file = StudyFile.model_validate(raw)
    except ValidationError as error:
        raise _refusal(error, place) from None
    folder = path.resolve().parent
    axes = tuple(
        parse_axis(name, body, f"{place}: $.axes.{name}") for name, body in file.axes.items()
    )
    designs, design_paths = _designs(file, axes, folder, place)
    trace_files = [
        *file.traces,
        *(
            name
            for value in _pseudo_values(axes, "trace")
            for name in trace_names(value, f"{place}: $.axes: trace")
        ),
    ]
    traces = {name: load_trace(_beside(folder, name)) for name in dict.fromkeys(trace_files)}
    base = next(iter(designs.values()))
    _check_paths(file, axes, base, place)
    metrics_place = f"{place}: $.constraints"
    study = Study(
        file=file,
        name=file.name or path.stem,
        text=path.read_text(encoding="utf-8"),
        axes=axes,
        fixed=file.set,
        filters=tuple(Expression(text, f"{place}: $.filters") for text in file.filters),
        constraints=tuple(Expression(text, metrics_place) for text in file.constraints),
        designs=designs,
        design_paths=design_paths,
        traces=traces,
        default_traces=file.traces,
        quality=load_quality(_beside(folder, file.quality)) if file.quality else None,
    )
    names = {axis.name for axis in axes}
    for each in study.filters:
        for name in sorted(each.names - names):
            field_value(base, name, f"{place}: $.filters")
    from carsim.explore.metrics import METRICS, check_metric

    for metric in study.objectives:
        check_metric(metric, f"{place}: $.objectives")
    for each in study.constraints:
        for name in sorted(each.names - names - set(METRICS)):
            if "." not in name:
                check_metric(name, metrics_place)
            field_value(base, name, metrics_place)
    return study


def trace_names(value: Any, place: str) -> tuple[str, ...]:
    """The files of one value of the axis ``trace``: one, or several for several attentions.

    Raises:
        InputError: Neither text nor a list of texts.
    """
    names = (value,) if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not names or not all(type(n) is str for n in names):
        raise InputError(place, f"got {shown(value)}", "give a file, or a list of files")
    return tuple(names)


def field_value(design: Design, dotted: str, place: str) -> Any:
    """The value of a design's field.

    Raises:
        InputError: There is no such field.
    """
    value: Any = design
    for part in dotted.split("."):
        known = _keys(value)
        if part not in known:
            raise InputError(
                place,
                f"knows no {shown(dotted)}",
                f"{closest(part, known)}name an axis or a field of the design by its path, such as "
                "machine.cores",
            )
        value = value[part] if isinstance(value, dict) else getattr(value, part)
    return value


# -------------------------------------------------------------------- private


def _beside(folder: Path, name: str) -> str:
    return str(folder / name)


def _designs(
    file: StudyFile, axes: tuple[Axis, ...], folder: Path, place: str
) -> tuple[dict[str, Design], dict[str, str]]:
    """The designs by name, and where they were read from."""
    names = list(dict.fromkeys([file.design, *_pseudo_values(axes, "design")]))
    for name in names:
        if not isinstance(name, str):
            raise InputError(f"{place}: $.axes: design", f"got {shown(name)}", "name a file")
    paths = {}
    for name in names:
        beside = Path(_beside(folder, name))
        paths[name] = str(beside if beside.is_file() else design_path(name))
    return {name: load_design(path) for name, path in paths.items()}, paths


def _pseudo_values(axes: tuple[Axis, ...], name: str) -> list[Any]:
    """All values of a pseudo path, be it an axis or set by choices."""
    own = [value for axis in axes if axis.name == name for value in axis.values]
    fields = [each for axis in axes for each in (axis.sets or {}).values()]
    return own + [each[name] for each in fields if name in each]


def _check_paths(file: StudyFile, axes: tuple[Axis, ...], base: Design, place: str) -> None:
    """Refuse what no point could set."""
    from carsim.explore.metrics import RESULT_COLUMNS

    owner: dict[str, str] = {}
    for dotted in file.set:
        if dotted not in VIDEO_PATHS:
            _check_path(base, dotted, f"{place}: $.set")
        owner[dotted] = "set"
    for axis in axes:
        where = f"{place}: $.axes.{axis.name}"
        if axis.name in ("point", *RESULT_COLUMNS):
            raise InputError(where, "is the name of a column of results", "call it otherwise")
        if axis.interval is not None and file.sampling.method == "grid":
            raise InputError(
                where, "is continuous, which a grid is not", "sample by random or lhs, or list it"
            )
        if axis.sets is None:
            paths = {axis.name}
            if axis.name not in PSEUDO_PATHS:
                _check_path(base, axis.name, where)
                if axis.interval is not None and _is_whole(base, axis.name):
                    raise InputError(where, "is a field of whole numbers", "list its values")
        else:
            paths = {path for fields in axis.sets.values() for path in fields}
            for dotted in sorted(paths.difference(PSEUDO_PATHS)):
                _check_path(base, dotted, f"{where}.choice")
        for dotted in sorted(paths):
            if dotted in owner:
                problem = f"{dotted} is set by {owner[dotted]}, too"
                raise InputError(where, problem, "set it in one place")
            owner[dotted] = f"the axis {axis.name}"
    if file.sampling.method != "grid" and file.sampling.points is None:
        problem = f"{file.sampling.method} needs a number of points"
        raise InputError(f"{place}: $.sampling.points", problem, "give it")
    if file.sampling.method == "grid" and file.sampling.points is not None:
        raise InputError(
            f"{place}: $.sampling.points", "a grid has as many points as it has", "leave it out"
        )


def _check_path(base: Design, dotted: str, place: str) -> None:
    """Refuse a path that is no field of any design like the base."""
    if dotted in PRESET_PATHS:
        return
    holders: list[Any] = [base]
    for part in dotted.split("."):
        known = sorted({key for holder in holders for key in _keys(holder)})
        if part not in known:
            hint = f"known here: {', '.join(known)}" if known else "shorten the path"
            raise InputError(
                place, f"no field {shown(part)} in {shown(dotted)}", closest(part, known) + hint
            )
        holders = [inner for holder in holders for inner in _within(holder, part)]


def _is_whole(base: Design, dotted: str) -> bool:
    try:
        value = field_value(base, dotted, "")
    except InputError:
        return False
    return isinstance(value, int)


def _keys(holder: Any) -> list[str]:
    if isinstance(holder, dict):
        return list(holder)
    if isinstance(holder, type) and issubclass(holder, BaseModel):
        return list(holder.model_fields)
    return list(type(holder).model_fields) if isinstance(holder, BaseModel) else []


def _within(holder: Any, part: str) -> list[Any]:
    """What a field holds: its value, and the sections of other kinds that could stand there."""
    if isinstance(holder, dict):
        return [holder[part]]
    model = holder if isinstance(holder, type) else type(holder)
    if not issubclass(model, BaseModel) or part not in model.model_fields:
        return []
    kinds: list[Any] = [*_models(model.model_fields[part].annotation)]
    if isinstance(holder, type):
        return kinds
    value = getattr(holder, part)
    # Keys of a mapping, such as names of memories, are those that it has.
    return [value] if isinstance(value, dict) else [value, *kinds]


def _models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if get_origin(annotation) is dict:
        return []  # its keys are those of a value
    return [model for argument in get_args(annotation) for model in _models(argument)]


def _refusal(error: ValidationError, place: str) -> InputError:
    """The first thing wrong with a study file; unknown keys explain missing ones."""
    found = sorted(
        error.errors(include_url=False), key=lambda problem: problem["type"] != "extra_forbidden"
    )[0]
    where = ".".join(str(part) for part in found["loc"])
    if found["type"] == "extra_forbidden":
        model = Sampling if found["loc"][0] == "sampling" else StudyFile
        known = list(model.model_fields)
        last = str(found["loc"][-1])
        return InputError(
            f"{place}: $.{where}",
            f"unknown key {shown(last)}",
            f"{closest(last, known)}known here: {', '.join(known)}",
        )
    if found["type"] == "missing":
        return InputError(f"{place}: $.{where}", "is missing", "add it")
    message = found["msg"].removeprefix("Input should be ")
    return InputError(
        f"{place}: $.{where}", f"expected {message}, got {shown(found['input'])}", "change it"
    )


def _sha256(document: Any) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), default=repr)
    return hashlib.sha256(text.encode()).hexdigest()
