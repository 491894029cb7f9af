"""``python -m carsim``, and the command ``carsim``: interruptible from the first moment on.

``python carsim`` in a checkout is the same; it first installs what is needed.
"""

import gc
import sys

if not __package__:  # this folder itself was run: look for modules beside it, not in it
    folder = sys.path.pop(0)
    try:
        import runpy
        from pathlib import Path

        checkout = Path(folder).absolute().parent
        sys.path.insert(0, str(checkout))
        venv = checkout / ".ci" / "venv.py"
        if venv.exists():
            runpy.run_path(str(venv))["run"](["-m", "carsim", *sys.argv[1:]])
    except KeyboardInterrupt:
        sys.exit(130)


def main() -> None:
    """Import the command line and call it; interrupted before it can say so, it ends silently."""
    try:
        # Imports make many objects and no garbage: looking for it takes a twentieth of a run.
        gc.set_threshold(20_000)
        from carsim.cli import main as command

        command()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
