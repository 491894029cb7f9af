"""Workers of a Dask cluster; see :mod:`carsim.explore.workers`.

A plugin hands the study to every worker, those included that join later. Dask itself repeats the
tasks of a worker that has died, and gives up one that kills several workers. Workers that are lost
or that join are told in the log, and workers that join get tasks as well.
"""

import logging
from collections.abc import Iterable
from concurrent.futures import Future
from contextlib import suppress
from time import monotonic
from typing import Any

from distributed import Client, KilledWorker, Security, WorkerPlugin

from carsim.base.errors import InputError
from carsim.base.plugins import load_plugins
from carsim.base.text import count
from carsim.explore import workers
from carsim.explore.parcel import SAME, Parcel, studies
from carsim.explore.points import Point
from carsim.explore.study import Study

CONNECT_S = 10
"""For how long a Dask scheduler may take to answer."""


WATCH_S = 1.0
"""Seconds from one look at which workers are there to the next."""

log = logging.getLogger("carsim")


class Cluster(workers.Workers):
    """The workers of a Dask cluster.

    Args:
        study: The study whose points are evaluated.
        address: Address of the scheduler, such as ``tcp://host:8786``.

    Raises:
        InputError: No scheduler there, no workers, or workers that cannot run carsim.
    """

    death = KilledWorker

    def __init__(self, study: Study, address: str) -> None:
        self._place = f"`scheduler` {address}"
        _hush()
        tls = Security().get_connection_args("client").get("ssl_context")
        if address.startswith("tls:") and tls is None:
            problem = "needs certificates, of which Dask's configuration names none"
            raise InputError(self._place, problem, "set distributed.comm.tls there")
        try:
            self._client = Client(address, timeout=CONNECT_S, set_as_default=False)
        except (OSError, ValueError) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            problem = f"no Dask scheduler there ({reason})"
            raise InputError(self._place, problem, "start one") from None
        self._workers = self._client.nthreads()
        self._watched_s = monotonic()
        self.slots = sum(self._workers.values())
        if not self.slots:
            self._client.close()
            raise InputError(self._place, "the scheduler has no workers", "start some first")
        super().__init__(study)
        try:
            self._client.register_plugin(_HandOver(self.key, Parcel.of(study)), self.key)
        except (ImportError, AttributeError) as error:
            self._client.close()
            problem = f"a worker cannot run this carsim ({error})"
            raise InputError(self._place, problem, SAME) from None
        self._executor = self._client.get_executor(pure=False)

    def submit(self, points: list[Point], budget_s: float) -> "Future[workers.Answer]":
        """Begin to evaluate points."""
        if self._client.status == "running" and monotonic() > self._watched_s + WATCH_S:
            self._watch()
        return self._executor.submit(workers.evaluate_some, self.key, points, budget_s)

    def check(self, under_way: Iterable[Future[Any]]) -> None:
        """Make sure that there are workers.

        Raises:
            InputError: The scheduler is gone, or all of its workers are.
        """
        runs = self._client.status == "running"
        if runs:
            self._watch()
        if not (runs and self._workers):
            problem = f"the scheduler {'has lost all of its workers' if runs else 'is gone'}"
            cure = "start one, then the same command again: what is stored stays"
            raise InputError(self._place, problem, cure)

    def close(self) -> None:
        """Leave the cluster."""
        super().close()
        if self._client.status == "running":
            self._watch()
            with suppress(OSError):  # a scheduler that goes meanwhile has nothing to forget
                self._client.unregister_worker_plugin(self.key)
        self._client.close()

    def _watch(self) -> None:
        """Say which workers are lost or new, and use as many as there are."""
        self._watched_s = monotonic()
        try:
            workers_now = self._client.nthreads()
        except OSError:
            return  # the scheduler goes at this moment; the next check tells
        remaining = count(len(workers_now), "worker")
        for address in sorted(self._workers.keys() - workers_now.keys()):
            redone = "its points are evaluated again by others"
            log.warning("carsim: worker %s is lost; %s left; %s", address, remaining, redone)
        for address in sorted(workers_now.keys() - self._workers.keys()):
            log.warning("carsim: worker %s has joined; %s now", address, remaining)
        self._workers = workers_now
        self.slots = max(1, sum(workers_now.values()))


def _hush() -> None:
    """Keep Dask from logging tracebacks of connections that go; :meth:`Cluster.check` tells."""
    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] in ("distributed", "tornado"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)


class _HandOver(WorkerPlugin):  # type: ignore[misc] # Dask is not typed
    """Hands a study to a worker, which loads the plugins that its own environment names."""

    def __init__(self, name: str, parcel: Parcel) -> None:
        self.name = name
        self.parcel = parcel

    def setup(self, worker: Any) -> None:
        """Runs in a worker when it starts, or when the plugin comes."""
        load_plugins(())
        studies[self.name] = self.parcel

    def teardown(self, worker: Any) -> None:
        """Runs in a worker when the plugin goes."""
        studies.pop(self.name, None)
