"""``carsim explain``: the first screen of a stored run with its formulas."""

import json


def test_a_stored_run_is_explained_on_a_screen(prints, refuses, toy, tmp_path):
    out = tmp_path / "out"
    screen = prints("run", toy[0], "--trace", toy[1], "--out", out)
    screen = " ".join(screen.replace("\\\n", "").split())
    assert f"carsim explain {out} carsim report {out} carsim run {out} " in screen
    told = prints("explain", out)
    assert "MACs per cycle = cores x rows x columns = 2 x 4 x 4 = 32" in told
    assert max(map(len, told.splitlines())) <= 80
    document = json.loads(prints("explain", out, "--json"))
    assert document["lines"][0]["label"] == "design"
    assert document["lines"][0]["equations"][0]["value"] == 32
    assert "name the folder of a run that --out has stored" in refuses("explain", tmp_path)
