"""The bodies of requests, validated before any work; an error is one line that names the field."""

from itertools import pairwise
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat
from pydantic_core import ErrorDetails

from clearhead.config import describe

MAX_CHARACTERS = 200_000
"""Of one text: more than a model reads, but short enough to tokenize for an error with its count."""
Text = Annotated[str, Field(max_length=MAX_CHARACTERS)]
Index = Annotated[int, Field(ge=0)]
Ids = Annotated[list[Index], Field(max_length=100_000)]


class Body(BaseModel):
    """The base of all bodies: unknown fields are refused, and numbers are not parsed from text."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Heads(Body):
    kind: Literal["mute", "keep"]
    attention: str
    heads: Annotated[list[Index], Field(max_length=1000)]


class Row(Body):
    kind: Literal["row"]
    attention: str
    head: Index
    query: Index
    weights: Annotated[list[Annotated[FiniteFloat, Field(ge=0)]], Field(min_length=1, max_length=100_000)]


class Swap(Body):
    kind: Literal["embedding"]
    side: str
    position: Index
    token: str | None = None
    id: Index | None = None


class Move(Body):
    kind: Literal["position"]
    side: str
    position: Index
    to: Index


class Hide(Body):
    kind: Literal["hide"]
    side: str
    patches: Annotated[
        list[Annotated[list[Index], Field(min_length=2, max_length=2)]], Field(max_length=10_000)
    ]
    """The row and column of each."""


Intervention = Annotated[Heads | Row | Swap | Move | Hide, Field(discriminator="kind")]


class Sampling(Body):
    temperature: FiniteFloat = 0.0
    top_k: int | None = None
    top_p: FiniteFloat = 1.0
    min_p: FiniteFloat = 0.0
    seed: int = 0


class TraceRequest(Sampling):
    model: str | None = None
    text: Text
    image: str | None = None
    """A sample of the model or an uploaded file, for models that read images."""
    to: str | None = None
    beam: Annotated[int, Field(ge=1, le=64)] | None = None
    prefix: Text = ""
    forced: Ids = []
    target: Text | None = None
    tokens: Annotated[int, Field(ge=0, le=100_000)] = 0
    interventions: Annotated[list[Intervention], Field(max_length=1000)] = []


class StepRequest(Sampling):
    model: str | None = None
    text: Text
    to: str | None = None
    generated: Ids = []
    top: int = 20


class ContextsRequest(Body):
    model: str | None = None
    word: Text
    texts: Annotated[list[Text], Field(min_length=1, max_length=8)]
    count: Annotated[int, Field(ge=1, le=100)] = 8


def error_line(problem: ErrorDetails) -> tuple[str, str | None]:
    """One line for a person, and the field it is about."""
    if problem["type"] == "json_invalid":
        reason = problem.get("ctx", {})["error"]
        return f"the request is not JSON ({reason}, character {problem['loc'][-1]})", None
    # After the index of an intervention pydantic puts its kind, which is not part of the path.
    parts = pairwise([None, *problem["loc"][1:]])
    path = [str(part) for before, part in parts if not isinstance(before, int)]
    if not path:
        return "the request is not a JSON object with content-type application/json; send one", None
    field = ".".join(path)
    hint = "; docs/trace.md lists the fields" if problem["type"] == "extra_forbidden" else ""
    return f"{field}: {describe(problem)}{hint}", field
