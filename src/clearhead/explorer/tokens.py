"""How a text is cut into tokens, without running a model."""

from typing import Any

from clearhead.explorer.architecture import Model, most_tokens
from clearhead.inspection.explanation import text_tokens


def cut_text(model: Model, text: str) -> dict[str, Any]:
    """How a text is cut, whether it fits or not."""
    tokenizer = model.tokenizer
    ids = tokenizer.encode(text)
    return {
        "text": text,
        "normalised": tokenizer.normalized(text),
        "tokens": [
            {"id": one.id, "piece": one.piece, "word": one.word, "special": one.special}
            for one in text_tokens(tokenizer, ids)
        ],
        "count": len(ids),
        "most": most_tokens(model),
    }
