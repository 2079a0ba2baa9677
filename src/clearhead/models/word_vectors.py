"""Word vectors: one vector for each word, and one for each word as a context."""

from typing import Literal

import torch
from pydantic import PositiveInt
from torch import nn

from clearhead.config import Settings
from clearhead.models.anatomy import Anatomy
from clearhead.text.vocabulary import Vocabulary


class WordVectorsConfig(Settings):
    kind: Literal["word_vectors"] = "word_vectors"
    width: PositiveInt = 100
    """Dimensions of a vector."""
    contexts: bool = True
    """Whether there are context vectors, which only training needs; imported files have none."""

    def tensor_sizes(self, vocabulary: int) -> dict[str, int]:
        """The number of weights in each large part."""
        tables = 1 + self.contexts
        return {f"{vocabulary:,} words of width {self.width:,}": tables * vocabulary * self.width}


class WordVectors(nn.Module):
    """The two tables of a skip-gram model (Mikolov et al. 2013); neighbours are found in the first.

    They start as in the authors' word2vec: small random words, contexts of zeros. Training changes
    single rows, without autograd, because a batch touches few of them.
    """

    Config = WordVectorsConfig
    Processor = Vocabulary

    def __init__(self, config: WordVectorsConfig, vocabulary: int):
        super().__init__()
        self.config = config
        rows = torch.empty(vocabulary, config.width)
        self.embedding = nn.Embedding.from_pretrained(rows.uniform_(-0.5, 0.5) / config.width)
        self.contexts = None
        if config.contexts:
            self.contexts = nn.Embedding.from_pretrained(torch.zeros(vocabulary, config.width))

    @classmethod
    def build(cls, config: WordVectorsConfig, processor: Vocabulary) -> "WordVectors":
        return cls(config, processor.size)

    def anatomy(self) -> Anatomy:
        return Anatomy(embeddings={"text": "embedding"}, stacks=(), attentions=(), readout=None)
