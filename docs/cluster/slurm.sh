#!/bin/bash
# Evaluate one study as a SLURM array of 16 jobs, each with one shard. Submit with:
#   sbatch docs/cluster/slurm.sh grid.yaml results
#SBATCH --job-name=carsim
#SBATCH --array=1-16
#SBATCH --cpus-per-task=2
#SBATCH --mem=4G
#SBATCH --time=08:00:00
#SBATCH --requeue
#SBATCH --output=carsim-%A_%a.log
set -euo pipefail

study=${1:?name a study}
results=${2:?name a folder that all nodes see}
shards=${SHARDS:-16} # as many as the array above has, also if only a part of it runs again
shard=${SLURM_ARRAY_TASK_ID:-1}

# A requeued job goes on where it was: each result is on disk at once.
carsim sweep "$study" --shard "$shard/$shards" --out "$results/$shard" \
  --workers "${SLURM_CPUS_PER_TASK:-2}"
