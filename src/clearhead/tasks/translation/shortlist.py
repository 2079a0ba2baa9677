"""Vocabulary shortlists: the tokens that a translation of a text is likely to need (Jean et al. 2015).

They are those that translate a token of the text, by IBM model 1, the most frequent ones, and the text's own.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from clearhead.data.store import TokenSequences
from clearhead.errors import DataError, ModelError, SettingsError
from clearhead.tasks.translation.lexicon import translation_probabilities
from clearhead.text.normalize import normalize
from clearhead.text.tokenizer import Tokenizer
from clearhead.training.tensors import read_tree, write_tree

TRANSLATIONS = 100
"""Maximum number of tokens that a source token adds."""
FREQUENT = 500
"""Number of the most frequent target tokens, which every text may use."""
MIN_PROBABILITY = 1e-5


@dataclass(frozen=True)
class Candidates:
    """The target tokens of one language."""

    by_token: Int[Tensor, "vocabulary tokens"]
    """The translations of each source token, most probable first; -1 fills the row."""
    always: Int[Tensor, " tokens"]
    """The tokens that every text may use."""

    @classmethod
    def learn(
        cls, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], vocabulary: int
    ) -> "Candidates":
        """The candidates that pairs of token ids show."""
        target_ids = TokenSequences.of(targets)
        source, target, probabilities = translation_probabilities(
            TokenSequences.of(sources), target_ids, vocabulary
        )
        likely = (source < vocabulary) & (probabilities >= MIN_PROBABILITY)
        source, target, probabilities = source[likely], target[likely], probabilities[likely]
        order = np.lexsort((-probabilities, source))
        source, target = source[order], target[order]
        starts = np.searchsorted(source, source)
        rank = np.arange(len(source)) - starts
        by_token = np.full((vocabulary, TRANSLATIONS), -1, dtype=np.int32)
        first = rank < TRANSLATIONS
        by_token[source[first], rank[first]] = target[first]
        counts = np.bincount(target_ids.ids, minlength=vocabulary)
        frequent = np.argsort(-counts, kind="stable")[: min(FREQUENT, np.count_nonzero(counts))]
        return cls(torch.from_numpy(by_token), torch.from_numpy(frequent.astype(np.int32)))


@dataclass(frozen=True)
class Shortlist:
    """The candidates of each target language, for a model with this tokenizer."""

    fingerprint: str
    """That of the tokenizer."""
    languages: Mapping[str, Candidates]

    @classmethod
    def learn(cls, tokenizer: Tokenizer, pairs: Mapping[str, Iterable[tuple[str, str]]]) -> "Shortlist":
        """A shortlist from pairs of texts for each target language."""
        found = {}
        for language, some in pairs.items():
            texts = [pair for pair in some if all(map(str.strip, pair))]
            if not texts:
                raise DataError(f"pairs: there are none into {language}; a shortlist is learned from pairs")
            sources = tokenizer.encode_batch([normalize(source) for source, _ in texts])
            targets = tokenizer.for_targets.encode_batch([normalize(target) for _, target in texts])
            found[language] = Candidates.learn(sources, targets, tokenizer.size)
        return cls(tokenizer.fingerprint, found)

    @classmethod
    def load(cls, path: Path | str) -> "Shortlist":
        """The shortlist in a file."""
        tree = read_tree(Path(path))
        languages = tree.get("languages")
        if not isinstance(languages, dict) or not isinstance(tree.get("tokenizer"), str):
            raise ModelError(f"{path}: not a shortlist; make one with clearhead shortlist")
        return cls(tree["tokenizer"], {name: Candidates(**one) for name, one in languages.items()})

    def save(self, path: Path | str) -> None:
        languages = {name: vars(one) for name, one in self.languages.items()}
        write_tree(Path(path), {"tokenizer": self.fingerprint, "languages": languages})

    def check(self, tokenizer: Tokenizer, targets: Sequence[str]) -> None:
        """Raises SettingsError if it was made for another tokenizer or for other target languages."""
        if self.fingerprint != tokenizer.fingerprint:
            raise SettingsError("shortlist: was made for another tokenizer; make one for this model")
        if not any(language in self.languages for language in targets):
            raise SettingsError(
                f"shortlist: was made for {', '.join(self.languages)}, but the model translates into "
                f"{', '.join(targets)}; make one for this model"
            )
