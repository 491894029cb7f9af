"""Reference FastCar decoder in NumPy: pure functions, and capture of traces."""
