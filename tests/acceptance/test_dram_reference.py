"""The DRAM model against two cycle-accurate simulators, row by row, and against measured boards.

What the rows are and how they are judged is told in :mod:`carsim.validate.dram`.
"""

import pytest

from carsim.hardware.memory import STANDARDS, AccessPattern, standard, traffic
from carsim.hardware.memory.sustained import _efficiency, idle_latency_ns
from carsim.validate.dram import BOUNDS, NOTES, published_devices, validate_dram
from carsim.validate.part import Part
from carsim.validate.peers import data_rows


@pytest.fixture(scope="module")
def part() -> Part:
    return validate_dram()


WIDE = {
    ("efficiency", "streams under 1 KiB", "HBM2"),
    ("latency", "all requests in flight", "HBM2"),
    ("latency", "under an offered load", "DDR4"),
}
"""Bounds beyond the aim: the notes say why."""


def test_rows_are_within_their_bounds_which_are_the_aims_but_for_three(part: Part) -> None:
    """2 % for DDR4 in chunks of 4 KiB and more, 4 % below; HBM2 5 % and 10 %."""
    assert part.failures == ()
    assert sum(note.startswith("Wide bound") for note in part.notes) == 2
    for (figure, kind), bounds in BOUNDS.items():
        for family, bound in bounds.items():
            large = kind in ("sequential", "chunks of 4 KiB and more")
            aim = {"DDR4": (0.05, 0.02), "HBM2": (0.10, 0.05)}[family][large]
            assert bound <= aim or (figure, kind, family) in WIDE


def test_where_few_streams_of_small_chunks_begin_decides_what_hbm_sustains(monkeypatch):
    """The reason of the widest bound: 8 streams of 256 B get 0.58 to 0.86; the simulator has 0.61.

    :class:`AccessPattern` scatters the starts one way; here are 16 others.
    """
    found = []
    for draw in range(16):

        def start(stream: int, _: bool, salt: int = 1000 * draw) -> int:
            return (stream << 24) + traffic._scatter(stream + salt) % (1 << 24)

        monkeypatch.setattr(traffic, "_start_of_stream", start)
        found.append(_efficiency.__wrapped__(standard("HBM2-2000"), AccessPattern(8, 256), 32))
    assert (min(found), max(found)) == pytest.approx((0.58, 0.86), abs=0.01)


def test_many_channels_are_met_within_8_percent_and_rivals_are_far_off(part: Part) -> None:
    """2 to 32 channels: mean error 3.8 to 7.9 %, worst 35 %; 0.9 of the peak: 30 to 148 %."""
    groups = [group for group in part.groups if "channel" in group.title]
    assert sum(len(group.rows) for group in groups) == len(data_rows("dram_channels.csv"))
    for group in (group for group in groups if group.theirs is not None):
        assert group.ours.mean < 0.25 * group.theirs.mean
        assert group.ours.worst < 0.4


def test_measured_devices_are_met_within_5_percent_and_nearer_than_by_a_share_of_the_peak() -> None:
    """Mean error 1.7 %, against 5.6 %; -4.3 % for Grace, of which the least expected is given."""
    group = published_devices()
    assert group.ours.worst < 0.05
    assert group.ours.mean < 0.02
    assert group.wins == len(group.rows)


def test_a_family_without_a_device_to_be_held_against_is_named(part: Part) -> None:
    """Families without a row among the measured devices."""
    checked = {row["standard"].partition("-")[0] for row in data_rows("dram_published.csv")}
    families = {*STANDARDS.families} - {"DDR3"}  # boards have DDR3 rows
    assert NOTES[-1] in part.notes
    for family in families - checked:
        assert family in NOTES[-1]


@pytest.mark.parametrize(
    ("name", "hit_ns", "conflict_ns", "beat_ns"),
    [
        # Shuhai, as above: idle latencies on the fabric's side, in beats of 450 and 300 MHz.
        ("HBM2-1800", 107.0, 138.0, 1000 / 450),
        ("DDR4-2400", 73.0, 107.0, 1000 / 300),
    ],
)
def test_a_measured_row_conflict_is_met_within_two_beats_of_the_fabric(
    name: str, hit_ns: float, conflict_ns: float, beat_ns: float
) -> None:
    """What a conflict adds to a hit; the interconnect, the same for both, drops out."""
    hit, conflict = (
        idle_latency_ns(standard(name), row, refresh=False) for row in ("hit", "conflict")
    )
    assert conflict - hit == pytest.approx(conflict_ns - hit_ns, abs=2 * beat_ns)
