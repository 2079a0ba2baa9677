"""The next token: its full softmax, what the temperature and the filters leave of it, and the choice."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from clearhead.decoding import MAX_SEED, Constraints, check_sampling, most_probable, sampler
from clearhead.decoding.sampling import keep_min_p, keep_top_k, keep_top_p, uniforms
from clearhead.errors import SettingsError
from clearhead.explorer.explorable import Explorable, tokenizer_of
from clearhead.inspection.explanation import finite
from clearhead.inspection.summaries import entropy
from clearhead.text.detokenizer import StreamDetokenizer
from clearhead.text.tokenizer import BOS, EOS, Tokenizer

MAX_TOP = 200


@dataclass(frozen=True)
class SamplingFilter:
    """How many tokens to list, and which of them may be sampled; temperature 0 takes the most probable."""

    top: int = 20
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    min_p: float = 0.0

    def __post_init__(self) -> None:
        if not 1 <= self.top <= MAX_TOP:
            raise SettingsError(f"top: {self.top} should be from 1 to {MAX_TOP}")
        check_sampling(self.temperature or 1.0, self.top_k, self.top_p, self.min_p)

    @property
    def cuts(self) -> bool:
        """Whether it filters out tokens."""
        return bool(list(self.filters()))

    def filters(self) -> Iterator[tuple[str, Callable[[Tensor], Tensor]]]:
        """The filters by name, in the order of `sampler`."""
        if self.temperature == 0:
            yield "greedy", lambda rows: keep_top_k(rows, 1)
        if self.top_k is not None:
            yield "top-k", lambda rows: keep_top_k(rows, self.top_k or 1)
        if self.top_p < 1:
            yield "top-p", lambda rows: keep_top_p(rows, self.top_p)
        if self.min_p > 0:
            yield "min-p", lambda rows: keep_min_p(rows, self.min_p)

    def apply(self, log_probs: Tensor) -> tuple[Tensor, dict[int, str]]:
        """The log-probabilities to sample from, not normalized, and the filter that cut each other token.

        They are -∞ for tokens that are cut.
        """
        cut_by: dict[int, str] = {}
        for name, keep in self.filters():
            left = keep(log_probs[None])[0]
            for one in ((log_probs > -torch.inf) & (left == -torch.inf)).nonzero().flatten().tolist():
                cut_by[one] = name
            log_probs = left
        return log_probs, cut_by


def distribution(
    pieces: Callable[[Sequence[int]], Sequence[str]],
    logits: Tensor,
    chosen: SamplingFilter,
    following: int | None,
    suppressed_tokens: Sequence[int] = (),
) -> dict[str, Any]:
    """One position's logits as JSON; `following` is the next token. Suppressed tokens are never sampled.

    `probability` is at the temperature; `own_probability` and the log-probability are the model's own.
    """
    logits = logits.float()
    own = logits.log_softmax(-1)
    log_probs = (logits / (chosen.temperature or 1.0)).log_softmax(-1)
    never = torch.tensor(suppressed_tokens, dtype=torch.long, device=log_probs.device)
    left, cut_by = chosen.apply(log_probs.index_fill(0, never, -torch.inf))
    # Not by probability: at a low temperature, that of a token which no filter cuts may round to 0.
    probabilities, kept, sampling = log_probs.exp(), left > -torch.inf, left.softmax(-1)
    best = probabilities.topk(min(chosen.top, len(logits))).indices.tolist()

    def token(number: int) -> dict[str, Any]:
        return {
            "id": number,
            "piece": pieces([number])[0],
            "logit": finite(float(logits[number])),
            "own_probability": float(own[number].exp()),
            "probability": float(probabilities[number]),
            "sampling_probability": float(sampling[number]),
            "kept": bool(kept[number]),
            "cut_by": cut_by.get(number),
        }

    following_token = None
    if following is not None:
        rank = int((logits > logits[following]).sum())
        following_token = {**token(following), "rank": rank, "log_prob": finite(float(own[following]))}
    return {
        "vocabulary": len(logits),
        "entropy": float(entropy(probabilities)),
        "temperature": chosen.temperature,
        "cuts": chosen.cuts,
        "kept": int(kept.sum()),
        "kept_mass": min(float(probabilities[kept].sum()), 1.0),
        "top": [token(one) for one in best],
        "next": following_token,
    }


def next_token(
    model: Any, text: str, generated: Sequence[int], to: str | None, chosen: SamplingFilter, seed: int
) -> dict[str, Any]:
    """The token after a text and what was generated since, its alternatives, and the size of the cache."""
    tokenizer = _check(model, generated, seed)
    logits, positions = model.next_logits(text, generated, to)
    suppressed = getattr(model, "suppressed_tokens", ())
    token = _choose(logits, len(generated), chosen, seed, suppressed)
    shown = distribution(tokenizer.pieces, logits, chosen, token, suppressed)
    ends, anatomy = tokenizer.eos_ids, model.model.anatomy()
    one_side = len(anatomy.embeddings) <= 1

    def written(ids: Sequence[int]) -> str:
        output = [one for one in ids if one not in ends]
        return continued(tokenizer, text, output) if one_side else tokenizer.decode(output)

    listed = [token, *(one["id"] for one in shown["top"])]
    return {
        "next": shown["next"],
        "top": shown["top"],
        "kept": shown["kept"],
        "draw": _draw(logits, len(generated), chosen, seed, suppressed, listed)
        if chosen.temperature
        else None,
        "read": written(generated),
        "text": written([*generated, token]),
        "ended": token in ends,
        "positions": positions,
        "cache": _cache(model.model, positions, logits.element_size()) if anatomy.stacks else None,
    }


def _cache(model: Any, positions: int, number_bytes: int) -> dict[str, int]:
    """The size of the keys and values that the last stack keeps."""
    stack = model.anatomy().stacks[-1]
    attention = model.get_submodule(f"{stack.path}.blocks.0.{stack.sublayers[0]}")
    return {
        "layers": stack.layers,
        "heads": attention.project.sizes[1] // attention.head_size,
        "head_size": attention.head_size,
        "positions": positions,
        "bytes": 2 * stack.layers * attention.project.sizes[1] * positions * number_bytes,
    }


def continued(tokenizer: Tokenizer, text: str, ids: Sequence[int]) -> str:
    """A text and the ids that follow it."""
    stream = StreamDetokenizer(tokenizer, tokenizer.encode(text))
    for one in ids:
        stream.add(one)
    stream.rest()
    return text + stream.text


def _check(model: Explorable, generated: Sequence[int], seed: int) -> Any:
    tokenizer = tokenizer_of(model)
    if not hasattr(model, "next_logits"):
        raise SettingsError("model: this model does not generate")
    for number in generated:
        if not 0 <= number < tokenizer.size:
            raise SettingsError(f"generated: {number} is not an id from 0 to {tokenizer.size - 1}")
    if not 0 <= seed <= MAX_SEED:
        raise SettingsError(f"seed: {seed} should be from 0 to {MAX_SEED}")
    return tokenizer


def _draw(
    logits: Tensor,
    position: int,
    chosen: SamplingFilter,
    seed: int,
    suppressed: Sequence[int],
    listed: Sequence[int],
) -> dict[str, Any]:
    """The random number of a position, and the part of [0, 1) in which it picks each of these tokens.

    The parts follow each other in the order of the ids.
    """
    never = torch.tensor(suppressed, dtype=torch.long, device=logits.device)
    scores = (logits.float() / chosen.temperature).log_softmax(-1).index_fill(0, never, -torch.inf)
    ends = chosen.apply(scores)[0].softmax(-1).double().cumsum(-1)
    ends = [0.0, *(ends / ends[-1]).tolist()]
    return {
        "number": float(uniforms([seed], position + 1)[0, position]),
        "parts": {str(one): [ends[one], ends[one + 1]] for one in listed},
    }


def _choose(
    logits: Tensor, position: int, chosen: SamplingFilter, seed: int, suppressed: Sequence[int]
) -> int:
    """The token that a continuation of the text would have at this position."""
    start = torch.tensor([BOS], device=logits.device)
    constraints = Constraints(start, EOS, position + 1, suppressed_tokens=suppressed)
    sampling = (chosen.temperature, chosen.top_k, chosen.top_p, chosen.min_p)
    choose = sampler(constraints, [seed], *sampling) if chosen.temperature else most_probable
    rows = torch.zeros(1, dtype=torch.long, device=logits.device)
    log_probs = constraints.log_probs(logits[None], rows[None, :0], rows)
    return int(choose(log_probs, rows, position)[0])
