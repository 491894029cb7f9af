"""Settings of the whole suite.

Profiles of properties: ``ci`` has the same examples every time. ``fresh`` has half as many again,
from the seed that --hypothesis-seed gives, and ``long`` many more. ``mutants`` stops at the first
example that fails instead of looking for the simplest one. With NO_SKIPS=1, a skipped test has
failed.
"""

import builtins
import faulthandler
import functools
import os
import sys
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

from carsim.base import plugins
from carsim.base.registry import Registry, outside_kinds

# Studies are scripts and not installed. Last: an installed carsim comes before the checkout's.
sys.path.append(str(Path(__file__).parents[1]))

MOST_S = 900.0
"""Seconds that a test may take."""

_sum = builtins.sum


@functools.wraps(_sum)  # PyTorch looks at its signature
def _sum_without_floats(items: Iterable[Any], /, start: Any = 0) -> Any:
    """``sum`` rounds floats since Python 3.12 otherwise than before: carsim takes ``math.fsum``."""
    if sys._getframe(1).f_globals.get("__name__", "").startswith("carsim."):
        items = list(items)
        assert float not in map(type, items), "sum() of floats in carsim; take math.fsum()"
    return _sum(items, start)


builtins.sum = _sum_without_floats

settings.register_profile(
    "ci",
    max_examples=40,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("fresh", settings.get_profile("ci"), max_examples=60, derandomize=False)
settings.register_profile("long", settings.get_profile("ci"), max_examples=2000, derandomize=False)
settings.register_profile(
    "mutants", settings.get_profile("ci"), phases=(Phase.explicit, Phase.generate)
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(autouse=True)
def unload_plugins() -> Generator[None]:
    """Forget the plugin files that a test has loaded, and the kinds that it has added.

    A plugin stays loaded in its process, and later tests would ask their workers for it.
    """
    loaded_before = plugins.loaded_plugins()
    kinds_before = outside_kinds()
    yield
    if plugins.loaded_plugins() != loaded_before:
        plugins._loaded.clear()
        plugins._loaded.update(loaded_before)
    for role, name in outside_kinds() - kinds_before:
        del Registry.roles[role][name]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """End the process of a test that hangs; where tests run in several, the others go on."""
    faulthandler.dump_traceback_later(MOST_S, exit=True)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    return _without_skips((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return _without_skips((yield))


def _without_skips(report: Any) -> Any:
    """The report; a skip is a failure where everything is installed that a test may need."""
    if report.skipped and os.environ.get("NO_SKIPS"):
        report.outcome = "failed"
        report.longrepr = f"skipped: {report.longrepr}"
    return report
