"""The interface between the explorer and a model in use; any family that implements it opens in the page."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from clearhead.errors import SettingsError
from clearhead.inspection.explanation import Explanation, text_tokens
from clearhead.text.tokenizer import Tokenizer

SEARCH = {"beam": None, "length_penalty": None}
DEFAULT_ABOUT = {"languages": [], "max_tokens": None, **SEARCH, "generates": False}


class Explorable(Protocol):
    """A model in use that can explain one input. These members are optional:

    - `tokenizer`: without one, the page cannot tokenize text, swap tokens or compare words
    - `about() -> dict`: `languages`, `max_tokens`, `beam` and `length_penalty`
    - `explain_options(request) -> dict`: the arguments of `explain` among the fields of a request
    - `next_logits(text, generated, to) -> (logits, positions)`: enables generation one token at a time
    - `suppressed_tokens`: ids that generation never picks
    - `samples`: images by name, for a model that reads images
    """

    name: str
    model: Any
    """A torch module with `config` and `anatomy()` (models/model.py).

    One that predicts tokens has a `readout_weight`, or else says in `vocabulary` how many there are. Tensors
    that its own tap sees beside the logits are named in `tapped`, with their numbers per position.
    """

    explain: Callable[..., Explanation]
    """`explain(text, *, names, …)`; the other arguments are those of `explain_options`."""


def about(model: Explorable) -> dict[str, Any]:
    """The part of the map that depends on how a model is used."""
    given = model.about() if hasattr(model, "about") else {}  # pyright: ignore[reportAttributeAccessIssue]
    return {**DEFAULT_ABOUT, **given, "generates": hasattr(model, "next_logits")}


def input_of(family: Any) -> str:
    """What a model family reads: "text", or "image" if its processor says so."""
    return getattr(getattr(family, "Processor", None), "reads", "text")


def explain_options(model: Explorable, request: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `explain` for a request."""
    options = getattr(model, "explain_options", None)
    return options(request) if options else {}


def tokenizer_of(model: Explorable) -> Tokenizer:
    """The model's tokenizer; an error if it has none."""
    tokenizer = getattr(model, "tokenizer", None)
    if not isinstance(tokenizer, Tokenizer):
        raise SettingsError(f"model: {model.name!r} has no tokenizer, so it cannot do this")
    return tokenizer


def text_ids(model: Explorable, text: str) -> list[int]:
    """The ids of a text as the model reads it: a translator without white space at its ends."""
    own = getattr(model, "text_ids", None)
    return own(text) if own else tokenizer_of(model).encode(text)


def tokenize(model: Explorable, text: str) -> dict[str, Any]:
    """The tokens of a text, whether it fits the model or not."""
    tokenizer, ids = tokenizer_of(model), text_ids(model, text)
    return {
        "text": text,
        "normalized": tokenizer.normalized(text),
        "tokens": [
            {
                "id": one.id,
                "piece": one.piece,
                "word": one.word,
                "special": one.special,
                "unknown": one.unknown,
            }
            for one in text_tokens(tokenizer, ids)
        ],
        "count": len(ids),
        "max_tokens": about(model)["max_tokens"],
    }
