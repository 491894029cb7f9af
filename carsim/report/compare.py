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
    """A metric, or the seconds per video of a category of time, of a policy in both runs.

    Attributes:
        of: The policy.
        what: The metric, or the category of time.
        a: Its value in the first run; None where it has none.
        b: Its value in the second run.
    """

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
        if self.difference is None or not self.a:
            return None
        return self.difference / self.a


class RunComparison:
    """Differences between two runs, ``a`` and ``b``, and their effects; print it.

    Attributes:
        a: The first run.
        b: The second run.
    """

    def __init__(self, a: StoredRun, b: StoredRun) -> None:
        self.a = a
        self.b = b
        self.both = (a, b)

    def __str__(self) -> str:
        """The comparison in words and tables, at 80 columns, as ``carsim compare`` prints it."""
        from carsim.report.compare_words import plain_text

        return plain_text(self)

    @cached_property
    def spec(self) -> tuple[Difference, ...]:
        """Fields of the designs that differ, by path."""
        fields = differences(self.a.resolved_design, self.b.resolved_design)
        return tuple(difference for difference in fields if difference.path not in LABELS)

    @cached_property
    def inputs(self) -> tuple[Difference, ...]:
        """Further differences: traces, video, seed, fidelity, version of carsim."""
        return tuple(differences(_inputs(self.a), _inputs(self.b)))

    @cached_property
    def pairs(self) -> Mapping[str, tuple[StoredPolicy, StoredPolicy]]:
        """The designs' own policies, and all policies that both runs have, by name in the first."""
        pairs = {OWN: (self.a.own, self.b.own)}
        policy_of_b = {policy.key: policy for policy in self.b.policies}
        for policy in self.a.policies:
            if policy.key in policy_of_b:
                pairs[policy.policy] = (policy, policy_of_b[policy.key])
        return pairs

    @cached_property
    def metrics(self) -> tuple[Change, ...]:
        """Every metric that is a number, of every policy."""
        changes = []
        for name, (of_a, of_b) in self.pairs.items():
            for metric in METRICS:
                value_a = _number(of_a.get(metric))
                value_b = _number(of_b.get(metric))
                if value_a is not None or value_b is not None:
                    changes.append(Change(name, metric, value_a, value_b))
        return tuple(changes)

    @cached_property
    def breakdown(self) -> tuple[Change, ...]:
        """Seconds per video by category under the own policies."""
        batch_a_s = self.a.own.breakdown_s
        batch_b_s = self.b.own.breakdown_s
        changes = []
        for category in batch_a_s | batch_b_s:
            video_a_s = batch_a_s.get(category, 0) / self.a.videos_per_batch
            video_b_s = batch_b_s.get(category, 0) / self.b.videos_per_batch
            changes.append(Change(OWN, category, video_a_s, video_b_s))
        return tuple(changes)

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
        for change in self.metrics:
            if change.of == of and change.what == metric:
                return change
        raise KeyError((of, metric))

    def document(self) -> dict[str, Any]:
        """All of it as plain data."""
        metrics: dict[str, Any] = {policy: {} for policy in self.pairs}
        for change in self.metrics:
            metrics[change.of][change.what] = _figures(change)
        return {
            "a": _named(self.a),
            "b": _named(self.b),
            "spec": [difference._asdict() for difference in self.spec],
            "inputs": [difference._asdict() for difference in self.inputs],
            "notes": list(self.notes),
            "ratios": {ratio.metric: _ratio(ratio) for ratio in self.ratios},
            "metrics": metrics,
            "breakdown_s_per_video": {change.what: _figures(change) for change in self.breakdown},
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
        b: What ``a`` is compared with, in one of these forms, too.
        traces: Traces on which designs are simulated.
        workload: What they decode if there are none; by default what the model makes, densely.
        allow_misfit: Simulate designs that do not fit.

    Raises:
        InputError: A folder that holds no run, an unknown design, traces beside a workload.
        MisfitError: A design does not fit, and that was not allowed.
    """
    loaded = [trace if isinstance(trace, Trace) else load_trace(trace) for trace in traces]
    work = None if workload is None else workload_of(workload)
    side_a = _run_or_design(a, work)
    side_b = _run_or_design(b, work)
    has_decisions = bool(loaded) or work is not None
    for side in (side_a, side_b):
        if isinstance(side, Design) and not has_decisions and _on_traces(side_a, side_b):
            problem = "is a design, and has to be simulated on a trace, as the other was"
            raise InputError(side.name, problem, "give `traces`")

    def run_of(side: StoredRun | Design) -> StoredRun:
        """The stored run of a side, simulated now if it is a design."""
        if isinstance(side, StoredRun):
            return side
        return stored_run(simulate(side, loaded, workload=work, allow_misfit=allow_misfit))

    return RunComparison(run_of(side_a), run_of(side_b))


def _on_traces(*sides: StoredRun | Design) -> bool:
    """Whether a run among the sides has decoded traces."""
    return any(isinstance(side, StoredRun) and not side.is_stated for side in sides)


def is_run(name: str | Path) -> bool:
    """True if a name is that of a folder of results, False if of a design."""
    return Path(name).is_dir()


def _run_or_design(
    side: Report | Design | str | Path, workload: Workload | None
) -> StoredRun | Design:
    """A run that was made, or a design that is still to be simulated.

    Args:
        side: A side of a comparison, as of :func:`compare`.
        workload: What a design without a machine is made for.
    """
    if isinstance(side, Report):
        return stored_run(side)
    if isinstance(side, Design):
        return side
    return read_run(side) if is_run(side) else open_design(str(side), workload=workload)


def _number(value: Any) -> float | None:
    """The value if it is a number."""
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
    """Inputs of a run besides its design."""
    inputs: dict[str, Any] = {}
    inputs["traces"] = [f"{trace.name} (sha256 {trace.sha256[:12]})" for trace in run.traces]
    inputs |= run.model_dump(include={"video", "resampling_seed", "fidelity", "carsim_version"})
    return inputs


def _notes(a: StoredRun, b: StoredRun) -> Iterator[str]:
    """Reasons why a difference may not be the effect of the design alone."""
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
    """Names of a run's design, board, policy and decisions."""
    names = run.model_dump(include={"design", "design_sha256", "fits"})
    names["board"] = run.resolved_design["board"]["name"]
    names["own_policy"] = run.own.policy
    names["decisions"] = run.own.decisions
    return names


def _figures(change: Change) -> dict[str, float | None]:
    """Values of a change, and how far they are apart."""
    return {
        "a": change.a,
        "b": change.b,
        "difference": change.difference,
        "relative": change.relative,
    }


def _ratio(ratio: RatioChange) -> dict[str, float]:
    """Fields of a ratio, without its metric."""
    fields = ratio._asdict()
    del fields["metric"]
    return fields
