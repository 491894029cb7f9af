"""``carsim studio`` says what is wrong with its arguments before it serves anything."""

import pytest

pytest.importorskip("dash")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "carsim: nowhere: is neither a YAML file nor a shipped design"),
        (["kv260", "--set", "machine.cores=0"], "carsim: --set machine.cores: should be greater"),
        (["kv260", "--trace", "nothing"], "carsim: nothing: is neither a trace file nor"),
    ],
)
def test_bad_arguments_are_one_line(call, arguments, said):
    status, out, err = call("studio", *arguments, "--no-browser")
    assert status == 2
    assert out == ""
    assert err.startswith(said)
    assert err.count("\n") == 1
