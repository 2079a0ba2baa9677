"""Writes docs/explorer/*.png: views of the packaged model for README and docs. Needs Chromium."""

import sys
from pathlib import Path
from urllib.parse import urlencode

import chromium
from playwright.sync_api import sync_playwright

import clearhead
from clearhead.explorer.server import in_background

OUT = Path(__file__).parents[1] / "docs" / "explorer"
TEXT = "I bought a new book for my little sister."
OTHER = "I sold an old book for my little sister."
VIEWS = {
    "learn": {"door": "learn", "lesson": 5},
    "heads": {"view": "heads", "attention": "encoder"},
    "softmax": {"view": "softmax", "attention": "cross", "layer": 2, "head": 0, "query": 4, "key": 5},
    "mix": {"view": "mix", "attention": "cross", "layer": 2, "head": 0, "query": 4},
    "cross": {"view": "cross", "attention": "cross", "layer": 0, "head": 2, "query": 5},
    "logits": {"view": "logits", "position": 2},
    "beam": {"view": "beam"},
    "compare": {"view": "head", "attention": "encoder", "layer": 2, "compare": "text", "other": OTHER},
    "present": {"door": "learn", "lesson": 5, "present": 1},
}


def main() -> None:
    program = chromium.program()
    if program is None:
        sys.exit("Chromium not found; install it, or set CHROMIUM to its path")
    OUT.mkdir(parents=True, exist_ok=True)
    with in_background([("en-de", clearhead.load("en-de"))]) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=chromium.ARGUMENTS)
        for name, selection in VIEWS.items():
            page = browser.new_page(viewport={"width": 1280, "height": 1100}, reduced_motion="reduce")
            page.goto(f"{address}#{urlencode({'door': 'inspect', 'text': TEXT, **selection})}")
            page.wait_for_selector("[data-view]")
            page.wait_for_load_state("networkidle")
            page.screenshot(path=OUT / f"{name}.png")
            sys.stdout.write(f"{OUT / name}.png\n")
            page.close()
        browser.close()


if __name__ == "__main__":
    main()
