"""An explanation: one input's tokens, its captured tensors by name, and the model's output."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import torch
from torch import Tensor, nn

from clearhead.errors import SettingsError
from clearhead.inspection.image import PatchImage
from clearhead.inspection.trace import CapturedPass, Trace, captured_pass
from clearhead.models.anatomy import Anatomy, anatomy_of
from clearhead.text.tokenizer import UNK, Tokenizer

if TYPE_CHECKING:
    from clearhead.inspection.pictures.picture import Picture
    from clearhead.inspection.relevance import Relevance
    from clearhead.inspection.save import NotebookPage

Run = Callable[[], Tensor]
"""Runs one forward pass and returns its logits: (positions, vocabulary)."""


@dataclass(frozen=True)
class Token:
    """One position of an input as the model reads it."""

    id: int
    piece: str
    """A readable label; ▁ stands for a space."""
    word: int | None = None
    """The index of the word that it belongs to; None for special tokens."""
    next: int | None = None
    """The token that is to follow, on the output side; None where it is not known."""
    log_prob: float | None = None
    """Of the next token."""
    generated: bool = False
    """Whether the model generated it."""
    unknown: bool = False
    """Whether it stands for text that is not in the vocabulary."""

    @property
    def special(self) -> bool:
        """Whether it belongs to no word."""
        return self.word is None

    def record(self) -> dict[str, Any]:
        """The token as JSON."""
        return {**asdict(self), "log_prob": finite(self.log_prob), "special": self.special}


def finite(value: float | None) -> float | None:
    """A number as JSON, which has neither infinity nor NaN: None in their stead."""
    return value if value is not None and math.isfinite(value) else None


class SearchNode(Protocol):
    """One hypothesis of a beam search, which extends its parent by a token."""

    parent: int | None
    step: int
    token: int
    log_prob: float
    score: float
    state: Literal["kept", "finished", "dropped"]
    reason: str | None
    best: bool


class SearchTree(Protocol):
    """All hypotheses that a beam search considered."""

    @property
    def nodes(self) -> Sequence[SearchNode]: ...


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """One pass through a model; `explanation[name]` is a captured tensor without the batch axis."""

    text: str
    """The input."""
    output: str
    """The translation or continuation."""
    sides: Mapping[str, tuple[Token, ...]] = field(repr=False)
    """The tokens of each side, by the names in the model's anatomy."""
    trace: Trace
    """Captured tensors by name, with the batch axis, on the CPU."""
    difference: float
    """The largest difference from the logits of the fused path; NaN if no pass was captured."""
    model: nn.Module = field(repr=False)
    run: Run = field(repr=False)
    """Repeats the pass."""
    processor: Any = field(default=None, repr=False)
    """The model's tokenizer; without one, positions are labelled by their tokens' pieces."""
    normalized: str = ""
    """The text as the tokenizer normalises it."""
    settings: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The options that produced the output."""
    name: str = field(default="", repr=False)
    """The name under which the model was loaded."""
    found: Any = field(default=None, repr=False)
    """The `Translation`, `Generation` or `Classification`; None if the output was given."""
    tree: SearchTree | None = field(default=None, repr=False)
    """The tree of the beam search, if there was one."""
    images: Mapping[str, PatchImage] = field(default_factory=dict, repr=False)
    """The image of each side whose positions are patches."""
    relevance: "Callable[[], Relevance] | None" = field(default=None, repr=False)
    """Measures how much each position of the input supports the output, if the model allows it."""

    def __getitem__(self, name: str) -> Tensor:
        return self.trace[name][0]

    def picture(
        self,
        view: str | None = None,
        *,
        attention: str | None = None,
        layer: int | None = None,
        head: int | None = None,
        query: int | None = None,
    ) -> "Picture":
        """A picture by its name in `VIEWS` (pictures/draw.py); what is not selected is chosen for clarity."""
        from clearhead.inspection.pictures.context import Selection
        from clearhead.inspection.pictures.draw import draw

        return draw(self, view, Selection(attention, layer, head, query))

    def save(
        self,
        path: Path | str,
        view: str | None = None,
        *,
        attention: str | None = None,
        layer: int | None = None,
        head: int | None = None,
        query: int | None = None,
    ) -> Path:
        """Writes a picture (.png, .svg, .pdf), the page (.html), the numbers (.json), or a folder of all."""
        from clearhead.inspection.pictures.context import Selection
        from clearhead.inspection.save import save_explanation

        return save_explanation(self, Path(path), view, Selection(attention, layer, head, query))

    def page(self, height: int = 760) -> "NotebookPage":
        """The explorer's page for a notebook, with all data inside."""
        from clearhead.inspection.save import NotebookPage

        return NotebookPage(f"{self.name}: {self.text}", WRITERS["html"](self), height)

    def __repr__(self) -> str:
        output = f" → {self.output!r}" if self.output else ""
        model = " ".join(filter(None, [self.kind, self.name]))
        sides = ", ".join(f"{len(tokens)} {side} positions" for side, tokens in self.sides.items())
        return f"Explanation({self.text!r}{output} by {model}; {sides}; {self.trace!r})"

    def _repr_png_(self) -> bytes:
        return self.picture()._repr_png_()

    def _repr_svg_(self) -> str:
        return self.picture()._repr_svg_()

    def _repr_html_(self) -> str:
        from clearhead.inspection.save import notebook_html

        return notebook_html(self)

    @property
    def anatomy(self) -> Anatomy:
        return anatomy_of(self.model)

    @property
    def kind(self) -> str:
        """The kind of model: "translator", "gpt"; without settings, the name of its class."""
        return getattr(getattr(self.model, "config", None), "kind", type(self.model).__name__)

    @property
    def target(self) -> tuple[Token, ...]:
        """The tokens of the output side, whose next tokens the model predicts."""
        return self.sides[self.anatomy.output_side]

    @property
    def source(self) -> tuple[Token, ...]:
        """The tokens of the input side; empty for a model with one side."""
        return next((tokens for side, tokens in self.sides.items() if side != self.anatomy.output_side), ())

    @property
    def sum_log_prob(self) -> float:
        """The log-probability of the target."""
        return sum(token.log_prob or 0.0 for token in self.target)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Readable labels of the ids of a text."""
        if isinstance(self.processor, Tokenizer):
            return self.processor.pieces(ids)
        known = {token.id: token.piece for tokens in self.sides.values() for token in tokens}
        return [known.get(number, str(number)) for number in ids]

    def piece(self, number: int) -> str:
        """A readable label of an id, whatever is beside it."""
        return self.pieces([number])[0]

    def with_pass(self, captured: CapturedPass) -> "Explanation":
        """The explanation with tensors and log-probabilities of another pass over its tokens."""
        sides = {**self.sides, self.anatomy.output_side: _with_log_probs(self.target, captured.logits)}
        return replace(self, sides=sides, trace=captured.trace, difference=captured.difference)


def explain_pass(
    model: nn.Module,
    run: Run,
    sides: Mapping[str, Sequence[Token]],
    names: Sequence[str] = ("*",),
    processor: Any = None,
    text: str | None = None,
    output: str = "",
    found: Any = None,
    images: Mapping[str, PatchImage] | None = None,
) -> Explanation:
    """Captures one forward pass of any model that declares an `anatomy()`.

    `run` runs the pass and returns its logits; it is called several times. `sides` holds the tokens that the
    model reads, by the sides of its anatomy; a side that is an image needs none. Only tensors that match the
    names are kept. The text defaults to the pieces of the first side.
    """
    images = images or {}
    sides = {**{side: patch_tokens(image) for side, image in images.items()}, **sides}
    expected = {side for part in anatomy_of(model).attentions for side in (part.queries, part.keys)}
    if missing := sorted(expected.difference(sides)):
        raise SettingsError(f"sides: {', '.join(missing)} missing; pass the tokens of each side")
    tokens = {side: tuple(given) for side, given in sides.items()}
    if text is None:
        text = " ".join(token.piece for token in next(iter(tokens.values())))
    explanation = Explanation(
        text, output, tokens, Trace(), float("nan"), model, run, processor, found=found, images=images
    )
    return explanation.with_pass(captured_pass(model, run, names))


def text_tokens(tokenizer: Tokenizer, ids: Sequence[int]) -> list[Token]:
    """The tokens of ids, their words numbered from 0; special tokens belong to no word."""
    specials = {*tokenizer.special_ids, tokenizer.bos_id, *tokenizer.eos_ids} - {UNK}
    first = next((position for position, number in enumerate(ids) if number not in specials), len(ids))
    words: list[int | None] = [None] * first
    for number, word in enumerate(tokenizer.words_of(ids[first:])):
        words += [None if one in specials else number for one in word]
    pieces = tokenizer.pieces(ids)
    return [
        Token(number, piece, word, unknown=number == UNK)
        for number, piece, word in zip(ids, pieces, words, strict=True)
    ]


def patch_tokens(image: PatchImage) -> list[Token]:
    """The positions of an image as tokens, which belong to no word."""
    return [Token(position, name) for position, name in enumerate(image.names)]


def with_next(tokens: Sequence[Token], ids: Sequence[int]) -> tuple[Token, ...]:
    """Tokens with the ids that follow them; the last token may have none."""
    known = [replace(token, next=number) for token, number in zip(tokens, ids, strict=False)]
    return (*known, *tokens[len(known) :])


def words_of(tokens: Sequence[Token]) -> list[dict[int, Token]]:
    """The tokens of each word by position."""
    words: dict[int, dict[int, Token]] = {}
    for position, token in enumerate(tokens):
        if token.word is not None:
            words.setdefault(token.word, {})[position] = token
    return list(words.values())


def not_captured(name: str) -> SettingsError:
    """The error for a tensor that an explanation lacks."""
    return SettingsError(f"{name}: was not captured; explain with names=['{name}', …], or without names")


def _with_log_probs(tokens: Sequence[Token], logits: Tensor | None) -> tuple[Token, ...]:
    """Tokens with the log-probabilities of their next tokens, which all but the last few have."""
    ids = [token.next for token in tokens if token.next is not None]
    if logits is None or not ids:
        return tuple(replace(token, log_prob=None) for token in tokens)
    wanted = torch.tensor(ids, dtype=torch.long)[:, None]
    log_probs = logits[: len(ids)].float().log_softmax(-1).gather(1, wanted)[:, 0].tolist()
    known = [replace(token, log_prob=one) for token, one in zip(tokens, log_probs, strict=False)]
    return (*known, *tokens[len(known) :])


WRITERS: dict[str, Callable[[Explanation], str]] = {}
"""Writers of a whole explanation as text, by file ending; save.py adds json, the explorer html."""
