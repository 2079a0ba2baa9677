"""The explorer's page in Chromium with a real server; one browser per run, one context per test."""

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
from clearhead.tasks.translation.model import TranslationModel
from clearhead.tasks.translation.options import SearchConfig
from clearhead.text.tokenizer import Tokenizer, TokenizerConfig

from ..test_ngram import ngram_model
from ..test_recurrent import recurrent_translator

sync_api = pytest.importorskip("playwright.sync_api", reason="no browser tests: playwright is not installed")

WAIT = 15_000
TITLES = {
    "patches": "Image → patches",
    "looks": "Over the image",
    "relevance": "Relevance",
    "regions": "Words → regions",
    "tokens": "Text → tokens",
    "embedding": "Embedding + position",
    "projections": "Q, K, V",
    "softmax": "Scores → softmax",
    "mix": "Attention output",
    "heads": "Heads",
    "head": "One head",
    "cross": "Cross-attention",
    "residual": "Residual stream",
    "feedforward": "Feed-forward",
    "gates": "Gates",
    "gradient": "Gradient",
    "backoff": "Backoff",
    "readout": "Readout",
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
            "no browser tests: Chromium not found; apt-get install chromium, or set CHROMIUM to its path"
        )
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=chromium.ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def box() -> TranslationModel:
    """The packaged translator."""
    model = load("en-de")
    assert isinstance(model, TranslationModel)
    return model


@pytest.fixture(scope="package")
def address(box) -> Iterator[str]:
    from clearhead.explorer.server import in_background

    models = [("en-de", box), ("long", long_translator()), ("writer", writer()), ("deep", writer(48, 1))]
    models += [("lstm", recurrent_translator(cell="lstm"))]
    models += [("fixed", recurrent_translator(attend="none")), ("trigrams", ngram_model())]
    with in_background(models) as address:
        yield address


def long_translator() -> TranslationModel:
    """An untrained translator for texts of more than 512 tokens."""
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
    """An untrained GPT that can read any text."""
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
    """A page, its problems and its requests."""

    page: "sync_api.Page"
    address: str
    problems: list[str] = field(default_factory=list)
    requested: list[str] = field(default_factory=list)
    waiting: set = field(default_factory=set)
    """Requests without a response yet."""

    def go(self, door: str = "inspect", **selection: object) -> "sync_api.Page":
        """Opens a selection and waits until everything is loaded."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.address}#{urlencode({'door': door, **selection})}")
        self.wait_until_idle(selection.get("view"))
        return self.page

    def turn(self, view: str) -> None:
        """Switches to another view of the same trace, as a reader does."""
        title = self.page.get_by_text(TITLES[view], exact=True)
        self.page.locator("nav.views button", has=title).click()
        self.wait_until_idle(view)

    def wait_until_idle(self, view: object = None) -> None:
        """Waits until a view is shown, no request is open and everything is drawn."""
        self.page.wait_for_selector(f"[data-view={view}]" if view else "[data-view]")
        quiet, end = 0, time.monotonic() + 4 * WAIT / 1000
        while quiet < 2:
            assert time.monotonic() < end, f"still waiting for: {[request.url for request in self.waiting]}"
            self.page.evaluate("() => new Promise(done => requestAnimationFrame(() => setTimeout(done, 10)))")
            quiet = 0 if self.waiting else quiet + 1

    def alert(self) -> str:
        return self.page.locator("[role=alert]").first.inner_text()


@pytest.fixture
def opened(browser, address) -> Iterator[Opened]:
    """A page that must end without errors and without requests to other servers."""
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
    foreign = [url for url in opened.requested if not url.startswith((address, "data:", "blob:", "about:"))]
    assert foreign == []


@pytest.fixture(scope="package")
def watched() -> Callable[..., Opened]:
    """Opens a page whose problems and requests are recorded."""

    def make(page: "sync_api.Page", address: str) -> Opened:
        page.set_default_timeout(WAIT)
        opened = Opened(page, address)
        watch(opened)
        return opened

    return make


def watch(opened: Opened) -> None:
    """Records the errors and requests of a page."""
    page = opened.page

    def on_console(message) -> None:
        # The page shows refused requests; the browser logs them as well.
        if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
            opened.problems.append(message.text)

    def on_request(request) -> None:
        opened.requested.append(request.url)
        # The icon's request never finishes when it comes from the browser's cache.
        if request.resource_type != "other":
            opened.waiting.add(request)

    page.on("console", on_console)
    page.on("pageerror", lambda error: opened.problems.append(str(error)))
    page.on("request", on_request)
    page.on("requestfinished", lambda request: opened.waiting.discard(request))
    page.on("requestfailed", lambda request: opened.waiting.discard(request))


@pytest.fixture
def saved(box, tmp_path) -> Callable[..., Path]:
    """Saves an explanation as one HTML file."""

    def save(text: str = TEXT, target: str | None = None) -> Path:
        from clearhead.explorer.standalone import standalone_page

        path = tmp_path / "trace.html"
        path.write_text(standalone_page(box.explain(text, target=target)), encoding="utf-8")
        return path

    return save
