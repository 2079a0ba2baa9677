"""One token at a time: the next token after a text, by greedy search or sampling."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from clearhead.decoding import MAX_SEED, Constraints, most_probable, sampler
from clearhead.errors import SettingsError
from clearhead.explorer.distribution import SamplingFilter, distribution
from clearhead.explorer.explorable import Explorable, tokenizer_of
from clearhead.text.tokenizer import BOS, EOS


def next_token(
    model: Any, text: str, generated: Sequence[int], to: str | None, chosen: SamplingFilter, seed: int
) -> dict[str, Any]:
    """The token after a text and what was generated since, its alternatives, and the size of the cache."""
    tokenizer = _check(model, generated, seed)
    logits, positions = model.next_logits(text, generated, to)
    suppressed = getattr(model, "suppressed_tokens", ())
    shown = distribution(tokenizer.pieces, logits, chosen, None, suppressed)
    probabilities = (logits.float() / (chosen.temperature or 1.0)).log_softmax(-1).exp()
    token = _choose(logits, len(generated), chosen, seed, suppressed)
    ends, anatomy = tokenizer.eos_ids, model.model.anatomy()
    output = tokenizer.decode([one for one in (*generated, token) if one not in ends])
    stack = anatomy.stacks[-1]
    attention = model.model.get_submodule(f"{stack.path}.blocks.0.{stack.sublayers[0]}")
    numbers = stack.layers * attention.project.sizes[1] * positions
    return {
        "next": {
            "id": token,
            "piece": tokenizer.pieces([token])[0],
            "probability": float(probabilities[token]),
        },
        "top": shown["top"],
        "kept": shown["kept"],
        # With one side, the output continues the text.
        "text": text + output if len(anatomy.embeddings) == 1 else output,
        "ended": token in ends,
        "positions": positions,
        "cache": {
            "layers": stack.layers,
            "heads": attention.project.sizes[1] // attention.head_size,
            "head_size": attention.head_size,
            "positions": positions,
            "bytes": 2 * numbers * logits.element_size(),
        },
    }


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


def _choose(
    logits: Tensor, position: int, chosen: SamplingFilter, seed: int, suppressed_tokens: Sequence[int]
) -> int:
    """The token that a continuation of the text would have at this position."""
    start = torch.tensor([BOS], device=logits.device)
    constraints = Constraints(start, EOS, position + 1, suppressed_tokens=suppressed_tokens)
    sampling = (chosen.temperature, chosen.top_k, chosen.top_p)
    choose = sampler(constraints, [seed], *sampling) if chosen.temperature else most_probable
    rows = torch.zeros(1, dtype=torch.long, device=logits.device)
    log_probs = constraints.log_probs(logits[None], rows[None, :0], rows)
    return int(choose(log_probs, rows, position)[0])
