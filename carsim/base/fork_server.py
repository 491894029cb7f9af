"""The server of forks: a process that has imported a module, from which workers are forked."""

import os
import signal
import sys
from multiprocessing import get_all_start_methods
from pathlib import Path

from carsim.base.environment import environment


def start_fork_server(module: str) -> bool:
    """Start the server of forks, unless it runs, so that it imports what its workers need.

    It imports beside this process, which may have other things to do before it needs workers.

    Left alone, it looks for modules in the working directory first (Python up to 3.12), where
    another carsim may lie. Ctrl-C is blocked meanwhile: the server and all of its children inherit
    that, so that none dies of it before it can ignore it, which could hang the pool for good. The
    resource tracker, which unblocks Ctrl-C once it has started, starts before. A closed terminal is
    blocked for it alone: it has to outlive this process, which tells it what to clean up.

    Args:
        module: Module that the server imports.

    Returns:
        Whether there is such a server on this machine.
    """
    if "forkserver" not in get_all_start_methods():
        return False
    from multiprocessing import forkserver, resource_tracker

    path = os.pathsep.join(folder or str(Path.cwd()) for folder in sys.path)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])
    try:
        resource_tracker.ensure_running()
        signal.pthread_sigmask(signal.SIG_SETMASK, [*before, signal.SIGINT])
        forkserver.set_forkserver_preload([module])
        with environment({"PYTHONSAFEPATH": "1", "PYTHONPATH": path}):
            forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return True
