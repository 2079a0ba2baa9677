"""The explorer's server: answers as docs/trace.md has them, and the page that asks for them."""

import re
from collections.abc import Callable
from typing import Annotated, Any

from anyio import from_thread
from fastapi import APIRouter, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware

from clearhead import __version__
from clearhead.errors import ClearheadError
from clearhead.explorer.architecture import architecture
from clearhead.explorer.arrays import Array
from clearhead.explorer.beam import beam
from clearhead.explorer.distribution import Cut
from clearhead.explorer.library import LOOK_SECONDS, BusyError, LeftError, Library
from clearhead.explorer.limits import Bounded, Sealed
from clearhead.explorer.measures import contributions, lens, summaries
from clearhead.explorer.positions import position_table
from clearhead.explorer.projection import projection
from clearhead.explorer.requests import ContextsRequest, StepRequest, TraceRequest, complaint
from clearhead.explorer.run import tell
from clearhead.explorer.standalone import PAGE
from clearhead.explorer.steps import next_token
from clearhead.explorer.tokens import cut_text
from clearhead.explorer.trace_session import UnknownTensorError
from clearhead.explorer.traces import GoneError, Traces
from clearhead.explorer.vectors import in_contexts, neighbours

KEPT_BYTES = 512_000_000
"""Traces that are held together."""
LOCAL = ("127.0.0.1", "localhost")


def make_app(library: Library, kept_bytes: int = KEPT_BYTES, hosts: tuple[str, ...] = LOCAL) -> FastAPI:
    """The application; only requests to these hosts are answered, so that no foreign page can ask."""
    app = FastAPI(title="clearhead explorer", version=__version__, openapi_url=None)
    app.include_router(_models(library), prefix="/api")
    traces = Traces(kept_bytes)
    app.include_router(_traces(library, traces), prefix="/api")
    app.include_router(_measures(library, traces), prefix="/api")
    app.include_router(_page())
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False)
    app.add_middleware(Bounded)
    app.add_middleware(Sealed)
    _explain_errors(app)
    return app


def _models(library: Library) -> APIRouter:
    """What is asked of a model, not of a trace."""
    router = APIRouter()

    @router.get("/models")
    def models() -> Response:
        return JSONResponse({"version": __version__, "models": library.records()})

    @router.get("/model")
    def model(model: str | None = None) -> Response:
        with library.using(model) as (used, name):
            return JSONResponse(architecture(used, name))

    @router.get("/tokens")
    def tokens(text: str, model: str | None = None) -> Response:
        with library.using(model) as (used, _):
            return JSONResponse(cut_text(used, text))

    @router.get("/positions")
    def positions(model: str | None = None, positions: Annotated[int, Query(ge=1, le=4096)] = 64) -> Response:
        with library.using(model) as (used, _):
            kind, table = position_table(used.model, positions)
        return _bytes(table, {"X-Kind": kind})

    @router.post("/step")
    def step(asked: StepRequest) -> Response:
        chosen = Cut(asked.top, asked.temperature, asked.top_k, asked.top_p)
        with library.using(asked.model) as (used, _):
            return JSONResponse(next_token(used, asked.text, asked.written, asked.to, chosen, asked.seed))

    @router.get("/neighbours")
    def near(
        word: str, model: str | None = None, count: Annotated[int, Query(ge=1, le=100)] = 12
    ) -> Response:
        with library.using(model) as (used, _):
            return JSONResponse(neighbours(used, word, count))

    @router.post("/contexts")
    def contexts(asked: ContextsRequest) -> Response:
        with library.using(asked.model) as (used, _):
            return JSONResponse(in_contexts(used, asked.word, asked.texts, asked.count))

    return router


def _traces(library: Library, traces: Traces) -> APIRouter:
    """Making traces, and their numbers."""
    router = APIRouter()
    found = traces.found

    @router.post("/trace")
    def trace(asked: TraceRequest, request: Request) -> Response:
        with library.using(asked.model, _wanted(request)) as (used, name):
            told = tell(used, name, asked.model_dump(exclude={"model"}))
        if _left(request):
            raise LeftError(name)
        key = traces.new_id()
        traces.add(key, told)
        # What can be shown of the trace is asked for while the pass that makes it goes on.
        running = BackgroundTask(told.run, library.using(name))
        return JSONResponse({**told.manifest(), "id": key}, background=running)

    @router.get("/trace/{key}")
    def manifest(key: str, request: Request) -> Response:
        told = found(key)
        while not told.ended(LOOK_SECONDS):
            if _left(request):
                traces.drop(key)
                raise LeftError(told.name)
        return JSONResponse({**told.wait().manifest(), "id": key})

    @router.get("/trace/{key}/t/{name}")
    def tensor(
        key: str,
        name: str,
        layer: int | None = None,
        head: int | None = None,
        query: int | None = None,
        dtype: str = "f32",
        pool: int | None = None,
    ) -> Response:
        told = found(key)
        if not told.holds(name, layer):
            with library.using(told.name):
                told.fetch(name, layer)
        return _bytes(told.tensor(name, {"layers": layer, "heads": head, "queries": query}, dtype, pool))

    @router.get("/trace/{key}/projection")
    def one_projection(
        key: str,
        attention: str,
        layer: int,
        head: int,
        place: int,
        part: str = "queries",
        dimension: int = 0,
    ) -> Response:
        told = found(key).wait()
        with library.using(told.name):
            return JSONResponse(projection(told, attention, layer, head, place, part, dimension))

    return router


def _measures(library: Library, traces: Traces) -> APIRouter:
    """What is measured on a trace."""
    router = APIRouter()
    found = traces.found

    @router.get("/trace/{key}/summaries")
    def all_summaries(key: str) -> Response:
        return JSONResponse(summaries(found(key).wait()))

    @router.get("/trace/{key}/logits")
    def logits(
        key: str,
        place: int,
        top: int = 20,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float = 1.0,
    ) -> Response:
        return JSONResponse(found(key).logits(place, Cut(top, temperature, top_k, top_p)))

    @router.get("/trace/{key}/lens")
    def one_lens(key: str, top: Annotated[int, Query(ge=1, le=20)] = 3) -> Response:
        told = found(key).wait()
        with library.using(told.name):
            return JSONResponse(lens(told, top))

    @router.get("/trace/{key}/beam")
    def tree(key: str) -> Response:
        return JSONResponse(beam(found(key)))

    @router.get("/trace/{key}/contributions")
    def all_contributions(key: str, request: Request) -> Response:
        told = found(key).wait()
        with library.using(told.name, wanted := _wanted(request)):
            return JSONResponse(contributions(told, wanted))

    return router


def _page() -> APIRouter:
    """The built page: its entry, and what lies beside it."""
    router = APIRouter()
    # By their names alone: a path from outside never reaches the disk.
    built = {file.relative_to(PAGE).as_posix(): file for file in PAGE.rglob("*") if file.is_file()}

    @router.get("/{path:path}")
    def page(path: str) -> Response:
        file = built.get(path or "index.html")
        if file is None:
            raise HTTPException(404, f"/{path}: nothing is here{'; the page is at /' if path else ''}")
        # Browsers ask for the icon at every step of the history, unless they may keep it.
        kept = "max-age=86400" if file.suffix == ".svg" else "no-cache"
        return FileResponse(file, headers={"Cache-Control": kept})

    return router


def _left(request: Request) -> bool:
    """Whether nobody waits for the answer any more; asked from a thread of the server's."""
    return from_thread.run(request.is_disconnected)


def _wanted(request: Request) -> Callable[[], bool]:
    return lambda: not _left(request)


def _bytes(array: Array, more: dict[str, str] | None = None) -> Response:
    shape = ",".join(map(str, array.shape))
    headers = {"X-Shape": shape, "X-Dtype": array.dtype, **(more or {})}
    return Response(array.data, media_type="application/octet-stream", headers=headers)


def _explain_errors(app: FastAPI) -> None:
    """Every error is JSON with one line that a page can show."""

    def answer(status: int, text: str, field: str | None = None, **more: Any) -> Response:
        return JSONResponse({"error": text, "field": field, **more}, status)

    @app.exception_handler(ClearheadError)
    def mendable(_: Request, error: ClearheadError) -> Response:
        text = "; ".join(str(error).splitlines())
        field = re.match(r"([a-z_]+(?:[.\[]\w+\]?)*): ", text)
        status = (
            503 if isinstance(error, BusyError) else 404 if isinstance(error, UnknownTensorError) else 400
        )
        return answer(status, text, field.group(1) if field else None)

    @app.exception_handler(RequestValidationError)
    def refused(_: Request, error: RequestValidationError) -> Response:
        return answer(422, *complaint(error.errors()[0]))

    @app.exception_handler(GoneError)
    def gone(_: Request, error: GoneError) -> Response:
        text = f"trace {str(error)!r:.40}: is not here any more; it is made again from its text"
        return answer(404, text, None, gone=True)

    @app.exception_handler(HTTPException)
    def other(_: Request, error: HTTPException) -> Response:
        return answer(error.status_code, str(error.detail))
