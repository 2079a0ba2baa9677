"""The next token's probabilities: the full softmax, and what temperature and cuts leave of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from clearhead.decoding import check_sampling
from clearhead.decoding.sampling import keep_top_k, keep_top_p
from clearhead.errors import SettingsError
from clearhead.text.tokenizer import Tokenizer

MOST_SHOWN = 200


@dataclass(frozen=True)
class Cut:
    """How many tokens are shown, and which of all may be drawn; a temperature of 0 takes the best."""

    top: int = 20
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0

    def __post_init__(self) -> None:
        if not 1 <= self.top <= MOST_SHOWN:
            raise SettingsError(f"top: {self.top} should be from 1 to {MOST_SHOWN}")
        check_sampling(self.temperature or 1.0, self.top_k, self.top_p, 0.0)

    def left(self, scores: Tensor) -> Tensor:
        """What may be drawn, as probabilities; 0 for what is cut off."""
        scores = scores[None]
        if self.temperature == 0:
            scores = keep_top_k(scores, 1)
        if self.top_k is not None:
            scores = keep_top_k(scores, self.top_k)
        if self.top_p < 1:
            scores = keep_top_p(scores, self.top_p)
        return scores[0].softmax(-1)


def distribution(
    tokenizer: Tokenizer,
    logits: Tensor,
    cut: Cut,
    following: int | None,
    suppressed_tokens: Sequence[int] = (),
) -> dict[str, Any]:
    """What the page shows of the logits of one place, of which the token that follows may be known.

    Those that are `unsaid` are shown, but never drawn.
    """
    logits = logits.float()
    scores = (logits / (cut.temperature or 1.0)).log_softmax(-1)
    never = torch.tensor(suppressed_tokens, dtype=torch.long, device=scores.device)
    probabilities, left = scores.exp(), cut.left(scores.index_fill(0, never, -torch.inf))
    best = probabilities.topk(min(cut.top, len(logits))).indices.tolist()

    def shown(number: int) -> dict[str, Any]:
        return {
            "id": number,
            "piece": tokenizer.pieces([number])[0],
            "logit": float(logits[number]),
            "probability": float(probabilities[number]),
        }

    rows = [{**shown(one), "drawn": float(left[one]), "kept": bool(left[one] > 0)} for one in best]
    told = None
    if following is not None:
        told = {**shown(following), "rank": int((logits > logits[following]).sum())}
    return {
        "vocabulary": len(logits),
        "entropy": float(-torch.xlogy(probabilities, probabilities).sum() / torch.log(torch.tensor(2.0))),
        "temperature": cut.temperature,
        "kept": int((left > 0).sum()),
        "kept_mass": min(float(probabilities[left > 0].sum()), 1.0),
        "top": rows,
        "next": told,
    }
