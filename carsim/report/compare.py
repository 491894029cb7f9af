"""Two runs side by side: what differs in what was asked, and what that did."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from carsim.base.errors import InputError
from carsim.decisions.trace import Trace, load_trace
from carsim.design import Design
from carsim.metrics import METRICS
from carsim.report.ratios import RatioChange, ratios
from carsim.report.stored import StoredPolicy, StoredRun, read_run
from carsim.report.stored import stored as stored_run
from carsim.runs.opening import open_design
from carsim.runs.pipeline import run as simulate
from carsim.runs.report import Report
from carsim.workload.workload import Workload, workload_of

OWN = "own policy"
"""Names the policies of the two designs, which may differ."""

LABELS = frozenset({"name", "description"})
"""Fields of a design that change no result."""


class Difference(NamedTuple):
    """Something that the two runs were given differently; None where one has no such thing."""

    path: str
    a: Any
    b: Any


class Change(NamedTuple):
    """A metric, or the seconds per video of a category of time, of a policy in both runs."""

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


class RunComparison:
    """Differences between two runs, ``a`` and ``b``, and their effects; print it.

    Attributes:
        a: The first run.
        b: The second run.
    """

    def __init__(self, a: StoredRun, b: StoredRun) -> None:
        self.a, self.b = self.both = a, b

    def __str__(self) -> str:
        """The comparison in words and tables, at 80 columns, as ``carsim compare`` prints it."""
        from carsim.report.compare_words import plain_text

        return plain_text(self)

    @cached_property
    def spec(self) -> tuple[Difference, ...]:
        """Fields of the designs that differ, by path."""
        found = differences(self.a.resolved_design, self.b.resolved_design)
        return tuple(each for each in found if each.path not in LABELS)

    @cached_property
    def inputs(self) -> tuple[Difference, ...]:
        """Further differences: traces, video, seed, fidelity, version of carsim."""
        return tuple(differences(_inputs(self.a), _inputs(self.b)))

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
        """Seconds per video by category under the own policies."""
        (a, of_a), (b, of_b) = ((run.own.breakdown_s, run.videos_per_batch) for run in self.both)
        ends = ((what, a.get(what, 0) / of_a, b.get(what, 0) / of_b) for what in a | b)
        return tuple(Change(OWN, *each) for each in ends)

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
        """The change of a metric of a policy.

        Raises:
            KeyError: No such metric or policy.
        """
        return {(each.of, each.what): each for each in self.metrics}[of, metric]

    def document(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {
            "a": _named(self.a),
            "b": _named(self.b),
            "spec": [each._asdict() for each in self.spec],
            "inputs": [each._asdict() for each in self.inputs],
            "notes": list(self.notes),
            "ratios": {each.metric: dict(list(each._asdict().items())[1:]) for each in self.ratios},
            "metrics": {
                of: {each.what: _figures(each) for each in self.metrics if each.of == of}
                for of in self.pairs
            },
            "breakdown_s_per_video": {each.what: _figures(each) for each in self.breakdown},
        }


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
    needs_traces = any(isinstance(each, StoredRun) and not each.is_stated for each in given)
    runs = []
    for each in given:
        if isinstance(each, Design):
            if needs_traces and not loaded and work is None:
                problem = "is a design, and has to be simulated on a trace, as the other was"
                raise InputError(each.name, problem, "give `traces`")
            each = stored_run(simulate(each, loaded, workload=work, allow_misfit=allow_misfit))
        runs.append(each)
    return RunComparison(*runs)


def is_run(name: str | Path) -> bool:
    """True if a name is that of a folder of results, False if of a design."""
    return Path(name).is_dir()


def _given(what: Report | Design | str | Path, workload: Workload | None) -> StoredRun | Design:
    """A run that was made, or a design that is still to be simulated."""
    if isinstance(what, Report):
        return stored_run(what)
    if isinstance(what, Design):
        return what
    return read_run(what) if is_run(what) else open_design(str(what), workload=workload)


def _number(value: Any) -> float | None:
    return None if isinstance(value, str | bool) else value


def differences(a: Any, b: Any, path: str = "") -> Iterator[Difference]:
    """Paths at which two documents differ; a key in only one of them is one difference."""
    if not (isinstance(a, Mapping) and isinstance(b, Mapping)):
        if a != b:
            yield Difference(path, a, b)
        return
    for key in dict.fromkeys([*a, *b]):
        yield from differences(a.get(key), b.get(key), f"{path}.{key}" if path else str(key))


def _inputs(run: StoredRun) -> dict[str, Any]:
    kept = run.model_dump(include={"video", "resampling_seed", "fidelity", "carsim_version"})
    traces = [f"{trace.name} (sha256 {trace.sha256[:12]})" for trace in run.traces]
    return {"traces": traces, **kept}


def _notes(a: StoredRun, b: StoredRun) -> Iterator[str]:
    for name, run in (("A", a), ("B", b)):
        if not run.fits:
            yield f"MISFIT: {name} does not fit its board: {'; '.join(run.misfits)}."
    if a.video.kind != b.video.kind:
        yield f"A decodes a {a.video.kind}, B a {b.video.kind}, which is different work."
    elif a.video != b.video:
        yield a.named("The videos differ: seconds and joules per video are of different work.")
    if a.own.decisions != b.own.decisions:
        yield f"Decisions are those {a.own.decisions} in A and {b.own.decisions} in B."


def _named(run: StoredRun) -> dict[str, Any]:
    named = run.model_dump(include={"design", "design_sha256", "fits"})
    board, own = run.resolved_design["board"]["name"], run.own
    return named | {"board": board, "own_policy": own.policy, "decisions": own.decisions}


def _figures(change: Change) -> dict[str, float | None]:
    return {name: getattr(change, name) for name in ("a", "b", "difference", "relative")}
