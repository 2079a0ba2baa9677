"""Which tokens of texts decide their labels, and a test of the methods that say so."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from clearhead.data.store import TokenSequences
from clearhead.inspection.relevance import (
    ROLLOUT,
    DeletionTest,
    Removal,
    Values,
    attention_rollout,
    deletion_test,
    gradient_relevance,
)
from clearhead.models.anatomy import anatomy_of
from clearhead.tasks.classification.data import LabelledBatch

if TYPE_CHECKING:
    from clearhead.tasks.classification.model import SequenceModel


def relevance_of(
    classifier: "SequenceModel", texts: TokenSequences, classes: Int[Tensor, " texts"]
) -> dict[str, list[Values]]:
    """How much each token of texts supports a class, by every method that the model allows."""
    model, anatomy = classifier.model, anatomy_of(classifier.model)
    found: dict[str, list[Values]] = {}
    for number in range(len(texts)):
        one = texts.gather(np.array([number]))
        batch = LabelledBatch.of(one, np.zeros(1, dtype=np.int64)).to(classifier.device)

        def evidence(batch: LabelledBatch = batch, number: int = number) -> Float[Tensor, " batch"]:
            logits = model(batch.ids, batch.lengths).float()
            # Only the differences between the logits of exclusive classes count.
            others = 0.0 if classifier.multi_label else logits.mean(-1)
            return logits[:, classes[number]] - others

        embedding = f"{anatomy.embeddings['text']}.token_embeddings"
        by_method = gradient_relevance(model, evidence, embedding)
        for attention in anatomy.attentions:
            read = _read_from(classifier, batch)
            by_method[ROLLOUT] = attention_rollout(model, evidence, anatomy, attention, read)
        for method, values in by_method.items():
            found.setdefault(method, []).append(values[0].cpu())
    return found


def tested(
    classifier: "SequenceModel",
    texts: TokenSequences,
    classes: Int[Tensor, " texts"],
    relevance: dict[str, list[Values]],
) -> DeletionTest:
    """Removes the most relevant tokens of texts first, and measures the probability of their classes."""
    ids = [torch.from_numpy(texts.gather(np.array([one])).ids.astype(np.int64)) for one in range(len(texts))]

    def probability(removals: Sequence[Removal]) -> list[float]:
        kept = [_without(ids[removal.example], removal.positions).tolist() for removal in removals]
        logs = classifier.log_probabilities(classifier.logits_of(TokenSequences.of(kept)))
        chosen = classes[[removal.example for removal in removals]].to(logs.device)
        return logs.gather(1, chosen[:, None])[:, 0].exp().tolist()

    return deletion_test(relevance, [_removable(classifier, one) for one in ids], probability)


def _without(ids: Int[Tensor, " tokens"], removed: Int[Tensor, " removed"]) -> Int[Tensor, " kept"]:
    keep = torch.ones(len(ids), dtype=torch.bool)
    keep[removed] = False
    return ids[keep]


def _removable(classifier: "SequenceModel", ids: Int[Tensor, " tokens"]) -> Bool[Tensor, " tokens"]:
    """All but the tokens that begin and end a text."""
    tokenizer = classifier.tokenizer
    framing = torch.tensor([one for one in (tokenizer.bos_id, *tokenizer.eos_ids) if one is not None])
    return ~torch.isin(ids, framing)


def _read_from(classifier: "SequenceModel", batch: LabelledBatch) -> Float[Tensor, "batch positions"]:
    """The share of each position in what the head reads; for the maximum of all, an even one."""
    if getattr(classifier.model.config.head, "pooling", "") == "first":
        return F.one_hot(torch.zeros_like(batch.lengths), batch.ids.shape[1]).float()
    inside = torch.arange(batch.ids.shape[1], device=batch.ids.device) < batch.lengths[:, None]
    return inside / batch.lengths[:, None]
