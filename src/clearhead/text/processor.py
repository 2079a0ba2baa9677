"""The processor of text models with labels: a tokenizer, and the labels that a text may have."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from clearhead.errors import ModelError
from clearhead.files import write_text
from clearhead.text.tokenizer import Tokenizer


class TextProcessor:
    """Text to ids, and labels to class numbers; a model that predicts tokens has no labels.

    With `multi_label`, a text has any number of labels, else exactly one.
    """

    FILE = "processor.json"

    def __init__(self, tokenizer: Tokenizer, labels: tuple[str, ...] = (), multi_label: bool = False):
        self.tokenizer, self.labels, self.multi_label = tokenizer, labels, multi_label

    @property
    def size(self) -> int:
        """The number of embeddings that a model needs."""
        return self.tokenizer.size

    @property
    def fingerprint(self) -> str:
        content = f"{self.tokenizer.fingerprint} {list(self.labels)}{' multi' if self.multi_label else ''}"
        return hashlib.sha256(content.encode()).hexdigest()

    def save(self, path: Path) -> None:
        content: dict[str, Any] = {"labels": list(self.labels)}
        content |= {"multi_label": True} if self.multi_label else {}
        content["tokenizer"] = json.loads(self.tokenizer.to_json())
        write_text(path, json.dumps(content, ensure_ascii=False))

    @classmethod
    def load(cls, path: Path) -> Self:
        content = read_json(path, {"labels": list, "tokenizer": dict})
        labels = distinct_texts(content, "labels", path)
        tokenizer = Tokenizer.from_json(json.dumps(content["tokenizer"]), str(path))
        return cls(tokenizer, labels, content.get("multi_label") is True)


def read_json(path: Path, expected: Mapping[str, type]) -> dict[str, Any]:
    """The JSON object in a processor's file, which must have these members."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        raise ModelError(f"{path}: cannot be read ({reason}); copy the file again") from None
    return check_members(content, expected, path)


def check_members(content: Any, expected: Mapping[str, type], path: Path) -> dict[str, Any]:
    """The content, which must be an object that has these members; `path` is the file that it is from."""
    for name, kind in expected.items():
        if not isinstance(content, dict) or not isinstance(content.get(name), kind):
            raise ModelError(f"{path}: has no valid '{name}'; copy the file again")
    return content


def distinct_texts(content: Mapping[str, list[Any]], name: str, path: Path) -> tuple[str, ...]:
    """A member of a processor's file, which must be a list of distinct texts."""
    texts = content[name]
    if not all(isinstance(text, str) for text in texts) or len({*texts}) < len(texts):
        raise ModelError(f"{path}: '{name}' are not distinct texts; copy the file again")
    return tuple(texts)
