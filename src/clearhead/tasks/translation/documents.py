"""Documents: sentences translated in one batch, and put together again with everything around them."""

import logging
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from torch import Tensor

from clearhead.decoding import Hypothesis
from clearhead.errors import ModelError
from clearhead.inspection.alignment import Aligner
from clearhead.options import check_text
from clearhead.tasks.translation.directions import check_target
from clearhead.tasks.translation.markup import WordPair, item_edits, mark_edits
from clearhead.tasks.translation.options import TranslateOptions
from clearhead.tasks.translation.search import search_all
from clearhead.text.blocks import GLUE, Format, Piece, Prose, parse, split_lines
from clearhead.text.capitals import in_capitals, lowered
from clearhead.text.inline import Core, Part, Role, inline_sentences, take_apart, words
from clearhead.text.kinds import STAND_INS
from clearhead.text.normalize import normalize
from clearhead.text.placeholders import Written, decode, encode, forms, hide
from clearhead.text.sentences import gaps, guess_language
from clearhead.text.spelling import Unspelled

if TYPE_CHECKING:
    from clearhead.tasks.translation.model import TranslationModel

log = logging.getLogger(__name__)
LOW_CONFIDENCE = 0.5
"""Below it, a sentence is marked by default."""
MARKED = "⟪{}⟫"
CHUNK_SENTENCES = 512
"""Sentences of a document that are translated together."""
SENTENCE_CHARACTERS = 60
"""Characters of a sentence, to tell how many a chunk will have."""
ALIGNED_PAIRS = 32
"""Sentences by which the head that aligns words best is chosen."""
LABEL_WORDS, LABEL_GROWTH = 2, 2
"""The most words of a label such as the cell "Name", and how many times as many its translation may have. A
model that has seen few labels in training makes sentences of them, such as "Mein Name ist"."""
_END = re.compile(r"\.{3}$|[\W_]$")
_FULL_STOP = re.compile(r"(?<![.!?…])[.!]$")
# After an item such as 5 p.m.
_DOUBLE_STOP = re.compile(r"(?<!\.)\.\.$")
_CLAUSE_END = re.compile(r"[,;:–—)]\s")


@dataclass(frozen=True)
class Sentence:
    """A sentence of a document and its translation; `str()` gives the translation."""

    source: str
    text: str
    confidence: float = 1.0
    """The geometric mean of the probabilities of its tokens: exp of the mean log-probability. 1 if there was
    nothing to translate."""
    repaired: tuple[str, ...] = ()
    """Items such as numbers and URLs that the model lost and that were put back by alignment."""
    lost: tuple[str, ...] = ()
    """Items that are not in the translation."""
    tokens: int = 0
    """The number of tokens that the model wrote."""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Document:
    """A translated document; `str()` gives the text."""

    text: str
    paragraphs: tuple[tuple[Sentence, ...], ...]
    """The sentences of each paragraph, heading, list item or cell."""

    @property
    def sentences(self) -> tuple[Sentence, ...]:
        return tuple(sentence for paragraph in self.paragraphs for sentence in paragraph)

    @property
    def repaired(self) -> int:
        """How many items were put back by alignment."""
        return sum(len(sentence.repaired) for sentence in self.sentences)

    @property
    def lost(self) -> int:
        """How many items are not in the translation."""
        return sum(len(sentence.lost) for sentence in self.sentences)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class _Unit:
    """A sentence, or a part of one that is too long for the model."""

    text: str
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class _Attempt:
    """A sentence as the model read it, and what it wrote, with stand-ins for hidden items."""

    core: Core
    written: Written
    target: str
    confidence: float
    tokens: int

    def is_overlong(self, target: str) -> bool:
        """Whether a target makes a sentence of a label: one or two words without a final mark."""
        source, count = self.core.text, len(self.core.text.split())
        is_label = count <= LABEL_WORDS and not self.core.items and not _END.search(source)
        return is_label and (len(target.split()) > LABEL_GROWTH * count or target.endswith("?"))

    @property
    def missing(self) -> list[Part]:
        return self.written.missing(self.target)


class DocumentTranslator:
    """Translates documents with one model, block by block."""

    def __init__(
        self,
        model: "TranslationModel",
        to: str | None = None,
        *,
        format: Format = "markdown",
        mark: float | None = None,
        options: TranslateOptions | None = None,
    ):
        self.model, self.mark = model, mark
        self.format: Format = format
        self.to = check_target(model.directions, to)
        self._options = (options or TranslateOptions()).resolved(model.search)
        self._tag = model.tag(to)
        self._sources = [one.source for one in model.directions if one.target == self.to]
        self._language = self._sources[0] if len(self._sources) == 1 else None
        self._aligner: Aligner | None = None
        self._unspelled = Unspelled(model.tokenizer)

    def translate(self, text: str) -> Document:
        """A whole document."""
        check_text(text)
        documents = list(self.stream(split_lines(text), chunk=None))
        paragraphs = tuple(one for document in documents for one in document.paragraphs)
        return Document("".join(document.text for document in documents), paragraphs)

    def stream(self, lines: Iterable[str], chunk: int | None = CHUNK_SENTENCES) -> Iterator[Document]:
        """The translations of successive parts of a document, given as lines with their ends.

        Each part has about `chunk` sentences and ends with a block; None: the whole document is one part.
        """
        waiting: list[Piece] = []
        characters = 0
        for block in parse(lines, self.format):
            waiting += block
            characters += sum(len(piece.text) for piece in block if isinstance(piece, Prose))
            if chunk is not None and (len(waiting) >= 8 * chunk or characters >= SENTENCE_CHARACTERS * chunk):
                yield self._document(waiting)
                waiting, characters = [], 0
        if waiting:
            yield self._document(waiting)
        if warning := self._unspelled.warning(self.model.name or "this model", "sentence"):
            log.warning(warning)

    def lines(self, texts: Sequence[str]) -> list[Document]:
        """Texts of one line each, which have no structure of their own, all sentences in one batch."""
        return self._documents([[Prose(text)] for text in texts])

    def _document(self, pieces: Sequence[Piece]) -> Document:
        """The translation of some blocks, all sentences in one batch."""
        return self._documents([pieces])[0]

    def _documents(self, several: Sequence[Sequence[Piece]]) -> list[Document]:
        prose = [piece for pieces in several for piece in pieces if isinstance(piece, Prose)]
        if self._language is None and len(self._sources) > 1:
            self._language = guess_language(" ".join(piece.text for piece in prose), self._sources)
        split = [_sentences(piece.text, self._language) for piece in prose]
        everything = [unit for units, _ in split for unit in units]
        found = dict(zip(everything, self._translated(everything), strict=True))
        own = iter(split)
        return [self._assembled(pieces, own, found) for pieces in several]

    def _assembled(
        self,
        pieces: Sequence[Piece],
        own: Iterator[tuple[list[_Unit], list[str]]],
        found: dict[_Unit, Sentence],
    ) -> Document:
        """Blocks with the translations of their sentences; `own` has those of each prose in turn."""
        rendered: list[str] = []
        paragraphs: list[tuple[Sentence, ...]] = []
        for piece in pieces:
            if isinstance(piece, str):
                rendered.append(piece)
                continue
            units, between = next(own)
            sentences = [found[unit] for unit in units]
            paragraphs.append(tuple(replace(one, text=one.text.replace(GLUE, " ")) for one in sentences))
            shown = [self._shown(sentence) for sentence in sentences]
            text = "".join(gap + one for gap, one in zip(between, [*shown, ""], strict=True))
            rendered.append(piece.render(text))
        return Document("".join(rendered), tuple(paragraphs))

    def _shown(self, sentence: Sentence) -> str:
        if self.mark is None or sentence.confidence >= self.mark:
            return sentence.text
        # A backslash at the end of a line is a hard break in Markdown.
        text = sentence.text.removesuffix("\\")
        return MARKED.format(text) + sentence.text[len(text) :]

    def _translated(self, units: Sequence[_Unit]) -> list[Sentence]:
        """The translation of each sentence; sentences that occur twice are translated once."""
        distinct = list(dict.fromkeys(units))
        pieces = [self._fitting(unit) for unit in distinct]
        found = iter(self._cores([take_apart(one.text, one.parts) for parts in pieces for one in parts]))
        joined = {
            unit: _joined(unit.text, [next(found) for _ in parts])
            for unit, parts in zip(distinct, pieces, strict=True)
        }
        return [joined[unit] for unit in units]

    def _fitting(self, unit: _Unit) -> list[_Unit]:
        """The sentence, in parts if it is too long for the model."""
        limit = self.model.max_length
        if len(unit.text.encode()) < limit or len(self.model.tokenizer.encode(unit.text)) <= limit:
            return [unit]
        halves = _halves(unit)
        return [unit] if not halves else [one for half in halves for one in self._fitting(half)]

    def _cores(self, cores: Sequence[Core]) -> list[Sentence]:
        """The translations of cores: with numbers visible, if one is lost hidden, then repaired."""
        readable = {number: lowered(core) for number, core in enumerate(cores) if core.has_words}
        attempts = self._attempts(readable, _is_item)
        attempts |= self._shorter({n: one for n, one in attempts.items() if one.is_overlong(one.target)})
        # A model that has seen few placeholders in training may still copy names.
        for by_words in [False, True] if self.model.tokenizer.placeholder_ids else [True]:
            again = {n: attempt.core for n, attempt in attempts.items() if attempt.missing}
            for number, attempt in self._attempts(again, _is_any, by_words).items():
                if len(attempt.missing) < len(attempts[number].missing):
                    attempts[number] = attempt
        aligned = self._aligned({n: one for n, one in attempts.items() if one.missing or one.core.marks})
        return [
            _finished(core, attempts[n], aligned.get(n)) if n in attempts else _unchanged(core)
            for n, core in enumerate(cores)
        ]

    def _attempts(
        self, cores: dict[int, Core], hides: Callable[[Part], bool], by_words: bool = False
    ) -> dict[int, _Attempt]:
        """Each core translated with the selected items hidden."""
        tokenizer, limit = self.model.tokenizer, self.model.max_length
        written = {n: hide(core, tokenizer, hides, by_words) for n, core in cores.items()}
        encoded = encode(list(written.values()), tokenizer)
        if hides is _is_item:
            self._unspelled.add([one.readable(one.text) for one in written.values()], encoded)
        # A word that is too long for the model stays as it is.
        sources = [self._tag + ids if len(ids) <= limit else [] for ids in encoded]
        results = search_all(self.model.engine, tokenizer, sources, self._options)
        attempts: dict[int, _Attempt] = {}
        for (number, one), best in zip(written.items(), results, strict=True):
            if best:
                target = _ending_like(one.text, decode(one, best[0].tokens, tokenizer))
                attempts[number] = _Attempt(
                    cores[number], one, target, _confidence(best[0]), len(best[0].tokens)
                )
        return attempts

    def _shorter(self, attempts: dict[int, _Attempt]) -> dict[int, _Attempt]:
        """For each label, the most confident translation that is not too long; none if all are.

        Compares all hypotheses for the label as it is, as a sentence and, except in German, whose nouns have
        capitals, in lower case.
        """
        tokenizer, limit = self.model.tokenizer, self.model.max_length
        cases = (str,) if self._language == "de" else (str, str.lower)
        forms = [(case, end) for case in cases for end in ("", ".")]
        readings = [(n, case(one.core.text) + end) for n, one in attempts.items() for case, end in forms]
        encoded = tokenizer.encode_batch([normalize(text) for _, text in readings])
        sources = [self._tag + ids if len(ids) <= limit else [] for ids in encoded]
        options = replace(self._options, nbest=self._options.beam or 1)
        results = search_all(self.model.engine, tokenizer, sources, options)
        found: dict[int, list[_Attempt]] = {}
        for (number, _), hypotheses in zip(readings, results, strict=True):
            attempt = attempts[number]
            for one in hypotheses:
                target = _like_label(attempt.core.text, tokenizer.decode(one.tokens))
                if target and not attempt.is_overlong(target):
                    shorter = _Attempt(
                        attempt.core, attempt.written, target, _confidence(one), len(one.tokens)
                    )
                    found.setdefault(number, []).append(shorter)
        return {n: max(several, key=lambda one: one.confidence) for n, several in found.items()}

    def _aligned(self, attempts: dict[int, _Attempt]) -> dict[int, Tensor]:
        """The agreement of the words of each sentence and its translation; none if the model cannot align."""
        from clearhead.tasks.translation.alignment import best_aligners, capture_pairs

        limit = self.model.max_length
        pairs = {
            number: ([one.written.readable(w[0]) for w in words(one.written.text)],
                     [one.written.readable(w[0]) for w in words(one.target)])
            for number, one in attempts.items()
        }  # fmt: skip
        # Spelled word by word, a text may have more tokens than in one piece.
        pairs = {n: both for n, both in pairs.items() if all(both) and max(map(_bytes, both)) <= limit}
        try:
            captured = dict(zip(pairs, capture_pairs(self.model, list(pairs.values()), self.to), strict=True))
        except ModelError:
            return {}
        if self._aligner is None and captured:
            self._aligner = best_aligners(list(captured.values())[:ALIGNED_PAIRS])[0]
        return {n: one.agreement(self._aligner) for n, one in captured.items() if self._aligner}


def _ending_like(source: str, target: str) -> str:
    """A translation that ends with the comma, colon or dots of its source, or, as a heading, with nothing."""
    mark = _END.search(source)
    if mark is None:
        return _FULL_STOP.sub("", target)
    open_ended = mark[0] in (",", ":", ";", "...", "…")
    return target.rstrip(".!,:;…") + mark[0] if open_ended and not target.endswith(mark[0]) else target


def _confidence(found: Hypothesis) -> float:
    """The geometric mean of the probabilities of the tokens."""
    return min(1.0, math.exp(found.sum_log_prob / (len(found.tokens) + 1)))


def _like_label(source: str, target: str) -> str:
    """A translation that ends as a label does, and begins with a capital if the label does."""
    target = _ending_like(source, target)
    return target[:1].upper() + target[1:] if source[:1].isupper() else target


def _bytes(texts: Sequence[str]) -> int:
    return sum(len(text.encode()) for text in texts)


def _is_item(part: Part) -> bool:
    return part.role is Role.ITEM


def _is_any(part: Part) -> bool:
    return True


def _sentences(text: str, language: str | None) -> tuple[list[_Unit], list[str]]:
    """The sentences of a paragraph, and what is between them."""
    spans, parts = inline_sentences(text, language)
    units = [_Unit(text[start:end], tuple(own)) for (start, end), own in zip(spans, parts, strict=True)]
    return units, gaps(text, spans)


def _halves(unit: _Unit) -> list[_Unit]:
    """A sentence in two parts: at the end of a clause near its middle, else at a space; none without one."""
    text, middle = unit.text, len(unit.text) / 2
    inside = {n for part in unit.parts for n in range(part.start + 1, part.end)}
    clauses = [match.end() for match in _CLAUSE_END.finditer(text)]
    spaces = [match.end() for match in re.finditer(r"\s+", text)]
    for positions in ([n for n in clauses if middle / 2 < n < middle * 1.5], spaces):
        possible = [n for n in positions if n not in inside and 0 < n < len(text)]
        if possible:
            cut = min(possible, key=lambda n: abs(n - middle))
            left = tuple(part.within(cut) for part in unit.parts if part.start < cut)
            right = tuple(part.moved(-cut).within(len(text)) for part in unit.parts if part.start >= cut)
            return [_Unit(text[:cut], left), _Unit(text[cut:], right)]
    return []


def _joined(source: str, parts: Sequence[Sentence]) -> Sentence:
    """A sentence from the translations of its parts."""
    if len(parts) == 1:
        return replace(parts[0], source=source)
    text = "".join(part.text + part.source[len(part.source.rstrip()) :] for part in parts)
    return Sentence(
        source,
        text,
        min(part.confidence for part in parts),
        tuple(item for part in parts for item in part.repaired),
        tuple(item for part in parts for item in part.lost),
        sum(part.tokens for part in parts),
    )


def _finished(core: Core, attempt: _Attempt, agreed: Tensor | None) -> Sentence:
    """A sentence with its items restored, its marks in place and its case as in the source."""
    written, target, missing = attempt.written, attempt.target, attempt.missing
    pair = WordPair.of(written.text, target, agreed)
    marks = [replace(mark, position=written.position(mark.position)) for mark in core.marks]
    edits = item_edits(target, _written_as(written, missing), pair) + mark_edits(marks, pair, len(target))
    capitals = in_capitals(core)
    pieces: list[str] = []
    end = 0
    for edit in sorted(edits, key=lambda one: one.key):
        pieces.append(_restored(target[end : edit.start], written, capitals))
        if edit.is_mark:
            space = edit.text[: len(edit.text) - len(edit.text.lstrip())]
            pieces.append(space + edit.text.strip().replace(" ", GLUE))
        else:
            pieces.append(_restored(edit.text, written, False))
        end = max(end, edit.end)
    pieces.append(_restored(target[end:], written, capitals))
    text = core.prefix + _DOUBLE_STOP.sub(".", "".join(pieces)) + core.suffix
    shown = text.replace(GLUE, " ")
    lost = tuple(part.text for part in core.items if not any(form in shown for form in forms(part)))
    repaired = tuple(part.text for part in missing if part.text not in lost)
    source = core.prefix + core.text + core.suffix
    return Sentence(source, text, attempt.confidence, repaired, lost, attempt.tokens)


def _written_as(written: Written, missing: Sequence[Part]) -> list[tuple[Part, str]]:
    """Lost items with their positions in the written text, and what to write for each."""
    found: list[tuple[Part, str]] = []
    for part in missing:
        if part in written.hidden:
            stand_in = STAND_INS[written.hidden.index(part)]
            start = written.text.index(stand_in)
            found.append((replace(part, start=start, end=start + 1), stand_in))
        else:
            found.append((part, part.text))
    return found


def _restored(text: str, written: Written, capitals: bool) -> str:
    """A part of a translation with its items, and in capitals if the source was."""
    shown: list[str] = []
    for character in text:
        item = written.item(character)
        shown.append(
            item.replace(" ", GLUE) if item != character else character.upper() if capitals else item
        )
    return "".join(shown)


def _unchanged(core: Core) -> Sentence:
    """A sentence with nothing to translate, with its marks."""
    pieces: list[str] = []
    end = 0
    for mark in core.marks:
        pieces += [core.text[end : mark.position], mark.part.text, mark.after if mark.before else ""]
        end = mark.position
    text = core.prefix + "".join([*pieces, core.text[end:]]) + core.suffix
    return Sentence(text, text)
