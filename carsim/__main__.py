"""``python -m carsim``; or ``python carsim`` in a checkout, which first installs what is needed."""

import sys

if not __package__:  # this folder itself was run: look for modules beside it, not in it
    folder = sys.path.pop(0)
    import runpy
    from pathlib import Path

    checkout = Path(folder).absolute().parent
    sys.path.insert(0, str(checkout))
    if (checkout / ".ci" / "venv.py").exists():
        runpy.run_path(str(checkout / ".ci" / "venv.py"))["run"](["-m", "carsim", *sys.argv[1:]])

from carsim.cli import main

main()
