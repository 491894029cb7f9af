"""carsim: a cycle-approximate simulator of FastCar accelerators for auto-regressive video.

What the command line does, from Python::

    from carsim import load_design, load_trace, run

    report = run(load_design("zcu102"), [load_trace("vilau_8f")])
    report.to_frame()[["latency_s", "speedup", "energy_per_video_j"]]

Names are imported when they are first used, so that ``import carsim`` costs nothing.
"""

# Nothing is imported here, not even typing, as Ctrl-C would be a traceback meanwhile.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from carsim.base.errors import CarsimError, InputError, MisfitError
    from carsim.base.plugins import load_plugins
    from carsim.decisions.trace import (
        Trace,
        load_trace,
        save_trace,
        shipped_traces,
    )
    from carsim.design import Design, load_design, override, shipped_designs
    from carsim.design.document import design_schema, design_yaml
    from carsim.explore.pareto import pareto
    from carsim.explore.study import Study, load_study
    from carsim.explore.sweep import search, sweep
    from carsim.machine.row import RowResult
    from carsim.report import save_report, summary
    from carsim.report.compare import RunComparison, compare
    from carsim.report.report import write_page
    from carsim.runs.first import open_design
    from carsim.runs.pipeline import run
    from carsim.runs.report import Report
    from carsim.workload.workload import Workload, workload_of

_HOMES = {
    "CarsimError": "carsim.base.errors",
    "RunComparison": "carsim.report.compare",
    "Design": "carsim.design",
    "InputError": "carsim.base.errors",
    "MisfitError": "carsim.base.errors",
    "Report": "carsim.runs.report",
    "RowResult": "carsim.machine.row",
    "Study": "carsim.explore.study",
    "Trace": "carsim.decisions.trace",
    "Workload": "carsim.workload.workload",
    "compare": "carsim.report.compare",
    "design_schema": "carsim.design.document",
    "design_yaml": "carsim.design.document",
    "load_design": "carsim.design",
    "load_plugins": "carsim.base.plugins",
    "load_study": "carsim.explore.study",
    "load_trace": "carsim.decisions.trace",
    "open_design": "carsim.runs.first",
    "override": "carsim.design",
    "pareto": "carsim.explore.pareto",
    "run": "carsim.runs.pipeline",
    "save_report": "carsim.report",
    "save_trace": "carsim.decisions.trace",
    "search": "carsim.explore.sweep",
    "shipped_designs": "carsim.design",
    "shipped_traces": "carsim.decisions.trace",
    "summary": "carsim.report",
    "sweep": "carsim.explore.sweep",
    "workload_of": "carsim.workload.workload",
    "write_page": "carsim.report.report",
}
"""Public name -> the module that it is imported from."""

__all__ = [
    "CarsimError",
    "Design",
    "InputError",
    "MisfitError",
    "Report",
    "RowResult",
    "RunComparison",
    "Study",
    "Trace",
    "Workload",
    "compare",
    "design_schema",
    "design_yaml",
    "load_design",
    "load_plugins",
    "load_study",
    "load_trace",
    "open_design",
    "override",
    "pareto",
    "run",
    "save_report",
    "save_trace",
    "search",
    "shipped_designs",
    "shipped_traces",
    "summary",
    "sweep",
    "workload_of",
    "write_page",
]


def __getattr__(name: str) -> "Any":
    """Import a public name when it is first asked for (PEP 562)."""
    if name == "__version__":
        from importlib.metadata import version

        return version("carsim")
    if name not in _HOMES:
        raise AttributeError(f"module 'carsim' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """Public names, imported or not."""
    return sorted([*globals(), *__all__])
