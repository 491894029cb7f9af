"""Traces: replay decisions captured from a decoder, validated, summarised and re-used."""

from carsim.decisions.trace.decisions import (
    Decisions,
    captured,
    dense,
    replay_ratio,
    rescope,
    rethreshold,
)
from carsim.decisions.trace.file import Trace, load_trace, save_trace
from carsim.decisions.trace.meta import Geometry, TraceMeta
from carsim.decisions.trace.shipped import shipped_traces
from carsim.decisions.trace.stats import trace_stats

__all__ = [
    "Decisions",
    "Geometry",
    "Trace",
    "TraceMeta",
    "captured",
    "dense",
    "load_trace",
    "replay_ratio",
    "rescope",
    "rethreshold",
    "save_trace",
    "shipped_traces",
    "trace_stats",
]
