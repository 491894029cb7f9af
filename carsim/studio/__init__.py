"""The studio: a local page on which a design is changed and answers at once.

One truth: :class:`~carsim.studio.state.State`, which is the address of the page, the arguments of
``carsim run`` and, loaded, a design. The server keeps nothing of a tab.
"""
