"""Hardware kinds: memories, mappings, schedules, technologies, and the schedulers in gates."""
