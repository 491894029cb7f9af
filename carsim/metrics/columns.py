"""CSV files that carsim writes: the meaning of every column, and the one way to write them.

Text in a CSV may come from the user: labels, names of axes, reasons. A spreadsheet takes text that
begins with one of ``=+-@`` as a formula; such text gets an apostrophe in front.
"""

from typing import TYPE_CHECKING, Any

from carsim.metrics.table import METRICS

if TYPE_CHECKING:
    import pandas as pd

Columns = dict[str, str]
"""Column -> meaning. Capitals stand for a name of the design or of the study."""

_METRICS = {name: metric.meaning for name, metric in METRICS.items()}

_POINTS: Columns = {
    "point": "number of the point in the study, from 0",
    "AXIS": "a column for each axis of the study: its value at this point",
    "status": "`ok`; `misfit`: does not fit its board; `invalid`: was refused; `failed`: the "
    "process that evaluated it died",
    "reason": "what does not fit, or why the point was refused; empty if `ok`",
    "seconds": "processor time that the evaluation took",
    **_METRICS,
}

COLUMNS: dict[str, Columns] = {
    "comparison.csv": {
        "policy": "name of the policy; decisions of the user's own have their label in it",
        "key": "identity of the policy within the run, such as `replay/drs`",
        "attention": "kind of the attention policy",
        "schedule": "kind of the schedule, or `bound`",
        **_METRICS,
    },
    "utilisation.csv": {
        "run": "number of the run of consecutive steps, from 0; runs are equally long but the last",
        "start_s": "start of the run of steps, in seconds after prefill",
        "end_s": "its end",
        "frame_start_s": "start of the frame in which the run of steps starts",
        "core_busy": "share of core cycles in which cores compute, mean over the run of steps",
        "replay_ratio": "share of decisions that replay, mean over the run of steps",
        "MEMORY_of_peak": "a column for each memory: bytes moved, as a share of its peak rate",
    },
    "chunks.csv": {
        "chunk": "number of the chunk of a video in chunks, from 0",
        "frames": "pixel frames of the video up to its end",
        "seconds": "time of its forwards in the first batch, from the end of the chunk before to "
        "its own; prompt and pixel decoder left out",
        "frames_per_s": "its pixel frames, of all videos of a batch together, over these seconds",
        "kv_cache_gb": "keys and values that external memories hold at its end, those of the "
        "prompt included",
        "fits": "they fit beside all other contents",
    },
    "points.csv": _POINTS,
    "pareto.csv": {
        **_POINTS,
        "knee": "the point is nearest to the best of all objectives",
        "robust": "with `--robust`: share of draws of the constants of energy, bandwidth and price "
        "in which the point is on the front",
    },
    "carsim reproduce: table.csv": {
        "row": "short name of the published row",
        "label": "name of the row in tables and figures",
        "replay_ratio": "published replay ratio",
        "attention": "kind and fields of the attention policy",
        "published_s": "published latency of a video",
        "carsim_s": "simulated latency of a video",
        "carsim_error": "relative error of the simulated latency",
        "linear_skipping_s": "dense latency less the skipped share of the work",
        "linear_skipping_error": "its relative error",
        "fitted_line_s": "latency by a line of three numbers, fitted to all rows",
        "fitted_line_error": "its relative error",
        "published_speedup": "published latency of dense decoding over that of the row",
        "carsim_speedup": "simulated latency of dense decoding over that of the row",
        "published_energy": "energy over that of dense decoding, from the published efficiency",
        "carsim_energy": "simulated energy over that of dense decoding",
        "source": "table of the paper",
    },
    "carsim trace list --csv": {
        "file": "name of the trace's file",
        "sha256": "hash of the file",
        "bytes": "size of the file",
        "rows": "sequences that were decoded",
        "frames": "frames of the video",
        "tau": "threshold, or the label of decisions that no decoder made",
        "scope": "rows that decided together: `row`, `pair`, `batch`",
        "attention": "kind and fields of the attention policy",
        "seed": "seed of everything drawn",
        "eligible_ratio": "replayed share of the decisions after the first frame",
        "weights_sha256": "hash of the weights; empty if they were drawn",
        "command": "command that makes the trace",
    },
}
"""Columns of every file, in their order."""


def cell(value: Any) -> Any:
    """A cell or heading of a CSV; text that a spreadsheet would take as a formula is no formula.

    >>> [cell(each) for each in ("=1+1", "idea", "-0.5", -0.5)]
    ["'=1+1", 'idea', '-0.5', -0.5]
    """
    if not isinstance(value, str) or value[:1] not in tuple("=+-@\t\r\n"):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def csv_text(frame: "pd.DataFrame", *, index: bool = False) -> str:
    """A frame as the text of a CSV file."""
    text = frame.select_dtypes(exclude=["number", "bool"]).columns
    frame = frame.assign(**{name: frame[name].map(cell) for name in text}).rename(columns=cell)
    if index:
        frame = frame.rename(index=cell)
    return frame.to_csv(index=index, lineterminator="\n")
