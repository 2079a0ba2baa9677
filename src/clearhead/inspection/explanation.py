"""What one text did inside a model: its tokens, every tensor by name, and what the model made of it."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from clearhead.data.batch import PairBatch
from clearhead.errors import SettingsError
from clearhead.inspection import Trace, capture
from clearhead.layers.layout import Padded
from clearhead.models import GPT, Translator
from clearhead.options import options_of
from clearhead.text.tokenizer import BOS, EOS, UNK, Tokenizer

if TYPE_CHECKING:
    from clearhead.inspection.pictures.picture import Picture
    from clearhead.inspection.save import Frame


@dataclass(frozen=True)
class Token:
    """One token of a text as a model reads it."""

    id: int
    piece: str
    """As one can read it: blanks as ▁."""
    word: int | None
    """The number of the word of the text that it is a part of; None for signs."""
    next: int | None = None
    """The id that a decoder is to say at this position; None where nothing is, or nothing yet."""
    log_probability: float | None = None
    """Of that id, as the model has it."""
    written: bool = False
    """Whether the model wrote it."""

    @property
    def special(self) -> bool:
        """Whether it is a sign, and no part of a text."""
        return self.word is None

    def record(self) -> dict[str, Any]:
        """As JSON has it."""
        return {**asdict(self), "special": self.special}


@dataclass(frozen=True)
class Look:
    """One pass over a text that was looked into."""

    trace: Trace
    logits: Tensor | None
    """None where nothing was to be looked at, and no pass was made."""
    difference: float
    """The largest difference between these logits and those of a pass that nobody looks into."""


@dataclass(frozen=True, eq=False)
class Explanation:
    """What one text did inside a model; `explanation[name]` is a tensor of it, without the batch's axis."""

    text: str
    """As it was given."""
    normalized: str
    """As the tokenizer spells it."""
    output: str
    """The translation, or the continuation."""
    source: tuple[Token, ...] = field(repr=False)
    """What the encoder read; a GPT has none, and nothing here."""
    target: tuple[Token, ...] = field(repr=False)
    """What the decoder read, and at each position what it was to say next."""
    trace: Trace
    """Tensors by name, with the batch's axis, on the processor; the names are those of `capture`."""
    difference: float
    """The largest difference between the logits of the pass that was looked into and those of a fused one.

    NaN where nothing was to be looked at.
    """
    model: Translator | GPT = field(repr=False)
    tokenizer: Tokenizer = field(repr=False)
    settings: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """How the output was looked for."""
    name: str = field(default="", repr=False)
    """Of the model, as it was loaded by."""
    found: Any = field(default=None, repr=False)
    """The `Translation` or `Generation`; None where the output was given."""
    tree: Any = field(default=None, repr=False)
    """All that a search with a beam has looked at."""

    def __getitem__(self, name: str) -> Tensor:
        return self.trace[name][0]

    def picture(self, view: str | None = None, **choice: Any) -> "Picture":
        """One of its pictures, by name, of an attention, layer, head and query; see `tasks/drawing.py`."""
        from clearhead.inspection.pictures.draw import Choice, draw

        return draw(self, view, options_of(Choice, choice))

    def save(self, path: Path | str, view: str | None = None, **choice: Any) -> Path:
        """Writes a picture (.png, .svg, .pdf), the explorer's page in a file (.html), or numbers (.json)."""
        from clearhead.inspection.save import save_explanation

        return save_explanation(self, Path(path), view, **choice)

    def page(self, height: int = 760) -> "Frame":
        """The explorer's views of it in a notebook: a frame that holds all that it shows."""
        from clearhead.inspection.save import framed

        return framed(self, height)

    def _repr_html_(self) -> str:
        """How a notebook shows it."""
        from clearhead.inspection.save import shown

        return shown(self)

    @property
    def kind(self) -> str:
        """translator or gpt."""
        return self.model.config.kind

    @property
    def log_probability(self) -> float:
        """Of all that the decoder was to say, as the model has it."""
        return sum(token.log_probability or 0.0 for token in self.target)

    def logits(self) -> Tensor:
        """Of one more pass over the same ids: (positions, vocabulary)."""
        ids = [token.id for token in self.target]
        if isinstance(self.model, GPT):
            return _text_logits(self.model, ids)
        return _pair_logits(self.model, [token.id for token in self.source[:-1]], ids[1:])

    def seen(self, look: Look) -> "Explanation":
        """The same, with what another pass over it has shown."""
        said = [token.next for token in self.target if token.next is not None]
        told = _told(self.target, said, look.logits)
        return replace(self, trace=look.trace, difference=look.difference, target=told)


def _json(explanation: Explanation) -> str:
    from clearhead.inspection.save import json_text

    return json_text(explanation)


WRITERS: dict[str, Callable[[Explanation], str]] = {"json": _json}
"""What writes all of an explanation as text, by the file's ending; the explorer adds html."""


def not_captured(name: str) -> SettingsError:
    """What to say where an explanation was made without this tensor."""
    return SettingsError(f"{name}: was not captured; explain with names=['{name}', …], or without names")


def look_at_pair(
    model: Translator, source: Sequence[int], target: Sequence[int], names: Sequence[str] = ("*",)
) -> Look:
    """A pass over a pair of ids; the encoder reads the source and </s>, the decoder <s> and the target."""
    return _look(model, lambda: _pair_logits(model, source, target), names)


def look_at_text(model: GPT, words: Sequence[int], names: Sequence[str] = ("*",)) -> Look:
    """A pass over a text of these ids."""
    return _look(model, lambda: _text_logits(model, words), names)


def _pair_logits(model: Translator, source: Sequence[int], target: Sequence[int]) -> Tensor:
    batch = PairBatch.of([source], [target]).to(model.readout_weight.device)
    return model(batch.source, Padded(batch.source_lengths), batch.inputs)[0]


def _text_logits(model: GPT, words: Sequence[int]) -> Tensor:
    return model(torch.tensor([list(words)], device=model.readout_weight.device))[0]


@torch.no_grad()
def _look(model: nn.Module, run: Callable[[], Tensor], names: Sequence[str]) -> Look:
    if not names:
        return Look(Trace(), None, math.nan)
    fused = run()
    with capture(model, names) as trace:
        logits = run()
    return Look(trace.to("cpu"), logits.cpu(), float((logits - fused).abs().max()))


def source_tokens(tokenizer: Tokenizer, ids: Sequence[int], text: str | None = None) -> tuple[Token, ...]:
    """What an encoder reads: ids, and </s>; words are those of the text that the last ids are from."""
    tokens = _tokens(tokenizer, ids)
    # What is not in the vocabulary can be told apart into words only as long as there is a text.
    numbers = tokenizer.word_numbers(text) if text else []
    for position, number in enumerate(numbers, start=len(ids) - len(numbers)):
        tokens[position] = replace(tokens[position], word=number)
    return (*tokens, *_tokens(tokenizer, [EOS]))


def target_tokens(
    tokenizer: Tokenizer, ids: Sequence[int], look: Look, ends: bool = True, written: bool = True
) -> tuple[Token, ...]:
    """What a translator's decoder reads, and what it is to say: the target, and </s> if it ends."""
    tokens = [replace(token, written=written) for token in _tokens(tokenizer, ids)]
    return _told([*_tokens(tokenizer, [BOS]), *tokens], [*ids, EOS] if ends else ids, look.logits)


def text_tokens(
    tokenizer: Tokenizer, prompt: Sequence[int], said: Sequence[int], look: Look, end: int | None
) -> tuple[Token, ...]:
    """What a GPT reads: a prompt and what it wrote after it; `end` is what it said last, if it ended."""
    ids = [*prompt, *said]
    tokens = _tokens(tokenizer, ids)
    tokens[len(prompt) :] = [replace(token, written=True) for token in tokens[len(prompt) :]]
    return _told(tokens, ids[1:] if end is None else [*ids[1:], end], look.logits)


def _tokens(tokenizer: Tokenizer, ids: Sequence[int]) -> list[Token]:
    """The tokens of ids; the words of a text are numbered, and signs have no number."""
    signs = {*range(len(tokenizer.special_tokens)), tokenizer.bos_id, *tokenizer.eos_ids} - {UNK}
    first = next((position for position, number in enumerate(ids) if number not in signs), len(ids))
    numbers: list[int | None] = [None] * first
    for number, word in enumerate(tokenizer.words([ids[first:]])[0]):
        numbers += [None if one in signs else number for one in word]
    return [Token(*each) for each in zip(ids, tokenizer.pieces(ids), numbers, strict=True)]


def _told(tokens: Sequence[Token], said: Sequence[int], logits: Tensor | None) -> tuple[Token, ...]:
    """The tokens with what is said at their positions, and how probable that is; the last may say nothing."""
    wanted, log_probs = torch.tensor(list(said), dtype=torch.long), [None] * len(said)
    if logits is not None:
        log_probs = logits[: len(said)].float().log_softmax(-1).gather(1, wanted[:, None])[:, 0].tolist()
    told = [
        replace(token, next=word, log_probability=log_prob)
        for token, word, log_prob in zip(tokens, said, log_probs, strict=False)
    ]
    return (*told, *tokens[len(told) :])
