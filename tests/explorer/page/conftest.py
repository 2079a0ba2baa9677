"""The explorer's page in a real Chromium, over a real server; one browser, a context for each test."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode

import chromium
import pytest

from clearhead.models import build, read_config
from clearhead.tasks.language.model import LanguageModel
from clearhead.tasks.load import load
from clearhead.tasks.translation.directions import Direction
from clearhead.tasks.translation.model import SearchConfig, TranslationModel
from clearhead.text.tokenizer import Tokenizer, TokenizerConfig

sync_api = pytest.importorskip("playwright.sync_api", reason="no browser tests: playwright is not installed")

WAIT = 15_000
TITLES = {
    "tokens": "Text → tokens",
    "embedding": "Embedding + position",
    "projections": "Q, K, V",
    "softmax": "Scores → softmax",
    "heads": "Heads",
    "head": "One head",
    "cross": "Cross-attention",
    "residual": "Residual stream",
    "logits": "Next token",
    "beam": "Beam tree",
    "generate": "Generate",
    "vectors": "Vectors",
}
TEXT = "The dog runs through the big garden."


@pytest.fixture(scope="package")
def browser() -> Iterator:
    program = chromium.program()
    if program is None:
        pytest.skip(
            "no browser tests: Chromium is not here; apt-get install chromium, or name it in CHROMIUM"
        )
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=chromium.ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def box() -> TranslationModel:
    """The model in the package, under a name of its directions."""
    model = load("en-de")
    assert isinstance(model, TranslationModel)
    return model


@pytest.fixture(scope="package")
def address(box) -> Iterator[str]:
    from clearhead.explorer.server import in_background

    models = [("en-de", box), ("long", long_translator()), ("writer", writer()), ("deep", writer(48, 1))]
    with in_background(models) as address:
        yield address


def long_translator() -> TranslationModel:
    """A translator that has learned nothing, for texts of more than 512 tokens."""
    text = " ".join(f"word{number}" for number in range(100))
    words = Tokenizer.train([text], TokenizerConfig(kind="word", vocabulary=200))
    settings = {
        "kind": "translator",
        "width": 64,
        "ffn_width": 64,
        "max_length": 600,
        "attention": {"heads": 4},
    }
    config = read_config({**settings, "encoder_layers": 2, "decoder_layers": 2})
    model = build(config, words)
    return TranslationModel(model, words, [Direction("en", "de")], SearchConfig())  # pyright: ignore


def writer(layers: int = 2, heads: int = 4) -> LanguageModel:
    """A GPT that has learned nothing, but can read anything."""
    words = Tokenizer.train(["Once upon a time"], TokenizerConfig(kind="bytes", vocabulary=300))
    settings = {
        "kind": "gpt",
        "width": 32,
        "ffn_width": 32,
        "context_length": 600,
        "attention": {"heads": heads},
    }
    return LanguageModel(build(read_config({**settings, "layers": layers}), words), words)  # pyright: ignore


@dataclass
class Opened:
    """A page, what went wrong in it, and whom it asked."""

    page: "sync_api.Page"
    address: str
    problems: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    waiting: set = field(default_factory=set)
    """Requests without an answer yet."""

    def go(self, door: str = "inspect", **selection: object) -> "sync_api.Page":
        """Goes to a place of the page, and waits until all is there."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.address}#{urlencode({'door': door, **selection})}")
        self.synchronize(selection.get("view"))
        return self.page

    def turn(self, view: str) -> None:
        """Goes to another view of the same trace, as a reader does."""
        title = self.page.get_by_text(TITLES[view], exact=True)
        self.page.locator("nav.views button", has=title).click()
        self.synchronize(view)

    def synchronize(self, view: object = None) -> None:
        """Waits until a view is there, no answer is awaited, and all is drawn."""
        self.page.wait_for_selector(f"[data-view={view}]" if view else "[data-view]")
        quiet, end = 0, time.monotonic() + 4 * WAIT / 1000
        while quiet < 2:
            assert time.monotonic() < end, f"still no answer: {[request.url for request in self.waiting]}"
            self.page.evaluate("() => new Promise(done => requestAnimationFrame(() => setTimeout(done, 10)))")
            quiet = 0 if self.waiting else quiet + 1

    def alert(self) -> str:
        return self.page.locator("[role=alert]").first.inner_text()


@pytest.fixture
def opened(browser, address) -> Iterator[Opened]:
    """A page that in the end has had no error and has asked nobody but its server."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, base_url=address)
    yield from _watched(context, address)


@pytest.fixture
def phone(browser, address) -> Iterator[Opened]:
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True)
    yield from _watched(context, address)


def _watched(context, address: str) -> Iterator[Opened]:
    page = context.new_page()
    page.set_default_timeout(WAIT)
    opened = Opened(page, address)
    watch(opened)
    yield opened
    context.close()
    assert opened.problems == []
    foreign = [url for url in opened.asked if not url.startswith((address, "data:", "blob:", "about:"))]
    assert foreign == []


@pytest.fixture(scope="package")
def watched() -> Callable[..., Opened]:
    """A page at an address, whose problems and requests are noted."""

    def make(page: "sync_api.Page", address: str) -> Opened:
        page.set_default_timeout(WAIT)
        opened = Opened(page, address)
        watch(opened)
        return opened

    return make


def watch(opened: Opened) -> None:
    """Notes errors of a page, and every address that it asks."""
    page = opened.page

    def heard(message) -> None:
        # What the server refuses is told in the page; that the browser notes it too cannot be helped.
        if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
            opened.problems.append(message.text)

    def begun(request) -> None:
        opened.asked.append(request.url)
        # The icon is the browser's own affair: taken from its cache, it is never said to have come.
        if request.resource_type != "other":
            opened.waiting.add(request)

    page.on("console", heard)
    page.on("pageerror", lambda error: opened.problems.append(str(error)))
    page.on("request", begun)
    page.on("requestfinished", lambda request: opened.waiting.discard(request))
    page.on("requestfailed", lambda request: opened.waiting.discard(request))


@pytest.fixture
def saved(box, tmp_path) -> Callable[..., Path]:
    """An explanation of the box's as one HTML file."""

    def save(text: str = TEXT, target: str | None = None) -> Path:
        from clearhead.explorer.standalone import standalone_page

        path = tmp_path / "trace.html"
        path.write_text(standalone_page(box.explain(text, target=target)), encoding="utf-8")
        return path

    return save
