"""A trained model for more text: its tokenizer extended, its embeddings and readout grown to match."""

import shutil
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor

from clearhead.checkpoint import (
    WEIGHTS,
    Checkpoint,
    load_checkpoint,
    save_checkpoint,
    set_weights,
    weights,
)
from clearhead.errors import ClearheadError, ModelError
from clearhead.models import build
from clearhead.tasks.task import RunContext
from clearhead.text.extension import Extension, extend
from clearhead.text.spelling import Unspelled
from clearhead.text.tokenizer import Tokenizer
from clearhead.training import TrainingConfig

# The noise that tells new rows apart, as a share of the spread of the old ones.
NOISE = 0.1
# The folder, in that of a run's states, of the parent with the vocabulary that the run needs.
EXTENDED = "extended"
# Texts that a tokenizer is tried on before it is extended.
TRIED_TEXTS = 20_000


def parent_folder(context: RunContext, init_from: str) -> Path:
    """The folder of the model that a run starts from: the parent, or its extended copy."""
    copy = context.states.folder / EXTENDED
    return copy if (copy / WEIGHTS).exists() else Path(init_from)


def extend_parent(
    context: RunContext,
    training: TrainingConfig,
    texts: Callable[[], Iterable[str]],
    tags: Sequence[str] = (),
) -> tuple[Tokenizer, str] | None:
    """Writes a copy of the parent that can spell the texts and has the tags, if it must be extended.

    Returns its tokenizer, and a note on what is new; None if the parent's own tokenizer will do.
    """
    if not training.init_from or not training.new_tokens:
        return None
    checkpoint = load_checkpoint(Path(training.init_from))
    own: Tokenizer = checkpoint.processor
    missing = [tag for tag in tags if own.special_id(tag) is None]
    unspelled = Unspelled.of(own, islice(texts(), TRIED_TEXTS))
    if not missing and not unspelled.lost:
        return None
    try:
        extended = extend_model(checkpoint, texts(), missing, training.new_tokens)
    except ClearheadError:
        if missing:
            raise
        return None  # the run warns of what it cannot spell
    folder = context.states.folder / EXTENDED
    shutil.rmtree(folder, ignore_errors=True)
    settings = {name: value for name, value in extended.settings.items() if name != "model"}
    save_checkpoint(folder, extended.model, extended.processor, settings)
    reasons = [f"languages {', '.join(missing)}"] if missing else []
    if warning := unspelled.warning(Path(training.init_from).name):
        reasons.append(warning)
    added = extended.processor.size - own.size
    return extended.processor, f"vocabulary extended by {added:,} tokens: {'; '.join(reasons)}"


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
