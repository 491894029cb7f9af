"""A process in which the studio simulates, so that work that takes too long can be ended."""

import gc
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from threading import Lock
from typing import Any

from carsim.base.environment import follow_parent
from carsim.base.errors import CarsimError, InputError
from carsim.base.fork_server import start_fork_server
from carsim.base.plugins import load_plugins, loaded_plugins

LIMIT_S = 30.0
"""Seconds after which work is ended; each shipped design takes less than two."""


COLLECTION_THRESHOLD = 20_000
"""New objects after which Python looks for garbage."""

ANSWERS = "carsim.studio.answers"
"""Module that a process needs; it is imported once for all of them."""


class Worker:
    """Calls methods of an object in a process of its own, one after the other.

    Args:
        answers: The object. A process gets a copy, and keeps it from call to call.
        limit_s: Seconds that a call may take. Then the process is ended, and the next call has
            another one.
    """

    def __init__(self, answers: object, limit_s: float = LIMIT_S) -> None:
        self.limit_s = limit_s
        self._answers = answers
        self._turn = Lock()
        self._start()

    def ask(self, method: str, *args: Any) -> Any:
        """Call a method.

        Raises:
            CarsimError: What it raises; or the work took too long, or the process died of it.
        """
        with self._turn:
            if not self._process.is_alive():
                self._start()
            try:
                self._pipe.send((method, args))
                if not self._pipe.poll(self.limit_s):
                    raise TimeoutError
                answer = self._pipe.recv()
            except TimeoutError:
                self.close()
                problem = f"was stopped after {self.limit_s:g} s"
                cure = "ask for less, or take 'carsim run', which has no limit"
                raise InputError("this simulation", problem, cure) from None
            except (EOFError, OSError):
                self.close()
                cure = "ask for less if memory ran out"
                raise InputError("this simulation", "its process died", cure) from None
        if isinstance(answer, CarsimError):
            raise answer
        return answer

    def close(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._process.join()

    def _start(self) -> None:
        """Start the process, and keep our end of the pipe to it."""
        processes: Any = get_context("forkserver" if start_fork_server(ANSWERS) else "spawn")
        self._pipe, pipe_of_process = processes.Pipe()
        self._process = processes.Process(
            target=_work, args=(pipe_of_process, self._answers, loaded_plugins()), daemon=True
        )
        self._process.start()
        pipe_of_process.close()  # the process has its own copy


def _work(pipe: Connection, answers: object, plugins: Mapping[str, str]) -> None:
    """Answer calls in the process, until nobody asks any more."""
    follow_parent()
    load_plugins(plugins)
    # Imported modules are no garbage: looking through them takes a tenth of an answer.
    gc.freeze()
    gc.set_threshold(COLLECTION_THRESHOLD)
    with suppress(EOFError, BrokenPipeError):  # nobody asks any more
        while True:
            method, args = pipe.recv()
            try:
                answer = getattr(answers, method)(*args)
            except CarsimError as error:
                answer = error  # it is raised by the process that has asked
            pipe.send(answer)
