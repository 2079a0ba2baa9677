"""One token at a time: the next after a text, as drawing or greedy search would have it."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from clearhead.decoding import MAX_SEED, Constraints, most_probable, sampler
from clearhead.errors import SettingsError, TextError
from clearhead.explorer.architecture import Model, most_tokens
from clearhead.explorer.distribution import Cut, distribution
from clearhead.layers.layout import Padded, Plain
from clearhead.tasks.language.model import LanguageModel
from clearhead.tasks.translation.model import TranslationModel
from clearhead.text.tokenizer import BOS, EOS


def next_token(
    model: Model, text: str, written: Sequence[int], to: str | None, cut: Cut, seed: int
) -> dict[str, Any]:
    """The token that comes after a text and those written since, and what could come instead."""
    _check(model, written, seed)
    with torch.inference_mode():
        logits, positions = _last_logits(model, text, written, to)
    suppressed_tokens = model.suppressed_tokens if isinstance(model, LanguageModel) else []
    told = distribution(model.tokenizer, logits, cut, None, suppressed_tokens)
    scores = (logits.float() / (cut.temperature or 1.0)).log_softmax(-1)
    chosen = _chosen(logits, len(written), cut, seed, suppressed_tokens)
    shown = {
        "id": chosen,
        "piece": model.tokenizer.pieces([chosen])[0],
        "probability": float(scores[chosen].exp()),
    }
    config, layers = model.model.config, _layers(model)
    size = config.head_size * (config.attention.kv_heads or config.attention.heads)
    return {
        "next": shown,
        "top": told["top"],
        "kept": told["kept"],
        "text": _text(model, text, [*written, chosen]),
        "ended": chosen in model.tokenizer.eos_ids,
        "places": positions,
        "cache": {
            "layers": layers,
            "heads": config.attention.kv_heads or config.attention.heads,
            "size": config.head_size,
            "places": positions,
            "bytes": 2 * layers * size * positions * logits.element_size(),
        },
    }


def _check(model: Model, written: Sequence[int], seed: int) -> None:
    size = model.tokenizer.size
    for number in written:
        if not 0 <= number < size:
            raise SettingsError(f"written: {number} is not an id from 0 to {size - 1}")
    if not 0 <= seed <= MAX_SEED:
        raise SettingsError(f"seed: {seed} should be from 0 to {MAX_SEED}")


def _last_logits(model: Model, text: str, written: Sequence[int], to: str | None) -> tuple[Tensor, int]:
    """The logits after the last token, and how many tokens the decoder has read."""
    if isinstance(model, LanguageModel):
        ids = [*model.encode(text), *written][-model.context_length :]
        words = torch.tensor([ids], device=model.device)
        return model.model.readout(model.model.states(words, Plain())[0, -1]), len(ids)
    source = model.tokenizer.encode(text)
    if not source:
        raise TextError("text: is empty; give a text to translate")
    if len(source) > most_tokens(model) or len(written) > model.model.config.max_tokens:
        max_length = max(len(source), len(written))
        raise TextError(f"text: {max_length} tokens, and the model takes {most_tokens(model)}: shorten it")
    read = torch.tensor([[*model.lead(to), *source, EOS]], device=model.device)
    target = torch.tensor([[BOS, *written]], device=model.device)
    layout = Padded(torch.tensor([read.shape[1]], device=model.device))
    states = model.model.states(read, layout, target)
    return model.model.readout(states[0, -1]), len(written) + 1


def _text(model: Model, text: str, written: Sequence[int]) -> str:
    said = model.tokenizer.decode([one for one in written if one not in model.tokenizer.eos_ids])
    return said if isinstance(model, TranslationModel) else text + said


def _layers(model: Model) -> int:
    config = model.model.config
    return getattr(config, "layers", None) or getattr(config, "decoder_layers", 0)


def _chosen(logits: Tensor, place: int, cut: Cut, seed: int, suppressed_tokens: Sequence[int]) -> int:
    """As a continuation of the text chooses at this place."""
    start = torch.tensor([BOS], device=logits.device)
    constraints = Constraints(start, EOS, place + 1, suppressed_tokens=suppressed_tokens)
    drawing = (cut.temperature, cut.top_k, cut.top_p)
    choose = sampler(constraints, [seed], *drawing) if cut.temperature else most_probable
    rows = torch.zeros(1, dtype=torch.long, device=logits.device)
    log_probs = constraints.log_probs(logits[None], rows[None, :0], rows)
    return int(choose(log_probs, rows, place)[0])
