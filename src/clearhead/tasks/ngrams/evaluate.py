"""Perplexity of an n-gram model on a text, and the tuning of its cache."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, inf, log
from pathlib import Path

import torch
from torch import Tensor

from clearhead.data.progress import ProgressCallback, ignore_progress, track_progress
from clearhead.data.sources.documents import files, read_documents
from clearhead.errors import DataError
from clearhead.models import Ngram
from clearhead.models.word_cache import WordCache
from clearhead.tasks.evaluation import Evaluation
from clearhead.tasks.language.evaluate import held_out_text
from clearhead.tasks.ngrams.data import SentenceText
from clearhead.tasks.ngrams.model import NgramModel
from clearhead.text.tokenizer import BOS
from clearhead.wording import counted

HALF_LIVES = (25.0, 50.0, 75.0, 100.0, 150.0, 200.0, 400.0, 800.0)
ITERATIONS = 50


@dataclass(frozen=True)
class TextScore:
    """The likelihood of a text: every token counts, </s> included, <s> not."""

    text: SentenceText
    nats: float
    matched: tuple[float, ...]
    """The share of the tokens whose longest known n-gram has 0, 1, 2, … words."""
    impossible: int
    """The tokens of probability 0, which only a model without smoothing has."""

    @property
    def tokens(self) -> int:
        return self.text.words + self.text.sentences

    @property
    def loss(self) -> float:
        """Nats per token."""
        return self.nats / self.tokens

    @property
    def perplexity(self) -> float:
        return exp(self.loss) if self.loss < 700 else inf

    @property
    def bits_per_byte(self) -> float:
        return self.nats / log(2) / self.text.bytes

    def record(self) -> dict[str, float]:
        """The metrics by name; empty where they are infinite."""
        if self.impossible:
            return {}
        return {name: getattr(self, name) for name in ("loss", "bits_per_byte", "perplexity")}


@torch.no_grad()
def score(model: Ngram, text: SentenceText) -> TextScore:
    """The score of a text."""
    tokens = text.to(model.device)
    predicted = tokens != BOS
    found, matched = model.probabilities(tokens)[predicted], model.chain(tokens).matched[predicted]
    shares = torch.bincount(matched, minlength=model.config.order + 1) / len(matched)
    return TextScore(text, float(-found.log().sum()), (*shares.tolist(),), int((found == 0).sum()))


def evaluate(
    model: NgramModel,
    folder: Path,
    *,
    text: Sequence[str] = (),
    field: str | None = None,
    progress: ProgressCallback = ignore_progress,
    reading: ProgressCallback = ignore_progress,
) -> Evaluation:
    """Perplexity on text, on the test text of the recipe, or on that held out in the model's folder."""
    named = [*text] or [*model.test]
    if not text and model.test:
        missing = [file for file in model.test if not Path(file).exists()]
        if missing:
            raise DataError(f"{missing[0]}: the test text of {folder} is gone; name a file with --text")
    names = held_out_text(named, folder)
    with track_progress((path for file in names for path in files(file)), reading):
        read = SentenceText.read(read_documents(names, field), model.sentences, model.tokenizer)
    where = " and ".join(map(str, names))
    if not read.words:
        raise DataError(f"{where}: contains no text; name another file")
    if read.unknown == read.words:
        raise DataError(f"{where}: no word of it is in the model's vocabulary; give text in its language")
    found = score(model.model, read)
    thing = "sentence" if model.sentences == "lines" else "document"
    lines = [
        f"{model.name} on {found.tokens:,} tokens in {counted(read.sentences, thing)}: {read.words:,} of "
        f"text, and {read.sentences:,} </s>",
        f"  loss per token  {found.loss:.4f}",
        f"  perplexity      {found.perplexity:.3f}",
        f"  bits per byte   {found.bits_per_byte:.4f}",
        "  longest n-gram  "
        + ", ".join(f"{n}: {share:.1%}" for n, share in enumerate(found.matched) if share),
    ]
    notes = []
    if read.unknown:
        notes.append(
            f"{read.unknown:,} of {read.words:,} tokens are not in the model's vocabulary; it reads <unk> "
            "and backs off to what it has seen"
        )
    if found.impossible:
        notes.append(
            f"{found.impossible:,} tokens are impossible without smoothing, so perplexity is infinite"
        )
    record = {
        **dict.fromkeys(("loss", "bits_per_byte", "perplexity")),
        **found.record(),
        "tokens": found.tokens,
        "sentences": read.sentences,
        "bytes": read.bytes,
        "unknown": read.unknown,
        "impossible": found.impossible,
        "matched_orders": found.matched,
    }
    return Evaluation(tuple(lines), record, tuple(notes))


@torch.no_grad()
def tune_cache(model: Ngram, text: SentenceText) -> None:
    """Sets half-life and weights of the cache to those under which a text is most likely.

    The weights are those of a mixture, found by expectation maximisation.
    """
    cache = model.cache
    assert isinstance(cache, WordCache)
    tokens = text.to(model.device)
    base, predicted = model.without_cache(tokens), tokens != BOS
    half_life, given = cache.config.half_life, cache.config.weights
    best = (-inf, cache.settings)
    for candidate in [half_life] if half_life else HALF_LIVES:
        parts = cache.parts(base, tokens, candidate)[predicted]
        weights = parts.new_tensor([1 - sum(given), *given]) if given else _mixture(parts)
        likelihood = float((parts @ weights).log().sum())
        settings = torch.cat([weights.new_tensor([candidate]), weights[1:]])
        best = max(best, (likelihood, settings), key=lambda one: one[0])
    cache.settings = best[1]


def _mixture(parts: Tensor) -> Tensor:
    """The weights of a mixture of distributions that make what they predicted most likely."""
    weights = parts.new_full((parts.shape[1],), 1 / parts.shape[1])
    for _ in range(ITERATIONS):
        shares = parts * weights
        weights = (shares / shares.sum(1, keepdim=True).clamp(min=1e-300)).mean(0)
    return weights / weights.sum()
