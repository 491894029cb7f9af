"""Fail if carsim does more than twice the work that it did when the baseline was committed.

    python studies/speed/guard.py [--update]

Two figures that hold on any machine, none of them in seconds:

* ``python_calls``: functions called, Python's and C's, by one design point (a sample of its
  steps). The same on every run of one version of Python.
* ``point_ratio``: processor time of that point over that of a fixed Python loop, turn about in one
  process; it sees what calls cannot, such as an array copied over and over.
"""

import argparse
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from points import make_point, run_point

BASELINE = Path(__file__).with_name("baseline.json")
LIMIT = 2.0
SAMPLED_STEPS = 256
TURNS = 15


def count_calls(work: Callable[[], object]) -> int:
    """Functions called, Python's and C's, while ``work`` is done."""
    count = 0

    def see(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    # What others left behind must not be cleared away, by functions of theirs, in the meantime.
    gc.collect()
    gc.disable()
    sys.setprofile(see)
    try:
        work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


def ratio(work: Callable[[], object], yardstick: Callable[[], object], turns: int) -> float:
    """Processor time of ``work`` over that of ``yardstick``, turn about; the median of all turns.

    What else the machine does slows both of a turn down.
    """
    ratios = []
    for _ in range(turns):
        begun = time.process_time()
        work()
        between = time.process_time()
        yardstick()
        ratios.append((between - begun) / (time.process_time() - between))
    return statistics.median(ratios)


def python_loop() -> int:
    """What a point is compared with: calls, tuples and a small dictionary, nothing of carsim."""
    total, found = 0, {}
    for number in range(100_000):
        found[number % 97] = (number, total)
        total += max(found[number % 97]) % 7
    return total


def measure(turns: int = TURNS) -> dict[str, float]:
    """The two figures of this checkout."""
    point = make_point(steps=SAMPLED_STEPS)
    run_point(point)  # the DRAM's schedule is found once per process
    return {
        "python_calls": count_calls(lambda: run_point(point)),
        "point_ratio": ratio(lambda: run_point(point), python_loop, turns),
    }


def compare(
    found: dict[str, float], baseline: dict[str, float], limit: float = LIMIT
) -> list[tuple[str, float, bool]]:
    """(Figure, times the baseline, within the limit) of all figures."""
    times = {name: found[name] / baseline[name] for name in baseline}
    return [(name, factor, factor <= limit) for name, factor in times.items()]


def main() -> int:
    """Measure, print, and say by the exit status whether all is within the limit."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--update", action="store_true", help="write the baseline")
    options = parser.parse_args()
    found = measure()
    if options.update:
        BASELINE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    lines = compare(found, json.loads(BASELINE.read_text(encoding="utf-8")))
    for name, factor, is_fine in lines:
        verdict = "ok" if is_fine else f"FAILED: more than {LIMIT:g} times the baseline"
        print(f"{name:14} {found[name]:12,.4g}  {factor:5.2f} x the baseline  {verdict}")
    return 0 if all(is_fine for _, _, is_fine in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
