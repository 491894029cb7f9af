"""carsim's array against what other simulators count for LLaMA-2-7B's decode matrices."""

from collections import defaultdict

from carsim.validate.array import Check, peer_checks, scalesim_checks


def by_peer(checks: list[Check]) -> dict[str, list[Check]]:
    found = defaultdict(list)
    for check in checks:
        found[check.peer].append(check)
    return found


def test_every_peer_is_reproduced_by_the_rule_that_is_named_for_it() -> None:
    found = by_peer(peer_checks())
    assert {peer: len(checks) for peer, checks in found.items()} == {
        "ZigZag": 4,
        "AccelForge": 2,
        "LLMCompass": 1,
        "SCALE-Sim": 4,
        "ONNXim": 2,
    }
    for peer, checks in found.items():
        for check in checks:
            assert check.bound == (0.05 if peer == "ONNXim" else 0.02)
            assert check.holds, check


def test_what_is_left_to_scale_sim_is_what_is_explained() -> None:
    # It counts from 0 (1 cycle), fills 50 sets of floor(262144 / 100) words instead of half a
    # buffer at 10 words per cycle (3 cycles), and empties results from the array's last cycle on
    # (1 cycle), with a line more where a half that filled up had left before.
    left = [
        check.carsim_cycles - check.reference_cycles
        for check in by_peer(peer_checks())["SCALE-Sim"]
    ]
    counted_from_0 = 1
    filling = -(-(262_144 // 2) // 10) - -(-50 * (262_144 // 100) // 10)
    assert left == [counted_from_0 + filling + emptying for emptying in (0, 0, 1, 0)]


def test_small_products_of_scale_sim_are_exact() -> None:
    checks = scalesim_checks()
    assert len(checks) == 210
    assert all(check.error == 0 for check in checks)


def test_the_naive_rival_is_beaten_where_the_array_or_a_port_is_the_limit() -> None:
    # Where a peer's rule is bytes over bandwidth (M = 1 on ZigZag, AccelForge and LLMCompass) the
    # rival says the same but for the last tile.
    for check in peer_checks():
        if abs(check.naive_error) > 0.001:
            assert abs(check.error) < abs(check.naive_error) / 3, check
        else:
            assert abs(check.carsim_cycles - check.naive_cycles) < 100
    checks = scalesim_checks()
    assert sum(abs(check.naive_error) for check in checks) / len(checks) > 0.5
