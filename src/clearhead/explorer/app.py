"""The explorer's HTTP interface (docs/trace.md) and the page that uses it."""

import re
from collections.abc import Callable
from typing import Annotated, Any

from anyio import from_thread
from fastapi import APIRouter, Depends, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware

from clearhead import __version__
from clearhead.errors import ClearheadError
from clearhead.explorer.architecture import architecture, position_table
from clearhead.explorer.arrays import Array, array_of
from clearhead.explorer.block import attention_output, feedforward, readout, units
from clearhead.explorer.distribution import SamplingFilter, next_token
from clearhead.explorer.explorable import tokenize
from clearhead.explorer.glossary import GLOSSARY
from clearhead.explorer.images import samples_of, thumbnail
from clearhead.explorer.lessons import guide
from clearhead.explorer.library import POLL_SECONDS, DisconnectedError, Library, TraceCache, UnknownTraceError
from clearhead.explorer.limits import BodyLimit, SecurityHeaders
from clearhead.explorer.measures import beam, contributions, filters, gradients, lens, relevance, summaries
from clearhead.explorer.projection import projection
from clearhead.explorer.requests import ContextsRequest, StepRequest, TraceRequest, error_line
from clearhead.explorer.standalone import PAGE
from clearhead.explorer.trace_session import start_trace
from clearhead.explorer.vectors import in_contexts, neighbours

CACHE_BYTES = 512_000_000
"""Memory for all traces together."""
LOCAL = ("127.0.0.1", "localhost")


def make_app(library: Library, cache_bytes: int = CACHE_BYTES, hosts: tuple[str, ...] = LOCAL) -> FastAPI:
    """The application; it refuses requests to other hosts, so that no foreign web page can use it."""
    app = FastAPI(title="clearhead explorer", version=__version__, openapi_url=None)
    traces = TraceCache(cache_bytes)
    api = APIRouter(prefix="/api")
    _add_model_routes(api, library)
    _add_image_routes(api, library)
    _add_trace_routes(api, library, traces)
    _add_block_routes(api, library, traces)
    _add_measure_routes(api, library, traces)
    app.include_router(api)
    _add_page(app)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False)
    app.add_middleware(BodyLimit)
    app.add_middleware(SecurityHeaders)
    _handle_errors(app)
    return app


def _add_model_routes(router: APIRouter, library: Library) -> None:
    @router.get("/models")
    def models() -> Response:
        return JSONResponse({"version": __version__, "models": library.records(), "glossary": GLOSSARY})

    @router.get("/model")
    def model(model: str | None = None) -> Response:
        with library.using(model) as (used, name):
            return JSONResponse(architecture(used, name))

    @router.get("/lessons")
    def lessons(model: str | None = None) -> Response:
        with library.using(model) as (used, name):
            return JSONResponse(guide(used, name))

    @router.get("/tokens")
    def tokens(text: str, model: str | None = None) -> Response:
        with library.using(model) as (used, _):
            return JSONResponse(tokenize(used, text))

    @router.get("/positions")
    def positions(model: str | None = None, positions: Annotated[int, Query(ge=1, le=4096)] = 64) -> Response:
        with library.using(model) as (used, _):
            kind, table = position_table(used.model, positions)
        return _array_response(table, {"X-Kind": kind})

    @router.post("/step")
    def step(body: StepRequest) -> Response:
        chosen = SamplingFilter(body.top, body.temperature, body.top_k, body.top_p, body.min_p)
        with library.using(body.model) as (used, _):
            return JSONResponse(next_token(used, body.text, body.generated, body.to, chosen, body.seed))

    @router.get("/neighbours")
    def word_neighbours(
        word: str, model: str | None = None, count: Annotated[int, Query(ge=1, le=100)] = 12
    ) -> Response:
        with library.using(model) as (used, _):
            return JSONResponse(neighbours(used, word, count))

    @router.post("/contexts")
    def contexts(body: ContextsRequest) -> Response:
        with library.using(body.model) as (used, _):
            return JSONResponse(in_contexts(used, body.word, body.texts, body.count))


def _add_image_routes(router: APIRouter, library: Library) -> None:
    @router.get("/images")
    def images(model: str | None = None) -> Response:
        with library.using(model) as (used, _):
            return JSONResponse({"samples": list(samples_of(used))})

    @router.post("/image")
    async def upload(request: Request, name: Annotated[str, Query(max_length=200)] = "image") -> Response:
        data = await request.body()
        key = await run_in_threadpool(library.images.add, name, data)
        return JSONResponse({"image": key, "name": name})

    @router.get("/image/{key}")
    def picture(key: str, model: str | None = None) -> Response:
        with library.using(model) as (used, _):
            return Response(thumbnail(used, key, library.images), media_type="image/png")


def _add_trace_routes(router: APIRouter, library: Library, traces: TraceCache) -> None:
    @router.post("/trace")
    def trace(body: TraceRequest, request: Request) -> Response:
        with library.using(body.model, _connection(request)) as (used, name):
            session = start_trace(used, name, body.model_dump(exclude={"model"}), library.images)
        if not _connection(request)():
            raise DisconnectedError(name)
        key = traces.add(session)
        # The page can already ask for tensors while the pass that captures them runs.
        running = BackgroundTask(session.run, library.using(name))
        return JSONResponse({**session.manifest(), "id": key}, background=running)

    @router.get("/trace/{key}")
    def manifest(key: str, request: Request) -> Response:
        session, connected = traces.get(key), _connection(request)
        while not session.finished(POLL_SECONDS):
            if not connected():
                traces.drop(key)
                raise DisconnectedError(session.name)
        return JSONResponse({**session.wait().manifest(), "id": key})

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
        session = traces.get(key)
        if not session.holds(name, layer):
            with library.using(session.name):
                session.fetch(name, layer)
        chosen = {"layers": layer, "heads": head, "queries": query}
        return _array_response(session.tensor(name, chosen, dtype, pool))

    @router.get("/trace/{key}/projection")
    def one_projection(
        key: str,
        attention: str,
        layer: int,
        head: int,
        position: int,
        part: str = "queries",
        dimension: int = 0,
    ) -> Response:
        session = traces.get(key).wait()
        with library.using(session.name):
            return JSONResponse(projection(session, attention, layer, head, position, part, dimension))


def _add_block_routes(router: APIRouter, library: Library, traces: TraceCache) -> None:
    @router.get("/trace/{key}/attention_output")
    def one_attention_output(
        key: str, attention: str, layer: int, head: int, position: int, dimension: int = 0, output: int = 0
    ) -> Response:
        session = traces.get(key).wait()
        with library.using(session.name):
            found = attention_output(session, attention, layer, head, position, dimension, output)
            return JSONResponse(found)

    @router.get("/trace/{key}/feedforward")
    def one_feedforward(
        key: str, stack: str, layer: int, position: int, unit: int | None = None, output: int = 0
    ) -> Response:
        session = traces.get(key).wait()
        with library.using(session.name):
            return JSONResponse(feedforward(session, stack, layer, position, unit, output))

    @router.get("/trace/{key}/units")
    def all_units(key: str, stack: str, layer: int) -> Response:
        session = traces.get(key).wait()
        with library.using(session.name):
            return _array_response(array_of(units(session, stack, layer)))

    @router.get("/trace/{key}/readout")
    def one_readout(key: str, position: int, token: int | None = None) -> Response:
        session = traces.get(key).wait()
        with library.using(session.name):
            return JSONResponse(readout(session, position, token))


def _add_measure_routes(router: APIRouter, library: Library, traces: TraceCache) -> None:
    @router.get("/trace/{key}/summaries")
    def all_summaries(key: str) -> Response:
        return JSONResponse(summaries(traces.get(key).wait()))

    @router.get("/trace/{key}/logits")
    def logits(key: str, position: int, chosen: Annotated[SamplingFilter, Depends()]) -> Response:
        return JSONResponse(traces.get(key).logits(position, chosen))

    @router.get("/trace/{key}/lens")
    def logit_lens(key: str, top: Annotated[int, Query(ge=1, le=20)] = 3) -> Response:
        session = traces.get(key).wait()
        with library.using(session.name):
            return JSONResponse(lens(session, top))

    @router.get("/trace/{key}/gradients")
    def source_gradients(key: str) -> Response:
        session = traces.get(key).wait()
        with library.using(session.name):
            return JSONResponse(gradients(session))

    @router.get("/trace/{key}/relevance")
    def input_relevance(key: str) -> Response:
        session = traces.get(key).wait()
        with library.using(session.name):
            return JSONResponse(relevance(session))

    @router.get("/trace/{key}/filters")
    def embedding_filters(key: str) -> Response:
        return JSONResponse(filters(traces.get(key)))

    @router.get("/trace/{key}/beam")
    def tree(key: str) -> Response:
        return JSONResponse(beam(traces.get(key)))

    @router.get("/trace/{key}/contributions")
    def all_contributions(key: str, request: Request) -> Response:
        session, connected = traces.get(key).wait(), _connection(request)
        with library.using(session.name, connected):
            return JSONResponse(contributions(session, connected))


def _add_page(app: FastAPI) -> None:
    """The built page and the files beside it."""
    # Looked up by name, so that no path from outside reaches the disk.
    built = {file.relative_to(PAGE).as_posix(): file for file in PAGE.rglob("*") if file.is_file()}

    @app.get("/{path:path}")
    def page(path: str) -> Response:
        file = built.get(path or "index.html")
        if file is None:
            raise HTTPException(404, f"/{path}: not found{'; the page is at /' if path else ''}")
        # Unless the icon is cached, browsers ask for it at every step of the history.
        cache = "max-age=86400" if file.suffix == ".svg" else "no-cache"
        return FileResponse(file, headers={"Cache-Control": cache})


def _connection(request: Request) -> Callable[[], bool]:
    """A function that says whether the client is still connected, for use in a worker thread."""
    return lambda: not from_thread.run(request.is_disconnected)


def _array_response(array: Array, more: dict[str, str] | None = None) -> Response:
    shape = ",".join(map(str, array.shape))
    headers = {"X-Shape": shape, "X-Dtype": array.dtype, **(more or {})}
    return Response(array.data, media_type="application/octet-stream", headers=headers)


def _handle_errors(app: FastAPI) -> None:
    """Every error becomes JSON with one line that a page can show."""

    def response(status: int, text: str, field: str | None = None, **more: Any) -> Response:
        return JSONResponse({"error": text, "field": field, **more}, status)

    @app.exception_handler(ClearheadError)
    def user_error(_: Request, error: ClearheadError) -> Response:
        text = "; ".join(str(error).splitlines())
        field = re.match(r"([a-z_]+(?:[.\[]\w+\]?)*): ", text)
        gone = {"gone": True} if isinstance(error, UnknownTraceError) else {}
        return response(getattr(error, "status", 400), text, field.group(1) if field else None, **gone)

    @app.exception_handler(RequestValidationError)
    def invalid(_: Request, error: RequestValidationError) -> Response:
        return response(422, *error_line(error.errors()[0]))

    @app.exception_handler(HTTPException)
    def other(_: Request, error: HTTPException) -> Response:
        return response(error.status_code, str(error.detail))
