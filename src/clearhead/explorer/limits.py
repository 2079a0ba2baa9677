"""What stands around every answer: headers that keep a page to itself, and a bound on what may be sent."""

import logging

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BYTES = 4_000_000
"""Of a request's body, and of its address with all that stands before the body."""
POLICY = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
HEADERS = {
    b"content-security-policy": POLICY.encode(),
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-resource-policy": b"same-origin",
    b"cache-control": b"no-store",
}
log = logging.getLogger(__name__)


class Sealed:
    """An application with the headers on every answer, that of a bug too."""

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def sealed(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                there = {name.lower() for name, _ in message["headers"]}
                more = [(name, value) for name, value in HEADERS.items() if name not in there]
                message["headers"] = [*message["headers"], *more]
            await send(message)

        try:
            await self.app(scope, receive, sealed)
        except Exception as error:
            log.exception("a request failed", exc_info=error)
            if scope["type"] == "http" and not begun:
                text = f"the server met a bug ({type(error).__name__}); its terminal tells more"
                await _refusal(500, text)(scope, receive, sealed)


class Bounded:
    """An application behind the bound."""

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        read = 0

        async def counted() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            # Beyond the bound, nothing more is held: the application sees the end of what was sent.
            return (
                message if read <= MOST_BYTES else {"type": "http.request", "body": b"", "more_body": False}
            )

        async def answered(message: Message) -> None:
            """The answer, or the refusal in its place."""
            if read <= MOST_BYTES:
                await send(message)
            elif message["type"] == "http.response.start":
                text = f"the request is larger than {MOST_BYTES:,} bytes: send less"
                await _refusal(413, text)(scope, receive, send)

        await self.app(scope, counted, answered)


def _refusal(status: int, text: str) -> JSONResponse:
    return JSONResponse({"error": text, "field": None}, status)
