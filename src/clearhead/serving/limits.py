"""What stands around every answer: headers that keep a page to itself, and a bound on what may be sent."""

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BYTES = 4_000_000
"""Of a request's body."""
POLICY = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
HEADERS = {
    b"content-security-policy": POLICY.encode(),
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-resource-policy": b"same-origin",
    b"cache-control": b"no-store",
}


class Guarded:
    """An application behind the bound, with the headers on every answer."""

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        read = 0

        async def counted() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            # Beyond the bound, nothing more is held: the application sees the end of what was sent.
            return (
                message if read <= MOST_BYTES else {"type": "http.request", "body": b"", "more_body": False}
            )

        async def sealed(message: Message) -> None:
            if read > MOST_BYTES:
                await refuse(message)
                return
            if message["type"] == "http.response.start":
                there = {name.lower() for name, _ in message["headers"]}
                more = [(name, value) for name, value in HEADERS.items() if name not in there]
                message["headers"] = [*message["headers"], *more]
            await send(message)

        async def refuse(message: Message) -> None:
            """The refusal in the place of the answer."""
            if message["type"] == "http.response.start":
                text = f"the request is larger than {MOST_BYTES:,} bytes: send less"
                await JSONResponse({"error": text, "field": None}, 413)(scope, receive, send)

        await self.app(scope, counted, sealed)
