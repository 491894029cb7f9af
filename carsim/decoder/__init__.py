"""Reference FastCar decoder in NumPy: pure functions, and capture of traces.

A leaf of the package: only the command ``carsim capture`` and the contract tests of kinds
(``carsim.testing``) import it. A run reads the traces that it writes. ``hf`` reads checkpoints of
Hugging Face transformers, ``content`` makes tokens of videos.
"""
