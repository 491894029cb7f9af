"""``carsim speculate``: a table, JSON, and one line for what cannot be."""

import json

import pytest
from tiny import write_inputs

ROOM = ("--set", "machine.activation_buffer_kib=256")


def test_a_table_and_its_numbers(call, toy):
    asked = ("speculate", toy[0], "--trace", toy[1], "--acceptance", "0.5", *ROOM)
    status, out, _ = call(*asked, "--proposed", "2", "--proposed", "4")
    assert status == 0
    table = [line for line in out.splitlines() if line.startswith(" ")]
    assert len(table) >= 5
    assert all(len(line) <= 80 for line in table)
    assert "accepted with chance 0.500 (stated)" in " ".join(out.split())
    status, out, _ = call(*asked, "--proposed", "2", "--proposed", "4", "--json")
    found = json.loads(out)
    two, four = found["passes"]
    assert (two["proposed"], four["proposed"], status) == (2, 4, 0)
    assert two["tokens_per_pass"] == pytest.approx(1.5, rel=0.05)
    assert two["speedup"] == pytest.approx(found["plain_s"] / two["latency_s"])
    assert two["speedup_all_accepted"] > two["speedup"]
    assert found["policy"] == "FastCar + DRS"
    dense = json.loads(call(*asked, "--dense", "--json")[1])
    assert dense["plain_s"] > found["plain_s"]
    assert dense["policy"].startswith("dense")


def test_acceptance_comes_from_the_trace(call, tmp_path):
    content = {"clips": [{"kept_tokens": 0.25}, {"kept_tokens": 0.5}]}
    design, trace = write_inputs(tmp_path, content=content)
    _, out, _ = call("speculate", design, "--trace", trace, "--json", *ROOM)
    found = json.loads(out)
    assert found["acceptance"] == 0.375
    assert found["acceptance_from"].startswith("share of tokens that stay in toy.npz")


def test_what_cannot_be_is_said_in_one_line(call, toy):
    asked = ("speculate", toy[0], "--trace", toy[1])
    for more, status, words in (
        ((), 2, "--acceptance: toy.npz does not say how many of its tokens stay"),
        (("--acceptance", "0.5", "--proposed", "16"), 3, "toy, 16 tokens a pass: does not fit"),
        (("--acceptance", "0.5", "--proposed", "5"), 2, "5 tokens do not divide a frame of 16"),
        (("--acceptance", "2"), 2, "2"),
        (("--proposed", "0"), 2, "0"),
    ):
        found, out, err = call(*asked, *more)
        assert (found, out) == (status, "")
        assert len(err.strip().splitlines()) == 1
        assert words in err
    fits = call(*asked, "--acceptance", "0.5", "--proposed", "16", "--allow-misfit", "--json")
    assert not json.loads(fits[1])["passes"][0]["fits"]
