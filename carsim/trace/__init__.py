"""Traces: replay decisions captured from a decoder, validated, summarised and re-used."""

from carsim.trace.assumed import Assumptions, measure
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
from carsim.trace.synthetic import SyntheticModel, synthesize

__all__ = [
    "VILA_U_7B",
    "Assumptions",
    "Comparison",
    "Decisions",
    "Geometry",
    "SyntheticModel",
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
    "measure",
    "phi",
    "replay_ratio",
    "resample",
    "rescope",
    "rethreshold",
    "save_trace",
    "synthesize",
    "trace_stats",
]
