"""Hardware models: arrays, buffers, memories, cores, the Dynamic Resource Scheduler."""
