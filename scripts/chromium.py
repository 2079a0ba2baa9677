"""Chromium for browser tests and screenshots, with flags that make it render alike on every machine."""

import os
import shutil

NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = [
    "--font-render-hinting=none",
    "--disable-lcd-text",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
    # Containers forbid the sandbox and have little shared memory.
    "--no-sandbox",
    "--disable-dev-shm-usage",
]


def program() -> str | None:
    """The path in CHROMIUM, or the first usual name on the PATH; None if there is none."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
