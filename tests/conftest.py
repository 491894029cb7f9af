"""Settings of the whole suite."""

import os
import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

# Studies are scripts and not installed. Last: an installed carsim comes before the checkout's.
sys.path.append(str(Path(__file__).parents[1]))

settings.register_profile(
    "ci",
    max_examples=60,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("fresh", settings.get_profile("ci"), derandomize=False)
settings.register_profile("long", settings.get_profile("ci"), max_examples=2000, derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
