"""``carsim studio``: what it refuses, and whom it answers."""

import socket

import pytest
from tiny import write_inputs

pytest.importorskip("dash")

from carsim.errors import InputError
from carsim.studio.app import make_app
from carsim.studio.serve import HOST, serve
from carsim.studio.state import State


def test_a_port_that_is_taken_is_one_clear_line():
    with socket.socket() as other:
        other.bind((HOST, 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(InputError, match=f"--port {port}: cannot be used .*; give another"):
            serve(State("kv260"), port, opens_browser=False, tell=lambda _: None)


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    design, trace = write_inputs(tmp_path_factory.mktemp("toy"))
    return make_app(State(design, trace=trace)).server.test_client()


@pytest.mark.parametrize(
    ("host", "status"),
    [("127.0.0.1:8050", 200), ("localhost:8050", 200), ("a.example:8050", 403), ("a.example", 403)],
)
def test_only_pages_of_this_machine_are_answered(client, host, status):
    assert client.get("/", headers={"Host": host}).status_code == status


def test_pages_may_reach_nothing_else(client):
    response = client.get("/", headers={"Host": "127.0.0.1:8050"})
    policy = response.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'self'")
    assert "http" not in policy
    assert "unsafe-eval" not in policy
    page = response.get_data(as_text=True)
    assert "https://" not in page
