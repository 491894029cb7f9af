"""Time GenZ on a decode step of LLaMA-2-7B; runs in its own environment, prints one JSON line.

Architecture: a roofline of 19.2 GB/s and 0.4 TOP/s, 8-bit operands, a context of 1024 tokens. GenZ
has no mapping; a step of all 32 layers is its unit.
"""

import contextlib
import io
import json
import sys
import time
from importlib.metadata import version

begun = time.perf_counter()
from GenZ import decode_moddeling  # noqa: E402

import_s = time.perf_counter() - begun
SYSTEM = {"Flops": 0.4, "Memory_size": 16, "Memory_BW": 19.2, "ICN": 1, "real_values": True}

runs = []
for layers in map(int, sys.argv[1:]):
    begun, cpu = time.perf_counter(), time.process_time()
    with contextlib.redirect_stdout(io.StringIO()):
        found = decode_moddeling(
            model="llama2_7b",
            batch_size=1,
            input_tokens=1024,
            output_tokens=1,
            Bb=1,
            system_name=SYSTEM,
            bits="int8",
        )
    runs.append(
        {
            "layers": layers,
            "wall_s": time.perf_counter() - begun,
            "cpu_s": time.process_time() - cpu,
            "cycles": round(float(found["Latency"]) * 1e-3 * 200e6),
        }
    )
print(json.dumps({"version": version("genz-llm"), "import_s": import_s, "runs": runs}))
