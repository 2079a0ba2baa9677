"""The facts about a model that its lessons speak of."""

import math
from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F

from clearhead.explorer.architecture import architecture, position_rows
from clearhead.explorer.explorable import Explorable
from clearhead.explorer.lessons.examples import ENGLISH, EXAMPLES, PROMPT, Examples
from clearhead.text.languages import NAMES
from clearhead.text.tokenizer import Tokenizer

ADDED = ("sinusoidal", "learned", "order", "fraction")
"""Positions that are added to the embedding."""
WHOLE = ("character", "word", "whitespace")
"""Tokenizers that never split a word into several tokens longer than a character."""
POSITIONS = 64
"""How many positions are compared with each other."""


@dataclass(frozen=True)
class Facts:
    """What a model is: its map, its tokenizer and its languages."""

    about: dict[str, Any]
    tokenizer: Tokenizer | None
    nearby: bool
    """Whether nearby positions have more similar encodings than distant ones."""
    before: int
    """The positions before the text: 1 for the tag of a target language or a start token."""

    @property
    def kind(self) -> str:
        return self.about["kind"]

    @property
    def source(self) -> str | None:
        """The code of the language that is translated; None for a model that does not translate."""
        return next((one["source"] for one in self.about["languages"]), None)

    @property
    def source_name(self) -> str:
        return NAMES.get(self.source or "", "source")

    @property
    def target_name(self) -> str:
        """The language of the output, if there is only one."""
        targets = {one["target"] for one in self.about["languages"] if one["source"] == self.source}
        return NAMES.get(targets.pop(), "target") if len(targets) == 1 else "target"

    @property
    def examples(self) -> Examples:
        return EXAMPLES.get(self.source or "en", ENGLISH)

    @property
    def knows_language(self) -> bool:
        """Whether there are examples in the language that the model reads."""
        return self.source in EXAMPLES

    @property
    def first_text(self) -> str:
        """The text to start with."""
        return PROMPT if self.kind == "gpt" else self.examples.windows

    @property
    def position(self) -> str:
        """The kind of positions on the first side."""
        return next((one["position"] for one in self.about["stacks"]), self.about["position"] or "none")

    @property
    def adds_positions(self) -> bool:
        return self.position in ADDED

    @property
    def scale(self) -> float | None:
        """The factor of the dot products of the first attention; None if its score is no product."""
        return self.about["attentions"][0]["scale"]

    @property
    def head_size(self) -> int:
        return self.about["attentions"][0]["head_size"]

    @property
    def root(self) -> float | None:
        """√d, if scores are divided by it."""
        size = self.head_size
        scaled = self.scale is not None and math.isclose(self.scale, size**-0.5, rel_tol=1e-6)
        return size**0.5 if scaled and self.about["score"] == "scaled" else None

    @property
    def heads(self) -> int:
        return self.about["heads"]

    @property
    def splits_words(self) -> bool:
        return self.about["tokenizer"] not in WHOLE

    @property
    def unit(self) -> str:
        """A token, in plain words."""
        return {"character": "character", "word": "word", "whitespace": "word"}.get(
            self.about["tokenizer"] or "", "token"
        )

    def count(self, text: str) -> int:
        """The number of tokens of a text."""
        return len(self.tokenizer.encode(text)) if self.tokenizer else 0

    def position_of(self, text: str, word: str, occurrence: int = 0) -> int:
        """The position of a word's first token in a text; 0 if it is not there."""
        if self.tokenizer is None:
            return 0
        numbers, words = self.tokenizer.word_numbers(text), self.tokenizer.word_texts(text)
        found = [number for number, one in enumerate(words) if one.strip("▁ ").casefold() == word.casefold()]
        if len(found) <= occurrence:
            return 0
        return self.before + numbers.index(found[occurrence])


def facts_of(model: Explorable, name: str) -> Facts:
    """The facts about a model in use."""
    tokenizer, about = getattr(model, "tokenizer", None), architecture(model, name)
    tag: Any = getattr(model, "tag", None)
    start = getattr(getattr(model, "prompt_format", None), "start", ())
    targets = [one["target"] for one in about["languages"]]
    return Facts(
        about,
        tokenizer if isinstance(tokenizer, Tokenizer) else None,
        _nearby(model),
        len(tag(targets[0])) if tag and targets else len(start),
    )


def _nearby(model: Explorable) -> bool:
    kind, rows = position_rows(model.model, POSITIONS)
    if kind in ("none", "alibi") or len(rows) < POSITIONS:
        return False
    rows = F.normalize(rows.double(), dim=-1)
    cosines = rows @ rows.mT
    return bool(cosines.diagonal(1).min() > cosines.diagonal(POSITIONS // 2).max())
