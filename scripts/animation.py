"""Writes docs/explorer/overview.webp: a token on its way through the packaged translator. Needs Chromium."""

import io
import sys
from pathlib import Path
from urllib.parse import urlencode

import chromium
from PIL import Image
from playwright.sync_api import Page, sync_playwright

import clearhead
from clearhead.explorer.server import in_background

OUT = Path(__file__).parents[1] / "docs" / "explorer" / "overview.webp"
MAX_BYTES = 2_000_000
SELECTION = {"door": "inspect", "view": "tokens", "text": "I closed the windows.", "key": 4, "position": 4}
SIZE = {"width": 1080, "height": 760}
MOVES, MOVE_MS, REST_MS, LAST_MS = 4, 80, 1100, 4000
"""Frames of a move and how long each is shown; how long the end of a step is shown."""
# Stops all motion at a share of its time, so that frames are even however long a screenshot takes.
FREEZE = """share => document.querySelector("nav.map").getAnimations({subtree: true}).forEach(one => {
  one.pause();
  one.currentTime = share * one.effect.getComputedTiming().endTime;
})"""
FINISH = "() => document.querySelector('nav.map').getAnimations({subtree: true}).forEach(one => one.finish())"


def picture(page: Page) -> Image.Image:
    shot = page.locator("nav.map").screenshot(animations="allow")
    return Image.open(io.BytesIO(shot)).convert("RGB")


def frames(page: Page) -> tuple[list[Image.Image], list[int]]:
    """The frames of the whole route, and how many milliseconds each is shown."""
    pictures, times = [picture(page)], [REST_MS]
    forward, step = page.get_by_label("Forward one step"), 0
    while forward.is_enabled():
        forward.click()
        step += 1
        page.evaluate(FREEZE, 0)
        page.wait_for_selector(f"[data-step='{step}']")
        for move in range(1, MOVES + 1):
            page.evaluate(FREEZE, move / (MOVES + 1))
            pictures.append(picture(page))
            times.append(MOVE_MS)
        page.evaluate(FINISH)
        pictures.append(picture(page))
        times.append(REST_MS)
    return pictures, [*times[:-1], LAST_MS]


def main() -> None:
    program = chromium.program()
    if program is None:
        sys.exit("Chromium not found; install it, or set CHROMIUM to its path")
    with in_background([("en-de", clearhead.load("en-de"))]) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=chromium.ARGUMENTS)
        page = browser.new_page(viewport=SIZE)  # pyright: ignore[reportArgumentType]
        page.goto(f"{address}#{urlencode(SELECTION)}")
        page.wait_for_selector("[data-view]")
        page.locator("nav.map summary").click()
        page.wait_for_load_state("networkidle")
        pictures, times = frames(page)
        browser.close()
    first, *others = pictures
    first.save(OUT, save_all=True, append_images=others, duration=times, loop=0, quality=70, method=6)
    size = OUT.stat().st_size
    if size > MAX_BYTES:
        sys.exit(f"{OUT}: {size:,} bytes, at most {MAX_BYTES:,} allowed")
    sys.stdout.write(f"{OUT}: {len(pictures)} frames, {size:,} bytes\n")


if __name__ == "__main__":
    main()
