"""A trained language model in use: prompts in, continuations out."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, overload

import torch

from clearhead.accel import enabled
from clearhead.accel.packing import Packed
from clearhead.checkpoint import Checkpoint
from clearhead.data.sources.columns import Columns
from clearhead.errors import SettingsError, TextError
from clearhead.inspection.explanation import Explanation, look_at_text, text_tokens
from clearhead.models import GPT
from clearhead.models.cuda_graph import CudaGraphGPT, is_tapped, supports_cuda_graph
from clearhead.options import check_text, listed, options_of
from clearhead.tasks.language.generation import GenerateOptions, Generation, StreamedText, Writing
from clearhead.text.tokenizer import UNKNOWN, Tokenizer

# Where an answer stands in a template.
ANSWERED = "{answer}"
# Texts that are continued at once.
ROWS = 32


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
        self.ending = ""
        """What stood behind every answer in training."""
        self.columns: Columns | None = None
        """Under which names files held prompts and answers in training, where these are not customary."""
        self._packed = Packed(model, model.readout_weight)
        recorded = enabled() and self.device.type == "cuda" and supports_cuda_graph(model.config)
        self._recorded = CudaGraphGPT(model) if recorded else None

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> "LanguageModel":
        assert isinstance(checkpoint.model, GPT)
        tokenizer, settings = checkpoint.tokenizer, checkpoint.settings
        language = cls(checkpoint.model, tokenizer, lead(tokenizer, settings), frame(settings))
        language.ending, language.columns = ending(settings), columns(settings)
        return language

    @property
    def engine(self) -> GPT | CudaGraphGPT:
        """The model as it decodes fastest; while the model is tapped, the model itself."""
        if is_tapped(self.model):
            return self.model
        return self._recorded or self._packed.current()

    @property
    def device(self) -> torch.device:
        return self.model.readout_weight.device

    @property
    def max_length(self) -> int:
        """The most tokens that the model sees at once."""
        return self.model.config.max_length

    @property
    def suppressed_tokens(self) -> list[int]:
        """The ids that no continuation holds: signs of ours that are no text, but for the end of one."""
        tokenizer = self.tokenizer
        return [number for number in range(len(tokenizer.specials)) if number != tokenizer.signs.end]

    @overload
    def generate(self, prompts: str, **given: Any) -> Generation: ...
    @overload
    def generate(self, prompts: list[str], **given: Any) -> list[Generation]: ...
    def generate(self, prompts: str | list[str], **given: Any) -> Generation | list[Generation]:
        """Continues a text, or several in their order. Wishes are those of `GenerateOptions`.

        What a prompt gives does not depend on the prompts beside it.
        """
        options = options_of(GenerateOptions, given)
        texts = listed(prompts, "prompt")
        told = [self.encode(text, number) for number, text in enumerate(texts, start=1)]
        rows = [number for number in range(len(texts)) for _ in range(options.samples)]
        found: dict[int, Generation] = {}
        for batch in self._batches([len(told[number]) for number in rows]):
            writing = Writing(self, [told[rows[row]] for row in batch], batch, options)
            for _ in writing:
                pass
            made = writing.generations([texts[rows[row]] for row in batch])
            found.update(zip(batch, made, strict=True))
        each = [found[row] for row in range(len(rows))]
        grouped = [each[first : first + options.samples] for first in range(0, len(each), options.samples)]
        results = [replace(samples[0], samples=tuple(samples)) for samples in grouped]
        return results[0] if isinstance(prompts, str) else results

    def stream(self, prompt: str, **given: Any) -> Iterator[StreamedText]:
        """The continuation of a text as it is written; what is told of a sample adds up to its text."""
        options = options_of(GenerateOptions, given)
        ids = self.encode(prompt)
        return iter(Writing(self, [ids] * options.samples, range(options.samples), options))

    def explain(
        self,
        text: str,
        tokens: int = 0,
        names: Sequence[str] = ("*",),
        temperature: float = 0.0,
        **given: Any,
    ) -> Explanation:
        """What a text, and so many tokens that the model writes after it, do inside the model, in one pass.

        Only tensors that match the names are kept. Other wishes are those of `GenerateOptions`.
        """
        if not isinstance(tokens, int) or tokens < 0:
            raise SettingsError(f"tokens: {tokens!r} should be 0, which writes nothing, or so many to write")
        options = options_of(GenerateOptions, {"tokens": tokens or 1, "temperature": temperature, **given})
        prompt = self.encode(text)
        if len(prompt) > self.max_length:
            raise TextError(
                f"{len(prompt)} tokens, and the model sees {self.max_length} at once: shorten the text"
            )
        # What is written has to be seen too, in the one pass that explains it.
        tokens = min(tokens, self.max_length - len(prompt))
        found, said, end = None, [], None
        if tokens:
            writing = Writing(self, [prompt], [0], replace(options, tokens=tokens))
            for _ in writing:
                pass
            (found,) = writing.generations([text])
            said, end = writing.said(0)
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
            settings={"tokens": tokens, "temperature": temperature, **given},
            name=self.name,
            found=found,
        )

    def unseen(self, prompt: str, **given: Any) -> int:
        """How many tokens of a prompt, the first ones, would not fit into the context."""
        ids = self.encode(prompt)
        return len(ids) - len(self.fitting(ids, options_of(GenerateOptions, given)))

    def encode(self, prompt: str, number: int = 1) -> list[int]:
        """The ids that a prompt is read as; what the model cannot read is named."""
        check_text(prompt, f"prompt {number}")
        if "\0" in prompt:
            raise TextError(f"prompt {number}: character {prompt.index(chr(0)) + 1} is NUL; take it out")
        ids = self.tokenizer.encode(prompt)
        if self.tokenizer.specials and UNKNOWN in ids:
            raise self._unreadable(prompt, number)
        # What is unknown in the frame was so in training too.
        ids = self.tokenizer.encode(self.frame.format(prompt=prompt)) if self.frame else ids
        start = self.tokenizer.signs.start
        if not ids and not self.lead and start is None:
            raise TextError(f"prompt {number}: is empty; give a text to continue")
        return [*self.lead, *ids] if ids or self.lead else [int(start or 0)]

    def _unreadable(self, prompt: str, number: int) -> TextError:
        """Names the first sign that is not in the vocabulary, as it is given or as it is spelled."""
        for text in (prompt, self.tokenizer.normalized(prompt)):
            for position, sign in enumerate(text, start=1):
                if UNKNOWN in self.tokenizer.encode(sign):
                    return TextError(
                        f"prompt {number}: character {position}, {sign!r} (U+{ord(sign):04X}), is not in the "
                        "model's vocabulary; leave it out"
                    )
        return TextError(f"prompt {number}: {prompt!r:.40} is not all in the model's vocabulary; change it")

    def fitting(self, ids: list[int], options: GenerateOptions) -> list[int]:
        """The last ids of a prompt, as many as the model will see."""
        if options.overflow == "slide":
            return ids[-self.max_length :]
        # The last token that is written need not be read.
        room = self.max_length - options.tokens + 1
        if room < 1:
            raise SettingsError(
                f"tokens: {options.tokens} do not fit into the model's context of {self.max_length}; "
                "ask for fewer, or let it slide"
            )
        return ids[-room:]

    def _batches(self, lengths: list[int]) -> Iterator[list[int]]:
        """Rows that are continued together: alike in length, and the same where positions count."""
        batch: list[int] = []
        for row in sorted(range(len(lengths)), key=lengths.__getitem__):
            differs = batch and lengths[row] != lengths[batch[0]] and not self.model.config.packs
            if len(batch) == ROWS or differs:
                yield batch
                batch = []
            batch.append(row)
        if batch:
            yield batch


def lead(tokenizer: Tokenizer, settings: Mapping[str, Any]) -> list[int]:
    """What stands before every prompt: the sign that texts began with in training, if they did."""
    signs, batches = tokenizer.signs, settings.get("batches")
    packed = isinstance(batches, Mapping) and batches.get("kind") == "packed"
    return [signs.start] if signs.start is not None and (signs.leads or packed) else []


def frame(settings: Mapping[str, Any]) -> str | None:
    """What prompts were set into in training, up to the answer."""
    template = _template(settings)
    return None if template is None else template.partition(ANSWERED)[0]


def ending(settings: Mapping[str, Any]) -> str:
    """What stood behind answers in training."""
    return (_template(settings) or "").partition(ANSWERED)[2].format()


def columns(settings: Mapping[str, Any]) -> Columns | None:
    """Under which names files held prompts and answers, where that was said."""
    match _data(settings).get("columns"):
        case [int() | str() as prompt, int() | str() as answer]:
            return prompt, answer
    return None


def _template(settings: Mapping[str, Any]) -> str | None:
    template = _data(settings).get("template")
    return template if isinstance(template, str) else None


def _data(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    data = settings.get("data")
    return data if isinstance(data, Mapping) else {}
