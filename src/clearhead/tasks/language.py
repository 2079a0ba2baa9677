"""A trained language model in use: prompts in, continuations out."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, overload

import torch

from clearhead.checkpoint import Checkpoint
from clearhead.decoding import (
    LARGEST_SEED,
    Adjust,
    Guide,
    Hypothesis,
    Walk,
    check_sampling,
    drawn,
    lay_for_steps,
    most_probable,
    repetition_penalty,
)
from clearhead.errors import SettingsError, TextError
from clearhead.models import GPT
from clearhead.models.recorded import Recorded, can_be_recorded
from clearhead.tasks.explaining import Explanation, check_text, look_at_text, text_tokens
from clearhead.tasks.sliding import Sliding
from clearhead.text.telling import Teller
from clearhead.text.tokenizer import UNKNOWN, Tokenizer

# Texts that are continued at once.
ROWS = 32
# Far beyond use; what is written still fits into memory.
MOST_TOKENS, MOST_SAMPLES = 1_000_000, 1_000
# Stands for an end where a tokenizer has no sign for it: no word is this.
ENDLESS = -1


class Spoken(NamedTuple):
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
    """The most probable tokens at each place, if so many `logprobs` were asked for."""
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
class Continuing:
    """How to continue a text."""

    tokens: int = 200
    """The most that are added."""
    temperature: float = 0.8
    """0 takes the most probable token at each place; 1 draws as the model has it."""
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
        if not 0 <= self.seed <= LARGEST_SEED:
            problems.append(f"seed: {self.seed} should be from 0 to {LARGEST_SEED}")
        if "" in self.stops:
            problems.append("stop: is empty, and everything begins with that; leave it out")
        if self.overflow not in ("slide", "cut"):
            problems.append(f"overflow: {self.overflow!r} is not one of slide, cut")
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


class LanguageModel:
    """A model with its tokenizer, the ids that stand before every prompt, and the frame it is set into."""

    name = ""
    """By which it was loaded."""

    def __init__(self, model: GPT, tokenizer: Tokenizer, lead: Sequence[int] = (), frame: str | None = None):
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.lead = list(lead)
        self.frame = frame
        """With {prompt} in it, if the model answers prompts."""
        lay_for_steps(model, model.readout_weight)
        recorded = self.device.type == "cuda" and can_be_recorded(model.config)
        self.steps = Recorded(model) if recorded else model

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> "LanguageModel":
        assert isinstance(checkpoint.model, GPT)
        tokenizer, settings = checkpoint.tokenizer, checkpoint.settings
        return cls(checkpoint.model, tokenizer, lead(tokenizer, settings), frame(settings))

    @property
    def device(self) -> torch.device:
        return self.model.readout_weight.device

    @property
    def longest(self) -> int:
        """The most tokens that the model sees at once."""
        return self.model.config.longest

    @overload
    def generate(self, prompts: str, **wishes: Any) -> Generation: ...
    @overload
    def generate(self, prompts: list[str], **wishes: Any) -> list[Generation]: ...
    def generate(self, prompts: str | list[str], **wishes: Any) -> Generation | list[Generation]:
        """Continues a text, or several in their order. Wishes are those of `Continuing`.

        What a prompt gives does not depend on the prompts beside it.
        """
        wish = Continuing(**wishes)
        texts = [prompts] if isinstance(prompts, str) else prompts
        told = [self.encode(text, number) for number, text in enumerate(texts, start=1)]
        rows = [number for number in range(len(texts)) for _ in range(wish.samples)]
        found: dict[int, Generation] = {}
        for batch in self._batches([len(told[number]) for number in rows]):
            writing = Writing(self, [told[rows[row]] for row in batch], batch, wish)
            for _ in writing:
                pass
            made = writing.generations([texts[rows[row]] for row in batch])
            found.update(zip(batch, made, strict=True))
        each = [found[row] for row in range(len(rows))]
        grouped = [each[first : first + wish.samples] for first in range(0, len(each), wish.samples)]
        results = [replace(samples[0], samples=tuple(samples)) for samples in grouped]
        return results[0] if isinstance(prompts, str) else results

    def stream(self, prompt: str, **wishes: Any) -> Iterator[Spoken]:
        """The continuation of a text as it is written; what is told of a sample adds up to its text."""
        wish = Continuing(**wishes)
        ids = self.encode(prompt)
        return iter(Writing(self, [ids] * wish.samples, range(wish.samples), wish))

    def explain(
        self,
        text: str,
        tokens: int = 0,
        names: Sequence[str] = ("*",),
        temperature: float = 0.0,
        **wishes: Any,
    ) -> Explanation:
        """What a text, and so many tokens that the model writes after it, do inside the model, in one pass.

        Only tensors that match the names are kept. Other wishes are those of `Continuing`.
        """
        check_text(text)
        prompt = self.encode(text)
        if len(prompt) > self.longest:
            raise TextError(
                f"{len(prompt)} tokens, and the model sees {self.longest} at once: shorten the text"
            )
        # What is written has to be seen too, in the one pass that explains it.
        tokens = min(tokens, self.longest - len(prompt))
        found, said, end = None, [], None
        if tokens:
            writing = Writing(self, [prompt], [0], Continuing(tokens, temperature, **wishes))
            for _ in writing:
                pass
            (found,) = writing.generations([text])
            said, end = writing.said(0), writing.end if found.ended == "end" else None
        look = look_at_text(self.model, prompt + said, names)
        return Explanation(
            text=text,
            normalized=self.tokenizer.normalized(text),
            output=found.text if found else "",
            source=(),
            target=text_tokens(self.tokenizer, prompt, said, look, end),
            trace=look.trace,
            difference=look.difference,
            model=self.model,
            tokenizer=self.tokenizer,
            settings={"tokens": tokens, "temperature": temperature, **wishes},
            name=self.name,
            found=found,
        )

    def unseen(self, prompt: str, **wishes: Any) -> int:
        """How many tokens of a prompt, the first ones, would not fit into the context."""
        ids = self.encode(prompt)
        return len(ids) - len(self.fitting(ids, Continuing(**wishes)))

    def encode(self, prompt: str, number: int = 1) -> list[int]:
        """The ids that a prompt is read as; what the model cannot read is named."""
        if "\0" in prompt:
            raise TextError(f"prompt {number}: character {prompt.index(chr(0)) + 1} is NUL; take it out")
        ids = self.tokenizer.encode(self.frame.format(prompt=prompt) if self.frame else prompt)
        if self.tokenizer.specials and UNKNOWN in ids:
            strange = next(sign for sign in prompt if UNKNOWN in self.tokenizer.encode(sign))
            place = prompt.index(strange) + 1
            raise TextError(
                f"prompt {number}: character {place}, {strange!r} (U+{ord(strange):04X}), is not in the "
                "model's vocabulary; leave it out"
            )
        start = self.tokenizer.signs.start
        if not ids and not self.lead and start is None:
            raise TextError(f"prompt {number}: is empty; give a text to continue")
        return [*self.lead, *ids] if ids or self.lead else [int(start or 0)]

    def fitting(self, ids: list[int], wish: Continuing) -> list[int]:
        """The last ids of a prompt, as many as the model will see."""
        if wish.overflow == "slide":
            return ids[-self.longest :]
        # The last token that is written need not be read.
        room = self.longest - wish.tokens + 1
        if room < 1:
            raise SettingsError(
                f"tokens: {wish.tokens} do not fit into the model's context of {self.longest}; "
                "ask for fewer, or let it slide"
            )
        return ids[-room:]

    def _batches(self, lengths: list[int]) -> Iterator[list[int]]:
        """Rows that are continued together: alike in length, and the same where places count."""
        batch: list[int] = []
        for row in sorted(range(len(lengths)), key=lengths.__getitem__):
            differs = batch and lengths[row] != lengths[batch[0]] and not self.model.config.packs
            if len(batch) == ROWS or differs:
                yield batch
                batch = []
            batch.append(row)
        if batch:
            yield batch


class Writing:
    """Continuations of some prompts, which share a batch: iterating over it writes them."""

    def __init__(
        self, language: LanguageModel, prompts: list[list[int]], numbers: Sequence[int], wish: Continuing
    ):
        self.language, self.prompts, self.wish = language, prompts, wish
        tokenizer, self.end = language.tokenizer, language.tokenizer.signs.end
        self.seen = [language.fitting(prompt, wish) for prompt in prompts]
        self.seeds = [wish.seed + number for number in numbers]
        self.tellers = [Teller(tokenizer, prompt, wish.stops) for prompt in self.seen]
        self.walk: Walk | None = None

    def __iter__(self) -> Iterator[Spoken]:
        with torch.inference_mode():
            self.walk = walk = self._begun()
        places = iter(walk)
        told = [0] * len(self.seen)
        while True:
            # Not around the yield: whoever iterates computes in their own mode.
            with torch.inference_mode():
                place = next(places, None)
                if place is None:
                    break
                spoken = self._tell(walk, place, told)
            yield from spoken
        for row, teller in enumerate(self.tellers):
            if rest := teller.rest():
                yield Spoken(row, rest)

    def _begun(self) -> Walk:
        wish, language = self.wish, self.language
        sliding = Sliding(language.steps, max(map(len, self.seen)) + wish.tokens)
        each = {prompt: row for row, prompt in enumerate(dict.fromkeys(map(tuple, self.seen)))}
        state = sliding.start(list(each))
        if len(each) < len(self.seen):
            rows = [each[tuple(prompt)] for prompt in self.seen]
            state.select(torch.tensor(rows, device=language.device))
        guide = Guide(
            len(self.seen),
            _past(self.seen, wish),
            ENDLESS if self.end is None else self.end,
            wish.tokens,
            adjust=wish.adjustments(),
            device=language.device,
        )
        filters = (wish.temperature, wish.top_k, wish.top_p, wish.min_p)
        choose = most_probable if wish.greedy else drawn(guide, self.seeds, *filters)
        return Walk(sliding.step, state, guide, choose, wish.logprobs)

    def _tell(self, walk: Walk, place: int, told: list[int]) -> list[Spoken]:
        """What the words of a place have brought; texts that have met a stop string end."""
        spoken, stopped = [], []
        for row, (word, length) in enumerate(
            zip(walk.words[:, place].tolist(), walk.lengths.tolist(), strict=True)
        ):
            if length == told[row]:
                continue
            told[row] = length
            text = "" if word == self.end else self.tellers[row].add(word)
            if text:
                spoken.append(Spoken(row, text))
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

    def said(self, row: int) -> list[int]:
        """The ids that were written after a prompt, without the end."""
        assert self.walk is not None
        return self.walk.hypotheses()[row].words

    def _generation(self, row: int, text: str, found: Hypothesis) -> Generation:
        assert self.walk is not None
        pieces, places = self.language.tokenizer.pieces, range(len(found.log_probabilities))
        shown = [self.walk.alternatives[place][row] for place in places] if self.wish.logprobs else []
        ended = "stop" if self.tellers[row].stop is not None else "end" if found.complete else "length"
        return Generation(
            text,
            self.tellers[row].text,
            ended,
            tuple(pieces(found.words)),
            tuple(found.log_probabilities),
            tuple(tuple((pieces([word])[0], gain) for word, gain in best) for best in shown),
            len(self.prompts[row]) - len(self.seen[row]),
            self.language.frame is not None,
        )


def lead(tokenizer: Tokenizer, settings: Mapping[str, Any]) -> list[int]:
    """What stands before every prompt: the sign that texts began with in training, if they did."""
    signs, batches = tokenizer.signs, settings.get("batches")
    packed = isinstance(batches, Mapping) and batches.get("kind") == "packed"
    return [signs.start] if signs.start is not None and (signs.leads or packed) else []


def frame(settings: Mapping[str, Any]) -> str | None:
    """What prompts were set into in training, up to the answer."""
    data = settings.get("data")
    template = data.get("template") if isinstance(data, Mapping) else None
    return template.partition("{answer}")[0] if isinstance(template, str) else None


def _past(prompts: list[list[int]], wish: Continuing) -> torch.Tensor:
    """The prompts as one table; only adjustments need more of them than the last word.

    Rows are filled up with their own first word, which is used whether or not it comes again.
    """
    if not wish.adjustments():
        return torch.tensor([prompt[-1:] for prompt in prompts])
    longest = max(map(len, prompts))
    return torch.tensor([prompt[:1] * (longest - len(prompt)) + prompt for prompt in prompts])
