"""Middleware around every response: security headers, and a limit on the size of requests."""

import logging

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BYTES = 4_000_000
"""Of a request's body, and of its request line and headers."""
MAX_IMAGE_BYTES = 16_000_000
"""Of an uploaded image."""
UPLOADS = "/api/image"
POLICY = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
HEADERS = {
    b"content-security-policy": POLICY.encode(),
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-resource-policy": b"same-origin",
    b"cache-control": b"no-store",
}
log = logging.getLogger(__name__)


class SecurityHeaders:
    """Adds the headers to every response, including those of internal errors."""

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                present = {name.lower() for name, _ in message["headers"]}
                missing = [(name, value) for name, value in HEADERS.items() if name not in present]
                message["headers"] = [*message["headers"], *missing]
            await send(message)

        try:
            await self.app(scope, receive, with_headers)
        except Exception as error:
            log.exception("a request failed", exc_info=error)
            if scope["type"] == "http" and not started:
                text = f"internal error ({type(error).__name__}); the terminal shows the details"
                await _error(500, text)(scope, receive, with_headers)


class BodyLimit:
    """Refuses requests with a larger body."""

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        size = 0
        most = MAX_IMAGE_BYTES if scope.get("path") == UPLOADS else MAX_BYTES

        async def limited_receive() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            # Beyond the limit nothing is kept: the application sees the end of the body.
            end = {"type": "http.request", "body": b"", "more_body": False}
            return message if size <= most else end

        async def limited_send(message: Message) -> None:
            if size <= most:
                await send(message)
            elif message["type"] == "http.response.start":
                text = f"the request is larger than {most:,} bytes; send less"
                await _error(413, text)(scope, receive, send)

        await self.app(scope, limited_receive, limited_send)


def _error(status: int, text: str) -> JSONResponse:
    return JSONResponse({"error": text, "field": None}, status)
