"""A small text of two topics, a recipe for it, and vectors made by hand."""

import random
from pathlib import Path

import pytest
import torch

from clearhead.models.word_vectors import WordVectors, WordVectorsConfig
from clearhead.tasks.word_vectors.model import WordVectorsModel
from clearhead.text.vocabulary import Vocabulary

TOPICS = {
    "animals": ["cat", "dog", "mouse", "bird", "horse"],
    "numbers": ["one", "two", "three", "four", "five"],
}
RECIPE = """
kind = "word_vectors"
[data]
train = [{text!r}]
min_count = 1
[model]
kind = "word_vectors"
width = 16
[batches]
words = 256
update = 128
window = 3
subsample = 0.0
[training]
epochs = 20
schedule = {{ kind = "warmup-stable-decay", learning_rate = 0.1, warmup = 0, decay = 1.0 }}
device = "cpu"
report_every = 5
save_every = 20
"""


@pytest.fixture(scope="session")
def topics_recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lines of words that belong together: animals with animals, numbers with numbers."""
    folder, rng = tmp_path_factory.mktemp("topics"), random.Random(0)
    lines = [
        " ".join(rng.choices(words, k=rng.randint(3, 9))) for _ in range(400) for words in TOPICS.values()
    ]
    (folder / "topics.txt").write_text("\n".join(lines) + "\n")
    (folder / "recipe.toml").write_text(RECIPE.format(text=str(folder / "topics.txt")))
    return folder / "recipe.toml"


def by_hand(**vectors: list[float]) -> WordVectorsModel:
    """Word vectors with these values."""
    width = len(next(iter(vectors.values())))
    model = WordVectors(WordVectorsConfig(width=width, contexts=False), len(vectors))
    model.embedding.weight.data.copy_(torch.tensor(list(vectors.values())))
    return WordVectorsModel(model, Vocabulary(list(vectors)))
