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

    from carsim.account.row import RowResult as RowResult
    from carsim.base.errors import CarsimError as CarsimError
    from carsim.base.errors import InputError as InputError
    from carsim.base.errors import MisfitError as MisfitError
    from carsim.base.plugins import load_plugins as load_plugins
    from carsim.decisions.trace import Trace as Trace
    from carsim.decisions.trace import load_trace as load_trace
    from carsim.decisions.trace import save_trace as save_trace
    from carsim.decisions.trace import shipped_traces as shipped_traces
    from carsim.design import Design as Design
    from carsim.design import load_design as load_design
    from carsim.design import override as override
    from carsim.design import shipped_designs as shipped_designs
    from carsim.design.document import design_schema as design_schema
    from carsim.design.document import design_yaml as design_yaml
    from carsim.explore.pareto import pareto as pareto
    from carsim.explore.study import Study as Study
    from carsim.explore.study import load_study as load_study
    from carsim.explore.sweep import search as search
    from carsim.explore.sweep import sweep as sweep
    from carsim.report import save_report as save_report
    from carsim.report import summary as summary
    from carsim.report.compare import RunComparison as RunComparison
    from carsim.report.compare import compare as compare
    from carsim.report.report import write_page as write_page
    from carsim.runs.opening import open_design as open_design
    from carsim.runs.pipeline import run as run
    from carsim.runs.report import Report as Report
    from carsim.workload.workload import Workload as Workload
    from carsim.workload.workload import workload_of as workload_of

_HOMES = {
    "carsim.base.errors": "CarsimError InputError MisfitError",
    "carsim.base.plugins": "load_plugins",
    "carsim.decisions.trace": "Trace load_trace save_trace shipped_traces",
    "carsim.design": "Design load_design override shipped_designs",
    "carsim.design.document": "design_schema design_yaml",
    "carsim.explore.pareto": "pareto",
    "carsim.explore.study": "Study load_study",
    "carsim.explore.sweep": "search sweep",
    "carsim.account.row": "RowResult",
    "carsim.report": "save_report summary",
    "carsim.report.compare": "RunComparison compare",
    "carsim.report.report": "write_page",
    "carsim.runs.opening": "open_design",
    "carsim.runs.pipeline": "run",
    "carsim.runs.report": "Report",
    "carsim.workload.workload": "Workload workload_of",
}
"""Module -> the public names that are imported from it."""

_MODULES = {name: module for module, names in _HOMES.items() for name in names.split()}
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> "Any":
    """Import a public name when it is first asked for (PEP 562)."""
    if name == "__version__":
        from importlib.metadata import version

        return version("carsim")
    if name not in _MODULES:
        raise AttributeError(f"module 'carsim' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    """Public names, imported or not."""
    return sorted([*globals(), *__all__])
