"""How a text is continued: what can be asked for, the writing itself, and what comes of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

import torch

from clearhead.decoding import (
    MAX_SEED,
    Adjust,
    Constraints,
    DecodeLoop,
    Hypothesis,
    check_sampling,
    most_probable,
    repetition_penalty,
    sampled,
)
from clearhead.errors import SettingsError
from clearhead.options import check_types
from clearhead.tasks.language.sliding_window import Sliding
from clearhead.text.detokenizer import StreamDetokenizer

if TYPE_CHECKING:
    from clearhead.tasks.language.model import LanguageModel

# Far beyond use; what is written still fits into memory.
MOST_TOKENS, MOST_SAMPLES = 1_000_000, 1_000
# Stands for an end where a tokenizer has no sign for it: no token is this.
ENDLESS = -1


class StreamedText(NamedTuple):
    """What a step has told of a continuation; several may come from one step, and none from another."""

    sample: int
    text: str


@dataclass(frozen=True)
class Generation:
    """A prompt and its continuation; `str()` gives both, or the text alone where it answers."""

    prompt: str
    text: str
    """The continuation, without the stop string or sign that ended it."""
    ended: Literal["end", "stop", "length"]
    """By the model, by a stop string, or because all tokens that were asked for are there."""
    tokens: tuple[str, ...] = field(default=(), repr=False)
    log_probabilities: tuple[float, ...] = field(default=(), repr=False)
    """The model's own, of each token and of the end."""
    alternatives: tuple[tuple[tuple[str, float], ...], ...] = field(default=(), repr=False)
    """The most probable tokens at each position, if so many `logprobs` were asked for."""
    unseen: int = 0
    """So many tokens of the prompt, the first ones, did not fit into the context."""
    answers: bool = False
    """Whether the model has learned to answer prompts, not to continue them."""
    samples: tuple["Generation", ...] = field(default=(), repr=False)
    """All that were asked for; the first is this one."""

    def __str__(self) -> str:
        return self.text if self.answers else self.prompt + self.text

    @property
    def log_probability(self) -> float:
        return sum(self.log_probabilities)


@dataclass(frozen=True)
class GenerateOptions:
    """How to continue a text."""

    tokens: int = 200
    """The most that are added."""
    temperature: float = 0.8
    """0 takes the most probable token at each position; 1 draws as the model has it."""
    top_k: int | None = None
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    """Above 1, tokens of the prompt and of what was written become less likely."""
    stop: str | Sequence[str] = ()
    """Texts at which the continuation ends; it does not hold them."""
    seed: int = 0
    samples: int = 1
    logprobs: int = 0
    """So many of the most probable tokens are told beside each."""
    overflow: Literal["slide", "cut"] = "slide"
    """What does not fit into the context: slide forgets what is oldest; cut shortens the prompt until prompt
    and continuation fit together."""

    def __post_init__(self) -> None:
        """What is wrong is said before any work, all at once."""
        check_types(self)
        problems = []
        for name, least, most in (
            ("tokens", 1, MOST_TOKENS),
            ("samples", 1, MOST_SAMPLES),
            ("logprobs", 0, None),
        ):
            value = getattr(self, name)
            if value < least:
                problems.append(f"{name}: {value} should be at least {least}")
            if most and value > most:
                problems.append(f"{name}: {value} should be at most {most:,}; ask several times")
        if not 0 <= self.seed <= MAX_SEED:
            problems.append(f"seed: {self.seed} should be from 0 to {MAX_SEED}")
        if "" in self.stops:
            problems.append("stop: is empty, and everything begins with that; leave it out")
        for check in (self._check_temperature, self._check_drawing, self.adjustments):
            try:
                check()
            except SettingsError as error:
                problems += error.problems
        if problems:
            raise SettingsError(*problems)

    @property
    def stops(self) -> tuple[str, ...]:
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)

    @property
    def greedy(self) -> bool:
        return self.temperature == 0

    def adjustments(self) -> list[Adjust]:
        """What bends the probabilities."""
        return [] if self.repetition_penalty == 1 else [repetition_penalty(self.repetition_penalty)]

    def _check_temperature(self) -> None:
        if not self.temperature >= 0:
            raise SettingsError(
                f"temperature: {self.temperature} should be 0, which takes the best token, or more"
            )

    def _check_drawing(self) -> None:
        check_sampling(self.temperature if self.temperature > 0 else 1.0, self.top_k, self.top_p, self.min_p)


class Writing:
    """Continuations of some prompts, which share a batch: iterating over it writes them."""

    def __init__(
        self,
        language: "LanguageModel",
        prompts: list[list[int]],
        numbers: Sequence[int],
        options: GenerateOptions,
    ):
        self.language, self.prompts, self.options = language, prompts, options
        tokenizer, self.ends = language.tokenizer, language.tokenizer.signs.ends
        self.seen = [language.fitting(prompt, options) for prompt in prompts]
        self.seeds = [options.seed + number for number in numbers]
        self.tellers = [StreamDetokenizer(tokenizer, prompt, options.stops) for prompt in self.seen]
        self.walk: DecodeLoop | None = None

    def __iter__(self) -> Iterator[StreamedText]:
        with torch.inference_mode():
            self.walk = walk = self._begun()
        positions = iter(walk)
        told = [0] * len(self.seen)
        while True:
            # Not around the yield: whoever iterates computes in their own mode.
            with torch.inference_mode():
                position = next(positions, None)
                if position is None:
                    break
                spoken = self._tell(walk, position, told)
            yield from spoken
        for row, teller in enumerate(self.tellers):
            if rest := teller.rest():
                yield StreamedText(row, rest)

    def _begun(self) -> DecodeLoop:
        options, language = self.options, self.language
        sliding = Sliding(language.engine, max(map(len, self.seen)) + options.tokens)
        each = {prompt: row for row, prompt in enumerate(dict.fromkeys(map(tuple, self.seen)))}
        state = sliding.start(list(each))
        if len(each) < len(self.seen):
            rows = [each[tuple(prompt)] for prompt in self.seen]
            state.select(torch.tensor(rows, device=language.device))
        constraints = Constraints(
            len(self.seen),
            _past(self.seen, options),
            self.ends or ENDLESS,
            options.tokens,
            adjust=options.adjustments(),
            device=language.device,
            suppressed_tokens=language.suppressed_tokens,
        )
        filters = (options.temperature, options.top_k, options.top_p, options.min_p)
        choose = most_probable if options.greedy else sampled(constraints, self.seeds, *filters)
        return DecodeLoop(sliding.step, state, constraints, choose, options.logprobs)

    def _tell(self, walk: DecodeLoop, position: int, told: list[int]) -> list[StreamedText]:
        """What the tokens of a position have brought; texts that have met a stop string end."""
        spoken, stopped = [], []
        for row, (token, length) in enumerate(
            zip(walk.tokens[:, position].tolist(), walk.lengths.tolist(), strict=True)
        ):
            if length == told[row]:
                continue
            told[row] = length
            text = "" if token in self.ends else self.tellers[row].add(token)
            if text:
                spoken.append(StreamedText(row, text))
            if self.tellers[row].stop is not None:
                stopped.append(row)
        if stopped:
            walk.end(stopped)
        return spoken

    def generations(self, texts: Sequence[str]) -> list[Generation]:
        """What was written of each prompt; `texts` are the prompts as they were given."""
        assert self.walk is not None
        return [
            self._generation(row, text, found)
            for row, (text, found) in enumerate(zip(texts, self.walk.hypotheses(), strict=True))
        ]

    def said(self, row: int) -> tuple[list[int], int | None]:
        """The ids that were written after a prompt, and the one that ended them, if any did."""
        assert self.walk is not None
        found = self.walk.hypotheses()[row]
        position = len(found.tokens)
        return found.tokens, int(self.walk.tokens[row, position]) if found.complete else None

    def _generation(self, row: int, text: str, found: Hypothesis) -> Generation:
        assert self.walk is not None
        pieces, positions = self.language.tokenizer.pieces, range(len(found.log_probabilities))
        shown = (
            [self.walk.alternatives[position][row] for position in positions] if self.options.logprobs else []
        )
        ended = "stop" if self.tellers[row].stop is not None else "end" if found.complete else "length"
        return Generation(
            text,
            self.tellers[row].text,
            ended,
            tuple(pieces(found.tokens)),
            tuple(found.log_probabilities),
            tuple(tuple((pieces([token])[0], log_prob) for token, log_prob in best) for best in shown),
            len(self.prompts[row]) - len(self.seen[row]),
            self.language.frame is not None,
        )


def _past(prompts: list[list[int]], options: GenerateOptions) -> torch.Tensor:
    """The prompts as one table; only adjustments need more of them than the last token.

    Rows are filled up with their own first token, which is used whether or not it comes again.
    """
    if not options.adjustments():
        return torch.tensor([prompt[-1:] for prompt in prompts])
    max_length = max(map(len, prompts))
    return torch.tensor([prompt[:1] * (max_length - len(prompt)) + prompt for prompt in prompts])
