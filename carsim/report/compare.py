"""Two runs side by side: what differs in what was asked, and what that did."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from carsim.base.errors import InputError
from carsim.decisions.trace import Trace, load_trace
from carsim.decisions.trace.meta import OWN_DECISIONS, STATED, SYNTHETIC
from carsim.design import Design
from carsim.metrics import METRICS, OLD_NAMES
from carsim.report.ratios import RatioChange, ratios
from carsim.report.stored import SUMMARY, StoredPolicy, StoredRun
from carsim.report.stored import stored as stored_run
from carsim.report.summary_file import read_run
from carsim.runs.first import open_design
from carsim.runs.pipeline import run as simulate
from carsim.runs.report import Report
from carsim.workload.workload import Workload, workload_of

if TYPE_CHECKING:
    import pandas as pd

OWN = "own policy"
"""Names the policies of the two designs, which may differ."""

LABELS = frozenset({"name", "description"})
"""Fields of a design that change no result."""

NUMBERS = ("a", "b", "difference", "relative")


class Difference(NamedTuple):
    """Something that the two runs were given differently; None where one has no such thing."""

    path: str
    a: Any
    b: Any


class Change(NamedTuple):
    """A metric, or the seconds of a category of time, of a policy in both runs."""

    of: str
    what: str
    a: float | None
    b: float | None

    @property
    def difference(self) -> float | None:
        """Second less first."""
        return None if self.a is None or self.b is None else self.b - self.a

    @property
    def relative(self) -> float | None:
        """Difference over the first; None where that is zero."""
        return self.difference / self.a if self.a and self.difference is not None else None


class PhaseChange(NamedTuple):
    """A kind of phase of the own policies: seconds per video, and what limits it."""

    phase: str
    a_s: float | None
    b_s: float | None
    a_limit: str | None
    b_limit: str | None


class RunComparison:
    """Differences between two runs, ``a`` and ``b``, and their effects."""

    def __init__(self, a: StoredRun, b: StoredRun) -> None:
        self.a, self.b = a, b

    @cached_property
    def spec(self) -> tuple[Difference, ...]:
        """Fields of the designs that differ, by path."""
        found = _differences(self.a.resolved_design, self.b.resolved_design)
        return tuple(each for each in found if each.path not in LABELS)

    @cached_property
    def inputs(self) -> tuple[Difference, ...]:
        """Further differences: traces, video, seed, fidelity, version of carsim."""
        return tuple(_differences(_inputs(self.a), _inputs(self.b)))

    @cached_property
    def pairs(self) -> Mapping[str, tuple[StoredPolicy, StoredPolicy]]:
        """The designs' own policies, and all policies that both runs have, by name in the first."""
        of_b = {policy.key: policy for policy in self.b.policies}
        return {OWN: (self.a.own, self.b.own)} | {
            each.policy: (each, of_b[each.key]) for each in self.a.policies if each.key in of_b
        }

    @cached_property
    def metrics(self) -> tuple[Change, ...]:
        """Every metric that is a number, of every policy."""
        return tuple(
            Change(of, name, *values)
            for of, pair in self.pairs.items()
            for name in METRICS
            if (values := [_number(policy.get(name)) for policy in pair]) != [None, None]
        )

    @cached_property
    def breakdown(self) -> tuple[Change, ...]:
        """Seconds of a video by category, for every simulated policy."""
        videos = self.a.videos_per_batch, self.b.videos_per_batch
        return tuple(
            Change(of, what, a.get(what, 0.0) / videos[0], b.get(what, 0.0) / videos[1])
            for of, pair in self.pairs.items()
            for a, b in [[policy.breakdown_s for policy in pair]]
            for what in a | b
        )

    @cached_property
    def phases(self) -> tuple[PhaseChange, ...]:
        """Phases of the designs' own policies, and what limits them."""
        a, b = (
            {
                each.phase: (each.share_of_time * run.own.seconds_per_video, each.limited_by)
                for each in run.limits
            }
            for run in (self.a, self.b)
        )
        sides = ((phase, a.get(phase, (None,) * 2), b.get(phase, (None,) * 2)) for phase in a | b)
        return tuple(
            PhaseChange(phase, a_s, b_s, a_limit, b_limit)
            for phase, (a_s, a_limit), (b_s, b_limit) in sides
        )

    @cached_property
    def ratios(self) -> tuple[RatioChange, ...]:
        """B over A where constants and bandwidths err together: own policies, with intervals."""
        return ratios(self.a, self.b)

    @property
    def notes(self) -> tuple[str, ...]:
        """Why a difference may not be the effect of the design alone."""
        return tuple(_notes(self.a, self.b))

    def named(self, text: str) -> str:
        """A text about videos, about texts if both runs decode those."""
        return self.a.named(text) if self.a.video.kind == self.b.video.kind else text

    def change(self, metric: str, of: str = OWN) -> Change:
        """The change of a metric, by its name of today or of carsim 0.1, of a policy.

        Raises:
            KeyError: No such metric or policy.
        """
        for change in self.metrics:
            if change[:2] == (of, OLD_NAMES.get(metric, metric)):
                return change
        raise KeyError((of, metric))

    def spec_frame(self) -> "pd.DataFrame":
        """Fields and inputs that differ: path, a, b."""
        return _frame((*self.spec, *self.inputs), Difference._fields, 1).astype(object)

    def to_frame(self) -> "pd.DataFrame":
        """Figures by policy and metric: a, b, difference, relative."""
        return _frame(_rows(self.metrics), ("policy", "metric", *NUMBERS), 2).astype(float)

    def breakdown_frame(self) -> "pd.DataFrame":
        """Seconds of a video by policy and category: a, b, difference, relative."""
        return _frame(_rows(self.breakdown), ("policy", "category", *NUMBERS), 2).astype(float)

    def ratios_frame(self) -> "pd.DataFrame":
        """Ratios by metric: value, low, high, b_wins."""
        return _frame(self.ratios, RatioChange._fields, 1).astype(float)

    def phases_frame(self) -> "pd.DataFrame":
        """Phases of the own policies: seconds of a video, and what limits them."""
        return _frame(self.phases, PhaseChange._fields, 1)

    def document(self) -> dict[str, Any]:
        """All of it as plain data."""
        phases = ("phase", "a_s_per_video", "b_s_per_video", "a_limited_by", "b_limited_by")
        return {
            "a": _named(self.a),
            "b": _named(self.b),
            "spec": [each._asdict() for each in self.spec],
            "inputs": [each._asdict() for each in self.inputs],
            "notes": list(self.notes),
            "ratios": {each.metric: dict(list(each._asdict().items())[1:]) for each in self.ratios},
            "metrics": _nested(self.metrics),
            "breakdown_s_per_video": _nested(self.breakdown),
            "phases": [dict(zip(phases, each, strict=True)) for each in self.phases],
        }

    def __repr__(self) -> str:
        time = self.change("seconds_per_video")
        return (
            f"<RunComparison of {self.a.design} and {self.b.design}: {time.a:.4g} and "
            f"{time.b:.4g} s per video, {len(self.spec)} fields differ>"
        )

    def _repr_html_(self) -> str:
        """A notebook shows what a terminal shows."""
        from carsim.report.compare_words import as_notebook

        return as_notebook(self)


def compare(
    a: "Report | Design | str | Path",
    b: "Report | Design | str | Path",
    *,
    traces: Sequence[Trace | str | Path] = (),
    workload: Workload | str | None = None,
    allow_misfit: bool = False,
) -> RunComparison:
    """Compare two runs.

    Args:
        a: A report, a folder that ``carsim run`` made, or a design, a design file or the name
            of a shipped design, which is simulated.
        b: The same.
        traces: Traces on which designs are simulated.
        workload: What they decode if there are none; by default what the model makes, densely.
        allow_misfit: Simulate designs that do not fit.

    Raises:
        InputError: A folder that holds no run, an unknown design, traces beside a workload.
        MisfitError: A design does not fit, and that was not allowed.
    """
    loaded = [each if isinstance(each, Trace) else load_trace(each) for each in traces]
    work = None if workload is None else workload_of(workload)
    given = [_given(each, work) for each in (a, b)]
    if not loaded and work is None:
        on_traces = any(isinstance(each, StoredRun) and not each.is_stated for each in given)
        for each in given:
            if on_traces and isinstance(each, Design):
                problem = "is a design, and has to be simulated on a trace, as the other was"
                raise InputError(each.name, problem, "give `traces`")
    runs = (
        each
        if isinstance(each, StoredRun)
        else stored_run(simulate(each, loaded, workload=work, allow_misfit=allow_misfit))
        for each in given
    )
    return RunComparison(*runs)


def is_run(name: str | Path) -> bool:
    """True if a name is that of a folder of results, False if of a design."""
    path = Path(name)
    return (path / SUMMARY).exists() or path.is_dir()


def _given(what: Report | Design | str | Path, workload: Workload | None) -> StoredRun | Design:
    """A run that was made, or a design that is still to be simulated."""
    if isinstance(what, Report):
        return stored_run(what)
    if isinstance(what, Design):
        return what
    return read_run(what) if is_run(what) else open_design(str(what), workload=workload)


def _number(value: Any) -> float | None:
    return None if isinstance(value, str | bool) else value


def _differences(a: Any, b: Any, path: str = "") -> Iterator[Difference]:
    """Paths at which two documents differ; a key in only one of them is one difference."""
    if not (isinstance(a, Mapping) and isinstance(b, Mapping)):
        if a != b:
            yield Difference(path, a, b)
        return
    for key in dict.fromkeys([*a, *b]):
        yield from _differences(a.get(key), b.get(key), f"{path}.{key}" if path else str(key))


def _inputs(run: StoredRun) -> dict[str, Any]:
    kept = run.model_dump(include={"video", "resampling_seed", "fidelity", "carsim_version"})
    return {
        "traces": [f"{trace.name} (sha256 {trace.sha256[:12]})" for trace in run.traces],
        **kept,
    }


def _notes(a: StoredRun, b: StoredRun) -> Iterator[str]:
    for name, run in (("A", a), ("B", b)):
        if not run.fits:
            yield f"MISFIT: {name} does not fit its board: {'; '.join(run.misfits)}."
    if a.video != b.video:
        text = "The videos differ: seconds and joules per video are of different work."
        if a.video.kind != b.video.kind:
            text = f"A decodes a {a.video.kind}, B a {b.video.kind}, which is different work."
        yield a.named(text)
    if a.fidelity != b.fidelity:
        yield "Fidelities differ, which alone may move latencies by up to 5 %."
    if a.carsim_version != b.carsim_version:
        yield "The runs were made by different versions of carsim."
    if a.own.policy != b.own.policy:
        yield f"Own policies are {a.own.policy} in A and {b.own.policy} in B."
    if a.own.decisions != b.own.decisions:
        yield f"Decisions are those {a.own.decisions} in A and {b.own.decisions} in B."
    elif a.own.decisions_source == OWN_DECISIONS or any(
        made in a.own.decisions for made in (SYNTHETIC, STATED)
    ):
        yield f"Decisions are {a.own.decisions} in both."
    if a.head_included != b.head_included:
        has, lacks = ("A", "B") if a.head_included else ("B", "A")
        yield f"{has} includes the head, {lacks} leaves it out."
    for name, run, other in (("A", a, b), ("B", b, a)):
        known = {policy.key for policy in other.policies}
        for policy in run.policies:
            if policy.key not in known:
                yield f"{name} alone has {policy.policy}."


def _named(run: StoredRun) -> dict[str, Any]:
    named = run.model_dump(include={"design", "design_sha256", "fits"})
    return named | {"board": run.resolved_design["board"]["name"], "own_policy": run.own.policy}


def _rows(changes: Sequence[Change]) -> Iterator[tuple[Any, ...]]:
    return ((*each, each.difference, each.relative) for each in changes)


def _nested(changes: Sequence[Change]) -> dict[str, dict[str, dict[str, float | None]]]:
    nested: dict[str, dict[str, dict[str, float | None]]] = {}
    for of, what, *numbers in _rows(changes):
        nested.setdefault(of, {})[what] = dict(zip(NUMBERS, numbers, strict=True))
    return nested


def _frame(rows: Iterable[Sequence[Any]], columns: Sequence[str], n_index: int) -> "pd.DataFrame":
    import pandas as pd

    frame = pd.DataFrame(list(rows), columns=list(columns), dtype=object)
    return frame.set_index(list(columns[:n_index]))
