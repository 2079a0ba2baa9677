"""The Chromium that draws the explorer's page for tests and pictures, the same on every machine."""

import os
import shutil

NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = [
    "--font-render-hinting=none",
    "--disable-lcd-text",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
    # In a container the sandbox has no rights of its own, and shared memory is small.
    "--no-sandbox",
    "--disable-dev-shm-usage",
]


def program() -> str | None:
    """Where it is, if it is here: what CHROMIUM names, or the first of the usual names."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
