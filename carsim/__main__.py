"""``python -m carsim``, and the command ``carsim``: interruptible from the first moment on."""

import sys


def main() -> None:
    """Import the command line and call it; what is interrupted meanwhile ends without a word."""
    try:
        from carsim.cli import main as command
    except KeyboardInterrupt:
        sys.exit(130)
    command()


if __name__ == "__main__":
    main()
