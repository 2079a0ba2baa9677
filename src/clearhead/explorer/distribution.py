"""The next token's probabilities: the full softmax, and what temperature, top-k and top-p leave of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from clearhead.decoding import check_sampling
from clearhead.decoding.sampling import keep_top_k, keep_top_p
from clearhead.errors import SettingsError

MAX_TOP = 200


@dataclass(frozen=True)
class SamplingFilter:
    """How many tokens to list, and which of them may be sampled; temperature 0 takes the most probable."""

    top: int = 20
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0

    def __post_init__(self) -> None:
        if not 1 <= self.top <= MAX_TOP:
            raise SettingsError(f"top: {self.top} should be from 1 to {MAX_TOP}")
        check_sampling(self.temperature or 1.0, self.top_k, self.top_p, 0.0)

    def apply(self, log_probs: Tensor) -> Tensor:
        """The probabilities to sample from; 0 for tokens that are filtered out."""
        rows = log_probs[None]
        if self.temperature == 0:
            rows = keep_top_k(rows, 1)
        if self.top_k is not None:
            rows = keep_top_k(rows, self.top_k)
        if self.top_p < 1:
            rows = keep_top_p(rows, self.top_p)
        return rows[0].softmax(-1)


def distribution(
    pieces: Callable[[Sequence[int]], Sequence[str]],
    logits: Tensor,
    chosen: SamplingFilter,
    following: int | None,
    suppressed_tokens: Sequence[int] = (),
) -> dict[str, Any]:
    """The logits of one position as JSON.

    `pieces` labels ids; `following` is the next token, if it is known. Suppressed tokens are listed, but
    never sampled.
    """
    logits = logits.float()
    log_probs = (logits / (chosen.temperature or 1.0)).log_softmax(-1)
    never = torch.tensor(suppressed_tokens, dtype=torch.long, device=log_probs.device)
    probabilities, kept = log_probs.exp(), chosen.apply(log_probs.index_fill(0, never, -torch.inf))
    best = probabilities.topk(min(chosen.top, len(logits))).indices.tolist()

    def token(number: int) -> dict[str, Any]:
        return {
            "id": number,
            "piece": pieces([number])[0],
            "logit": float(logits[number]),
            "probability": float(probabilities[number]),
        }

    rows = [
        {**token(one), "sampling_probability": float(kept[one]), "kept": bool(kept[one] > 0)} for one in best
    ]
    rank = None if following is None else int((logits > logits[following]).sum())
    return {
        "vocabulary": len(logits),
        "entropy": float(-torch.xlogy(probabilities, probabilities).sum() / torch.log(torch.tensor(2.0))),
        "temperature": chosen.temperature,
        "kept": int((kept > 0).sum()),
        "kept_mass": min(float(probabilities[kept > 0].sum()), 1.0),
        "top": rows,
        "next": None if following is None else {**token(following), "rank": rank},
    }
