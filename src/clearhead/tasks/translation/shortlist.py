"""Vocabulary shortlists: the tokens that a translation of a text is likely to need (Jean et al. 2015).

They are the likely translations of its tokens by IBM model 1, the most frequent tokens, and its own.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from clearhead.data.store import TokenSequences
from clearhead.errors import DataError, ModelError, SettingsError
from clearhead.tasks.translation.directions import Direction, targets
from clearhead.tasks.translation.lexicon import translation_probabilities
from clearhead.text.normalize import normalize
from clearhead.text.tokenizer import Tokenizer
from clearhead.training.tensors import read_tree, write_tree
from clearhead.wording import counted

MAX_TRANSLATIONS = 100
"""Maximum number of tokens that a source token adds."""
FREQUENT_TOKENS = 500
"""Number of the most frequent target tokens, which every text may use."""
MIN_PROBABILITY = 1e-5
FEW_PAIRS = 5000
"""With fewer pairs, a shortlist lacks many words."""
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LanguageShortlist:
    """The shortlists of texts that are translated into one language."""

    translations: Int[Tensor, "vocabulary translations"]
    """The translations of each source token, most probable first; -1 fills the row."""
    frequent: Int[Tensor, " frequent"]
    """The tokens that every text may use."""

    @classmethod
    def learn(
        cls, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], vocabulary: int
    ) -> "LanguageShortlist":
        """The shortlist learned from pairs of token ids."""
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
        translations = np.full((vocabulary, MAX_TRANSLATIONS), -1, dtype=np.int32)
        first = rank < MAX_TRANSLATIONS
        translations[source[first], rank[first]] = target[first]
        counts = np.bincount(target_ids.ids, minlength=vocabulary)
        frequent = np.argsort(-counts, kind="stable")[: min(FREQUENT_TOKENS, np.count_nonzero(counts))]
        return cls(torch.from_numpy(translations), torch.from_numpy(frequent.astype(np.int32)))


@dataclass(frozen=True)
class Shortlist:
    """A shortlist for each target language of a model."""

    tokenizer_fingerprint: str
    languages: Mapping[str, LanguageShortlist]

    @classmethod
    def learn(cls, tokenizer: Tokenizer, pairs: Mapping[Direction, Iterable[tuple[str, str]]]) -> "Shortlist":
        """A shortlist for each target language, from the pairs of texts of each direction."""
        found = {}
        for language in targets(pairs):
            some = [pairs[direction] for direction in pairs if direction.target == language]
            texts = [pair for pair in chain.from_iterable(some) if all(map(str.strip, pair))]
            if not texts:
                raise DataError(f"pairs: none into {language}; give pairs with text on both sides")
            sources = tokenizer.encode_batch([normalize(source) for source, _ in texts])
            if len(texts) < FEW_PAIRS:
                log.warning(
                    "%s into %s are few for a shortlist; translations will lack many words",
                    counted(len(texts), "pair"),
                    language,
                )
            written = tokenizer.for_targets.encode_batch([normalize(target) for _, target in texts])
            found[language] = LanguageShortlist.learn(sources, written, tokenizer.size)
        return cls(tokenizer.fingerprint, found)

    @classmethod
    def load(cls, path: Path | str) -> "Shortlist":
        """The shortlist in a file."""
        if Path(path).is_dir():
            raise ModelError(f"{path}: is a folder; name a file that clearhead shortlist wrote")
        try:
            tree = read_tree(Path(path))
        except ModelError as error:
            raise ModelError(f"{error}; make a shortlist with clearhead shortlist") from None
        try:
            languages = {name: LanguageShortlist(**one) for name, one in tree["languages"].items()}
            return cls(str(tree["tokenizer"]), languages)
        except (AttributeError, KeyError, TypeError):
            raise ModelError(f"{path}: not a shortlist; make one with clearhead shortlist") from None

    def __repr__(self) -> str:
        return f"Shortlist(into {', '.join(self.languages)})"

    def save(self, path: Path | str) -> None:
        languages = {name: vars(one) for name, one in self.languages.items()}
        write_tree(Path(path), {"tokenizer": self.tokenizer_fingerprint, "languages": languages})

    def check(self, tokenizer: Tokenizer, targets: Sequence[str]) -> None:
        """Raises SettingsError if it was made for another tokenizer or for other target languages."""
        if self.tokenizer_fingerprint != tokenizer.fingerprint:
            raise SettingsError("shortlist: belongs to another tokenizer; make one for this model")
        if not any(language in self.languages for language in targets):
            raise SettingsError(
                f"shortlist: was made for {', '.join(self.languages)}, but the model translates into "
                f"{', '.join(targets)}; make one for this model"
            )
