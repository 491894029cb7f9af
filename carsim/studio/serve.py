"""Serve the studio on this machine, to the user who started it."""

import logging
import secrets
import socket
import webbrowser
from collections.abc import Callable
from contextlib import closing, nullcontext, suppress
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from carsim.base.errors import CarsimError, InputError
from carsim.studio.entry import ENTRY, file_leading_to
from carsim.studio.state import TabState

if TYPE_CHECKING:
    from carsim.studio.worker import Worker

HOST = "127.0.0.1"
"""No other machine can connect to it."""


def serve(
    start: TabState,
    port: int,
    *,
    opens_browser: bool,
    command_of: Callable[[TabState], str],
    tell: Callable[[str, bool], None],
) -> None:
    """Serve until interrupted.

    Args:
        start: What the page shows first.
        port: Port; 0 takes a free one.
        opens_browser: Open the page in the user's browser.
        command_of: The command that simulates a state in a terminal.
        tell: Told the address, and whether it holds the token: it does unless a browser is opened.

    Raises:
        InputError: The port is taken or forbidden.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
        except (OSError, OverflowError) as error:
            problem = f"cannot be used ({getattr(error, 'strerror', None) or error})"
            raise InputError(f"port {port}", problem, "give another, or 0 for any") from None
        listener.listen(64)
        origin = f"http://{HOST}:{listener.getsockname()[1]}"
        token = secrets.token_urlsafe(32)
        entry = f"{origin}{ENTRY}{token}{start.query}"
        tell(f"{origin}/{start.query}" if opens_browser else entry, not opens_browser)
        with file_leading_to(entry) if opens_browser else nullcontext() as page:
            if page:
                # The browser is kept waiting while what is slow to import is imported.
                Thread(target=_browse, args=(page, entry, tell), daemon=True).start()
            _answer(start, listener, command_of, token, page)


def _browse(page: Path, entry: str, tell: Callable[[str, bool], None]) -> None:
    if not webbrowser.open(page.as_uri()):
        tell(entry, True)


def _begin(worker: "Worker") -> None:
    with suppress(CarsimError):  # the page says what is wrong
        worker.ask("begin")


def _answer(
    start: TabState,
    listener: socket.socket,
    command_of: Callable[[TabState], str],
    token: str,
    page: Path | None,
) -> None:
    """Answer until interrupted; the page that leads here goes when it was used."""
    from werkzeug.serving import make_server

    from carsim.studio.answers import Answers
    from carsim.studio.app import make_app
    from carsim.studio.guard import protect
    from carsim.studio.reach import Reach
    from carsim.studio.worker import Worker

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    answers = Answers(start, Reach.of(start), command_of)
    with closing(Worker(answers)) as at_once, closing(Worker(answers)) as later:
        # Simulate what is shown first while the browser is still loading the page.
        Thread(target=_begin, args=(at_once,), daemon=True).start()
        app = make_app(at_once.ask, later.ask)
        protect(app, token, page)
        port = listener.getsockname()[1]
        make_server(HOST, port, app.server, threaded=True, fd=listener.fileno()).serve_forever()
