"""Text generation: options, decoding and results."""

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
    sampler,
)
from clearhead.errors import SettingsError
from clearhead.layers.searching import rows_moved
from clearhead.options import Options
from clearhead.text.detokenizer import StreamDetokenizer

if TYPE_CHECKING:
    from clearhead.tasks.language.model import LanguageModel

# Beyond any practical use, but the result still fits into memory.
MAX_TOKENS, MAX_SAMPLES = 1_000_000, 1_000
# Stands for the end-of-text id of a tokenizer that has none; no token has this id.
NO_END = -1


class StreamedText(NamedTuple):
    """A piece of the continuation of one of the samples."""

    sample: int
    text: str


@dataclass(frozen=True)
class Generation:
    """A prompt and its continuation; `str()` gives both, or only the answer of an instruction model."""

    prompt: str
    text: str
    """The continuation, without the stop string or special token that ended it."""
    ended: Literal["end", "stop", "length"]
    """What ended it: the model, a stop string, or the maximum number of tokens."""
    tokens: tuple[str, ...] = field(default=(), repr=False)
    log_probs: tuple[float, ...] = field(default=(), repr=False)
    """Log-probability of each token, and of the end token if the model ended the text."""
    alternatives: tuple[tuple[tuple[str, float], ...], ...] = field(default=(), repr=False)
    """The most probable tokens at each position; empty unless `logprobs` is set."""
    truncated: int = 0
    """Number of tokens at the start of the prompt that did not fit into the context."""
    answers: bool = False
    """Whether the model answers prompts instead of continuing them."""
    samples: tuple["Generation", ...] = field(default=(), repr=False)
    """All samples, this one first."""

    def __str__(self) -> str:
        return self.text if self.answers else self.prompt + self.text

    @property
    def sum_log_prob(self) -> float:
        return sum(self.log_probs)


@dataclass(frozen=True)
class GenerateOptions(Options):
    """How to continue a text."""

    tokens: int = 200
    """Maximum number of tokens to add."""
    temperature: float = 0.8
    """0 is greedy; 1 samples from the model's own distribution."""
    top_k: int | None = None
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    """Above 1, tokens of the prompt and of the continuation become less likely."""
    stop: str | Sequence[str] = ()
    """Strings that end the continuation; they are not part of it."""
    seed: int = 0
    samples: int = 1
    logprobs: int = 0
    """How many of the most probable tokens to report at each position."""
    overflow: Literal["slide", "cut"] = "slide"
    """When prompt and continuation exceed the context: "slide" forgets the oldest tokens, "cut" shortens the
    prompt up front."""

    def __post_init__(self) -> None:
        super().__post_init__()
        problems = []
        limits = {"tokens": (1, MAX_TOKENS), "samples": (1, MAX_SAMPLES), "logprobs": (0, None)}
        for name, (least, most) in limits.items():
            value = getattr(self, name)
            if value < least:
                problems.append(f"{name}: {value} should be at least {least}")
            if most and value > most:
                problems.append(f"{name}: {value} should be at most {most:,}; call it several times")
        if not 0 <= self.seed <= MAX_SEED:
            problems.append(f"seed: {self.seed} should be from 0 to {MAX_SEED}")
        if "" in self.stops:
            problems.append("stop: an empty string would end every text at once; leave it out")
        if not self.temperature >= 0:
            problems.append(f"temperature: {self.temperature} should be 0 (greedy) or more")
        temperature = self.temperature if self.temperature > 0 else 1.0
        for check in (
            lambda: check_sampling(temperature, self.top_k, self.top_p, self.min_p),
            self.adjustments,
        ):
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
        """The penalties on the logits."""
        return [] if self.repetition_penalty == 1 else [repetition_penalty(self.repetition_penalty)]


class Decoder:
    """Generates the continuations of a batch of prompts; iterating over it yields text as it is generated."""

    def __init__(
        self,
        language: "LanguageModel",
        prompts: list[list[int]],
        numbers: Sequence[int],
        options: GenerateOptions,
    ):
        self.language, self.prompts, self.options = language, prompts, options
        tokenizer, self.ends = language.tokenizer, language.tokenizer.eos_ids
        self.visible = [language.visible(prompt, options) for prompt in prompts]
        self.seeds = [options.seed + number for number in numbers]
        self.detokenizers = [StreamDetokenizer(tokenizer, ids, options.stops) for ids in self.visible]
        self.loop: DecodeLoop | None = None

    def __iter__(self) -> Iterator[StreamedText]:
        with torch.inference_mode():
            self.loop = loop = self._start()
        positions = iter(loop)
        lengths = [0] * len(self.visible)
        while True:
            # Not around the yield: the caller may be in another mode.
            with torch.inference_mode():
                position = next(positions, None)
                if position is None:
                    break
                pieces = self._detokenize(loop, position, lengths)
            yield from pieces
        for row, detokenizer in enumerate(self.detokenizers):
            if rest := detokenizer.rest():
                yield StreamedText(row, rest)

    def generations(self, texts: Sequence[str]) -> list[Generation]:
        """The finished continuation of each prompt; `texts` are the prompts as given."""
        assert self.loop is not None
        return [
            self._generation(row, text, found)
            for row, (text, found) in enumerate(zip(texts, self.loop.hypotheses(), strict=True))
        ]

    def continuation(self, row: int) -> tuple[list[int], int | None]:
        """The generated ids after a prompt, and the special token that ended them, if any."""
        assert self.loop is not None
        found = self.loop.hypotheses()[row]
        end = int(self.loop.tokens[row, len(found.tokens)]) if found.complete else None
        return found.tokens, end

    def _start(self) -> DecodeLoop:
        options, language = self.options, self.language
        window = language.window(max(map(len, self.visible)) + options.tokens)
        # Equal prompts share one pass.
        distinct = {ids: row for row, ids in enumerate(dict.fromkeys(map(tuple, self.visible)))}
        state = window.start(list(distinct))
        if len(distinct) < len(self.visible):
            chosen = [distinct[tuple(ids)] for ids in self.visible]
            rows = torch.tensor(chosen, device=language.device)
            state.select(rows)
            rows_moved(rows)
        constraints = Constraints(
            _past(self.visible, options).to(language.device),
            self.ends or NO_END,
            options.tokens,
            adjust=options.adjustments(),
            suppressed_tokens=language.suppressed_tokens,
        )
        filters = (options.temperature, options.top_k, options.top_p, options.min_p)
        choose = most_probable if options.greedy else sampler(constraints, self.seeds, *filters)
        return DecodeLoop(window.step, state, constraints, choose, options.logprobs)

    def _detokenize(self, loop: DecodeLoop, position: int, lengths: list[int]) -> list[StreamedText]:
        """The text completed by the tokens at a position; texts that reach a stop string end."""
        pieces, stopped = [], []
        tokens = loop.tokens[:, position].tolist()
        for row, (token, length) in enumerate(zip(tokens, loop.lengths.tolist(), strict=True)):
            if length == lengths[row]:
                continue
            lengths[row] = length
            text = "" if token in self.ends else self.detokenizers[row].add(token)
            if text:
                pieces.append(StreamedText(row, text))
            if self.detokenizers[row].stop is not None:
                stopped.append(row)
        if stopped:
            loop.stop(stopped)
        return pieces

    def _generation(self, row: int, text: str, found: Hypothesis) -> Generation:
        assert self.loop is not None
        pieces = self.language.tokenizer.pieces
        count = len(found.log_probs) if self.options.logprobs else 0
        alternatives = [self.loop.alternatives[position][row] for position in range(count)]
        stopped = self.detokenizers[row].stop is not None
        return Generation(
            text,
            self.detokenizers[row].text,
            "stop" if stopped else "end" if found.complete else "length",
            tuple(pieces(found.tokens)),
            tuple(found.log_probs),
            tuple(tuple((pieces([token])[0], log_prob) for token, log_prob in best) for best in alternatives),
            len(self.prompts[row]) - len(self.visible[row]),
            self.language.prompt_format.prefix is not None,
        )


def _past(prompts: list[list[int]], options: GenerateOptions) -> torch.Tensor:
    """The prompts as one tensor; without penalties, only their last tokens.

    Rows are padded with their own first token, which does not change the set of used tokens.
    """
    if not options.adjustments():
        return torch.tensor([prompt[-1:] for prompt in prompts])
    width = max(map(len, prompts))
    return torch.tensor([prompt[:1] * (width - len(prompt)) + prompt for prompt in prompts])
