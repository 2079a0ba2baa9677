"""The explorer's response times in Chromium at 12, 128 and 512 tokens, its frames per second, its peers.

    python benchmarks/explorer.py [--chromium /usr/bin/chromium] [--rounds 20] [--libraries FOLDER]
        [--json FILE]

The model has the paper's base size (6 + 6 layers, 8 heads, width 512) and is untrained, because times do not
depend on the weights. Its translations are given, because its own would never end.
"""

import argparse
import json
import os
import platform
import re
import shutil
import statistics
import tempfile
import time
from datetime import date
from pathlib import Path
from unittest.mock import patch
from urllib.parse import urlencode

# As the command line does: spinning threads would take time from the browser.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")
import torch
from playwright.sync_api import Browser, Page, Route, sync_playwright

from clearhead.explorer.server import freeze_memory, in_background
from clearhead.models import build, read_config
from clearhead.tasks.translation.directions import Direction
from clearhead.tasks.translation.model import TranslationModel
from clearhead.tasks.translation.options import SearchConfig
from clearhead.text.tokenizer import Tokenizer, TokenizerConfig

LENGTHS = (12, 128, 512)
PEERS_LENGTH = 256
PEERS_ROUNDS = {"clearhead": 5, "bertviz": 1, "inspectus": 3}
ARGUMENTS = ["--no-sandbox", "--disable-dev-shm-usage", "--hide-scrollbars", "--force-color-profile=srgb"]
# The design's budgets in milliseconds, 95th percentile, by length.
BUDGETS = {
    "first picture": (1000, 1000, 1000),
    "new trace": (400, 2500, 2500),
    "hover": (16, 16, 33),
    "change head, fetched": (100, 100, 100),
    "change head, cached": (50, 50, 50),
    "exact row": (80, 80, 80),
    "atlas of heads": (250, 250, 250),
    # The views of a block as the atlas; at 512 tokens they draw whole matrices of up to 6 MB.
    "Attention output": (250, 250, 500),
    "Feed-forward": (250, 250, 500),
    "Readout": (250, 250, 500),
}
BLOCK_VIEWS = ("Attention output", "Feed-forward", "Readout")
MIN_FRAMES_PER_SECOND = 50
ANIMATION_MS = 6000
# Counts open requests, to find the end of a reaction. Waiting is event-driven: a polling loop would take a
# core from the server and leave garbage for the page to collect.
COUNT = """
(() => {
  const ask = window.fetch;
  window.waiting = 0;
  const channel = new MessageChannel(), ticks = [], sleepers = [];
  channel.port1.onmessage = () => ticks.shift()();
  window.tick = () => new Promise((done) => { ticks.push(done); channel.port2.postMessage(0); });
  window.news = () => new Promise((done) => sleepers.push(done));
  window.drawn = 0;
  window.fetch = async (...given) => {
    window.waiting++;
    const numbers = String(given[0]).includes("/t/");
    const end = () => setTimeout(() => {
      window.waiting--;
      window.drawn += numbers;
      sleepers.splice(0).forEach((done) => done());
    }, 0);
    const answer = await ask(...given).catch((error) => { end(); throw error; });
    for (const kind of ["json", "arrayBuffer"]) {
      const read = answer[kind].bind(answer);
      answer[kind] = () => read().finally(end);
    }
    return answer;
  };
})();
"""
# True once the first picture has its numbers and is drawn.
PICTURE = "() => window.drawn > 0 && document.querySelector('[data-view] canvas, [data-view] svg') !== null"
# The time from a click until no request is open and everything is drawn.
REACTION = """
async (act) => {
  const found = document.querySelector(act);
  while (found?.disabled) await new Promise((done) => setTimeout(done, 5));
  const started = performance.now(), before = window.drawn;
  found?.click();
  // A new trace is progressive: its first picture counts, summaries follow.
  while (act === "button.main" && window.drawn === before) await news();
  if (act === "button.main") return performance.now() - started;
  let quiet = 0;
  while (quiet < 3) {
    if (window.waiting) await news();
    else await tick();
    quiet = window.waiting ? 0 : quiet + 1;
  }
  return performance.now() - started;
}
"""
HOVER = """
async ([x, y]) => {
  const size = (one) => one.width * one.height;
  const canvas = [...document.querySelectorAll("[data-view] canvas")].sort((a, b) => size(b) - size(a))[0];
  const box = canvas.getBoundingClientRect();
  const at = { bubbles: true, clientX: box.x + x * box.width, clientY: box.y + y * box.height };
  const started = performance.now();
  canvas.dispatchEvent(new PointerEvent("pointermove", at));
  await tick();
  return performance.now() - started;
}
"""
KEY = """
() => performance.getEntriesByType("resource").map((one) => one.name)
  .filter((name) => /trace\\/t/.test(name)).at(-1).match(/trace\\/(\\w+)/)[1]
"""
FETCH = """
async (url) => {
  const started = performance.now();
  await (await fetch(url)).arrayBuffer();
  return performance.now() - started;
}
"""
# Intervals between frames while the page is animated.
FRAMES = """
async (duration) => {
  const times = [await new Promise(requestAnimationFrame)];
  while (times.at(-1) - times[0] < duration) times.push(await new Promise(requestAnimationFrame));
  return times.slice(1).map((time, i) => time - times[i]);
}
"""
ROW = "t/encoder.blocks.3.attention.weights?head=2&query=5&dtype=f32"


def base_model() -> TranslationModel:
    tokens = " ".join(f"token{number}" for number in range(1000))
    tokenizer = Tokenizer.train([tokens], TokenizerConfig(kind="word", vocabulary=1100))
    torch.manual_seed(0)
    config = read_config({"kind": "translator", "preset": "base", "max_length": 600, "norm_position": "pre"})
    return TranslationModel(build(config, tokenizer), tokenizer, [Direction("en", "de")], SearchConfig())  # pyright: ignore


def text_of(length: int) -> str:
    return " ".join(f"token{number * 7 % 1000}" for number in range(length - 1))


def opened(browser: Browser, address: str, **selection: object) -> Page:
    """A page with its first picture drawn."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.add_init_script(COUNT)
    page.goto(f"{address}#{urlencode({'door': 'inspect', **selection})}")
    page.wait_for_function(PICTURE, timeout=120_000)
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)))")
    return page


def quiet(page: Page) -> None:
    page.evaluate(REACTION, "none")


def p95(times: list[float]) -> float:
    return sorted(times)[min(len(times) - 1, int(0.95 * len(times)))]


def reactions(browser: Browser, address: str, length: int, rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each kind of reaction."""
    text = text_of(length)
    selection = {"text": text, "target": text, "attention": "encoder"}
    found: dict[str, list[float]] = {name: [] for name in BUDGETS}
    for _ in range(max(rounds // 5, 3)):
        started = time.perf_counter()
        page = opened(browser, address, view="head", **selection)
        found["first picture"].append(1000 * (time.perf_counter() - started))
        quiet(page)
        page.close()
    page = opened(browser, address, view="head", **selection)
    quiet(page)
    for number in range(rounds):
        position = [(0.5 + number) / rounds, (0.5 + number * 7 % rounds) / rounds]
        found["hover"].append(page.evaluate(HOVER, position))
    quiet(page)
    chosen = "[data-view] [aria-label='head'] button:nth-of-type({})"
    for kind in ("fetched", "cached"):
        for head in range(2, 9):
            found[f"change head, {kind}"].append(page.evaluate(REACTION, chosen.format(head)))
    found["exact row"] += timed(page, address, rounds, ROW)
    found["atlas of heads"] += opening(page, "Heads", rounds)
    for view in BLOCK_VIEWS:
        found[view] += opening(page, view, rounds)
    for _ in range(max(rounds // 5, 3)):
        found["new trace"].append(page.evaluate(REACTION, "button.main"))
        quiet(page)
    page.close()
    return found


def timed(page: Page, address: str, rounds: int, path: str) -> list[float]:
    """Milliseconds of a request like the page's."""
    key = page.evaluate(KEY)
    return [page.evaluate(FETCH, f"{address}api/trace/{key}/{path}") for _ in range(rounds)]


def opening(page: Page, title: str, rounds: int) -> list[float]:
    """Milliseconds to switch to a view from the list of tokens, with everything drawn."""
    titles = page.locator("nav.views button b").all_inner_texts()
    view, tokens = (
        f"nav.views button:nth-of-type({titles.index(one) + 1})" for one in (title, "Text → tokens")
    )
    times = []
    for _ in range(max(rounds // 3, 5)):
        page.evaluate(REACTION, tokens)
        times.append(page.evaluate(REACTION, view))
    return times


def frames(browser: Browser, address: str) -> dict[str, float]:
    """Frames while a token goes through the overview, at each speed."""
    text = text_of(LENGTHS[0])
    page, found = opened(browser, address, view="head", text=text, target=text), {}
    quiet(page)
    for speed in ("1", "4"):
        page.get_by_label("speed").select_option(f"{speed} ×")
        page.get_by_role("button", name="Play").click()
        intervals = page.evaluate(FRAMES, ANIMATION_MS)
        assert page.locator("[data-step]").count(), "the animation does not run"
        page.get_by_role("button", name="Pause").click()
        found[f"per second at speed {speed}"] = 1000 * len(intervals) / sum(intervals)
        found[f"longest at speed {speed}, ms"] = max(intervals)
    page.close()
    return found


def peers(
    browser: Browser, address: str, model: TranslationModel, libraries: Path | None
) -> dict[str, float]:
    """Seconds from the weights to their first picture: 6 layers of 8 heads over 256 tokens.

    The explorer's time starts with a new tab and includes the pass that computes the weights.
    """
    text = text_of(PEERS_LENGTH)
    explanation = model.explain(text, target=text)
    layers = [explanation[f"encoder.blocks.{layer}.attention.weights"][None] for layer in range(6)]
    pieces = [token.piece for token in explanation.source]

    def ours() -> float:
        started = time.perf_counter()
        page = opened(browser, address, view="heads", text=text, target=text, attention="encoder")
        spent = time.perf_counter() - started
        quiet(page)
        page.close()
        return spent

    def bertviz() -> float:
        from bertviz import model_view

        started = time.perf_counter()
        drawn = model_view(layers, pieces, html_action="return").data
        return rendered(browser, drawn, libraries, started)

    def inspectus_() -> float:
        import inspectus

        parts: list[str] = []
        started = time.perf_counter()
        with patch("IPython.display.display", lambda part: parts.append(part.data)):
            inspectus.attention(torch.cat(layers).numpy(), pieces, pieces)
        return rendered(browser, "".join(parts), libraries, started)

    print(f"\nfrom the weights to the first picture of 6 x 8 heads over {PEERS_LENGTH} tokens")
    seconds = {}
    for name, draw in (("clearhead", ours), ("bertviz", bertviz), ("inspectus", inspectus_)):
        try:
            seconds[name] = statistics.median(draw() for _ in range(PEERS_ROUNDS[name]))
        except Exception as error:  # report a peer that is not available
            print(f"  {name:12}{type(error).__name__}: {str(error).partition(chr(10))[0][:90]}")
            continue
        print(f"  {name:12}{seconds[name]:8.2f} s{seconds[name] / seconds['clearhead']:8.1f}x")
    return seconds


def rendered(browser: Browser, text: str, libraries: Path | None, started: float) -> float:
    """Seconds until a peer's page shows something; its libraries are served from a folder."""
    page = browser.new_page()

    def serve(route: Route) -> None:
        name = next((one for one in ("require", "d3", "jquery") if one in route.request.url), None)
        if libraries is None or name is None:
            route.abort()
        else:
            route.fulfill(path=libraries / f"{name}.js", content_type="text/javascript")

    page.route(re.compile("^https://"), serve)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "peer.html"
        file.write_text(f"<!doctype html><meta charset=utf-8><body>{text}", encoding="utf-8")
        page.goto(file.as_uri(), wait_until="load", timeout=300_000)
        shown = "() => document.querySelector('svg line, svg rect, svg path, canvas') !== null"
        if libraries is not None:
            page.wait_for_function(shown, timeout=90_000)
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)))")
        print(f"  {'':12}{file.stat().st_size / 1e6:8.1f} MB of HTML:")
    spent = time.perf_counter() - started
    page.close()
    return spent


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--chromium", default=shutil.which("chromium"))
    options.add_argument("--rounds", type=int, default=20)
    options.add_argument(
        "--libraries", type=Path, help="folder with require.js, d3.js and jquery.js for BertViz"
    )
    options.add_argument("--json", type=Path, help="write the figures to this file")
    chosen = options.parse_args()
    model = base_model()
    freeze_memory()
    with in_background([("base", model)]) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chosen.chromium, args=ARGUMENTS)
        print(f"{torch.get_num_threads()} threads; milliseconds: median / p95 (budget)")
        print(f"  {'':24}" + "".join(f"{length:>6} tokens       " for length in LENGTHS))
        rows = [reactions(browser, address, length, chosen.rounds) for length in LENGTHS]
        for name, budgets in BUDGETS.items():
            cells = [cell(row[name], budget) for row, budget in zip(rows, budgets, strict=True)]
            print(f"  {name:24}" + "".join(cells))
        moving = frames(browser, address)
        print(
            f"\nframes of the animation at {LENGTHS[0]} tokens (at least {MIN_FRAMES_PER_SECOND} per second)"
        )
        for name, value in moving.items():
            print(f"  {name:32}{value:8.1f}")
        seconds = peers(browser, address, model, chosen.libraries)
        version = browser.version
        browser.close()
    about = f"{date.today()}, {processor()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    found = {
        "about": f"{about}, torch {torch.__version__}, Chromium {version}",
        "milliseconds": {
            name: {str(length): row[name] for length, row in zip(LENGTHS, rows, strict=True)}
            for name in BUDGETS
        },
        "frames": moving,
        "seconds to the first picture of 256 tokens": seconds,
    }
    if chosen.json:
        chosen.json.write_text(json.dumps(found) + "\n", encoding="utf-8")


def processor() -> str:
    """The name of the processor, where the system says it."""
    found = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    return found[1] if found else platform.machine()


def cell(times: list[float], budget: int) -> str:
    over = "!" if p95(times) > budget else " "
    return f"{statistics.median(times):7.1f} /{p95(times):7.1f} ({budget}){over}"


if __name__ == "__main__":
    main()
