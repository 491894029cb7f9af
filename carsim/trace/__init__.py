"""Traces: replay decisions captured from a decoder, validated, summarised and re-used."""

from carsim.trace.compare import Comparison, compare_traces
from carsim.trace.decisions import (
    Decisions,
    captured,
    crop,
    dense,
    enlarge,
    independent,
    map_heads,
    replay_ratio,
    resample,
    rescope,
    rethreshold,
)
from carsim.trace.file import Trace, load_trace, save_trace
from carsim.trace.meta import (
    VILA_U_7B,
    Geometry,
    TraceMeta,
)
from carsim.trace.stats import TraceStats, phi, trace_stats

__all__ = [
    "VILA_U_7B",
    "Comparison",
    "Decisions",
    "Geometry",
    "Trace",
    "TraceMeta",
    "TraceStats",
    "captured",
    "compare_traces",
    "crop",
    "dense",
    "enlarge",
    "independent",
    "load_trace",
    "map_heads",
    "phi",
    "replay_ratio",
    "resample",
    "rescope",
    "rethreshold",
    "save_trace",
    "trace_stats",
]
