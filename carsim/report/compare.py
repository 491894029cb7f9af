"""Two runs side by side: what differs in what was asked, and what that did."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from carsim.design import Design, load_design
from carsim.errors import InputError
from carsim.machine import Report
from carsim.machine import run as simulate
from carsim.metrics import METRICS
from carsim.report.stored import SUMMARY, StoredPolicy, StoredRun, read_run, stored
from carsim.trace import Trace, load_trace

if TYPE_CHECKING:
    import pandas as pd

OWN = "own policy"
"""Names the policies of the two designs, which may differ."""

LABELS = frozenset({"name", "description"})
"""Fields of a design that change no result."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that the two runs were given differently; None where one has no such thing."""

    path: str
    a: Any
    b: Any


@dataclass(frozen=True, slots=True)
class Change:
    """A number of both runs.

    Attributes:
        of: The policy that it belongs to.
        what: Name of a metric, or a category of time.
        a: In the first run; None where there was nothing to divide by.
        b: In the second run.
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
        """(b - a) / a; None where a is zero."""
        return self.difference / self.a if self.a and self.difference is not None else None

    def numbers(self) -> dict[str, float | None]:
        """The four numbers by name."""
        return {name: getattr(self, name) for name in ("a", "b", "difference", "relative")}


@dataclass(frozen=True, slots=True)
class PhaseChange:
    """A kind of phase of the designs' own policies: seconds per video, and what limits it."""

    phase: str
    a_s: float | None
    b_s: float | None
    a_limit: str
    b_limit: str


@dataclass(frozen=True, eq=False)
class Comparison:
    """What :func:`compare` found.

    Attributes:
        a: The first run.
        b: The second run.
    """

    a: StoredRun
    b: StoredRun

    @cached_property
    def spec(self) -> tuple[Difference, ...]:
        """Fields of the designs that differ, by path."""
        found = _differences(self.a.resolved_design, self.b.resolved_design)
        return tuple(each for each in found if each.path not in LABELS)

    @cached_property
    def inputs(self) -> tuple[Difference, ...]:
        """What else differs: traces, video, seed, fidelity, version of carsim."""
        return tuple(_differences(_inputs(self.a), _inputs(self.b)))

    @cached_property
    def pairs(self) -> Mapping[str, tuple[StoredPolicy, StoredPolicy]]:
        """The designs' own policies, and all policies that both runs have, by name in the first."""
        of_b = {policy.key: policy for policy in self.b.policies}
        return {OWN: (self.a.own, self.b.own)} | {
            policy.policy: (policy, of_b[policy.key])
            for policy in self.a.policies
            if policy.key in of_b
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
        """Where the seconds of a video go, of every simulated policy."""
        return tuple(
            Change(
                of,
                category,
                a.breakdown_s.get(category, 0.0) / self.a.videos_per_batch,
                b.breakdown_s.get(category, 0.0) / self.b.videos_per_batch,
            )
            for of, (a, b) in self.pairs.items()
            for category in dict.fromkeys([*a.breakdown_s, *b.breakdown_s])
        )

    @cached_property
    def phases(self) -> tuple[PhaseChange, ...]:
        """Phases of the designs' own policies, and what limits them."""
        of_a, of_b = (
            {
                limit.phase: (limit.share_of_time * run.own.seconds_per_video, limit.limited_by)
                for limit in run.limits
            }
            for run in (self.a, self.b)
        )
        nothing = (None, "")
        changes = []
        for phase in dict.fromkeys([*of_a, *of_b]):
            (a_s, a_limit), (b_s, b_limit) = of_a.get(phase, nothing), of_b.get(phase, nothing)
            changes.append(PhaseChange(phase, a_s, b_s, a_limit, b_limit))
        return tuple(changes)

    @property
    def notes(self) -> tuple[str, ...]:
        """Why a difference may not be the effect of the design alone."""
        return tuple(_notes(self))

    def change(self, metric: str, of: str = OWN) -> Change:
        """The change of a metric of a policy.

        Raises:
            KeyError: No such metric or policy.
        """
        for change in self.metrics:
            if (change.of, change.what) == (of, metric):
                return change
        raise KeyError((of, metric))

    def spec_frame(self) -> "pd.DataFrame":
        """Fields and inputs that differ: path, a, b."""
        import pandas as pd

        rows = [asdict(each) for each in (*self.spec, *self.inputs)]
        return pd.DataFrame(rows, columns=["path", "a", "b"], dtype=object).set_index("path")

    def to_frame(self) -> "pd.DataFrame":
        """Figures by policy and metric: a, b, difference, relative."""
        return _frame(self.metrics, ["policy", "metric"])

    def breakdown_frame(self) -> "pd.DataFrame":
        """Seconds of a video by policy and category: a, b, difference, relative."""
        return _frame(self.breakdown, ["policy", "category"])

    def phases_frame(self) -> "pd.DataFrame":
        """Phases of the own policies: seconds of a video, and what limits them."""
        import pandas as pd

        return pd.DataFrame([asdict(each) for each in self.phases]).set_index("phase")

    def document(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {
            "a": _named(self.a),
            "b": _named(self.b),
            "spec": [asdict(each) for each in self.spec],
            "inputs": [asdict(each) for each in self.inputs],
            "notes": list(self.notes),
            "metrics": _nested(self.metrics),
            "breakdown_s_per_video": _nested(self.breakdown),
            "phases": [
                {
                    "phase": each.phase,
                    "a_s_per_video": each.a_s,
                    "b_s_per_video": each.b_s,
                    "a_limited_by": each.a_limit or None,
                    "b_limited_by": each.b_limit or None,
                }
                for each in self.phases
            ],
        }

    def __repr__(self) -> str:
        time = self.change("seconds_per_video")
        return (
            f"<Comparison of {self.a.design} and {self.b.design}: {time.a:.4g} and {time.b:.4g} s "
            f"per video, {len(self.spec)} fields differ>"
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
    allow_misfit: bool = False,
) -> Comparison:
    """Compare two runs.

    Args:
        a: A report, a folder that ``carsim run --out`` made, or a design, a design file or the name
            of a shipped design, which is simulated.
        b: The same.
        traces: What designs are simulated on.
        allow_misfit: Simulate designs that do not fit.

    Raises:
        InputError: A folder that holds no run, an unknown design, no trace where one is needed.
        MisfitError: A design does not fit, and that was not allowed.
    """
    loaded = [each if isinstance(each, Trace) else load_trace(each) for each in traces]
    return Comparison(*(_run_of(each, loaded, allow_misfit) for each in (a, b)))


def is_run(name: str | Path) -> bool:
    """Whether a name is that of a folder of results rather than of a design."""
    path = Path(name)
    return (path / SUMMARY).exists() or path.is_dir()


def _run_of(
    what: Report | Design | str | Path, traces: Sequence[Trace], allow_misfit: bool
) -> StoredRun:
    if isinstance(what, Report):
        return stored(what)
    if not isinstance(what, Design):
        if is_run(what):
            return read_run(what)
        what = load_design(str(what))
    if not traces:
        raise InputError(
            what.name, "is a design, and has to be simulated on a trace", "add --trace FILE"
        )
    return stored(simulate(what, traces, allow_misfit=allow_misfit))


def _number(value: Any) -> float | None:
    return None if isinstance(value, str | bool) else value


def _differences(a: Any, b: Any, path: str = "") -> Iterator[Difference]:
    """Where two documents differ; what only one of them has is one difference."""
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


def _notes(comparison: Comparison) -> Iterator[str]:
    a, b = comparison.a, comparison.b
    for name, run in (("A", a), ("B", b)):
        if not run.fits:
            yield f"MISFIT: {name} does not fit its board: {'; '.join(run.misfits)}."
    if a.video != b.video:
        yield "The videos differ: seconds and joules per video are of different work."
    if a.fidelity != b.fidelity:
        yield "Fidelities differ, which alone may move latencies by up to 5 %."
    if a.carsim_version != b.carsim_version:
        yield "The runs were made by different versions of carsim."
    if a.own.policy != b.own.policy:
        yield f"Own policies are {a.own.policy} in A and {b.own.policy} in B."
    if a.own.decisions != b.own.decisions:
        yield f"Decisions are those {a.own.decisions} in A and {b.own.decisions} in B."
    if a.head_included != b.head_included:
        has, lacks = ("A", "B") if a.head_included else ("B", "A")
        yield f"{has} includes the head, {lacks} leaves it out."
    only = [
        f"{name} alone has {policy.policy}"
        for name, run, other in (("A", a, b), ("B", b, a))
        for policy in run.policies
        if policy.key not in {each.key for each in other.policies}
    ]
    if only:
        yield f"{'; '.join(only)}."


def _named(run: StoredRun) -> dict[str, Any]:
    return {
        "design": run.design,
        "design_sha256": run.design_sha256,
        "board": run.resolved_design["board"]["name"],
        "own_policy": run.own.policy,
        "fits": run.fits,
    }


def _nested(changes: Sequence[Change]) -> dict[str, dict[str, dict[str, float | None]]]:
    nested: dict[str, dict[str, dict[str, float | None]]] = {}
    for each in changes:
        nested.setdefault(each.of, {})[each.what] = each.numbers()
    return nested


def _frame(changes: Sequence[Change], names: list[str]) -> "pd.DataFrame":
    import pandas as pd

    rows = [{names[0]: each.of, names[1]: each.what, **each.numbers()} for each in changes]
    return pd.DataFrame(rows).set_index(names).astype("float64")
