"""Tokenized text, without running a model."""

from typing import Any

from clearhead.explorer.explorable import Explorable, about, tokenizer_of
from clearhead.inspection.explanation import text_tokens


def tokenize(model: Explorable, text: str) -> dict[str, Any]:
    """The tokens of a text, whether it fits the model or not."""
    tokenizer = tokenizer_of(model)
    ids = tokenizer.encode(text)
    return {
        "text": text,
        "normalized": tokenizer.normalized(text),
        "tokens": [
            {"id": one.id, "piece": one.piece, "word": one.word, "special": one.special}
            for one in text_tokens(tokenizer, ids)
        ],
        "count": len(ids),
        "max_tokens": about(model)["max_tokens"],
    }
