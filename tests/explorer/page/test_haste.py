"""A reader faster than the model: what comes late never takes the place of what was asked for last."""

import re

TEXT = "The dog runs."
WHOLE = re.compile(r"/api/trace/t\w+$")


def held(page, address) -> list:
    """Requests of an address, kept from the server until somebody continues them."""
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


def ask(page, text: str) -> None:
    page.locator("#text").fill(text)
    page.keyboard.press("Enter")


def test_what_is_written_while_numbers_arrive_stays_in_the_field(opened):
    page = opened.go(view="tokens", text=TEXT)
    routes = held(page, WHOLE)
    ask(page, "The cat sleeps.")
    until(page, routes)
    page.locator("#text").fill("The cat sleeps in")
    let_go(page, WHOLE, routes)
    page.wait_for_selector("#difference")
    opened.synchronize()
    assert page.locator("#text").input_value() == "The cat sleeps in"


def test_what_is_written_while_a_trace_is_made_stays_in_the_field(opened):
    page = opened.go(view="tokens", text=TEXT)
    routes = held(page, "**/api/trace")
    ask(page, "The cat sleeps.")
    until(page, routes)
    page.locator("#text").fill("The cat sleeps in")
    let_go(page, "**/api/trace", routes)
    page.wait_for_selector(".text:has-text('The cat sleeps.')")
    opened.synchronize()
    assert page.locator("#text").input_value() == "The cat sleeps in"


def test_back_while_a_trace_is_under_way_leads_to_what_was_there_before(opened, box):
    page = opened.go(view="tokens", text=TEXT)
    routes = held(page, "**/api/trace")
    ask(page, "The cat sleeps.")
    until(page, routes)
    page.unroute("**/api/trace")
    page.evaluate("history.back()")
    page.wait_for_url(re.compile(r"text=The\+dog"))
    opened.waiting.clear()
    page.wait_for_selector("#difference")
    opened.synchronize()
    assert page.locator("#output").inner_text() == box.translate(TEXT).text
    assert page.locator("#text").input_value() == TEXT


def test_a_lesson_left_before_its_trace_was_there_leaves_nothing_behind(opened):
    page = opened.go("learn")
    first = page.locator("#text").input_value()
    routes = held(page, "**/api/trace")
    page.get_by_label(re.compile(r"^3\. ")).click()
    until(page, routes)
    page.unroute("**/api/trace")
    page.get_by_label(re.compile(r"^1\. ")).click()
    opened.waiting.clear()
    page.wait_for_selector(".busy:not(.on)", state="attached")
    opened.synchronize()
    assert page.locator("#text").input_value() == first
    assert page.locator("[data-view] .text").first.inner_text() == first


def test_numbers_still_come_when_another_text_was_refused_before_they_were_there(opened):
    page = opened.go(view="heads", text=TEXT)
    routes = held(page, WHOLE)
    ask(page, "The cat sleeps.")
    until(page, routes)
    ask(page, "word " * 400)
    page.wait_for_selector("[role=alert]")
    page.unroute(WHOLE)
    page.wait_for_selector("#difference")
    assert "400 tokens" in opened.alert()
    assert "text=The+cat+sleeps." in page.url


def test_what_a_stopping_server_could_not_answer_can_be_asked_again(opened, box):
    page = opened.go(view="tokens", text=TEXT)
    page.route("**/api/trace", lambda route: route.fulfill(status=500, body="Internal Server Error"))
    ask(page, "The cat sleeps.")
    again = page.get_by_role("button", name="Try again")
    again.wait_for()
    page.unroute("**/api/trace")
    again.click()
    page.wait_for_selector("[role=alert]", state="detached")
    assert page.locator("#output").inner_text() == box.translate("The cat sleeps.").text


def test_a_token_that_was_under_way_when_the_reader_went_back_is_not_written(opened):
    page = opened.go(view="generate", model="writer", text="Once upon")
    forward = page.get_by_role("button", name="Next token", exact=True)
    forward.click()
    page.wait_for_selector(".piece")
    routes = held(page, "**/api/step")
    forward.click()
    until(page, routes)
    page.get_by_role("button", name="From the start").click()
    let_go(page, "**/api/step", routes)
    opened.synchronize()
    assert page.locator(".piece").count() == 0
