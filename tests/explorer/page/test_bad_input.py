"""What goes wrong is said in the page; markup in a text is shown, never run."""

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


def ask(opened, text: str) -> None:
    opened.page.fill("#text", text)
    opened.page.press("#text", "Enter")
    opened.synchronize()


def test_a_text_that_is_too_long_is_refused_in_the_page_and_the_next_is_read(opened):
    page = opened.go(view="tokens", text="Hello.")
    ask(opened, "word " * 10_000)
    page.wait_for_selector("[role=alert]")
    assert "and the model takes 254: shorten it" in opened.alert()
    assert page.get_by_role("button", name="Try again").count() == 0
    assert page.locator("#text").input_value() == "word " * 10_000
    ask(opened, "Good morning.")
    page.wait_for_selector("[role=alert]", state="detached")
    assert page.locator("#output").inner_text()


def test_a_text_of_any_length_is_counted_while_it_is_written(opened):
    page = opened.go(view="tokens", text="I am tired.")
    page.locator("#raw").fill("word " * 20_000)
    page.get_by_text("20000 tokens of at most 254").wait_for()
    assert page.locator("[role=alert]").count() == 0


def test_a_trouble_is_over_when_the_same_is_answered(opened):
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
        ask(opened, text)
        assert page.locator("[role=alert]").count() == 0
        assert page.locator("#text").input_value() == text
        for view in ("tokens", "beam", "cross"):
            opened.turn(view)
            assert page.locator("img[src=x]").count() == 0
            assert page.title() != "1"


@pytest.mark.parametrize(
    ("selection", "said"),
    [
        ({"model": "none"}, "is not one of"),
        ({"edits": '[{"kind":"mute","attention":"nowhere","heads":[0]}]'}, "there is no attention"),
        ({"edits": f'[{{"kind":"row",{ROW},"weights":["x"]}}]'}, "number"),
    ],
)
def test_a_link_that_asks_for_what_is_not_there_is_answered_in_the_page(opened, selection, said):
    opened.page.goto(f"{opened.address}#{urlencode({'door': 'inspect', 'text': 'Hello.', **selection})}")
    opened.page.wait_for_selector("[role=alert]")
    assert said in opened.alert()


def test_a_model_is_named_even_where_its_first_text_is_refused(browser, watched):
    page = browser.new_page()
    with in_background([("writer", writer()), ("other", writer())]) as address:
        opened = watched(page, address)
        page.goto(f"{address}#{urlencode({'door': 'inspect', 'text': 'word ' * 700})}")
        page.wait_for_selector("[role=alert]")
        assert page.locator("header select").input_value() == "writer"
        assert page.locator("button.main").inner_text() == "Read"
        page.close()
    assert opened.problems == []


def test_a_page_left_open_while_the_server_restarts_goes_on(browser, box, watched):
    def start(port: int) -> tuple[Server, threading.Thread, socket.socket]:
        place, ready = bind(port), threading.Event()
        server = Server([("en-de", box)], "cpu", ready.set)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [place]}, daemon=True)
        thread.start()
        ready.wait()
        return server, thread, place

    def stop(server: Server, thread: threading.Thread, place: socket.socket) -> None:
        server.should_exit = True
        thread.join()
        place.close()

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
    # What was shown is forgotten by the new server: its numbers are asked for again all the same.
    page.get_by_role("button", name="Try again").click()
    page.wait_for_selector("[role=alert]", state="detached")
    assert page.locator("#output").inner_text() == box.translate("Good morning.").text
    page.close()
    stop(*running)
    assert opened.problems == []


def test_a_trace_that_was_forgotten_is_made_again(opened, address):
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
