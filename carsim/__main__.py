"""``python -m carsim``."""

from carsim.cli import main

main()
