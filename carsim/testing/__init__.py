"""Contract tests of every kind, for kinds of the package and from outside alike.

``python -m carsim.testing mine.py`` holds the kinds that a plugin file registers to them. A kind
whose fields have no defaults, or that behaves otherwise under other fields, gives instances to
test in a list ``EXAMPLES`` of the file. From Python::

    from carsim.testing import check_kind

    check_kind("schedule", Mine())
"""

from carsim.testing.contracts import CONTRACTS as CONTRACTS
from carsim.testing.contracts import check_kind as check_kind
