"""Time GenZ on decode steps of LLaMA-2-7B; runs in its own environment, prints one JSON line.

Architecture: a roofline of 19.2 GB/s and 0.4 TOP/s, 8-bit operands, eight sequences. GenZ has no
mapping; a step of all 32 layers is its unit. A video of 2,048 steps is asked for once per context;
of those, every 64th is asked for and counted 64 times. Two steps warm up.
"""

import contextlib
import io
import itertools
import json
import time
from importlib.metadata import version

begun = time.perf_counter()
from GenZ import decode_moddeling  # noqa: E402

import_s = time.perf_counter() - begun
STEPS, ASKED, REPEATS = 2048, 32, 5


def step(context: int = 1024, tops: float = 0.4, gb_per_s: float = 19.2) -> int:
    """Cycles of one token of eight sequences, at 200 MHz."""
    system = {"Flops": tops, "Memory_size": 16, "Memory_BW": gb_per_s, "ICN": 1}
    with contextlib.redirect_stdout(io.StringIO()):
        found = decode_moddeling(
            model="llama2_7b",
            batch_size=8,
            input_tokens=context,
            output_tokens=1,
            Bb=1,
            system_name=system | {"real_values": True},
            bits="int8",
        )
    return round(float(found["Latency"]) * 1e-3 * 200e6)


def main() -> None:
    """Measure one step, the contexts of a video, and 100 systems."""
    for _ in range(2):
        step()
    cpu = [time.process_time()]
    cycles = [step() for _ in range(REPEATS)][-1]
    cpu.append(time.process_time())
    for context in range(62, 62 + STEPS, STEPS // ASKED):
        step(context)
    cpu.append(time.process_time())
    for number, width in itertools.product(range(10), range(10)):
        step(tops=0.2 + 0.04 * number, gb_per_s=9.6 + 1.2 * width)
    cpu.append(time.process_time())
    one, video, sweep = (late - early for early, late in itertools.pairwise(cpu))
    runs = {
        "genz_step": {"cpu_s": one / REPEATS, "cycles": cycles},
        "genz_video": {"cpu_s": video * STEPS / ASKED},
        "genz_sweep": {"cpu_s": sweep},
    }
    print(json.dumps({"version": version("genz-llm"), "import_s": import_s, "runs": runs}))


if __name__ == "__main__":
    main()
