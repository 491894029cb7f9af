"""Caption of a figure in a paper: what it shows, and where its numbers come from."""

from collections.abc import Iterator, Mapping

from carsim.base.text import count
from carsim.base.yaml_file import mapping_of
from carsim.explore.frame import OPEN_LOOP, open_loop_points, origin_note
from carsim.report.figures.plot import Plot
from carsim.report.stored import StoredRun
from carsim.report.stored_study import StoredStudy

HASH_DIGITS = 12
"""Digits of a hash that are written."""

SHAPED = "open loop: the threshold was applied to scores that another one had shaped"
"""The warning of an origin of decisions that is open loop."""


def caption_text(plot: Plot, results: Mapping[str, StoredRun | StoredStudy]) -> str:
    """A caption with provenance: design, traces, decisions, version and command.

    Args:
        plot: The figure.
        results: Runs and studies by their labels.
    """
    sentences = [plot.full_title, plot.alt, plot.caption]
    text = " ".join(f"{sentence.rstrip('.')}." for sentence in sentences if sentence)
    return "\n".join([text, *dict.fromkeys(_sources(results))]) + "\n"


def _sources(results: Mapping[str, StoredRun | StoredStudy]) -> Iterator[str]:
    """Where the numbers of each result come from, a sentence each."""
    for label, result in results.items():
        facts = _of_run(result) if isinstance(result, StoredRun) else _of_study(result)
        yield f"{label}: {'; '.join(filter(None, facts))}."


def _of_run(run: StoredRun) -> Iterator[str]:
    yield f"design {run.design} (sha256 {run.design_sha256[:HASH_DIGITS]})"
    for trace in run.traces:
        yield f"trace {trace.name} (sha256 {trace.sha256[:HASH_DIGITS]})"
    yield from _decisions(run.own.decisions)
    yield f"fidelity {run.fidelity}"
    yield f"carsim {run.carsim_version}"
    yield run.manifest.command


def _of_study(study: StoredStudy) -> Iterator[str]:
    yield f"{study.facts['kind']} {study.name} of {len(study.frame):,} points{study.so_far}"
    file = mapping_of(study.facts["study"], study.name)
    if "design" not in study.axes and file.get("design"):
        yield f"design {file['design']}"
    for name, sha256 in study.facts["traces"].items():
        yield f"trace {name} (sha256 {sha256[:HASH_DIGITS]})"
    opened = open_loop_points(study.counted)
    if opened:
        yield f"{SHAPED}, in {opened:,} of {count(len(study.counted), 'point')}"
    else:
        yield from _decisions(origin_note(study.frame))
    yield f"carsim {study.facts['version']}"


def _decisions(origin: str) -> Iterator[str]:
    """The origin of decisions; open loop is said in any case."""
    if origin:
        yield f"decisions {origin}"
    if OPEN_LOOP in origin:
        yield SHAPED
