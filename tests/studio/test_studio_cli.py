"""``carsim studio``: what it refuses, and whom it answers."""

import pickle
import re
import socket

import pytest
from click.testing import CliRunner
from tiny import write_inputs

pytest.importorskip("dash")

from carsim.base.errors import InputError
from carsim.cli.studio import run_command, studio
from carsim.studio.answers import Answers
from carsim.studio.app import make_app
from carsim.studio.guard import protect
from carsim.studio.reach import Reach
from carsim.studio.serve import HOST, serve
from carsim.studio.state import TabState

HERE = "http://127.0.0.1:8050"
TOKEN = "0123456789abcdef"
PAGES = (
    "/",
    "/?design=kv260",
    "/assets/studio.css",
    "/_dash-component-suites/plotly/package_data/plotly.min.js",
)
ABSENT = ("/nothing", "/assets/../app.py", "/_dash-component-suites/nothing/nothing.js")


def test_a_port_that_is_taken_is_one_clear_line():
    with socket.socket() as other:
        other.bind((HOST, 0))
        other.listen()
        port = other.getsockname()[1]
        how = {"opens_browser": False, "command_of": run_command, "tell": lambda *_: None}
        with pytest.raises(InputError, match=f"port {port}: cannot be used .*; give another"):
            serve(TabState("kv260"), port, **how)


def test_what_the_command_hands_to_the_server_reaches_a_process_of_its_own(monkeypatch, tmp_path):
    served = {}
    monkeypatch.setattr("carsim.studio.serve.serve", lambda *_, **how: served.update(how))
    monkeypatch.setattr("carsim.cli.studio.plugin_options", lambda: " --plugin mine.py")
    design, _ = write_inputs(tmp_path)
    CliRunner().invoke(studio, [design, "--no-browser"], catch_exceptions=False)
    command_of = pickle.loads(pickle.dumps(served["command_of"]))
    assert command_of(TabState("kv260")) == "carsim run kv260 --plugin mine.py"


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    design, trace = write_inputs(tmp_path_factory.mktemp("toy"))
    start = TabState(design, trace=trace)
    answers = Answers(start, Reach.of(start), run_command)

    def ask(method, *args):
        if "video:999" in str(args):
            raise InputError("this simulation", "was stopped after 30 s", "ask for less")
        return getattr(answers, method)(*args)

    app = make_app(ask, ask)
    protect(app, TOKEN)
    return app


@pytest.fixture
def stranger(app):
    return app.server.test_client()


@pytest.fixture
def owner(app):
    client = app.server.test_client()
    assert client.get(f"/open/{TOKEN}", base_url=HERE).status_code == 200
    return client


@pytest.mark.parametrize(
    ("host", "status"),
    [("127.0.0.1:8050", 200), ("localhost:8050", 200), ("a.example:8050", 403), ("a.example", 403)],
)
def test_only_pages_of_this_machine_are_answered(stranger, host, status):
    # With the cookie, which a browser that was led astray might send along.
    name = host.partition(":")[0]
    entered = stranger.get(f"/open/{TOKEN}", base_url=HERE).headers["Set-Cookie"]
    key, _, value = entered.partition(";")[0].partition("=")
    stranger.set_cookie(key, value, domain=name)
    answer = stranger.get("/", base_url=f"http://{host}", environ_overrides={"SERVER_PORT": "8050"})
    assert answer.status_code == status


@pytest.mark.parametrize("path", [*PAGES, *ABSENT])
def test_without_the_cookie_nothing_is_answered_and_its_owner_is(stranger, owner, path):
    assert stranger.get(path, base_url=HERE).status_code == 403
    stranger.set_cookie("carsim-studio-8050", "x" * 43, domain="127.0.0.1")
    assert stranger.get(path, base_url=HERE).status_code == 403
    assert stranger.post("/_dash-update-component", base_url=HERE, json={}).status_code == 403
    with owner.get(path, base_url=HERE) as answer:
        assert answer.status_code == (404 if path in ABSENT else 200)


@pytest.mark.parametrize("token", ["", "x", TOKEN[:-1], TOKEN + "0", TOKEN.upper(), "\u00e9"])
def test_a_wrong_token_gives_no_cookie(stranger, token):
    answer = stranger.get(f"/open/{token}", base_url=HERE)
    assert answer.status_code == 403
    assert "Set-Cookie" not in answer.headers


def test_the_token_gives_a_cookie_that_scripts_and_other_sites_cannot_use(stranger):
    answer = stranger.get(f"/open/{TOKEN}?design=kv260&trace=a%22b", base_url=HERE)
    cookie = answer.headers["Set-Cookie"]
    assert {"HttpOnly", "SameSite=Strict"} <= set(cookie.split("; "))
    assert TOKEN not in cookie
    page = answer.get_data(as_text=True)
    assert TOKEN not in page
    assert re.search('url=([^"]*)"', page)[1] == "/?design=kv260&amp;trace=a%22b"
    assert stranger.get("/", base_url=HERE).status_code == 200
    assert stranger.get("/", base_url="http://127.0.0.1:8051").status_code == 403


def test_pages_may_reach_nothing_else(owner):
    response = owner.get("/", base_url=HERE)
    policy = response.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'self'")
    assert not [word for word in ("http", "unsafe-eval") if word in policy]
    assert response.headers["Referrer-Policy"] == "no-referrer"
    assert "https://" not in response.get_data(as_text=True)


def test_the_page_has_an_answer_before_its_scripts_run(owner):
    page, other = (owner.get(at, base_url=HERE).text for at in ("/", "/?machine.cores=1"))
    bars = [re.findall(r"width: ([0-9.]+)%", bar) for bar in re.findall("<dd>(.*)</dd>", page)]
    assert max(sum(map(float, bar)) for bar in bars) == pytest.approx(100, abs=0.01)
    assert re.findall("<b>(.*?)</b>", page) != re.findall("<b>(.*?)</b>", other)
    refused = owner.get("/?design=nothing", base_url=HERE)
    assert (refused.status_code, b'id="first"' in refused.data) == (200, False)


def test_what_follows_and_takes_too_long_is_told_on_the_page(owner, app):
    output = next(key for key in app.callback_map if "sweep-place" in key)
    body = {
        "output": output,
        "outputs": [{"id": "sweep-place", "property": "children"}],
        "inputs": [{"id": "later", "property": "data", "value": "?workload=video:999"}],
        "state": [{"id": "sweep", "property": "id"}],
        "changedPropIds": ["later.data"],
    }
    answer = owner.post("/_dash-update-component", base_url=HERE, json=body)
    assert answer.status_code == 200, answer.get_data(as_text=True)
    told = str(answer.get_json()["sideUpdate"]["trouble"])
    assert "was stopped after 30\\xa0s; ask for less" in told
