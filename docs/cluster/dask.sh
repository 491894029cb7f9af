#!/bin/bash
# Evaluate one study on a Dask scheduler with two local workers. Start with:
#   docs/cluster/dask.sh grid.yaml results
# On a cluster, start the scheduler on one node, and `dask worker tcp://NODE:8786` on the others.
set -euo pipefail

study=${1:?name a study}
results=${2:?name a folder}
port=${DASK_PORT:-8786}

dask scheduler --host 127.0.0.1 --port "$port" --no-dashboard &
scheduler=$!
dask worker "tcp://127.0.0.1:$port" --nworkers 2 --nthreads 1 --no-dashboard &
workers=$!
trap 'kill "$workers" "$scheduler"; wait' EXIT

python3 -c "from distributed import Client; Client('tcp://127.0.0.1:$port').wait_for_workers(2)"
carsim sweep "$study" --scheduler "tcp://127.0.0.1:$port" --out "$results"
