"""Captions against those that several people wrote: BLEU, CIDEr-D, and what constant captions score."""

import functools
import math
import re
from collections import Counter
from collections.abc import Sequence
from itertools import chain

import numpy as np

from clearhead.evaluation.metric import Score, check_lines

MAX_NGRAM = 4
# Standard deviation of CIDEr-D's penalty for another length, and its scale (Vedantam et al. 2015).
SIGMA, SCALE = 6.0, 10.0
References = Sequence[Sequence[str]]
"""The captions of each image."""
Ngrams = list[Counter[tuple[str, ...]]]
"""How often each n-gram occurs in a caption; words first, then pairs of words, and so on."""


def caption_words(text: str) -> str:
    """A caption as it is scored: lower-cased, without punctuation, one space between words."""
    return " ".join(re.sub(r"[^\w\s]|_", "", text.lower()).split())


def caption_bleu(captions: Sequence[str], references: References, order: int = MAX_NGRAM) -> Score:
    """BLEU-`order` by sacreBLEU; images may differ in their number of references."""
    from sacrebleu.metrics.bleu import BLEU

    check_lines(captions=captions, references=references)
    metric = BLEU(tokenize="none", force=True, max_ngram_order=order)
    words = [[caption_words(text) for text in several] for several in references]
    # sacreBLEU wants the first reference of every image, then the second; None where there is none.
    streams = [
        [several[number] if number < len(several) else None for several in words]
        for number in range(max(map(len, words)))
    ]
    result = metric.corpus_score([*map(caption_words, captions)], streams)  # pyright: ignore[reportArgumentType]
    signature = metric.get_signature()
    signature.update("tok", "lower-cased words without punctuation")
    return Score(f"BLEU-{order}", result.score, str(signature))


def cider_d(captions: Sequence[str], references: References) -> Score:
    """CIDEr-D (Vedantam et al. 2015): how much a caption shares with the references, rare n-grams most.

    The scale is 0 to 10, as in pycocoevalcap, which also measures lengths in bigrams.
    """
    check_lines(captions=captions, references=references)
    counted = [[_ngrams(text) for text in several] for several in references]
    # In how many images people use an n-gram.
    images = Counter(
        ngram for several in counted for ngram in {n for one in several for counts in one for n in counts}
    )

    def weighted(counts: Counter[tuple[str, ...]]) -> dict[tuple[str, ...], float]:
        """Counts times inverse document frequency."""
        return {n: count * math.log(len(captions) / max(1, images[n])) for n, count in counts.items()}

    def similarity(ours: Ngrams, theirs: Ngrams) -> float:
        cosines = []
        for pair in zip(ours, theirs, strict=True):
            mine, other = map(weighted, pair)
            # Repeating an n-gram of the reference gains nothing.
            shared = sum(min(weight, other[n]) * other[n] for n, weight in mine.items() if n in other)
            norms = math.hypot(*mine.values()) * math.hypot(*other.values())
            cosines.append(shared / norms if norms else 0.0)
        delta = ours[1].total() - theirs[1].total()
        return float(np.mean(cosines)) * math.exp(-(delta**2) / (2 * SIGMA**2))

    scores = [
        np.mean([similarity(caption, one) for one in several])
        for caption, several in zip(map(_ngrams, captions), counted, strict=True)
    ]
    return Score("CIDEr-D", SCALE * float(np.mean(scores)), f"n:{MAX_NGRAM}|sigma:{SIGMA:g}")


def best_constant(references: References, candidates: Sequence[str] = ()) -> tuple[str, float]:
    """Of the references and other candidates, the caption with the best BLEU-4 if every image gets it.

    Also returns its BLEU-4: a high floor, because it is chosen by the references that it is scored on.
    """
    counted = [[_ngrams(text) for text in several] for several in references]
    lengths = [[one[0].total() for one in several] for several in counted]
    # In how many images some person uses an n-gram so many times or more.
    images: Counter[tuple[tuple[str, ...], int]] = Counter()
    for several in counted:
        for orders in zip(*several, strict=True):
            most: Counter[tuple[str, ...]] = Counter()
            for counts in orders:
                most |= counts
            images.update((ngram, times + 1) for ngram, count in most.items() for times in range(count))

    @functools.cache
    def reference_length(length: int) -> int:
        return sum(min(several, key=lambda other: (abs(other - length), other)) for several in lengths)

    def bleu(text: str) -> float:
        logs, caption = [], _ngrams(text)
        for counts in caption:
            found = sum(images[ngram, times + 1] for ngram, count in counts.items() for times in range(count))
            if not found:
                return 0.0
            logs.append(math.log(found / (len(references) * counts.total())))
        length = caption[0].total()
        brevity = min(0.0, 1 - reference_length(length) / (len(references) * length))
        return 100 * math.exp(float(np.mean(logs)) + brevity)

    texts = {*map(caption_words, chain(candidates, *references))}
    scores = {text: bleu(text) for text in sorted(texts)}
    best = max(scores, key=lambda text: scores[text])
    return best, scores[best]


def one_against_others(references: References) -> float | None:
    """The BLEU-4 of one person's captions against the others', averaged over people; None for one person."""
    people = min(map(len, references))
    if people < 2:
        return None
    found = []
    for person in range(people):
        others = [[*several[:person], *several[person + 1 :]] for several in references]
        found.append(caption_bleu([several[person] for several in references], others).value)
    return float(np.mean(found))


def shuffled(captions: Sequence[str], seed: int = 0) -> list[str]:
    """The captions of shuffled images: each image gets the caption of another one."""
    order = np.random.default_rng(seed).permutation(len(captions))
    moved = list(captions)
    for index, other in zip(order, np.roll(order, 1), strict=True):
        moved[index] = captions[other]
    return moved


def _ngrams(text: str) -> Ngrams:
    words = caption_words(text).split()
    return [
        Counter(tuple(words[start : start + order]) for start in range(len(words) - order + 1))
        for order in range(1, MAX_NGRAM + 1)
    ]
