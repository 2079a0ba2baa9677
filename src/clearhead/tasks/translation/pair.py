"""One teacher-forced pass over a source and its target, and the tokens of both."""

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from clearhead.data.batch import PairBatch
from clearhead.inspection.explanation import Token, text_tokens, with_next
from clearhead.layers.layout import Padded
from clearhead.models import EncoderDecoder
from clearhead.text.tokenizer import BOS, EOS, Tokenizer


def pair_logits(model: EncoderDecoder, source: Sequence[int], target: Sequence[int]) -> Tensor:
    """The logits of a pass in which the encoder reads the source and </s>, the decoder <s> and the target."""
    batch = PairBatch.of([source], [target]).to(model.readout_weight.device)
    return model(batch.source, Padded(batch.source_lengths), batch.inputs)[0]


def source_tokens(tokenizer: Tokenizer, ids: Sequence[int], text: str) -> tuple[Token, ...]:
    """The tokens that the encoder reads: ids, the last of which are those of the text, and </s>."""
    tokens = text_tokens(tokenizer, ids)
    # Only the text tells apart words that are not in the vocabulary.
    numbers = tokenizer.word_numbers(text)
    for position, number in enumerate(numbers, start=len(ids) - len(numbers)):
        tokens[position] = replace(tokens[position], word=number)
    return (*tokens, *text_tokens(tokenizer, [EOS]))


def target_tokens(
    tokenizer: Tokenizer, ids: Sequence[int], complete: bool, written: bool
) -> tuple[Token, ...]:
    """The tokens that the decoder reads, each with the next one; a complete target ends with </s>."""
    tokens = [replace(token, generated=written) for token in text_tokens(tokenizer, ids)]
    return with_next([*text_tokens(tokenizer, [BOS]), *tokens], [*ids, EOS] if complete else ids)
