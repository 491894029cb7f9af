"""What acceptance tests share: a real browser."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium, driven by Playwright; tests are skipped without."""
    playwright = pytest.importorskip("playwright.sync_api")
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip("no Chromium")
    with playwright.sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield launched
        launched.close()
