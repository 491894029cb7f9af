"""A folder of a run is repeated by its own command: its figures are the same, or it says why."""

import json
import re
from pathlib import Path

import pytest
from commands import call

from carsim.report.stored import sealed


@pytest.fixture
def ran(call, toy, tmp_path, monkeypatch):
    """A folder of a run of the toy, beside its inputs."""
    monkeypatch.chdir(tmp_path)
    options = ("--batch", "2", "--set", "machine.cores=4", "--fidelity", "tile")
    assert call("run", "toy.yaml", "--trace", "toy.npz", *options, "--out", "ran")[0] == 0
    return Path("ran")


def rewritten(folder, **stated):
    """The summary of a folder after a change of its manifest, sealed again."""
    path = folder / "summary.json"
    document = json.loads(path.read_text())
    del document["checksum"]
    document["manifest"] |= stated
    document["policies"][0]["tokens_per_s"] *= 1 + 1e-12  # as other libraries may round it
    path.write_text(json.dumps(sealed(document)))


def test_the_same_run_has_the_same_figures(prints, ran):
    manifest = json.loads((ran / "summary.json").read_text())["manifest"]
    assert manifest["command"] == (
        "carsim run toy.yaml --trace toy.npz --batch 2 --set machine.cores=4 --fidelity tile"
    )
    assert (len(manifest["code_sha256"]), manifest["calibration_sha256"]) == (64, "")
    rewritten(ran)
    assert re.fullmatch(r"All \d+ figures are the same.\n", prints("run", ran))
    assert json.loads(prints("run", ran, "--json"))["same"] is True


def test_other_inputs_are_named_with_the_figures_that_they_moved(call, ran):
    manifest = json.loads((ran / "summary.json").read_text())["manifest"]
    rewritten(ran, versions=manifest["versions"] | {"numpy": "0.1"})
    status, out, _ = call("run", ran)
    assert (status, "What has changed" in out) == (0, True)
    assert "versions.numpy" in out
    text = Path("toy.yaml").read_text()
    faster = text.replace("{preset: zcu102}", "{preset: zcu102, fabric_clock_mhz: 500.0}")
    Path("toy.yaml").write_text(faster)
    status, out, err = call("run", ran)
    assert (status, err) == (1, "")
    assert " figures differ." in out
    assert "dense, static: latency_s" in out
    (line,) = (line for line in out.splitlines() if "dense, static: latency_s " in line)
    stored, now, change = line.split()[-4:-1] if line.endswith("%") else line.split()[-3:]
    assert float(change.rstrip("%")) == pytest.approx(100 * (float(now) / float(stored) - 1), 0.1)
    assert "design_sha256" in out
    found = json.loads(call("run", ran, "--json")[1])
    latency = next(each for each in found["moved"] if each["path"] == "dense, static: latency_s")
    stored = json.loads((ran / "summary.json").read_text())["policies"][0]["latency_s"]
    assert latency["a"] == stored > 1.2 * latency["b"]


OWN = {"plugins": {"own.py": "0" * 64}}
BAD = [
    (("--batch", "4"), {}, "ran: is repeated as it was run; leave"),
    ((), {"command": ""}, "holds no command; repeat it in Python"),
    ((), OWN, "was made with the plugin own.py, which is not loaded; add --plugin own.py"),
    ((), {"command": "carsim run toy.yaml --out evil"}, "cannot be used (No such option"),
    ((), {"command": "carsim run 'toy.yaml"}, "cannot be used (No closing quotation); run again"),
]


def test_a_stored_command_never_loads_a_plugin(ran):
    Path("evil.py").write_text("raise SystemExit('loaded')")
    command = json.loads(Path(ran, "summary.json").read_text())["manifest"]["command"]
    rewritten(ran, command=f"{command} --plugin evil.py")
    done = call("run", ran)
    assert done.status == 0, done.err
    assert "figures are the same" in done.out


@pytest.mark.parametrize(("options", "stated", "message"), BAD)
def test_what_cannot_be_repeated_is_one_line(refuses, ran, options, stated, message):
    rewritten(ran, **stated)
    line = refuses("run", ran, *options)
    assert message in line
    assert line.startswith("carsim: ran/summary.json: ") == bool(stated)
