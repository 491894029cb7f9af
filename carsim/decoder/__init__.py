"""Reference FastCar decoder in NumPy: pure functions, golden checks, and capture of traces."""
