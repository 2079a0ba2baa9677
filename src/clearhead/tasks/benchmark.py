"""The speed of a trained model beside other libraries that run the same weights."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, get_args

import torch

from clearhead.data.sources.documents import read_documents
from clearhead.decoding import Constraints, greedy_search
from clearhead.errors import DataError, ModelError
from clearhead.interop.exporting import token_names
from clearhead.interop.peers import PEERS, Exported, Peer
from clearhead.models.causal import CausalModel
from clearhead.models.engine import Precision, int8_problem
from clearhead.tasks.language.generation import NO_END
from clearhead.tasks.language.model import LanguageModel
from clearhead.tasks.language.recipe import VALIDATION
from clearhead.tasks.load import load
from clearhead.tasks.speed import Batch, Case, Decode, Round, batches, measure
from clearhead.tasks.translation.evaluate import held_out_pairs
from clearhead.tasks.translation.model import TranslationModel
from clearhead.tasks.translation.options import TranslateOptions
from clearhead.tasks.translation.search import EXTRA_TOKENS, search_all
from clearhead.tasks.zoo import find
from clearhead.text.tokenizer import EOS

OURS = "clearhead"
# At most so many texts are measured.
MAX_TEXTS = 256
# Of a held-out text.
MAX_CHARACTERS = 100_000
# Tokens of a prompt, and tokens written after it, where the context is long enough.
PROMPT_TOKENS, NEW_TOKENS = 16, 64
SENTENCES = (
    "Where is the station?",
    "I have not seen him since last summer.",
    "The children played in the garden until it became dark.",
    "Could you tell me how much these shoes cost?",
    "Although it rained all day, we went along the river and spoke about our plans for the winter.",
    "He closed the door.",
    "My sister works at a hospital in a small town near the border.",
    "If you had written to me earlier, I would have helped you to find a better solution.",
)
"""Texts for models that have no test data of their own."""


@dataclass(frozen=True)
class Contender:
    """What is measured, and the seconds until it was loaded, then until its first answer."""

    name: str
    decode: Decode
    load_seconds: float
    first_answer_seconds: float


@dataclass(frozen=True)
class Skipped:
    """What is not measured, and why."""

    name: str
    reason: str


class TranslationSpeed:
    """How a translator is measured: on sentences, until their translations end."""

    unit = "sentence"
    translates = True
    cases = (Case(1), Case(32), Case(1, 4), Case(32, 4))

    def __init__(self, model: TranslationModel):
        self.model, self.ends = model, (EOS,)
        self.direction = model.directions[0]

    def held_out(self) -> list[str]:
        """The sources of its test pairs; none if its folder has no such file."""
        try:
            test = held_out_pairs(None, self.model.folder or Path(), self.direction)
        except DataError:
            return []
        return [pair.source for pair in test.pairs]

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        model = self.model
        tag, encoded = model.tag(self.direction.target), model.encode(texts)
        return [tag + ids for ids in encoded if 0 < len(ids) <= model.max_length]

    def limits(self, batch: Batch) -> tuple[int, int]:
        return 0, min(max(map(len, batch)) + EXTRA_TOKENS, self.model.model.config.max_tokens)

    def decode(self, batch: Batch, beam: int, limits: tuple[int, int]) -> list[list[int]]:
        options = TranslateOptions(beam, length_penalty=0.0).resolved(self.model.search)
        found = search_all(self.model.engine, self.model.tokenizer, batch, options)
        return [best[0].tokens for best in found]


class LanguageSpeed:
    """How a language model is measured: a fixed number of tokens after prompts of one length, greedily."""

    unit = "text"
    translates = False
    cases = (Case(1), Case(8))

    def __init__(self, model: LanguageModel):
        self.model, self.ends = model, tuple(model.tokenizer.eos_ids)
        context = model.context_length
        self.prompt_tokens = max(1, min(PROMPT_TOKENS, context // 4))
        self.new_tokens = max(1, min(NEW_TOKENS, context - self.prompt_tokens))

    def held_out(self) -> list[str]:
        """The beginning of its held-out text; none if its folder has no such file."""
        path = (self.model.folder or Path()) / VALIDATION
        if not path.is_file():
            return []
        return [chunk.text[:MAX_CHARACTERS] for chunk in islice(read_documents([path]), MAX_TEXTS)]

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Prompts cut from the texts."""
        size, start = self.prompt_tokens, list(self.model.prompt_format.start)
        ids = [token for text in texts for token in self.model.tokenizer.encode(text)]
        size -= len(start)
        return [[*start, *ids[first : first + size]] for first in range(0, len(ids) - size + 1, max(1, size))]

    def limits(self, batch: Batch) -> tuple[int, int]:
        return self.new_tokens, self.new_tokens

    @torch.inference_mode()
    def decode(self, batch: Batch, beam: int, limits: tuple[int, int]) -> list[list[int]]:
        model, tokens = self.model, limits[1]
        window = model.window(self.prompt_tokens + tokens)
        state = window.start(batch)
        last = torch.tensor([prompt[-1:] for prompt in batch], device=model.device)
        suppressed = [*model.suppressed_tokens, *self.ends]
        constraints = Constraints(last, NO_END, tokens, suppressed_tokens=suppressed)
        return [one.tokens for one in greedy_search(window.step, state, constraints)]


class SpeedTest:
    """A model in all of its precisions, and the installed peers with the same weights."""

    def __init__(self, name: str, device: torch.device, threads: int = 1, texts: Sequence[str] | None = None):
        self.device, self.threads = device, threads
        with limited_threads(threads):
            start = time.perf_counter()
            model = load(name, device)
            self._load_seconds = time.perf_counter() - start
        self.subject = _subject(name, model)
        self.folder, _ = find(name)
        held_out = [] if texts is not None else self.subject.held_out()
        self.source = "given" if texts is not None else "held out" if held_out else "built-in"
        self.inputs = _evenly(self.subject.encode(texts or held_out or SENTENCES), MAX_TEXTS)
        if not self.inputs:
            raise DataError(f"{name}: no text to measure it with fits the model; give longer or other texts")
        self.contenders: list[Contender] = []
        self.skipped: list[Skipped] = []
        self.missing: list[Peer] = [peer for peer in PEERS if not peer.is_installed]

    @property
    def cases(self) -> tuple[Case, ...]:
        return self.subject.cases

    def prepare(self, temporary: Path) -> Iterator[str]:
        """Load everything, peers from exports in a temporary folder; yields the name of what is next."""
        with limited_threads(self.threads):
            for precision in get_args(Precision):
                yield f"{OURS} {precision}"
                self._add_ours(precision)
            for peer in PEERS:
                for precision in peer.precisions.get(self.device.type, ()) if peer.is_installed else ():
                    yield f"{peer.name} {precision}"
                    self._add_peer(peer, precision, temporary / f"{peer.package}-{precision}")

    def rounds(self, case: Case, rounds: int, seconds: float) -> Iterator[dict[str, Round]]:
        """Rounds in which all decode the same batches in turn."""
        decoders = {one.name: one.decode for one in self.contenders}
        texts = batches(self.inputs, case.batch)
        with limited_threads(self.threads):
            yield from measure(decoders, texts, case.beam, self.subject.limits, rounds, seconds)

    def _add_ours(self, precision: Precision) -> None:
        name = f"{OURS} {precision}"
        if precision == "int8" and (problem := int8_problem(self.device.type)):
            self.skipped.append(Skipped(name, problem))
            return
        model = copy(self.subject.model)
        model.precision = precision
        decode = type(self.subject)(model).decode  # pyright: ignore[reportArgumentType]
        self._add(name, decode, self._load_seconds)

    def _add_peer(self, peer: Peer, precision: str, out: Path) -> None:
        name, subject = f"{peer.name} {precision}", self.subject
        names = token_names(subject.model.tokenizer)
        exported = Exported(
            out, subject.translates, names, subject.ends, self.device, self.threads, precision
        )
        try:
            peer.export(self.folder, out, precision)
            start = time.perf_counter()
            decode = peer.load(exported)
            self._add(name, decode, time.perf_counter() - start)
        except ModelError as error:
            self.skipped.append(Skipped(name, str(error)))
        except (ImportError, OSError, RuntimeError, ValueError) as error:
            # An installed library may be broken, or lack support for this device.
            self.skipped.append(Skipped(name, f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"))

    def _add(self, name: str, decode: Decode, load_seconds: float) -> None:
        start, first = time.perf_counter(), self.inputs[:1]
        decode(first, 1, self.subject.limits(first))
        self.contenders.append(Contender(name, decode, load_seconds, time.perf_counter() - start))


@contextmanager
def limited_threads(count: int) -> Iterator[None]:
    """Inside, torch uses this many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _subject(name: str, model: Any) -> TranslationSpeed | LanguageSpeed:
    makers: dict[type, Callable[[Any], TranslationSpeed | LanguageSpeed]] = {
        TranslationModel: TranslationSpeed,
        LanguageModel: LanguageSpeed,
    }
    for kind, make in makers.items():
        if isinstance(model, kind) and (make is TranslationSpeed or isinstance(model.model, CausalModel)):
            return make(model)
    kind = getattr(model.model.config, "kind", type(model.model).__name__)
    raise ModelError(f"{name}: a model of kind '{kind}' is not measured; name a translator or a GPT")


def _evenly(texts: Sequence[list[int]], count: int) -> list[list[int]]:
    """A sample at even distances: files are often sorted by length."""
    return list(texts[:: max(1, len(texts) // count)][:count])
