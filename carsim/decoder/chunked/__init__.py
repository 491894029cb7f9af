"""Reference decoder of videos in chunks: a small diffusion transformer over a cache, in NumPy.

:mod:`~carsim.decoder.chunked.model` has sizes and weights, :mod:`~carsim.decoder.chunked.forward`
one forward as pure functions, :mod:`~carsim.decoder.chunked.decode` chunks and denoising steps,
:mod:`~carsim.decoder.chunked.capture` a trace of what was decided.
"""
