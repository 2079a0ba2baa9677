"""Marks of a sentence, and items that a translation lost, put where the aligned words are.

After "Treatment of Markup in Statistical Machine Translation" (Müller 2017).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from clearhead.inspection.alignment import LINKED
from clearhead.text.inline import Mark, Part, Role, words
from clearhead.text.kinds import STAND_INS

Range = tuple[int, int]
"""Words from the first to the last, which is included."""


@dataclass(frozen=True)
class WordPair:
    """The words of a sentence and of its translation, with their positions, and how well they agree."""

    source: Sequence[Range]
    target: Sequence[Range]
    agreed: Tensor | None
    """(targets, sources); None if the model cannot align."""
    punctuation: frozenset[int] = frozenset()
    """The target words that are punctuation marks."""

    @classmethod
    def of(cls, source: str, target: str, agreed: Tensor | None = None) -> "WordPair":
        ours, theirs = list(words(source)), list(words(target))
        if agreed is not None:
            agreed = _with_copies(agreed, [one[0] for one in ours], [one[0] for one in theirs])
        punctuation = frozenset(
            n for n, one in enumerate(theirs) if not (one[0] in STAND_INS or one[0][0].isalnum())
        )
        return cls([one.span() for one in ours], [one.span() for one in theirs], agreed, punctuation)

    def words_in(self, start: int, end: int) -> list[int]:
        """The source words between two positions."""
        return [number for number, span in enumerate(self.source) if start <= span[0] and span[1] <= end]

    def word_before(self, position: int) -> int | None:
        return max((number for number, span in enumerate(self.source) if span[1] <= position), default=None)

    def aligned(self, source: int, taken: frozenset[int] = frozenset()) -> int | None:
        """The target word that agrees best with a source word, if it agrees at all."""
        if self.agreed is None or not self.target:
            return None
        column = self.agreed[:, source].tolist()
        free = [number for number in range(len(column)) if number not in taken]
        best = max(free, key=column.__getitem__, default=None)
        return best if best is not None and column[best] >= LINKED else None

    def near(self, source: int) -> int:
        """The target word for a source word: aligned to it, or to a word before it, or by proportion."""
        for number in range(source, -1, -1):
            if (found := self.aligned(number)) is not None:
                return found
        return min(int((source + 0.5) / len(self.source) * len(self.target)), len(self.target) - 1)


def _with_copies(agreed: Tensor, source: Sequence[str], target: Sequence[str]) -> Tensor:
    """The agreement of words, in which placeholders and numbers agree with themselves alone."""
    agreed = agreed.clone()
    for number, word in enumerate(source):
        copied = word in STAND_INS or word[0].isdecimal()
        if copied and source.count(word) == target.count(word) == 1:
            row = target.index(word)
            agreed[row], agreed[:, number] = 0.0, 0.0
            agreed[row, number] = 1.0
    return agreed


@dataclass(frozen=True)
class Edit:
    """A change of a translation: target[start:end] becomes `text`."""

    start: int
    end: int
    text: str
    order: int
    """Of several edits at one position, the lowest comes first."""
    depth: int = 0
    is_mark: bool = True

    @property
    def key(self) -> tuple[int, int, int]:
        return self.start, self.order, self.depth


CLOSES, STANDS, OPENS, REPLACES = range(4)


def item_edits(target: str, missing: Sequence[tuple[Part, str]], pair: WordPair) -> list[Edit]:
    """The edits that put lost items back, each given with what to write for it.

    An item replaces the word that the model wrote for it; else it follows the translation of the word before
    it, and if there is none, it comes last.
    """
    edits: list[Edit] = []
    taken = set(pair.punctuation)
    taken |= {number for number, (start, _) in enumerate(pair.target) if target[start] in STAND_INS}
    for part, text in missing:
        inside = pair.words_in(part.start, part.end)
        found = {one for number in inside if (one := pair.aligned(number, frozenset(taken))) is not None}
        if found:
            taken |= found
            first, *others = sorted(found)
            edits.append(Edit(*pair.target[first], text, REPLACES, is_mark=False))
            for other in others:
                start, end = pair.target[other]
                edits.append(
                    Edit(start - (target[start - 1 : start] == " "), end, "", REPLACES, is_mark=False)
                )
            continue
        before = pair.word_before(part.start)
        after = pair.aligned(before) if before is not None else None
        end = pair.target[after][1] if after is not None else len(target.rstrip(" .!?…"))
        space = " " if end else ""
        edits.append(Edit(end, end, f"{space}{text}", STANDS, part.start, is_mark=False))
    return edits


def mark_edits(marks: Sequence[Mark], pair: WordPair, length: int) -> list[Edit]:
    """The edits that put marks into a translation of this length."""
    if not pair.target or not pair.source:
        return [Edit(length, length, mark.part.text, STANDS, n) for n, mark in enumerate(marks)]
    closing = {mark.part.start: mark for mark in marks if mark.part.role is Role.CLOSE}
    opening = [(mark, closing[mark.part.partner]) for mark in marks if mark.part.partner in closing]
    edits: list[Edit] = []
    for depth, (mark, end, (first, last)) in enumerate(_ranges(opening, pair)):
        # At one position, inner marks close first and outer marks open first.
        edits.append(Edit(pair.target[last][1], pair.target[last][1], end.part.text, CLOSES, -depth))
        edits.append(Edit(pair.target[first][0], pair.target[first][0], mark.part.text, OPENS, depth))
    for number, mark in enumerate(mark for mark in marks if mark.part.partner is None):
        before = pair.word_before(mark.position)
        if before is None:
            start, text = pair.target[0][0], mark.part.text + (mark.after or mark.before)
        else:
            start, text = pair.target[pair.near(before)][1], mark.before + mark.part.text
        edits.append(Edit(start, start, text, STANDS, number))
    return edits


def _ranges(pairs: Sequence[tuple[Mark, Mark]], pair: WordPair) -> list[tuple[Mark, Mark, Range]]:
    """The target words of marked passages, outer ones first; ranges are nested or apart."""
    order = sorted(pairs, key=lambda one: (one[0].position, -one[1].position, one[0].part.start))
    found: dict[int, Range] = {}
    # From the inside out, so that an outer passage contains the inner ones.
    for index in sorted(range(len(order)), key=lambda n: order[n][1].position - order[n][0].position):
        start, end = order[index][0], order[index][1]
        inner = [
            one
            for number, one in found.items()
            if start.part.start < order[number][0].part.start < end.part.start
        ]
        apart = {word for one in found.values() if one not in inner for word in range(one[0], one[1] + 1)}
        own = _range(pair, pair.words_in(start.position, end.position), start.position, frozenset(apart))
        ranges = [own, *inner]
        found[index] = min(one[0] for one in ranges), max(one[1] for one in ranges)
    return [(*order[index], found[index]) for index in range(len(order))]


def _range(pair: WordPair, inside: Sequence[int], position: int, taken: frozenset[int]) -> Range:
    """The free target words that agree best with source words: a run around the strongest one."""
    taken |= pair.punctuation
    best = {one for number in inside if (one := pair.aligned(number, taken)) is not None}
    if pair.agreed is not None and inside:
        strongest = pair.agreed.argmax(1).tolist()
        linked = pair.agreed.amax(1) >= LINKED
        best |= {n for n, one in enumerate(strongest) if one in inside and linked[n] and n not in taken}
    if not best:
        before = inside[0] if inside else pair.word_before(position) or 0
        word = pair.near(before)
        return word, word
    agreed = pair.agreed
    assert agreed is not None
    first = last = max(best, key=lambda n: float(agreed[n, list(inside)].sum()) if inside else 0.0)
    while (step := _next(first, -1, best, taken, len(inside))) is not None:
        first = step
    while (step := _next(last, 1, best, taken, len(inside))) is not None:
        last = step
    return first, last


def _next(word: int, step: int, best: set[int], taken: frozenset[int], gap: int) -> int | None:
    """The next word of a run in one direction, over a gap that is not longer than the passage."""
    between = range(word + step, word + step * (gap + 2), step)
    for number in between:
        if number in best:
            return number
        if number in taken:
            return None
    return None
