"""A trained translator in use: texts in, translations out."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import torch
from torch import Tensor

from clearhead.checkpoint import Checkpoint
from clearhead.config import parse_settings
from clearhead.data.progress import ProgressCallback, ignore_progress
from clearhead.data.sources.corpus import Columns, DataPath
from clearhead.decoding import Tree
from clearhead.errors import SettingsError, TextError
from clearhead.inspection.alignment import Aligner, WordAlignment
from clearhead.inspection.explanation import Explanation, explain_pass
from clearhead.models import EncoderDecoder
from clearhead.models.cuda_graph import is_tapped
from clearhead.models.static_step import StepEngine
from clearhead.options import as_texts, check_text
from clearhead.tasks.evaluation import Evaluation, TokenCallback, ignore_tokens
from clearhead.tasks.model import DecodingModel
from clearhead.tasks.scoring import TextScore
from clearhead.tasks.translation.chunks import in_chunks
from clearhead.tasks.translation.directions import (
    Direction,
    check_target,
    saved_directions,
    tag_ids,
    targets,
)
from clearhead.tasks.translation.documents import Document, DocumentTranslator
from clearhead.tasks.translation.options import Sampling, SearchConfig, TranslateOptions
from clearhead.tasks.translation.pair import pair_logits, source_tokens, target_tokens
from clearhead.tasks.translation.search import Translation, search, search_all
from clearhead.tasks.translation.shortlist_engine import ShortlistEngine
from clearhead.text.blocks import Format
from clearhead.text.normalize import normalize
from clearhead.text.spelling import Unspelled
from clearhead.text.tokenizer import EOS, Tokenizer

if TYPE_CHECKING:
    from clearhead.tasks.translation.shortlist import Shortlist

log = logging.getLogger(__name__)


class TranslationModel(DecodingModel):
    """A translator with its tokenizer and its directions."""

    task = "translation"
    evaluate_unit = "sentence"

    def __init__(
        self,
        model: EncoderDecoder,
        tokenizer: Tokenizer,
        directions: Sequence[Direction],
        search: SearchConfig,
    ):
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.directions = tuple(directions)
        self.search = search
        self._tags = tag_ids(directions, tokenizer)
        self._shortlist: "Shortlist | None" = None
        self._limited: ShortlistEngine | None = None

    @property
    def shortlist(self) -> "Shortlist | None":
        """The vocabulary shortlist that limits translations on a CPU, if there is one."""
        return self._shortlist

    @shortlist.setter
    def shortlist(self, shortlist: "Shortlist | None") -> None:
        if shortlist is not None:
            if not hasattr(shortlist, "languages"):
                raise SettingsError(f"shortlist: {shortlist!r} is not a Shortlist; use Shortlist.load")
            shortlist.check(self.tokenizer, targets(self.directions))
            if not is_tapped(self.model) and not isinstance(super().engine, StepEngine):
                log.warning("shortlist: no effect; it needs a Transformer without window or ALiBi, on a CPU")
        self._shortlist, self._limited = shortlist, None

    @property
    def engine(self) -> Any:
        """The copy of the model that decodes fastest; while the model is tapped, the model itself."""
        engine, shortlist = super().engine, self._shortlist
        if shortlist is None or not isinstance(engine, StepEngine):
            return engine
        if self._limited is None or self._limited.engine is not engine:
            by_tag = {
                self._tags.get(language): shortlist.languages[language]
                for language in targets(self.directions)
                if language in shortlist.languages
            }
            self._limited = ShortlistEngine(engine, by_tag, self.tokenizer, self.model.readout_weight)
        return self._limited

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> "TranslationModel":
        settings = checkpoint.settings
        search = parse_settings(SearchConfig, settings.get("search", {}), group="search")
        assert isinstance(checkpoint.model, EncoderDecoder)
        return cls(checkpoint.model, checkpoint.processor, saved_directions(settings), search)

    def variant(self, name: str) -> "TranslationModel":
        """The same model for a single direction, such as "en-de"."""
        one = copy(self)
        one.directions = tuple(direction for direction in self.directions if str(direction) == name)
        return one

    def facts(self) -> list[str]:
        return [
            ", ".join(f"{one.source} → {one.target}" for one in self.directions),
            f"vocabulary {self.tokenizer.size:,}",
        ]

    @property
    def device(self) -> torch.device:
        return self.model.readout_weight.device

    @property
    def max_length(self) -> int:
        """Maximum number of tokens of a text, without </s> and the language tag."""
        return self.model.config.max_tokens - bool(self._tags)

    def tag(self, to: str | None) -> list[int]:
        """The ids before each source that select the target language."""
        target = check_target(self.directions, to)
        return [self._tags[target]] if self._tags else []

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of texts, which are normalized as the training pairs were; without a tag."""
        return self.tokenizer.encode_batch(list(map(normalize, texts)))

    def text_ids(self, text: str) -> list[int]:
        """The ids of a text of any length, without a tag."""
        return self.encode([text])[0]

    @overload
    def translate(
        self,
        texts: str,
        to: str | None = None,
        *,
        beam: int | None = None,
        nbest: int = 1,
        length_penalty: float | None = None,
        prefix: str | Sequence[int] = "",
        repetition_penalty: float = 1.0,
        no_repeat: int = 0,
        sampling: Sampling | None = None,
    ) -> Translation: ...
    @overload
    def translate(
        self,
        texts: list[str],
        to: str | None = None,
        *,
        beam: int | None = None,
        nbest: int = 1,
        length_penalty: float | None = None,
        prefix: str | Sequence[int] = "",
        repetition_penalty: float = 1.0,
        no_repeat: int = 0,
        sampling: Sampling | None = None,
    ) -> list[Translation]: ...
    def translate(
        self,
        texts: str | list[str],
        to: str | None = None,
        *,
        beam: int | None = None,
        nbest: int = 1,
        length_penalty: float | None = None,
        prefix: str | Sequence[int] = "",
        repetition_penalty: float = 1.0,
        no_repeat: int = 0,
        sampling: Sampling | None = None,
    ) -> Translation | list[Translation]:
        """Translates a text, or a list of texts in order; blank texts stay blank.

        `to` is required if the model writes several languages. Keyword arguments are those of
        `TranslateOptions`. The result for a text does not depend on the texts beside it.
        """
        options = TranslateOptions(
            beam, nbest, length_penalty, prefix, repetition_penalty, no_repeat, sampling
        ).resolved(self.search)
        tag, several = self.tag(to), as_texts(texts)
        encoded = self.encode(several)
        unspelled = Unspelled(self.tokenizer)
        unspelled.add(several, encoded)
        self._warn(unspelled)
        for number, (text, ids) in enumerate(zip(several, encoded, strict=True), start=1):
            if len(ids) > self.max_length:
                raise self._too_long(f"text {number}", text, len(ids))
        found = self._translate(several, encoded, tag, options)
        return found[0] if isinstance(texts, str) else found

    @property
    def default_batch_size(self) -> int:
        """How many texts of a stream are translated together; a GPU needs many to be busy."""
        return 512 if self.model.readout_weight.device.type == "cpu" else 4096

    def translations(
        self,
        texts: Iterable[str],
        to: str | None = None,
        *,
        batch_size: int | None = None,
        options: TranslateOptions | None = None,
    ) -> Iterator[Translation]:
        """Translations in the order of the texts, which may be an endless stream.

        `batch_size` texts are translated together, by default `default_batch_size`. A text that is too long
        for the model has an empty translation, marked `too_long`. If reading a text fails, the translations
        of all texts before it come first.
        """
        tag, options = self.tag(to), (options or TranslateOptions()).resolved(self.search)
        if isinstance(texts, str):
            raise TextError(f"texts: {texts!r:.40} is one text; give a list, or use translate")
        batch_size = self.default_batch_size if batch_size is None else batch_size
        if batch_size < 1:
            raise SettingsError(f"batch_size: {batch_size} should be at least 1")
        done, unspelled = 0, Unspelled(self.tokenizer)
        for chunk, problem in in_chunks(iter(texts), batch_size):
            for number, text in enumerate(chunk, start=done + 1):
                check_text(text, f"text {number}")
            encoded = self.encode(chunk)
            unspelled.add(chunk, encoded)
            long = [len(ids) > self.max_length for ids in encoded]
            shortened = [[] if is_long else ids for ids, is_long in zip(encoded, long, strict=True)]
            found = self._translate(chunk, shortened, tag, options, done)
            for one, is_long in zip(found, long, strict=True):
                yield replace(one, complete=False, too_long=True) if is_long else one
            if problem:
                raise problem
            done += len(chunk)
        self._warn(unspelled)

    def translate_document(
        self,
        text: str,
        to: str | None = None,
        *,
        format: Format = "markdown",
        mark: float | None = None,
        beam: int | None = None,
        length_penalty: float | None = None,
        repetition_penalty: float = 1.0,
        no_repeat: int = 0,
    ) -> Document:
        """Translates a document in Markdown or plain text, all sentences in one batch.

        Its structure is kept, and so are numbers, URLs, addresses, code, placeholders, tags and emoji.
        Sentences whose confidence is below `mark` are marked ⟪like this⟫. The other keyword arguments are
        those of `translate`.
        """
        options = TranslateOptions(
            beam, length_penalty=length_penalty, repetition_penalty=repetition_penalty, no_repeat=no_repeat
        )
        return DocumentTranslator(self, to, format=format, mark=mark, options=options).translate(text)

    def stream(
        self,
        texts: Iterable[str],
        to: str | None = None,
        *,
        batch_size: int | None = None,
        options: TranslateOptions | None = None,
    ) -> Iterator[Translation]:
        """Like `translations`, but raises a TextError at the end if any text was too long."""
        first, count = None, 0
        for number, one in enumerate(
            self.translations(texts, to, batch_size=batch_size, options=options), start=1
        ):
            if one.too_long:
                first = first or self._too_long(f"text {number}", one.source)
                count += 1
            yield one
        if first:
            raise TextError(f"{first}; texts too long: {count:,}; all others are translated")

    def explain(
        self,
        text: str,
        to: str | None = None,
        *,
        target: str | None = None,
        names: Sequence[str] = ("*",),
        beam: int | None = None,
        nbest: int = 1,
        length_penalty: float | None = None,
        prefix: str | Sequence[int] = "",
        repetition_penalty: float = 1.0,
        no_repeat: int = 0,
        sampling: Sampling | None = None,
    ) -> Explanation:
        """A translation at full speed, then one captured pass over text and translation.

        Captures a given `target` instead of the model's own translation. Keeps only tensors whose names
        match. The other keyword arguments are those of `translate`.
        """
        options = TranslateOptions(
            beam, nbest, length_penalty, prefix, repetition_penalty, no_repeat, sampling
        ).resolved(self.search)
        check_text(text)
        if target is not None:
            check_text(target, "target")
        tag, ids = self.tag(to), self.encode_one(text)
        if not ids:
            raise TextError("text: is blank; give a sentence to explain")
        source, found, tree = tag + ids, [], None
        if target is None:
            tree = None if options.sampling else Tree(EOS, options.beam or 1)
            (found,) = search(super().engine, self.tokenizer, [source], [0], options, tree)
        target_ids = (
            found[0].tokens if found else self.encode_one(target or "", "target", self.tokenizer.for_targets)
        )
        sides = {
            "source": source_tokens(self.tokenizer, source, normalize(text)),
            "target": target_tokens(self.tokenizer, target_ids, not found or found[0].complete, bool(found)),
        }
        explanation = explain_pass(
            self.model,
            lambda: pair_logits(self.model, source, target_ids),
            sides,
            names,
            self.tokenizer,
            text,
            self.tokenizer.decode(target_ids),
        )
        return replace(
            explanation,
            normalized=self.tokenizer.normalized(normalize(text)),
            settings={"to": check_target(self.directions, to), **asdict(options)},
            name=self.name,
            found=Translation.of(text, found, self.tokenizer) if found else None,
            tree=tree,
        )

    @overload
    def score(self, source: str, target: str | Translation, to: str | None = None) -> TextScore: ...
    @overload
    def score(
        self, source: list[str], target: Sequence[str | Translation], to: str | None = None
    ) -> list[TextScore]: ...
    def score(
        self,
        source: str | list[str],
        target: str | Translation | Sequence[str | Translation],
        to: str | None = None,
    ) -> TextScore | list[TextScore]:
        """The log-probability of a given translation, </s> included, or of each of several.

        A `Translation` is scored by the tokens that the search found, so that its score is the same again,
        unless a shortlist limited the search.
        """
        from clearhead.tasks.translation.scoring import as_pairs, score_pairs

        found = score_pairs(self, as_pairs(source, target), to)
        return found[0] if isinstance(source, str) else found

    @overload
    def align(
        self,
        source: str,
        target: str | Translation,
        to: str | None = None,
        *,
        aligner: Aligner | None = None,
    ) -> WordAlignment: ...
    @overload
    def align(
        self,
        source: list[str],
        target: Sequence[str | Translation],
        to: str | None = None,
        *,
        aligner: Aligner | None = None,
    ) -> list[WordAlignment]: ...
    def align(
        self,
        source: str | list[str],
        target: str | Translation | Sequence[str | Translation],
        to: str | None = None,
        *,
        aligner: Aligner | None = None,
    ) -> WordAlignment | list[WordAlignment]:
        """The words of a text and of a translation that belong together, or those of each pair of texts.

        By default, the head of cross-attention that aligns these texts best is chosen; more texts make the
        choice more reliable. `aligner` names another one.
        """
        from clearhead.tasks.translation.alignment import align_pairs
        from clearhead.tasks.translation.scoring import as_pairs

        found = align_pairs(self, as_pairs(source, target), to, aligner)
        return found[0] if isinstance(source, str) else found

    def evaluate(
        self,
        folder: Path | str | None = None,
        *,
        pairs: DataPath | None = None,
        against: Path | str | None = None,
        source: str | None = None,
        target: str | None = None,
        beam: int | None = None,
        length_penalty: float | None = None,
        out: Path | str | None = None,
        columns: Columns | None = None,
        progress: ProgressCallback = ignore_progress,
        generated: TokenCallback = ignore_tokens,
        reading: ProgressCallback = ignore_progress,
    ) -> Evaluation:
        """BLEU, chrF and TER on pairs, or on the test pairs held out in the model's folder.

        `against` is another model, or a file of its translations, to compare with; `out` receives the
        translations. `source` and `target` choose among several languages, `columns` among those of the file.
        `generated` receives the number of tokens of each translation.
        """
        from clearhead.tasks.translation.evaluate import evaluate

        return evaluate(
            self,
            self._held_out(folder),
            pairs=pairs,
            columns=columns,
            source=source,
            target=target,
            against=None if against is None else Path(against),
            out=None if out is None else Path(out),
            options=TranslateOptions(beam=beam, length_penalty=length_penalty),
            progress=progress,
            generated=generated,
        )

    def about(self) -> dict[str, Any]:
        """The directions, limits and search settings, for the explorer."""
        languages = [{"source": one.source, "target": one.target} for one in self.directions]
        search = {"beam": self.search.beam, "length_penalty": self.search.length_penalty}
        return {"languages": languages, "max_tokens": self.max_length, **search}

    def explain_options(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of `explain` for an explorer request."""
        given = {"to": request.get("to") or self.directions[0].target, "target": request.get("target")}
        beam, prefix = request.get("beam"), request.get("forced") or request.get("prefix")
        return {**given, **({"beam": beam} if beam else {}), **({"prefix": prefix} if prefix else {})}

    @torch.inference_mode()
    def next_logits(
        self, text: str, generated: Sequence[int] = (), to: str | None = None
    ) -> tuple[Tensor, int]:
        """The logits after these tokens of a translation, and the number of tokens the decoder has read."""
        [source], limit = self.encode([text]), self.max_length
        if not source:
            raise TextError("text: is empty; give a text to translate")
        if len(source) > limit or len(generated) > self.model.config.max_tokens:
            length = max(len(source), len(generated))
            raise TextError(f"text: {length} tokens, but the model takes at most {limit}; shorten it")
        logits = pair_logits(self.model, [*self.tag(to), *source], generated)
        return logits[-1], len(generated) + 1

    def _warn(self, unspelled: Unspelled) -> None:
        if warning := unspelled.warning(self.name or "this model", "text"):
            log.warning(warning)

    def encode_one(self, text: str, name: str = "text 1", tokenizer: Tokenizer | None = None) -> list[int]:
        """The ids of a text; raises TextError, with its name, if it is too long for the model."""
        ids = (tokenizer or self.tokenizer).encode(normalize(text))
        if len(ids) > self.max_length:
            raise self._too_long(name, text, len(ids))
        return ids

    def _too_long(self, name: str, text: str, tokens: int | None = None) -> TextError:
        shown = " ".join(text[:40].split())
        tokens = len(self.encode([text])[0]) if tokens is None else tokens
        return TextError(
            f"{name} ('{shown}…'): {tokens} tokens, but the model takes at most {self.max_length}; split it"
        )

    def _translate(
        self,
        texts: Sequence[str],
        encoded: Sequence[list[int]],
        tag: list[int],
        options: TranslateOptions,
        before: int = 0,
    ) -> list[Translation]:
        """Translations of tokenised texts; `before` counts earlier texts, for the seed of each."""
        sources = [tag + ids if ids else [] for ids in encoded]
        found = search_all(self.engine, self.tokenizer, sources, options, before)
        return [Translation.of(text, best, self.tokenizer) for text, best in zip(texts, found, strict=True)]
