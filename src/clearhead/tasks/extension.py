"""A trained model for more text: its tokenizer extended, its embeddings and readout grown to match."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from clearhead.checkpoint import Checkpoint, set_weights, weights
from clearhead.errors import ModelError
from clearhead.models import build
from clearhead.text.extension import Extension, extend
from clearhead.text.tokenizer import Tokenizer

# The noise that tells new rows apart, as a share of the spread of the old ones.
NOISE = 0.1


def extend_model(
    checkpoint: Checkpoint, texts: Iterable[str], special_tokens: Sequence[str] = (), new_tokens: int = 2000
) -> Checkpoint:
    """The model with the vocabulary of `clearhead.text.extension.extend`.

    The logits of old tokens stay as they are; so do the ids of text that the tokenizer could spell before.
    Save it with `save_checkpoint`, and a run can start from that folder.
    """
    if not isinstance(checkpoint.processor, Tokenizer):
        raise ModelError("the model has no vocabulary of text alone, so it cannot be extended; name another")
    extension = extend(checkpoint.processor, texts, special_tokens, new_tokens)
    with torch.random.fork_rng(devices=[]):
        model = build(checkpoint.model.config, extension.tokenizer)  # pyright: ignore[reportArgumentType]
    old, new = weights(checkpoint.model), weights(model)
    values = {
        name: old[name] if old[name].shape == new[name].shape else grown(old[name], extension) for name in new
    }
    set_weights(model, values, "extended weights")
    tokenizer = extension.tokenizer
    settings = {**checkpoint.settings, "tokenizer": tokenizer.config.model_dump(exclude_none=True)}
    device = next(iter(old.values())).device
    return Checkpoint(model.to(device).eval(), tokenizer, settings)


def grown(rows: Tensor, extension: Extension) -> Tensor:
    """A matrix with a row per token, or a bias, for the extended vocabulary.

    A new row is the mean of the rows of its parts, or of all rows (Hewitt 2021), with a little noise. Of a
    single part, the mean with all rows keeps the new token from being as likely as the old one.
    """
    generator = torch.Generator(rows.device).manual_seed(extension.first)
    mean, spread = rows.mean(0), rows.std(0)
    found = list(rows)
    for parts in extension.parts:
        near = [found[part] for part in parts] + ([mean] if len(parts) < 2 else [])
        noise = torch.randn(mean.shape, generator=generator, device=rows.device, dtype=rows.dtype)
        found.append(torch.stack(near).mean(0) + NOISE * spread * noise)
    return torch.stack(found)
