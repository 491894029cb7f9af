"""Measurement: a small decoder with FastCar's replay, timed on the reader's own machine.

A leaf of the package: ``carsim measure`` runs it, and ``carsim validate replay`` reads the folder
that it writes. Nothing else imports it.

Modules: ``shape`` has the sizes of decoders, ``settings`` the list of what is timed, ``backend``
and ``decoder`` the decoder itself, ``worker`` the processes, ``samples`` the raw times, ``tables``
the results, ``host`` the machine and its design, ``folder`` the files, and ``measuring`` the whole
measurement.
"""
