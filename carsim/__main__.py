"""``python -m carsim``, and the command ``carsim``: interruptible from the first moment on.

``python carsim`` in a checkout is the same; it first installs what is needed.
"""

import gc
import sys

if not __package__:  # this folder itself was run: look for modules beside it, not in it
    folder = sys.path.pop(0)
    import runpy
    from pathlib import Path

    checkout = Path(folder).absolute().parent
    sys.path.insert(0, str(checkout))
    if (checkout / ".ci" / "venv.py").exists():
        runpy.run_path(str(checkout / ".ci" / "venv.py"))["run"](["-m", "carsim", *sys.argv[1:]])


def main() -> None:
    """Import the command line and call it; what is interrupted meanwhile ends without a word."""
    # Imports make many objects and no garbage: looking for it takes a twentieth of ``carsim run``.
    gc.set_threshold(20_000)
    try:
        from carsim.cli import main as command
    except KeyboardInterrupt:
        sys.exit(130)
    command()


if __name__ == "__main__":
    main()
