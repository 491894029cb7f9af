"""``carsim search --target``: the machine that reaches a target at the least cost."""

from pathlib import Path

from carsim.base.errors import InputError
from carsim.base.files import write_whole
from carsim.cli.console import in_order, print_results, progress, say
from carsim.workload.workload import Workload

UNREACHED = 3
"""Exit status where no machine reaches the target."""


def show_target(
    workload: Workload | None,
    target: str,
    minimise: str,
    boards: str,
    model: str | None,
    out: str | None,
    as_json: bool,
) -> int | None:
    """Search, and print one screen; write the design of the answer where that is asked for."""
    from carsim.design.document import design_yaml
    from carsim.explore.expression import Expression
    from carsim.explore.target import SAY, Wanted, search_target
    from carsim.report.target import target_sections

    if out is not None and Path(out).exists():
        raise InputError(out, "is there already", "name another file or remove it")
    names = tuple(name.strip() for name in boards.split(","))
    chosen = {} if model is None else {"model": model}
    condition = Expression(target, "`target`", SAY)
    wanted = Wanted(workload, condition, minimise=minimise, boards=names, **chosen)
    with progress("sizing machines"):
        tried = search_target(wanted)
    is_met = bool(tried and tried[0].reaches)
    machines = [
        {"machine": each.machine, "reaches": each.reaches}
        | {"limits": dict(each.limits), "metrics": dict(each.figures)}
        for each in tried
    ]
    document = {"target": target, "minimise": minimise, "machines": machines}
    print_results(as_json, document, in_order(target_sections(wanted, tried)))
    if out is not None and is_met:
        text = design_yaml(tried[0].design)
        write_whole(Path(out), lambda path: path.write_text(text, encoding="utf-8"))
        say(*([] if as_json else [f"Written to {out}"]))
    return None if is_met else UNREACHED
