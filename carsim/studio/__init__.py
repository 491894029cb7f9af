"""The studio: a local page on which a design is changed and answers at once.

A leaf of the package: only the command ``carsim studio`` imports it (extra ``studio``).

One truth: :class:`~carsim.studio.state.TabState`, which is the address of the page, the arguments
of ``carsim run`` and, loaded, a design. The server keeps nothing of a tab.

``serve`` starts it, ``entry`` and ``guard`` let its owner in, and ``reach`` says which files may be
read. ``page`` is the empty page, ``browser`` needs no server, and ``app`` connects the rest to
``answers``, which ``worker`` gives in a process of its own.
"""
