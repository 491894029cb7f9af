"""Every figure is defined once, here; all outputs are renderings of :data:`METRICS`."""

from carsim.metrics.comparison import Comparison
from carsim.metrics.metric import Metric, Run, Setting, Value
from carsim.metrics.table import (
    INTERVALS,
    METRICS,
    PHASES,
    figures,
    headline,
    interval_text,
)

__all__ = [
    "INTERVALS",
    "METRICS",
    "PHASES",
    "Comparison",
    "Metric",
    "Run",
    "Setting",
    "Value",
    "figures",
    "headline",
    "interval_text",
]
