"""Evaluation of a masked language model: hidden tokens of a text, always the same ones."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.config import parse_settings
from clearhead.data.batch import IGNORE_INDEX
from clearhead.data.batching.crops import TextBatchingConfig
from clearhead.data.batching.masking import MaskedBatch, Masking, MaskingConfig
from clearhead.data.progress import ProgressCallback, ignore_progress, track_progress
from clearhead.data.sources.documents import files
from clearhead.errors import DataError
from clearhead.tasks.evaluation import Evaluation
from clearhead.tasks.language.evaluate import held_out_text
from clearhead.tasks.masked.data import MaskedCorpus, check_masked_texts, masked_texts
from clearhead.tasks.masked.loss import masked_score
from clearhead.tasks.masked.recipe import MaskedTextConfig
from clearhead.wording import counted

if TYPE_CHECKING:
    from clearhead.tasks.masked.model import MaskedModel

# Positions of a batch, rows times length.
BATCH_TOKENS = 16384


def evaluate(
    masked: "MaskedModel",
    folder: Path,
    *,
    text: Sequence[str] = (),
    field: str | None = None,
    progress: ProgressCallback = ignore_progress,
    reading: ProgressCallback = ignore_progress,
) -> Evaluation:
    """Accuracy and loss of hidden tokens in text, or in that held out in the model's folder.

    Which tokens are hidden depends on the text alone.
    """
    names = held_out_text(text, folder)
    corpus = _corpus(masked.settings, names, field)
    corpus.example()
    with track_progress((path for name in names for path in files(name)), reading):
        store = corpus.store("validation", masked.tokenizer, masked.max_length)
    masking = Masking.of(_masking(masked.settings), masked.tokenizer)
    config = TextBatchingConfig(tokens=BATCH_TOKENS, kind="packed", row_length=masked.max_length)
    batches = list(masked_texts(store, masked.tokenizer, config, masking).sequential())
    hidden = Counter(int(one) for batch in batches for one in batch.labels[batch.labels != IGNORE_INDEX])
    if not hidden:
        raise DataError(f"{' and '.join(names)}: too short to hide anything; give more text")
    score = masked_score(masked.model, _followed(batches, progress))
    [(frequent, count)] = hidden.most_common(1)
    [piece] = masked.tokenizer.pieces([frequent])
    lines = (
        f"{masked.name} on {score.tokens:,} masked tokens, {masking.config.share:.0%} of "
        f"{counted(len(store), 'document')}",
        f"  accuracy            {score.accuracy:.2%} ({count / score.tokens:.2%} for {piece}, always)",
        f"  loss per token      {score.loss:.4f}",
        f"  perplexity          {score.perplexity:.3f}",
    )
    record = {
        "accuracy": score.accuracy,
        "most_frequent": count / score.tokens,
        "loss": score.loss,
        "perplexity": score.perplexity,
        "tokens": score.tokens,
        "documents": len(store),
    }
    return Evaluation(lines, record)


def _corpus(settings: Mapping[str, Any], names: list[str], field: str | None) -> MaskedCorpus:
    """The text of files; documents and the column of tables are those of training."""
    data = settings.get("data")
    data = data if isinstance(data, Mapping) else {}
    number = int(field) if field and field.isdigit() else field
    tables = [name for name in names if name.endswith((".tsv", ".csv"))]
    values = {"train": names, "validation": names, "documents": data.get("documents", "file")}
    column = number if number is not None or not tables else data.get("field")
    config = parse_settings(MaskedTextConfig, values | ({} if column is None else {"field": column}))
    check_masked_texts(config, "--field NUMBER")
    return MaskedCorpus(config, seed=0)


def _masking(settings: Mapping[str, Any]) -> MaskingConfig:
    values = settings.get("masking")
    return parse_settings(MaskingConfig, values if isinstance(values, Mapping) else {}, group="masking")


def _followed(batches: Sequence[MaskedBatch], progress: ProgressCallback) -> Iterator[MaskedBatch]:
    """The batches; `progress` counts them."""
    progress(0, len(batches))
    for number, batch in enumerate(batches, start=1):
        yield batch
        progress(number, len(batches))
