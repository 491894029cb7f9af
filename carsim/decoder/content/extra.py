"""Imports that only the optional extra ``carsim[content]`` brings."""

import importlib
from typing import Any

from carsim.errors import InputError

_PACKAGES = {"skimage": "scikit-image", "sklearn": "scikit-learn"}


def need(module: str) -> Any:
    """Import a module of scikit-image or scikit-learn.

    Raises:
        InputError: It is not installed; the cure names the extra.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InputError(
            "video content",
            f"needs {_PACKAGES[module.split('.')[0]]}, which is not installed",
            "install the extra with: pip install 'carsim[content]'",
        ) from error
