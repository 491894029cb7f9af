"""Energy, FPGA resources and memory capacity."""
