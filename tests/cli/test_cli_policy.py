"""Policies that choose keys by the data, from the command line."""

import json

from policy_maker import draft_trace

from carsim.decisions.attention import Draft
from carsim.decisions.trace import save_trace

HALF = "policy.attention={kind: draft, block_tokens: 4, keep: 0.5}"


def test_a_trace_of_another_choice_is_refused_in_one_line(call, refuses, toy, tmp_path):
    path, other = tmp_path / "draft.npz", tmp_path / "other.npz"
    save_trace(path, draft_trace(Draft(block_tokens=4, keep=0.5)))
    save_trace(other, draft_trace(Draft(block_tokens=4, keep=0.25)))
    status, out, _ = call("run", toy[0], "--trace", path, "--set", HALF, "--json")
    assert status == 0
    rows = {row["key"]: row for row in json.loads(out)["policies"]}
    assert rows["replay+draft/drs"]["attention"]["keep"] == 0.5
    quarter = HALF.replace("0.5", "0.25")
    for policy in (quarter, "policy.attention={kind: ann}"):
        err = refuses("run", toy[0], "--trace", path, "--set", policy)
        assert "draft.npz: was made under draft attention (" in err
        assert "depends on the data; pass a trace that was captured under it" in err
    refuses("run", toy[0], "--trace", toy[1], "--set", HALF)
    # Of several traces of a kind, a row takes that of its own fields.
    both = ("--trace", path, "--trace", other)
    assert call("run", toy[0], *both, "--set", quarter)[0] == 0
    assert call("run", toy[0], *both, "--set", HALF)[0] == 0
