"""A reader faster than the model: late responses never replace the latest request."""

import re

TEXT = "The dog runs."
WHOLE = re.compile(r"/api/trace/t\w+$")


def held(page, address) -> list:
    """Requests to an address, held back until they are continued."""
    routes = []
    page.route(address, lambda route: routes.append(route))
    return routes


def until(page, routes: list) -> None:
    while not routes:
        page.wait_for_timeout(10)


def let_go(page, address, routes: list) -> None:
    for route in routes:
        route.continue_()
    page.unroute(address)


def submit(page, text: str) -> None:
    page.locator("#text").fill(text)
    page.keyboard.press("Enter")


def test_text_typed_while_tensors_arrive_stays_in_the_field(opened):
    page = opened.go(view="tokens", text=TEXT)
    routes = held(page, WHOLE)
    submit(page, "The cat sleeps.")
    until(page, routes)
    page.locator("#text").fill("The cat sleeps in")
    let_go(page, WHOLE, routes)
    page.wait_for_selector("#difference")
    opened.wait_until_idle()
    assert page.locator("#text").input_value() == "The cat sleeps in"


def test_text_typed_while_a_trace_is_requested_stays_in_the_field(opened):
    page = opened.go(view="tokens", text=TEXT)
    routes = held(page, "**/api/trace")
    submit(page, "The cat sleeps.")
    until(page, routes)
    page.locator("#text").fill("The cat sleeps in")
    let_go(page, "**/api/trace", routes)
    page.wait_for_selector(".text:has-text('The cat sleeps.')")
    opened.wait_until_idle()
    assert page.locator("#text").input_value() == "The cat sleeps in"


def test_going_back_during_a_request_restores_the_previous_trace(opened, box):
    page = opened.go(view="tokens", text=TEXT)
    routes = held(page, "**/api/trace")
    submit(page, "The cat sleeps.")
    until(page, routes)
    page.unroute("**/api/trace")
    page.evaluate("history.back()")
    page.wait_for_url(re.compile(r"text=The\+dog"))
    opened.waiting.clear()
    page.wait_for_selector("#difference")
    opened.wait_until_idle()
    assert page.locator("#output").inner_text() == box.translate(TEXT).text
    assert page.locator("#text").input_value() == TEXT


def test_a_lesson_left_before_its_trace_arrives_leaves_nothing_behind(opened):
    page = opened.go("learn")
    first = page.locator("#text").input_value()
    routes = held(page, "**/api/trace")
    page.get_by_label(re.compile(r"^3\. ")).click()
    until(page, routes)
    page.unroute("**/api/trace")
    page.get_by_label(re.compile(r"^1\. ")).click()
    opened.waiting.clear()
    page.wait_for_selector(".busy:not(.on)", state="attached")
    opened.wait_until_idle()
    assert page.locator("#text").input_value() == first
    assert page.locator("[data-view] .text").first.inner_text() == first


def test_tensors_still_arrive_after_another_text_was_refused(opened):
    page = opened.go(view="heads", text=TEXT)
    routes = held(page, WHOLE)
    submit(page, "The cat sleeps.")
    until(page, routes)
    submit(page, "word " * 400)
    page.wait_for_selector("[role=alert]")
    page.unroute(WHOLE)
    page.wait_for_selector("#difference")
    assert "400 tokens" in opened.alert()
    assert "text=The+cat+sleeps." in page.url


def test_a_request_that_failed_in_the_server_can_be_retried(opened, box):
    page = opened.go(view="tokens", text=TEXT)
    page.route("**/api/trace", lambda route: route.fulfill(status=500, body="Internal Server Error"))
    submit(page, "The cat sleeps.")
    again = page.get_by_role("button", name="Try again")
    again.wait_for()
    page.unroute("**/api/trace")
    again.click()
    page.wait_for_selector("[role=alert]", state="detached")
    assert page.locator("#output").inner_text() == box.translate("The cat sleeps.").text


def test_a_token_that_arrives_after_going_back_is_discarded(opened):
    page = opened.go(view="generate", model="writer", text="Once upon")
    forward = page.get_by_role("button", name="Next token", exact=True)
    forward.click()
    page.wait_for_selector(".generated .piece")
    routes = held(page, "**/api/step")
    forward.click()
    until(page, routes)
    page.get_by_role("button", name="Start over").click()
    let_go(page, "**/api/step", routes)
    opened.wait_until_idle()
    assert page.locator(".generated .piece").count() == 0
