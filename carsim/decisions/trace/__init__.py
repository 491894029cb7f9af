"""Traces: replay decisions captured from a decoder, validated, summarised and re-used."""

from carsim.decisions.trace.decisions import Decisions as Decisions
from carsim.decisions.trace.decisions import captured as captured
from carsim.decisions.trace.decisions import dense as dense
from carsim.decisions.trace.decisions import replay_ratio as replay_ratio
from carsim.decisions.trace.file import Trace as Trace
from carsim.decisions.trace.file import load_trace as load_trace
from carsim.decisions.trace.file import save_trace as save_trace
from carsim.decisions.trace.shipped import shipped_traces as shipped_traces
from carsim.decisions.trace.stats import trace_stats as trace_stats
