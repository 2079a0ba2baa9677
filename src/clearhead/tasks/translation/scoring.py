"""The log-probability of given translations, by teacher-forced passes."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from clearhead.data.batch import PairBatch
from clearhead.errors import TextError
from clearhead.layers.layout import Padded
from clearhead.models import EncoderDecoder
from clearhead.options import as_texts, check_text
from clearhead.tasks.scoring import TextScore, by_length
from clearhead.tasks.translation.model import TranslationModel
from clearhead.tasks.translation.search import Translation
from clearhead.text.tokenizer import EOS

Target = str | Translation
# Maximum of rows times length in a batch whose logits are in memory.
BATCH_TOKENS = 1024


def as_pairs(source: str | list[str], target: Target | Sequence[Target]) -> list[tuple[str, Target]]:
    """Sources with their targets; raises TextError, by number, for what is no text or is missing."""
    sources = as_texts(source, "source")
    given: Any = target
    single = isinstance(given, str) or not isinstance(given, Iterable)
    targets: list[Any] = [given] if single else list(given)
    for number, one in enumerate(targets, start=1):
        if not isinstance(one, Translation):
            check_text(one, f"target {number}")
    if len(sources) != len(targets):
        raise TextError(f"target: {len(targets)} texts for {len(sources)} sources; pass one for each")
    for number, text in enumerate(sources, start=1):
        if not text.strip():
            raise TextError(f"source {number}: is blank; give a text")
    return list(zip(sources, targets, strict=True))


def score_pairs(
    model: TranslationModel, pairs: Sequence[tuple[str, Target]], to: str | None = None
) -> list[TextScore]:
    """The score of each target, given its source; a Translation is scored by the tokens it consists of."""
    tag, penalty = model.tag(to), model.search.length_penalty
    sources, targets = [], []
    for number, (source, target) in enumerate(pairs, start=1):
        sources.append([*tag, *model.encode_one(source, f"source {number}")])
        known = list(target.ids) if isinstance(target, Translation) else []
        targets.append(
            known or model.encode_one(str(target), f"target {number}", model.tokenizer.for_targets)
        )
    found = []
    for (_, target), ids, log_probs in zip(
        pairs, targets, target_log_probs(model.model, sources, targets), strict=True
    ):
        complete = not isinstance(target, Translation) or target.complete
        pieces = model.tokenizer.pieces([*ids, EOS] if complete else ids)
        found.append(TextScore(str(target), tuple(pieces), tuple(log_probs[: len(pieces)]), penalty))
    return found


@torch.inference_mode()
def target_log_probs(
    model: EncoderDecoder, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
) -> list[list[float]]:
    """The log-probability of each token of each target, and of its </s>, given its source."""
    found: list[list[float]] = [[] for _ in targets]
    lengths = [max(len(source), len(target)) + 1 for source, target in zip(sources, targets, strict=True)]
    for rows in by_length(lengths, BATCH_TOKENS):
        batch = PairBatch.of([sources[row] for row in rows], [targets[row] for row in rows])
        batch = batch.to(model.readout_weight.device)
        logits = model(batch.source, Padded(batch.source_lengths), batch.inputs).float()
        log_probs = logits.log_softmax(-1).gather(-1, batch.labels[..., None].long())[..., 0]
        for row, one in zip(rows, log_probs.tolist(), strict=True):
            found[row] = one[: len(targets[row]) + 1]
    return found
