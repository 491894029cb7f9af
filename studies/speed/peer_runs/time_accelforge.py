"""Time AccelForge on decode products; runs in its own environment and prints one JSON line.

Architecture: main memory of 96 bytes a cycle, a buffer of 1 MiB, 32 x 32 multiply-accumulators.
8-bit operands; latency is what it optimises. Version 1.0.467 draws every mapping it finds, which
needs Graphviz's ``dot``: the drawing is left out here, in its favour. Each shape is searched once
and counted as often as a layer of LLaMA-2-7B has it: searches of one shape are alike.
"""

import json
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

begun = time.perf_counter()
import accelforge  # noqa: E402
from accelforge.mapper.FFM.mappings import Mappings  # noqa: E402

import_s = time.perf_counter() - begun
accelforge.set_n_parallel_jobs(1)
Mappings.render = lambda self, *arguments, **options: ""

MEMORY = """
  - !Memory
    name: {name}
    size: {size}
    leak_power: 0
    area: 0
    tensors: {{keep: ~{keep}, may_keep: All}}
    actions:
    - {{name: read, energy: 1, throughput: {bits}, latency: 0}}
    - {{name: write, energy: 1, throughput: {bits}, latency: 0}}
"""
ARCHITECTURE = f"""
arch:
  nodes:
{MEMORY.format(name="MainMemory", size="inf", keep="Intermediates", bits=768)}
{MEMORY.format(name="GlobalBuffer", size=8 * 1024**2, keep="MainMemory", bits="inf")}
  - !Container
    name: Array
    spatial:
    - {{name: rows, fanout: 32}}
    - {{name: cols, fanout: 32}}
  - !Compute
    name: MAC
    leak_power: 0
    area: 0
    actions:
    - {{name: compute, energy: 1, throughput: 1, latency: 0}}
"""
WORKLOAD = """
workload:
  iteration_space_shape:
    m: 0 <= m < 1
    k: 0 <= k < 4096
    n: 0 <= n < {outputs}
  bits_per_value: {{All: 8}}
  einsums:
  - Y[m,n] = A[m,k]*B[k,n]
"""

MATRICES = {4096: 4, 11008: 3}
"""Outputs of a product, and how often a layer has it."""


def search(folder: str, outputs: int) -> tuple[float, int]:
    """Processor seconds of mapping one product, and its cycles."""
    architecture, workload = Path(folder, "arch.yaml"), Path(folder, "workload.yaml")
    architecture.write_text(ARCHITECTURE)
    workload.write_text(WORKLOAD.format(outputs=outputs))
    cpu = time.process_time()
    spec = accelforge.Spec.from_yaml(str(architecture), str(workload))
    spec.mapper.metrics = accelforge.mapper.Metrics.LATENCY
    found = spec.map_workload_to_arch(print_progress=False)
    return time.process_time() - cpu, int(found.data["Total<SEP>latency"].min())


def main(folder: str) -> None:
    """Measure both shapes; the first search warms up."""
    search(folder, 4096)
    found = {outputs: search(folder, outputs) for outputs in MATRICES}
    counts = {"accelforge_search": MATRICES, "accelforge_distinct": dict.fromkeys(MATRICES, 1)}
    runs = {
        name: {
            "cpu_s": sum(count * found[outputs][0] for outputs, count in often.items()),
            "cycles": sum(count * found[outputs][1] for outputs, count in often.items()),
        }
        for name, often in counts.items()
    }
    print(json.dumps({"version": version("accelforge"), "import_s": import_s, "runs": runs}))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        main(made)
    Path("mapping.svg").unlink(missing_ok=True)
