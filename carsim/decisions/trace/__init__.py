"""Traces: replay decisions captured from a decoder, validated, summarised and re-used."""

from carsim.decisions.trace.decisions import (
    Decisions,
    captured,
    dense,
    replay_ratio,
    rescope,
    rethreshold,
)
from carsim.decisions.trace.file import NoTraceError, Trace, load_trace, save_trace
from carsim.decisions.trace.meta import Geometry, TraceMeta
from carsim.decisions.trace.resize import (
    crop,
    enlarge,
    layers_at_depth,
    map_heads,
    map_layers,
    resample,
)
from carsim.decisions.trace.shipped import shipped_traces, trace_path
from carsim.decisions.trace.stats import TraceStats, phi, trace_stats

__all__ = [
    "Decisions",
    "Geometry",
    "NoTraceError",
    "Trace",
    "TraceMeta",
    "TraceStats",
    "captured",
    "crop",
    "dense",
    "enlarge",
    "layers_at_depth",
    "load_trace",
    "map_heads",
    "map_layers",
    "phi",
    "replay_ratio",
    "resample",
    "rescope",
    "rethreshold",
    "save_trace",
    "shipped_traces",
    "trace_path",
    "trace_stats",
]
