"""The array against other simulators: every rule, and what a rule was never tried on."""

import pytest

from carsim.validate.array import onnxim_layer_cycles, validate_array
from carsim.validate.part import Group, Part
from carsim.validate.peers import PEERS


@pytest.fixture(scope="module")
def part() -> Part:
    return validate_array()


@pytest.fixture(scope="module")
def peers(part: Part) -> Group:
    return part.groups[0]


def test_every_peer_is_reproduced_by_the_rule_that_is_named_for_it(part: Part, peers: Group):
    assert part.ok, part.failures
    assert len(peers.rows) == 13
    for peer in PEERS.values():
        assert any(row.what.startswith(peer.title) for row in peers.rows)


def test_what_is_left_to_scale_sim_is_what_is_explained(peers: Group) -> None:
    # It counts from 0 (1 cycle), fills 50 sets of floor(262144 / 100) words instead of half a
    # buffer at 10 words per cycle (3 cycles), and empties results from the array's last cycle on
    # (1 cycle), with a line more where a half that filled up had left before.
    left = [row.ours - row.reference for row in peers.rows if row.what.startswith("SCALE-Sim")]
    counted_from_0 = 1
    filling = -(-(262_144 // 2) // 10) - -(-50 * (262_144 // 100) // 10)
    assert left == [counted_from_0 + filling + emptying for emptying in (0, 0, 1, 0)]


def test_small_products_of_scale_sim_are_exact(part: Part) -> None:
    small = part.groups[1:]
    assert sum(group.ours.count for group in small) == 210
    assert all(group.ours.worst == 0 and group.wins == 70 for group in small)


def test_the_rival_is_beaten_where_the_array_or_a_port_is_the_limit(peers: Group) -> None:
    # Where a peer's rule is bytes over bandwidth the rival says the same but for the last tile.
    for row in peers.rows:
        assert row.rival is not None
        assert row.rival_error is not None
        if abs(row.rival_error) > 0.001:
            assert abs(row.error) < abs(row.rival_error) / 2.5, row
        else:
            assert abs(row.ours - row.rival) < 100


@pytest.mark.parametrize("cores", [1, 4])
@pytest.mark.parametrize(
    "choice",
    [
        ("machine.weight_buffer_kib=256", "machine.kv_buffer_kib=256"),
        ("machine.tile_kib=16",),
        ("machine.vector.lanes=16",),
        ("board.memories.ddr.interconnect_ns=100",),
    ],
)
def test_what_is_not_known_of_onnxim_does_not_matter(cores: int, choice: tuple[str, ...]) -> None:
    known = onnxim_layer_cycles(cores)
    assert onnxim_layer_cycles(cores, choice) == pytest.approx(known, rel=0.001)
