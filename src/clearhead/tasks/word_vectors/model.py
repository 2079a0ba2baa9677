"""Trained word vectors in use: neighbours, analogies, similarity, and words in the context of a text."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from clearhead.checkpoint import Checkpoint
from clearhead.data.progress import ProgressCallback, ignore_progress
from clearhead.errors import SettingsError, TextError
from clearhead.inspection.vectors import Neighbour, WordInText, combined, nearest
from clearhead.layers.attention import Attention, AttentionConfig
from clearhead.layers.mask import Mask
from clearhead.layers.scores import Cosine
from clearhead.models.word_vectors import WordVectors
from clearhead.tasks.evaluation import Evaluation
from clearhead.tasks.model import TaskModel
from clearhead.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    from clearhead.inspection.pictures.picture import Picture

SCORES = ("scaled", "dot", "cosine")
"""Scores that need no training."""


@dataclass(frozen=True, eq=False)
class WordsInContext:
    """The words of a text after one step of attention over their static vectors."""

    words: tuple[str, ...]
    """Those that have vectors."""
    weights: Float[Tensor, "words words"]
    """How much each word attends to each."""
    vectors: Float[Tensor, "words width"]
    """The weighted sums."""

    def position(self, word: str) -> int:
        """The first position of a word."""
        if word not in self.words:
            raise TextError(
                f"{word}: not in the text, or without a vector; the text has {', '.join(self.words)}"
            )
        return self.words.index(word)


class WordVectorsModel(TaskModel):
    """Word vectors with their vocabulary."""

    task = "word_vectors"
    evaluate_unit = "question"

    def __init__(self, model: WordVectors, vocabulary: Vocabulary):
        self.model, self.vocabulary = model.eval(), vocabulary

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> "WordVectorsModel":
        assert isinstance(checkpoint.model, WordVectors)
        return cls(checkpoint.model, checkpoint.processor)

    def facts(self) -> list[str]:
        return [f"{self.vocabulary.size:,} words of width {self.model.config.width}"]

    @property
    def matrix(self) -> Float[Tensor, "words width"]:
        """The vectors of all words, the most frequent first."""
        return self.model.embedding.weight.detach()

    def vector(self, word: str) -> Float[Tensor, " width"]:
        return self.matrix[self.vocabulary.id(word)]

    def similarity(self, first: str, second: str) -> float:
        """The cosine of two words."""
        return float(F.cosine_similarity(self.vector(first), self.vector(second), dim=0))

    def neighbours(
        self, words: str | Sequence[str], minus: Sequence[str] = (), n: int = 10
    ) -> list[Neighbour]:
        """The nearest words to a word, or to the sum of words less others; these themselves are left out."""
        plus = [self.vocabulary.id(word) for word in ([words] if isinstance(words, str) else words)]
        less = [self.vocabulary.id(word) for word in minus]
        if not plus:
            raise SettingsError("words: name at least one")
        return self.nearest(combined(self.matrix[plus], self.matrix[less]), n, {*plus, *less})

    def analogy(self, first: str, second: str, third: str, n: int = 10) -> list[Neighbour]:
        """`first` is to `second` as `third` is to these words: man, king, woman gives queen."""
        return self.neighbours([second, third], [first], n)

    def nearest(self, vector: Float[Tensor, " width"], n: int, without: set[int]) -> list[Neighbour]:
        """The words with the highest cosine to a vector."""
        if n < 1:
            raise SettingsError(f"n: {n} is less than 1")
        found = nearest(self.matrix, vector, n, without)
        return [Neighbour(self.vocabulary.words[one], cosine, one) for one, cosine in found]

    @torch.no_grad()
    def in_context(self, text: str, score: str = "scaled") -> WordsInContext:
        """One step of attention over the static vectors of a text, with no weights of its own.

        Queries, keys and values are the vectors themselves.
        """
        if score not in SCORES:
            raise SettingsError(f"score: {score!r} is not one of {', '.join(SCORES)}")
        ids = self.vocabulary.encode(text)
        if not ids:
            raise TextError("text: none of its words has a vector; give another text")
        vectors, width = self.matrix[ids][None], self.model.config.width
        attention = _identity_attention(width, score).to(vectors)
        seen: dict[str, Tensor] = {}

        def tap(name: str, tensor: Tensor) -> Tensor:
            seen[name] = tensor
            return tensor

        attention.tap = tap
        mixed = attention(*attention.project_qkv(vectors), Mask())
        words = tuple(self.vocabulary.words[one] for one in ids)
        return WordsInContext(words, seen["weights"][0, 0], mixed[0])

    def in_text(self, word: str, text: str, n: int = 10, score: str = "scaled") -> WordInText:
        """A word in the context of a text, with the words nearest to it there."""
        context, one = self.in_context(text, score), self.vocabulary.id(word)
        position = context.position(self.vocabulary.words[one])
        weights = tuple(zip(context.words, context.weights[position].tolist(), strict=True))
        vector = context.vectors[position]
        return WordInText(text, vector, self.nearest(vector, n, {one}), weights)

    def picture(self, words: Sequence[str], n: int = 0) -> "Picture":
        """A map of words, each with its `n` nearest, along the two directions in which they vary most."""
        from clearhead.inspection.pictures.word_map import neighbour_map

        near = [one for word in words for one in (self.neighbours(word, n=n) if n else ())]
        return neighbour_map(self.name, self.matrix, [(word, self.vector(word)) for word in words], near)

    def evaluate(
        self,
        folder: Path | str | None = None,
        *,
        words: str | Sequence[str] = (),
        progress: ProgressCallback = ignore_progress,
        reading: ProgressCallback = ignore_progress,
    ) -> Evaluation:
        """Rank correlation with similarity ratings, and accuracy on analogies, of test files."""
        from clearhead.tasks.word_vectors.evaluate import evaluate

        files = [words] if isinstance(words, str) else words
        return evaluate(self, self._held_out(folder), words=files, progress=progress, reading=reading)


def _identity_attention(width: int, score: str) -> Attention:
    """Attention whose projections change nothing."""
    attention = Attention(width, AttentionConfig(heads=1, score=score), max_positions=1, bias=False)
    for matrix in (*attention.project.weight.split(attention.project.sizes), attention.output.weight):
        matrix.copy_(torch.eye(width))
    if isinstance(attention.score, Cosine):
        # Nothing has trained it: the plain cosine.
        attention.score.sharpness.fill_(1.0)
    return attention
