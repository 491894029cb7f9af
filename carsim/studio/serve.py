"""Serve the studio on this machine alone."""

import logging
import socket
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from threading import Thread

from carsim.errors import CarsimError, InputError
from carsim.studio.state import State

HOST = "127.0.0.1"
"""No other machine can connect to it."""


def serve(start: State, port: int, *, opens_browser: bool, tell: Callable[[str], None]) -> None:
    """Serve until interrupted.

    Args:
        start: What the page shows first.
        port: Port; 0 takes a free one.
        opens_browser: Open the page in the user's browser.
        tell: Told the address once it answers.

    Raises:
        InputError: The port is taken or forbidden.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise InputError(
                f"--port {port}", f"cannot be used ({reason})", "give another, or 0 for any"
            ) from None
        listener.listen(64)
        address = f"http://{HOST}:{listener.getsockname()[1]}/{start.query}"
        tell(address)
        if opens_browser:
            webbrowser.open(address)
        # The browser starts, and is kept waiting, while what is slow to import is imported.
        from werkzeug.serving import make_server

        from carsim.studio.app import make_app

        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        Thread(target=_begin, args=(start,), daemon=True).start()
        app = make_app(start)
        make_server(HOST, port, app.server, threaded=True, fd=listener.fileno()).serve_forever()


def _begin(start: State) -> None:
    """Simulate what is shown first while the browser is still loading the page."""
    from carsim.studio.point import point_of

    with suppress(CarsimError):  # the page says what is wrong
        point_of(start)
