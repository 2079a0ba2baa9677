"""Text as one sequence of sentences, each between <s> and </s>."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clearhead.data.sources.plain_text import TextChunk
from clearhead.tasks.ngrams.recipe import Unit
from clearhead.text.tokenizer import BOS, EOS, UNK, Tokenizer

# Texts that are tokenized at once.
GROUP = 10_000


@dataclass(frozen=True, eq=False)
class SentenceText:
    """<s>, the tokens of a sentence, </s>, <s>, …"""

    tokens: NDArray[np.integer[Any]]
    bytes: int

    @classmethod
    def read(cls, chunks: Iterable[TextChunk], unit: Unit, tokenizer: Tokenizer) -> "SentenceText":
        """The text of documents; sentences without a token are left out."""
        size, parts, is_open = 0, [], False
        stream = _lines(chunks) if unit == "lines" else iter(chunks)
        while group := list(islice(stream, GROUP)):
            size += sum(len(chunk.text.encode()) for chunk in group)
            ids: list[int] = []
            encoded = tokenizer.encode_batch([chunk.text for chunk in group])
            for chunk, tokens in zip(group, encoded, strict=True):
                if tokens and not is_open:
                    ids.append(BOS)
                    is_open = True
                ids += tokens
                if chunk.last and is_open:
                    ids.append(EOS)
                    is_open = False
            parts.append(np.array(ids, dtype=np.int32))
        return cls(np.concatenate(parts) if parts else np.zeros(0, dtype=np.int32), size)

    @property
    def sentences(self) -> int:
        return int((self.tokens == EOS).sum())

    @property
    def words(self) -> int:
        """The tokens without <s> and </s>."""
        return len(self.tokens) - 2 * self.sentences

    @property
    def unknown(self) -> int:
        """The tokens outside the vocabulary."""
        return int((self.tokens == UNK).sum())

    @property
    def distinct(self) -> int:
        """The distinct tokens without <s> and </s>."""
        return len(np.unique(self.tokens, return_counts=True)[0]) - 2

    def to(self, device: torch.device) -> Tensor:
        """The tokens as a tensor."""
        return torch.from_numpy(self.tokens.astype(np.int64)).to(device)


def _lines(chunks: Iterable[TextChunk]) -> Iterator[TextChunk]:
    """The lines of documents, each as a document; a line may span several chunks."""
    rest = ""
    for text, last in chunks:
        *lines, rest = (rest + text).split("\n")
        if last and rest:
            lines.append(rest)
            rest = ""
        yield from (TextChunk(f"{line}\n", last=True) for line in lines)
