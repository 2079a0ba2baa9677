"""Errors appear in the page; markup in a text is shown, never run."""

import socket
import threading
from urllib.parse import urlencode

import pytest

from clearhead.explorer.server import Server, bind, in_background

from .conftest import writer

ROW = '"attention":"decoder.blocks.0.attention","head":0,"query":0'

STRANGE = (
    "<img src=x onerror=document.title=1>",
    "👋🏽 👨‍👩‍👧 hello",
    "שלום עולם",
    "你好,世界",
)


def submit(opened, text: str) -> None:
    opened.page.fill("#text", text)
    opened.page.press("#text", "Enter")
    opened.wait_until_idle()


def test_a_text_that_is_too_long_is_refused_and_the_next_one_works(opened):
    page = opened.go(view="tokens", text="Hello.")
    submit(opened, "word " * 10_000)
    page.wait_for_selector("[role=alert]")
    assert "but the model takes at most 254; shorten it" in opened.alert()
    assert page.get_by_role("button", name="Try again").count() == 0
    assert page.locator("#text").input_value() == "word " * 10_000
    submit(opened, "Good morning.")
    page.wait_for_selector("[role=alert]", state="detached")
    assert page.locator("#output").inner_text()


def test_a_text_of_any_length_is_counted_while_typing(opened):
    page = opened.go(view="tokens", text="I am tired.")
    page.locator("#raw").fill("word " * 20_000)
    page.get_by_text("20,000 tokens, at most 254").wait_for()
    assert page.locator("[role=alert]").count() == 0


def test_an_error_disappears_after_the_next_success(opened):
    page = opened.go(view="tokens", text="I am tired.")
    page.route("**/api/tokens?*", lambda route: route.abort())
    page.locator("#raw").fill("I am")
    assert "does not answer" in opened.alert()
    page.unroute("**/api/tokens?*")
    page.locator("#raw").fill("I am here")
    page.wait_for_selector("[role=alert]", state="detached")


def test_any_text_is_shown_and_never_run(opened):
    page = opened.go(view="cross", text="Hello.")
    for text in STRANGE:
        submit(opened, text)
        assert page.locator("[role=alert]").count() == 0
        assert page.locator("#text").input_value() == text
        for view in ("tokens", "beam", "cross"):
            opened.turn(view)
            assert page.locator("img[src=x]").count() == 0
            assert page.title() != "1"


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        ({"model": "none"}, "is not one of"),
        ({"edits": '[{"kind":"mute","attention":"nowhere","heads":[0]}]'}, "there is no attention"),
        ({"edits": f'[{{"kind":"row",{ROW},"weights":["x"]}}]'}, "number"),
    ],
)
def test_a_bad_link_shows_an_error_in_the_page(opened, selection, message):
    opened.page.goto(f"{opened.address}#{urlencode({'door': 'inspect', 'text': 'Hello.', **selection})}")
    opened.page.wait_for_selector("[role=alert]")
    assert message in opened.alert()


def test_the_model_is_shown_even_if_its_first_text_is_refused(browser, watched):
    page = browser.new_page()
    with in_background([("writer", writer()), ("other", writer())]) as address:
        opened = watched(page, address)
        page.goto(f"{address}#{urlencode({'door': 'inspect', 'text': 'word ' * 700})}")
        page.wait_for_selector("[role=alert]")
        assert page.locator("header select").input_value() == "writer"
        assert page.locator("button.main").inner_text() == "Read"
        page.close()
    assert opened.problems == []


def test_an_open_page_survives_a_server_restart(browser, box, watched):
    def start(port: int) -> tuple[Server, threading.Thread, socket.socket]:
        listener, ready = bind(port), threading.Event()
        server = Server([("en-de", box)], "cpu", ready.set)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        ready.wait()
        return server, thread, listener

    def stop(server: Server, thread: threading.Thread, listener: socket.socket) -> None:
        server.should_exit = True
        thread.join()
        listener.close()

    running = start(0)
    port = running[2].getsockname()[1]
    page = browser.new_page()
    opened = watched(page, f"http://127.0.0.1:{port}/")
    opened.go(view="head", text="Hello.")
    stop(*running)
    page.fill("#text", "Good morning.")
    page.press("#text", "Enter")
    page.wait_for_selector("[role=alert]")
    running = start(port)
    # The new server does not have the old trace; the page requests it again.
    page.get_by_role("button", name="Try again").click()
    page.wait_for_selector("[role=alert]", state="detached")
    assert page.locator("#output").inner_text() == box.translate("Good morning.").text
    page.close()
    stop(*running)
    assert opened.problems == []


def test_a_dropped_trace_is_computed_again(opened, address):
    page = opened.go(view="tokens", text="Hello.")
    refused = []

    def forget_once(route):
        if refused:
            route.continue_()
        else:
            refused.append(route.request.url)
            route.fulfill(status=404, json={"error": "gone", "field": None, "gone": True})

    page.route("**/api/trace/*/**", forget_once)
    opened.turn("heads")
    assert refused
    assert page.locator("[role=alert]").count() == 0
