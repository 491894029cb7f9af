"""Traffic: where the bursts of an access pattern go, and in what order."""

import itertools

import pytest

from carsim.errors import InputError
from carsim.memory.standards import STANDARDS
from carsim.memory.traffic import Access, bursts

DDR4 = STANDARDS["DDR4-2400"]  # 4 groups of 4 banks, 128 bursts of 64 B to a row


def first(access: Access, count: int, burst_bytes: int = 64) -> list[tuple[int, int, bool]]:
    return list(itertools.islice(bursts(DDR4, access, burst_bytes), count))


def test_a_sequential_stream_visits_all_banks_before_it_comes_back_to_one() -> None:
    banks = [bank for bank, _, _ in first(Access(), 64)]
    assert sorted(banks[:16]) == list(range(16))
    assert banks[:48] == banks[16:]
    assert banks[1] == (banks[0] + 1) % 16  # and so goes to another bank group each time
    groups = [bank % DDR4.bank_groups for bank in banks]
    assert all(a != b for a, b in itertools.pairwise(groups))


def test_a_sequential_stream_stays_in_a_row_for_all_of_its_bursts() -> None:
    whole_rows = DDR4.banks * DDR4.row_bursts
    rows = [row for _, row, _ in first(Access(), 3 * whole_rows)]
    lengths = [len(list(same)) for _, same in itertools.groupby(rows)]
    assert whole_rows in lengths
    assert max(lengths) == whole_rows


def test_streams_take_turns_chunk_by_chunk_in_rows_of_their_own() -> None:
    found = first(Access("streams", chunk_bytes=256, streams=3), 36)
    rows = [row for _, row, _ in found]
    assert len(set(rows)) == 3
    chunks = [set(rows[start : start + 4]) for start in range(0, 36, 4)]
    assert all(len(chunk) == 1 for chunk in chunks)
    assert chunks[:3] == chunks[3:6] == chunks[6:]
    # a stream goes on where it stopped
    assert found[12][0] == (found[3][0] + 1) % 16


def test_random_chunks_are_aligned_to_their_length_and_scattered() -> None:
    found = first(Access("random", chunk_bytes=1024), 16 * 200)
    assert all(found[start][0] == 0 for start in range(0, len(found), 16))
    assert len({row for _, row, _ in found}) > 190


@pytest.mark.parametrize("pattern", ["sequential", "random"])
@pytest.mark.parametrize("read_fraction", [1.0, 0.9, 0.7, 0.5, 0.0])
def test_the_share_of_reads_is_exact_over_ten_chunks(pattern: str, read_fraction: float) -> None:
    access = Access(pattern, chunk_bytes=256, read_fraction=read_fraction)
    written = [is_write for _, _, is_write in first(access, 40)]
    assert sum(written) == round(40 * (1 - read_fraction))
    assert all(len(set(written[start : start + 4])) == 1 for start in range(0, 40, 4))


def test_reads_and_writes_of_a_sequential_mix_lie_apart() -> None:
    found = first(Access(read_fraction=0.5), 256)
    assert {row for _, row, w in found if w}.isdisjoint({row for _, row, w in found if not w})


def test_a_chunk_smaller_than_a_burst_takes_a_whole_one() -> None:
    access = Access("random", chunk_bytes=16)
    assert access.useful_share(64) == 0.25
    assert access.window_bursts(64) == 32
    assert Access("random", chunk_bytes=96).useful_share(64) == 0.75
    assert Access(chunk_bytes=96).useful_share(64) == 1.0  # one stream has no seams


def test_a_request_of_64_bytes_is_several_bursts_of_a_narrow_channel() -> None:
    assert Access(outstanding=4).window_bursts(32) == 8
    assert Access("random", chunk_bytes=32, outstanding=4).window_bursts(32) == 4
    assert Access(outstanding=4).window_bursts(128) == 4


def test_more_requests_than_the_controller_holds_are_of_no_use() -> None:
    assert Access(outstanding=1000).queue_requests == Access().queue_requests == 32


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("pattern", "zigzag"),
        ("chunk_bytes", 0),
        ("streams", 0),
        ("read_fraction", -0.1),
        ("read_fraction", float("nan")),
        ("outstanding", 0),
    ],
)
def test_values_out_of_range_are_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(InputError, match=f"DRAM access: {field}: got {value!r}; "):
        Access(**{field: value})  # type: ignore[arg-type]
