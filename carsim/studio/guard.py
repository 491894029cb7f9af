"""Keep the studio to the user who started it.

Any user of this machine can connect to a port of it. So each request has to carry a cookie, which
is given in exchange for a token that only this user can read (:mod:`carsim.studio.entry`). The
address of the page holds neither, so that links can be shared. Requests that the page itself would
never make get status 400 (:mod:`carsim.studio.wellformed`).
"""

import secrets
from collections.abc import Sequence
from pathlib import Path

from dash import Dash
from dash.exceptions import DependencyException
from flask import Response, abort, request

from carsim.studio.entry import ENTRY, HEAD, leading_to
from carsim.studio.wellformed import PATH, is_well_formed

HOSTS = ("127.0.0.1", "localhost")

STRANGER = f"""{HEAD}<h1>This studio belongs to the user who started it</h1>
<p>If this browser has opened it before, <a href="">follow this link once more</a>: browsers leave
out the cookie when a link on another site leads here. Otherwise start a studio of your own.</p>
</html>"""
"""Answer to a request without the cookie."""


def protect(app: Dash, token: str, page: Path | None = None) -> None:
    """Answer nobody without the cookie, and let pages reach nothing else.

    Args:
        app: The page, whose server answers.
        token: Given in exchange for the cookie.
        page: File that holds the token; it is removed when the token was given.
    """
    server = app.server
    scripts: Sequence[str] = app.csp_hashes()
    ticket = secrets.token_urlsafe(32)
    headers = {
        "Content-Security-Policy": f"default-src 'self'; script-src 'self' {' '.join(scripts)}; "
        "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; frame-ancestors 'none'",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }

    @server.before_request
    def admit() -> Response | None:
        # A page of elsewhere whose name was made to point here could read what is answered.
        if request.host.rpartition(":")[0] not in HOSTS:
            abort(403)
        # Ports of a machine share cookies, so that each studio has its own by its port.
        cookie = f"carsim-studio-{request.environ['SERVER_PORT']}"
        if request.path.startswith(ENTRY) and _same(request.path.removeprefix(ENTRY), token):
            if page:
                page.unlink(missing_ok=True)
            # No redirection: a browser that comes from elsewhere would leave the cookie out.
            way = Response(leading_to("/?" + request.query_string.decode("ascii", "replace")))
            way.set_cookie(cookie, ticket, httponly=True, samesite="Strict")
            way.headers["Cache-Control"] = "no-store"
            return way
        if not _same(request.cookies.get(cookie, ""), ticket):
            return Response(STRANGER, 403)
        if request.url_rule is None or request.url_rule.rule == "/<path:path>":
            abort(404)  # Dash would answer any path with the page
        if request.path == PATH and not is_well_formed(app, request.get_json(silent=True)):
            return Response("no request of this page", 400)
        return None

    @server.after_request
    def add_headers(response: Response) -> Response:
        response.headers.update(headers)
        return response

    @server.errorhandler(DependencyException)
    def no_such_file(_: DependencyException) -> Response:
        return Response("no such file", 404)


def _same(given: str, wanted: str) -> bool:
    """Compare in a time that does not tell how much of it is right."""
    return secrets.compare_digest(given.encode("utf-8", "replace"), wanted.encode())
