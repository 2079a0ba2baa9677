"""A trained language model in use: prompts in, continuations out."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, overload

import torch
from torch import Tensor

from clearhead.checkpoint import Checkpoint
from clearhead.data.progress import ProgressCallback, ignore_progress
from clearhead.data.sources.columns import Columns
from clearhead.errors import SettingsError, TextError
from clearhead.inspection.explanation import Explanation, Token, explain_pass, text_tokens, with_next
from clearhead.models.causal import CausalModel
from clearhead.options import as_texts, check_text
from clearhead.tasks.evaluation import Evaluation
from clearhead.tasks.language.generation import Decoder, GenerateOptions, Generation, StreamedText
from clearhead.tasks.language.sliding_window import SlidingWindow
from clearhead.tasks.model import DecodingModel
from clearhead.tasks.scoring import TextScore, by_length
from clearhead.text.tokenizer import UNK, Tokenizer

ANSWER = "{answer}"
# Prompts per batch.
BATCH_SIZE = 32
# Maximum of rows times length in a batch whose logits are in memory.
SCORE_TOKENS = 1024


@dataclass(frozen=True)
class PromptFormat:
    """The text and ids around prompts in training."""

    start: tuple[int, ...] = ()
    """The ids before every prompt."""
    prefix: str | None = None
    """The template up to the answer, with {prompt} in it; None if the model continues plain text."""
    suffix: str = ""
    """The template after the answer."""
    columns: Columns | None = None
    """The columns of prompts and answers in the training files, if the recipe named them."""

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], tokenizer: Tokenizer) -> "PromptFormat":
        """The format that a model's saved settings describe."""
        data, batches = settings.get("data"), settings.get("batches")
        data = data if isinstance(data, Mapping) else {}
        packed = isinstance(batches, Mapping) and batches.get("kind") == "packed"
        bos, template, columns = tokenizer.bos_id, data.get("template"), None
        start = (bos,) if bos is not None and (tokenizer.adds_bos or packed) else ()
        match data.get("columns"):
            case [int() | str() as prompt, int() | str() as answer]:
                columns = (prompt, answer)
        if not isinstance(template, str):
            return cls(start, columns=columns)
        prefix, _, suffix = template.partition(ANSWER)
        return cls(start, prefix, suffix.format(), columns)


class LanguageModel(DecodingModel):
    """A language model with its tokenizer and its prompt format.

    It wraps a GPT or another CausalModel; a family that generates otherwise overrides `window`, `device` and
    `context_length`.
    """

    task = "language"
    evaluate_unit = "window"

    def __init__(self, model: Any, tokenizer: Tokenizer, prompt_format: PromptFormat | None = None):
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.prompt_format = prompt_format or PromptFormat()

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> "LanguageModel":
        processor = checkpoint.processor
        # A model with labels has its tokenizer inside its processor.
        tokenizer = processor if isinstance(processor, Tokenizer) else processor.tokenizer
        assert isinstance(checkpoint.model, CausalModel)
        return cls(checkpoint.model, tokenizer, PromptFormat.from_settings(checkpoint.settings, tokenizer))

    def facts(self) -> list[str]:
        return [f"vocabulary {self.tokenizer.size:,}", f"context {self.context_length:,}"]

    def window(self, capacity: int) -> Any:
        """What decodes: `start(texts)` gives a state, `step(tokens, state)` logits."""
        return SlidingWindow(self.engine, capacity)

    @property
    def device(self) -> torch.device:
        return self.model.readout_weight.device

    @property
    def context_length(self) -> int:
        """Maximum number of tokens the model sees at once."""
        return self.model.config.max_positions

    @property
    def pads(self) -> bool:
        """Whether prompts of different lengths can be decoded together."""
        return self.model.config.packs

    @property
    def suppressed_tokens(self) -> list[int]:
        """The special tokens that are never generated: all but the end of text."""
        tokenizer = self.tokenizer
        return [number for number in range(len(tokenizer.special_tokens)) if number != tokenizer.eos_id]

    @overload
    def generate(
        self,
        prompts: str,
        *,
        tokens: int = 200,
        temperature: float = 0.8,
        top_k: int | None = None,
        top_p: float = 1.0,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        stop: str | Sequence[str] = (),
        seed: int = 0,
        samples: int = 1,
        logprobs: int = 0,
        overflow: Literal["slide", "cut"] = "slide",
    ) -> Generation: ...
    @overload
    def generate(
        self,
        prompts: list[str],
        *,
        tokens: int = 200,
        temperature: float = 0.8,
        top_k: int | None = None,
        top_p: float = 1.0,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        stop: str | Sequence[str] = (),
        seed: int = 0,
        samples: int = 1,
        logprobs: int = 0,
        overflow: Literal["slide", "cut"] = "slide",
    ) -> list[Generation]: ...
    def generate(
        self,
        prompts: str | list[str],
        *,
        tokens: int = 200,
        temperature: float = 0.8,
        top_k: int | None = None,
        top_p: float = 1.0,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        stop: str | Sequence[str] = (),
        seed: int = 0,
        samples: int = 1,
        logprobs: int = 0,
        overflow: Literal["slide", "cut"] = "slide",
    ) -> Generation | list[Generation]:
        """Continues a text, or a list of texts in order.

        Keyword arguments are those of `GenerateOptions`. The result for a prompt does not depend on the
        prompts beside it.
        """
        filters = (temperature, top_k, top_p, min_p, repetition_penalty)
        options = GenerateOptions(tokens, *filters, stop, seed, samples, logprobs, overflow)
        texts = as_texts(prompts, "prompt")
        encoded = [self.encode(text, f"prompt {number}") for number, text in enumerate(texts, start=1)]
        rows = [number for number in range(len(texts)) for _ in range(options.samples)]
        found: dict[int, Generation] = {}
        for batch in self._batches([len(encoded[number]) for number in rows]):
            decoder = Decoder(self, [encoded[rows[row]] for row in batch], batch, options)
            for _ in decoder:
                pass
            made = decoder.generations([texts[rows[row]] for row in batch])
            found.update(zip(batch, made, strict=True))
        each = [found[row] for row in range(len(rows))]
        grouped = [each[first : first + options.samples] for first in range(0, len(each), options.samples)]
        results = [replace(group[0], samples=tuple(group)) for group in grouped]
        return results[0] if isinstance(prompts, str) else results

    def stream(
        self,
        prompt: str,
        *,
        tokens: int = 200,
        temperature: float = 0.8,
        top_k: int | None = None,
        top_p: float = 1.0,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        stop: str | Sequence[str] = (),
        seed: int = 0,
        samples: int = 1,
        logprobs: int = 0,
        overflow: Literal["slide", "cut"] = "slide",
    ) -> Iterator[StreamedText]:
        """The continuation of a text as it is generated, in pieces; keyword arguments as in `generate`."""
        filters = (temperature, top_k, top_p, min_p, repetition_penalty)
        options = GenerateOptions(tokens, *filters, stop, seed, samples, logprobs, overflow)
        ids = self.encode(prompt)
        return iter(Decoder(self, [ids] * options.samples, range(options.samples), options))

    @overload
    def score(self, texts: str, *, prompt: str = "") -> TextScore: ...
    @overload
    def score(self, texts: list[str], *, prompt: str = "") -> list[TextScore]: ...
    def score(self, texts: str | list[str], *, prompt: str = "") -> TextScore | list[TextScore]:
        """The log-probability of a text, or of each of several, after a prompt if there is one.

        Without a prompt, the first token of a text is predicted only if training texts began with a special
        token. A text beyond the context is read in windows that overlap by half.
        """
        several = as_texts(texts)
        encoded = [self._scored_ids(text, prompt, number) for number, text in enumerate(several, start=1)]
        found = [
            TextScore(text, tuple(self.tokenizer.pieces(ids[first:])), tuple(log_probs[first - 1 :]))
            for text, (ids, first), log_probs in zip(
                several, encoded, self._log_probs([ids for ids, _ in encoded]), strict=True
            )
        ]
        return found[0] if isinstance(texts, str) else found

    def explain(
        self,
        text: str,
        tokens: int = 0,
        *,
        names: Sequence[str] = ("*",),
        temperature: float = 0.0,
        top_k: int | None = None,
        top_p: float = 1.0,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        seed: int = 0,
    ) -> Explanation:
        """One captured pass over a text and the tokens that the model adds to it, by default greedily.

        Keeps only tensors whose names match. The other keyword arguments are those of `generate`.
        """
        if not isinstance(tokens, int) or tokens < 0:
            raise SettingsError(f"tokens: {tokens!r} should be the number of tokens to add, 0 for none")
        filters = (temperature, top_k, top_p, min_p, repetition_penalty)
        options = GenerateOptions(tokens or 1, *filters, seed=seed)
        prompt = self.encode(text)
        if len(prompt) > self.context_length:
            raise TextError(
                f"{len(prompt)} tokens exceed the context of {self.context_length}; shorten the text"
            )
        # The captured pass must hold the continuation too.
        tokens = min(tokens, self.context_length - len(prompt))
        found, added, end = None, [], None
        if tokens:
            decoder = Decoder(self, [prompt], [0], replace(options, tokens=tokens))
            for _ in decoder:
                pass
            (found,) = decoder.generations([text])
            added, end = decoder.continuation(0)
        explanation = explain_pass(
            self.model,
            lambda: self.logits(prompt + added),
            {"text": read_tokens(self.tokenizer, prompt, added, end)},
            names,
            self.tokenizer,
            text,
            found.text if found else "",
        )
        return replace(
            explanation,
            normalized=self.tokenizer.normalized(text),
            settings={**asdict(options), "tokens": tokens},
            name=self.name,
            found=found,
        )

    def evaluate(
        self,
        folder: Path | str | None = None,
        *,
        text: str | Sequence[str] = (),
        field: str | None = None,
        stride: int | None = None,
        progress: ProgressCallback = ignore_progress,
        reading: ProgressCallback = ignore_progress,
    ) -> Evaluation:
        """Loss, perplexity and bits per byte on text files, or on the text held out in the model's folder.

        `field` names the text in .jsonl and .parquet files; the window moves by `stride` tokens, by default
        half of it.
        """
        from clearhead.tasks.language.evaluate import evaluate

        return evaluate(
            self,
            self._held_out(folder),
            text=as_texts(text),
            field=field,
            stride=stride,
            progress=progress,
            reading=reading,
        )

    def about(self) -> dict[str, Any]:
        """The limits of the model, for the explorer."""
        return {"max_tokens": self.context_length - len(self.prompt_format.start)}

    def explain_options(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of `explain` for an explorer request."""
        tokens = request.get("tokens", 0)
        if not tokens or not request.get("temperature"):
            return {"tokens": tokens}
        names = [name for name in ("temperature", "top_k", "top_p", "min_p", "seed") if name in request]
        return {"tokens": tokens, **{name: request[name] for name in names}}

    @torch.inference_mode()
    def next_logits(
        self, text: str, generated: Sequence[int] = (), to: str | None = None
    ) -> tuple[Tensor, int]:
        """The logits after a text and these tokens, and the number of tokens the model has read."""
        ids = [*self.encode(text), *generated][-self.context_length :]
        return self.logits(ids)[-1], len(ids)

    def logits(self, ids: Sequence[int]) -> Tensor:
        """The logits of a pass over one text, at every position."""
        return self.model(torch.tensor([list(ids)], device=self.device))[0]

    def truncated(self, prompt: str, options: GenerateOptions | None = None) -> int:
        """Number of tokens at the start of a prompt that do not fit into the context."""
        ids = self.encode(prompt)
        return len(ids) - len(self.visible(ids, options or GenerateOptions()))

    def unknown(self, prompt: str) -> int:
        """The number of tokens of a prompt outside the vocabulary; always 0 where `encode` refuses them."""
        return 0

    def encode(self, prompt: str, name: str = "prompt 1") -> list[int]:
        """The ids of a prompt in the prompt format; raises TextError at an unknown character."""
        check_text(prompt, name)
        if "\0" in prompt:
            raise TextError(f"{name}: character {prompt.index(chr(0)) + 1} is NUL; remove it")
        ids = self.tokenizer.encode(prompt)
        if self.tokenizer.special_tokens and UNK in ids:
            self._check_known(prompt, ids, name)
        prefix, start = self.prompt_format.prefix, self.prompt_format.start
        # Unknown characters of the template are fine: they were unknown in training too.
        ids = self.tokenizer.encode(prefix.format(prompt=prompt)) if prefix else ids
        bos = self.tokenizer.bos_id
        if not ids and not start and bos is None:
            raise TextError(f"{name}: is empty; give a text to continue")
        return [*start, *ids] if ids or start else [int(bos or 0)]

    def visible(self, ids: list[int], options: GenerateOptions) -> list[int]:
        """The end of a prompt that the model will see."""
        if options.overflow == "slide":
            return ids[-self.context_length :]
        # The last generated token is never read.
        capacity = self.context_length - options.tokens + 1
        if capacity < 1:
            raise SettingsError(
                f"tokens: {options.tokens} do not fit into the model's context of {self.context_length}; "
                "lower it, or use overflow='slide'"
            )
        return ids[-capacity:]

    def _scored_ids(self, text: str, prompt: str, number: int) -> tuple[list[int], int]:
        """The ids of a prompt and a text, and the index of the first one that is predicted."""
        if text:
            self.encode(text, f"text {number}")
        prefix, start = self.prompt_format.prefix, list(self.prompt_format.start)
        before = prefix.format(prompt=prompt) if prefix and prompt else prompt
        context = [*start, *(self.tokenizer.encode(before) if before else [])]
        ids = [*start, *self.tokenizer.encode(before + text)]
        if ids[: len(context)] != context:
            # The end of the prompt and the start of the text make up one token.
            ids = [*context, *self.tokenizer.encode(text)]
        first = max(len(context), 1)
        if len(ids) <= first:
            raise TextError(f"text {number}: {text!r:.40} has no token to predict; give a longer text")
        return ids, first

    @torch.inference_mode()
    def _log_probs(self, texts: Sequence[Sequence[int]]) -> list[list[float]]:
        """The log-probability of each token but the first of each text, in windows of the model's context."""
        window, stride = self.context_length, max(1, self.context_length // 2)
        spans = [
            (number, start)
            for number, ids in enumerate(texts)
            for start in range(0, max(1, len(ids) - 1 - window + stride), stride)
        ]
        rows = [texts[number][start : start + window + 1] for number, start in spans]
        found: list[list[float]] = [[] for _ in rows]
        for batch in by_length([len(row) for row in rows], SCORE_TOKENS):
            width = max(len(rows[one]) for one in batch)
            ids = [[*rows[one], *[0] * (width - len(rows[one]))] for one in batch]
            tokens = torch.tensor(ids, device=self.device)
            log_probs = self.model(tokens[:, :-1]).float().log_softmax(-1)
            log_probs = log_probs.gather(-1, tokens[:, 1:, None])[..., 0]
            for one, values in zip(batch, log_probs.tolist(), strict=True):
                found[one] = values[: len(rows[one]) - 1]
        whole: list[list[float]] = [[] for _ in texts]
        for (number, start), values in zip(spans, found, strict=True):
            whole[number] += values[len(whole[number]) - start :]
        return whole

    def _check_known(self, prompt: str, ids: Sequence[int], name: str) -> None:
        """Raises an error that names the first character outside the vocabulary."""
        for text in (prompt, self.tokenizer.normalized(prompt)):
            for position, character in enumerate(text, start=1):
                if UNK in self.tokenizer.encode(character):
                    raise TextError(
                        f"{name}: character {position}, {character!r} (U+{ord(character):04X}), is "
                        "not in the model's vocabulary; remove it"
                    )
        raise TextError(f"{name}: {prompt!r:.40} has characters outside the model's vocabulary")

    def _batches(self, lengths: list[int]) -> Iterator[list[int]]:
        """Rows to decode together: of similar length, or of equal length if the model cannot pad."""
        batch: list[int] = []
        for row in sorted(range(len(lengths)), key=lengths.__getitem__):
            differs = batch and lengths[row] != lengths[batch[0]] and not self.pads
            if len(batch) == BATCH_SIZE or differs:
                yield batch
                batch = []
            batch.append(row)
        if batch:
            yield batch


def read_tokens(
    tokenizer: Tokenizer, prompt: Sequence[int], written: Sequence[int], end: int | None
) -> tuple[Token, ...]:
    """The tokens of a prompt and its continuation, each with the next one; the last is followed by `end`."""
    ids = [*prompt, *written]
    tokens = text_tokens(tokenizer, ids)
    tokens[len(prompt) :] = [replace(token, generated=True) for token in tokens[len(prompt) :]]
    return with_next(tokens, ids[1:] if end is None else [*ids[1:], end])
