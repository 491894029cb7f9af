"""Traces: replay decisions captured from a decoder, validated, summarised and re-used."""

from carsim.decisions.trace.assumed import Assumptions, measure
from carsim.decisions.trace.compare import TraceComparison, compare_traces
from carsim.decisions.trace.decisions import (
    Decisions,
    captured,
    dense,
    replay_ratio,
    rescope,
    rethreshold,
)
from carsim.decisions.trace.file import NoTraceError, Trace, load_trace, save_trace
from carsim.decisions.trace.geometry import VILA_U_7B, Geometry
from carsim.decisions.trace.meta import TraceMeta
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
from carsim.decisions.trace.synthetic import SyntheticModel, synthesize

__all__ = [
    "VILA_U_7B",
    "Assumptions",
    "Decisions",
    "Geometry",
    "NoTraceError",
    "SyntheticModel",
    "Trace",
    "TraceComparison",
    "TraceMeta",
    "TraceStats",
    "captured",
    "compare_traces",
    "crop",
    "dense",
    "enlarge",
    "layers_at_depth",
    "load_trace",
    "map_heads",
    "map_layers",
    "measure",
    "phi",
    "replay_ratio",
    "resample",
    "rescope",
    "rethreshold",
    "save_trace",
    "shipped_traces",
    "synthesize",
    "trace_path",
    "trace_stats",
]
