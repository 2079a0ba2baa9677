"""What a page may ask for, checked before any work; what is wrong is said in one line, by its field."""

from itertools import pairwise
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat
from pydantic_core import ErrorDetails

from clearhead.config import describe

MOST_CHARACTERS = 200_000
"""Of one text: more than models read, and little enough to be cut and refused with its count of tokens."""
Text = Annotated[str, Field(max_length=MOST_CHARACTERS)]
Place = Annotated[int, Field(ge=0)]
Ids = Annotated[list[Place], Field(max_length=100_000)]


class Request(BaseModel):
    """The base of all requests: closed to unknown names, and numbers are numbers."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Heads(Request):
    kind: Literal["mute", "keep"]
    attention: str
    heads: Annotated[list[Place], Field(max_length=1000)]


class Row(Request):
    kind: Literal["row"]
    attention: str
    head: Place
    query: Place
    weights: Annotated[list[Annotated[FiniteFloat, Field(ge=0)]], Field(min_length=1, max_length=100_000)]


class Swap(Request):
    kind: Literal["embedding"]
    side: Literal["source", "target", "text"]
    place: Place
    token: str | None = None
    id: Place | None = None


class Move(Request):
    kind: Literal["position"]
    side: Literal["source", "target", "text"]
    place: Place
    to: Place


Change = Annotated[Heads | Row | Swap | Move, Field(discriminator="kind")]


class Drawing(Request):
    temperature: FiniteFloat = 0.0
    top_k: int | None = None
    top_p: FiniteFloat = 1.0
    seed: int = 0


class TraceRequest(Drawing):
    model: str | None = None
    text: Text
    to: str | None = None
    beam: Annotated[int, Field(ge=1, le=64)] | None = None
    prefix: Text = ""
    forced: Ids = []
    target: Text | None = None
    tokens: Annotated[int, Field(ge=0, le=100_000)] = 0
    tree: bool = False
    interventions: Annotated[list[Change], Field(max_length=1000)] = []


class StepRequest(Drawing):
    model: str | None = None
    text: Text
    to: str | None = None
    written: Ids = []
    top: int = 20


class ContextsRequest(Request):
    model: str | None = None
    word: Text
    texts: Annotated[list[Text], Field(min_length=1, max_length=8)]
    count: Annotated[int, Field(ge=1, le=100)] = 8


def complaint(problem: ErrorDetails) -> tuple[str, str | None]:
    """One line for a person, and the field it is about, of what pydantic found wrong."""
    if problem["type"] == "json_invalid":
        why = problem.get("ctx", {})["error"]
        return f"the request is not JSON ({why}, character {problem['loc'][-1]})", None
    path = problem["loc"][1:]
    # LeftPadding the number of an edit stands its kind, by which it was read: nobody wrote that there.
    written = [str(part) for before, part in pairwise([None, *path]) if not isinstance(before, int)]
    if not written:
        return "the request is no JSON object with content-type application/json: send one", None
    field = ".".join(written)
    way = "; docs/trace.md has all that there are" if problem["type"] == "extra_forbidden" else ""
    return f"{field}: {describe(problem)}{way}", field
