"""Every figure is defined once, here; all outputs are renderings of :data:`METRICS`."""

from carsim.metrics.metric import Metric as Metric
from carsim.metrics.metric import Setting as Setting
from carsim.metrics.metric import Value as Value
from carsim.metrics.table import INTERVALS as INTERVALS
from carsim.metrics.table import METRICS as METRICS
from carsim.metrics.table import PHASES as PHASES
from carsim.metrics.table import figures as figures
from carsim.metrics.table import headline as headline
from carsim.metrics.table import interval_text as interval_text
